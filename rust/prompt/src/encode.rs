//! Text to token ids, as the worker's tokenizer does it.

use std::path::Path;

use serde_json::Value;

use crate::{LoadError, Refused};

/// A loaded tokenizer.
pub(crate) enum Encoder {
    /// fastokens: about fifty times as fast as the reference.
    Fast(Box<fastokens::Tokenizer>),
    /// Hugging Face's own, for what fastokens refuses or encodes otherwise.
    Reference(Box<tokenizers::Tokenizer>),
}

impl Encoder {
    /// Loads `definition`, the content of a `tokenizer.json` read from `path`.
    ///
    /// fastokens is taken where it loads and agrees with the reference on [`CORPUS`].
    ///
    /// # Errors
    /// [`LoadError::Invalid`] where the reference refuses the definition.
    pub(crate) fn load(path: &Path, definition: Value) -> Result<Encoder, LoadError> {
        let invalid = |reason: String| LoadError::Invalid { path: path.to_owned(), reason };
        let text = serde_json::to_vec(&definition).map_err(|error| invalid(error.to_string()))?;
        let reference =
            tokenizers::Tokenizer::from_bytes(text).map_err(|error| invalid(error.to_string()))?;
        let reference = Encoder::Reference(Box::new(reference));
        let Ok(fast) = fastokens::Tokenizer::from_json(definition) else {
            return Ok(reference);
        };
        let fast = Encoder::Fast(Box::new(fast));
        Ok(if agree(&fast, &reference) { fast } else { reference })
    }

    /// The ids of `text`; `special` adds what the tokenizer puts around a whole input (BOS, EOS).
    ///
    /// # Errors
    /// [`Refused`] where the tokenizer fails, which those of language models do not.
    pub(crate) fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, Refused> {
        let failed = Refused::Tokenizer;
        match self {
            Encoder::Fast(fast) => fast.encode_with_special_tokens(text, special).map_err(|_| failed),
            Encoder::Reference(reference) => reference
                .encode_fast(text, special)
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(|_| failed),
        }
    }

    /// Whether the fast tokenizer is in use.
    pub(crate) fn is_fast(&self) -> bool {
        matches!(self, Encoder::Fast(_))
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_fast() { "Encoder::Fast" } else { "Encoder::Reference" })
    }
}

fn agree(fast: &Encoder, reference: &Encoder) -> bool {
    let pieces = CORPUS.iter().flat_map(|text| [(*text, false), (*text, true)]);
    let whole = CORPUS.concat();
    pieces
        .chain([(whole.as_str(), false)])
        .all(|(text, special)| fast.encode(text, special).ok() == reference.encode(text, special).ok())
}

/// What tokenizers are known to disagree on: contractions, digits, runs of space, line ends, scripts
/// without spaces, combining marks, emoji sequences, control characters, and the special tokens of chats.
const CORPUS: [&str; 24] = [
    "",
    " ",
    "Hello, world! It's we'll I'M THEY'RE don't 'twas O'Neill's",
    "def f(x):\n    return {\"a\": [1, 2.5e-3], 'b': None}  # tail\n\n\n\tif x:\r\n\t\tpass\n",
    "1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x1F ١٢٣ ½ Ⅷ",
    "a  b   c    d\n e \n\n f\t\tg \u{a0}h\u{3000}i",
    "!\n/ ...\n\n--- ===\n ;;; <<>> && || != :=\r\n\r\n",
    "  leading and trailing  ",
    "naïve café Ünïcödé Ångström ﬁ ﬂ ² ℃",
    "e\u{301} n\u{303} \u{1100}\u{1161}\u{11a8} \u{0928}\u{093f}",
    "日本語のワーカーとプレフィックス。中文字符测试,标点。한국어 텍스트",
    "Привет мир, Καλημέρα κόσμε, שלום עולם, مرحبا بالعالم, สวัสดีชาวโลก",
    "👋🏽 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 🇯🇵 ❤\u{fe0f}",
    "\u{0}\u{1}\u{7f}\u{85}\u{feff}\u{200b}\u{2028}",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|><|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|>",
    "<s>[INST] x [/INST]</s> <bos><start_of_turn>user\n<end_of_turn>",
    "<|im_start|<|im_end|> <|im_end |> < |im_end|>  <|im_end|>  x",
    "<think>\nplan\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
    "https://example.com/a?b=c&d=%20#frag user@example.com C:\\dir\\file.txt",
    "SELECT * FROM t WHERE a='x' AND b>=10;-- done",
    "deadbeef 9f86d081884c7d659a2feaa0c55ad015 QmFzZTY0IGVuY29kZWQ=",
    "camelCaseWord snake_case_word SCREAMING_CASE kebab-case a1b2c3",
    "x\u{301}\u{301}\u{301} \u{ac00}\u{d7a3} \u{10ffff} \u{1f600}",
];
