"""Blocks that a worker has put away: from events as vLLM's offloading writes them to explained decisions."""

import json
import struct
from pathlib import Path
from typing import Any

from tests.integration.test_commands import sim_worker
from tests.support.http import request
from tests.support.process import Router, free_port
from tests.support.waiting import until
from warmroute.sim.publisher import Publisher

BLOCK = 16
BLOCKS = 6
IDS = [1000 + place for place in range(BLOCK * BLOCKS + 1)]


def pack(value: Any) -> bytes:
    """A value as MessagePack."""
    match value:
        case None:
            return b"\xc0"
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case int():
            return b"\xcf" + struct.pack(">Q", value)
        case str():
            return b"\xd9" + bytes([len(value)]) + value.encode()
        case dict():
            parts = [part for item in value.items() for part in item]
            return b"\xde" + struct.pack(">H", len(value)) + b"".join(map(pack, parts))
        case _:
            return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(pack, value))


def stored() -> dict[str, Any]:
    names = [100 + block for block in range(BLOCKS)]
    return {
        "type": "BlockStored",
        "block_hashes": names,
        "parent_block_hash": None,
        "token_ids": IDS[: BLOCK * BLOCKS],
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "group_idx": 0,
    }


def put_away(block: int) -> dict[str, Any]:
    """All that is said of a block: neither its tokens, nor its size, nor what is before it."""
    return {**stored(), "block_hashes": [100 + block], "token_ids": [], "block_size": 0, "medium": "CPU"}


def removed(block: int, medium: str) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": [100 + block], "medium": medium, "group_idx": 0}


class Batches:
    """One batch, published once and replayed."""

    def __init__(self) -> None:
        events = [stored(), *(put_away(block) for block in range(BLOCKS))]
        events += [removed(block, "GPU") for block in (5, 4, 3)]
        self.payload = pack([1.0, [*events, removed(5, "CPU")], 0])

    def take_events(self, maximum: int, timeout_ms: int, /) -> list[tuple[int, bytes]]:
        return []

    def replay_from(self, number: int, /) -> list[tuple[int, bytes]]:
        return [(0, self.payload)] if number == 0 else []


async def test_what_is_put_away_is_in_the_explanation_and_the_metrics(tmp_path: Path) -> None:
    events, replay = free_port(), free_port()
    async with sim_worker("--speed", "100") as (port, _):
        config = tmp_path / "warmroute.toml"
        config.write_text(
            f"""[[worker]]
            url = "http://127.0.0.1:{port}"
            kv_events_endpoint = "tcp://127.0.0.1:{events}"
            kv_events_replay_endpoint = "tcp://127.0.0.1:{replay}"
            """
        )
        source = Publisher(Batches(), f"tcp://*:{events}", f"tcp://*:{replay}", "")
        with source:
            flags = ("--config", str(config), "--block-size", str(BLOCK), "--probe-interval-ms", "50")
            async with Router(tmp_path / "router.log", [], *flags) as router:

                async def explained() -> dict[str, Any]:
                    body = json.dumps({"tokens": IDS}).encode()
                    reply = await request(router.port, "/warmroute/v1/explain", body)
                    (candidate,) = reply.json()["candidates"]
                    return dict(candidate)

                async def known() -> bool:
                    return bool((await explained())["confirmed_tokens"] == 3 * BLOCK)

                await until(known, "the events are applied")
                candidate = await explained()
                assert (candidate["overlap_tokens"], candidate["lower_tokens"]) == (3 * BLOCK, 2 * BLOCK)
                assert candidate["cost_seconds"]["transfer"] > 0
                page = (await router.get("/metrics")).body.decode()
                assert any(
                    line.startswith("warmroute_worker_lower_blocks{") and line.endswith(" 5.0")
                    for line in page.splitlines()
                )
