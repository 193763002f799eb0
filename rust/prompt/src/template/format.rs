//! How a template takes the content of messages: as a string, or as a list of parts.
//!
//! vLLM looks for a loop over a message's content in the template and passes lists where it finds one.
//! What counts as such a loop is vLLM's rule, so that the same template is given the same values.

use std::collections::{HashMap, HashSet};

use minijinja::machinery::ast::{Call, CallArg, Expr, ForLoop, Macro, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

/// The form in which a template is given the content of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentFormat {
    /// A string; text parts are joined with line ends.
    String,
    /// A list of parts, also where the client sent a string.
    OpenAi,
}

/// The format that vLLM detects for `source`. A template that cannot be parsed takes strings.
pub(super) fn detect(source: &str, syntax: &SyntaxConfig) -> ContentFormat {
    let Ok(root) = parse(source, NAME, syntax.clone()) else { return ContentFormat::String };
    let mut nodes = Nodes::default();
    nodes.statement(&root, None);
    if nodes.loops_over_content() { ContentFormat::OpenAi } else { ContentFormat::String }
}

const NAME: &str = "chat";

/// The nodes of a template that matter, in the order of the source.
#[derive(Default)]
struct Nodes<'t> {
    assignments: Vec<(&'t str, &'t Expr<'t>)>,
    /// Each loop with the macro that it is in.
    loops: Vec<(&'t ForLoop<'t>, Option<&'t Macro<'t>>)>,
    calls: Vec<&'t Call<'t>>,
}

impl<'t> Nodes<'t> {
    fn loops_over_content(&self) -> bool {
        let lists = self.aliases("messages");
        let messages: HashSet<&str> = self
            .loops
            .iter()
            .filter(|(node, _)| variable(underlying(&node.iter)).is_some_and(|name| lists.contains(name)))
            .filter_map(|(node, _)| variable(&node.target))
            .collect();
        self.loops.iter().any(|(node, inside)| {
            is_content(&node.iter, &messages)
                || match (variable(&node.iter), inside) {
                    (Some(name), Some(owner)) => self.receives_content(owner, name, &messages),
                    (Some(name), None) => name == "content",
                    (None, _) => false,
                }
        })
    }

    /// `name` and every variable that is set from it, from a slice of it or from a filter over it.
    fn aliases(&self, name: &'t str) -> HashSet<&'t str> {
        let mut targets: HashMap<&str, Vec<&'t str>> = HashMap::new();
        for (target, value) in &self.assignments {
            if let Some(source) = variable(underlying(value)) {
                targets.entry(source).or_default().push(target);
            }
        }
        let mut names = HashSet::from([name]);
        let mut todo = vec![name];
        while let Some(name) = todo.pop() {
            let fresh = targets.get(name).into_iter().flatten().filter(|target| names.insert(target));
            todo.extend(fresh);
        }
        names
    }

    /// Whether some call of `owner` gives a message's content for its parameter `name`.
    fn receives_content(&self, owner: &Macro<'t>, name: &str, messages: &HashSet<&str>) -> bool {
        let calls = self.calls.iter().filter(|call| variable(&call.expr) == Some(owner.name));
        calls.flat_map(|call| call.args.iter().enumerate()).any(|(place, argument)| match argument {
            CallArg::Pos(value) => {
                owner.args.get(place).and_then(variable) == Some(name) && is_content(value, messages)
            }
            CallArg::Kwarg(parameter, value) => *parameter == name && is_content(value, messages),
            CallArg::PosSplat(_) | CallArg::KwargSplat(_) => false,
        })
    }

    fn statements(&mut self, nodes: &'t [Stmt<'t>], inside: Option<&'t Macro<'t>>) {
        for node in nodes {
            self.statement(node, inside);
        }
    }

    fn statement(&mut self, node: &'t Stmt<'t>, inside: Option<&'t Macro<'t>>) {
        match node {
            Stmt::Template(node) => self.statements(&node.children, inside),
            Stmt::EmitExpr(node) => self.expression(&node.expr),
            Stmt::ForLoop(node) => {
                self.loops.push((node, inside));
                self.expressions([&node.iter].into_iter().chain(&node.filter_expr));
                self.statements(&node.body, inside);
                self.statements(&node.else_body, inside);
            }
            Stmt::IfCond(node) => {
                self.expression(&node.expr);
                self.statements(&node.true_body, inside);
                self.statements(&node.false_body, inside);
            }
            Stmt::WithBlock(node) => {
                self.expressions(node.assignments.iter().map(|(_, value)| value));
                self.statements(&node.body, inside);
            }
            Stmt::Set(node) => {
                if let Some(target) = variable(&node.target) {
                    self.assignments.push((target, &node.expr));
                }
                self.expression(&node.expr);
            }
            Stmt::SetBlock(node) => self.statements(&node.body, inside),
            Stmt::AutoEscape(node) => self.statements(&node.body, inside),
            Stmt::FilterBlock(node) => self.statements(&node.body, inside),
            Stmt::Block(node) => self.statements(&node.body, inside),
            Stmt::Macro(node) => self.statements(&node.body, Some(node)),
            Stmt::CallBlock(node) => {
                self.call(&node.call);
                self.statements(&node.macro_decl.body, inside);
            }
            Stmt::Do(node) => self.call(&node.call),
            _ => {}
        }
    }

    fn expressions(&mut self, nodes: impl IntoIterator<Item = &'t Expr<'t>>) {
        for node in nodes {
            self.expression(node);
        }
    }

    /// Collects the calls in an expression.
    fn expression(&mut self, node: &'t Expr<'t>) {
        match node {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(node) => {
                let bounds = node.start.iter().chain(&node.stop).chain(&node.step);
                self.expressions(bounds.chain([&node.expr]));
            }
            Expr::UnaryOp(node) => self.expression(&node.expr),
            Expr::BinOp(node) => self.expressions([&node.left, &node.right]),
            Expr::Compare(node) => {
                self.expressions([&node.expr].into_iter().chain(node.ops.iter().map(|op| &op.expr)));
            }
            Expr::IfExpr(node) => {
                self.expressions([&node.test_expr, &node.true_expr].into_iter().chain(&node.false_expr));
            }
            Expr::Filter(node) => {
                self.expressions(&node.expr);
                self.arguments(&node.args);
            }
            Expr::Test(node) => {
                self.expression(&node.expr);
                self.arguments(&node.args);
            }
            Expr::GetAttr(node) => self.expression(&node.expr),
            Expr::GetItem(node) => self.expressions([&node.expr, &node.subscript_expr]),
            Expr::Call(node) => self.call(node),
            Expr::List(node) => self.expressions(&node.items),
            Expr::Tuple(node) => self.expressions(&node.items),
            Expr::Map(node) => self.expressions(node.keys.iter().chain(&node.values)),
        }
    }

    fn call(&mut self, node: &'t Call<'t>) {
        self.calls.push(node);
        self.expression(&node.expr);
        self.arguments(&node.args);
    }

    fn arguments(&mut self, arguments: &'t [CallArg<'t>]) {
        for argument in arguments {
            match argument {
                CallArg::Pos(value)
                | CallArg::Kwarg(_, value)
                | CallArg::PosSplat(value)
                | CallArg::KwargSplat(value) => self.expression(value),
            }
        }
    }
}

fn variable<'t>(node: &Expr<'t>) -> Option<&'t str> {
    if let Expr::Var(node) = node { Some(node.id) } else { None }
}

/// What filters, tests and slices are applied to.
fn underlying<'n, 't>(node: &'n Expr<'t>) -> &'n Expr<'t> {
    match node {
        Expr::Filter(filter) => filter.expr.as_ref().map_or(node, underlying),
        Expr::Test(node) => underlying(&node.expr),
        Expr::Slice(node) => underlying(&node.expr),
        _ => node,
    }
}

/// Whether `node` is the content of one of `messages`, or a slice of it or a filter over it.
fn is_content(node: &Expr<'_>, messages: &HashSet<&str>) -> bool {
    let (owner, is_content) = match underlying(node) {
        Expr::GetAttr(node) => (&node.expr, node.name == "content"),
        Expr::GetItem(node) => {
            let name = node.subscript_expr.as_const();
            (&node.expr, name.as_ref().and_then(|name| name.as_str()) == Some("content"))
        }
        _ => return false,
    };
    is_content && variable(owner).is_some_and(|name| messages.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(source: &str) -> ContentFormat {
        detect(source, &SyntaxConfig::default())
    }

    #[test]
    fn a_loop_over_content_takes_parts() {
        for source in [
            "{% for m in messages %}{% for part in m.content %}{% endfor %}{% endfor %}",
            "{% for m in messages[1:] %}{% for part in m['content'] | list %}{% endfor %}{% endfor %}",
            "{% set rest = messages[1:] %}{% set tail = rest %}{% for m in tail %}{% for p in m.content %}{% endfor %}{% endfor %}",
            "{% for m in messages %}{% set content = m.content %}{% for p in content %}{% endfor %}{% endfor %}",
            "{% macro show(parts) %}{% for p in parts %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}",
            "{% macro show(a, parts) %}{% for p in parts %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(1, parts=m.content) }}{% endfor %}",
        ] {
            assert_eq!(detected(source), ContentFormat::OpenAi, "{source}");
        }
    }

    #[test]
    fn everything_else_takes_strings() {
        for source in [
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            "{% for m in messages %}{% for call in m.tool_calls %}{% endfor %}{% endfor %}",
            "{% for p in messages[0].content %}{% endfor %}",
            "{% macro show(content) %}{% for p in content %}{% endfor %}{% endmacro %}{{ show(1) }}",
            "{% broken",
        ] {
            assert_eq!(detected(source), ContentFormat::String, "{source}");
        }
    }
}
