//! What a request body asks for.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Tokenize;
use super::error::ApiError;
use crate::engine::Finish;

/// The fields of a JSON object, not looked into; of a key that comes twice the last one counts.
pub(super) struct Fields<'a>(HashMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Fields<'a>, ApiError> {
        serde_json::from_slice(body).map(Fields).map_err(|error| ApiError::bad_json(&error))
    }

    /// The field's value; none where it is missing or null.
    fn get<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, ApiError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_str(raw).map(Some).map_err(|error| ApiError::invalid("type_error", name, error))
    }

    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|raw| raw.get()).filter(|&raw| raw != "null")
    }
}

/// Which API a call came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Completion,
}

/// A call for generation.
#[derive(Debug)]
pub(super) struct Call {
    /// The model as the body names it; none means the server's own.
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) token_ids: bool,
    pub(super) salt: Option<String>,
    max_tokens: Option<u32>,
    ignore_eos: bool,
    pub(super) prompts: Vec<Vec<u32>>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl Call {
    pub(super) fn parse(
        kind: Kind,
        body: &[u8],
        tokenize: &dyn Tokenize,
        knows: impl Fn(&str) -> bool,
    ) -> Result<Call, ApiError> {
        let fields = Fields::parse(body)?;
        let model: Option<String> = fields.get("model")?;
        if let Some(name) = model.as_deref().filter(|name| !knows(name)) {
            return Err(ApiError::unknown_model(name));
        }
        let salt: Option<String> = fields.get("cache_salt")?;
        if salt.as_deref() == Some("") {
            let problem = "Parameter 'cache_salt' must be a non-empty string if provided.";
            return Err(ApiError::parameter("cache_salt", None, problem));
        }
        if let Some(n) = fields.get::<i64>("n")?.filter(|&n| n != 1) {
            return Err(ApiError::bad_request(format!(
                "n is {n}, and this engine model answers n = 1 only."
            )));
        }
        let options: Option<StreamOptions> = fields.get("stream_options")?;
        Ok(Call {
            model,
            stream: fields.get("stream")?.unwrap_or(false),
            include_usage: options.and_then(|options| options.include_usage).unwrap_or(false),
            token_ids: fields.get("return_token_ids")?.unwrap_or(false),
            salt,
            max_tokens: max_tokens(kind, &fields)?,
            ignore_eos: fields.get("ignore_eos")?.unwrap_or(false),
            prompts: prompts(kind, &fields, body, tokenize)?,
        })
    }

    /// How many tokens the reply has where the model ends after `natural` of them, and why it ends then.
    pub(super) fn output(&self, natural: u32) -> (u32, Finish) {
        let natural = if self.ignore_eos { u32::MAX } else { natural };
        match self.max_tokens {
            Some(limit) if limit <= natural => (limit, Finish::Length),
            _ => (natural, Finish::Stop),
        }
    }
}

fn max_tokens(kind: Kind, fields: &Fields<'_>) -> Result<Option<u32>, ApiError> {
    let limit = match kind {
        Kind::Chat => fields.get::<i64>("max_completion_tokens")?.or(fields.get("max_tokens")?),
        // The default of the completions API.
        Kind::Completion => fields.get("max_tokens")?.or(Some(16)),
    };
    match limit {
        Some(limit) if limit < 1 => Err(ApiError::no_output(limit)),
        limit => Ok(limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX))),
    }
}

fn prompts(
    kind: Kind,
    fields: &Fields<'_>,
    body: &[u8],
    tokenize: &dyn Tokenize,
) -> Result<Vec<Vec<u32>>, ApiError> {
    if kind == Kind::Chat {
        if fields.raw("messages").is_none() {
            return Err(ApiError::missing("messages"));
        }
        return Ok(vec![tokenize.chat(body).map_err(ApiError::bad_request)?]);
    }
    let Some(raw) = fields.raw("prompt") else { return Err(ApiError::missing("prompt")) };
    let encode = |text: String| tokenize.text(&text).map_err(ApiError::bad_request);
    let prompts: Vec<Vec<u32>> = match PromptKind::of(raw) {
        PromptKind::Text => vec![encode(parsed(raw)?)?],
        PromptKind::Ids => vec![parsed(raw)?],
        PromptKind::Texts => parsed::<Vec<String>>(raw)?.into_iter().map(encode).collect::<Result<_, _>>()?,
        PromptKind::IdLists => parsed(raw)?,
    };
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        return Err(ApiError::bad_request("You must pass at least one prompt"));
    }
    Ok(prompts)
}

enum PromptKind {
    Text,
    Ids,
    Texts,
    IdLists,
}

impl PromptKind {
    fn of(raw: &str) -> PromptKind {
        let mut marks = raw.bytes().filter(|byte| !byte.is_ascii_whitespace());
        match (marks.next(), marks.next()) {
            (Some(b'['), Some(b'"')) => PromptKind::Texts,
            (Some(b'['), Some(b'[')) => PromptKind::IdLists,
            (Some(b'['), _) => PromptKind::Ids,
            _ => PromptKind::Text,
        }
    }
}

fn parsed<'a, T: Deserialize<'a>>(raw: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(raw).map_err(|error| ApiError::invalid("type_error", "prompt", error))
}

#[cfg(test)]
mod tests {
    use super::super::HashTokenizer;
    use super::*;

    fn parse(kind: Kind, body: &str) -> Result<Call, ApiError> {
        Call::parse(kind, body.as_bytes(), &HashTokenizer, |name| name == "sim")
    }

    fn completion(rest: &str) -> Result<Call, ApiError> {
        parse(Kind::Completion, &format!("{{\"model\":\"sim\",{rest}}}"))
    }

    #[test]
    fn every_form_of_prompt_is_read() {
        let prompts = |prompt: &str| completion(&format!("\"prompt\": {prompt}")).unwrap().prompts;
        assert_eq!(prompts("\"abcdefgh\""), [HashTokenizer.text("abcdefgh").unwrap()]);
        assert_eq!(prompts(" [ 1, 2]"), [[1, 2]]);
        assert_eq!(prompts("[[1], [2, 3]]"), [vec![1], vec![2, 3]]);
        assert_eq!(prompts("[\"ab\", \"cd\"]").len(), 2);
        for wrong in ["[]", "[[]]", "\"\"", "[1, -2]", "[1.5]", "{}", "7", "[1, \"a\"]", "null"] {
            let error = completion(&format!("\"prompt\": {wrong}")).unwrap_err();
            assert_eq!(error.status, 400, "{wrong}");
        }
    }

    #[test]
    fn of_a_key_that_comes_twice_the_last_counts() {
        let call =
            completion("\"prompt\": [1], \"max_tokens\": 3, \"prompt\": [2], \"max_tokens\": 5").unwrap();
        assert_eq!((call.prompts.clone(), call.output(120)), (vec![vec![2]], (5, Finish::Length)));
    }

    #[test]
    fn the_reply_ends_by_limit_or_by_nature() {
        let output = |kind, rest: &str| {
            let prompt = "\"prompt\": [1], \"messages\": []";
            parse(kind, &format!("{{{prompt}{rest}}}")).map(|call| call.output(120))
        };
        assert_eq!(output(Kind::Completion, ""), Ok((16, Finish::Length)));
        assert_eq!(output(Kind::Chat, ""), Ok((120, Finish::Stop)));
        assert_eq!(output(Kind::Chat, ", \"max_tokens\": 7"), Ok((7, Finish::Length)));
        assert_eq!(output(Kind::Chat, ", \"max_tokens\": 120"), Ok((120, Finish::Length)));
        assert_eq!(
            output(Kind::Chat, ", \"max_tokens\": 7, \"max_completion_tokens\": 9"),
            Ok((9, Finish::Length))
        );
        assert_eq!(output(Kind::Chat, ", \"max_tokens\": 500"), Ok((120, Finish::Stop)));
        assert_eq!(
            output(Kind::Chat, ", \"max_tokens\": 500, \"ignore_eos\": true"),
            Ok((500, Finish::Length))
        );
        assert_eq!(output(Kind::Chat, ", \"max_tokens\": null"), Ok((120, Finish::Stop)));
        assert!(output(Kind::Chat, ", \"max_tokens\": 0").is_err());
        assert!(output(Kind::Chat, ", \"max_tokens\": \"7\"").is_err());
    }

    #[test]
    fn what_is_wrong_is_said_in_vllms_shape() {
        let body = |result: Result<Call, ApiError>| result.unwrap_err().body();
        assert_eq!(
            body(parse(Kind::Chat, "{\"model\":\"other\",\"messages\":[]}")),
            "{\"error\":{\"code\":404,\"message\":\"The model `other` does not exist.\",\"param\":\"model\",\
             \"type\":\"NotFoundError\"}}"
        );
        assert_eq!(
            body(parse(Kind::Chat, "{\"model\":\"sim\"}")),
            "{\"error\":{\"code\":400,\"message\":\"1 validation error:\\n  {'type': 'missing', \
             'loc': 'body.messages', 'msg': 'Field required'}\",\"param\":\"body.messages\",\
             \"type\":\"Bad Request\"}}"
        );
        for wrong in ["", "{", "[]", "null", "{\"messages\": [}", "{}", "{\"messages\": null}"] {
            assert!(body(parse(Kind::Chat, wrong)).contains("\"code\":400"), "{wrong}");
        }
        assert!(body(completion("\"prompt\": [1], \"cache_salt\": \"\"")).contains("cache_salt"));
        assert!(body(completion("\"prompt\": [1], \"n\": 2")).contains("n is 2"));
        assert!(body(completion("\"prompt\": [1], \"stream\": 3")).contains("stream"));
    }
}
