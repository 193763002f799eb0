"""Python values as messages, and messages as Python values."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from typing_extensions import Buffer

from warmroute.errors import InvalidRequest
from warmroute.v1 import router_pb2 as pb

# A prompt: token ids (bytes of packed little-endian 32-bit ids, a buffer of 32-bit integers, ints), a text,
# or an OpenAI body as a mapping.
Prompt: TypeAlias = Buffer | Sequence[int] | str | Mapping[str, Any]
Outcome: TypeAlias = Literal["finished", "failed", "unreachable", "cancelled", "abandoned"]

OUTCOMES: dict[str, pb.Outcome] = {
    "finished": pb.OUTCOME_FINISHED,
    "failed": pb.OUTCOME_FAILED,
    "unreachable": pb.OUTCOME_UNREACHABLE,
    "cancelled": pb.OUTCOME_CANCELLED,
    "abandoned": pb.OUTCOME_ABANDONED,
}

# Messages on a stream that have no answer yet; whoever has one more waits until the router answers one.
MAX_UNANSWERED = 1_024
# A report waits no longer: what it says is soon old.
REPORT_S = 5.0
# What is reported for a caller who has left before the answer came.
LEFT = pb.Ended(outcome=pb.OUTCOME_CANCELLED)
# How long the end of a stream waits for the answers to what was sent on it.
LAST_ANSWERS_S = 5.0


class Terms(TypedDict, total=False):
    """What may be said of a request beside its prompt: fields of `RouteRequest`; `None` as if left out."""

    model: str
    tenant: str
    max_output_tokens: int | None
    lora: str
    cache_salt: str
    session: str
    avoid_workers: Sequence[str]
    priority: int
    request_id: str
    max_alternatives: int | None


def request_of(prompt: Prompt, **terms: Unpack[Terms]) -> pb.RouteRequest:
    """A `RouteRequest`."""
    if unknown := terms.keys() - Terms.__annotations__.keys():
        raise TypeError(f"{min(unknown)!r} is no term of a request: use {', '.join(Terms.__annotations__)}")
    given: dict[str, Any] = {name: value for name, value in terms.items() if value is not None}
    request = pb.RouteRequest(**given)
    if isinstance(prompt, str):
        request.text = prompt
    elif isinstance(prompt, Mapping):
        endpoint = pb.ENDPOINT_COMPLETIONS if "prompt" in prompt else pb.ENDPOINT_CHAT_COMPLETIONS
        body = json.dumps(prompt, ensure_ascii=False).encode()
        request.openai.CopyFrom(pb.OpenAiBody(endpoint=endpoint, json=body))
    else:
        request.token_ids = packed(prompt)
    return request


def packed(tokens: Buffer | Sequence[int]) -> bytes:
    """Token ids as packed little-endian 32-bit integers."""
    if isinstance(tokens, bytes):
        return tokens
    try:
        view = memoryview(tokens)  # type: ignore[arg-type]
    except TypeError:
        return _ints(tokens)  # type: ignore[arg-type]
    if view.format == "B":
        return view.tobytes()
    if view.itemsize == 4 and view.format.strip("<=@") in ("I", "L", "i", "l"):
        return view.tobytes()
    return _ints(view.tolist())


def _ints(tokens: Iterable[int]) -> bytes:
    try:
        return b"".join(token.to_bytes(4, "little") for token in tokens)
    except (AttributeError, OverflowError, TypeError):
        raise InvalidRequest("tokens are whole numbers from 0 to 4294967295", "token_ids") from None


def ended(outcome: str, output_tokens: int | None, cached_tokens: int | None) -> pb.Ended:
    """The end of a request."""
    if outcome not in OUTCOMES:
        raise InvalidRequest(f"outcome {outcome!r} is not known: use one of {', '.join(OUTCOMES)}")
    return pb.Ended(outcome=OUTCOMES[outcome], output_tokens=output_tokens, cached_tokens=cached_tokens)


def outcome_of(kind: type[BaseException] | None) -> Outcome:
    """How a block ended that was left with an exception of this type, or with none."""
    if kind is None:
        return "finished"
    # A task that is cancelled, a generator that is closed, Ctrl-C: whoever asked left.
    return "failed" if issubclass(kind, Exception) else "cancelled"


class Booked:
    """What was decided, and what there is to report."""

    def __init__(self, response: pb.RouteResponse) -> None:
        """Take the answer to a `RouteRequest`."""
        self.decision = response.decision
        self.id = response.reservation
        self.lease_time_s = response.lease_time_ms / 1000
        self._output_tokens: int | None = None
        self._cached_tokens: int | None = None
        self._open = True

    @property
    def worker(self) -> str:
        """The worker's name."""
        return self.decision.worker.name

    @property
    def url(self) -> str:
        """Where the worker serves."""
        return self.decision.worker.url

    @property
    def data_parallel_rank(self) -> int | None:
        """The worker's data-parallel rank, for vLLM's `X-data-parallel-rank`."""
        worker = self.decision.worker
        return worker.data_parallel_rank if worker.HasField("data_parallel_rank") else None

    @property
    def alternatives(self) -> list[pb.Alternative]:
        """The next best workers, best first."""
        return list(self.decision.alternatives)

    @property
    def prompt_tokens(self) -> int:
        """The prompt's length in tokens."""
        return self.decision.prompt_tokens

    @property
    def overlap_tokens(self) -> int:
        """Leading tokens that the worker is taken to hold."""
        return self.decision.overlap_tokens

    @property
    def predicted_ttft(self) -> float:
        """Seconds until the first token, as predicted."""
        return self.decision.predicted_ttft_ms / 1000

    @property
    def reason(self) -> str:
        """Why the worker was chosen: `warm`, `spill`, `cold` or `balance`."""
        return pb.Reason.Name(self.decision.reason).removeprefix("REASON_").lower()

    @property
    def is_open(self) -> bool:
        """Whether the end was not reported yet."""
        return self._open

    def cached_tokens(self, tokens: int) -> None:
        """Say how many prompt tokens the worker had cached; it is reported with the end."""
        self._cached_tokens = tokens

    def _ended(self, outcome: str) -> pb.ReportRequest | None:
        """The report of the end; `None` where it was made before."""
        end = ended(outcome, self._output_tokens, self._cached_tokens)
        if not self._open:
            return None
        self._open = False
        return pb.ReportRequest(reservation=self.id, ended=end)

    def _first_token(self) -> pb.ReportRequest:
        return pb.ReportRequest(reservation=self.id, first_token=pb.FirstToken())

    def _progress(self, output_tokens: int) -> pb.ReportRequest:
        self._output_tokens = output_tokens
        return pb.ReportRequest(reservation=self.id, progress=pb.Progress(output_tokens=output_tokens))

    def _renewal(self) -> pb.ReportRequest:
        return pb.ReportRequest(reservation=self.id)

    def __repr__(self) -> str:
        """Name the worker and the overlap."""
        return (
            f"{type(self).__name__}(worker={self.worker!r}, overlap_tokens={self.overlap_tokens}, "
            f"prompt_tokens={self.prompt_tokens}, reason={self.reason!r}, is_open={self.is_open})"
        )
