//! Whether the values of a template nest no deeper than its source says.
//!
//! A list in a list is dropped, compared and walked by calls inside calls. What is set in a loop or a macro is gone
//! after the round or the call, so values grow from round to round only by way of a namespace or of a macro that
//! calls itself. This follows how deep each name's values can be, and repeats it until what is carried over grows no
//! more; what it does not follow counts as growing.

use std::collections::{HashMap, HashSet};

use minijinja::machinery::ast::{BinOpKind, Call, CallArg, CallType, Expr, Macro, Stmt};

/// Levels that a template may add to those of a request: models' add a few.
const DEEPEST: usize = 100;
/// Times that a template is followed: what a loop carries over is known after two or three.
const PASSES: usize = 8;

/// Filters and methods that give numbers, texts, or lists of texts.
const FLAT: [&str; 22] = [
    "abs",
    "capitalize",
    "count",
    "endswith",
    "find",
    "int",
    "join",
    "length",
    "lower",
    "lstrip",
    "replace",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "string",
    "strip",
    "title",
    "tojson",
    "trim",
    "upper",
    "strftime",
];
/// Those that give one of the values that they are given.
const CHOOSING: [&str; 6] = ["default", "d", "first", "last", "get", "safe"];
/// Functions that give numbers or texts.
const FLAT_FUNCTIONS: [&str; 3] = ["range", "raise_exception", "strftime_now"];

/// Whether no value in a rendering of `root` is more than [`DEEPEST`] levels deeper than those it is given.
pub(super) fn is_bounded(root: &Stmt<'_>) -> bool {
    let mut depths = Depths::default();
    depths.declare(root);
    for _ in 0..PASSES {
        depths.names.clear();
        depths.grown = false;
        depths.statement(root);
        // A macro may see what is set behind it.
        let macros: Vec<&Macro<'_>> = depths.macros.values().flatten().copied().collect();
        macros.into_iter().for_each(|called| depths.statements(&called.body));
        if depths.unknown {
            return false;
        }
        if !depths.grown {
            return true;
        }
    }
    false
}

#[derive(Default)]
struct Depths<'t> {
    macros: HashMap<&'t str, Vec<&'t Macro<'t>>>,
    /// Variables that are namespaces.
    namespaces: HashSet<&'t str>,
    /// Levels of what each name stands for in this pass.
    names: HashMap<&'t str, usize>,
    /// Levels of the members of namespaces and of the arguments of macros, in any round or call.
    carried: HashMap<&'t str, usize>,
    /// What is carried has more levels than before.
    grown: bool,
    /// Something is not followed, or too deep.
    unknown: bool,
}

impl<'t> Depths<'t> {
    /// Finds macros and namespaces.
    fn declare(&mut self, node: &'t Stmt<'t>) {
        match node {
            Stmt::Macro(node) => self.macros.entry(node.name).or_default().push(node),
            Stmt::Set(node) => {
                if let (Expr::Var(name), Some(_)) = (&node.target, namespace(&node.expr)) {
                    self.namespaces.insert(name.id);
                }
            }
            _ => {}
        }
        for inner in bodies(node).into_iter().flatten() {
            self.declare(inner);
        }
    }

    fn statements(&mut self, nodes: &'t [Stmt<'t>]) {
        for node in nodes {
            self.statement(node);
        }
    }

    fn statement(&mut self, node: &'t Stmt<'t>) {
        match node {
            Stmt::EmitExpr(node) => _ = self.depth(&node.expr),
            Stmt::IfCond(node) => _ = self.depth(&node.expr),
            Stmt::AutoEscape(node) => _ = self.depth(&node.enabled),
            Stmt::FilterBlock(node) => _ = self.depth(&node.filter),
            Stmt::ForLoop(node) => {
                self.unknown |= node.recursive;
                let items = self.depth(&node.iter);
                self.assign(&node.target, items.saturating_sub(1));
                // It knows the neighbours.
                raise(&mut self.names, "loop", items);
                self.deepest(&node.filter_expr);
            }
            Stmt::WithBlock(node) => {
                for (target, value) in &node.assignments {
                    let depth = self.depth(value);
                    self.assign(target, depth);
                }
            }
            Stmt::Set(node) => match (&node.target, namespace(&node.expr)) {
                (Expr::Var(name), Some(call)) => {
                    let members = self.arguments(&call.args);
                    self.carry(name.id, members);
                }
                (target, _) => {
                    let depth = self.depth(&node.expr);
                    self.assign(target, depth);
                }
            },
            Stmt::SetBlock(node) => {
                // Its filter may give something else than text.
                let depth = self.deepest(&node.filter);
                self.assign(&node.target, depth);
            }
            Stmt::Macro(node) => {
                let defaults = node.args.iter().rev().zip(node.defaults.iter().rev());
                for (argument, default) in defaults {
                    let depth = self.depth(default);
                    self.argument(Some(argument), depth);
                }
            }
            Stmt::Template(_) | Stmt::EmitRaw(_) | Stmt::Break(_) | Stmt::Continue(_) => {}
            _ => self.unknown = true,
        }
        for inner in bodies(node) {
            self.statements(inner);
        }
    }

    fn assign(&mut self, target: &'t Expr<'t>, depth: usize) {
        match target {
            Expr::Var(name) => {
                // Calls of the name would be taken for calls of the macro.
                self.unknown |= self.macros.contains_key(name.id);
                raise(&mut self.names, name.id, depth);
            }
            Expr::List(node) => node.items.iter().for_each(|item| self.assign(item, depth.saturating_sub(1))),
            Expr::Tuple(node) => {
                node.items.iter().for_each(|item| self.assign(item, depth.saturating_sub(1)))
            }
            Expr::GetAttr(node) => match &node.expr {
                Expr::Var(owner) if self.namespaces.contains(owner.id) => self.carry(owner.id, depth),
                _ => self.unknown = true,
            },
            _ => self.unknown = true,
        }
    }

    fn carry(&mut self, name: &'t str, depth: usize) {
        self.grown |= raise(&mut self.carried, name, depth);
    }

    fn argument(&mut self, argument: Option<&'t Expr<'t>>, depth: usize) {
        match argument {
            Some(Expr::Var(name)) => self.carry(name.id, depth),
            _ => self.unknown = true,
        }
    }

    /// Levels of what `node` gives, beyond those of the request.
    fn depth(&mut self, node: &'t Expr<'t>) -> usize {
        let depth = match node {
            Expr::Const(_) => 0,
            Expr::Var(node) => {
                // By itself it could become a part of anything.
                self.unknown |= self.namespaces.contains(node.id)
                    || self.macros.contains_key(node.id)
                    || ["loop", "namespace", "caller", "self", "dict"].contains(&node.id);
                self.known(node.id)
            }
            Expr::GetAttr(node) => self.member(&node.expr),
            Expr::GetItem(node) => {
                self.depth(&node.subscript_expr);
                self.member(&node.expr)
            }
            Expr::Slice(node) => {
                for bound in [&node.start, &node.stop, &node.step] {
                    self.deepest(bound);
                }
                self.depth(&node.expr) + 1
            }
            Expr::UnaryOp(node) => {
                self.depth(&node.expr);
                0
            }
            Expr::BinOp(node) => {
                let deepest = self.depth(&node.left).max(self.depth(&node.right));
                match node.op {
                    // minijinja joins lists that were joined often anew.
                    BinOpKind::ScAnd | BinOpKind::ScOr | BinOpKind::Add | BinOpKind::Mul => deepest,
                    _ => 0,
                }
            }
            Expr::Compare(node) => {
                self.depth(&node.expr);
                self.deepest(node.ops.iter().map(|operation| &operation.expr));
                0
            }
            Expr::IfExpr(node) => {
                self.depth(&node.test_expr);
                self.depth(&node.true_expr).max(self.deepest(&node.false_expr))
            }
            Expr::Test(node) => {
                self.depth(&node.expr);
                self.arguments(&node.args);
                0
            }
            Expr::Filter(node) => {
                let given = self.deepest(&node.expr).max(self.arguments(&node.args));
                applied(node.name, given)
            }
            Expr::Call(node) => self.call(node),
            Expr::List(node) => self.deepest(&node.items) + 1,
            Expr::Tuple(node) => self.deepest(&node.items) + 1,
            Expr::Map(node) => self.deepest(node.keys.iter().chain(&node.values)) + 1,
        };
        self.unknown |= depth > DEEPEST;
        depth
    }

    fn deepest(&mut self, nodes: impl IntoIterator<Item = &'t Expr<'t>>) -> usize {
        nodes.into_iter().map(|node| self.depth(node)).max().unwrap_or(0)
    }

    /// That of a member of `node`.
    fn member(&mut self, node: &'t Expr<'t>) -> usize {
        match node {
            Expr::Var(node) if self.namespaces.contains(node.id) => self.known(node.id),
            _ => self.owner(node).saturating_sub(1),
        }
    }

    /// That of `node`, which is only asked for something.
    fn owner(&mut self, node: &'t Expr<'t>) -> usize {
        if let Expr::Var(node) = node { self.known(node.id) } else { self.depth(node) }
    }

    fn known(&self, name: &str) -> usize {
        self.names.get(name).max(self.carried.get(name)).copied().unwrap_or(0)
    }

    fn arguments(&mut self, arguments: &'t [CallArg<'t>]) -> usize {
        let depth = |argument: &'t CallArg<'t>| match argument {
            CallArg::Pos(value) | CallArg::Kwarg(_, value) => self.depth(value),
            CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
                self.unknown = true;
                self.depth(value)
            }
        };
        arguments.iter().map(depth).max().unwrap_or(0)
    }

    fn call(&mut self, node: &'t Call<'t>) -> usize {
        match node.identify_call() {
            CallType::Method(on, name) => {
                let given = self.owner(on).max(self.arguments(&node.args));
                applied(name, given)
            }
            CallType::Function(name) => match self.macros.get(name).cloned() {
                Some(macros) => {
                    macros.into_iter().for_each(|called| self.call_macro(called, &node.args));
                    0
                }
                None => {
                    let given = self.arguments(&node.args);
                    self.unknown |= name != "dict" && !FLAT_FUNCTIONS.contains(&name);
                    given + 1
                }
            },
            _ => {
                self.unknown = true;
                0
            }
        }
    }

    fn call_macro(&mut self, called: &'t Macro<'t>, arguments: &'t [CallArg<'t>]) {
        for (place, argument) in arguments.iter().enumerate() {
            match argument {
                CallArg::Pos(value) => {
                    let depth = self.depth(value);
                    self.argument(called.args.get(place), depth);
                }
                CallArg::Kwarg(name, value) => {
                    let depth = self.depth(value);
                    self.carry(name, depth);
                }
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => self.unknown = true,
            }
        }
    }
}

/// The call, where `node` makes a namespace.
fn namespace<'n, 't>(node: &'n Expr<'t>) -> Option<&'n Call<'t>> {
    let Expr::Call(call) = node else { return None };
    matches!(call.identify_call(), CallType::Function("namespace")).then_some(call)
}

/// Levels of what a filter or a method makes of something with `given`.
fn applied(name: &str, given: usize) -> usize {
    match name {
        name if FLAT.contains(&name) => 0,
        name if CHOOSING.contains(&name) => given,
        _ => given + 1,
    }
}

/// Gives `name` at least `depth`; whether that is more than it had.
fn raise<'t>(depths: &mut HashMap<&'t str, usize>, name: &'t str, depth: usize) -> bool {
    let known = depths.entry(name).or_insert(0);
    let is_more = depth > *known;
    *known = depth.max(*known);
    is_more
}

/// The statements inside `node`.
fn bodies<'n, 't>(node: &'n Stmt<'t>) -> Vec<&'n [Stmt<'t>]> {
    match node {
        Stmt::Template(node) => vec![&node.children],
        Stmt::IfCond(node) => vec![&node.true_body, &node.false_body],
        Stmt::AutoEscape(node) => vec![&node.body],
        Stmt::FilterBlock(node) => vec![&node.body],
        Stmt::ForLoop(node) => vec![&node.body, &node.else_body],
        Stmt::WithBlock(node) => vec![&node.body],
        Stmt::SetBlock(node) => vec![&node.body],
        Stmt::Macro(node) => vec![&node.body],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::machinery::parse;
    use minijinja::syntax::SyntaxConfig;

    use super::*;

    fn bounded(source: &str) -> bool {
        is_bounded(&parse(source, "chat", SyntaxConfig::default()).unwrap())
    }

    #[test]
    fn what_templates_of_models_do_is_bounded() {
        for source in [
            "{% set messages = messages[1:] %}{% for m in messages %}{% set c = m.content | trim %}{{ c }}{% endfor %}",
            "{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s ~ m.content %}{% set ns.m = m %}{% endfor %}",
            "{% set run = namespace(tool_messages=[]) %}{% for m in messages %}{% set run.tool_messages = run.tool_messages + [m] %}{% endfor %}{% for t in run.tool_messages %}{{ t.content }}{% endfor %}",
            "{% macro f(spec) %}{% for p, q in spec.properties | items %}{{ f(q) }}{% endfor %}{% endmacro %}{{ f(tools[0]) }}{{ loop.index }}",
            "{% for m in messages %}{% set x = [m] %}{% set x = [x] %}{% for y in x %}{{ y }}{{ loop.previtem }}{% endfor %}{% endfor %}",
        ] {
            assert!(bounded(source), "{source}");
        }
    }

    #[test]
    fn what_nests_values_again_and_again_is_not() {
        for source in [
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set ns.x = [ns.x] %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set y = (ns['x'],) %}{% set ns.x = y %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set ns.x = namespace(a=ns.x) %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set b = namespace(y=ns.x) %}{% set ns.x = b %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% set ns.x = ns %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set ns.x = dict(a=ns.x) %}{% endfor %}",
            "{% set ns = namespace(x=[1]) %}{% for i in range(9) %}{% set ns.x = ns.x[0:] %}{% endfor %}",
            "{% set ns = namespace(x=[1]) %}{% for i in range(9) %}{% set ns.x = ns.x | reverse %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% for q in [ns.x] %}{% set ns.x = loop %}{% endfor %}{% endfor %}",
            "{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}",
            "{% macro f(x=1) %}{{ f(x=[x]) }}{% endmacro %}{{ f() }}",
            "{% macro f(x) %}{% set g = f %}{{ g([x]) }}{% endmacro %}{{ f(1) }}",
            "{% for i in [1] recursive %}{{ loop([i]) }}{% endfor %}",
            "{% set n = namespace %}{% set ns = n(x=1) %}{% set ns.x = 1 %}",
            "{% macro f(x) %}{{ caller([x]) }}{% endmacro %}{% call(y) f(1) %}{{ f(y) }}{% endcall %}",
            "{% include 'chat' %}",
            "{% set ns = namespace(x=[1]) %}{% for i in range(9) %}{% set ns.x | default([ns.x], true) %}{% endset %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set ns.x = {'strip': dict}.strip(a=ns.x) %}{% endfor %}",
            "{% macro f(a) %}{% endmacro %}{% set f = dict %}{% set ns = namespace(x=1) %}{% for i in range(9) %}{% set ns.x = f(a=ns.x) %}{% endfor %}",
        ] {
            assert!(!bounded(source), "{source}");
        }
        assert!(!bounded(&("{% set x = 1 %}".to_owned() + &"{% set x = [x] %}".repeat(200))));
        assert!(bounded(&("{% set x = 1 %}".to_owned() + &"{% set x = [x] %}".repeat(50))));
    }
}
