"""Where a tokenizer is: a path as it stands, or a snapshot of a repository of the Hugging Face hub."""

import re
from pathlib import Path

from warmroute.errors import ConfigError

ALLOWED = (
    "a folder with a tokenizer.json, a tokenizer.json, or a hub id such as Qwen/Qwen3-8B, "
    "with @REVISION where it is not the main one"
)

# Everything that decides how text becomes tokens, and no weights. The files of Mistral's own format are among
# them because their presence makes vLLM encode with another library.
FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
    "params.json",
    "tekken.json",
    "tokenizer.model.v*",
)

_HUB_ID = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[\w./-]+))?")


def resolve_tokenizer(value: str, key: str = "tokenizer") -> str:
    """Return the path that `value` names; for a hub id, that of its snapshot in the hub's cache.

    A path that exists is never taken for a hub id. The library `huggingface_hub` fetches what the cache
    lacks, and obeys its own environment: `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`. Without a
    network, the cache serves. Blocks on the network: not for an event loop's thread.

    Raises `ConfigError` for `key`, which says what to do.
    """
    path = existing(value)
    if path is not None:
        return str(path)
    match = _HUB_ID.fullmatch(value)
    if match is None:
        raise ConfigError(key, value, f"there is no such file or folder; use {ALLOWED}")
    try:
        return _snapshot(match["repository"], match["revision"])
    # The library passes on whatever its HTTP client raises, and that client changes with its version.
    except Exception as error:
        raise ConfigError(key, value, f"{_advice(error)}; use {ALLOWED}") from error


def existing(value: str) -> Path | None:
    """Return the path that `value` names where there is a file or a folder; any other text names none."""
    try:
        path = Path(value).expanduser()
        return path if value and path.exists() else None
    except (OSError, RuntimeError):  # a name too long for a file, a `~NAME` of nobody
        return None


def _snapshot(repository: str, revision: str | None) -> str:
    import huggingface_hub  # noqa: PLC0415 - most of a second, and only hub ids need it

    return str(huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=list(FILES)))


def _advice(error: Exception) -> str:
    from huggingface_hub import errors  # noqa: PLC0415

    if isinstance(error, errors.GatedRepoError):
        return "the hub asks for a token of an account that accepted the model's licence: set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "there is no such folder, and no such repository on the hub (a private one needs HF_TOKEN)"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the repository has no such revision"
    if isinstance(error, errors.HFValidationError):
        return "there is no such folder, and it is no id of a repository"
    what = "the hub cannot be reached, and its cache lacks the files"
    return f"{what} ({type(error).__name__}): fetch them with `hf download` where there is a network"
