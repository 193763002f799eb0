import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.config import FleetOptions, ListenOptions, LogOptions, Option, PromptOptions, options_of
from warmroute.errors import ConfigError

SIZE = Option("block_size", "int", 16, "Tokens in a block.", minimum=1, maximum=4096, unit="tokens")
SHARE = Option("share", "float", 0.5, "A share.", minimum=0, maximum=1)
SWITCH = Option("stream", "bool", False, "A switch.")
LEVEL = Option("level", "choice", "info", "A level.", choices=("debug", "info"))
NAMES = Option("names", "list", (), "Names.")
TEXT = Option("path", "str", None, "A path.")


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (SIZE, "32", 32),
        (SIZE, " 4_096 ", 4096),
        (SHARE, "1", 1.0),
        (SHARE, "2.5e-1", 0.25),
        (SWITCH, "Yes", True),
        (SWITCH, "off", False),
        (LEVEL, "debug", "debug"),
        (NAMES, "a, b,,c", ("a", "b", "c")),
        (TEXT, "x", "x"),
    ],
)
def test_text_becomes_a_value(option: Option, text: str, value: object) -> None:
    parsed = option.parse(text, "key", "source")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("option", "text", "allowed"),
    [
        (SIZE, "0", "an integer from 1 to 4096 (tokens)"),
        (SIZE, "1.5", "an integer from 1 to 4096 (tokens)"),
        (SHARE, "nan", "a number from 0 to 1"),
        (SHARE, "1.01", "a number from 0 to 1"),
        (SWITCH, "maybe", "true or false"),
        (LEVEL, "loud", "one of debug, info"),
        (TEXT, "", "a text that is not empty"),
    ],
)
def test_an_error_names_key_value_range_and_source(option: Option, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        option.parse(text, "router.key", "--flag")
    for word in ("router.key", text, allowed, "--flag"):
        assert word in str(caught.value)


@pytest.mark.parametrize("value", [True, 1.0, "16", None, [16]])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ConfigError):
        SIZE.check(value, "block_size", "file")


def test_an_integer_is_a_number_too() -> None:
    assert SHARE.check(1, "share", "file") == 1.0


@pytest.mark.parametrize(
    ("minimum", "maximum", "words"),
    [(1, None, "an integer, at least 1"), (None, 9, "an integer, at most 9"), (None, None, "an integer")],
)
def test_open_ranges_are_said_in_words(minimum: Any, maximum: Any, words: str) -> None:
    assert Option("n", "int", 1, "", minimum=minimum, maximum=maximum).allowed == words


@given(st.floats())
def test_only_finite_numbers_in_the_range_pass(value: float) -> None:
    fits = math.isfinite(value) and 0 <= value <= 1
    try:
        assert SHARE.check(value, "share", "file") == value
    except ConfigError:
        assert not fits
    else:
        assert fits


@pytest.mark.parametrize("cls", [ListenOptions, PromptOptions, FleetOptions, LogOptions])
def test_the_defaults_of_the_front_are_allowed(cls: type) -> None:
    for option in options_of(cls):
        assert option.doc.endswith(".")
        if option.default is not None:
            assert option.check(option.default, option.name, "default") == option.default
