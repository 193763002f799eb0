import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from warmroute.config import WorkerOptions
from warmroute.errors import WorkerError, WorkerReply, WorkerUnreachable
from warmroute.fleet import Model, State, Verifier
from warmroute.fleet.canaries import CHATS, canaries
from warmroute.fleet.facts import Tokens
from warmroute.fleet.verify import CONCURRENCY

W1 = WorkerOptions(url="http://h:1", name="w1")
LLAMA = Model("llama", root="/models/llama")


def ids_of(body: Mapping[str, Any]) -> list[int]:
    """Tokens that depend on all of a prompt and on nothing of the model's name."""
    prompt = {key: value for key, value in body.items() if key != "model"}
    return [ord(char) for char in repr(sorted(prompt.items()))]


class FakePrompter:
    def __init__(self) -> None:
        self.models: dict[str, str | None] = {}
        self.refuses_chats = False

    def tokenizer_of(self, model: str) -> str | None:
        return self.models.get(model, "")

    def special_tokens(self, model: str) -> list[str]:
        return ["<|end|>", "x"]

    def local_ids(self, path: str, body: bytes) -> tuple[list[int] | None, str | None]:
        import json  # noqa: PLC0415

        if path == CHATS and self.refuses_chats:
            return None, "template"
        return ids_of(json.loads(body)), None


class FakeClient:
    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.answer: Callable[[Mapping[str, Any]], list[int]] = ids_of
        self.errors: Callable[[Mapping[str, Any]], WorkerError | None] = lambda _: None
        self.hangs: Callable[[Mapping[str, Any]], bool] = lambda _: False
        self.open = 0
        self.most_open = 0

    async def tokenize(self, worker: WorkerOptions, body: Mapping[str, Any]) -> Tokens:
        self.asked.append(body)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            await (asyncio.Event().wait() if self.hangs(body) else asyncio.sleep(0))
            if error := self.errors(body):
                raise error
            return Tokens(self.answer(body), 8192)
        finally:
            self.open -= 1


@pytest.fixture
def prompter() -> FakePrompter:
    return FakePrompter()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def verifier(prompter: FakePrompter, client: FakeClient) -> Verifier:
    return Verifier(prompter, client, timeout_s=0.2)


async def test_a_worker_with_the_same_tokens_is_verified(verifier: Verifier, client: FakeClient) -> None:
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat, verdict.difference) == (State.VERIFIED, State.VERIFIED, None)
    assert (verdict.error, verdict.max_model_len) == ("", 8192)
    assert 1 < client.most_open <= CONCURRENCY
    kinds = Counter("messages" in body for body in client.asked)
    assert (kinds[False] >= 15, kinds[True] >= 8) == (True, True)
    assert all(body["model"] == "llama" for body in client.asked)
    # A token of one character has no look-alike, and is none of its own.
    assert sum("<|end|>" in str(body) for body in client.asked) == 2


async def test_canaries_have_names_of_their_own() -> None:
    names = [canary.name for canary in canaries(["<s>", "</s>"])]
    assert len(names) == len(set(names))


async def test_a_text_that_differs_refuses_texts_and_chats(verifier: Verifier, client: FakeClient) -> None:
    def lies_once(body: Mapping[str, Any]) -> list[int]:
        ids = ids_of(body)
        return [*ids[:7], ids[7] + 1, *ids[8:]] if "Ångström" in str(body.get("prompt")) else ids

    client.answer = lies_once
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat) == (State.REFUSED, State.REFUSED)
    assert verdict.difference is not None
    document = verdict.difference.document()
    assert (document["canary"], document["position"]) == ("accents", 7)
    assert document["theirs"] == document["ours"] + 1


async def test_a_template_that_differs_refuses_chats_alone(verifier: Verifier, client: FakeClient) -> None:
    client.answer = lambda body: ids_of(body)[: -1 if "messages" in body else None]
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat) == (State.VERIFIED, State.REFUSED)
    assert verdict.difference is not None
    assert (verdict.difference.canary.name, verdict.difference.theirs) == ("chat", None)


async def test_a_worker_without_the_path_is_asked_once(verifier: Verifier, client: FakeClient) -> None:
    client.errors = lambda _: WorkerReply("/tokenize answers 404", 404)
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat, verdict.lasting) == (State.UNVERIFIED, State.UNVERIFIED, True)
    assert (verdict.error, len(client.asked)) == ("/tokenize answers 404", 1)


@pytest.mark.parametrize("error", [WorkerUnreachable("gone"), WorkerReply("500", 500)])
async def test_a_worker_that_fails_in_the_middle_is_not_verified(
    verifier: Verifier, client: FakeClient, error: WorkerError
) -> None:
    client.errors = lambda body: error if "tools" in body else None
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat, verdict.lasting) == (State.UNVERIFIED, State.UNVERIFIED, False)
    assert verdict.error == str(error)


async def test_what_a_worker_does_not_take_is_left_out(verifier: Verifier, client: FakeClient) -> None:
    client.errors = lambda body: WorkerReply("400", 400) if "tools" in body else None
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat, verdict.error) == (State.VERIFIED, State.VERIFIED, "")


async def test_a_worker_that_takes_nothing_is_not_verified(verifier: Verifier, client: FakeClient) -> None:
    client.errors = lambda _: WorkerReply("400", 400)
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.error) == (State.UNVERIFIED, "the worker takes none of the canaries")


async def test_a_slow_worker_is_waited_for_no_longer_than_the_bound(
    verifier: Verifier, client: FakeClient
) -> None:
    client.hangs = lambda body: "messages" in body
    async with asyncio.timeout(5):
        verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.lasting) == (State.UNVERIFIED, False)
    assert "longer than 0.2 s" in verdict.error


async def test_a_difference_counts_also_where_the_rest_is_too_slow(
    verifier: Verifier, client: FakeClient
) -> None:
    client.answer = lambda body: [0, *ids_of(body)]
    client.hangs = lambda body: "messages" in body
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat) == (State.REFUSED, State.REFUSED)


async def test_names_and_adapters_of_one_model_are_compared_once(
    verifier: Verifier, prompter: FakePrompter, client: FakeClient
) -> None:
    prompter.models = {"other": None, "own": "own"}
    models = [
        Model("adapter", root="/lora", parent="llama"),
        LLAMA,
        Model("alias", root="/models/llama"),
        Model("own", root="/models/llama"),
        Model("other"),
    ]
    verdicts = await verifier.verify(W1, models)
    assert sorted(verdicts) == ["adapter", "alias", "llama", "own"]
    assert {body["model"] for body in client.asked} == {"llama", "own"}
    assert verdicts["adapter"] is verdicts["llama"]


async def test_chats_that_cannot_be_rendered_here_are_not_compared(
    verifier: Verifier, prompter: FakePrompter, client: FakeClient
) -> None:
    prompter.refuses_chats = True
    verdict = (await verifier.verify(W1, [LLAMA]))["llama"]
    assert (verdict.text, verdict.chat, verdict.unmade) == (State.VERIFIED, State.UNVERIFIED, "template")
    assert not any("messages" in body for body in client.asked)
