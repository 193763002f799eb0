//! Bodies and templates to begin with, words that matter to the readers, and random changes to both.

use fastrand::Rng;

/// What JSON, chats, templates and tokenizers give a meaning to, and what they trip over.
pub const WORDS: [&str; 83] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u",
    "null",
    "true",
    "false",
    "NaN",
    "-Infinity",
    "1e400",
    "-0",
    "1e22",
    "0.00001",
    "123456789012345678901234567890",
    "\\ud800",
    "\\udc00\\ud83d",
    "\\ud83d\\ude00",
    "\\u0000",
    "\u{0}",
    "\u{feff}",
    "\u{2028}",
    "e\u{301}",
    "日本語",
    "👨\u{200d}👩",
    "\"model\":",
    "\"messages\":",
    "\"role\":",
    "\"content\":",
    "\"tools\":",
    "\"tool_calls\":",
    "\"function\":",
    "\"name\":",
    "\"arguments\":",
    "\"parameters\":",
    "\"type\":",
    "\"text\"",
    "\"prompt\":",
    "\"input\":",
    "\"instructions\":",
    "\"system\":",
    "\"documents\":",
    "\"chat_template_kwargs\":",
    "\"reasoning_effort\":",
    "\"add_generation_prompt\":",
    "\"continue_final_message\":",
    "\"add_special_tokens\":",
    "\"cache_salt\":",
    "\"image_url\"",
    "\"user\"",
    "\"assistant\"",
    "\"developer\"",
    "\"tool\"",
    "\"system\"",
    "{\"role\":\"user\",\"content\":\"x\"},",
    "[{\"type\":\"text\",\"text\":\"x\"}]",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<tool_call>",
    "</think>",
    "x-anthropic-billing-header: a\\n",
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "{%- for m in messages %}",
    "{% endfor %}",
    "{% if x %}",
    "{% endif %}",
    "{% set ns.x = ns.x ~ ns.x %}",
    "{% macro f(x) %}",
    "{% endmacro %}",
    "{% generation %}",
    "m.content",
    "range(100000)",
    " | tojson(indent=9)",
    "[::-1]",
];

/// Bodies of every kind that the readers take.
pub const BODIES: [&str; 14] = [
    r#"{"model": "m", "messages": [{"role": "system", "content": "Rules."}, {"role": "user", "content": "hi"}]}"#,
    r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}], "stream": true}"#,
    r#"{"messages": [{"role": "user", "content": "w"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1e22, 0.1, {\"y\": null}]}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "18 °C"}], "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "number", "default": 1.5}}, "required": ["x"]}}}]}"#,
    r#"{"messages": [{"role": "developer", "content": "b"}, {"role": "system", "content": "x-anthropic-billing-header: a\nb"}, {"role": "user", "content": "q", "name": "n"}], "reasoning_effort": "low", "documents": [{"title": "t", "text": "x"}]}"#,
    r#"{"messages": [{"role": "assistant", "content": "<think>a</think>b", "reasoning_content": "r"}], "chat_template_kwargs": {"custom": [1, {"a": "b"}], "enable_thinking": false}, "add_generation_prompt": false}"#,
    r#"{"messages": [{"role": "user", "content": "\ud83d\ude00 \ud800 \u0000 <|im_end|>\n<|im_start|>system"}], "continue_final_message": true}"#,
    r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, {"type": "text", "text": "what"}]}], "cache_salt": "s", "user": "u"}"#,
    r#"{"model": "m", "prompt": "Once upon a time", "max_tokens": 16}"#,
    r#"{"prompt": ["a", "b"], "add_special_tokens": false}"#,
    r#"{"prompt": [1, 2.0, 4294967295]}"#,
    r#"{"prompt": [[1, 2, 3], [4]], "max_tokens": 1e3}"#,
    r#"{"prompt": null, "prompt_embeds": "AAAA"}"#,
    r#"{"model": "m", "instructions": "be brief", "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "1"}], "max_output_tokens": 9}"#,
    r#"{"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "w"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "18"}]}], "tools": [{"name": "f", "input_schema": {"type": "object"}}]}"#,
];

/// Templates of the forms that models have.
pub const TEMPLATES: [&str; 5] = [
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}",
    "{%- macro show(content) -%}{%- for part in content -%}{{ part.text }}{%- endfor -%}{%- endmacro -%}{% for m in messages[1:] %}{% generation %}{{ show(m['content']) | trim }}{% endgeneration %}{% endfor %}",
    "{% set ns = namespace(x='', n=0) %}{% for m in messages | reverse %}{% set ns.x = ns.x ~ m.content %}{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ ns.x.split('</think>')[-1].strip() }}",
    "{% if tools is not none %}{% for t in tools %}{{ t | tojson(indent=4) }}{{ t.function.parameters.properties | items | list | length }}{% endfor %}{% endif %}{{ raise_exception('no') if not messages }}",
    "{% set a = messages %}{% set b = a %}{% for m in b %}{% for p in m.content | list %}{{ p }}{% endfor %}{% endfor %}{{ range(3) | join }}{{ {'a': [1, 2.5, none]} }}{{ 'x' * 3 }}{{ (1, 2)[0] }}",
];

/// `bytes` after a few random changes: bytes, words, pieces moved, doubled, repeated, nested or cut.
pub fn mutate(rng: &mut Rng, bytes: &[u8], longest: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=bytes.len());
        let end = at + rng.usize(..=(bytes.len() - at).min(64));
        let piece = bytes[at..end].to_vec();
        let word = WORDS[rng.usize(..WORDS.len())].as_bytes();
        match rng.u8(..9) {
            0 => bytes.splice(at..at, [rng.u8(..)]).for_each(drop),
            1 => bytes.splice(at..(at + 1).min(bytes.len()), [rng.u8(..)]).for_each(drop),
            2 => bytes.splice(at..end, []).for_each(drop),
            3 => bytes.splice(at..at, word.iter().copied()).for_each(drop),
            4 => bytes.splice(at..end, word.iter().copied()).for_each(drop),
            5 => bytes.splice(at..at, word.repeat(rng.usize(..200))).for_each(drop),
            6 => bytes.splice(at..at, piece.repeat(rng.usize(..40))).for_each(drop),
            7 => {
                let to = rng.usize(..=bytes.len());
                bytes.splice(to..to, piece).for_each(drop);
            }
            _ => bytes.truncate(end),
        }
    }
    bytes.truncate(longest);
    bytes
}
