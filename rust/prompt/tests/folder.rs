//! What a folder's files make of its tokenizer, as transformers reads them, and which folders are refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warmroute_prompt::{Body, Endpoint, Exact, LoadError, LoadOptions, Prompter, Refused};

struct Folder(PathBuf);

impl Folder {
    /// An empty folder.
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("warmroute-folder-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Folder {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn json(&self, name: &str, content: &Value) -> &Folder {
        self.write(name, content.to_string())
    }

    /// With the package's byte-level tokenizer.
    fn byte_level(&self) -> &Folder {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer");
        self.write("tokenizer.json", fs::read(package.join("tokenizer.json")).unwrap())
    }

    /// With a SentencePiece-like tokenizer of letters, as Llama 2's files are.
    fn llama(&self) -> &Folder {
        let mut vocabulary = json!({"<unk>": 0, "<s>": 1, "</s>": 2});
        let pieces =
            (0..256).map(|byte| format!("<0x{byte:02X}>")).chain(["▁", "a", "b", "▁a"].map(str::to_owned));
        for (id, piece) in pieces.enumerate() {
            vocabulary[piece] = (id + 3).into();
        }
        let prepend = json!({"type": "Prepend", "prepend": "▁"});
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        self.json(
            "tokenizer.json",
            &json!({
                "version": "1.0",
                "added_tokens": [token(1, "<s>"), token(2, "</s>")],
                "normalizer": {"type": "Sequence", "normalizers": [prepend, replace]},
                "model": {
                    "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                    "vocab": vocabulary, "merges": [["▁", "a"]],
                },
            }),
        )
    }

    fn load(&self) -> Result<Prompter, LoadError> {
        Prompter::load(&self.0, &LoadOptions::default())
    }

    fn error(&self) -> String {
        self.load().unwrap_err().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder harms nobody.
        let _ignored = fs::remove_dir_all(&self.0);
    }
}

fn token(id: u32, content: &str) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": true})
}

fn ids(prompter: &Prompter, text: &str) -> Vec<u32> {
    let exact: &Exact = prompter.exact().unwrap();
    let ids = exact.encode(text, false).unwrap();
    assert_eq!(exact.reference(text, false).unwrap(), ids);
    ids
}

#[test]
fn a_folder_with_another_tokenizer_says_what_to_do() {
    for (file, words) in [
        (
            "tokenizer.model",
            "it has tokenizer.model and no tokenizer.json; transformers writes a tokenizer.json",
        ),
        ("qwen.tiktoken", "it has tiktoken and no tokenizer.json"),
        ("vocab.json", "it has vocab.json and no tokenizer.json"),
        ("model-q4.gguf", "it has a GGUF file and no tokenizer.json; leave the tokenizer out"),
        ("tekken.json", "vLLM encodes with Mistral's own tokenizer"),
        ("tokenizer.model.v3", "vLLM encodes with Mistral's own tokenizer"),
    ] {
        let folder = Folder::new(file);
        let error = folder.write(file, "").error();
        assert!(error.starts_with(folder.0.to_str().unwrap()) && error.contains(words), "{error}");
    }
    let empty = Folder::new("empty").error();
    assert!(empty.contains("cannot read") && empty.contains("tokenizer.json"), "{empty}");
    let file = Path::new("/models/model.gguf");
    let error = Prompter::load(file, &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("/models/model.gguf: a GGUF file has no tokenizer.json"), "{error}");
}

#[test]
fn the_tokenizer_that_vllm_prefers_is_refused_unless_the_file_is_named() {
    let folder = Folder::new("mistral");
    folder.byte_level().write("tekken.json", "{}");
    assert!(folder.load().is_ok());
    for file in ["params.json", "consolidated-00001-of-00002.safetensors"] {
        folder.write(file, "{}");
        assert!(folder.error().contains("--tokenizer-mode hf"));
        let named = Prompter::load(&folder.0.join("tokenizer.json"), &LoadOptions::default());
        assert!(named.is_ok());
        fs::remove_file(folder.0.join(file)).unwrap();
    }
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    let folder = Folder::new("options");
    folder.byte_level();
    for key in ["split_special_tokens", "fix_mistral_regex"] {
        let error = folder.json("tokenizer_config.json", &json!({ key: true })).error();
        assert!(error.contains("tokenizer_config.json: with ") && error.contains(key), "{error}");
        assert!(folder.json("tokenizer_config.json", &json!({ key: false })).load().is_ok());
    }
    let mut tokenizer: Value =
        serde_json::from_slice(&fs::read(folder.0.join("tokenizer.json")).unwrap()).unwrap();
    tokenizer["model"]["dropout"] = json!(0.1);
    let error = folder.json("tokenizer.json", &tokenizer).error();
    assert!(error.contains("tokenizer.json: its model has a dropout"), "{error}");
}

#[test]
fn declared_tokens_are_tokens_with_the_configurations_flags() {
    let folder = Folder::new("declared");
    folder.byte_level();
    let plain = folder.load().unwrap();
    let end = ids(&plain, "<|im_end|>");
    assert_eq!(end.len(), 1);
    assert_ne!(ids(&plain, " <|im_end|> x").len(), 2);
    let stripping = json!({"content": "<|im_end|>", "lstrip": true, "rstrip": true, "special": true});
    folder.json(
        "tokenizer_config.json",
        &json!({
            "added_tokens_decoder": {end[0].to_string(): stripping, "9000": {"content": "<a>"}},
            "image_token": "<image>",
            "eos_token": {"content": "<eos>", "rstrip": true},
            "extra_special_tokens": ["<extra>", "<|im_end|>"],
        }),
    );
    let prompter = folder.load().unwrap();
    let x = ids(&plain, "x");
    assert_eq!(ids(&prompter, " <|im_end|> x"), [end.clone(), x.clone()].concat());
    let added: Vec<_> =
        ["<a>", "<eos>", "<image>", "<extra>"].iter().map(|text| ids(&prompter, text)).collect();
    assert!(added.iter().all(|ids| ids.len() == 1));
    assert!(added.windows(2).all(|pair| pair[1][0] == pair[0][0] + 1), "{added:?}");
    assert_eq!(ids(&prompter, "<eos> x"), [added[1].clone(), x].concat());
}

#[test]
fn legacy_files_count_where_the_configuration_lists_no_tokens() {
    let folder = Folder::new("legacy");
    folder.byte_level().json("added_tokens.json", &json!({"<one>": 9000, "<two>": 8000}));
    folder.json("special_tokens_map.json", &json!({"eos_token": "<eos>"}));
    let prompter = folder.load().unwrap();
    assert_eq!(ids(&prompter, "<two><one><eos>").windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>(), [1, 1]);
    folder.json("tokenizer_config.json", &json!({"added_tokens_decoder": {}}));
    assert_ne!(ids(&folder.load().unwrap(), "<two><one><eos>").len(), 3);
}

#[test]
fn llama_is_built_as_its_class_does_it() {
    let folder = Folder::new("llama");
    folder.llama();
    let ids_with =
        |config: Value, text: &str| ids(&folder.json("tokenizer_config.json", &config).load().unwrap(), text);
    let (space, a, b, space_a) = (259, 260, 261, 262);
    // As the file has it: a space before every piece.
    assert_eq!(ids_with(json!({}), "a<s>a b"), [space_a, 1, space_a, space, b]);
    let class = |more: Value| {
        let mut config = json!({"tokenizer_class": "LlamaTokenizerFast"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    assert_eq!(ids_with(class(json!({"legacy": false})), "a<s>a b"), [space_a, 1, a, space, b]);
    assert_eq!(ids_with(class(json!({"legacy": true})), "a<s>a b"), [space_a, 1, space_a, space, b]);
    assert_eq!(ids_with(class(json!({"add_prefix_space": false})), "a<s>a b"), [a, 1, a, space, b]);
    folder.json("config.json", &json!({"model_type": "phi3"}));
    assert_eq!(ids_with(class(json!({})), "a<s>a b"), [space_a, 1, space_a, space, b]);
}

#[test]
fn a_class_has_named_tokens_of_its_own() {
    let folder = Folder::new("named");
    folder.byte_level().json("config.json", &json!({"model_type": "qwen2"}));
    let mut tokenizer: Value =
        serde_json::from_slice(&fs::read(folder.0.join("tokenizer.json")).unwrap()).unwrap();
    tokenizer["added_tokens"] = json!([]);
    folder.json("tokenizer.json", &tokenizer);
    assert_eq!(ids(&folder.load().unwrap(), "<|endoftext|>").len(), 1);
    let none = json!({"unk_token": null, "eos_token": "<|im_end|>", "pad_token": null});
    let prompter = folder.json("tokenizer_config.json", &none).load().unwrap();
    assert_eq!(ids(&prompter, "<|im_end|>").len(), 1);
    assert_ne!(ids(&prompter, "<|endoftext|>").len(), 1);
}

#[test]
fn chats_that_the_worker_renders_by_its_own_code_are_not_rendered_here() {
    let deepseek = json!({"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"]});
    for (model, name) in [
        (json!({"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"]}), Some("gpt_oss")),
        (deepseek, Some("DeepseekV32ForCausalLM")),
        (json!({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}), None),
        (json!({"architectures": [7], "model_type": null}), None),
    ] {
        let folder = Folder::new("rendered");
        folder.byte_level().json("config.json", &model);
        folder.write("chat_template.jinja", "{{ messages[0].content }}");
        let template = folder.0.join("chat_template.jinja");
        for chat_template in [None, Some(template)] {
            let options = LoadOptions { chat_template, ..LoadOptions::default() };
            let prompter = Prompter::load(&folder.0, &options).unwrap();
            let body = br#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
            let prompt = prompter.read(&Body::parse(Endpoint::ChatCompletions, body).unwrap()).unwrap();
            assert_eq!(prompt.refused(), name.map(|_| Refused::NoTemplate), "{model}");
            assert_eq!(prompter.exact().unwrap().renders_itself(), name);
            assert!(!ids(&prompter, "text").is_empty());
        }
    }
}

#[test]
fn templates_of_their_own_files_stand_above_the_configuration() {
    let folder = Folder::new("templates");
    folder.byte_level().json("tokenizer_config.json", &json!({"chat_template": {"default": "config"}}));
    let render = |tools: &str| {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}]{tools}}}"#);
        let body = Body::parse(Endpoint::ChatCompletions, body.as_bytes()).unwrap();
        folder.load().unwrap().exact().unwrap().text(&body)
    };
    let tools = r#", "tools": [{"function": {"name": "f"}}]"#;
    assert_eq!(render("").unwrap(), "config");
    folder.write("additional_chat_templates/tool_use.jinja", "with tools");
    assert_eq!(render(tools).unwrap(), "with tools");
    assert!(render("").is_err(), "the configuration's default is replaced, not completed");
    folder.write("chat_template.jinja", "file");
    assert_eq!((render("").unwrap(), render(tools).unwrap()), ("file".to_owned(), "with tools".to_owned()));
    folder.json("chat_template.json", &json!({"chat_template": "processor"}));
    assert_eq!(
        (render("").unwrap(), render(tools).unwrap()),
        ("processor".to_owned(), "with tools".to_owned())
    );
}

#[test]
fn a_letter_on_which_the_fast_tokenizer_is_wrong_is_left_to_the_reference() {
    let folder = Folder::new("contested");
    folder.byte_level();
    let mut tokenizer: Value =
        serde_json::from_slice(&fs::read(folder.0.join("tokenizer.json")).unwrap()).unwrap();
    let expression = concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    );
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": expression});
    let prompter = folder.json("tokenizer.json", &tokenizer).load().unwrap();
    assert!(prompter.exact().unwrap().is_fast());
    for text in [" I'\u{17f}", "it'\u{17f} fine", "'\u{17f}", "I's"] {
        ids(&prompter, text);
    }
}
