from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Endpoint(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENDPOINT_UNSPECIFIED: _ClassVar[Endpoint]
    ENDPOINT_CHAT_COMPLETIONS: _ClassVar[Endpoint]
    ENDPOINT_COMPLETIONS: _ClassVar[Endpoint]
    ENDPOINT_RESPONSES: _ClassVar[Endpoint]
    ENDPOINT_MESSAGES: _ClassVar[Endpoint]

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_WARM: _ClassVar[Reason]
    REASON_SPILL: _ClassVar[Reason]
    REASON_COLD: _ClassVar[Reason]
    REASON_BALANCE: _ClassVar[Reason]

class Rung(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUNG_UNSPECIFIED: _ClassVar[Rung]
    RUNG_CLIENT_IDS: _ClassVar[Rung]
    RUNG_LOCAL: _ClassVar[Rung]
    RUNG_MEDIA: _ClassVar[Rung]
    RUNG_WORKER: _ClassVar[Rung]
    RUNG_TEXT: _ClassVar[Rung]
    RUNG_LOAD_ONLY: _ClassVar[Rung]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_FINISHED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_UNREACHABLE: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
    OUTCOME_ABANDONED: _ClassVar[Outcome]
ENDPOINT_UNSPECIFIED: Endpoint
ENDPOINT_CHAT_COMPLETIONS: Endpoint
ENDPOINT_COMPLETIONS: Endpoint
ENDPOINT_RESPONSES: Endpoint
ENDPOINT_MESSAGES: Endpoint
REASON_UNSPECIFIED: Reason
REASON_WARM: Reason
REASON_SPILL: Reason
REASON_COLD: Reason
REASON_BALANCE: Reason
RUNG_UNSPECIFIED: Rung
RUNG_CLIENT_IDS: Rung
RUNG_LOCAL: Rung
RUNG_MEDIA: Rung
RUNG_WORKER: Rung
RUNG_TEXT: Rung
RUNG_LOAD_ONLY: Rung
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_FINISHED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_UNREACHABLE: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_ABANDONED: Outcome

class RouteRequest(_message.Message):
    __slots__ = ("model", "token_ids", "token_list", "text", "openai", "tenant", "priority", "max_output_tokens", "lora", "cache_salt", "avoid_workers", "attempt", "request_id", "session", "max_alternatives")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LIST_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OPENAI_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LORA_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    AVOID_WORKERS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MAX_ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    model: str
    token_ids: bytes
    token_list: TokenList
    text: str
    openai: OpenAiBody
    tenant: str
    priority: int
    max_output_tokens: int
    lora: str
    cache_salt: str
    avoid_workers: _containers.RepeatedScalarFieldContainer[str]
    attempt: int
    request_id: str
    session: str
    max_alternatives: int
    def __init__(self, model: _Optional[str] = ..., token_ids: _Optional[bytes] = ..., token_list: _Optional[_Union[TokenList, _Mapping]] = ..., text: _Optional[str] = ..., openai: _Optional[_Union[OpenAiBody, _Mapping]] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., max_output_tokens: _Optional[int] = ..., lora: _Optional[str] = ..., cache_salt: _Optional[str] = ..., avoid_workers: _Optional[_Iterable[str]] = ..., attempt: _Optional[int] = ..., request_id: _Optional[str] = ..., session: _Optional[str] = ..., max_alternatives: _Optional[int] = ...) -> None: ...

class TokenList(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenAiBody(_message.Message):
    __slots__ = ("endpoint", "json")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    endpoint: Endpoint
    json: bytes
    def __init__(self, endpoint: _Optional[_Union[Endpoint, str]] = ..., json: _Optional[bytes] = ...) -> None: ...

class RouteResponse(_message.Message):
    __slots__ = ("decision", "reservation", "lease_time_ms")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LEASE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    reservation: int
    lease_time_ms: int
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., reservation: _Optional[int] = ..., lease_time_ms: _Optional[int] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("worker", "alternatives", "prompt_tokens", "overlap_tokens", "confirmed_tokens", "predicted_ttft_ms", "reason", "spill", "rung", "lower_tokens")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TTFT_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPILL_FIELD_NUMBER: _ClassVar[int]
    RUNG_FIELD_NUMBER: _ClassVar[int]
    LOWER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    worker: WorkerRef
    alternatives: _containers.RepeatedCompositeFieldContainer[Alternative]
    prompt_tokens: int
    overlap_tokens: int
    confirmed_tokens: int
    predicted_ttft_ms: float
    reason: Reason
    spill: Spill
    rung: Rung
    lower_tokens: int
    def __init__(self, worker: _Optional[_Union[WorkerRef, _Mapping]] = ..., alternatives: _Optional[_Iterable[_Union[Alternative, _Mapping]]] = ..., prompt_tokens: _Optional[int] = ..., overlap_tokens: _Optional[int] = ..., confirmed_tokens: _Optional[int] = ..., predicted_ttft_ms: _Optional[float] = ..., reason: _Optional[_Union[Reason, str]] = ..., spill: _Optional[_Union[Spill, _Mapping]] = ..., rung: _Optional[_Union[Rung, str]] = ..., lower_tokens: _Optional[int] = ...) -> None: ...

class WorkerRef(_message.Message):
    __slots__ = ("name", "url", "data_parallel_rank")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    DATA_PARALLEL_RANK_FIELD_NUMBER: _ClassVar[int]
    name: str
    url: str
    data_parallel_rank: int
    def __init__(self, name: _Optional[str] = ..., url: _Optional[str] = ..., data_parallel_rank: _Optional[int] = ...) -> None: ...

class Alternative(_message.Message):
    __slots__ = ("worker", "overlap_tokens", "predicted_ttft_ms", "cost_seconds")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TTFT_MS_FIELD_NUMBER: _ClassVar[int]
    COST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    worker: WorkerRef
    overlap_tokens: int
    predicted_ttft_ms: float
    cost_seconds: float
    def __init__(self, worker: _Optional[_Union[WorkerRef, _Mapping]] = ..., overlap_tokens: _Optional[int] = ..., predicted_ttft_ms: _Optional[float] = ..., cost_seconds: _Optional[float] = ...) -> None: ...

class Spill(_message.Message):
    __slots__ = ("left", "overlap_tokens", "wait_seconds", "cost_seconds", "chosen_cost_seconds")
    LEFT_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_COST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    left: WorkerRef
    overlap_tokens: int
    wait_seconds: float
    cost_seconds: float
    chosen_cost_seconds: float
    def __init__(self, left: _Optional[_Union[WorkerRef, _Mapping]] = ..., overlap_tokens: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., cost_seconds: _Optional[float] = ..., chosen_cost_seconds: _Optional[float] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("reservation", "first_token", "progress", "ended")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    reservation: int
    first_token: FirstToken
    progress: Progress
    ended: Ended
    def __init__(self, reservation: _Optional[int] = ..., first_token: _Optional[_Union[FirstToken, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ...) -> None: ...

class FirstToken(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Progress(_message.Message):
    __slots__ = ("output_tokens",)
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    output_tokens: int
    def __init__(self, output_tokens: _Optional[int] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("outcome", "output_tokens", "cached_tokens")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    output_tokens: int
    cached_tokens: int
    def __init__(self, outcome: _Optional[_Union[Outcome, str]] = ..., output_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ("lease_time_ms",)
    LEASE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    lease_time_ms: int
    def __init__(self, lease_time_ms: _Optional[int] = ...) -> None: ...

class RouteStreamRequest(_message.Message):
    __slots__ = ("id", "route", "report")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    id: int
    route: RouteRequest
    report: ReportRequest
    def __init__(self, id: _Optional[int] = ..., route: _Optional[_Union[RouteRequest, _Mapping]] = ..., report: _Optional[_Union[ReportRequest, _Mapping]] = ...) -> None: ...

class RouteStreamResponse(_message.Message):
    __slots__ = ("id", "route", "report", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    route: RouteResponse
    report: ReportResponse
    error: Error
    def __init__(self, id: _Optional[int] = ..., route: _Optional[_Union[RouteResponse, _Mapping]] = ..., report: _Optional[_Union[ReportResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "reason", "message", "retry_after_ms", "field")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    retry_after_ms: int
    field: str
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., field: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: RouteRequest
    def __init__(self, request: _Optional[_Union[RouteRequest, _Mapping]] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("decision",)
    DECISION_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: RouteRequest
    def __init__(self, request: _Optional[_Union[RouteRequest, _Mapping]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("decision", "error", "candidates", "inexact")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    INEXACT_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    error: Error
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    inexact: str
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., inexact: _Optional[str] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("worker", "state", "refusal", "overlap_tokens", "confirmed_tokens", "requests", "context_tokens", "full", "cost", "lower_tokens")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LOWER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    worker: WorkerRef
    state: str
    refusal: str
    overlap_tokens: int
    confirmed_tokens: int
    requests: int
    context_tokens: int
    full: bool
    cost: Cost
    lower_tokens: int
    def __init__(self, worker: _Optional[_Union[WorkerRef, _Mapping]] = ..., state: _Optional[str] = ..., refusal: _Optional[str] = ..., overlap_tokens: _Optional[int] = ..., confirmed_tokens: _Optional[int] = ..., requests: _Optional[int] = ..., context_tokens: _Optional[int] = ..., full: _Optional[bool] = ..., cost: _Optional[_Union[Cost, _Mapping]] = ..., lower_tokens: _Optional[int] = ...) -> None: ...

class Cost(_message.Message):
    __slots__ = ("wait", "prefill", "delay", "decode", "total", "transfer")
    WAIT_FIELD_NUMBER: _ClassVar[int]
    PREFILL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    wait: float
    prefill: float
    delay: float
    decode: float
    total: float
    transfer: float
    def __init__(self, wait: _Optional[float] = ..., prefill: _Optional[float] = ..., delay: _Optional[float] = ..., decode: _Optional[float] = ..., total: _Optional[float] = ..., transfer: _Optional[float] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("request", "sampling", "return_token_ids")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    request: RouteRequest
    sampling: Sampling
    return_token_ids: bool
    def __init__(self, request: _Optional[_Union[RouteRequest, _Mapping]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., return_token_ids: _Optional[bool] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "stop", "stop_token_ids", "min_tokens", "ignore_eos")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    min_tokens: int
    ignore_eos: bool
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., seed: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., min_tokens: _Optional[int] = ..., ignore_eos: _Optional[bool] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("routed", "chunk", "finished")
    ROUTED_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    routed: Routed
    chunk: Chunk
    finished: Finished
    def __init__(self, routed: _Optional[_Union[Routed, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ...) -> None: ...

class Routed(_message.Message):
    __slots__ = ("decision", "request_id", "attempt")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    request_id: str
    attempt: int
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., request_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("choice", "text", "token_ids", "reasoning", "tool_calls_json", "finish_reason")
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_JSON_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    choice: int
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    reasoning: str
    tool_calls_json: str
    finish_reason: str
    def __init__(self, choice: _Optional[int] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., reasoning: _Optional[str] = ..., tool_calls_json: _Optional[str] = ..., finish_reason: _Optional[str] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: Usage
    def __init__(self, usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "cached_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ...) -> None: ...
