"""`warmroute workers`: the fleet of a running router."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from warmroute.cli import table
from warmroute.cli.parser import add_options
from warmroute.cli.remote import OPTIONS, Remote, environment, path_of
from warmroute.config import Option, Schema, Section, WorkerOptions, load, options_of
from warmroute.config.worker import worker_from, worker_of
from warmroute.errors import ConfigError, DeadlineExceeded

Commands = Any

PATH = "/warmroute/v1/workers"
POLL_S = 0.2

# The operand says the URL and the name.
TERMS = tuple(option for option in options_of(WorkerOptions) if option.name not in ("url", "name"))
ADD = Schema(
    [Section("worker", "what it does not say itself", TERMS), *OPTIONS.sections],
)
WAIT = Schema(
    [
        Section(
            "drain",
            "whether the end is waited for",
            (
                Option(
                    "wait_ms",
                    "int",
                    0,
                    "Wait so long until it has nothing left; status 1 where it still has.",
                    0,
                    86_400_000,
                    unit="ms",
                ),
            ),
        ),
        *OPTIONS.sections,
    ]
)


def register(commands: Commands) -> None:
    """`warmroute workers list|add|drain|remove`."""
    parser = commands.add_parser("workers", help="list, add, drain or remove workers of a running router")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    action = _action(actions, "list", "list the workers", "", OPTIONS)
    action.set_defaults(run=lambda parsed: _list(*_asked(parsed, OPTIONS)))
    action = _action(actions, "add", "take a worker in until it is removed", "[NAME=]URL", ADD)
    action.set_defaults(run=lambda parsed: _add(parsed.worker_name, *_asked(parsed, ADD)))
    action = _action(actions, "drain", "let a worker finish, and give it nothing more", "NAME", WAIT)
    action.set_defaults(run=lambda parsed: _drain(parsed.worker_name, *_asked(parsed, WAIT)))
    action = _action(actions, "remove", "forget a worker at once; its requests go on", "NAME", OPTIONS)
    action.set_defaults(run=lambda parsed: _remove(parsed.worker_name, *_asked(parsed, OPTIONS)))


def _action(actions: Any, name: str, text: str, operand: str, schema: Schema) -> argparse.ArgumentParser:
    usage = f"warmroute workers {name} {operand}".rstrip() + " [--router URL] [--json] [OPTIONS]"
    action: argparse.ArgumentParser = actions.add_parser(name, help=text, usage=usage, description=text)
    if operand:
        action.add_argument("worker_name", metavar=operand)
    action.add_argument("--json", action="store_true", dest="as_json", help="print the reply as JSON")
    add_options(action, schema)
    return action


def _asked(parsed: argparse.Namespace, schema: Schema) -> tuple[Remote, Mapping[str, Any], bool]:
    config = load(schema, environment=environment(), flags=vars(parsed))
    values = {key.partition(".")[2]: setting.value for key, setting in config.settings.items()}
    return Remote(values), values, parsed.as_json


def _list(remote: Remote, _values: Mapping[str, Any], as_json: bool) -> int:
    reply = remote.ask("GET", PATH)
    _show(reply, reply["workers"], as_json)
    return 0


def _add(text: str, remote: Remote, values: Mapping[str, Any], as_json: bool) -> int:
    worker = worker_of(text, "the command line")
    terms = {option.name: values[option.name] for option in TERMS if values[option.name] not in (None, ())}
    body = {"url": worker.url, "name": worker.name, **terms}
    worker_from(body, "worker", "the command line")
    reply = remote.ask("POST", PATH, json.dumps(body).encode())
    _show(reply, [reply["worker"]], as_json)
    return 0


def _drain(name: str, remote: Remote, values: Mapping[str, Any], as_json: bool) -> int:
    reply = remote.ask("POST", path_of(_named(name), "drain"))
    deadline = time.monotonic() + values["wait_ms"] / 1000
    while values["wait_ms"] and _requests(remote, name):
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"{name} still has requests after {values['wait_ms']} ms; it drains on")
        time.sleep(POLL_S)
    _show(reply, [reply["worker"]], as_json)
    return 0


def _remove(name: str, remote: Remote, _values: Mapping[str, Any], as_json: bool) -> int:
    reply = remote.ask("DELETE", path_of(_named(name)))
    print(json.dumps(reply, indent=2) if as_json else f"removed {reply['removed']}")
    return 0


def _named(name: str) -> str:
    if not name:
        raise ConfigError("NAME", name, "a worker's name, as `warmroute workers list` shows it")
    return name


def _requests(remote: Remote, name: str) -> int:
    workers = remote.ask("GET", PATH)["workers"]
    return sum(worker["load"].get("requests", 0) for worker in workers if worker["name"] == name)


def _show(reply: Any, workers: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(reply, indent=2, ensure_ascii=False))
        return
    head = ("NAME", "URL", "STATE", "SOURCE", "REQUESTS", "OTHERS", "WAIT_S", "BLOCKS", "MODELS", "ERROR")
    print(table.render(head, [_row(worker) for worker in workers]) if workers else "no workers")


def _row(worker: Mapping[str, Any]) -> tuple[Any, ...]:
    load, models = worker["load"], worker["models"]
    held = load.get("confirmed_blocks", 0) + load.get("predicted_blocks", 0)
    shown = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
    return (
        worker["name"],
        worker["url"],
        worker["state"],
        worker["source"],
        load.get("requests"),
        load.get("other_requests"),
        load.get("wait_seconds"),
        held,
        shown,
        worker["health"]["error"],
    )
