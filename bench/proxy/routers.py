"""The routers that are compared, and how each is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import _report
from bench.proxy import process


@dataclass(frozen=True)
class Router:
    """A router: its program, and its command line for a port, the workers' ports and a scratch folder."""

    name: str
    program: Path | None
    command: Callable[[Path, int, list[int], Path], list[str]]
    version: Callable[[Path], str]


def peers_folder() -> Path:
    """The folder with one virtual environment per peer, as `bench/peers.sh` makes them."""
    default = Path.home() / ".cache" / "warmroute" / "peers"
    return Path(os.environ.get("BENCH_PEERS", default))


def all_routers() -> dict[str, Router]:
    """Every router by name, installed or not (then `program` is `None`)."""
    peers = peers_folder()
    return {
        router.name: router
        for router in (
            Router("nginx", _which("nginx"), _nginx, lambda _: _first_line(["nginx", "-v"])),
            Router("warmroute", _warmroute_program(), _warmroute, lambda _: _report.version("warmroute")),
            Router("sglang-router", _existing(peers / "sglang-router/bin/sglang-router"), _sglang, _pinned),
            Router("smg", _existing(peers / "smg/bin/smg"), _smg, _pinned),
            Router("vllm-router", _existing(peers / "vllm-router/bin/vllm-router"), _vllm, _pinned),
        )
    }


def _urls(ports: list[int]) -> list[str]:
    return [f"http://127.0.0.1:{port}" for port in ports]


def _nginx(program: Path, port: int, workers: list[int], folder: Path) -> list[str]:
    upstream = "".join(f"server 127.0.0.1:{worker}; " for worker in workers)
    config = folder / "router.conf"
    # A body stays in memory and a reply is passed on as it comes: what a router of streams needs.
    config.write_text(
        f"worker_processes 1; daemon off; pid {folder}/router.pid; error_log {folder}/router.err;\n"
        "events { worker_connections 4096; }\n"
        f"http {{ access_log off; client_body_temp_path {folder}/router-body;\n"
        f"  proxy_temp_path {folder}/router-proxy;\n"
        f"  upstream workers {{ {upstream} keepalive 64; keepalive_requests 10000000; }}\n"
        f"  server {{ listen 127.0.0.1:{port}; client_max_body_size 64m; client_body_buffer_size 1m;\n"
        "    keepalive_requests 10000000; proxy_http_version 1.1; proxy_set_header Connection '';\n"
        "    proxy_buffering off; location / { proxy_pass http://workers; } } }\n"
    )
    return [str(program), "-p", str(folder), "-c", str(config)]


def _warmroute(program: Path, port: int, workers: list[int], _folder: Path) -> list[str]:
    named = [part for url in _urls(workers) for part in ("--worker", url)]
    return [str(program), "serve", "--port", str(port), "--threads", "1", *named]


def _peer_flags(port: int, workers: list[int]) -> list[str]:
    # Their metrics have a port of their own, which is the same for all of them unless it is given.
    (metrics,) = process.free_ports(1)
    flags = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    return [*flags, "--policy", "cache_aware", "--log-level", "error", "--worker-urls", *_urls(workers)]


def _sglang(program: Path, port: int, workers: list[int], _folder: Path) -> list[str]:
    return [str(program), "launch", *_peer_flags(port, workers)]


def _smg(program: Path, port: int, workers: list[int], _folder: Path) -> list[str]:
    return [str(program), "launch", *_peer_flags(port, workers)]


def _vllm(program: Path, port: int, workers: list[int], _folder: Path) -> list[str]:
    return [str(program), *_peer_flags(port, workers)]


def _pinned(program: Path) -> str:
    """The version of the distribution that the environment of `program` is named after."""
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    python = program.parent / "python"
    return _first_line([str(python), "-c", code, program.parent.parent.name])


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[0]


def _warmroute_program() -> Path | None:
    beside = Path(sys.executable).parent / "warmroute"
    return beside if beside.exists() else _which("warmroute")


def _existing(program: Path) -> Path | None:
    return program if program.exists() else None


def _which(name: str) -> Path | None:
    found = shutil.which(name) or (f"/usr/sbin/{name}" if Path(f"/usr/sbin/{name}").exists() else None)
    return Path(found) if found else None
