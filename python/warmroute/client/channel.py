"""How a client connects: address, credentials, keys, keepalive."""

from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

SERVICE = "warmroute.v1.Router"

_OPTIONS: list[tuple[str, int]] = [
    # A router that is gone without a word is noticed, also by a stream on which nothing is said.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where and as whom."""

    target: str
    api_key: str | None = None
    credentials: grpc.ChannelCredentials | None = None

    def blocking(self) -> grpc.Channel:
        """A channel for an ordinary program."""
        if self.credentials is not None:
            return grpc.secure_channel(self.target, self.credentials, options=_OPTIONS)
        return grpc.insecure_channel(self.target, options=_OPTIONS)

    def aio(self) -> grpc.aio.Channel:
        """A channel for asyncio."""
        if self.credentials is not None:
            return grpc.aio.secure_channel(self.target, self.credentials, options=_OPTIONS)
        return grpc.aio.insecure_channel(self.target, options=_OPTIONS)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every call."""
        return (("x-api-key", self.api_key),) if self.api_key is not None else ()


def method(name: str) -> str:
    """The path of a method of `Router`."""
    return f"/{SERVICE}/{name}"


def serialized(message: Any) -> bytes:
    """A message's bytes."""
    return bytes(message.SerializeToString())
