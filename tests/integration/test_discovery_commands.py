"""`warmroute workers` and `warmroute explain` against a router with simulated workers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.conftest import QUICK
from tests.integration.test_commands import run, sim_worker
from tests.support.http import request
from tests.support.process import Router


@pytest.fixture
async def sims() -> AsyncIterator[list[str]]:
    async with sim_worker("--speed", "100") as (first, _), sim_worker("--speed", "100") as (second, _):
        yield [f"http://127.0.0.1:{port}" for port in (first, second)]


async def test_a_fleet_is_changed_while_it_serves(sims: list[str], tmp_path: Path) -> None:
    async with Router(tmp_path / "router.log", [f"one={sims[0]}"], *QUICK) as router:
        where = ("--router", router.url)
        status, out, _ = await run("workers", "add", f"two={sims[1]}", *where)
        assert (status, "two" in out) == (0, True)
        await router.sees_ready(2)

        prompt = tmp_path / "prompt.txt"
        prompt.write_text("The rules of the house. " * 200)
        body = {"model": "sim", "prompt": prompt.read_text(), "max_tokens": 4}
        assert (await request(router.port, "/v1/completions", body)).status == 200
        status, out, _ = await run("explain", str(prompt), "--model", "sim", "--json", *where)
        decision = json.loads(out)["decision"]
        assert (status, decision["reason"]) == (0, "warm")
        warm = decision["worker"]
        other = "two" if warm == "one" else "one"

        status, out, _ = await run("workers", "drain", warm, "--wait-ms", "5000", *where)
        assert status == 0
        status, out, _ = await run("explain", str(prompt), "--model", "sim", *where)
        assert status == 0
        assert out.startswith(f"{other} (cold)")

        status, out, _ = await run("workers", "list", "--json", *where)
        names = {worker["name"]: worker["state"] for worker in json.loads(out)["workers"]}
        assert names[other] == "ready"
        assert names.get(warm) in (None, "draining")
        status, out, _ = await run("workers", "remove", other, *where)
        assert (status, out) == (0, f"removed {other}\n")
        status, out, _ = await run("explain", str(prompt), *where)
        assert (status, out.split(":")[0]) == (1, "no worker")
        status, _, errors = await run("workers", "drain", other, *where)
        assert (status, "no worker is named" in errors) == (1, True)


async def test_a_router_for_everybody_is_not_changed_without_a_key(sims: list[str], tmp_path: Path) -> None:
    flags = (*QUICK, "--host", "0.0.0.0")
    async with Router(tmp_path / "router.log", [sims[0]], *flags) as router:
        status, _, errors = await run("workers", "remove", "w", "--router", router.url)
        assert (status, "--admin-key-file" in errors) == (1, True)
        assert (await request(router.port, "/warmroute/v1/workers")).status == 200
    key = tmp_path / "key"
    key.write_text("a-key-of-sixteen-characters\n")
    keyed = (*flags, "--admin-key-file", str(key))
    async with Router(tmp_path / "router.log", [f"one={sims[0]}"], *keyed) as router:
        where = ("--router", router.url)
        assert (await run("workers", "remove", "one", *where))[0] == 1
        assert (await run("workers", "remove", "one", *where, "--admin-key-file", str(key)))[0] == 0
        assert "a-key-of" not in router.log_text()


async def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    for text in ("short", "two words of enough length"):
        key.write_text(text)
        status, _, errors = await run("serve", "--admin-key-file", str(key), "--worker", "http://h:1")
        assert (status, "admin_key_file" in errors) == (2, True)
        assert text not in errors
    status, _, errors = await run("serve", "--port", "0")
    assert (status, "--workers-file" in errors) == (2, True)
