from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warmroute.config import FleetOptions, ListenOptions
from warmroute.errors import ConfigError
from warmroute.server.sources import admin_key, sources_of, worker_key


def names(**options: object) -> list[str]:
    return [source.name for source in sources_of(FleetOptions(**options), lambda _: True)]  # type: ignore[arg-type]


def test_each_source_is_made_where_it_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],'
        '"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],'
        '"users": [{"name": "u", "user": {}}]}'
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert names() == []
    assert names(workers_file="w.toml", dns=("h:1",), kubernetes_service="s") == ["file", "dns", "kubernetes"]
    assert names(kubernetes_selector="app=vllm") == ["kubernetes"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dns": ("h:1",), "dns_server": "no resolver"}, "IP or IP:PORT"),
        ({"dns": ("h",)}, "HOST:PORT"),
        ({"kubernetes_service": "s", "kubernetes_selector": "a=b"}, "not both"),
    ],
)
def test_a_source_that_cannot_be_is_said(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        names(**options)


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "warmroute.fleet.discovery.kubernetes", None)
    with pytest.raises(ConfigError, match=r"pip install 'warmroute\[kubernetes\]'"):
        names(kubernetes_service="s")


def test_keys_are_words_of_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert admin_key(ListenOptions()) is None
    assert worker_key(FleetOptions()) is None
    path.write_text("\n a-key-of-sixteen-characters \n")
    assert admin_key(ListenOptions(admin_key_file=str(path))) == "a-key-of-sixteen-characters"
    path.write_text("short")
    assert worker_key(FleetOptions(worker_key_file=str(path))) == "short"
    with pytest.raises(ConfigError, match="16 characters"):
        admin_key(ListenOptions(admin_key_file=str(path)))
    for text in ("", "two words", "k\u00e9y"):
        path.write_text(text)
        with pytest.raises(ConfigError, match="one word"):
            worker_key(FleetOptions(worker_key_file=str(path)))
    with pytest.raises(ConfigError, match="can be read"):
        worker_key(FleetOptions(worker_key_file=str(tmp_path / "none")))
