"""Sections of options: what a command can be told, whatever the source."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from warmroute.config.option import Option


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the configuration file, and a group of flags."""

    name: str
    title: str
    options: tuple[Option, ...]


class Schema:
    """All the options of a command. Names are unique over the sections, since flags have no section."""

    def __init__(self, sections: Iterable[Section]) -> None:
        """Take the sections in the order in which they are shown."""
        self.sections = tuple(sections)
        self._by_name: dict[str, tuple[Section, Option]] = {}
        for section in self.sections:
            for option in section.options:
                if option.name in self._by_name:
                    raise ValueError(f"option {option.name!r} is defined twice")
                self._by_name[option.name] = (section, option)

    def __iter__(self) -> Iterator[tuple[str, Option]]:
        """Every option with its key, `section.name`."""
        for name, (section, option) in self._by_name.items():
            yield f"{section.name}.{name}", option

    def get(self, key: str) -> Option | None:
        """The option with the key `section.name`."""
        section, _, name = key.partition(".")
        found = self._by_name.get(name)
        return found[1] if found and found[0].name == section else None

    def has_section(self, name: str) -> bool:
        """Whether there is a section of that name."""
        return any(section.name == name for section in self.sections)

    def suggest(self, key: str) -> str:
        """What is said of a key that does not exist."""
        name = key.rpartition(".")[2]
        close = difflib.get_close_matches(name, self._by_name, n=1, cutoff=0.6)
        if not close:
            return unknown(key, (f"{section.name}." for section in self.sections))
        return f"unknown key; did you mean {self._by_name[close[0]][0].name}.{close[0]}?"


def unknown(word: str, known: Iterable[str]) -> str:
    """What is said of a word that does not exist, with the closest one that does."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"unknown key; did you mean {close[0]}?" if close else "unknown key"
