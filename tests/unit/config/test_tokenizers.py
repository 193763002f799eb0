from pathlib import Path

import pytest

from warmroute.config import tokenizers_of
from warmroute.config.load import load
from warmroute.config.tables import serve_schema
from warmroute.errors import ConfigError


def test_one_for_every_model_and_one_for_single_ones() -> None:
    assert tokenizers_of(["/a", "org/model=/b", "adapter=Qwen/Qwen3-8B@main"]) == (
        "/a",
        {"org/model": "/b", "adapter": "Qwen/Qwen3-8B@main"},
    )
    assert tokenizers_of([]) == (None, {})
    assert tokenizers_of(["~nobody.at.all=/a", "m=" + "b" * 5000]) == (
        None,
        {"~nobody.at.all": "/a", "m": "b" * 5000},
    )


def test_a_path_that_is_there_may_have_the_sign_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    assert tokenizers_of([str(folder), f"m={folder}"]) == (str(folder), {"m": str(folder)})


@pytest.mark.parametrize("texts", [["/a", "/b"], ["m=/a", "m=/b"], ["m="], ["="]])
def test_two_of_one_or_none_are_refused(texts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        tokenizers_of(texts)
    assert caught.value.key == "prompt.tokenizer"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('tokenizer = "/a"', ("/a",)),
        ('tokenizer = ["/a", "m=/b"]', ("/a", "m=/b")),
        ('tokenizer = { m = "/b", "org/n" = "/c" }', ("m=/b", "org/n=/c")),
    ],
)
def test_the_file_has_a_text_a_list_or_a_table(tmp_path: Path, text: str, expected: tuple[str, ...]) -> None:
    path = tmp_path / "warmroute.toml"
    path.write_text(f"[prompt]\n{text}\n")
    assert load(serve_schema(), path=path).settings["prompt.tokenizer"].value == expected


@pytest.mark.parametrize("text", ["tokenizer = 3", "tokenizer = [3]", "tokenizer = { m = 3 }"])
def test_what_is_no_text_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "warmroute.toml"
    path.write_text(f"[prompt]\n{text}\n")
    with pytest.raises(ConfigError):
        load(serve_schema(), path=path)


def test_the_environment_separates_them_by_commas() -> None:
    environment = {"WARMROUTE_TOKENIZER": "/a, m=/b"}
    config = load(serve_schema(), environment=environment)
    assert config.settings["prompt.tokenizer"].value == ("/a", "m=/b")
