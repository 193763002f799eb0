from pathlib import Path

import pytest

from warmroute.config import (
    Config,
    FleetOptions,
    ListenOptions,
    LogOptions,
    Option,
    Schema,
    Section,
    load,
    options_of,
    show,
)
from warmroute.errors import ConfigError

SCHEMA = Schema(
    [
        Section("listen", "Listening", options_of(ListenOptions)),
        Section("fleet", "Workers", options_of(FleetOptions)),
        Section("log", "Logs", options_of(LogOptions)),
        Section(
            "router",
            "Decisions",
            (
                Option("block_size", "int", 16, "Tokens in a block.", minimum=1, maximum=4096),
                Option("share", "float", 0.5, "A share.", minimum=0, maximum=1),
            ),
        ),
    ]
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "warmroute.toml"
    path.write_text(
        '[router]\nblock_size = 32\n[listen]\nport = 1000\n[[worker]]\nurl = "http://10.0.0.1:8000"\n'
    )
    return path


def test_the_later_source_wins(file: Path) -> None:
    config = load(
        SCHEMA,
        path=file,
        environment={"WARMROUTE_PORT": "2000", "WARMROUTE_HOST": "0.0.0.0", "PATH": "/bin"},
        flags={"host": "::1", "probe_failures": None},
    )
    shown = {key: (setting.value, setting.origin) for key, setting in config.settings.items()}
    assert shown["router.block_size"] == (32, str(file))
    assert shown["listen.port"] == (2000, "WARMROUTE_PORT")
    assert shown["listen.host"] == ("::1", "--host")
    assert shown["router.share"] == (0.5, "default")
    assert config.section("router") == {"block_size": 32, "share": 0.5}
    assert config.view("listen", ListenOptions).port == 2000


def test_workers_of_the_file_are_named_by_their_address(file: Path) -> None:
    assert [(w.name, w.url) for w in load(SCHEMA, path=file).workers] == [
        ("10.0.0.1:8000", "http://10.0.0.1:8000")
    ]


def test_workers_of_flags_replace_those_of_the_file(file: Path) -> None:
    config = load(SCHEMA, path=file, flags={"worker": ["a=http://h:1/", "http://[::1]:2"]})
    assert [(w.name, w.url) for w in config.workers] == [("a", "http://h:1"), ("[::1]:2", "http://[::1]:2")]


def test_workers_of_the_environment_are_separated_by_commas() -> None:
    config = load(SCHEMA, environment={"WARMROUTE_WORKER": "http://h:1, http://h:2"})
    assert [worker.name for worker in config.workers] == ["h:1", "h:2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[router]\nblok_size = 1", ["router.blok_size", "did you mean router.block_size?"]),
        ("[router]\nport = 1", ["router.port", "did you mean listen.port?"]),
        ("[ruoter]\nx = 1", ["ruoter", "did you mean router?"]),
        ("[[workers]]\nurl = 'x'", ["workers", "did you mean worker?"]),
        ("router = 1", ["router", "a table"]),
        ("[router]\nblock_size = 0", ["router.block_size = 0", "from 1 to 4096"]),
        ("[router]\nblock_size = '16'", ["router.block_size = '16'", "an integer"]),
        ("worker = 3", ["worker", "[[worker]]"]),
        ("[[worker]]\nurl = 'http://h:1'\nkv_block = 1", ["worker[0].kv_block", "did you mean kv_blocks?"]),
        ("[[worker]]\nurl = 'ftp://h'", ["worker.url", "http://HOST"]),
        ("[[worker]]\nname = 'a'", ["worker.url", "http://HOST"]),
        (
            "[[worker]]\nurl = 'http://h:1'\n[[worker]]\nurl = 'http://h:1'",
            ["worker.name", "no other worker"],
        ),
        ("[router", ["a TOML file"]),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "warmroute.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(SCHEMA, path=path)
    for word in words:
        assert word in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a file that can be read"):
        load(SCHEMA, path=tmp_path / "none.toml")


def test_an_unknown_variable_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean WARMROUTE_BLOCK_SIZE"):
        load(SCHEMA, environment={"WARMROUTE_BLOCKSIZE": "16"})


def test_variables_of_a_kubernetes_service_are_not_ours() -> None:
    environment = {
        "WARMROUTE_SERVICE_HOST": "10.0.0.9",
        "WARMROUTE_SERVICE_PORT": "80",
        "WARMROUTE_SERVICE_PORT_HTTP": "80",
        "WARMROUTE_PORT": "tcp://10.0.0.9:80",
        "WARMROUTE_PORT_80_TCP_ADDR": "10.0.0.9",
        "WARMROUTE_METRICS_PORT_80_TCP": "tcp://10.0.0.9:80",
        "WARMROUTE_LOG_LEVEL": "",
    }
    config = load(SCHEMA, environment=environment)
    assert {setting.origin for setting in config.settings.values()} == {"default"}


@pytest.mark.parametrize(
    "text",
    [
        "h:1",
        "http://",
        "https://h:1",
        "http://h:1/v1",
        "http://h:x",
        "http://h:1?q",
        "http://h:0",
        "a b=http://h",
    ],
)
def test_a_worker_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"worker\."):
        load(SCHEMA, flags={"worker": [text]})


def test_a_credential_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load(SCHEMA, flags={"worker": ["http://me:secret@h:1"]})
    assert "secret" not in str(caught.value)


def test_one_name_cannot_be_two_options() -> None:
    option = Option("port", "int", 1, "")
    with pytest.raises(ValueError, match="port"):
        Schema([Section("a", "", (option,)), Section("b", "", (option,))])


def test_what_is_shown_is_a_file_with_the_same_meaning(tmp_path: Path) -> None:
    config = load(SCHEMA, flags={"worker": ["a=http://h:1"], "probe_jitter": "0.5", "log_format": "json"})
    text = show.render(SCHEMA, config)
    assert "# --probe-jitter" in text
    path = tmp_path / "shown.toml"
    path.write_text(text)
    assert _values(load(SCHEMA, path=path)) == _values(config)


def _values(config: Config) -> tuple[dict[str, object], object]:
    return {key: setting.value for key, setting in config.settings.items()}, config.workers
