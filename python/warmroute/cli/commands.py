"""The commands: each registers its flags, and runs with what was parsed."""

import argparse
import os
import platform
from pathlib import Path
from typing import Any

from warmroute.cli.parser import add_options
from warmroute.config import Config, Schema, load, show
from warmroute.config.load import CONFIG_VARIABLE
from warmroute.config.tables import serve_schema
from warmroute.native import __version__

Commands = Any


def config(commands: Commands) -> None:
    """`warmroute config show`."""
    parser = commands.add_parser("config", help="look at the configuration")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    schema = serve_schema()
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


def _version() -> int:
    print(f"warmroute {__version__} (Python {platform.python_version()})")
    return 0


def _show(schema: Schema, parsed: argparse.Namespace) -> int:
    print(show.render(schema, sources(schema, parsed)), end="")
    return 0


def _add_sources(parser: argparse.ArgumentParser, schema: Schema) -> None:
    parser.add_argument("--config", metavar="FILE", help=f"a TOML file [or {CONFIG_VARIABLE}]")
    add_options(parser, schema)


def sources(schema: Schema, parsed: argparse.Namespace) -> Config:
    """The values of a schema from the file, the environment and the flags."""
    path = parsed.config or os.environ.get(CONFIG_VARIABLE)
    return load(schema, path=Path(path) if path else None, environment=os.environ, flags=vars(parsed))


ALL = (config, version)
