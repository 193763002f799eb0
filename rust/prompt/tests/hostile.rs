//! Bodies made to be expensive: time and memory stay linear in their bytes, and nothing overflows a stack.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "for whoever reads a failure")]
#![allow(unreachable_pub, reason = "the included files are a library of their own, too")]

#[path = "../../fuzz/src/entry.rs"]
#[expect(dead_code, reason = "some entry points are for other tests")]
mod entry;

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use warmroute_prompt::{Endpoint, LoadOptions, Prompter, Rung};

/// What a kind of body is, for a size in bytes.
type Maker = fn(usize) -> String;

fn repeated(unit: &str, bytes: usize) -> String {
    unit.repeat(bytes.div_ceil(unit.len()))
}

fn chat(content: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": "{content}"}}]}}"#)
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + "1" + &close.repeat(depth)
}

fn keys(bytes: usize) -> String {
    let mut keys = String::with_capacity(bytes + 32);
    for key in 0.. {
        if keys.len() >= bytes {
            break;
        }
        write!(keys, "\"k{key}\":{key},").unwrap();
    }
    keys + "\"last\":1"
}

fn tool(parameters: &str) -> String {
    format!(
        r#"{{"messages": [{{"role": "user", "content": "x"}}], "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {parameters}}}}}]}}"#
    )
}

const KINDS: [(&str, Maker); 22] = [
    ("one letter", |n| chat(&repeated("a", n))),
    ("spaces", |n| chat(&repeated(" ", n))),
    ("spaces and a letter", |n| chat(&(repeated(" ", n) + "x"))),
    ("line ends", |n| chat(&repeated("\\n", n))),
    ("spaces and line ends", |n| chat(&repeated("  \\n", n))),
    ("digits", |n| chat(&repeated("7", n))),
    ("apostrophes", |n| chat(&repeated("'", n))),
    ("combining marks", |n| chat(&repeated("\u{301}", n))),
    ("accents written apart", |n| chat(&repeated("e\u{301}", n))),
    ("escapes", |n| chat(&repeated("\\u0301", n))),
    ("lone surrogates", |n| chat(&repeated("\\ud800", n))),
    ("NUL", |n| chat(&repeated("\\u0000", n))),
    ("beginnings of special tokens", |n| chat(&repeated("<|im_start", n))),
    ("special tokens", |n| chat(&repeated("<|im_start|>", n))),
    ("billing headers", |n| {
        format!(
            r#"{{"messages": [{}{{"role": "user", "content": "x"}}]}}"#,
            repeated(r#"{"role":"system","content":"x-anthropic-billing-header: a\nb"},"#, n)
        )
    }),
    ("messages", |n| {
        format!(r#"{{"messages": [{}{{"role": "user"}}]}}"#, repeated(r#"{"role":"user"},"#, n))
    }),
    ("parts", |n| {
        let parts = repeated(r#"{"type":"text","text":"x"},"#, n);
        format!(
            r#"{{"messages": [{{"role": "user", "content": [{parts}{{"type": "text", "text": "y"}}]}}]}}"#
        )
    }),
    ("keys of a schema", |n| tool(&format!("{{{}}}", keys(n)))),
    ("keys of the body", |n| format!(r#"{{{}, "messages": [{{"role": "user", "content": "x"}}]}}"#, keys(n))),
    ("one key again and again", |n| tool(&format!(r#"{{{}"a": 1}}"#, repeated(r#""a":{"b":[1]},"#, n)))),
    ("ids", |n| format!(r#"{{"prompt": [{}1]}}"#, repeated("1,", n))),
    ("a long number", |n| {
        format!(r#"{{"prompt": [{}], "max_tokens": {}}}"#, repeated("9", n), repeated("9", n))
    }),
];

/// The least of a few runs of everything on `body`.
fn cost(body: &str) -> Duration {
    let once = || {
        let began = Instant::now();
        entry::body(body.as_bytes());
        for choice in 0..4 {
            entry::render(choice, body.as_bytes());
        }
        began.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap()
}

#[test]
fn time_is_linear_in_the_bytes() {
    // Loads, and fills the caches of the tokenizer.
    cost(&chat("warm"));
    let mut slow = Vec::new();
    for (name, maker) in KINDS {
        let (small, body) = (cost(&maker(20_000)), maker(320_000));
        // Quadratic work would make it 256, once it counts.
        let limit = 64 * small.max(Duration::from_millis(5));
        // A busy machine makes any run longer, and none shorter than the work: the least of more runs is nearer to it.
        let large = (0..4).map(|_| cost(&body)).find(|large| *large <= limit).unwrap_or_else(|| cost(&body));
        println!("{name}: {small:?}, sixteen times as long: {large:?}");
        if large > limit {
            slow.push((name, small, large));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn megabytes_are_read_in_seconds() {
    cost(&chat("warm"));
    for (name, maker) in KINDS {
        // A word of this length costs the tokenizer a microsecond a byte, and it is encoded three times.
        let (body, rendered) = (maker(10_000_000), maker(1_000_000));
        let began = Instant::now();
        entry::body(body.as_bytes());
        entry::render(0, rendered.as_bytes());
        println!("{name}: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
    }
}

/// On a stack as small as those of the router's threads.
#[test]
fn depth_is_refused_or_followed() {
    let bodies = [1, 100, 127, 129, 9_990, 100_000].into_iter().flat_map(|depth| {
        let (array, object) = (nested("[", "]", depth), nested(r#"{"a":"#, "}", depth));
        [&array, &object].map(|deep| {
            [
                tool(&format!(r#"{{"type": "object", "properties": {deep}}}"#)),
                tool(deep),
                format!(r#"{{"messages": {deep}}}"#),
                format!(r#"{{"messages": [{{"role": "user", "content": {deep}}}]}}"#),
                format!(r#"{{"prompt": {deep}, "input": {deep}, "messages": [{deep}]}}"#),
                format!(
                    r#"{{"messages": [{{"role": "user", "content": "x"}}], "chat_template_kwargs": {{"custom": {deep}}}, "documents": [{deep}]}}"#
                ),
                format!(
                    r#"{{"messages": [{{"role": "assistant", "tool_calls": [{{"type": "function", "function": {{"name": "f", "arguments": {}}}}}]}}]}}"#,
                    serde_json::to_string(deep).unwrap()
                ),
            ]
        })
    });
    let bodies: Vec<String> = bodies.flatten().collect();
    let run = move || {
        for body in &bodies {
            entry::body(body.as_bytes());
            for choice in 0..4 {
                entry::render(choice, body.as_bytes());
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// Ways to put a value into itself in each round of a loop, and what is then done with it.
const NESTING: [(&str, &str); 23] = [
    ("{% set ns.x = [ns.x] %}", ""),
    ("{% set ns.x = (ns.x,) %}", ""),
    ("{% set y = [ns['x']] %}{% set ns.x = y %}", ""),
    ("{% set ns.x = {'a': ns.x} %}", ""),
    ("{% set ns.x = {'a': ns.x}.items() | list %}", ""),
    ("{% set ns.x = dict(a=ns.x) %}", ""),
    ("{% set ns.x = namespace(a=ns.x) %}", ""),
    ("{% set ns.x | default([ns.x], true) %}{% endset %}", ""),
    ("{% set ns.x = {'strip': dict}.strip(a=ns.x) %}", ""),
    ("{% macro f(a) %}{% endmacro %}{% set f = dict %}{% set ns.x = f(a=ns.x) %}", ""),
    ("{% set b = namespace(y=ns.x) %}{% set ns.x = b %}", ""),
    ("{% set ns.x = ns.x[0:] %}", "{% for a in ns.x %}{{ a }}{% endfor %}{{ ns.x | length }}"),
    ("{% set ns.x = (ns.x + ns.x)[0:2] %}", "{{ ns.x | list }}"),
    ("{% set ns.x = ns.x | reverse %}", "{{ ns.x | list }}"),
    ("{% for q in [ns.x] %}{% set ns.x = loop %}{% endfor %}", "{{ ns.x }}"),
    (
        "{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}",
        "{{ ns.x == ns.y }}{{ ns.x < ns.y }}{{ ns.x in [ns.y] }}",
    ),
    (
        "{% set ns.x = {'a': ns.x} %}{% set ns.y = {'a': ns.y} %}",
        "{{ ns.x == ns.y }}{{ [ns.x, ns.y] | sort }}",
    ),
    ("{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}", "{{ [ns.x, ns.y] | unique | list | length }}"),
    ("{% set ns.x = [ns.x] %}", "{{ {'a': 1}[ns.x] }}{{ ns.x.a.b }}"),
    ("{% set ns.x = [ns.x] %}", "{{ ns.x }}{{ ns.x ~ 'a' }}{{ ns.x | string }}{{ ns.x | join }}"),
    ("{% set ns.x = {'a': ns.x} %}", "{{ ns.x | tojson }}"),
    ("{% set ns.x = {ns.x | string: ns.x} %}", "{{ raise_exception(ns.x) }}"),
    ("{% set q = ns.x %}{% macro f() %}{{ q }}{% endmacro %}{% set ns.x = f %}", "{{ ns.x() }}"),
];

/// Each of them with so many rounds, and those that need no loop.
fn nesting_templates(rounds: usize) -> Vec<String> {
    let looped = NESTING.map(|(step, end)| {
        format!(
            "{{% set ns = namespace(x=[1], y=[1]) %}}{{% for i in range({rounds}) %}}{step}{{% endfor %}}{end}x"
        )
    });
    let straight = "{% set x = [x] %}".repeat(rounds.min(10_000));
    let called = format!(
        "{{% macro f(x, n) %}}{{% if n %}}{{{{ f({}, n - 1) }}}}{{% endif %}}{{% endmacro %}}{{{{ f(1, {rounds}) }}}}x",
        nested("[", "]", 50).replace('1', "x")
    );
    let again = format!(
        "{{% for i in [1] recursive %}}{{{{ loop({}) if loop.depth < {rounds} }}}}{{% endfor %}}x",
        nested("[", "]", 50).replace('1', "i")
    );
    looped.into_iter().chain([straight + "x", called, again]).collect()
}

/// A template is an operator's own file. However deep it nests values, they are made, compared, printed and dropped on
/// a stack as small as those of the router's threads.
#[test]
fn values_that_a_template_nests_do_not_overflow_the_stack() {
    let file = std::env::temp_dir().join(format!("warmroute-nesting-{}.jinja", std::process::id()));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer");
    let body = chat("x");
    for rounds in [10, 2_000, 100_000] {
        for template in nesting_templates(rounds) {
            std::fs::write(&file, &template).unwrap();
            let options = LoadOptions { chat_template: Some(file.clone()), ..LoadOptions::default() };
            let prompter = Prompter::load(&folder, &options).unwrap();
            let (body, begun) = (body.clone(), Instant::now());
            let read = move || {
                for _ in 0..2 {
                    let body = prompter.parse(Endpoint::ChatCompletions, body.as_bytes()).unwrap();
                    let prompt = prompter.read(&body).unwrap();
                    assert!(rounds < 100_000 || prompt.rung() != Rung::Local || prompt.tokens() < 100);
                }
            };
            let read = std::thread::Builder::new().stack_size(2 << 20).spawn(read);
            read.unwrap().join().unwrap_or_else(|_| panic!("{template:.300}"));
            println!("{rounds}: {:?}: {template:.120}", begun.elapsed());
            assert!(begun.elapsed() < Duration::from_secs(60), "{template:.300}");
        }
    }
    std::fs::remove_file(&file).unwrap();
}
