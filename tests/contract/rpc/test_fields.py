"""Every field of a request changes what it says it changes, and every field of an answer is there."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest

import warmroute
from tests.contract.rpc.conftest import Endpoint, StartEndpoint
from warmroute.v1 import router_pb2 as pb

IDS = array("I", range(1, 1_001)).tobytes()


def request(**fields: Any) -> pb.RouteRequest:
    return pb.RouteRequest(**{"token_ids": IDS, **fields})


async def end(endpoint: Endpoint, response: pb.RouteResponse) -> None:
    ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
    await endpoint.stub.Report(pb.ReportRequest(reservation=response.reservation, ended=ended))


async def overlap(endpoint: Endpoint, **fields: Any) -> int:
    """The best overlap that a worker is taken to have with a prompt."""
    explained = await endpoint.stub.Explain(pb.ExplainRequest(request=request(**fields)))
    best: int = max(candidate.overlap_tokens for candidate in explained.candidates)
    return best


async def test_an_answer_has_every_field(endpoint: Endpoint) -> None:
    first = await endpoint.stub.Route(request(max_alternatives=2))
    assert first.decision.worker.url.startswith("http://10.0.0.")
    assert first.decision.prompt_tokens == 1_000
    assert first.decision.reason == pb.REASON_COLD
    assert first.decision.rung == pb.RUNG_CLIENT_IDS
    assert first.decision.predicted_ttft_ms > 1
    assert (first.reservation > 0, first.lease_time_ms) == (True, 60_000)
    (other,) = first.decision.alternatives
    assert {other.worker.name, first.decision.worker.name} == {"w1", "w2"}
    assert other.predicted_ttft_ms > 1
    assert other.cost_seconds > 0
    ranks = {each.name: each.data_parallel_rank for each in (other.worker, first.decision.worker)}
    assert ranks == {"w1": 0, "w2": 3}
    assert not next(each for each in (other.worker, first.decision.worker) if each.name == "w1").HasField(
        "data_parallel_rank"
    )
    second = await endpoint.stub.Route(request())
    assert second.decision.worker.name == first.decision.worker.name
    assert (second.decision.reason, second.decision.overlap_tokens) == (pb.REASON_WARM, 992)
    assert second.decision.confirmed_tokens == 0
    assert second.reservation != first.reservation
    await end(endpoint, first)
    await end(endpoint, second)
    assert endpoint.open == 0


@pytest.mark.parametrize(
    "same",
    [
        {"token_list": pb.TokenList(ids=range(1, 1_001))},
        {
            "openai": pb.OpenAiBody(
                endpoint=pb.ENDPOINT_COMPLETIONS, json=json.dumps({"prompt": list(range(1, 1_001))}).encode()
            )
        },
    ],
)
async def test_the_same_ids_are_the_same_prompt_however_they_come(
    endpoint: Endpoint, same: dict[str, Any]
) -> None:
    await endpoint.stub.Route(request())
    response = await endpoint.stub.Route(pb.RouteRequest(**same))
    assert (response.decision.overlap_tokens, response.decision.prompt_tokens) == (992, 1_000)
    assert response.decision.rung == pb.RUNG_CLIENT_IDS


async def test_texts_and_bodies_are_matched_as_text_without_a_tokenizer(endpoint: Endpoint) -> None:
    words = "a word " * 400
    await endpoint.stub.Route(pb.RouteRequest(text=words))
    body = json.dumps({"prompt": words + "and more"}).encode()
    completion = pb.OpenAiBody(endpoint=pb.ENDPOINT_COMPLETIONS, json=body)
    response = await endpoint.stub.Route(pb.RouteRequest(openai=completion))
    assert (response.decision.rung, response.decision.reason) == (pb.RUNG_TEXT, pb.REASON_WARM)
    assert response.decision.overlap_tokens == 688
    chat = {"messages": [{"role": "user", "content": words}]}
    endpoints = {
        pb.ENDPOINT_UNSPECIFIED: chat,
        pb.ENDPOINT_CHAT_COMPLETIONS: chat,
        pb.ENDPOINT_RESPONSES: {"input": words},
        pb.ENDPOINT_MESSAGES: chat,
    }
    for kind, document in endpoints.items():
        openai = pb.OpenAiBody(endpoint=kind, json=json.dumps(document).encode())
        assert (await endpoint.stub.Route(pb.RouteRequest(openai=openai))).decision.rung == pb.RUNG_TEXT


@pytest.mark.parametrize("field", ["model", "lora", "cache_salt"])
async def test_names_that_separate_prompts(endpoint: Endpoint, field: str) -> None:
    await endpoint.stub.Route(request(**{field: "one"}))
    assert await overlap(endpoint, **{field: "one"}) == 992
    assert await overlap(endpoint, **{field: "two"}) == 0
    assert await overlap(endpoint) == 0


async def test_the_salt_and_the_user_of_a_body(endpoint: Endpoint) -> None:
    def body(**fields: Any) -> pb.OpenAiBody:
        document = {"prompt": list(range(1, 1_001)), **fields}
        return pb.OpenAiBody(endpoint=pb.ENDPOINT_COMPLETIONS, json=json.dumps(document).encode())

    await endpoint.stub.Route(pb.RouteRequest(openai=body(cache_salt="one", model="m")))
    explained = await endpoint.stub.Explain(pb.ExplainRequest(request=request(cache_salt="one", model="m")))
    assert max(each.overlap_tokens for each in explained.candidates) == 992
    named = pb.RouteRequest(openai=body(model="m"), model="m", tenant="t")
    assert (await endpoint.stub.Route(named)).decision.prompt_tokens == 1_000


async def test_workers_to_avoid(endpoint: Endpoint) -> None:
    for avoided, left in (("w1", "w2"), ("w2", "w1")):
        response = await endpoint.stub.Route(request(avoid_workers=[avoided, "gone"]))
        assert response.decision.worker.name == left
        assert [each.worker.name for each in response.decision.alternatives] == []


async def test_how_many_alternatives(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router()
    for i in range(20):
        router.add_worker(f"w{i}", url=f"http://10.0.0.{i}:8000")
    async with start_endpoint(router) as endpoint:
        for asked, given in ((None, 2), (0, 0), (1, 1), (16, 16)):
            response = await endpoint.stub.Route(request(max_alternatives=asked))
            others = [each.worker.name for each in response.decision.alternatives]
            assert len(others) == len(set(others)) == given
            assert response.decision.worker.name not in others
            costs = [each.cost_seconds for each in response.decision.alternatives]
            assert costs == sorted(costs)


async def test_a_spill_says_what_was_left(endpoint: Endpoint) -> None:
    router = endpoint.router
    router.set_ready("w2", False)
    for prompt in range(4):
        ids = array("I", range(prompt * 10_000, prompt * 10_000 + 8_000)).tobytes()
        await endpoint.stub.Route(request(token_ids=ids))
    router.set_ready("w2", True)
    response = await endpoint.stub.Route(request(token_ids=array("I", range(8_000)).tobytes()))
    decision = response.decision
    assert (decision.worker.name, decision.reason) == ("w2", pb.REASON_SPILL)
    assert (decision.spill.left.name, decision.spill.overlap_tokens) == ("w1", 7_984)
    assert decision.spill.wait_seconds > 0
    assert decision.spill.cost_seconds > decision.spill.chosen_cost_seconds > 0


async def test_output_tokens_are_learnt_by_tenant(endpoint: Endpoint) -> None:
    async def expected(**fields: Any) -> float:
        """What is expected of the reply, read off the decode term while another request runs."""
        explained = await endpoint.stub.Explain(pb.ExplainRequest(request=request(**fields)))
        decode: float = max(candidate.cost.decode for candidate in explained.candidates)
        return decode

    await endpoint.stub.Route(request())
    assert await expected(max_output_tokens=8) < await expected() < await expected(max_output_tokens=4_096)
    for tenant, tokens in (("terse", 4), ("wordy", 400)):
        for _ in range(10):
            response = await endpoint.stub.Route(request(tenant=tenant))
            ended = pb.Ended(outcome=pb.OUTCOME_FINISHED, output_tokens=tokens)
            await endpoint.stub.Report(pb.ReportRequest(reservation=response.reservation, ended=ended))
    assert await expected(tenant="terse") < await expected(tenant="wordy")


async def test_the_session_decides_where_the_policy_goes_by_it(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router(policy="session-sticky")
    for i in range(8):
        router.add_worker(f"w{i}", url=f"http://10.0.0.{i}:8000")
    async with start_endpoint(router) as endpoint:
        chosen: dict[str, set[str]] = {}
        for turn in range(40):
            session = f"s{turn % 8}"
            ids = array("I", range(turn * 1_000, turn * 1_000 + 100)).tobytes()
            response = await endpoint.stub.Route(request(token_ids=ids, session=session))
            chosen.setdefault(session, set()).add(response.decision.worker.name)
        assert all(len(workers) == 1 for workers in chosen.values())
        assert len(set().union(*chosen.values())) > 1


async def test_decide_and_explain_book_nothing(endpoint: Endpoint) -> None:
    await endpoint.stub.Route(request())
    decided = await endpoint.stub.Decide(pb.DecideRequest(request=request(max_alternatives=1)))
    assert (decided.decision.overlap_tokens, decided.decision.reason) == (992, pb.REASON_WARM)
    assert len(decided.decision.alternatives) == 1
    explained = await endpoint.stub.Explain(pb.ExplainRequest(request=request(avoid_workers=["w2"])))
    assert explained.decision.worker == decided.decision.worker or explained.decision.worker.name == "w1"
    candidates = {each.worker.name: each for each in explained.candidates}
    assert set(candidates) == {"w1", "w2"}
    assert (candidates["w2"].refusal, candidates["w1"].refusal) == ("avoided", "")
    assert {each.state for each in explained.candidates} == {"ready"}
    assert sum(each.requests for each in explained.candidates) == 1
    assert sum(each.context_tokens for each in explained.candidates) == 1_000
    for each in explained.candidates:
        terms = each.cost.wait + each.cost.transfer + each.cost.prefill + each.cost.delay + each.cost.decode
        assert each.cost.total == pytest.approx(terms)
        assert not each.full
        assert each.confirmed_tokens == each.lower_tokens == 0
    assert endpoint.open == 1
    text = await endpoint.stub.Explain(pb.ExplainRequest(request=pb.RouteRequest(text="words")))
    assert text.inexact == "no_tokenizer"


async def test_an_explanation_says_why_there_is_no_worker(endpoint: Endpoint) -> None:
    for name in ("w1", "w2"):
        endpoint.router.drain_worker(name)
    explained = await endpoint.stub.Explain(pb.ExplainRequest(request=request()))
    assert not explained.HasField("decision")
    assert (explained.error.code, explained.error.reason) == (14, "NO_ELIGIBLE_WORKER")
    assert {each.refusal for each in explained.candidates} == {"draining"}


async def test_reports_change_the_load_and_the_truth(endpoint: Endpoint) -> None:
    def load() -> dict[str, Any]:
        workers = endpoint.router.stats()["workers"]
        return next(worker for worker in workers if worker["requests"])

    response = await endpoint.stub.Route(request())
    assert (load()["prefilling"], load()["context_tokens"]) == (1, 1_000)
    report = pb.ReportRequest(reservation=response.reservation, first_token=pb.FirstToken())
    assert (await endpoint.stub.Report(report)).lease_time_ms == 60_000
    assert (load()["prefilling"], load()["queued_tokens"]) == (0, 0)
    for tokens in (50, 20):
        progress = pb.Progress(output_tokens=tokens)
        await endpoint.stub.Report(pb.ReportRequest(reservation=response.reservation, progress=progress))
        assert load()["context_tokens"] == 1_050
    ended = pb.Ended(outcome=pb.OUTCOME_FINISHED, output_tokens=60, cached_tokens=16)
    report = pb.ReportRequest(reservation=response.reservation, ended=ended)
    assert (await endpoint.stub.Report(report)).lease_time_ms == 0
    stats = endpoint.router.stats()
    assert (stats["open"], stats["finished"], stats["reported_cached_tokens"]) == (0, 1, 16)


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (pb.OUTCOME_FINISHED, "finished"),
        (pb.OUTCOME_FAILED, "failed"),
        (pb.OUTCOME_UNREACHABLE, "failed"),
        (pb.OUTCOME_CANCELLED, "cancelled"),
        (pb.OUTCOME_ABANDONED, "abandoned"),
    ],
)
async def test_every_outcome(endpoint: Endpoint, outcome: pb.Outcome, counted: str) -> None:
    response = await endpoint.stub.Route(request())
    ended = pb.Ended(outcome=outcome)
    await endpoint.stub.Report(pb.ReportRequest(reservation=response.reservation, ended=ended))
    assert (endpoint.router.stats()[counted], endpoint.open) == (1, 0)
