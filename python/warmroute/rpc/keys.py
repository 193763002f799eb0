"""API keys: who may call. Keys are compared in constant time, and are kept as digests only."""

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from warmroute.errors import ConfigError, Forbidden, Unauthorized

_MESSAGE = "no API key, or none that is known: send `authorization: Bearer KEY` or `x-api-key: KEY`"


class Keys:
    """The keys that are known; without any, everybody may call."""

    def __init__(self, keys: Iterable[str]) -> None:
        """Take the keys."""
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        """Whether a key is needed."""
        return bool(self._digests)

    def check(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> None:
        """Raise `Unauthorized` unless the metadata of a call has a known key."""
        if not self._digests:
            return
        given = _digest(_key(metadata or ()))
        known = False
        # All of them, so that the time does not say which one it is.
        for digest in self._digests:
            known |= hmac.compare_digest(digest, given)
        if not known:
            raise Unauthorized(_MESSAGE)


class Nobody(Keys):
    """Where no key lets anybody in."""

    def __init__(self, why: str) -> None:
        """Take what a caller is told."""
        super().__init__(())
        self._why = why

    def __bool__(self) -> bool:
        """A call is looked at."""
        return True

    def check(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> None:  # noqa: ARG002
        """Raise `Forbidden`."""
        raise Forbidden(self._why)


def read(path: str | None, variable: str | None, environment: Mapping[str, str] = os.environ) -> Keys:
    """The keys of a file, one a line, and of a variable, between commas; `ConfigError` for an empty one."""
    keys: list[str] = []
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("grpc.grpc_api_keys_file", path, f"a file that can be read ({error})") from None
        keys += _listed(text.splitlines(), "grpc.grpc_api_keys_file", path)
    if variable is not None:
        keys += _listed(environment.get(variable, "").split(","), "grpc.grpc_api_keys_env", variable)
    return Keys(keys)


def _listed(parts: Iterable[str], option: str, source: str) -> list[str]:
    keys = [key for key in (part.strip() for part in parts) if key and not key.startswith("#")]
    if not keys:
        # Nobody who names a source of keys means that everybody may call.
        raise ConfigError(option, source, "a source of at least one key")
    return keys


def _key(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    for name, value in metadata:
        text = value if isinstance(value, str) else ""
        if name == "x-api-key":
            return text.strip()
        if name == "authorization":
            scheme, _, key = text.partition(" ")
            if scheme.lower() == "bearer":
                return key.strip()
    return ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
