"""The fleet's side of the server: what knows the workers, and what pushes into the router."""

from dataclasses import dataclass

from warmroute.config import Config, FleetOptions, PromptOptions
from warmroute.fleet import (
    Events,
    Fleet,
    Follower,
    Operator,
    Reconciler,
    Scraper,
    Trust,
    Verifier,
    WorkerClient,
)
from warmroute.native import Mirror, Prompter, Router
from warmroute.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts, each made of those before it."""

    trust: Trust
    events: Events
    follower: Follower
    scraper: Scraper
    fleet: Fleet
    reconciler: Reconciler
    operator: Operator

    async def close(self) -> None:
        """Follow and watch nothing any more: first whoever still asks something of the fleet."""
        await self.reconciler.close()
        await self.scraper.close()
        await self.fleet.close()
        self.events.close()


def parts_of(config: Config, router: Router, prompter: Prompter, client: WorkerClient, tasks: Tasks) -> Parts:
    """What is configured, at rest: no worker is known yet."""
    options = config.view("fleet", FleetOptions)
    verify_s = config.view("prompt", PromptOptions).verify_timeout_ms / 1000
    trust = Trust(prompter)
    events = Events(options.kv_replay_timeout_ms / 1000)
    follower = Follower(events, client, lambda name: Mirror(router, name))
    scraper = Scraper(router, client, options, tasks=tasks)
    fleet = Fleet(
        router,
        client,
        options,
        block_size=router.block_size,
        verifier=Verifier(prompter, client, verify_s) if prompter.has_tokenizer and verify_s > 0 else None,
        trust=trust,
        follower=follower if options.kv_events == "auto" else None,
        scraper=scraper if options.scrape_interval_ms > 0 else None,
        tasks=tasks,
    )
    reconciler = Reconciler(fleet, options.worker_drain_timeout_ms / 1000, tasks=tasks)
    operator = Operator(fleet, reconciler, router.stats)
    return Parts(trust, events, follower, scraper, fleet, reconciler, operator)
