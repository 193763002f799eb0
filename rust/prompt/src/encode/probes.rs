//! Texts on which tokenizers are known to disagree.

/// Random texts of a run.
const RANDOM: usize = 1_000;
/// Added tokens that are tried one by one; models reserve hundreds of a kind.
const TOKENS: usize = 96;
/// A run this long leaves what tokenizers do for words on the stack.
const RUN: usize = 700;
/// Longer than what fastokens takes on one thread.
const LONG: usize = 96 * 1024;

/// Yields [`PIECES`], what each added token does beside them, long runs of one piece, and random mixtures:
/// some 200 KB, the same ones each time.
#[derive(Clone)]
pub(super) struct Probes {
    tokens: Vec<String>,
    random: u64,
    step: usize,
    all: String,
}

impl Probes {
    /// Probes for a tokenizer with these added tokens.
    pub(super) fn new(tokens: Vec<String>) -> Probes {
        Probes { tokens, random: 0x9e37_79b9_7f4a_7c15, step: 0, all: String::new() }
    }

    /// The `step`-th probe, or nothing after the last one.
    fn at(&mut self, step: usize) -> Option<String> {
        let tried = self.tokens.len().min(TOKENS);
        if step < PIECES.len() {
            return Some(PIECES[step].to_owned());
        }
        let step = step - PIECES.len();
        if step < PIECES.len() {
            return Some(PIECES[step].repeat(RUN / PIECES[step].len().max(1)));
        }
        let step = step - PIECES.len();
        if step < tried {
            // Spread over all of them: the first ones are often the vocabulary's own reserved names.
            return Some(around(&self.tokens[step * self.tokens.len() / tried]));
        }
        match step - tried {
            step if step < RANDOM => Some(self.mixture()),
            // All of it at once: long texts take other ways through a tokenizer than short ones.
            RANDOM => Some(std::mem::take(&mut self.all)),
            _ => None,
        }
    }

    fn mixture(&mut self) -> String {
        let pieces = 1 + self.below(9);
        (0..pieces).map(|_| self.piece()).collect()
    }

    fn piece(&mut self) -> String {
        if !self.tokens.is_empty() && self.below(4) == 0 {
            let token = self.below(self.tokens.len());
            return self.tokens[token].clone();
        }
        let piece = PIECES[self.below(PIECES.len())];
        // A part of a piece puts its neighbours where its author did not think of them.
        let from = self.below(piece.chars().count().max(1));
        let take = 1 + self.below(12);
        piece.chars().skip(from).take(take).collect()
    }

    fn below(&mut self, bound: usize) -> usize {
        // xorshift64: the texts are to be varied, not unforeseeable.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % bound
    }
}

impl Iterator for Probes {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let probe = self.at(self.step)?;
        self.step += 1;
        if self.all.len() < LONG {
            self.all.push_str(&probe);
        }
        Some(probe)
    }
}

/// `token` with neighbours that it may eat or be eaten by, halves of it, and look-alikes.
fn around(token: &str) -> String {
    let half: String = token.chars().take(token.chars().count() / 2).collect();
    let cased: String =
        token.chars().map(|c| if c.is_lowercase() { c.to_ascii_uppercase() } else { c }).collect();
    let open = token.chars().next().unwrap_or(' ');
    format!(
        "a{token}b {token} \n{token}\n{token}{token}\u{301} {half}{token}  {half} {open}{token}é{cased}'{token}s"
    )
}

/// What tokenizers are known to disagree on: contractions (with letters that fold to ASCII, too), digits, runs
/// of space, line ends, scripts without spaces, combining marks, emoji sequences, control characters, and the
/// special tokens of chats, whole and damaged.
const PIECES: [&str; 40] = [
    "",
    " ",
    "Hello, world! It's we'll I'M THEY'RE don't 'twas O'Neill's",
    "it'\u{17f} I'\u{17f} you\u{2019}re he\u{2019}LL '\u{212a} x'Ll 'Ve'D ''s '\u{1e9e}",
    "def f(x):\n    return {\"a\": [1, 2.5e-3], 'b': None}  # tail\n\n\n\tif x:\r\n\t\tpass\n",
    "1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x1F ١٢٣ ½ Ⅷ ²³ ๑๒",
    "a  b   c    d\n e \n\n f\t\tg \u{a0}h\u{3000}i\u{2003}j",
    "!\n/ ...\n\n--- ===\n ;;; <<>> && || != :=\r\n\r\n",
    "  leading and trailing  ",
    "naïve café Ünïcödé Ångström ﬁ ﬂ ² ℃ İ ẞ Ǆ ǅ ǆ ʰ",
    "e\u{301} n\u{303} \u{1100}\u{1161}\u{11a8} \u{0928}\u{093f} \u{1e0b}\u{323} \u{344}",
    "日本語のワーカーとプレフィックスキャッシュ。ストリーミング・トークナイザー",
    "中文字符测试,标点。「引號」——《书名》〇々〆",
    "한국어 텍스트 ㄱㄴㄷ ᄒᆞᆫ글",
    "Привет мир, Καλημέρα κόσμε, שלום עולם, مرحبا بالعالم, สวัสดีชาวโลก",
    "नमस्ते दुनिया ক্ষ தமிழ் ගම ខ្មែរ မြန်မာ བོད",
    "👋🏽 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 🇯🇵 ❤\u{fe0f} 🫠",
    "\u{0}\u{1}\u{7f}\u{85}\u{feff}\u{200b}\u{2028}\u{2029}\u{fffd}\u{10ffff}\u{e000}",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|><|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|>",
    "<s>[INST] x [/INST]</s> <bos><start_of_turn>user\n<end_of_turn>",
    "<｜begin▁of▁sentence｜><｜User｜>x<｜Assistant｜></think><｜end▁of▁sentence｜>",
    "<|start|>assistant<|channel|>final<|message|>x<|return|>",
    "<|im_start|<|im_end|> <|im_end |> < |im_end|>  <|im_end|>  x",
    "<think>\nplan\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
    "https://example.com/a?b=c&d=%20#frag user@example.com C:\\dir\\file.txt",
    "SELECT * FROM t WHERE a='x' AND b>=10;-- done",
    "deadbeef 9f86d081884c7d659a2feaa0c55ad015 QmFzZTY0IGVuY29kZWQ=",
    "camelCaseWord snake_case_word SCREAMING_CASE kebab-case a1b2c3 HTTPServer iOS",
    "x\u{301}\u{301}\u{301} \u{ac00}\u{d7a3} \u{10ffff} \u{1f600}",
    "\u{301}x \u{200d} \u{fe0f}y \u{93f}",
    "▁ ▁▁a ▁b Ġ Ċ <0x0A> <0xE2><unk></s>",
    "\r \r\n \n\r \u{b}\u{c} \u{1c}\u{1d} \u{85}\u{a0}\u{1680}\u{202f}\u{205f}\u{180e}",
    "𝒜𝓁𝑔𝑒𝒷𝓇𝒶 Ｆｕｌｌｗｉｄｔｈ １２３ ①② ㍿ ﷺ",
    "# Title\n\n* one\n* two\n  - three\n\n```python\nprint('x')\n```\n| a | b |\n|---|---|\n",
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\"}}}",
    "¿Qué? ¡Sí! «guillemets» „Anführung“ ‘q’ “q” – — … • ™ © € £ ¥ ½",
    "a.b,c;d:e!f?g(h)i[j]k{l}m<n>o/p\\q|r@s#t$u%v^w&x*y-z_A+B=C~D`E\"F'G",
    "The router sends each request to the worker whose cache already holds the longest prefix of its prompt. ",
    "import os\nclass A(B):\n    \"\"\"Doc.\"\"\"\n    def __init__(self, *, n: int = 0) -> None:\n        self.n = n\n",
];
