//! What was seen before gives the ids and the block hashes that it gave at first.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use support::{Folder, TEMPLATES, tokenizers};
use warmroute_core::block::{BlockHash, BlockHasher, Namespace};
use warmroute_prompt::{Data, Endpoint, PromptError, Prompter, Rung};

/// The rung, the ids and the block hashes of one request.
type Read = (Rung, Vec<u8>, Vec<BlockHash>);

fn read(prompter: &Prompter, endpoint: Endpoint, raw: &str) -> Read {
    let body = prompter.parse(endpoint, raw.as_bytes()).unwrap();
    let prompt = prompter.read(&body).unwrap();
    let mut hashes = Vec::new();
    let space = Namespace { model: "m", salt: "s", ..Namespace::default() };
    prompt.hash_into(&BlockHasher::new(4, 7), &space, &mut hashes);
    let ids = match prompt.data() {
        Data::Ids(ids) => ids.clone(),
        Data::Text(_) => Vec::new(),
    };
    assert!(ids.is_empty() || prompt.tokens() as usize == ids.len() / 4);
    (prompt.rung(), ids, hashes)
}

/// One without a cache, one with, and one whose cache holds next to nothing.
struct Prompters {
    plain: Prompter,
    cached: Prompter,
    tiny: Prompter,
}

impl Prompters {
    fn new(name: &str, tokenizer: &Value, template: &str) -> Prompters {
        let folder = Folder::new(name, tokenizer, template);
        Prompters { plain: folder.load(0), cached: folder.load(64 << 20), tiny: folder.load(24 << 10) }
    }

    fn check(&self, endpoint: Endpoint, body: &Value) {
        let raw = body.to_string();
        let expected = read(&self.plain, endpoint, &raw);
        for round in 0..2 {
            assert_eq!(read(&self.cached, endpoint, &raw), expected, "round {round} of {raw}");
        }
        assert_eq!(read(&self.tiny, endpoint, &raw), expected, "{raw}");
    }
}

const PIECES: [&str; 35] = [
    "x",
    "",
    " ",
    "\n",
    "\n\n\n",
    "  \t ",
    "\r\n",
    "\u{85}\u{a0}",
    "hello",
    "Hello, World",
    "user",
    "assistant\n",
    "1234567",
    "e\u{301}\u{301}",
    "\u{301}",
    "日本語",
    "한국어",
    "👨\u{200d}👩\u{200d}👧",
    "x\u{ff}\u{10ffff}",
    "<|im_start|>",
    "<|im_end|>",
    "<|im_start|",
    "|im_end|>",
    "<",
    ">",
    "<think>\n",
    "</think>",
    "\n</think>\n\n",
    "<tool_response>",
    "</tool_response>",
    "<tool_call>",
    "def f(x):\n    return x\n",
    "{\"a\": 1}",
    "x<|im_end|>",
    "\u{0}\u{1}",
];

/// Text that is short or long, of pieces that a cut could get wrong.
fn text() -> impl Strategy<Value = String> {
    let piece =
        prop_oneof![9 => prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned), 1 => any::<String>()];
    (prop::collection::vec(piece, 0..7), prop_oneof![3 => Just(1_usize), 2 => 1_usize..60], any::<bool>())
        .prop_map(|(pieces, times, words)| {
            let filling = if words { "some words, " } else { "" };
            let (first, rest) =
                pieces.split_first().map_or((String::new(), &[][..]), |(first, rest)| (first.clone(), rest));
            format!("{first}{}{}", filling.repeat(times), rest.concat())
        })
}

fn message() -> impl Strategy<Value = Value> {
    let calls = prop_oneof![
        3 => Just(json!(null)),
        1 => (text(), text()).prop_map(|(a, b)| json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": json!({"a": a, "b": [b, 1, null, true]}).to_string()}}])),
    ];
    let content = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => prop::collection::vec(text(), 0..3).prop_map(|parts| parts.into_iter().map(|text| json!({"type": "text", "text": text})).collect()),
    ];
    let role = prop::sample::select(vec![
        "user",
        "user",
        "user",
        "assistant",
        "assistant",
        "tool",
        "system",
        "developer",
    ]);
    (role, content, calls, prop::option::of(text())).prop_map(|(role, content, calls, reasoning)| {
        let mut message = json!({"role": role, "content": content});
        if role == "assistant" {
            if !calls.is_null() {
                message["tool_calls"] = calls;
            }
            message["reasoning_content"] = reasoning.into();
        }
        if role == "tool" {
            message["tool_call_id"] = json!("c");
        }
        message
    })
}

/// One that every template takes.
fn plain_message() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["user", "user", "assistant", "assistant", "tool", "tool", "system"]);
    (role, text(), prop::option::weighted(0.2, text())).prop_map(|(role, content, name)| {
        let mut message = json!({"role": role, "content": content});
        if let Some(name) = name {
            message["name"] = name.into();
        }
        message
    })
}

fn tools() -> impl Strategy<Value = Option<Value>> {
    let tool = (text(), text()).prop_map(|(description, key)| {
        json!({"type": "function", "function": {"name": "f", "description": description, "parameters": {"type": "object", "properties": {key: {"type": "string", "default": 1.5}}}}})
    });
    prop::option::of(prop::collection::vec(tool, 1..3).prop_map(Value::from))
}

/// A conversation that grows, with its fields.
fn chat() -> impl Strategy<Value = Vec<Value>> {
    let fields = (tools(), any::<bool>(), any::<bool>(), prop::option::of(any::<bool>()));
    (prop::collection::vec(message(), 1..7), fields).prop_map(
        |(messages, (tools, generate, special, thinking))| {
            (1..=messages.len())
                .map(|count| {
                    let mut body = json!({
                        "model": "m", "messages": messages[..count], "add_generation_prompt": generate,
                        "add_special_tokens": special,
                    });
                    if let Some(tools) = &tools {
                        body["tools"] = tools.clone();
                    }
                    if let Some(thinking) = thinking {
                        body["chat_template_kwargs"] = json!({"enable_thinking": thinking});
                    }
                    body
                })
                .collect()
        },
    )
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

fn check_chats(name: &str, prompters: &Prompters, cases: u32) {
    let result = runner(cases).run(&chat(), |bodies| {
        bodies.iter().for_each(|body| prompters.check(Endpoint::ChatCompletions, body));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn chats_have_the_ids_of_the_whole_text_with_every_template() {
    for (name, template) in TEMPLATES {
        let prompters = Prompters::new(&format!("template-{name}"), &support::package(), template);
        check_chats(name, &prompters, 100);
        let stats = prompters.cached.cache_stats();
        assert!(stats.chats * 4 > stats.full_by_request, "{name}: {stats:?}");
        assert!(stats.known_text_bytes > stats.encoded_text_bytes, "{name}: {stats:?}");
        assert!(prompters.tiny.cache_stats().evicted > 0);
        assert!(prompters.tiny.cache_stats().bytes <= 24 << 10);
    }
}

#[test]
fn chats_have_the_ids_of_the_whole_text_with_every_tokenizer() {
    for (name, tokenizer) in tokenizers() {
        let prompters = Prompters::new(&format!("chat-{name}"), &tokenizer, TEMPLATES[0].1);
        check_chats(name, &prompters, 40);
        let stats = prompters.cached.cache_stats();
        let cuts = !matches!(name, "single_word");
        assert_eq!(stats.chats > 0, cuts, "{name}: {stats:?}");
    }
}

#[test]
fn texts_have_the_ids_of_the_whole_text() {
    let pieces = || {
        prop::collection::vec(
            prop_oneof![text(), prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned)],
            0..12,
        )
    };
    for (name, tokenizer) in tokenizers() {
        let prompters = Prompters::new(&format!("text-{name}"), &tokenizer, TEMPLATES[2].1);
        let result = runner(150).run(&(pieces(), any::<bool>()), |(pieces, special)| {
            let body = json!({"prompt": pieces.concat(), "add_special_tokens": special});
            prompters.check(Endpoint::Completions, &body);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn long_conversations_have_the_ids_of_the_whole_text() {
    for (name, template) in TEMPLATES {
        let prompters = Prompters::new(&format!("long-{name}"), &support::package(), template);
        let result = runner(6).run(&prop::collection::vec(message(), 45..50), |messages| {
            // Most messages make a piece of their own, so that pieces are also known by the group.
            let messages: Vec<Value> = messages
                .into_iter()
                .map(|mut message| {
                    let filling = "some more words, ".repeat(20);
                    message["content"] = format!("{filling}{}", message["content"]).into();
                    message
                })
                .collect();
            for (from, to) in [(0, 20), (0, 21), (1, 40), (0, 40), (0, messages.len()), (3, 40)] {
                prompters.check(Endpoint::ChatCompletions, &json!({"messages": messages[from..to]}));
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Loops that look at what is outside of a round in every way that is followed, and in some that are not.
const WATCHING: [(&str, &str); 8] = [
    (
        "counting",
        "{% set ns = namespace(n=0, last='', users=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}<|im_start|>{{ m.role }} {{ ns.n }} {{ ns.last }}{% if m.role == 'user' %}{% set ns.users = ns.users + 1 %}{% set ns.first = m.content %}{% endif %}{% set ns.last = m.role %} {{ m.content }}<|im_end|>{% endfor %}{{ ns.users }} {{ ns.n }} {{ ns.first }}",
    ),
    (
        "queries",
        "{% set ns = namespace(q=messages|length - 1, more=true) %}{% for m in messages[::-1] %}{% if ns.more and m.role == 'user' %}{% set ns.more = false %}{% set ns.q = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}{% if loop.index0 > ns.q %} >{% endif %}{% if ns.q <= loop.index %} <={% endif %}{% if m.role == 'tool' and loop.index0 == ns.q - 1 %} =={% endif %}{% if m.role == 'assistant' and ns.q != loop.index0 + 2 %} !={% endif %}{% if ns.q >= 10 %} ten{% endif %}{% if ns.q > 14 %} more{% endif %}{% if loop.index > ns.q and ns.q < 18 %} less{% endif %}{% if 12 > ns.q %} twelve{% endif %} {{ m.content }}<|im_end|>{% endfor %}",
    ),
    (
        "neighbours",
        "{% for m in messages %}{% if loop.first or messages[loop.index0 - 1].role != m.role %}<|im_start|>{{ m.role }}{% endif %} {{ m.content }}{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>{% endif %}{% if m.role == 'user' and loop.last %}end{% endif %}{% endfor %}",
    ),
    (
        "items",
        "{% for m in messages %}<|im_start|>{{ m.role }}{% if loop.nextitem and loop.nextitem.role == 'tool' %} calls{% endif %}{% if loop.previtem and loop.previtem.role == 'user' %} answers{% endif %}{% if m.role == 'system' %}{{ loop.revindex }} {{ loop.length }}{% endif %}{% set next = messages[loop.index0 + 3] %}{% if next is defined %} {{ next.role }}{% endif %} {{ m.content }}<|im_end|>{% endfor %}",
    ),
    (
        "slices",
        "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set first = messages[0].content %}{% else %}{% set rest = messages %}{% set first = '' %}{% endif %}{% for m in rest %}<|im_start|>{% if loop.first %}{{ first }}{% endif %}{{ m.role }}{{ loop.index }}{% if rest[loop.index0 - 1].role == 'tool' %} t{% endif %} {{ m.content }}<|im_end|>{% endfor %}{% for m in messages[:5] %}{{ loop.last }}{{ m.role }}{% endfor %}{% for m in messages[3:] %}{{ m.role }}{{ loop.index }}{% endfor %}",
    ),
    (
        "outside",
        "{% macro head(m) %}<|im_start|>{{ m.role }} {{ prefix }}{% endmacro %}{% set prefix = messages[0].role %}{% for m in messages %}{{ head(m) }}{% if enable_thinking %} thinks{% endif %}{% if tools and m.role == 'user' %} {{ tools|length }}{% endif %}{% if m == messages[0] %} same{% endif %}{% if m.role == 'tool' and messages[-1].role == 'tool' %} tool{% endif %} {{ m.content }}{% for tool in tools or [] %}{% if loop.last and m.role == 'system' %}{{ tool | tojson }}{% endif %}{% endfor %}<|im_end|>{% endfor %}",
    ),
    (
        "leaving",
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{% break %}{% endif %}{% if m.role == 'tool' %}{% continue %}{% endif %}{% set x = loop.index %}<|im_start|>{{ m.role }}{{ x }} {{ m.content }}<|im_end|>{% endfor %}{{ x }}{% for m in messages %}{{ m.role }}{% endfor %}",
    ),
    (
        "namespaces",
        "{% set ns = namespace(a=1) %}{% set other = ns %}{% for m in messages %}{% set own = namespace(b=ns.a) %}{% set own.b = own.b + 1 %}{% set other.a = own.b %}<|im_start|>{{ m.role }} {{ ns.a }} {{ m.content }}<|im_end|>{% endfor %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.a = true %}{% endif %}{% if ns.c is defined %}c{% endif %}{% set ns.c = m.name %}{% endfor %}{{ ns.a }}",
    ),
];

#[test]
fn what_loops_look_at_is_looked_at_again() {
    for (name, template) in WATCHING {
        let prompters = Prompters::new(&format!("watching-{name}"), &support::package(), template);
        let edits = prop::collection::vec((0_usize..40, 0_usize..6, plain_message()), 1..6);
        let tools = prop::collection::vec(tools(), 2);
        let result = runner(25).run(
            &(prop::collection::vec(plain_message(), 20..40), edits, tools),
            |(first, edits, tools)| {
                let mut messages = first;
                let check = |messages: &[Value], tools: &Option<Value>, thinks: bool| {
                    let mut body =
                        json!({"messages": messages, "chat_template_kwargs": {"enable_thinking": thinks}});
                    if let Some(tools) = tools {
                        body["tools"] = tools.clone();
                    }
                    prompters.check(Endpoint::ChatCompletions, &body);
                };
                for count in [1, 9, 10, 12, 17, 18, messages.len()] {
                    check(&messages[..count], &tools[0], false);
                }
                // What is before, in and behind groups changes, and what is not in messages, too.
                for (at, kind, message) in edits {
                    let at = at % messages.len();
                    match kind {
                        0 => messages.insert(at, message),
                        1 if messages.len() > 1 => drop(messages.remove(at)),
                        2 => messages.extend([message.clone(), message]),
                        _ => messages[at] = message,
                    }
                    check(&messages, &tools[kind % 2], kind == 3);
                    check(&messages[..messages.len().min(at + 1)], &tools[0], kind == 4);
                }
                Ok(())
            },
        );
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
        let stats = prompters.cached.cache_stats();
        assert!(stats.chats > stats.full_by_request && stats.full_by_template == 0, "{name}: {stats:?}");
    }
}

/// The prompt of `raw` with and without what was seen, or the error.
fn check_raw(prompters: &Prompters, raw: &[u8]) {
    let ask = |prompter: &Prompter| {
        let body = prompter.parse(Endpoint::ChatCompletions, raw)?;
        let prompt = prompter.read(&body)?;
        Ok::<_, PromptError>((
            body.messages()?,
            body.model().map(str::to_owned),
            prompt.rung(),
            prompt.data().clone(),
        ))
    };
    let expected = ask(&prompters.plain);
    for _ in 0..2 {
        assert_eq!(ask(&prompters.cached), expected, "{}", String::from_utf8_lossy(raw));
    }
    assert_eq!(ask(&prompters.tiny), expected, "{}", String::from_utf8_lossy(raw));
}

#[test]
fn what_is_passed_over_ends_where_it_did() {
    let prompters = Prompters::new("passed", &support::package(), TEMPLATES[2].1);
    let space = prop::sample::select(vec!["", "", "", " ", "\n", " \t\r\n "]);
    let behind = prop::sample::select(vec![
        "", "", ",", " x", "]", "}", ",,", ",{}", "\u{e9}", "\"", ",\"a\"", ",1", "{", "\\",
    ]);
    let fields = prop::sample::select(vec![
        "",
        "",
        ",\"model\":\"m\"",
        ",\"messages\":[]",
        ",\"messages\":null",
        ",\"mess\\u0061ges\":[1]",
        ",\"messages\":[{\"role\":\"user\",\"content\":\"again\"}]",
        ",\"x\":[",
        ",\"tools\":[]",
        "}",
    ]);
    let chat = prop::collection::vec(plain_message(), 1..30);
    let edits = prop::collection::vec((0_usize..30, space, behind, fields, 0_usize..4), 1..12);
    let result = runner(60).run(&(chat, edits), |(messages, edits)| {
        let texts: Vec<String> = messages.iter().map(Value::to_string).collect();
        for (at, space, behind, fields, kind) in edits {
            let end = at.min(texts.len());
            let separator = format!("{space},{}", if kind == 1 { " " } else { "" });
            let list = texts[..end].join(if kind < 2 { "," } else { &separator });
            let rest = texts[end..].iter().map(|text| format!(",{text}")).collect::<String>();
            let rest = if kind % 2 == 0 || end == 0 { String::new() } else { rest };
            let raw = format!("{{\"a\":1,\"messages\":[{space}{list}{behind}{rest}{space}]{fields}}}");
            check_raw(&prompters, raw.as_bytes());
            let mut broken = raw.into_bytes();
            let place = at * 7919 % broken.len();
            broken[place] = if kind == 0 { 0xff } else { b'"' };
            check_raw(&prompters, &broken);
            let whole = format!("{{\"messages\":[{}]}}", texts.join(","));
            check_raw(&prompters, whole.as_bytes());
            check_raw(&prompters, whole.replacen("},{", "};{", 1 + at % 2).as_bytes());
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(prompters.cached.cache_stats().chats > 0);
}

#[test]
fn long_texts_have_the_ids_of_the_whole_text() {
    for (name, tokenizer) in tokenizers() {
        let prompters = Prompters::new(&format!("long-text-{name}"), &tokenizer, TEMPLATES[2].1);
        let pieces = prop::collection::vec((text(), prop::sample::select(PIECES.to_vec())), 40..44);
        let result = runner(10).run(&(pieces, any::<bool>()), |(pieces, special)| {
            let filling = "some more words, ".repeat(20);
            let pieces: Vec<String> = pieces
                .iter()
                .map(|(text, piece)| format!("{text}{piece}<|im_start|>user\n{filling}{piece}"))
                .collect();
            for part in [&pieces[..20], &pieces[1..40], &pieces[..], &pieces[16..33]] {
                let body = json!({"prompt": part.concat(), "add_special_tokens": special});
                prompters.check(Endpoint::Completions, &body);
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn eight_threads_share_a_cache_that_evicts() {
    let folder = Folder::new("threads", &support::package(), TEMPLATES[0].1);
    let (plain, tiny) = (folder.load(0), folder.load(64 << 10));
    let mut runner = TestRunner::deterministic();
    let chats = (0..30).flat_map(|_| chat().new_tree(&mut runner).unwrap().current());
    let expected: Vec<(String, Read)> = chats
        .map(|body| {
            let raw = body.to_string();
            let expected = read(&plain, Endpoint::ChatCompletions, &raw);
            (raw, expected)
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (expected, tiny) = (&expected, &tiny);
            scope.spawn(move || {
                for at in 0..expected.len() * 3 {
                    let (raw, expected) = &expected[(at * 7 + thread * 11) % expected.len()];
                    assert_eq!(&read(tiny, Endpoint::ChatCompletions, raw), expected);
                }
            });
        }
    });
    assert!(tiny.cache_stats().evicted > 0);
}

#[test]
fn a_text_that_begins_like_the_rest_of_another_is_not_taken_for_it() {
    let prompters = Prompters::new("begins", &support::package(), TEMPLATES[2].1);
    let rest = format!("<|im_start|>user\n{}", "words, ".repeat(80));
    for prompt in [rest.clone(), format!("{}{rest}", "before ".repeat(60)), rest] {
        prompters.check(Endpoint::Completions, &json!({"prompt": prompt}));
    }
}
