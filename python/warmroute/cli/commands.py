"""The commands: each registers its flags, and runs with what was parsed.

What a command needs is imported when it runs, so that `warmroute version` does not load a web client.
"""

import argparse
import os
import platform
from pathlib import Path
from typing import Any

from warmroute import logs
from warmroute.cli import explain, workers
from warmroute.cli.parser import add_options
from warmroute.config import Config, LogOptions, Option, Schema, Section, SimWorkerOptions, load, show
from warmroute.config.load import CONFIG_VARIABLE
from warmroute.config.tables import serve_schema, sim_worker_schema
from warmroute.native import __version__

Commands = Any

DEMO = Schema(
    [
        Section(
            "demo",
            "the play",
            (
                Option("json", "str", None, "Write the figures to this file."),
                Option("seconds", "float", 45.0, "Real seconds of each play.", 5, 3600, unit="s"),
                Option("speed", "float", 6.0, "Simulated seconds in a real one.", 0.1, 50),
                Option("seed", "int", 1, "Seed of the texts and of the clients' choices.", 0, 2**63 - 1),
                Option("clients", "int", 100, "Clients that talk at once.", 1, 1000),
                Option("agents", "int", 24, "Agents with a system prompt of their own.", 1, 1000),
                Option("workers", "int", 4, "Simulated workers.", 1, 64),
                Option("system_tokens", "int", 30_000, "Tokens of a system prompt.", 16, 100_000),
            ),
        )
    ]
)


def serve(commands: Commands) -> None:
    """`warmroute serve`."""
    schema = serve_schema()
    parser = commands.add_parser(
        "serve",
        help="run the HTTP router in front of vLLM workers",
        usage="warmroute serve --worker URL [--worker URL ...] [--tokenizer DIR] [OPTIONS]",
        description="Route OpenAI requests to the vLLM workers whose KV caches are warm for them.",
    )
    _add_sources(parser, schema)
    parser.set_defaults(run=lambda parsed: _serve(sources(schema, parsed)))


def sim_worker(commands: Commands) -> None:
    """`warmroute sim-worker`."""
    schema = sim_worker_schema()
    parser = commands.add_parser(
        "sim-worker",
        help="run a simulated vLLM worker, to try things without a GPU",
        usage="warmroute sim-worker [--port N] [OPTIONS]",
        description="Answer like a vLLM worker, with the timing of an engine model.",
    )
    add_options(parser, schema)
    parser.set_defaults(run=lambda parsed: _sim_worker(load(schema, flags=vars(parsed))))


def demo(commands: Commands) -> None:
    """`warmroute demo`."""
    parser = commands.add_parser(
        "demo",
        help="play agents on simulated workers, round robin against routed",
        usage="warmroute demo [--json FILE] [OPTIONS]",
        description="Play the same agents on simulated workers twice, and print the figures side by side.",
    )
    add_options(parser, DEMO)
    parser.set_defaults(run=lambda parsed: _demo(load(DEMO, flags=vars(parsed)).section("demo")))


def config(commands: Commands) -> None:
    """`warmroute config show`."""
    schema = serve_schema()
    parser = commands.add_parser("config", help="look at the configuration")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    action = actions.add_parser(
        "show",
        help="print the effective configuration and where each value came from",
        usage="warmroute config show [OPTIONS]",
        description="Print, as TOML, the configuration that `warmroute serve` has with the same flags.",
    )
    _add_sources(action, schema)
    action.set_defaults(run=lambda parsed: _show(schema, parsed))


def version(commands: Commands) -> None:
    """`warmroute version`."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(run=lambda _: _version())


ALL = (serve, workers.register, explain.register, demo, sim_worker, config, version)


def sources(schema: Schema, parsed: argparse.Namespace) -> Config:
    """The values of a schema from the file, the environment and the flags."""
    path = parsed.config or os.environ.get(CONFIG_VARIABLE)
    return load(schema, path=Path(path) if path else None, environment=os.environ, flags=vars(parsed))


def _add_sources(parser: argparse.ArgumentParser, schema: Schema) -> None:
    parser.add_argument("--config", metavar="FILE", help=f"a TOML file [or {CONFIG_VARIABLE}]")
    add_options(parser, schema)


def _log(config: Config) -> None:
    options = config.view("log", LogOptions)
    logs.setup(options.log_level, options.log_format)


def _serve(config: Config) -> int:
    from warmroute import server  # noqa: PLC0415

    _log(config)
    return server.run(config)


def _sim_worker(config: Config) -> int:
    from warmroute.sim import worker  # noqa: PLC0415

    _log(config)
    return worker.run(config.view("worker", SimWorkerOptions), config.section("engine"))


def _demo(values: dict[str, Any]) -> int:
    from warmroute.demo import Scenario, Settings, run  # noqa: PLC0415

    path = values.pop("json")
    settings = Settings(seconds=values.pop("seconds"), speed=values.pop("speed"), scenario=Scenario(**values))
    return run(settings, Path(path) if path else None)


def _show(schema: Schema, parsed: argparse.Namespace) -> int:
    print(show.render(schema, sources(schema, parsed)), end="")
    return 0


def _version() -> int:
    print(f"warmroute {__version__} (Python {platform.python_version()})")
    return 0
