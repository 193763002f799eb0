"""The router from Python against a slow, obvious model: lists of held prefixes, loads summed from scratch."""

import array
from dataclasses import dataclass, field
from typing import Any, Literal

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

import warmroute

BLOCK = 4
CAPACITY = 20
NAMES = ("a", "b", "c")
# Llama-3.1-8B on an A100, as in docs/routing.md.
A1, A2, D1, D2 = 5.52e-5, 2.94e-9, 2.5e-5, 9.0e-8

Prefix = tuple[int, ...]


@dataclass
class Open:
    """A request that has not ended."""

    lease: warmroute.Lease
    worker: str
    prompt: Prefix
    prefill: float
    prompt_tokens: int
    first_token: bool = False
    output_tokens: int = 0


@dataclass
class Worker:
    """Held prefixes, one a block, from the least to the most recently used, with the moment of that."""

    held: list[tuple[Prefix, int]] = field(default_factory=list)
    # The moments at which replies filled blocks, one for each.
    replies: list[int] = field(default_factory=list)
    draining: bool = False

    def holds(self, prefix: Prefix) -> bool:
        return any(prefix == held for held, _ in self.held)

    def overlap(self, prompt: Prefix) -> int:
        """Leading tokens held, in whole blocks and without the last token."""
        usable = (len(prompt) - 1) // BLOCK * BLOCK
        length = 0
        while length < usable and self.holds(prompt[: length + BLOCK]):
            length += BLOCK
        return length

    def credit(self, prompt: Prefix, now: int) -> None:
        """Hold the prompt's blocks; what is over the capacity goes, the tails of old prompts first."""
        self.touch(blocks_of(prompt)[:CAPACITY], now)
        self.evict()

    def free(self, prompt: Prefix, output_tokens: int, known: bool, now: int) -> None:
        """Use what is left of a prompt again, and hold the blocks that its reply filled."""
        if known:
            self.touch([block for block in blocks_of(prompt) if self.holds(block)], now)
        filled = (len(prompt) + max(0, output_tokens - 1)) // BLOCK - len(prompt) // BLOCK
        self.replies += [now] * min(filled, CAPACITY)
        self.evict()

    def touch(self, blocks: list[Prefix], now: int) -> None:
        self.held = [entry for entry in self.held if entry[0] not in blocks]
        self.held += [(block, now) for block in reversed(blocks)]

    def evict(self) -> None:
        while len(self.held) + len(self.replies) > CAPACITY:
            if self.replies and (not self.held or self.replies[0] <= self.held[0][1]):
                del self.replies[0]
            else:
                del self.held[0]


def blocks_of(prompt: Prefix) -> list[Prefix]:
    return [prompt[:end] for end in range(BLOCK, len(prompt) + 1, BLOCK)]


def prompts() -> st.SearchStrategy[Prefix]:
    """Prompts that share stems and diverge."""
    stem = st.tuples(st.integers(0, 2), st.integers(1, 50))
    return st.builds(
        lambda stem, tail: tuple(stem[0] * 100 + i for i in range(stem[1])) + tuple(tail),
        stem,
        st.lists(st.integers(900, 901), max_size=6),
    )


class RouterMachine(RuleBasedStateMachine):
    """Random fleets, prompts and ends of requests."""

    leases = Bundle("leases")

    @initialize()
    def start(self) -> None:
        self.router = warmroute.Router(block_size=BLOCK)
        self.workers: dict[str, Worker] = {}
        self.open: list[Open] = []
        self.now = 0
        self.add("a")

    @rule(name=st.sampled_from(NAMES))
    def add(self, name: str) -> None:
        if name not in self.workers:
            self.router.add_worker(name, kv_blocks=CAPACITY)
            self.workers[name] = Worker()

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        if self.workers.pop(name, None) is not None:
            self.router.remove_worker(name)
            for request in self.open:
                request.worker = "" if request.worker == name else request.worker

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        if name in self.workers:
            self.router.set_ready(name, False)
            self.router.set_ready(name, True)
            self.workers[name].held.clear()
            self.workers[name].replies.clear()

    @precondition(lambda self: len(self.workers) > 1)
    @rule(name=st.sampled_from(NAMES))
    def drain(self, name: str) -> None:
        if name in self.workers:
            self.router.drain_worker(name)
            self.workers[name].draining = True

    @rule(target=leases, prompt=prompts(), form=st.sampled_from(("bytes", "array", "list")))
    def route(self, prompt: Prefix, form: str) -> Open | None:
        packed = array.array("I", prompt)
        tokens = {"bytes": packed.tobytes(), "array": packed, "list": list(prompt)}[form]
        self.check(prompt, tokens)
        ready = [name for name, worker in self.workers.items() if not worker.draining]
        if not ready:
            try:
                self.router.route(tokens)
            except warmroute.errors.NoEligibleWorker:
                return None
            raise AssertionError("a fleet without a ready worker took a request")
        lease = self.router.route(tokens, max_tokens=10)
        self.now += 1
        worker = self.workers[lease.worker]
        assert not worker.draining
        assert lease.overlap_tokens == worker.overlap(prompt)
        request = Open(lease, lease.worker, prompt, self.prefill(prompt, worker), len(prompt))
        worker.credit(prompt, self.now)
        self.open.append(request)
        return request

    @rule(request=leases)
    def first_token(self, request: Open | None) -> None:
        if request is not None and request in self.open:
            request.lease.first_token()
            self.now += 1
            request.first_token = True

    @rule(request=leases, tokens=st.integers(0, 40))
    def progress(self, request: Open | None, tokens: int) -> None:
        if request is not None and request in self.open:
            request.lease.progress(tokens)
            request.output_tokens = max(request.output_tokens, tokens)

    @rule(request=consumes(leases), outcome=st.sampled_from(("finished", "failed", "cancelled")))
    def close(self, request: Open | None, outcome: Literal["finished", "failed", "cancelled"]) -> None:
        if request is not None:
            blocks = blocks_of(request.prompt)
            known = bool(blocks) and any(worker.holds(blocks[-1]) for worker in self.workers.values())
            if outcome == "finished" and blocks and request.worker:
                self.workers[request.worker].free(request.prompt, request.output_tokens, known, self.now)
            assert request.lease.close(outcome)
            assert not request.lease.close(outcome)
            self.open.remove(request)

    @staticmethod
    def prefill(prompt: Prefix, worker: Worker) -> float:
        """The request's own prefill, in seconds."""
        uncached = len(prompt) - worker.overlap(prompt)
        return A1 * uncached + A2 * uncached * (len(prompt) - uncached / 2)

    def check(self, prompt: Prefix, tokens: Any) -> None:
        """Every worker's terms as the model has them."""
        explanation = self.router.explain(tokens, max_tokens=10)
        assert {candidate.worker for candidate in explanation.candidates} == set(self.workers)
        for candidate in explanation.candidates:
            worker = self.workers[candidate.worker]
            assert candidate.overlap_tokens == worker.overlap(prompt)
            assert candidate.refusal == ("draining" if worker.draining else None)
            active = [request for request in self.open if request.worker == candidate.worker]
            assert candidate.requests == len(active)
            context = sum(request.prompt_tokens + request.output_tokens for request in active)
            assert candidate.context_tokens == context
            cost, prefill = candidate.cost, self.prefill(prompt, worker)
            close_to(cost.prefill, prefill)
            close_to(cost.delay, prefill * len(active))
            waiting = sum(request.prefill for request in active if not request.first_token)
            assert waiting * 0.5 - 1e-6 <= cost.wait <= waiting * 2 + 1e-6
            close_to(cost.total, cost.wait + cost.prefill + cost.delay + cost.decode)
            if active:
                assert cost.decode > 0

    @invariant()
    def nothing_leaks(self) -> None:
        stats = self.router.stats()
        assert stats["open"] == len(self.open)
        assert stats["abandoned"] == 0
        for worker in stats["workers"]:
            assert worker["predicted_blocks"] == len(self.workers[worker["name"]].held)


def close_to(value: float, expected: float) -> None:
    assert abs(value - expected) <= 1e-9 + 1e-6 * expected, (value, expected)


TestRouter = RouterMachine.TestCase
# 220 runs of 50 steps: over 10,000 operations.
TestRouter.settings = settings(max_examples=220, stateful_step_count=50)
