"""Stubs of gRPC services, whose generated code has no types."""

from __future__ import annotations

from typing import Any

from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from warmroute.v1 import fleet_pb2_grpc, router_pb2_grpc


def router(channel: Any) -> Any:
    """Calls of `warmroute.v1.Router`."""
    return router_pb2_grpc.RouterStub(channel)  # type: ignore[no-untyped-call]


def fleet(channel: Any) -> Any:
    """Calls of `warmroute.v1.Fleet`."""
    return fleet_pb2_grpc.FleetStub(channel)  # type: ignore[no-untyped-call]


def health(channel: Any) -> Any:
    """Calls of `grpc.health.v1.Health`."""
    return health_pb2_grpc.HealthStub(channel)


def reflection(channel: Any) -> Any:
    """Calls of server reflection."""
    return reflection_pb2_grpc.ServerReflectionStub(channel)
