//! What a worker's `/tokenize` is asked for the tokens of a body's prompt.

use crate::completion::Completion;
use crate::{Body, Endpoint};

impl Body<'_> {
    /// The body of a request to vLLM's `/tokenize` that has the tokens of this one's prompt.
    ///
    /// `None` where there is none: other endpoints than chats and completions, and fields that `/tokenize` does not
    /// have.
    pub fn tokenize_request(&self) -> Option<Vec<u8>> {
        let options = self.render_options();
        let unknown = [
            options.chat_template,
            options.truncate_prompt_tokens,
            options.documents,
            options.reasoning_effort,
        ];
        if unknown.iter().any(Option::is_some) {
            return None;
        }
        let mut request = Object::default();
        if let Some(model) = self.model() {
            request.field("model", &serde_json::to_string(model).ok()?);
        }
        match self.endpoint() {
            Endpoint::ChatCompletions => {
                request.field("messages", self.messages().ok()?);
                if let Some(tools) = self.tools() {
                    request.field("tools", tools);
                }
                if let Some(kwargs) = self.chat_template_kwargs() {
                    request.field("chat_template_kwargs", kwargs);
                }
                request.flag("add_generation_prompt", self.add_generation_prompt());
                request.flag("continue_final_message", self.continue_final_message());
            }
            Endpoint::Completions => match self.completion() {
                Ok(Some(Completion::Text(raw))) => request.field("prompt", raw),
                _ => return None,
            },
            Endpoint::Responses | Endpoint::Messages => return None,
        }
        request.flag("add_special_tokens", self.add_special_tokens());
        Some(request.end())
    }
}

/// A JSON object that is being written, from raw values.
#[derive(Default)]
struct Object(String);

impl Object {
    fn field(&mut self, name: &str, raw: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(raw);
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.field(name, if value { "true" } else { "false" });
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push('}');
        self.0.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(endpoint: Endpoint, body: &str) -> Option<String> {
        let request = Body::parse(endpoint, body.as_bytes()).unwrap().tokenize_request()?;
        Some(String::from_utf8(request).unwrap())
    }

    #[test]
    fn a_chat_keeps_its_bytes() {
        let body = r#"{"stream": true, "tools": [ {"a":1.0} ], "model": "a\"b", "messages": [{"role":"user"}],
            "chat_template_kwargs": {"x": 1}, "add_generation_prompt": false}"#;
        let expected = concat!(
            r#"{"model":"a\"b","messages":[{"role":"user"}],"tools":[ {"a":1.0} ],"chat_template_kwargs":{"x": 1},"#,
            r#""add_generation_prompt":false,"continue_final_message":false,"add_special_tokens":false}"#
        );
        assert_eq!(asked(Endpoint::ChatCompletions, body).as_deref(), Some(expected));
    }

    #[test]
    fn a_completion_adds_special_tokens_unless_it_says_otherwise() {
        let asked = |body| asked(Endpoint::Completions, body).unwrap();
        assert_eq!(asked(r#"{"prompt": "x"}"#), r#"{"prompt":"x","add_special_tokens":true}"#);
        let plain = r#"{"prompt": "x", "add_special_tokens": false}"#;
        assert_eq!(asked(plain), r#"{"prompt":"x","add_special_tokens":false}"#);
        // Of several prompts the first is routed by.
        assert_eq!(asked(r#"{"prompt": ["x", "y"]}"#), r#"{"prompt":"x","add_special_tokens":true}"#);
    }

    #[test]
    fn what_the_path_does_not_have_is_not_asked() {
        for body in [
            r#"{"messages": [], "documents": []}"#,
            r#"{"messages": [], "reasoning_effort": "low"}"#,
            r#"{"messages": [], "chat_template": "x"}"#,
            r#"{"messages": [], "truncate_prompt_tokens": 3}"#,
            r#"{"messages": 1}"#,
        ] {
            assert_eq!(asked(Endpoint::ChatCompletions, body), None, "{body}");
        }
        for body in [r#"{"prompt": [1, 2]}"#, r#"{"prompt_embeds": "x"}"#] {
            assert_eq!(asked(Endpoint::Completions, body), None, "{body}");
        }
        assert_eq!(asked(Endpoint::Responses, r#"{"input": "x"}"#), None);
        assert_eq!(asked(Endpoint::Messages, r#"{"messages": []}"#), None);
    }
}
