//! Ways for fuzz targets into what is not public.

use crate::template::ChatTemplate;

/// Compiles a chat template and detects its content format.
pub fn compile(source: &str) {
    let _template_or_reason = ChatTemplate::compile(source);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Body, Endpoint, chat, python};

    /// A chat with one of each thing that templates look at.
    const CHAT: &[u8] = br#"{"messages": [{"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "text", "text": "v"}]},
        {"role": "assistant", "content": null, "reasoning": "r", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1, 2.5, null, {\"y\": \"z\"}]}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "t"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]}"#;

    /// Renders the chat with `source`.
    fn template(source: &str) {
        let Ok(template) = ChatTemplate::compile(source) else { return };
        let Ok(body) = Body::parse(Endpoint::ChatCompletions, CHAT) else { return };
        let request = chat::read(&body, template.content_format());
        let Ok(rendering) = request.and_then(|request| request.rendering(&template)) else { return };
        let _text_or_refusal = template.render(python::map(rendering.variables));
    }

    /// On a stack as small as those of the router's threads, and not for long.
    fn bounded(name: &str, source: String) {
        let begun = Instant::now();
        let run = std::thread::Builder::new().stack_size(2 << 20).spawn(move || template(&source));
        run.unwrap().join().unwrap();
        // What is not stopped takes hours; a busy machine takes a few times as long as an idle one.
        assert!(begun.elapsed() < Duration::from_secs(120), "{name}: {:?}", begun.elapsed());
    }

    #[test]
    fn deep_templates_do_not_overflow_the_stack() {
        for depth in [50, 140, 1_000, 200_000] {
            let around =
                |open: &str, middle: &str, close: &str| open.repeat(depth) + middle + &close.repeat(depth);
            for (name, source) in [
                ("brackets", format!("{{{{ {} }}}}", around("(", "1", ")"))),
                ("lists", format!("{{{{ {} }}}}", around("[", "1", "]"))),
                ("maps", format!("{{{{ {} }}}}", around("{'a':", "1", "}"))),
                ("not", format!("{{{{ {} }}}}", around("not ", "1", ""))),
                ("minus", format!("{{{{ {} }}}}", around("-", "1", ""))),
                ("sums", format!("{{{{ {} }}}}", around("1 + ", "1", ""))),
                ("joins", format!("{{{{ {} }}}}", around("'a' ~ ", "1", ""))),
                ("powers", format!("{{{{ {} }}}}", around("1 ** ", "1", ""))),
                ("or", format!("{{{{ {} }}}}", around("0 or ", "1", ""))),
                ("comparisons", format!("{{{{ {} }}}}", around("1 < ", "1", ""))),
                ("conditions", format!("{{{{ {} }}}}", around("1 if 0 else ", "1", ""))),
                ("filters", format!("{{{{ {} }}}}", around("", "1", " | trim"))),
                ("attributes", format!("{{{{ {} }}}}", around("", "messages", ".a"))),
                ("items", format!("{{{{ {} }}}}", around("", "messages", "[0]"))),
                ("slices", format!("{{{{ {} }}}}", around("", "messages", "[1:]"))),
                ("calls", format!("{{{{ {} }}}}", around("", "messages", "()"))),
                ("calls inside", format!("{{{{ {} }}}}", around("f(", "1", ")"))),
                ("ifs", around("{% if 1 %}", "x", "{% endif %}")),
                ("elifs", format!("{{% if 0 %}}{}{{% endif %}}", around("{% elif 0 %}", "x", ""))),
                ("loops", around("{% for m in [1] %}", "x", "{% endfor %}")),
                ("macros", around("{% macro f() %}", "x", "{% endmacro %}")),
                ("sets", around("{% set x %}", "x", "{% endset %}")),
                ("withs", around("{% with a = 1 %}", "x", "{% endwith %}")),
                ("filter blocks", around("{% filter trim %}", "x", "{% endfilter %}")),
                ("blocks", around("{% block a %}", "x", "{% endblock %}")),
                ("generations", around("{% generation %}", "x", "{% endgeneration %}")),
                ("unpacked", format!("{{% for {} in [] %}}{{% endfor %}}", around("(", "a,", "),"))),
            ] {
                bounded(name, source);
            }
        }
    }

    #[test]
    fn templates_that_do_not_end_are_stopped() {
        for source in [
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) | tojson }}",
            "{% macro f() %}{% call f() %}{% endcall %}{{ caller() }}{% endmacro %}{% call f() %}{% endcall %}",
            "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
            "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}",
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
            "{% set ns = namespace(x='ab') %}{% for a in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
            "{% set ns = namespace(x='ab') %}{% for a in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
            "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
            "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
            "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
            "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}",
            "{% set ns = namespace(x=messages) %}{% for a in range(99999) %}{% set ns.x = ns.x | reverse %}{% endfor %}{{ ns.x | tojson }}",
            "{% set ns = namespace(x=[1]) %}{% for a in range(999) %}{% set ns.x = ns.x | map('string') %}{% endfor %}{{ ns.x | list }}",
            "{% set ns = namespace(x=0) %}{% set ns.x = ns %}{{ ns }}",
            "{% set ns = namespace(x=0) %}{% set ns.x = ns %}{{ ns | tojson }}",
            "{% set ns = namespace(x=0) %}{% set ns.x = [ns] %}{{ ns.x | tojson }}{{ ns.x == ns.x }}",
            "{{ 'a' * 10000000000 }}",
            "{{ [1] * 10000000000 }}",
            "{{ 'a' | center(10000000000) }}",
            "{{ 'a\nb' | indent(10000000000) }}",
            "{{ 'a'.ljust(10000000000) }}{{ 'a'.zfill(10000000000) }}{{ 'a'.center(10000000000) }}",
            "{{ '%10000000000d' | format(1) }}{{ '{:>10000000000}'.format(1) }}",
            "{{ [[1]] | tojson(indent=10000000000) }}",
            "{{ [[1]] | tojson(separators=['a' * 100000000, 'b']) }}",
            "{{ range(10000000000) | list }}",
            "{{ 2 ** 100000000 }}{{ 10 ** 38 * 10 ** 38 }}{{ -170141183460469231731687303715884105728 // -1 }}",
            "{{ 1 // 0 }}{{ 1 % 0 }}{{ 1 / 0 }}",
            "{{ (-9223372036854775807 - 1) // -1 }}{{ (-9223372036854775807 - 1) % -1 }}",
            "{{ messages[9223372036854775807:] }}{{ messages[::0] }}{{ 'abc'[-9223372036854775807:9223372036854775807:-9223372036854775807] }}",
            "{{ 1e400 }}{{ 1e308 * 10 }}{{ 'x'[1e300] }}{{ messages[1e300] }}",
            "{% include 'chat' %}",
            "{% extends 'chat' %}",
            "{% import 'chat' as c %}{{ c }}",
        ] {
            bounded(source, source.to_owned());
        }
    }

    #[test]
    fn detection_is_linear_in_the_template() {
        let chain: String = (0..100_000).rev().map(|n| format!("{{% set a{} = a{n} %}}", n + 1)).collect();
        bounded("aliases", "{% set a0 = messages %}".to_owned() + &chain);
        let macros: String = (0..3_000)
            .map(|n| {
                format!(
                    "{{% macro f{n}(a) %}}{{% for x in a %}}{{% endfor %}}{{% endmacro %}}{{{{ f{n}(1) }}}}"
                )
            })
            .collect();
        bounded("macros", macros);
        bounded("tags", "{%".repeat(500_000));
        bounded("generation tags", "{% generation %}{% endgeneration %}".repeat(50_000));
        bounded("open comments", "{#".repeat(500_000));
    }
}
