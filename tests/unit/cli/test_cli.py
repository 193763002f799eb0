import subprocess
import sys
from pathlib import Path

import pytest

from warmroute import __version__
from warmroute.cli import main


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARMROUTE_CONFIG", "WARMROUTE_BLOCK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["warmroute"])


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert f"warmroute {__version__}" in capsys.readouterr().out


def test_show_says_where_each_value_came_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.toml"
    path.write_text("[router]\nwarm_share = 0.25\n")
    monkeypatch.setenv("WARMROUTE_BLOCK_SIZE", "32")
    arguments = [
        "config",
        "show",
        "--config",
        str(path),
        "--worker",
        "http://h:1",
        "--worker",
        "b=http://h:2",
    ]
    assert main(arguments) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"warm_share = 0.25 # {path}" in lines
    assert "block_size = 32 # WARMROUTE_BLOCK_SIZE" in lines
    assert 'worker = ["http://h:1", "b=http://h:2"] # --worker' in lines
    assert 'policy = "priced-affinity" # default' in lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--block-size", "0"], ["router.block_size = 0", "--block-size", "from 1 to 4096"]),
        (["--policy", "fastest"], ["router.policy = 'fastest'", "priced-affinity"]),
        (["--config", "/nowhere.toml"], ["/nowhere.toml", "can be read"]),
    ],
)
def test_a_wrong_value_ends_with_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    assert main(["config", "show", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("warmroute: ")
    assert all(word in output.err for word in words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["config", "show", "--blok-size", "3"], "did you mean --block-size?"),
        (["config", "show", "--block", "3"], "unknown argument --block"),
        (["nothing"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_an_unknown_word_ends_with_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_help_is_grouped_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["config", "show", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "router: how a worker is chosen:" in text
    assert "--warm-share X" in text
    assert max(map(len, text.splitlines())) <= 110


def test_the_command_is_a_module_too() -> None:
    command = [sys.executable, "-m", "warmroute.cli", "version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith("warmroute ")
