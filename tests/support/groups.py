"""Groups of requests that share a long prefix, as agents with the same system prompt send them."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.support.http import request
from tests.support.vllm import token_count

GROUPS = 8
TURNS = 8
PREFIX_TOKENS = 2560
FRESH_TOKENS = 64
CLIENTS = 2
OUTPUT_TOKENS = 4


@dataclass(frozen=True)
class Answered:
    """What one request was given."""

    group: int
    worker: str
    overlap_tokens: int
    cached_tokens: int
    seconds: float


def by_ids(seed: int, vocabulary: int = 7000) -> list[tuple[int, dict[str, Any]]]:
    """Text completions whose prompts are token ids."""
    rng = random.Random(seed)

    def ids(count: int) -> list[int]:
        return [rng.randrange(300, vocabulary) for _ in range(count)]

    prefixes = [ids(PREFIX_TOKENS) for _ in range(GROUPS)]
    return [
        (group, {"model": "tiny", "prompt": prefixes[group] + ids(FRESH_TOKENS), **_sampling()})
        for group in _order(seed)
    ]


async def by_text(seed: int, engine_port: int) -> list[tuple[int, dict[str, Any]]]:
    """Chat completions: a system prompt for each group, and a user turn of its own for each request."""
    rng = random.Random(seed)
    prefixes = [await _text(rng, PREFIX_TOKENS, engine_port) for _ in range(GROUPS)]
    order = _order(seed)
    turns = [await _text(rng, FRESH_TOKENS, engine_port) for _ in order]
    return [
        (
            group,
            {
                "model": "tiny",
                "messages": [
                    {"role": "system", "content": prefixes[group]},
                    {"role": "user", "content": turn},
                ],
                **_sampling(),
            },
        )
        for group, turn in zip(order, turns, strict=True)
    ]


async def play(port: int, path: str, requests: list[tuple[int, dict[str, Any]]]) -> list[Answered]:
    """Sends the first turn one by one, and the rest in order from `CLIENTS` clients that wait for each reply.

    While nothing else runs, where a cold prefix goes follows from the workers' names alone.
    """
    answered: list[Answered] = []
    todo = deque(requests[:GROUPS])

    async def client() -> None:
        while todo:
            group, body = todo.popleft()
            start = time.monotonic()
            reply = await request(port, path, body)
            assert reply.status == 200, (reply.status, reply.body)
            worker = reply.get("x-warmroute-worker")
            assert worker is not None
            overlap = int(reply.get("x-warmroute-overlap-tokens") or 0)
            details = reply.json()["usage"]["prompt_tokens_details"] or {}
            seconds = time.monotonic() - start
            answered.append(Answered(group, worker, overlap, details.get("cached_tokens") or 0, seconds))

    await client()
    todo.extend(requests[GROUPS:])
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return answered


def _sampling() -> dict[str, Any]:
    return {"max_tokens": OUTPUT_TOKENS, "temperature": 0}


def _order(seed: int) -> list[int]:
    """Every group once a turn, in another order each turn, and no group twice in a row.

    A fixed order would hand each worker of two the same groups in every turn of a round robin.
    """
    rng = random.Random(seed)
    order: list[int] = []
    for _ in range(TURNS):
        turn = rng.sample(range(GROUPS), GROUPS)
        while order and turn[0] == order[-1]:
            rng.shuffle(turn)
        order += turn
    return order


async def _text(rng: random.Random, tokens: int, engine_port: int) -> str:
    """Words that make about `tokens` tokens: within one percent, or one token."""
    words = [rng.choice(WORDS) for _ in range(2 * tokens)]
    whole = await token_count(engine_port, " ".join(words))
    return " ".join(words[: round(len(words) * tokens / whole)])


# From the standard library, on whose sources the engine's small vocabulary is trained. With their spaces they
# have 4 to 5 bytes a token, as English text has: what text is taken for where there is no tokenizer.
WORDS = [
    *("if", "in", "is", "not", "and", "or", "for", "as", "the", "a", "to", "of", "be", "with", "it", "this"),
    *("None", "True", "self", "def", "name", "value", "return", "class", "module", "string", "that", "else"),
]
