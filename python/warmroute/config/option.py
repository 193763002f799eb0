"""What an option is: its name, kind, default, range, unit and meaning."""

import dataclasses
import math
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

from warmroute.errors import ConfigError

Kind = Literal["int", "float", "bool", "choice", "str", "list"]

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_METADATA = "warmroute"


class OptionSpec(Protocol):
    """A row of an option table, as the compiled part gives it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def default(self) -> Any: ...  # noqa: D102
    @property
    def minimum(self) -> float | None: ...  # noqa: D102
    @property
    def maximum(self) -> float | None: ...  # noqa: D102
    @property
    def choices(self) -> Sequence[str] | None: ...  # noqa: D102
    @property
    def unit(self) -> str | None: ...  # noqa: D102
    @property
    def doc(self) -> str: ...  # noqa: D102


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option; `default` is `None` where leaving it out has a meaning of its own, which `doc` states."""

    name: str
    kind: Kind
    default: Any
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""

    @classmethod
    def of(cls, spec: OptionSpec) -> "Option":
        """Take over a row of a table of the compiled part."""
        return cls(
            name=spec.name,
            kind=typing.cast(Kind, spec.kind),
            default=spec.default,
            doc=spec.doc,
            minimum=spec.minimum,
            # The largest integer of the compiled part's type is no limit that a person set.
            maximum=None if spec.maximum == 2**64 - 1 else spec.maximum,
            choices=tuple(spec.choices or ()),
            unit=spec.unit or "",
        )

    @property
    def flag(self) -> str:
        """The command line's name of this option."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment's name of this option."""
        return "WARMROUTE_" + self.name.upper()

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "list":
            return "a list of texts"
        if self.kind == "str":
            return "a text that is not empty"
        noun = "an integer" if self.kind == "int" else "a number"
        return noun + self._range() + (f" ({self.unit})" if self.unit else "")

    def _range(self) -> str:
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            return f" from {plain(low)} to {plain(high)}"
        if low is not None:
            return f", at least {plain(low)}"
        return f", at most {plain(high)}" if high is not None else ""

    def parse(self, text: str, key: str, source: str) -> Any:
        """Turn text from a flag or the environment into a value, or raise `ConfigError`."""
        try:
            return self.check(self._from_text(text.strip()), key, source)
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(key, text, self.allowed, source) from None

    def _from_text(self, text: str) -> Any:
        if self.kind == "int":
            return int(text)
        if self.kind == "float":
            return float(text)
        if self.kind == "bool":
            if text.lower() not in _TRUE | _FALSE:
                raise ValueError(text)
            return text.lower() in _TRUE
        if self.kind == "list":
            return [part for part in (part.strip() for part in text.split(",")) if part]
        return text

    def check(self, value: Any, key: str, source: str) -> Any:
        """Return the value in its exact type; raise `ConfigError` where it is not allowed."""
        if self.kind == "float" and type(value) is int:
            value = float(value)
        if self.kind == "list":
            value = _listed(value)
        if not self._is_allowed(value):
            raise ConfigError(key, value, self.allowed, source)
        return tuple(value) if self.kind == "list" else value

    def _is_allowed(self, value: Any) -> bool:
        match self.kind:
            case "int":
                return type(value) is int and self._in_range(value)
            case "float":
                return type(value) is float and math.isfinite(value) and self._in_range(value)
            case "bool":
                return type(value) is bool
            case "choice":
                return value in self.choices
            case "str":
                return type(value) is str and value != ""
            case "list":
                return isinstance(value, list | tuple) and all(type(item) is str and item for item in value)

    def _in_range(self, value: float) -> bool:
        return (self.minimum is None or value >= self.minimum) and (
            self.maximum is None or value <= self.maximum
        )


def _listed(value: Any) -> Any:
    """One text is a list of one; a table is a list of NAME=TEXT, as flags have them."""
    if type(value) is str:
        return [value]
    if isinstance(value, dict):
        return [f"{name}={item}" if type(item) is str else item for name, item in value.items()]
    return value


def plain(number: float) -> str:
    """Write a limit without a needless fraction."""
    return str(int(number)) if float(number).is_integer() else repr(number)


def option(
    default: Any,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    unit: str = "",
) -> Any:
    """Define an option as a dataclass field: its name and type are the option's name and kind."""
    extra = {"doc": doc, "minimum": minimum, "maximum": maximum, "choices": choices, "unit": unit}
    return dataclasses.field(default=default, metadata={_METADATA: extra})


def options_of(cls: type) -> tuple[Option, ...]:
    """The table of the options that a dataclass defines with `option`."""
    hints = get_type_hints(cls)
    return tuple(
        Option(
            name=field.name,
            kind=_kind(hints[field.name], field.metadata[_METADATA]["choices"]),
            default=field.default,
            **field.metadata[_METADATA],
        )
        for field in dataclasses.fields(cls)
    )


def _kind(hint: Any, choices: tuple[str, ...]) -> Kind:
    if choices:
        return "choice"
    if get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is tuple:
        return "list"
    kinds: dict[type, Kind] = {int: "int", float: "float", bool: "bool", str: "str"}
    return kinds[hint]
