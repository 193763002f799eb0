"""A mixed workload in groups that share prefixes: what evicts, what comes again, what goes on from a reply.

Most prompts are token ids, as their lengths can be chosen then: some end exactly with a block. Some groups
are chats. Some of a group's prompts are salted, which makes a prefix of its own of it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.groups import WORDS

CHAT_GROUPS = 3
VOCABULARY = range(300, 7000)
RECENT = 24
LONGEST_PROMPT = 1600
# What becomes of a request, in parts of a hundred; the rest is the group's prefix and a suffix of its own.
REPEATED, CONTINUED, WHOLE_BLOCKS, LONG_REPLIES = 8, 12, 8, 8


@dataclass(frozen=True)
class Asked:
    """One request."""

    number: int
    kind: str
    group: int
    path: str
    body: dict[str, Any]

    @property
    def salted(self) -> bool:
        """Whether its tenant keeps its blocks apart."""
        return "cache_salt" in self.body


@dataclass
class Workload:
    """Makes requests one after the other; give it the replies, so that it can go on from them."""

    seed: int
    groups: int = 12
    block_tokens: int = 32
    prefix_tokens: tuple[int, int] = (160, 640)
    salts: Sequence[str | None] = (None, None, None, "one tenant", "another tenant")
    _made: int = 0
    _recent: deque[Asked] = field(default_factory=lambda: deque(maxlen=RECENT))
    _replied: deque[tuple[Asked, list[int]]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        lengths = [self._rng.randint(*self.prefix_tokens) for _ in range(self.groups)]
        self._prefixes = [self._ids(length) for length in lengths]
        self._systems = [self._text(length) for length in lengths]

    def next(self) -> Asked:
        """The next request."""
        asked = self._next()
        self._made += 1
        self._recent.append(asked)
        return asked

    def replied(self, asked: Asked, token_ids: list[int]) -> None:
        """Takes the reply of a request by token ids."""
        self._replied.append((asked, token_ids))

    def _next(self) -> Asked:
        chance = self._rng.randrange(100)
        if chance < REPEATED and self._recent:
            known = self._rng.choice(self._recent)
            return Asked(self._made, "repeated", known.group, known.path, known.body)
        if chance < REPEATED + CONTINUED and self._replied:
            known, reply = self._rng.choice(self._replied)
            prompt = known.body["prompt"] + reply + self._ids(self._rng.randint(1, 120))
            if len(prompt) < LONGEST_PROMPT:
                salt = known.body.get("cache_salt")
                return self._by_ids("continued", known.group, prompt, salt)
        group = self._rng.randrange(self.groups)
        salt = self._rng.choice(self.salts)
        suffix = self._rng.randint(1, 200)
        if group >= self.groups - CHAT_GROUPS:
            return self._chat(group, suffix, salt)
        prefix = self._prefixes[group]
        if self._rng.randrange(100) < WHOLE_BLOCKS:
            suffix += -(len(prefix) + suffix) % self.block_tokens
            return self._by_ids("whole blocks", group, prefix + self._ids(suffix), salt)
        return self._by_ids("fresh", group, prefix + self._ids(suffix), salt)

    def _by_ids(self, kind: str, group: int, prompt: list[int], salt: str | None) -> Asked:
        body = {"model": "tiny", "prompt": prompt, "return_token_ids": True, **self._terms(salt)}
        return Asked(self._made, kind, group, "/v1/completions", body)

    def _chat(self, group: int, tokens: int, salt: str | None) -> Asked:
        messages = [
            {"role": "system", "content": self._systems[group]},
            {"role": "user", "content": self._text(tokens)},
        ]
        body = {"model": "tiny", "messages": messages, **self._terms(salt)}
        return Asked(self._made, "chat", group, "/v1/chat/completions", body)

    def _terms(self, salt: str | None) -> dict[str, Any]:
        long = self._rng.randrange(100) < LONG_REPLIES
        most = self._rng.randint(30, 100) if long else self._rng.randint(1, 6)
        terms = {"max_tokens": most, "temperature": 0, "ignore_eos": True}
        return terms | ({} if salt is None else {"cache_salt": salt})

    def _ids(self, count: int) -> list[int]:
        return self._rng.choices(VOCABULARY, k=count)

    def _text(self, tokens: int) -> str:
        return " ".join(self._rng.choices(WORDS, k=max(1, tokens)))
