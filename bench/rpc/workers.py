"""Simulated workers in a process of their own, which writes their ports.

python -m bench.rpc.workers COUNT SPEED
"""

from __future__ import annotations

import sys

from bench.rpc.limits import raise_open_files
from warmroute.native import SimServer


def main() -> None:
    """Serve until standard input ends."""
    raise_open_files()
    servers = [SimServer(model="sim", speed=float(sys.argv[2])) for _ in range(int(sys.argv[1]))]
    print(*(server.port for server in servers), flush=True)
    sys.stdin.read()
    for server in servers:
        server.stop()


if __name__ == "__main__":
    main()
