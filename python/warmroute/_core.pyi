"""The compiled part of warmroute.

`_Tokens` is a prompt as token ids: `bytes` of packed little-endian 32-bit ids (the fastest: no copy, and the
GIL is released for long prompts), any contiguous buffer of 32-bit integers (`array("I")`, numpy `uint32`: no
copy), a buffer of 64-bit integers, or a sequence of ints. A negative id, one above 4,294,967,295, and bytes
that are not a multiple of 4 raise `warmroute.errors.InvalidRequest`.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, final

from typing_extensions import Buffer

__all__ = [
    "PROMPT_CACHE_BYTES",
    "PROXY_OPTIONS",
    "ROUTER_OPTIONS",
    "SIM_OPTIONS",
    "Candidate",
    "Cost",
    "Decision",
    "Explanation",
    "Generation",
    "Lease",
    "Mirror",
    "OptionSpec",
    "Prompter",
    "Proxy",
    "RetryBudget",
    "Router",
    "RpcRequest",
    "RpcService",
    "RpcStream",
    "SimServer",
    "Tokenizer",
    "WorkerView",
    "__version__",
]

__version__: str

_Tokens: TypeAlias = Buffer | Sequence[int]
_Reason: TypeAlias = Literal["warm", "spill", "cold", "balance"]
_Outcome: TypeAlias = Literal["finished", "failed", "unreachable", "cancelled", "abandoned"]
_Rung: TypeAlias = Literal["client_ids", "local", "media", "worker", "text", "load_only"]
_State: TypeAlias = Literal["ready", "down", "draining"]
_Refusal: TypeAlias = Literal["model", "down", "draining", "avoided", "too-long", "at-limit", "failing"]

@final
class OptionSpec:
    """One option: its name, default, range, unit and what it does."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Literal["int", "float", "bool", "choice"]: ...
    @property
    def default(self) -> int | float | bool | str: ...
    @property
    def minimum(self) -> int | float | None: ...
    @property
    def maximum(self) -> int | float | None: ...
    @property
    def choices(self) -> list[str] | None: ...
    @property
    def unit(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def allowed(self) -> str: ...

ROUTER_OPTIONS: list[OptionSpec]
PROMPT_CACHE_BYTES: int
PROXY_OPTIONS: list[OptionSpec]
SIM_OPTIONS: list[OptionSpec]

@final
class Router:
    """Which worker should take this prompt: one prefix index and one ledger of load, for all threads.

    Make it after a fork: in a child, a lock that another thread of the parent held stays locked.
    """

    def __new__(cls, **options: int | float | bool | str) -> Router:
        """Make a router without workers.

        The keywords are the options in `ROUTER_OPTIONS`, such as `block_size=16` or `policy="round-robin"`.

        Raises:
            ConfigError: for an unknown option or a value outside its range.
        """

    @property
    def block_size(self) -> int:
        """Tokens in one KV block."""

    @property
    def policy(self) -> str:
        """The name of the policy in force."""

    def add_worker(
        self,
        name: str,
        *,
        url: str = "",
        kv_blocks: int | None = None,
        block_size: int | None = None,
        models: Sequence[str] | None = None,
        adapters: Sequence[str] | None = None,
        max_model_len: int | None = None,
        max_requests: int | None = None,
        dp_rank: int | None = None,
    ) -> None:
        """Take in a worker, ready and with nothing cached.

        `kv_blocks` bounds what is predicted of its cache, `max_model_len` is in tokens, no `models` means
        any, and `max_requests` is how many it may have at once. `adapters` are those of the `models` that are
        LoRA adapters: their blocks are apart from the base model's.

        Raises:
            ConfigError: for a name that is taken, or a block size that is not the router's.
        """

    def update_worker(
        self,
        name: str,
        *,
        url: str = "",
        kv_blocks: int | None = None,
        block_size: int | None = None,
        models: Sequence[str] | None = None,
        adapters: Sequence[str] | None = None,
        max_model_len: int | None = None,
        max_requests: int | None = None,
        dp_rank: int | None = None,
    ) -> None:
        """Replace what is known of a worker; its load and cache stay.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
            ConfigError: for a block size that is not the router's.
        """

    def set_ready(self, name: str, ready: bool) -> None:
        """Say whether a worker answers. One that does not is taken to have lost its cache.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def drain_worker(self, name: str) -> None:
        """Let a worker finish what it has, and give it nothing more.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def resume_worker(self, name: str) -> None:
        """Let a worker that drains take requests again.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def observe_worker(self, name: str, *, others: int, kv_usage: float, valid_s: float) -> None:
        """Take what a worker's own metrics say; it counts beside the bookings, for `valid_s` seconds.

        `others` are its requests that this router did not send, `kv_usage` is the share of its KV blocks in
        active use.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def wants_hits(self, name: str) -> bool:
        """Say whether the worker's counters should be read, for `observe_hits`.

        They should where it sends no events and its last replies did not say what it had cached.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def observe_hits(self, name: str, queries: int, hits: int) -> None:
        """Take a worker's own counts of tokens that were looked up in its prefix cache and found there.

        Where far fewer were found than expected, what was used before the last call is taken to be gone, and
        at the second time in a row everything.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def worker_activity(self, name: str) -> tuple[int, int, float]:
        """Give a worker's active requests, the signs of life of them so far, and its seconds of waiting.

        A sign of life is a first token, more output, or a reply that is whole.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    def remove_worker(self, name: str) -> None:
        """Forget a worker and everything it holds. Leases on it stay valid.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """

    @property
    def fleet_revision(self) -> int:
        """Counts changes of the fleet: while it is the same, `workers` gives the same."""

    def workers(self) -> list[WorkerView]:
        """Every worker; one that left gives its place to the next that joins."""

    def route(
        self,
        tokens: _Tokens,
        *,
        tenant: str = "",
        model: str | None = None,
        max_tokens: int | None = None,
        session: str | None = None,
        lora: str = "",
        cache_salt: str = "",
        avoid: Sequence[str] | None = None,
    ) -> Lease:
        """Choose a worker and book the load, in one step.

        Args:
            tokens: the prompt; see the module's own description.
            tenant: whose request it is.
            model: the model's name; `None` takes any worker.
            max_tokens: the most output tokens that the request allows.
            session: what `session-sticky` goes by.
            lora: the LoRA adapter's name.
            cache_salt: vLLM's `cache_salt`.
            avoid: names of workers that must not be chosen.

        Raises:
            InvalidRequest: for token ids that are none.
            UnknownWorker: for a name in `avoid` that the fleet does not have.
            UnknownModel: where every worker has told its models and none serves this one.
            PromptTooLong: where no eligible worker takes a prompt of this length.
            Saturated: where every eligible worker has as many requests as it may have.
            NoEligibleWorker: where no worker is ready.
        """

    def decide(
        self,
        tokens: _Tokens,
        *,
        tenant: str = "",
        model: str | None = None,
        max_tokens: int | None = None,
        session: str | None = None,
        lora: str = "",
        cache_salt: str = "",
        avoid: Sequence[str] | None = None,
    ) -> Decision:
        """Choose a worker and book nothing. Takes and raises what `route` does."""

    def explain(
        self,
        tokens: _Tokens,
        *,
        tenant: str = "",
        model: str | None = None,
        max_tokens: int | None = None,
        session: str | None = None,
        lora: str = "",
        cache_salt: str = "",
        avoid: Sequence[str] | None = None,
    ) -> Explanation:
        """Say where a request would go and every worker's part in it; books nothing.

        Takes what `route` does. Where no worker can be chosen, the explanation carries the error.

        Raises:
            InvalidRequest: for token ids that are none.
            UnknownWorker: for a name in `avoid` that the fleet does not have.
        """

    def explain_body(
        self, prompter: Prompter, endpoint: str, body: bytes, worker_tokens: bytes | None = None
    ) -> Explanation:
        """Explain a request's body as the HTTP router reads it.

        `endpoint` is the path it is meant for, such as `/v1/chat/completions`. `worker_tokens` are the ids
        that a worker gave, packed as little-endian `u32`, for a prompt whose tokens cannot be made here.

        Raises:
            InvalidRequest: for a path without a prompt, or a body that cannot be read.
        """

    def stats(self) -> dict[str, Any]:
        """Counters since the start and the state of the moment.

        Keys: `decisions` (by reason), `prompt_tokens`, `overlap_tokens`, `lower_tokens`, refusals
        (`unknown_model`, `prompt_too_long`, `no_eligible_worker`, `saturated`), ends (`finished`, `failed`,
        `cancelled`, `abandoned`), what workers reported (`reported`, `reported_prompt_tokens`,
        `reported_cached_tokens`, `reported_overlap_tokens`), `open` reservations, `index` and `workers`.
        """

@final
class Lease:
    """The booking of a request on its worker.

    The load is given back when the lease is closed, and where it is dropped without (counted as `abandoned`).
    As a context manager it closes itself: `finished`, `failed` where the block raises an `Exception`, and
    `cancelled` for what is none: a cancelled task, a closed generator, Ctrl-C.
    """

    @property
    def worker(self) -> str:
        """The worker's name."""

    @property
    def url(self) -> str:
        """Where the worker serves."""

    @property
    def dp_rank(self) -> int | None:
        """The worker's data-parallel rank, for vLLM's `X-data-parallel-rank`."""

    @property
    def overlap_tokens(self) -> int:
        """Leading tokens that the worker is taken to hold: whole blocks, never the last token."""

    @property
    def confirmed_tokens(self) -> int:
        """Those of them that a KV event confirmed."""

    @property
    def lower_tokens(self) -> int:
        """The tokens after them that the worker can bring back from its host's memory or a disk."""

    @property
    def prompt_tokens(self) -> int:
        """The prompt's length in tokens."""

    @property
    def predicted_ttft(self) -> float:
        """Seconds until the first token, as expected when the decision was made."""

    @property
    def reason(self) -> _Reason:
        """Why the worker was chosen."""

    @property
    def is_open(self) -> bool:
        """Whether the load is still booked."""

    def first_token(self) -> None:
        """Report the first token: the prefill share of the load goes. Later calls change nothing."""

    def progress(self, output_tokens: int) -> None:
        """Report how many output tokens there are so far."""

    def cached_tokens(self, tokens: int) -> None:
        """Report how many prompt tokens the worker says it had cached."""

    def close(self, outcome: _Outcome = "finished") -> bool:
        """Report the end: the load goes. Answers `False` where the lease was closed before.

        A worker that is `unreachable` three times in a row is left alone for a while, and then tried again.

        Raises:
            InvalidRequest: for an outcome that is none.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Decision:
    """The chosen worker, and what was expected of it."""

    @property
    def worker(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def dp_rank(self) -> int | None: ...
    @property
    def overlap_tokens(self) -> int: ...
    @property
    def confirmed_tokens(self) -> int: ...
    @property
    def lower_tokens(self) -> int: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def predicted_ttft(self) -> float: ...
    @property
    def reason(self) -> _Reason: ...

@final
class Cost:
    """The terms of a cost, in seconds."""

    @property
    def wait(self) -> float:
        """Until the prefill that the worker already has is done."""

    @property
    def transfer(self) -> float:
        """Until what lower tiers have of the prompt is back."""

    @property
    def prefill(self) -> float:
        """The request's own prefill."""

    @property
    def delay(self) -> float:
        """What that prefill delays the worker's other requests by."""

    @property
    def decode(self) -> float:
        """The share of decode steps that the worker's other requests take from this one."""

    @property
    def total(self) -> float:
        """The sum of the terms: what is minimised."""

@final
class Candidate:
    """One worker's part in a decision."""

    @property
    def worker(self) -> str: ...
    @property
    def state(self) -> _State: ...
    @property
    def refusal(self) -> _Refusal | None:
        """Why the worker may not take the request; `None` where it may."""

    @property
    def overlap_tokens(self) -> int: ...
    @property
    def confirmed_tokens(self) -> int: ...
    @property
    def lower_tokens(self) -> int: ...
    @property
    def requests(self) -> int:
        """Active requests."""

    @property
    def context_tokens(self) -> int:
        """Context tokens of the active requests."""

    @property
    def full(self) -> bool:
        """Whether the worker's KV blocks are nearly all in active use, which makes it a last resort."""

    @property
    def cost(self) -> Cost: ...

@final
class Explanation:
    """Where a request would go, and every worker's part in it."""

    @property
    def decision(self) -> Decision | None: ...
    @property
    def error(self) -> Exception | None:
        """Why no worker can be chosen; `None` where one can."""

    @property
    def rung(self) -> _Rung:
        """How the prompt was had."""

    @property
    def inexact(self) -> str | None:
        """The name of the reason why its tokens could not be made here; `None` where none were to be made."""

    @property
    def inexact_because(self) -> str | None:
        """That reason in words."""

    @property
    def candidates(self) -> list[Candidate]: ...

@final
class WorkerView:
    """A worker of the fleet, as known at one moment; `None` is not known."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def state(self) -> _State: ...
    @property
    def kv_blocks(self) -> int | None: ...
    @property
    def block_size(self) -> int | None: ...
    @property
    def models(self) -> list[str]: ...
    @property
    def adapters(self) -> list[str]:
        """Those of the models that are LoRA adapters."""

    @property
    def max_model_len(self) -> int | None: ...
    @property
    def max_requests(self) -> int | None: ...
    @property
    def dp_rank(self) -> int | None: ...

@final
class Mirror:
    """Keeps a router's index equal to one worker's KV cache, from the batches of events that it publishes.

    A batch is its number as it is sent (8 bytes, big-endian) and its payload (MessagePack). Every method that
    takes batches returns the number from which batches are missing and wanted, or `None`: ask the worker's
    replay socket, feed `replayed`, then call `replay_ended`, or `replay_failed` where it does not answer.
    `start` is the number that was asked for; an answer to an older question counts for nothing.
    Thread-safe; the GIL is released. Raises `UnknownWorker` once the worker has left the router.
    """

    def __new__(cls, router: Router, worker: str) -> Mirror:
        """Follow the worker of that name. Raises `UnknownWorker`."""

    def catch_up(self) -> int | None:
        """Ask for everything that can be had, because the worker may have published before."""

    def take(self, batches: Sequence[tuple[bytes, bytes]]) -> int | None:
        """Take batches as they are published. Numbers that are not 8 bytes are passed over."""

    def replayed(self, start: int, batches: Sequence[tuple[bytes, bytes]]) -> int | None:
        """Take batches that were asked for."""

    def replay_ended(self, start: int) -> int | None:
        """Everything that can be had has come; what is still missing is lost, and asked for again."""

    def replay_failed(self, start: int) -> int | None:
        """What was asked for cannot be had: what was confirmed counts as predicted from here on."""

    def restarted(self) -> None:
        """The worker is another process than before: its cache is empty and its numbers start again."""

    def confirmed(self) -> dict[str, Any]:
        """What the router's index holds as confirmed for the worker, in the engine's own names.

        Keys: `next` (the number of the batch that comes next), `live` (every one before it was applied),
        `blocks` (confirmed in the index, whatever their names) and `names` (of those, as 64-bit integers, in
        no order). Takes time and memory in proportion to the blocks.
        """

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and the blocks held; `fault` says what could not be read last."""

@final
class Prompter:
    """Turns request bodies into prompts, with a model's tokenizer and chat template or without."""

    def __new__(
        cls,
        tokenizer: str | None = None,
        *,
        models: Sequence[tuple[str, str | PathLike[str]]] | None = None,
        chat_template: str | PathLike[str] | None = None,
        chat_template_content_format: str = "auto",
        check_every: int = 0,
        prompt_cache_bytes: int | None = None,
    ) -> Prompter:
        """Load tokenizers; takes up to a few seconds each. Without one, prompts are matched as text.

        Args:
            tokenizer: a Hugging Face folder or a `tokenizer.json`, for every model that is not in `models`.
            models: pairs of a model's name and its tokenizer.
            chat_template: a file with a template to use in place of the one in the folder of `tokenizer`.
            chat_template_content_format: `auto`, `string` or `openai`, as vLLM's option of that name.
            check_every: one in so many prompts is made again by the reference and compared; 0 checks none.
            prompt_cache_bytes: what each tokenizer may keep of prompts that were seen; 0 keeps nothing;
                `PROMPT_CACHE_BYTES` if not given.

        Raises:
            ConfigError: for a path or a format that cannot be used.
        """

    def cache_stats(self) -> dict[str, int]:
        """What the caches of seen prompts did, all tokenizers together.

        Keys: `chats` (rendered over references), `full_by_template`, `full_by_request` (rendered in full),
        `known_raw_bytes` and `read_raw_bytes` of messages and tools, `known_text_bytes` and
        `encoded_text_bytes`, `bytes` held, `evicted` entries.
        """

    def check_stats(self) -> dict[str, Any]:
        """What the checks found.

        Keys: `checks`, `mismatches`, `skipped` (due while one was being checked, or in the rest after it),
        `failed` (came to no end), and `first`: of each model the first mismatch, with `model`, `position`,
        `used` and `expected`.
        """

    @property
    def has_tokenizer(self) -> bool:
        """Whether any model has a tokenizer."""

    @property
    def has_chat_template(self) -> bool:
        """Whether the tokenizer for every model has a chat template."""

    def tokenizer_of(self, model: str) -> str | None:
        """Name a model's tokenizer: the model where it is its own, empty where it is the one for all."""

    def fallback_reason(self, model: str) -> str | None:
        """Why a model's prompts are encoded by Hugging Face's slow tokenizers, where they are."""

    def renders_itself(self, model: str) -> str | None:
        """What vLLM knows a model by whose chats it renders by its own code; they have no template here."""

    def special_tokens(self, model: str) -> list[str]:
        """Give the special tokens of a model's tokenizer that have names."""

    def local_ids(self, endpoint: str, body: bytes) -> tuple[list[int] | None, str | None]:
        """Give the ids of a body's prompt, trusted or not, or the name of the reason why there are none.

        Raises:
            InvalidRequest: for a path without a prompt, or a body that cannot be read.
        """

    def set_trust(self, model: str, text: str, chat: str) -> None:
        """Say what is known of a model's tokens: each is `unverified`, `verified` or `refused`.

        Refused ones are not made from then on. `chat` is of the chat template, too.

        Raises:
            InvalidRequest: for another word.
        """

    def forget(self, model: str) -> None:
        """Forget what is known of a model's tokens."""

    def standing(self, model: str) -> tuple[str | None, str | None]:
        """Name the reasons why tokens of a model's texts and chats cannot be made here at all."""

@final
class Tokenizer:
    """A model's tokenizer and chat template: the tokens that the worker computes, in Rust.

    Safe to share between threads; the GIL is released while it works. Tokens are packed little-endian 32-bit
    ids, as `Router.route` takes them; `memoryview(tokens).cast("I")` has them as integers.
    """

    def __new__(
        cls,
        path_or_hub_id: str | PathLike[str],
        chat_template: str | PathLike[str] | None = None,
        chat_template_content_format: str = "auto",
        *,
        prompt_cache_bytes: int | None = None,
    ) -> Tokenizer:
        """Load a tokenizer; takes up to a few seconds.

        Args:
            path_or_hub_id: a Hugging Face folder, a `tokenizer.json`, or a hub id such as `Qwen/Qwen3-8B` or
                `Qwen/Qwen3-8B@REVISION`, which is fetched unless the hub's cache has it.
            chat_template: a file with a template to use in place of the folder's.
            chat_template_content_format: `auto`, `string` or `openai`, as vLLM's option of that name.
            prompt_cache_bytes: bytes that `tokens_for` may keep of prompts that were seen; 0 keeps nothing;
                `PROMPT_CACHE_BYTES` if not given.

        Raises:
            ConfigError: for a path, an id or a format that cannot be used, with what to do.
        """

    @property
    def has_chat_template(self) -> bool:
        """Whether chats can be rendered."""

    @property
    def fallback_reason(self) -> str | None:
        """Why Hugging Face's tokenizer encodes, and not the one that is fifty times as fast; or `None`."""

    def encode(self, text: str, add_special_tokens: bool = False) -> bytes:
        """Encode a text; `add_special_tokens` adds what stands around a whole prompt, such as BOS.

        Raises:
            InvalidRequest: for a text with lone surrogates.
        """

    def render(self, openai_body: dict[str, Any] | Buffer | str, endpoint: str = "chat") -> str:
        """Render the prompt of a request body: a dict, or JSON as bytes or text.

        `endpoint` is `chat`, `completions`, `responses` or `messages`, or the path of one.

        Raises:
            InvalidRequest: for a body that cannot be read, or another endpoint.
            TokensRefused: where the prompt cannot be had exactly.
        """

    def tokens_for(self, openai_body: dict[str, Any] | Buffer | str, endpoint: str = "chat") -> bytes:
        """Render and encode the prompt of a request body, as the HTTP router does it.

        Of a chat with media the ids are the worker's up to the first one. From there on they only tell
        prompts apart: two ids of 2**31 and above stand for each.

        A body as JSON bytes makes no Python objects. `endpoint` and errors are those of `render`.
        """

    def cache_stats(self) -> dict[str, int] | None:
        """What is kept of prompts that were seen, or `None` where nothing can be kept of this tokenizer's.

        Keys, all in bytes but the last: `known_raw_bytes` and `read_raw_bytes` of messages and tools,
        `known_text_bytes` and `encoded_text_bytes` of rendered text, `bytes` held, and `evicted` pieces.
        """

@final
class Proxy:
    """The HTTP router: forwards each request to the worker that the router chooses, without the GIL."""

    def __new__(
        cls,
        router: Router,
        prompter: Prompter,
        *,
        control: Callable[
            [str, str, str, bytes, dict[str, str]],
            tuple[int, str, bytes] | tuple[int, str, bytes, dict[str, str]],
        ],
        host: str = "127.0.0.1",
        port: int = 0,
        **options: float | str,
    ) -> Proxy:
        """Make a proxy that does not serve yet.

        Args:
            router: chooses the workers.
            prompter: reads the prompts.
            control: answers what is not forwarded: takes method, path, query, body and headers (names in
                small letters), and gives status, content type, body, and further headers where there are any.
                Called from several threads.
            host: the address to listen on.
            port: the port; 0 takes a free one.
            options: those in `PROXY_OPTIONS`.

        Raises:
            ConfigError: for an unknown option or a value outside its range.
        """

    def start(self) -> int:
        """Serve from now on, and say on which port.

        Raises:
            ConfigError: for an address that cannot be had.
        """

    def stats(self) -> dict[str, Any]:
        """Give the counters since the start; zeros before it.

        Keys: `requests` (kind, then ending), `prompts` (how each was had), `inexact` (why tokens were not
        made here), `asked` (what came of asking workers), `departures`, `retries`, `refusals`, the histograms
        `ttft`, `duration` and `decision` (`bounds` in seconds, `counts` of each bucket alone and last of what
        is above, `sum_seconds`), and plain counters.
        """

    @property
    def retry_budget(self) -> RetryBudget:
        """What its retries are taken from, for whatever else sends requests to the same workers."""

    def worker_tokens(self, endpoint: str, body: bytes) -> bytes | None:
        """Give the ids that a worker gave for a body before, packed as little-endian `u32`; asks nobody."""

    def drain(self, within_s: float) -> bool:
        """Take nothing new, wait for what runs, and close what is left; say whether all ended by itself."""

    def stop(self) -> None:
        """Close everything at once."""

@final
class SimServer:
    """A simulated vLLM worker that serves HTTP on a thread of its own."""

    def __new__(
        cls,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        model: str = "sim",
        tokenizer: str | None = None,
        events: tuple[str, str | None, str] | None = None,
        **options: float | str,
    ) -> SimServer:
        """Start a worker; it answers when this returns.

        Args:
            host: the address to listen on.
            port: the port; 0 takes a free one.
            model: the name of the model that it serves.
            tokenizer: a Hugging Face folder or a `tokenizer.json`; without one every four bytes are a token.
            events: endpoint, replay endpoint and topic of its KV events, as `/kv_event_sources` tells them;
                `take_events` and `replay_from` give what is to be published there.
            options: those in `SIM_OPTIONS`.

        Raises:
            ConfigError: for an option that cannot be, or an address that is taken.
        """

    @property
    def port(self) -> int: ...
    def take_events(self, limit: int, timeout_ms: int) -> list[tuple[int, bytes]]:
        """Take up to `limit` numbered event batches that were not taken before; waits for the first."""

    def replay_from(self, start: int) -> list[tuple[int, bytes]]:
        """Give the event batches that are still kept, from number `start` on."""

    def stats(self) -> dict[str, Any]:
        """Give the engine's totals and load; empty once it is stopped. Seconds are simulated.

        Keys: `now`, `prefix_queries` and `prefix_hits` (tokens), `busy_seconds`, `prefill_seconds`,
        `recompute_seconds` (prefill of tokens that had been computed before), `preemptions`, `running`,
        `waiting`, `peak_lag`.
        """

    def stop(self, grace_s: float = 0.0) -> None:
        """Take nothing more, wait up to `grace_s` real seconds for what runs, and end."""

@final
class RetryBudget:
    """How many requests may be sent to another worker: a share of recent ones, and a small floor.

    Every way in to one `Router` takes from the same budget, so that it bounds them together.
    """

    def __new__(cls, *, retry_share: float, retry_floor: float) -> RetryBudget:
        """Take the share of the requests of the last 10 s, and the retries a second in any case.

        Raises:
            ConfigError: for a value outside the range that `PROXY_OPTIONS` has for it.
        """

@final
class RpcService:
    """Answers the messages of `warmroute.v1.Router`: their bytes in, the bytes of their answers out.

    What a message is not answered for is raised as the exception of `warmroute.errors` that says so.
    """

    def __new__(
        cls,
        router: Router,
        prompter: Prompter,
        retry_budget: RetryBudget,
        *,
        max_reservations: int,
        lease_time_s: float,
    ) -> RpcService:
        """Take the router, what reads prompts, the budget of retries, and the bounds of reservations."""

    def takes_long(self, request: bytes, length: int, *, on_stream: bool = False) -> bool:
        """Whether a `RouteRequest` (a `RouteStreamRequest`) has a text of more bytes that is encoded here."""

    def route(self, request: bytes) -> bytes:
        """Answer a `RouteRequest` with a `RouteResponse`."""

    def read_route(self, request: bytes) -> RpcRequest:
        """Read a `RouteRequest`; may be called from any thread."""

    def route_read(self, asked: RpcRequest) -> bytes:
        """Answer a request that was read with a `RouteResponse`."""

    def report(self, request: bytes) -> bytes:
        """Answer a `ReportRequest` with a `ReportResponse`."""

    def decide(self, request: bytes) -> bytes:
        """Answer a `DecideRequest` with a `DecideResponse`."""

    def explain(self, request: bytes) -> bytes:
        """Answer an `ExplainRequest` with an `ExplainResponse`."""

    def generate(self, request: bytes, request_id: str) -> Generation:
        """Read a `GenerateRequest`; `request_id` names it where the caller does not."""

    def open_stream(self) -> RpcStream:
        """Open a stream: its reservations end with it."""

    def answer(self, stream: RpcStream, request: bytes) -> bytes:
        """Answer a `RouteStreamRequest` with a `RouteStreamResponse`, whatever it is."""

    def expire(self) -> int:
        """Abandon the reservations whose lease time ran out; says how many."""

    def drain(self) -> None:
        """Take nothing new from here on; reports are taken."""

    def stats(self) -> dict[str, int]:
        """Counters since the start and the state of the moment.

        Keys: `open` reservations, open `streams`, reservations that `expired` or `left_with_stream`, that
        were `refused` for want of room, and requests of `later_attempts`.
        """

@final
class RpcRequest:
    """A `RouteRequest` that was read."""

@final
class RpcStream:
    """A stream that owns reservations."""

    @property
    def is_empty(self) -> bool:
        """Whether no reservation is open."""

    def end(self) -> int:
        """Abandon the stream's reservations; says how many."""

@final
class Generation:
    """A request that is handed over. Dropped, it counts as cancelled."""

    def book(self) -> None:
        """Choose a worker and book it."""

    def book_another(self, outcome: _Outcome, *, free: bool) -> Literal["booked", "nobody", "denied"]:
        """Choose another worker after this outcome at the first.

        The first stays booked where `nobody` else takes the request, and where the retry budget has no retry.
        One that is `free` takes nothing from it: nobody did any work, as no connection could be had.
        """

    @property
    def worker(self) -> str:
        """The name of the worker that is booked."""

    @property
    def url(self) -> str:
        """Where the request goes."""

    @property
    def dp_rank(self) -> int | None:
        """The worker's data-parallel rank."""

    @property
    def request_id(self) -> str:
        """The request's name."""

    @property
    def body(self) -> bytes:
        """The body for the worker."""

    def routed(self) -> bytes | None:
        """The `GenerateResponse` that says which worker answers; `None` where none is booked."""

    def feed(self, data: bytes) -> tuple[list[bytes], bool, str | None]:
        """Take in bytes of the worker's reply.

        Gives the `GenerateResponse`s that they make, whether the reply is complete, and what the worker said
        where it failed.
        """

    def close(self, outcome: _Outcome) -> None:
        """End the booking, if it is open."""
