"""What every router gets: fast static workers behind it, and the same requests in front of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.proxy import process

TENANTS = 8
BODIES = 400
CONNECTIONS = 16

_WORDS = [
    *("report", "ledger", "account", "tool", "schema", "query", "select", "risk", "value", "function"),
    *("return", "policy", "clause", "audit", "index", "window", "agent", "price", "the", "of", "and"),
    *("to", "in", "is", "that", "for", "with", "as", "on", "are"),
]


@dataclass(frozen=True)
class Shape:
    """A kind of request: the size of its system prompt, the events of its reply, and who sends them."""

    name: str
    prompt_kb: int
    events: int = 0  # none: one JSON
    one_by_one: bool = False
    tokenizer: Path | None = None  # warmroute's; then the last turn of each request is one of its own


# Takes the place of a number that is another for each request.
_FRESH = "0123456789"


def _exact() -> list[Shape]:
    """Shapes with exact tokens: the package's tokenizer, and a real one from the folder `TOKENIZERS`."""
    package = Path(__file__).parents[2] / "python" / "warmroute" / "data" / "tokenizer"
    shapes = [Shape("exact-120k", 120, tokenizer=package)]
    real = Path(os.environ.get("TOKENIZERS", "tokenizers")) / "qwen3"
    if (real / "tokenizer.json").exists():
        shapes.append(Shape("exact-120k-qwen3", 120, tokenizer=real))
    return shapes


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("chat-120k", 120),
        *_exact(),
        Shape("chat-2k", 2),
        Shape("stream-120", 2, 120),
        Shape("chunks-120", 2, 120, one_by_one=True),
    )
}


@dataclass(frozen=True)
class Load:
    """What one run of wrk saw."""

    requests: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float


def bodies(shape: Shape, seed: int) -> list[bytes]:
    """Chat completions: one of `TENANTS` long system prompts, and a user turn of its own."""
    rng = random.Random(seed)
    systems = [_text(rng, shape.prompt_kb * 1000) for _ in range(TENANTS)]
    return [
        json.dumps(
            {
                "model": "m",
                "stream": bool(shape.events),
                "max_tokens": 120,
                "messages": [
                    {"role": "system", "content": systems[index % TENANTS]},
                    {"role": "user", "content": f"request {_FRESH} {index} " + _text(rng, 400)},
                ],
            }
        ).encode()
        for index in range(BODIES)
    ]


@contextlib.contextmanager
def workers(folder: Path, ports: list[int], shape: Shape) -> Iterator[None]:
    """One process that stands for a worker on each port: it reads the body and answers at once."""
    streams = [sys.executable, "-m", "bench.proxy.chunks", *map(str, ports)]
    command = streams if shape.one_by_one else _static_workers(folder, ports, shape)
    with process.running(command, folder / "workers.out"):
        yield


def _static_workers(folder: Path, ports: list[int], shape: Shape) -> list[str]:
    """nginx, answering from a file."""
    folder.chmod(0o755)
    reply = "reply.sse" if shape.events else "reply.json"
    (folder / reply).write_text(_stream(shape.events) if shape.events else _plain())
    kind = "text/event-stream" if shape.events else "application/json"
    servers = "".join(_server(folder, port, reply, kind) for port in ports)
    config = folder / "workers.conf"
    config.write_text(
        f"worker_processes 1; daemon off; pid {folder}/workers.pid; error_log {folder}/workers.log;\n"
        "events { worker_connections 4096; }\n"
        f"http {{ access_log off; types {{ }} client_body_temp_path {folder}/workers-body;{servers} }}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(config)]


def write_wrk_script(folder: Path, requests: list[bytes], port: int, *, fresh: bool) -> Path:
    """A wrk script that sends the bodies in turn and prints one line of JSON.

    With `fresh` no two requests are equal: each has a number of its own in its last turn.
    """
    request = "requests[i]"
    if fresh:
        request = 'befores[i] .. string.format("%010d", n) .. afters[i]'
    for index, body in enumerate(requests):
        (folder / f"body-{index}").write_bytes(body)
    script = folder / "load.lua"
    script.write_text(
        f"""local requests, befores, afters = {{}}, {{}}, {{}}
for i = 0, {len(requests) - 1} do
  local file = io.open("{folder}/body-" .. i, "rb")
  requests[i] = wrk.format("POST", "/v1/chat/completions",
    {{["Content-Type"] = "application/json", ["Host"] = "127.0.0.1:{port}"}}, file:read("*a"))
  file:close()
  local from, to = requests[i]:find("{_FRESH}", 1, true)
  befores[i], afters[i] = requests[i]:sub(1, from - 1), requests[i]:sub(to + 1)
end
local i, n = 0, os.time() % 100000 * 10000
request = function()
  i, n = (i + 1) % {len(requests)}, n + 1
  return {request}
end
done = function(s, l, r)
  io.write(string.format('RESULT {{"requests":%d,"errors":%d,"us":%d,"p50":%d,"p99":%d}}\\n', s.requests,
    s.errors.connect + s.errors.read + s.errors.write + s.errors.timeout + s.errors.status, s.duration,
    l:percentile(50), l:percentile(99)))
end
"""
    )
    return script


def drive(script: Path, port: int, seconds: int) -> Load:
    """Sends requests for `seconds`; each connection sends the next as soon as it has its reply."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(script)]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout.split("RESULT ")[1].splitlines()[0])
    return Load(seen["requests"], seen["errors"], seen["us"] / 1e6, seen["p50"] / 1e3, seen["p99"] / 1e3)


def _text(rng: random.Random, size: int) -> str:
    words, length = [], 0
    while length < size:
        word = rng.choice(_WORDS)
        words.append(word)
        length += len(word) + 1
    return " ".join(words)


def _plain() -> str:
    message = {"role": "assistant", "content": "ok " * 120}
    usage = {"prompt_tokens": 30000, "completion_tokens": 120, "total_tokens": 30120}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**reply, "choices": [choice], "usage": usage})


def _stream(events: int) -> str:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    line = json.dumps({**chunk, "choices": [{"index": 0, "delta": {"content": "ok "}}]})
    return f"data: {line}\n\n" * events + "data: [DONE]\n\n"


def _server(folder: Path, port: int, reply: str, kind: str) -> str:
    models = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]})
    # sglang-router and its descendants ask for these before they take a worker in.
    info = json.dumps(
        {
            "model_path": "m",
            "model_id": "m",
            "is_generation": True,
            "served_model_name": "m",
            "version": "0.33.0",
        }
    )
    asked = "get_model_info|get_server_info|server_info|model_info|version"
    return f"""
  server {{ listen 127.0.0.1:{port} reuseport; root {folder}; client_max_body_size 64m;
    client_body_buffer_size 1m; keepalive_requests 10000000;
    location = /v1/models {{ default_type application/json; return 200 '{models}'; }}
    location ~ ^/({asked})$ {{ default_type application/json; return 200 '{info}'; }}
    location = /metrics {{ default_type text/plain;
      return 200 'vllm:num_requests_running 1\\nvllm:num_requests_waiting 0\\n'; }}
    location = /health {{ return 200 'ok'; }}
    location /v1/ {{ error_page 405 =200 /{reply}; default_type {kind}; try_files /{reply} =404; }}
    location = /{reply} {{ default_type {kind}; }}
  }}"""
