//! Tokenizer folders: what is read from them, and what is wrong with them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warmroute_prompt::{Body, ContentFormat, Endpoint, LoadError, LoadOptions, Prompter, Rung};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer")
}

/// A copy of the package's tokenizer in a folder of its own, without its configuration.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("warmroute-prompt-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::copy(package().join("tokenizer.json"), path.join("tokenizer.json")).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Folder {
        fs::write(self.0.join(name), content).unwrap();
        self
    }

    fn config(&self, config: &Value) -> &Folder {
        self.write("tokenizer_config.json", config.to_string())
    }

    fn load(&self) -> Result<Prompter, LoadError> {
        Prompter::load(&self.0, &LoadOptions::default())
    }

    fn render(&self, fields: &str) -> String {
        let prompter = self.load().unwrap();
        render(&prompter, fields)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder harms nobody.
        let _ignored = fs::remove_dir_all(&self.0);
    }
}

fn render(prompter: &Prompter, fields: &str) -> String {
    let body = format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}]{fields}}}"#);
    let body = Body::parse(Endpoint::ChatCompletions, body.as_bytes()).unwrap();
    prompter.exact().unwrap().text(&body).unwrap()
}

#[test]
fn a_folder_without_a_template_has_completions_only() {
    let folder = Folder::new("bare");
    let file = folder.0.join("tokenizer.json");
    let prompter = Prompter::load(&file, &LoadOptions::default()).unwrap();
    assert!(!prompter.exact().unwrap().has_chat_template());
    let completion = Body::parse(Endpoint::Completions, br#"{"prompt": "hello"}"#).unwrap();
    assert_eq!(prompter.read(&completion).unwrap().rung(), Rung::Local);
    let chat = Body::parse(Endpoint::ChatCompletions, br#"{"messages": [{"role": "user"}]}"#).unwrap();
    assert_eq!(prompter.read(&chat).unwrap().rung(), Rung::Text);
}

#[test]
fn templates_are_found_where_hugging_face_finds_them() {
    let folder = Folder::new("templates");
    folder.config(&json!({"chat_template": "one {{ eos_token }}", "eos_token": {"content": "E"}}));
    assert_eq!(folder.render(""), "one E");
    let named = [("default", "plain"), ("tool_use", "tools")].map(|(n, t)| json!({"name": n, "template": t}));
    folder.config(&json!({"chat_template": named}));
    folder.write("special_tokens_map.json", r#"{"eos_token": "F"}"#);
    assert_eq!(folder.render(""), "plain");
    assert_eq!(folder.render(r#", "tools": [{"function": {"name": "f"}}]"#), "tools");
    folder.write("chat_template.jinja", "file {{ eos_token }}");
    assert_eq!(folder.render(""), "file F");
    folder.write("other.jinja", "{{ messages[0].content is string }}");
    for (format, printed) in [(None, "True"), (Some(ContentFormat::OpenAi), "False")] {
        let options = LoadOptions {
            chat_template: Some(folder.0.join("other.jinja")),
            content_format: format,
            ..LoadOptions::default()
        };
        assert_eq!(render(&Prompter::load(&folder.0, &options).unwrap(), ""), printed);
    }
}

#[test]
fn tokens_that_only_the_configuration_declares_are_tokens() {
    let folder = Folder::new("added");
    folder.config(&json!({"added_tokens_decoder": {
        "8007": {"content": "<|image_pad|>", "special": true, "normalized": false, "lstrip": false},
        "8000": {"content": "<|endoftext|>", "special": true},
    }}));
    let prompter = folder.load().unwrap();
    let exact = prompter.exact().unwrap();
    let ids = exact.encode("a<|image_pad|>b<|endoftext|>", false).unwrap();
    assert!(exact.is_fast());
    assert_eq!((ids[1], ids[3], ids.len()), (8007, 8000, 4));
}

#[test]
fn what_fastokens_refuses_is_encoded_by_the_reference() {
    let folder = Folder::new("reference");
    let mut tokenizer: Value =
        serde_json::from_slice(&fs::read(folder.0.join("tokenizer.json")).unwrap()).unwrap();
    tokenizer["normalizer"] = json!({"type": "NFKC"});
    folder.write("tokenizer.json", tokenizer.to_string());
    let prompter = folder.load().unwrap();
    let exact = prompter.exact().unwrap();
    assert!(!exact.is_fast());
    assert_eq!(exact.encode("ﬁne", false), exact.encode("fine", false));
}

#[test]
fn qwen_2_is_normalised_as_its_class_does_it() {
    let folder = Folder::new("qwen2");
    let mut tokenizer: Value =
        serde_json::from_slice(&fs::read(folder.0.join("tokenizer.json")).unwrap()).unwrap();
    tokenizer["normalizer"] = Value::Null;
    folder.write("tokenizer.json", tokenizer.to_string());
    let same = |folder: &Folder| {
        let prompter = folder.load().unwrap();
        let exact = prompter.exact().unwrap();
        exact.encode("e\u{301}", false) == exact.encode("é", false)
    };
    assert!(!same(&folder));
    folder.write("config.json", r#"{"model_type": "qwen2"}"#);
    assert!(same(&folder));
}

#[test]
fn errors_name_the_file() {
    let folder = Folder::new("errors");
    let said = |folder: &Folder| folder.load().unwrap_err().to_string();
    folder.config(&json!({"chat_template": "{% if %}"}));
    assert!(said(&folder).contains("tokenizer_config.json is not valid: syntax error"), "{}", said(&folder));
    folder.write("chat_template.jinja", "{% if %}");
    assert!(said(&folder).contains("chat_template.jinja is not valid: syntax error"));
    folder.write("tokenizer_config.json", "[]");
    assert!(said(&folder).contains("tokenizer_config.json is not valid: it is not a JSON object"));
    folder.write("tokenizer_config.json", "{");
    assert!(said(&folder).contains("tokenizer_config.json is not valid"));
    folder.write("tokenizer_config.json", "{}").write("chat_template.jinja", "");
    folder.write("tokenizer.json", "{\"model\": 1}");
    assert!(said(&folder).contains("tokenizer.json is not valid"));
    folder.write("tokenizer.json", b"\xff");
    assert!(said(&folder).contains("cannot read"));
    let absent = Prompter::load(Path::new("/nowhere/at/all"), &LoadOptions::default()).unwrap_err();
    assert!(absent.to_string().starts_with("cannot read /nowhere/at/all"), "{absent}");
}
