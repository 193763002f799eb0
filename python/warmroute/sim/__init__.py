"""Simulated workers: the engine model of the compiled part, served over HTTP, with KV events over ZMQ."""

from pathlib import Path

# The small tokenizer that the package carries.
TOKENIZER = Path(__file__).parents[1] / "data" / "tokenizer"
