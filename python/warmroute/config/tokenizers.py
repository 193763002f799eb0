"""Tokenizers as people write them: `WHERE` for every model, `MODEL=WHERE` for one."""

from collections.abc import Sequence

from warmroute.config.hub import existing
from warmroute.errors import ConfigError

KEY = "prompt.tokenizer"


def tokenizers_of(texts: Sequence[str], source: str | None = None) -> tuple[str | None, dict[str, str]]:
    """Where the tokenizer for every model is, and those of single ones; two of one are a `ConfigError`."""
    default: str | None = None
    models: dict[str, str] = {}
    for text in texts:
        model, where = _split(text)
        if not where:
            raise ConfigError(KEY, text, "WHERE or MODEL=WHERE", source)
        if model in models or (not model and default is not None):
            raise ConfigError(KEY, text, "one tokenizer for each model, and one for the others", source)
        if model:
            models[model] = where
        else:
            default = where
    return default, models


def _split(text: str) -> tuple[str, str]:
    model, equals, where = text.partition("=")
    # A path may have the sign in it, too.
    if not equals or existing(text) is not None:
        return "", text.strip()
    return model.strip(), where.strip()
