"""Tokenizers that are made here, each with something that is easily got wrong."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.exact.convert import added, bos
from warmroute.sim import TOKENIZER

Json = dict[str, Any]

CHAT = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
OVERLAPPING = ("<a>", "<a><b>", "<b><a>", "<b>", "<<a>", "<a>>", "a><b", "<|im_", "im_start|><|")


def write(folder: Path) -> Iterator[Path]:
    """Write each into a folder of its own and yield it."""
    for name, tokenizer in definitions().items():
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        (target / "tokenizer.json").write_text(json.dumps(tokenizer))
        yield target


def definitions() -> dict[str, Json]:
    """`tokenizer.json` by name."""
    byte_level = json.loads((TOKENIZER / "tokenizer.json").read_text())
    start = {"type": "TemplateProcessing", **bos("<|endoftext|>", token_id(byte_level, "<|endoftext|>"))}
    lower = {"type": "Lowercase"}
    return {
        "byte-level": byte_level,
        "bos": {**byte_level, "post_processor": start},
        "rstrip": flagged(byte_level, rstrip=True),
        "lstrip": flagged(byte_level, lstrip=True),
        "both-strips": flagged(byte_level, lstrip=True, rstrip=True),
        "single-word": flagged(byte_level, single_word=True),
        "normalized": flagged({**byte_level, "normalizer": lower}, normalized=True),
        "nfc-normalized": flagged({**byte_level, "normalizer": {"type": "NFC"}}, normalized=True),
        "nfkc": {**byte_level, "normalizer": {"type": "NFKC"}},
        "overlapping": with_tokens(byte_level, OVERLAPPING),
        "truncating": {
            **byte_level,
            "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        },
        **{f"metaspace-{scheme}": metaspace(scheme) for scheme in ("first", "always", "never")},
        "metaspace-split": metaspace("first", split=True),
        "prepend": prepend(),
    }


def token_id(tokenizer: Json, content: str) -> int:
    """Find the id of an added token."""
    return next(int(token["id"]) for token in tokenizer["added_tokens"] if token["content"] == content)


def flagged(tokenizer: Json, **flags: bool) -> Json:
    """Set flags of the tokens of chats."""
    tokens = [token | flags if token["content"] in CHAT else token for token in tokenizer["added_tokens"]]
    return {**tokenizer, "added_tokens": tokens}


def with_tokens(tokenizer: Json, contents: tuple[str, ...]) -> Json:
    """Add tokens behind those that are there."""
    first = 1 + max(token["id"] for token in tokenizer["added_tokens"])
    more = [added(content, first + i) for i, content in enumerate(contents)]
    return {**tokenizer, "added_tokens": [*tokenizer["added_tokens"], *more]}


def metaspace(scheme: str, *, split: bool = False) -> Json:
    """Make a SentencePiece-like tokenizer with a `Metaspace` pre-tokenizer."""
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    return {**sentencepiece(), "pre_tokenizer": step}


def prepend() -> Json:
    """Make one that puts a space before every piece, as Llama 2's file does."""
    steps = [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]
    return {**sentencepiece(), "normalizer": {"type": "Sequence", "normalizers": steps}}


def sentencepiece() -> Json:
    """Make a small vocabulary of bytes, letters and a few words, with the merges that make them."""
    words = "▁the ▁a ▁an ▁and ▁in ▁it ing er on ▁user ▁tool es ed ▁▁ ▁▁▁▁ ▁th he in an nd us ▁t ▁to ▁too ol"
    letters = [chr(c) for c in range(0x21, 0x7F)] + list("▁éüñ日本語中文")
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *words.split()]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    merges = [
        [word[:cut], word[cut:]]
        for word in vocabulary
        for cut in range(1, len(word))
        if word[:cut] in vocabulary and word[cut:] in vocabulary and not word.startswith("<")
    ]
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    tokens = [added("<unk>", 0), added("<s>", 1), added("</s>", 2)]
    tokens += [added(token, len(vocabulary) + i) for i, token in enumerate(CHAT)]
    return {
        "version": "1.0",
        "added_tokens": tokens,
        "post_processor": bos("<s>", 1),
        "model": {**model, "vocab": vocabulary, "merges": merges},
    }
