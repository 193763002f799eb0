"""Configuration: one definition of each option, whatever the source of its value."""

from warmroute.config.front import (
    FleetOptions,
    GrpcOptions,
    ListenOptions,
    LogOptions,
    PromptOptions,
    SimWorkerOptions,
    WorkerOptions,
)
from warmroute.config.hub import resolve_tokenizer
from warmroute.config.load import Config, Setting, load
from warmroute.config.option import Option, options_of
from warmroute.config.schema import Schema, Section
from warmroute.config.tokenizers import tokenizers_of
from warmroute.config.worker import worker_of

__all__ = [
    "Config",
    "FleetOptions",
    "GrpcOptions",
    "ListenOptions",
    "LogOptions",
    "Option",
    "PromptOptions",
    "Schema",
    "Section",
    "Setting",
    "SimWorkerOptions",
    "WorkerOptions",
    "load",
    "options_of",
    "resolve_tokenizer",
    "tokenizers_of",
    "worker_of",
]
