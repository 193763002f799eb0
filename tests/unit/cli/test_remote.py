"""The commands that ask a running router, against a server that answers what a test says."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warmroute.cli import main
from warmroute.cli.table import render

WORKER: dict[str, Any] = {
    "name": "w1",
    "url": "http://h:1",
    "source": "file",
    "state": "draining",
    "health": {"status": "up", "failures": 0, "error": ""},
    "models": ["a", "b", "c", "d"],
    "load": {
        "requests": 2,
        "other_requests": 1,
        "wait_seconds": 0.25,
        "confirmed_blocks": 3,
        "predicted_blocks": 4,
    },
}
CANDIDATE = {
    "worker": "w1",
    "state": "ready",
    "refusal": None,
    "overlap_tokens": 64,
    "confirmed_tokens": 32,
    "lower_tokens": 16,
    "requests": 1,
    "context_tokens": 9,
    "full": False,
    "cost_seconds": {
        "wait": 0.5,
        "transfer": 0.0,
        "prefill": 0.25,
        "delay": 0.0,
        "decode": None,
        "total": 0.75,
    },
}
EXPLANATION: dict[str, Any] = {
    "decision": {
        "worker": "w1",
        "reason": "warm",
        "prompt_tokens": 100,
        "overlap_tokens": 64,
        "confirmed_tokens": 32,
        "predicted_ttft_seconds": 0.75,
    },
    "error": None,
    "prompt": {"rung": "local", "inexact": None, "inexact_because": None},
    "candidates": [CANDIDATE, {**CANDIDATE, "worker": "w2", "refusal": "down", "state": "down"}],
}


class Told:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.replies: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, bytes, str | None]] = []


@pytest.fixture
def router() -> Iterator[Told]:
    told = Told()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            told.asked.append((self.command, self.path, body, self.headers.get("authorization")))
            status, reply = told.replies.pop(0) if len(told.replies) > 1 else told.replies[0]
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the names are the library's

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


def test_workers_are_listed(router: Told, capsys: pytest.CaptureFixture[str]) -> None:
    router.replies = [(200, {"workers": [WORKER]})]
    assert main(["workers", "list", "--router", router.url]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["NAME", "URL", "STATE", "SOURCE"]
    assert line.split() == "w1 http://h:1 draining file 2 1 0.250 7 a, b, c and 1 more –".split()
    assert main(["workers", "list", "--router", router.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"workers": [WORKER]}


def test_a_worker_is_added_with_what_is_known_of_it(
    router: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key"
    key.write_text("secret-key\n")
    router.replies = [(201, {"worker": WORKER})]
    flags = ["--router", router.url, "--admin-key-file", str(key), "--kv-blocks", "7", "--models", "m"]
    assert main(["workers", "add", "w1=http://h:1", *flags]) == 0
    ((method, path, body, authorization),) = router.asked
    assert (method, path, authorization) == ("POST", "/warmroute/v1/workers", "Bearer secret-key")
    assert json.loads(body) == {"url": "http://h:1", "name": "w1", "kv_blocks": 7, "models": ["m"]}
    assert "w1" in capsys.readouterr().out


def test_a_drain_is_waited_for(router: Told, capsys: pytest.CaptureFixture[str]) -> None:
    busy, idle = {**WORKER, "load": {"requests": 1}}, {**WORKER, "load": {"requests": 0}}
    router.replies = [(200, {"worker": WORKER}), (200, {"workers": [busy]}), (200, {"workers": [idle]})]
    assert main(["workers", "drain", "w/1", "--router", router.url, "--wait-ms", "10000"]) == 0
    assert [asked[:2] for asked in router.asked] == [
        ("POST", "/warmroute/v1/workers/w%2F1/drain"),
        ("GET", "/warmroute/v1/workers"),
        *[("GET", "/warmroute/v1/workers")] * (len(router.asked) - 2),
    ]
    router.replies = [(200, {"worker": WORKER}), (200, {"workers": [{**busy, "name": "w1"}]})]
    assert main(["workers", "drain", "w1", "--router", router.url, "--wait-ms", "1"]) == 1
    assert "still has requests" in capsys.readouterr().err


def test_a_worker_is_removed(router: Told, capsys: pytest.CaptureFixture[str]) -> None:
    router.replies = [(200, {"removed": "w1"})]
    assert main(["workers", "remove", "w1", "--router", router.url]) == 0
    assert capsys.readouterr().out == "removed w1\n"
    assert router.asked[0][:2] == ("DELETE", "/warmroute/v1/workers/w1")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((404, {"error": {"message": "no worker is named 'w1'"}}), "workers list"),
        ((401, {"error": {"message": "the admin key is missing"}}), "--admin-key-file"),
        ((409, {"error": {"message": "listed by file"}}), "listed by file"),
        ((500, b"oops"), "answers 500"),
        ((200, b"<html>"), "no warmroute router"),
    ],
)
def test_a_refusal_is_said_with_what_to_do(
    router: Told, capsys: pytest.CaptureFixture[str], reply: tuple[int, Any], said: str
) -> None:
    router.replies = [reply]
    assert main(["workers", "remove", "w1", "--router", router.url]) == 1
    assert said in capsys.readouterr().err


def test_a_router_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workers", "list", "--router", "http://127.0.0.1:1"]) == 1
    assert "no router answers at http://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["workers", "list", "--router", "ftp://h"], "--router"),
        (["workers", "list", "--router", "http://u:pw@h"], "http://HOST:PORT"),
        (["workers", "add", "h:8000"], "worker.url"),
        (["workers", "add", "http://h:1", "--kv-blocks", "0"], "kv_blocks"),
        (["workers", "drain", ""], "NAME"),
        (["workers", "list", "--admin-key-file", "/nowhere"], "admin_key_file"),
        (["explain", "/nowhere"], "FILE"),
    ],
)
def test_what_was_asked_wrongly_ends_with_two(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "flags", "body", "query"),
    [
        (b'{"messages": []}', [], {"messages": []}, ""),
        (b"hello", [], {"prompt": "hello"}, ""),
        (
            b"hello",
            ["--model", "m", "--chat"],
            {"model": "m", "messages": [{"role": "user", "content": "hello"}]},
            "",
        ),
        (b"[1, 2]", [], {"prompt": "[1, 2]"}, ""),
        (b'{"a": 1}', ["--endpoint", "/v1/messages"], {"a": 1}, "?endpoint=/v1/messages"),
    ],
)
def test_a_text_or_a_body_is_explained(
    router: Told,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    data: bytes,
    flags: list[str],
    body: dict[str, Any],
    query: str,
) -> None:
    path = tmp_path / "prompt"
    path.write_bytes(data)
    router.replies = [(200, EXPLANATION)]
    assert main(["explain", str(path), "--router", router.url, *flags]) == 0
    assert router.asked[0][:2] == ("POST", f"/warmroute/v1/explain{query}")
    assert json.loads(router.asked[0][2]) == body
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "w1 (warm): 64 of 100 tokens held, 32 confirmed; first token in 0.750 s"
    assert [line.split()[:4] for line in lines[-2:]] == [
        ["*", "w1", "ready", "–"],
        ["w2", "down", "down", "64"],
    ]


def test_a_prompt_that_no_worker_takes_ends_with_one(
    router: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prompt"
    path.write_bytes(b"hello")
    router.replies = [
        (200, {**EXPLANATION, "decision": None, "error": {"message": "none is up"}, "candidates": []})
    ]
    assert main(["explain", str(path), "--router", router.url]) == 1
    assert capsys.readouterr().out.startswith("no worker: none is up\n")
    path.write_bytes(b"\xff\xfe")
    assert main(["explain", str(path), "--router", router.url]) == 2


def test_numbers_stand_to_the_right() -> None:
    assert (
        render(("A", "N"), [("x", 1), ("yy", None), ("", 10.5)])
        == "A        N\nx        1\nyy       –\n–   10.500"
    )
