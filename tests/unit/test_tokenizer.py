"""`warmroute.Tokenizer`: the same tokens as the HTTP router, from Python."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warmroute
from warmroute import errors
from warmroute.native import Prompter
from warmroute.sim import TOKENIZER

CHAT = {"messages": [{"role": "user", "content": "héllo <|im_end|>"}]}


@pytest.fixture(scope="module")
def tokenizer() -> warmroute.Tokenizer:
    return warmroute.Tokenizer(TOKENIZER)


def ids(tokens: bytes) -> list[int]:
    return memoryview(tokens).cast("I").tolist()


def test_tokens_are_packed_and_the_router_takes_them(tokenizer: warmroute.Tokenizer) -> None:
    tokens = tokenizer.encode("a text of some words")
    assert isinstance(tokens, bytes)
    assert len(tokens) == 4 * len(ids(tokens))
    router = warmroute.Router(block_size=1)
    router.add_worker("w", url="http://10.0.0.1:8000")
    with router.route(tokens) as lease:
        assert lease.worker == "w"
    assert tokenizer.encode("") == b""


def test_a_body_is_rendered_and_encoded(tokenizer: warmroute.Tokenizer) -> None:
    text = tokenizer.render(CHAT)
    assert text == "<|im_start|>user\nhéllo <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.tokens_for(CHAT) == tokenizer.encode(text)
    assert tokenizer.tokens_for({"prompt": "x y"}, "completions") == tokenizer.encode("x y", True)
    assert ids(tokenizer.tokens_for({"prompt": [7, 8]}, endpoint="/v1/completions")) == [7, 8]


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, bytes.decode])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_body_may_be_json(tokenizer: warmroute.Tokenizer, form: Any, ensure_ascii: bool) -> None:
    text = form(json.dumps(CHAT, ensure_ascii=ensure_ascii).encode())
    assert tokenizer.tokens_for(text) == tokenizer.tokens_for(CHAT)
    assert tokenizer.render(text) == tokenizer.render(CHAT)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not valid UTF-8"),
        ("\ud800", "lone surrogates"),
        ({}, "'messages' is missing"),
        ({"messages": 1}, "'messages' has a wrong type"),
        ({"messages": [float("nan")]}, "the body is not JSON: Out of range float"),
        ({"messages": [object()]}, "the body is not JSON: Object of type object"),
        ([1], "use a dict, or JSON as bytes or str"),
        (UserDict(), "use a dict, or JSON as bytes or str"),
    ],
)
def test_a_body_that_cannot_be_read_is_invalid(tokenizer: warmroute.Tokenizer, body: Any, words: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=words):
        tokenizer.tokens_for(body)


def test_what_cannot_be_exact_is_refused_with_a_reason(tokenizer: warmroute.Tokenizer) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    body = {"messages": [{"role": "user", "content": [image]}], "chat_template": "{{ 1 }}"}
    for call in (tokenizer.render, tokenizer.tokens_for):
        with pytest.raises(errors.TokensRefused) as raised:
            call(body)
        assert raised.value.reason
        copy = pickle.loads(pickle.dumps(raised.value))
        assert (str(copy), copy.reason) == (str(raised.value), raised.value.reason)


def test_arguments_that_cannot_be_used(tokenizer: warmroute.Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest, match='endpoint "embeddings" has no prompt: use chat'):
        tokenizer.tokens_for(CHAT, "embeddings")
    with pytest.raises(errors.InvalidRequest, match="lone surrogates"):
        tokenizer.encode("a\udc80")
    with pytest.raises(errors.ConfigError, match="one of auto, string, openai"):
        warmroute.Tokenizer(TOKENIZER, None, "json")
    with pytest.raises(errors.ConfigError, match="no such file or folder"):
        warmroute.Tokenizer("/no/such/folder")
    with pytest.raises(errors.ConfigError, match=r"cannot read .*tokenizer\.json"):
        warmroute.Tokenizer(tmp_path)


def test_what_cannot_be_loaded_is_named_as_it_was_given(tmp_path: Path) -> None:
    whole, empty, template = str(TOKENIZER), str(tmp_path), tmp_path / "broken.jinja"
    template.write_text("{% for %}")
    with pytest.raises(errors.ConfigError, match="Jinja") as raised:
        warmroute.Tokenizer(whole, template)
    assert (raised.value.key, raised.value.value) == ("chat_template", str(template))
    for default, models in ((whole, [("m", empty)]), (empty, [("m", whole)]), (None, [("m", empty)])):
        with pytest.raises(errors.ConfigError) as raised:
            Prompter(default, models=models)
        assert (raised.value.key, raised.value.value) == ("tokenizer", empty)


def test_a_template_of_one_s_own(tmp_path: Path) -> None:
    template = tmp_path / "own.jinja"
    template.write_text("{{ messages[0].content is string }}")
    assert warmroute.Tokenizer(TOKENIZER, template).render(CHAT) == "True"
    assert warmroute.Tokenizer(TOKENIZER, template, "openai").render(CHAT) == "False"


def test_a_hub_id_is_found_in_the_cache(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    storage = tmp_path / "hub" / "models--org--model"
    (storage / "refs").mkdir(parents=True)
    (storage / "refs" / "main").write_text(commit)
    (storage / "snapshots").mkdir()
    (storage / "snapshots" / commit).symlink_to(TOKENIZER)
    code = "import warmroute; print(warmroute.Tokenizer('org/model'))"
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == 'Tokenizer("org/model")'


def test_threads_share_one_and_others_run_meanwhile(tokenizer: warmroute.Tokenizer) -> None:
    texts = [f"text {i} " * 50 for i in range(64)]
    expected = [tokenizer.encode(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.encode, texts * 8)) == expected * 8

    long = "unseen words of a long text " * 200_000
    done = threading.Event()

    def encode() -> None:
        tokenizer.encode(long)
        done.set()

    encoding = threading.Thread(target=encode)
    encoding.start()
    steps = 0
    while not done.is_set():
        steps += 1
    encoding.join()
    assert steps > 0


def test_prompts_are_checked_on_another_thread() -> None:
    prompter = Prompter(str(TOKENIZER), check_every=1)
    router = warmroute.Router(block_size=1)
    router.add_worker("w", url="http://10.0.0.1:8000")
    assert prompter.check_stats() == {"checks": 0, "mismatches": 0, "skipped": 0, "failed": 0, "first": []}
    router.explain_body(prompter, "/v1/chat/completions", json.dumps(CHAT).encode())
    deadline = time.monotonic() + 60
    while not prompter.check_stats()["checks"]:
        assert time.monotonic() < deadline
    assert prompter.check_stats() == {"checks": 1, "mismatches": 0, "skipped": 0, "failed": 0, "first": []}
