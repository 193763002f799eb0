"""What a status says, with its details."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2


@dataclass
class Fault:
    """A status and its details."""

    code: grpc.StatusCode
    message: str
    reason: str
    domain: str
    retry_s: float | None
    field: str
    metadata: dict[str, str]


async def fault_of(call: Awaitable[Any]) -> Fault:
    """The status with which a call fails."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return read(raised.value)


def read(error: grpc.aio.AioRpcError) -> Fault:
    """The status of an error."""
    trailer = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailer["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    fault = Fault(error.code(), status.message, "", "", None, "", {})
    for detail in status.details:
        info, retry, bad = (
            error_details_pb2.ErrorInfo(),
            error_details_pb2.RetryInfo(),
            error_details_pb2.BadRequest(),
        )
        if detail.Unpack(info):
            fault.reason, fault.domain, fault.metadata = info.reason, info.domain, dict(info.metadata)
        elif detail.Unpack(retry):
            fault.retry_s = retry.retry_delay.ToMilliseconds() / 1000
        elif detail.Unpack(bad):
            fault.field = bad.field_violations[0].field
    assert fault.domain == "warmroute"
    return fault
