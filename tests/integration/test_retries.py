"""A failure before the first byte goes once more, to another worker; nothing else does."""

from __future__ import annotations

import pytest

from tests.integration.conftest import StartRouter
from tests.integration.test_generate import asked, fault, grpc_router
from tests.support.bodies import assert_openai_error, chat
from tests.support.fake_worker import Behaviour, Exchange, FakeWorker, answer, closes_at_once, error, garbage
from tests.support.http import request
from tests.support.process import Router

CHAT = "/v1/chat/completions"

RETRIED = {
    "502": error(502),
    "503": error(503),
    "closed": closes_at_once,
}


class Attempts:
    """Plays behaviours in the order of arrival over a fleet, and remembers who got which."""

    def __init__(self, workers: list[FakeWorker], *behaviours: Behaviour) -> None:
        self.by: list[FakeWorker] = []
        self._behaviours = list(behaviours)
        for worker in workers:
            worker.always(self._play(worker))

    def _play(self, worker: FakeWorker) -> Behaviour:
        async def play(exchange: Exchange) -> None:
            self.by.append(worker)
            await self._behaviours[min(len(self.by), len(self._behaviours)) - 1](exchange)

        return play


@pytest.mark.parametrize("failure", RETRIED.values(), ids=RETRIED.keys())
@pytest.mark.parametrize("stream", [False, True])
async def test_another_worker_answers(
    pair: list[FakeWorker], pair_router: Router, failure: Behaviour, stream: bool
) -> None:
    attempts = Attempts(pair, failure, answer)
    body = chat("the same bytes both times", stream=stream)
    reply = await request(pair_router.port, CHAT, body)
    assert reply.status == 200
    assert len(set(attempts.by)) == len(attempts.by) == 2
    first, second = (worker.exchanges[0].request for worker in attempts.by)
    assert first.body == second.body
    names = [await pair_router.worker_name(worker.url) for worker in attempts.by]
    assert reply.get("x-warmroute-worker") == names[1]


async def test_a_worker_that_refuses_connections_is_stepped_over(
    pair: list[FakeWorker], pair_router: Router
) -> None:
    await pair[0].stop()
    for number in range(10):
        assert (await request(pair_router.port, CHAT, chat(f"{number}"))).status == 200
    assert len(pair[1].exchanges) == 10
    await pair[0].start()


@pytest.mark.parametrize("status", [502, 503])
async def test_it_is_tried_twice_and_no_more(
    pair: list[FakeWorker], pair_router: Router, status: int
) -> None:
    attempts = Attempts(pair, error(status))
    reply = await request(pair_router.port, CHAT, chat())
    assert reply.status == status
    assert reply.json()["error"]["message"] == f"scripted {status}"
    assert len(attempts.by) == 2


async def test_a_worker_that_says_when_to_come_back_is_taken_at_its_word(
    pair: list[FakeWorker], pair_router: Router
) -> None:
    attempts = Attempts(pair, error(503, [("retry-after", "9")]), answer)
    reply = await request(pair_router.port, CHAT, chat())
    assert (reply.status, reply.get("retry-after")) == (503, "9")
    assert len(attempts.by) == 1


@pytest.mark.parametrize("status", [400, 404, 408, 409, 422, 429, 500, 501, 504])
async def test_other_errors_are_final(pair: list[FakeWorker], pair_router: Router, status: int) -> None:
    attempts = Attempts(pair, error(status, [("retry-after", "9")]), answer)
    reply = await request(pair_router.port, CHAT, chat())
    assert reply.status == status
    assert reply.get("retry-after") == "9"
    assert len(attempts.by) == 1


async def test_what_is_not_http_is_final(pair: list[FakeWorker], pair_router: Router) -> None:
    attempts = Attempts(pair, garbage(b"not http\r\n\r\n"), answer)
    assert_openai_error(await request(pair_router.port, CHAT, chat()), 502)
    assert len(attempts.by) == 1


async def test_a_fleet_of_one_is_not_tried_again(worker: FakeWorker, router: Router) -> None:
    worker.then(closes_at_once)
    assert_openai_error(await request(router.port, CHAT, chat()), 502)
    assert len(worker.exchanges) == 1


async def test_retries_come_from_a_budget(pair: list[FakeWorker], pair_router: Router) -> None:
    Attempts(pair, error(503))
    sent = 300
    for number in range(sent):
        assert (await request(pair_router.port, CHAT, chat(f"{number}"))).status == 503
    received = sum(len(worker.exchanges) for worker in pair)
    assert received <= sent * 1.1 + 20


async def test_one_budget_bounds_http_and_grpc_together(
    start_router: StartRouter, pair: list[FakeWorker]
) -> None:
    attempts = Attempts(pair, error(503))
    # Two in the ten seconds that count, whatever the number of requests.
    flags = ("--retry-share", "0", "--retry-floor", "0.2")
    async with grpc_router(start_router, *pair, flags=flags) as (router, stub):
        assert (await request(router.port, CHAT, chat())).status == 503
        await fault(stub.Generate(asked()))
        assert len(attempts.by) == 4
        assert (await request(router.port, CHAT, chat())).status == 503
        await fault(stub.Generate(asked()))
        assert len(attempts.by) == 6
        metrics = (await router.get("/metrics")).body.decode()
    assert "warmroute_retries_denied_total 1.0" in metrics
    assert "warmroute_grpc_retries_denied_total 1.0" in metrics
    assert "warmroute_grpc_retries_total 1.0" in metrics
