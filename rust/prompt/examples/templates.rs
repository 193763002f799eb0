//! Compares chat templates with what a real vLLM made of them.
//!
//! `templates TOKENIZER TEMPLATES GOLDEN`: a tokenizer's folder, a folder with `*.jinja`, and one with the files that
//! `tests/support/golden_prompts.py --templates` writes for them. One line of JSON a template goes to the
//! standard output, what differs to the standard error.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it reports to a terminal")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warmroute_prompt::{Body, Endpoint, LoadOptions, Prompter};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(tokenizer), Some(templates), Some(golden)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: templates TOKENIZER TEMPLATES GOLDEN".into());
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(templates)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    for template in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "jinja"))
    {
        let name = template.file_stem().unwrap_or_default().to_string_lossy();
        let cases: Vec<Value> = serde_json::from_slice(&fs::read(golden.join(format!("{name}.json")))?)?;
        let cells = compare(&tokenizer, template, &name, &cases)?;
        println!("{}", json!({"template": name, "cells": cells}));
    }
    Ok(())
}

fn compare(tokenizer: &Path, template: &Path, name: &str, cases: &[Value]) -> Result<Value, Box<dyn Error>> {
    let options = LoadOptions { chat_template: Some(template.to_owned()), ..LoadOptions::default() };
    let prompter = match Prompter::load(tokenizer, &options) {
        Ok(prompter) => prompter,
        Err(error) => {
            eprintln!("{name}: {error}");
            let all = cases.iter().map(|case| (text(case, "name").to_owned(), json!("not_loaded")));
            return Ok(Value::Object(all.collect()));
        }
    };
    let cell = |case: &Value| {
        let outcome = outcome(&prompter, name, case)?;
        Ok::<_, Box<dyn Error>>((text(case, "name").to_owned(), Value::from(outcome)))
    };
    cases.iter().map(cell).collect::<Result<_, _>>().map(Value::Object)
}

fn outcome(prompter: &Prompter, template: &str, case: &Value) -> Result<&'static str, Box<dyn Error>> {
    let endpoint = match text(case, "endpoint") {
        "chat" => Endpoint::ChatCompletions,
        "completion" => Endpoint::Completions,
        "responses" => Endpoint::Responses,
        _ => Endpoint::Messages,
    };
    let body = Body::parse(endpoint, text(case, "body").as_bytes())?;
    let exact = prompter.exact().ok_or("no tokenizer")?;
    let rendered = exact.text(&body);
    let Some(expected) = case["text"].as_str() else { return Ok("worker_refuses") };
    Ok(match rendered {
        Err(refused) => refused.as_str(),
        // Also by the way of what was seen, which does not render as a whole.
        Ok(rendered) if rendered == expected => {
            let ids = exact.encode(&rendered, body.add_special_tokens());
            let twice = [exact.ids(&body), exact.ids(&body)];
            if twice.iter().all(|found| *found == ids) { "identical" } else { "different" }
        }
        Ok(rendered) => {
            let equal =
                rendered.bytes().zip(expected.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
            eprintln!(
                "{template}, {}:\n  ours   {}\n  theirs {}",
                case["name"],
                excerpt(&rendered, equal),
                excerpt(expected, equal)
            );
            "different"
        }
    })
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_default()
}

fn excerpt(text: &str, around: usize) -> String {
    let bytes = text.as_bytes();
    let slice = &bytes[around.saturating_sub(40)..bytes.len().min(around + 80)];
    format!("{:?}", String::from_utf8_lossy(slice))
}
