"""The server: router, data plane, fleet and control paths in one process."""

from warmroute.server.run import run

__all__ = ["run"]
