"""Log lines for people or for machines. Fields are named; prompts, keys and credentials never get in."""

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

ROOT = "warmroute"
_FIELDS = "warmroute_fields"

# Longer values are cut: a field names a thing, it does not carry a body.
_VALUE_LIMIT = 300
_TRACEBACK_LINES = 200
_HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"authorization|api_?key|cookie|credential|messages|passw|prompt(?!_tokens)|secret|tokens?_ids|(?<!_)token$",
    re.IGNORECASE,
)
_URL_CREDENTIAL = re.compile(r"(?<=://)[^/@\s]+@")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE)

# What was said once is remembered up to this many times; past it, new things are said each time.
_ONCE_LIMIT = 4_096


class Logger(logging.LoggerAdapter[logging.Logger]):
    """A logger that takes fields as keyword arguments: `log.info("worker is up", worker="w1")`."""

    def __init__(self, name: str) -> None:
        """Take the last part of the logger's name."""
        super().__init__(logging.getLogger(f"{ROOT}.{name}"), {})
        self._said: set[tuple[str, object]] = set()
        self._lock = threading.Lock()

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Move the fields to where the formatters find them."""
        known = {
            name: kwargs.pop(name) for name in ("exc_info", "stack_info", "stacklevel") if name in kwargs
        }
        return msg, {**known, "extra": {_FIELDS: dict(kwargs)}}

    def once(self, key: object, message: str, **fields: Any) -> None:
        """Warn, but only the first time for this message and key: for states that last, not for events."""
        with self._lock:
            if (message, key) in self._said:
                return
            if len(self._said) < _ONCE_LIMIT:
                self._said.add((message, key))
        self.warning(message, **fields)


def get(name: str) -> Logger:
    """The logger of a part of warmroute."""
    return Logger(name)


def setup(level: str = "info", style: str = "human", stream: TextIO | None = None) -> None:
    """Send warmroute's logs to a stream (standard error unless given), for people or as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else HumanFormatter())
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


class HumanFormatter(logging.Formatter):
    """`12:00:01.123 info    fleet: worker is up  worker=w1`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line; a traceback follows on lines of its own."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix(ROOT + ".")
        fields = "".join(f"  {key}={_shown(value)}" for key, value in _fields(record).items())
        line = (
            f"{clock}.{int(record.msecs):03} {record.levelname.lower():<7} {name}: {_message(record)}{fields}"
        )
        return line + ("\n" + _traceback(self, record) if record.exc_info else "")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = {
            "time": f"{clock}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix(ROOT + "."),
            "message": _message(record),
        }
        tail = {"traceback": _traceback(self, record)} if record.exc_info else {}
        return json.dumps({**_fields(record), **head, **tail}, ensure_ascii=False)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Where it failed. The messages of exceptions are foreign text, and are cut and cleaned as values are."""
    text = formatter.formatException(record.exc_info) if record.exc_info else ""
    return "\n".join(str(clean("traceback", line)) for line in text.splitlines()[-_TRACEBACK_LINES:])


def _message(record: logging.LogRecord) -> str:
    return str(clean("message", record.getMessage()))


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return {name: clean(name, value) for name, value in getattr(record, _FIELDS, {}).items()}


def clean(name: str, value: Any) -> Any:
    """The value as it may be logged: short, and without what looks like a secret."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if _SECRET_NAME.search(name):
        return _HIDDEN
    text = str(value)
    text = _BEARER.sub(rf"\1 {_HIDDEN}", _URL_CREDENTIAL.sub("", text))
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 3] + "..."


def _shown(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if re.search(r"[\s\"=]", text) or not text else text
