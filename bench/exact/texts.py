"""Random texts, made of what tokenizers get wrong and of the tokens of one of them."""

import random
from collections.abc import Iterator, Sequence

# Words by kind: contractions, digits, composed characters, scripts without spaces, other scripts, emoji,
# code, addresses, the markup of chats, whole and damaged, and plain words.
WORDS = (
    "it's we'll I'M THEY'RE don't 'twas O'Neill's it'ſ I'ſ you’re he’LL 'K x'Ll 'Ve'D ''s '",
    "0 1 12 123 1234 1234567890 3.14159 1,000,000 0x1F ١٢٣ ½ Ⅷ ²³ ๑๒ 12ab34",
    "café naïve Ångström ﬁﬂ ² ℃ İ ẞ ß ǅ ʰ Ⓐ Ｆｕｌｌ １２",
    "日本語のワーカー プレフィックス ストリーミング・トークン 中文字符测试，标点。 한국어 ᄒᆞᆫ글 「引號」",
    "Привет Καλημέρα שלום مرحبا สวัสดีชาวโลก नमस्ते ক্ষ தமிழ் ខ្មែរ မြန်မာ བོད",
    "👋🏽 👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 🇯🇵 ❤\ufe0f 🫠 𝒜𝓁𝑔 \U00010348",
    'def f(x): return {"a": [1, 2.5e-3]} != := -> // /* */ <<= camelCase snake_case HTTPServer',
    "https://example.com/a?b=c&d=%20#f user@example.com C:\\dir\\file.txt 9f86d081884c QmFzZTY0",
    "<think> </think> <tool_call> <|im_start|> <|im_end|> <|eot_id|> <s> </s> [INST] <bos> <unk>",
    "<|im_start <|im_end |im_end|> <| |> < > <|endoftext| [INST ▁ ▁▁ Ġ Ċ <0x0A> ａ",
    "user assistant system the a an and in it ing er of to is was The Router worker prefix",
)
SPACES = (
    *(" ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r\n\r\n", " \n ", "\r", "\v", "\f", "\x85", "\xa0"),
    *(
        "!\n/",
        "...\n\n",
        "---\n",
        ";;;\n/",
        "\n\t\t",
        " \t",
        "\u2028",
        "\u1680",
        "\u202f",
        "\u180e",
        "\u3000",
    ),
)
MARKS = (
    *(
        "e\u0301",
        "n\u0303",
        "\u1100\u1161\u11a8",
        "\u0928\u093f",
        "\u1e0b\u0323",
        "\u0344",
        "\u0301",
        "x\u0301\u0301",
    ),
    *("\x00", "\x01", "\x7f", "\ufeff", "\u200b", "\ufffd", "\U0010ffff", "\ue000", "\u200d", "\ufe0f"),
)
PIECES = (*(word for line in WORDS for word in line.split(" ")), *SPACES, *MARKS)
SEGMENTS = 120
SHORT, LONG = 6, 80


class Texts:
    """Texts for a tokenizer with these added tokens; half of them go on from a beginning that others have."""

    def __init__(self, tokens: Sequence[str], seed: int) -> None:
        """Take the tokens that join the pieces."""
        self._random = random.Random(seed)
        # A model reserves hundreds of a kind: some of them are enough, and each then comes often.
        self._tokens = self._random.sample(list(tokens), min(len(tokens), 48)) or [""]
        self._segments = [self._run(LONG) for _ in range(SEGMENTS)]

    def take(self, count: int) -> Iterator[str]:
        """Yield this many."""
        beginnings = [""]
        for _ in range(count):
            begin = self._random.choice(beginnings) if self._random.random() < 0.4 else ""
            text = begin + self._run(SHORT) + self._segment()
            if len(text) < 1_500 and self._random.random() < 0.2:
                place = self._random.randrange(64)
                beginnings[place : place + 1] = [text + self._random.choice(self._tokens)]
            yield text

    def _segment(self) -> str:
        if self._random.random() < 0.9:
            return ""
        token = self._random.choice(self._tokens)
        return (
            token + self._random.choice(self._segments) + self._random.choice(self._tokens) + self._run(SHORT)
        )

    def _run(self, pieces: int) -> str:
        return "".join(self._piece() for _ in range(self._random.randint(1, pieces)))

    def _piece(self) -> str:
        kind = self._random.random()
        if kind < 0.25:
            return self._random.choice(self._tokens)
        if kind < 0.30:
            token = self._random.choice(self._tokens)
            cut = self._random.randint(0, len(token))
            return self._random.choice((token[:cut], token[cut:], token.swapcase()))
        if kind < 0.36:
            return "".join(self._character() for _ in range(self._random.randint(1, 5)))
        if kind < 0.40:
            return self._random.choice(PIECES) * self._random.randint(2, 12)
        return self._random.choice(PIECES) + self._random.choice(("", "", " "))

    def _character(self) -> str:
        top = self._random.choice((0x80, 0x250, 0x3000, 0x10000, 0x20000))
        code = self._random.randrange(top)
        return chr(code) if not 0xD800 <= code < 0xE000 else "?"
