import io
import json
import logging
from collections.abc import Iterator

import pytest

from warmroute import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger(logs.ROOT)
    before = (root.handlers[:], root.level, root.propagate)
    yield io.StringIO()
    root.handlers[:], root.level, root.propagate = before


def test_a_line_for_people_names_the_part_and_the_fields(stream: io.StringIO) -> None:
    logs.setup("info", "human", stream)
    logs.get("fleet").info("worker is up", worker="w1", models="a b", blocks=7)
    line = stream.getvalue()
    assert line.endswith(' info    fleet: worker is up  worker=w1  models="a b"  blocks=7\n')


def test_a_line_for_machines_is_one_json_object(stream: io.StringIO) -> None:
    logs.setup("debug", "json", stream)
    logs.get("fleet").debug("look\nfailed", worker="w1", failures=2)
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "debug",
        "logger": "fleet",
        "message": "look\nfailed",
        "worker": "w1",
        "failures": 2,
    }


@pytest.mark.parametrize("style", ["human", "json"])
def test_a_traceback_is_kept(stream: io.StringIO, style: str) -> None:
    logs.setup("info", style, stream)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logs.get("server").exception("it failed")
    assert "RuntimeError: broken" in stream.getvalue()


@pytest.mark.parametrize("style", ["human", "json"])
def test_a_traceback_has_no_credentials_and_an_end(stream: io.StringIO, style: str) -> None:
    logs.setup("info", style, stream)
    try:
        try:
            raise ValueError("http://user:pw1@h:1 refused Bearer pw2")
        except ValueError as error:
            raise RuntimeError("line\n" * 10_000 + "x" * 10_000 + "end\nlast") from error
    except RuntimeError:
        logs.get("server").exception("it failed")
    assert "last" in stream.getvalue()
    assert "pw1" not in stream.getvalue()
    assert "pw2" not in stream.getvalue()
    assert len(stream.getvalue()) < 5_000


def test_levels_below_the_chosen_one_are_silent(stream: io.StringIO) -> None:
    logs.setup("warning", "human", stream)
    logs.get("fleet").info("quiet")
    assert stream.getvalue() == ""


def test_a_lasting_state_is_said_once_for_each_thing(stream: io.StringIO) -> None:
    logs.setup("info", "human", stream)
    log = logs.get("fleet")
    for worker in ("w1", "w2", "w1"):
        log.once(worker, "block size differs", worker=worker)
    assert stream.getvalue().count("block size differs") == 2


@pytest.mark.parametrize(
    "field",
    [
        "authorization",
        "api_key",
        "x_api_key",
        "prompt",
        "messages",
        "password",
        "token",
        "token_ids",
        "cookie",
    ],
)
def test_secrets_and_prompts_do_not_get_in(field: str) -> None:
    assert logs.clean(field, "hunter2") == "[hidden]"


@pytest.mark.parametrize("field", ["prompt_tokens", "overlap_tokens", "worker"])
def test_names_of_counts_are_not_secrets(field: str) -> None:
    assert logs.clean(field, "12") == "12"


@pytest.mark.parametrize(
    "text", ["http://me:hunter2@host/x", "Authorization: Bearer hunter2", "basic hunter2"]
)
def test_credentials_inside_a_text_are_removed(text: str) -> None:
    assert "hunter2" not in logs.clean("url", text)


def test_long_values_are_cut() -> None:
    assert len(logs.clean("reason", "x" * 10_000)) == 300
