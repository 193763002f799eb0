"""The command line, made from the option tables."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from warmroute.config import Option, Schema
from warmroute.config.show import literal

WIDTH = 100
COLUMN = 34


class Parser(argparse.ArgumentParser):
    """A parser that suggests the closest flag, and ends with status 2 in one line."""

    def __init__(self, **arguments: Any) -> None:
        """Take what `ArgumentParser` takes."""
        arguments.setdefault(
            "formatter_class",
            lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=COLUMN, width=WIDTH),
        )
        super().__init__(allow_abbrev=False, **arguments)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is left over."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            self.refuse(rest[0], args if args is not None else sys.argv[1:])
        return parsed

    def refuse(self, word: str, arguments: Sequence[str]) -> NoReturn:
        """End with what is said of a word that does not exist."""
        known = self._commands_flags(arguments)
        close = difflib.get_close_matches(word.split("=", maxsplit=1)[0], known, n=1, cutoff=0.6)
        self.error(f"unknown argument {word}" + (f"; did you mean {close[0]}?" if close else ""))

    def _commands_flags(self, arguments: Sequence[str]) -> list[str]:
        """The flags of the command that was given."""
        parser: argparse.ArgumentParser = self
        for word in arguments:
            commands = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
            if commands and word in commands[0].choices:
                parser = commands[0].choices[word]
        return list(parser._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """End with status 2, and without the long usage."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_options(parser: argparse.ArgumentParser, schema: Schema) -> None:
    """Give a parser the flags of a schema, a group for each section; values stay texts."""
    for section in schema.sections:
        group = parser.add_argument_group(f"{section.name}: {section.title}")
        for option in section.options:
            _add(group, option)


def _add(group: Any, option: Option) -> None:
    arguments: dict[str, Any] = {"dest": option.name, "default": None, "help": _help(option)}
    if option.kind == "bool":
        group.add_argument(option.flag, action=argparse.BooleanOptionalAction, **arguments)
    elif option.kind == "list":
        group.add_argument(option.flag, action="append", metavar="TEXT", **arguments)
    else:
        group.add_argument(option.flag, metavar=_metavar(option), **arguments)


def _metavar(option: Option) -> str:
    return {"int": "N", "float": "X", "choice": "NAME", "str": "TEXT"}[option.kind]


def _help(option: Option) -> str:
    facts = []
    if option.kind in ("int", "float", "choice"):
        facts.append(option.allowed)
    if option.default not in (None, ()):
        facts.append(f"default {literal(option.default)}")
    text = " ".join(option.doc.split()) + (f" [{'; '.join(facts)}]" if facts else "")
    return text.replace("%", "%%")
