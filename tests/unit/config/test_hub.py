"""Hub ids, against a cache in the hub's own layout and against a hub on this machine."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from warmroute.config import resolve_tokenizer
from warmroute.errors import ConfigError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"
FILES = {"tokenizer.json": b'{"model": {}}', "config.json": b"{}", "model.safetensors": b"weights"}


def cache(home: Path, commit: str = COMMIT, revision: str = "main") -> Path:
    """A repository in the cache, as `huggingface_hub` lays it out: blobs, and links to them."""
    storage = home / "hub" / "models--org--model"
    snapshot = storage / "snapshots" / commit
    (storage / "blobs").mkdir(parents=True, exist_ok=True)
    (storage / "refs").mkdir(exist_ok=True)
    snapshot.mkdir(parents=True)
    (storage / "refs" / revision).write_text(commit)
    (storage / "blobs" / commit).write_bytes(FILES["tokenizer.json"])
    (snapshot / "tokenizer.json").symlink_to(Path("../../blobs") / commit)
    return snapshot


def resolve(value: str, **environment: str) -> str:
    """In a process of its own: `huggingface_hub` reads its environment once, on import."""
    code = (
        "import sys\nfrom warmroute.config import resolve_tokenizer\n"
        "from warmroute.errors import ConfigError\n"
        "try:\n    print(resolve_tokenizer(sys.argv[1]))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, value],
        env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's API that fetches a repository."""

    fetched: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.answer(send_body=True)

    def do_HEAD(self) -> None:
        self.answer(send_body=False)

    def answer(self, *, send_body: bool) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        name = parts[-1]
        if parts[:2] == ["api", "models"] and "gated" in parts:
            self.reply(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif parts[:4] != ["api", "models", "org", "model"] and parts[:3] != ["org", "model", "resolve"]:
            self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif parts[:2] == ["api", "models"] and "revision" in parts and name not in ("main", COMMIT):
            self.reply(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif "tree" in parts:
            tree = [{"type": "file", "path": n, "size": len(b), "oid": n} for n, b in FILES.items()]
            self.reply(200, json.dumps(tree).encode(), {})
        elif parts[0] == "api":
            siblings = [{"rfilename": n} for n in FILES]
            self.reply(200, json.dumps({"id": "org/model", "sha": COMMIT, "siblings": siblings}).encode(), {})
        else:
            body = FILES[name]
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{name}"', "X-Linked-Size": str(len(body))}
            if send_body:
                self.fetched.append(name)
            self.reply(200, body if send_body else b"", headers, length=len(body))

    def reply(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(length or len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.fetched = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "org" / "model"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_tokenizer(str(folder)) == str(folder)
    assert resolve_tokenizer("org/model") == "org/model"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_tokenizer("~/org/model") == str(folder)


@pytest.mark.parametrize(
    "value",
    [
        "/no/such/folder",
        "tokenizer.json",
        "./org/model",
        "a/b/c",
        "",
        "org/model@",
        "~nobody.at.all/x",
        "a" * 5000,
    ],
)
def test_what_is_neither_a_path_nor_a_hub_id_is_refused(value: str) -> None:
    with pytest.raises(
        ConfigError, match=r"no such file or folder; use a folder .* hub id such as"
    ) as raised:
        resolve_tokenizer(value, "prompt.tokenizer")
    assert raised.value.key == "prompt.tokenizer"


def test_offline_the_cache_serves(tmp_path: Path) -> None:
    main, other = cache(tmp_path), cache(tmp_path, OTHER, "v2")
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    assert resolve("org/model", **environment) == str(main)
    assert resolve("org/model@v2", **environment) == str(other)
    assert resolve(f"org/model@{OTHER}", **environment) == str(other)
    assert "the hub cannot be reached, and its cache lacks the files" in resolve("org/absent", **environment)


def test_a_hub_that_is_down_leaves_the_cache(tmp_path: Path) -> None:
    environment = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:1"}
    assert "`hf download`" in resolve("org/model", **environment)
    snapshot = cache(tmp_path)
    assert resolve("org/model", **environment) == str(snapshot)


def test_only_the_files_of_a_tokenizer_are_fetched(tmp_path: Path, hub: str) -> None:
    environment = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": hub}
    folder = Path(resolve("org/model", **environment))
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "tokenizer.json"]
    assert (folder / "tokenizer.json").read_bytes() == FILES["tokenizer.json"]
    assert sorted(Hub.fetched) == ["config.json", "tokenizer.json"]
    assert resolve("org/model", HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1") == str(folder)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("org/absent", "no such repository on the hub"),
        ("org/gated", "set HF_TOKEN"),
        ("org/model@v9", "no such revision"),
    ],
)
def test_what_the_hub_refuses_says_what_to_do(value: str, advice: str, tmp_path: Path, hub: str) -> None:
    assert advice in resolve(value, HF_HOME=str(tmp_path), HF_ENDPOINT=hub)
