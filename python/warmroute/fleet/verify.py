"""Whether a worker makes the same tokens as we do: it is asked for those of the canaries when it joins."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from warmroute.config import WorkerOptions
from warmroute.errors import WorkerError, WorkerReply, WorkerTimeout
from warmroute.fleet.canaries import Canary, canaries
from warmroute.fleet.facts import Model, Tokens
from warmroute.fleet.verdict import Difference, State, Verdict

# Canaries that are under way at one worker at the same time: it tokenizes on one thread, and serves besides.
CONCURRENCY = 4
# Models of one worker that are asked for; its other ones stay unverified.
MODELS_LIMIT = 8
BAD_REQUEST, NOT_FOUND = 400, 404


class PrompterPort(Protocol):
    """What the tokens of a prompt are here."""

    def tokenizer_of(self, model: str) -> str | None:
        """Name the tokenizer that a model's prompts are encoded with; `None` where there is none."""

    def special_tokens(self, model: str) -> list[str]:
        """The special tokens of a model's tokenizer."""

    def local_ids(self, path: str, body: bytes) -> tuple[list[int] | None, str | None]:
        """The ids of a body's prompt whatever is trusted, or the name of the reason why there are none."""


class ClientPort(Protocol):
    """How a worker is asked for tokens."""

    async def tokenize(self, worker: WorkerOptions, body: Mapping[str, Any]) -> Tokens:
        """The worker's own tokens, or `WorkerError`."""


class Verifier:
    """Compares a worker's tokens with ours, within a time."""

    def __init__(self, prompter: PrompterPort, client: ClientPort, timeout_s: float) -> None:
        """Take what encodes here, what asks there, and the seconds that a whole comparison may take."""
        self._prompter = prompter
        self._client = client
        self._timeout_s = timeout_s

    async def verify(self, worker: WorkerOptions, models: Sequence[Model]) -> dict[str, Verdict]:
        """The verdict on each of the worker's models that has a tokenizer here.

        A worker that fails or is too slow gets a verdict with an error, and no exception is raised.
        """
        verdicts: dict[str, Verdict] = {}
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        for names in _alike(models, self._prompter)[:MODELS_LIMIT]:
            asked = list(canaries(self._prompter.special_tokens(names[0])))
            comparison = _Comparison(self._client, worker, names[0], asked)
            await asyncio.to_thread(comparison.encode, self._prompter)
            try:
                async with asyncio.timeout_at(deadline):
                    await comparison.run()
            except TimeoutError:
                late = WorkerTimeout(f"the canaries took longer than {self._timeout_s:g} s")
                comparison.fail(late)
            verdicts |= dict.fromkeys(names, comparison.verdict())
        return verdicts


class _Comparison:
    """What comes of the canaries of one model at one worker."""

    def __init__(self, client: ClientPort, worker: WorkerOptions, model: str, asked: list[Canary]) -> None:
        self._client = client
        self._worker = worker
        self._model = model
        self._asked = asked
        self._ours: list[list[int] | None] = []
        self._chats_made = 0
        self._unmade = ""
        self._differences: list[Difference | None] = [None] * len(asked)
        self._equal = {False: 0, True: 0}
        self._max_model_len: int | None = None
        self._turns = asyncio.Semaphore(CONCURRENCY)
        self.error: WorkerError | None = None

    def encode(self, prompter: PrompterPort) -> None:
        """Make our own tokens; what cannot be made here is not compared."""
        for canary in self._asked:
            # As clients write it, not escaped: both sides read the same characters.
            body = json.dumps(self._body(canary), ensure_ascii=False).encode()
            ids, reason = prompter.local_ids(canary.path, body)
            self._ours.append(ids)
            if canary.is_chat:
                self._chats_made += ids is not None
                self._unmade = self._unmade or reason or ""

    async def run(self) -> None:
        """Ask for the worker's tokens. One canary alone first: a worker without `/tokenize` is asked once."""
        await self._ask(0)
        await asyncio.gather(*(self._ask(index) for index in range(1, len(self._asked))))

    async def _ask(self, index: int) -> None:
        async with self._turns:
            canary, ours = self._asked[index], self._ours[index]
            if ours is None or self.error is not None:
                return
            try:
                theirs = await self._client.tokenize(self._worker, self._body(canary))
            except WorkerError as error:
                # A worker may refuse what its template does not take, such as a chat that ends with the
                # assistant.
                if not (isinstance(error, WorkerReply) and error.status == BAD_REQUEST):
                    self.fail(error)
                return
        self._max_model_len = theirs.max_model_len
        self._differences[index] = Difference.between(canary, ours, theirs.ids)
        self._equal[canary.is_chat] += self._differences[index] is None

    def fail(self, error: WorkerError) -> None:
        """Not every answer comes; the first reason counts."""
        self.error = self.error or error

    def _body(self, canary: Canary) -> dict[str, Any]:
        return {"model": self._model, **canary.body}

    def verdict(self) -> Verdict:
        """What the answers mean; one that is not there says nothing."""
        found = [difference for difference in self._differences if difference is not None]
        text = next((one for one in found if not one.canary.is_chat), None)
        chat = text or next(iter(found), None)
        whole = self.error is None
        error = "" if self.error is None else str(self.error)
        if whole and not found and not any(self._equal.values()):
            error = "the worker takes none of the canaries"
        return Verdict(
            text=State.of(text, whole and self._equal[False] > 0),
            chat=State.of(chat, whole and self._equal[True] > 0),
            difference=chat,
            error=error,
            lasting=isinstance(self.error, WorkerReply) and self.error.status == NOT_FOUND,
            unmade="" if self._chats_made else self._unmade,
            max_model_len=self._max_model_len,
        )


def _alike(models: Sequence[Model], prompter: PrompterPort) -> list[list[str]]:
    """Names of models that have the same tokens, grouped: other names of one model, and its adapters.

    A model without a tokenizer here is left out.
    """
    roots = {model.id: model.root or model.id for model in models if model.parent is None}
    groups: dict[tuple[str, str], list[str]] = {}
    for model in sorted(models, key=lambda model: model.parent is not None):
        tokenizer = prompter.tokenizer_of(model.id)
        if tokenizer is not None:
            root = roots.get(model.parent or model.id, model.id)
            groups.setdefault((tokenizer, root), []).append(model.id)
    return list(groups.values())
