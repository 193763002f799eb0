//! How text becomes token ids.

use serde_json::Value;

/// Turns text into the token ids the engine works on.
pub trait Tokenize: Send + Sync + 'static {
    /// The token ids of a chat completion's body, which has `messages`.
    ///
    /// # Errors
    /// What is wrong with the body, in words for its sender.
    fn chat(&self, body: &[u8]) -> Result<Vec<u32>, String>;

    /// The token ids of a text.
    ///
    /// # Errors
    /// What is wrong with the text, in words for its sender.
    fn text(&self, text: &str) -> Result<Vec<u32>, String>;
}

/// A tokenizer without a vocabulary: every four bytes are a token.
///
/// Two texts share their leading tokens exactly as far as their leading bytes are equal, which is what
/// prefix caching needs; the ids mean nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashTokenizer;

impl Tokenize for HashTokenizer {
    fn chat(&self, body: &[u8]) -> Result<Vec<u32>, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let messages = body["messages"].as_array().ok_or("messages must be a list")?;
        let mut text = String::new();
        if let Some(tools) = body.get("tools").filter(|tools| !tools.is_null()) {
            text.push_str(&tools.to_string());
        }
        for message in messages {
            text.push_str("<|");
            text.push_str(message["role"].as_str().ok_or("role must be a string")?);
            text.push_str("|>");
            match &message["content"] {
                Value::String(content) => text.push_str(content),
                Value::Array(parts) => {
                    parts
                        .iter()
                        .filter_map(|part| part["text"].as_str())
                        .for_each(|part| text.push_str(part));
                }
                _ => {}
            }
        }
        text.push_str("<|assistant|>");
        self.text(&text)
    }

    fn text(&self, text: &str) -> Result<Vec<u32>, String> {
        let id = |piece: &[u8]| {
            let word = piece.iter().fold(1_u64, |word, &byte| word << 8 | u64::from(byte));
            // Ids stay below 2^17, as those of a real vocabulary do.
            (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 47) as u32
        };
        Ok(text.as_bytes().chunks(4).map(id).collect())
    }
}
