"""The demo: the seed scenario on simulated workers, once round robin and once routed."""

import asyncio
import signal
from pathlib import Path

import uvloop

from warmroute.demo import report
from warmroute.demo.figures import Figures
from warmroute.demo.play import Play, Settings
from warmroute.demo.progress import Progress
from warmroute.demo.scenario import Scenario

__all__ = ["Scenario", "Settings", "run"]

PLAYS = (("round robin", "round-robin"), ("routed", "priced-affinity"))
INTERRUPTED = 130


def run(settings: Settings, json_path: Path | None) -> int:
    """Play both, print the figures and return the exit status; a signal ends all that was started."""
    progress = Progress()
    scenario = settings.scenario
    progress.say(f"{scenario.agents} agents with system prompts of {scenario.system_tokens:,} tokens,")
    progress.say(f"{scenario.clients} clients, {scenario.workers} simulated A100 workers:")
    progress.say(f"two plays of {settings.seconds:.0f} s")
    try:
        figures = uvloop.run(_plays(settings, progress))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.say("interrupted")
        return INTERRUPTED
    print(report.table(figures, scenario, settings.speed))
    if json_path is not None:
        report.write(json_path, figures, scenario, settings.speed)
    return 0


async def _plays(settings: Settings, progress: Progress) -> dict[str, Figures]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    # SIGINT does this already; without it SIGTERM would leave the router behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    figures = {}
    for name, policy in PLAYS:
        figures[name] = await Play(name, policy, settings, progress.update).run()
    progress.clear()
    return figures
