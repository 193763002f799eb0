"""What a worker says of itself, read from its `/v1/models` and `/metrics`. Both are untrusted text."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

# A worker that lists more than this is misconfigured or hostile; metrics and replies carry one entry a model.
MODELS_LIMIT = 256
NAME_LIMIT = 256

_CACHE_CONFIG = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_START_TIME = re.compile(r"^process_start_time_seconds(?:\{.*\})? (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of a worker's `/v1/models`."""

    id: str
    # vLLM says when it was asked, and not when the model was loaded.
    created: int = field(default=0, compare=False)
    owned_by: str = "vllm"
    max_model_len: int | None = None
    root: str | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """A worker's own tokens of a prompt."""

    ids: list[int]
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was learnt of a worker; `None` where it does not say."""

    models: tuple[Model, ...] = ()
    block_size: int | None = None
    kv_blocks: int | None = None
    prefix_caching: bool | None = None
    started: float | None = None
    version: str = ""

    @property
    def max_model_len(self) -> int | None:
        """The longest context that any of the worker's models takes, in tokens."""
        return max((model.max_model_len for model in self.models if model.max_model_len), default=None)


def read_models(text: str) -> tuple[Model, ...]:
    """Read `/v1/models`; raise `ValueError` where it is not OpenAI's list of models."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("/v1/models is nested too deeply") from None
    entries = document.get("data") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("/v1/models is not a list of models")
    models = tuple(_model(entry) for entry in entries[:MODELS_LIMIT])
    if not models:
        raise ValueError("/v1/models lists no model")
    return models


def _model(entry: Any) -> Model:
    name = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT:
        raise ValueError("/v1/models has an entry without a usable id")
    owner = entry.get("owned_by")
    return Model(
        id=name,
        created=_count(entry.get("created")) or 0,
        owned_by=owner[:NAME_LIMIT] if isinstance(owner, str) else "vllm",
        max_model_len=_count(entry.get("max_model_len")),
        root=_name(entry.get("root")),
        parent=_name(entry.get("parent")),
    )


def read_version(text: str) -> str:
    """Read `/version`; raise `ValueError` where it is not that."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("/version is nested too deeply") from None
    version = document.get("version") if isinstance(document, dict) else None
    return _name(version) or ""


def read_tokens(text: str) -> Tokens:
    """Read a reply of `/tokenize`; raise `ValueError` where it is none."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("/tokenize is nested too deeply") from None
    ids = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(ids, list) or not all(type(each) is int and 0 <= each < 2**32 for each in ids):
        raise ValueError("/tokenize gives no list of token ids")
    return Tokens(ids, _count(document.get("max_model_len")))


def read_metrics(text: str, models: tuple[Model, ...], dp_rank: int | None) -> Facts:
    """Read what `/metrics` says of the KV cache of one engine; a page without it gives facts without it."""
    engines = [dict(_LABEL.findall(labels)) for labels in _CACHE_CONFIG.findall(text)]
    rank = str(dp_rank or 0)
    engine = next((labels for labels in engines if labels.get("engine", "0") == rank), {})
    blocks = _count(engine.get("num_gpu_blocks"))
    caching = engine.get("enable_prefix_caching")
    start = _START_TIME.search(text)
    return Facts(
        models=models,
        block_size=_count(engine.get("block_size")),
        # One block is vLLM's null block: it holds no KV.
        kv_blocks=blocks - 1 if blocks and blocks > 1 else None,
        prefix_caching=caching == "True" if caching in ("True", "False") else None,
        started=_number(start.group(1)) if start else None,
    )


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= NAME_LIMIT else None


def _count(value: Any) -> int | None:
    """A positive integer, or nothing."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    return value if type(value) is int and 0 < value < 2**31 else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
