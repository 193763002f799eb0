//! Chat bodies of a given size whose text never repeats.

use std::fmt::Write;

use serde_json::{Value, json};

/// Makes texts that differ from one another, of prose, code, JSON and Japanese.
pub struct Texts {
    state: u64,
}

const WORDS: [&str; 24] = [
    "the",
    "request",
    "worker",
    "of",
    "a",
    "returns",
    "cache",
    "prefix",
    "when",
    "it",
    "holds",
    "token",
    "block",
    "and",
    "latency",
    "is",
    "measured",
    "in",
    "schedule",
    "between",
    "invoice",
    "quarterly",
    "report",
    "analysis",
];
const JAPANESE: [&str; 8] = ["ワーカー", "と", "プレフィックス", "は", "要求", "を", "確認", "する"];

impl Texts {
    pub fn new(seed: u64) -> Texts {
        Texts { state: seed }
    }

    fn next(&mut self, below: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as usize) % below
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.next(WORDS.len())]
    }

    /// A text of about `bytes` bytes.
    pub fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        while text.len() < bytes {
            match self.next(20) {
                0..=8 => {
                    for _ in 0..12 {
                        text.push_str(self.word());
                        text.push(' ');
                    }
                    text.push_str("\"as agreed\".\n");
                }
                9..=13 => {
                    let (a, b, number) = (self.word(), self.word(), self.next(100_000));
                    let _infallible = write!(
                        text,
                        "def {a}_{b}(self, value):\n    if value > {number}:\n        return {b}[\"{a}\"]\n"
                    );
                }
                14..=17 => {
                    let (a, b, number) = (self.word(), self.word(), self.next(1_000_000));
                    let _infallible = writeln!(
                        text,
                        "{{\"{a}\": {number}, \"{b}\": [\"{a}\", null], \"type\": \"object\"}}"
                    );
                }
                _ => {
                    for _ in 0..10 {
                        text.push_str(JAPANESE[self.next(JAPANESE.len())]);
                    }
                    text.push('\n');
                }
            }
        }
        text
    }

    /// A system message and turns, with `bytes` bytes of text in all.
    pub fn messages(&mut self, count: usize, bytes: usize) -> Vec<Value> {
        let system = bytes / 4;
        let each = (bytes - system) / (count - 1);
        let first = json!({"role": "system", "content": self.text(system)});
        let roles = ["user", "assistant"].into_iter().cycle();
        let rest = roles.take(count - 1).map(|role| json!({"role": role, "content": self.text(each)}));
        [first].into_iter().chain(rest).collect()
    }

    pub fn tools(&mut self, count: usize) -> Value {
        (0..count)
            .map(|at| {
                let properties: serde_json::Map<_, _> = (0..5)
                    .map(|property| {
                        (
                            format!("{}_{property}", self.word()),
                            json!({"type": "string", "description": self.text(40)}),
                        )
                    })
                    .collect();
                json!({"type": "function", "function": {
                    "name": format!("{}_{at}", self.word()), "description": self.text(120),
                    "parameters": {"type": "object", "properties": properties, "required": []},
                }})
            })
            .collect()
    }
}

/// The body as a client sends it.
pub fn body(messages: &[Value], tools: Option<&Value>) -> Vec<u8> {
    let mut body = json!({"model": "m", "messages": messages, "stream": true, "max_tokens": 120});
    if let Some(tools) = tools {
        body["tools"] = tools.clone();
    }
    body.to_string().into_bytes()
}
