//! Runs a [`Program`].

use std::sync::Arc;

use minijinja::machinery::ast::CompareOpKind;
use minijinja::{Environment, State, Value};

use super::program::{Expr, For, Macro, Name, Node, Program, Target};
use super::skeleton::Skeleton;
use super::value::{List, Str, Val};

/// What is done for this request is not known here, or is an error: minijinja renders it in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop;

pub(super) type Ran<T> = Result<T, Stop>;

/// Steps and calls inside one another before a request is left to minijinja's own limits.
const MAX_CALLS: usize = 16;

/// About a tenth of a second. What needs more is left to minijinja, which has limits of its own.
const MAX_STEPS: usize = 1 << 20;

/// How a run of nodes ended.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

/// One rendering.
pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    pub(super) state: State<'p, 'p>,
    names: Names<'p>,
    calls: usize,
    /// Nodes that may still be run, and values that may still be copied.
    steps: usize,
    out: Skeleton<'p>,
    captures: Vec<Vec<Str>>,
}

/// What names stand for.
struct Names<'p> {
    program: &'p Program,
    /// Variables from outside, by name.
    globals: Vec<Option<Val>>,
    /// Names that were set, scope after scope.
    locals: Vec<(Name, Val)>,
    /// Where the innermost scope begins.
    scope: usize,
    /// Where the template's own scope ends, while inside another.
    root: Option<usize>,
    /// Where the names begin that a macro sees.
    floor: usize,
    loops: Vec<Loop>,
    namespaces: Vec<Vec<(Name, Val)>>,
}

struct Loop {
    items: Arc<List>,
    at: usize,
}

impl<'p> Run<'p> {
    pub(super) fn new(
        program: &'p Program,
        environment: &'p Environment<'static>,
        out: Skeleton<'p>,
    ) -> Run<'p> {
        let names = Names {
            program,
            globals: vec![None; program.names.len()],
            locals: Vec::with_capacity(32),
            scope: 0,
            root: None,
            floor: 0,
            loops: Vec::new(),
            namespaces: Vec::new(),
        };
        let state = environment.empty_state();
        Run { program, state, names, calls: 0, steps: MAX_STEPS, out, captures: Vec::new() }
    }

    /// Gives a variable its value; one that the template does not name is passed over.
    pub(super) fn set_global(&mut self, name: &str, value: impl FnOnce() -> Val) {
        if let Some(at) = self.program.names.iter().position(|known| **known == *name) {
            self.names.globals[at] = Some(value());
        }
    }

    /// Renders.
    pub(super) fn finish(mut self) -> Ran<Skeleton<'p>> {
        match self.nodes(&self.program.body)? {
            Flow::On => Ok(self.out),
            Flow::Break | Flow::Continue => Err(Stop),
        }
    }

    fn nodes(&mut self, nodes: &'p [Node]) -> Ran<Flow> {
        for node in nodes {
            self.spend(1)?;
            match node {
                Node::Raw(constant) => self.emit(&Str::Const(*constant)),
                Node::Emit(expr) => self.emit_expr(expr)?,
                Node::If(condition, yes, no) => {
                    let branch = if self.truth(condition)? { yes } else { no };
                    let flow = self.nodes(branch)?;
                    if flow != Flow::On {
                        return Ok(flow);
                    }
                }
                Node::Set(target, expr) => {
                    let value = self.expr(expr)?;
                    self.assign(target, value)?;
                }
                Node::For(node) => {
                    let flow = self.for_loop(node)?;
                    if flow != Flow::On {
                        return Ok(flow);
                    }
                }
                Node::Capture(target, body) => {
                    let value = self.capture(body)?;
                    self.assign(target, value)?;
                }
                Node::With(assignments, body) => {
                    let before = self.enter();
                    for (target, expr) in assignments {
                        let value = self.expr(expr)?;
                        self.assign(target, value)?;
                    }
                    let flow = self.nodes(body)?;
                    self.leave(before);
                    if flow != Flow::On {
                        return Ok(flow);
                    }
                }
                Node::Declare(name, number) => self.store(*name, Val::Macro(*number)),
                Node::Break => return Ok(Flow::Break),
                Node::Continue => return Ok(Flow::Continue),
            }
        }
        Ok(Flow::On)
    }

    /// Takes `steps` from those that are left.
    fn spend(&mut self, steps: usize) -> Ran<()> {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop)?;
        Ok(())
    }

    fn capture(&mut self, body: &'p [Node]) -> Ran<Val> {
        self.captures.push(Vec::new());
        let flow = self.nodes(body)?;
        let parts = self.captures.pop().unwrap_or_default();
        if flow == Flow::On { Ok(Val::Str(rope(parts))) } else { Err(Stop) }
    }

    fn for_loop(&mut self, node: &'p For) -> Ran<Flow> {
        let mut items = self.iterate(&node.items)?;
        if let Some(condition) = &node.condition {
            let before = self.enter();
            let mut kept = Vec::new();
            for item in &items.items {
                self.names.locals.truncate(self.names.scope);
                self.assign(&node.target, item.clone())?;
                if self.truth(condition)? {
                    kept.push(item.clone());
                }
            }
            self.leave(before);
            items = Arc::new(List::new(kept, false));
        }
        if items.items.is_empty() {
            return self.nodes(&node.otherwise);
        }
        let before = self.enter();
        let number = self.names.loops.len();
        self.names.loops.push(Loop { items: Arc::clone(&items), at: 0 });
        for (at, item) in items.items.iter().enumerate() {
            self.names.locals.truncate(self.names.scope);
            self.names.loops[number].at = at;
            // Below the loop's other names, so that one of the same name hides it.
            self.names.locals.push((self.program.loop_name, Val::Loop(number)));
            self.assign(&node.target, item.clone())?;
            if self.nodes(&node.body)? == Flow::Break {
                break;
            }
        }
        self.names.loops.truncate(number);
        self.leave(before);
        Ok(Flow::On)
    }

    fn iterate(&mut self, expr: &'p Expr) -> Ran<Arc<List>> {
        let items = self.expr(expr)?;
        self.spend(length(&items))?;
        Ok(match items {
            Val::List(list) => list,
            Val::Map(map) => {
                let names = map.members.iter().map(|(name, _)| Val::Str(Str::Short(Arc::clone(name))));
                Arc::new(List::new(names.collect(), false))
            }
            Val::Undefined => Arc::new(List::new(Vec::new(), false)),
            _ => return Err(Stop),
        })
    }

    /// Begins a scope; gives what [`Run::leave`] needs.
    fn enter(&mut self) -> (usize, bool) {
        let outermost = self.names.root.is_none();
        if outermost {
            self.names.root = Some(self.names.locals.len());
        }
        let before = (self.names.scope, outermost);
        self.names.scope = self.names.locals.len();
        before
    }

    fn leave(&mut self, (scope, outermost): (usize, bool)) {
        self.names.locals.truncate(self.names.scope);
        self.names.scope = scope;
        if outermost {
            self.names.root = None;
        }
    }

    fn assign(&mut self, target: &Target, value: Val) -> Ran<()> {
        match target {
            Target::Name(name) => self.store(*name, value),
            Target::Names(names) => {
                let Val::List(list) = value else { return Err(Stop) };
                if list.items.len() != names.len() {
                    return Err(Stop);
                }
                for (name, item) in names.iter().zip(&list.items) {
                    self.store(*name, item.clone());
                }
            }
            Target::Member(owner, name) => {
                let Val::Namespace(number) = self.variable(*owner)? else { return Err(Stop) };
                set(&mut self.names.namespaces[number], *name, value);
            }
        }
        Ok(())
    }

    fn store(&mut self, name: Name, value: Val) {
        match self.names.locals[self.names.scope..].iter_mut().find(|(known, _)| *known == name) {
            Some(local) => local.1 = value,
            None => self.names.locals.push((name, value)),
        }
    }

    fn variable(&self, name: Name) -> Ran<Val> {
        match self.names.visible(name) {
            Some(value) => Ok(value.clone()),
            // A function has the name, and is a value that is not known here.
            None if self.program.functions.contains(&name) => Err(Stop),
            None => Ok(Val::Undefined),
        }
    }

    /// The value of `expr` where it stands somewhere already.
    pub(super) fn peek<'s>(&'s self, expr: &'s Expr) -> Option<&'s Val> {
        self.names.peek(expr)
    }

    fn emit(&mut self, text: &Str) {
        write(&mut self.captures, &mut self.out, text);
    }

    /// Writes `expr` where it is a string that stands somewhere already.
    fn emit_known(&mut self, expr: &'p Expr) -> bool {
        let Some(Val::Str(text)) = self.names.peek(expr) else { return false };
        write(&mut self.captures, &mut self.out, text);
        true
    }

    fn emit_expr(&mut self, expr: &'p Expr) -> Ran<()> {
        if self.emit_known(expr) {
            return Ok(());
        }
        if let Expr::Sum(terms) | Expr::Join(terms) = expr {
            let (first, rest) = terms.split_first().ok_or(Stop)?;
            // A sum that begins with a string is one only of strings, or an error.
            let begun = self.emit_known(first)
                || match self.expr(first)? {
                    Val::Str(text) => {
                        self.emit(&text);
                        true
                    }
                    _ => false,
                };
            if begun {
                for term in rest {
                    if !self.emit_known(term) {
                        let text = self.term(term, matches!(expr, Expr::Join(_)))?;
                        let Val::Str(text) = text else { return Err(Stop) };
                        self.emit(&text);
                    }
                }
                return Ok(());
            }
        }
        match self.expr(expr)? {
            Val::Str(text) => self.emit(&text),
            Val::Undefined => self.emit_value(Value::UNDEFINED)?,
            Val::None => self.emit_value(Value::from(()))?,
            Val::Bool(value) => self.emit_value(Value::from(value))?,
            Val::Int(value) => self.emit_value(Value::from(value))?,
            Val::Other(value) => self.emit_value(value)?,
            _ => return Err(Stop),
        }
        Ok(())
    }

    fn emit_value(&mut self, value: Value) -> Ran<()> {
        let text = self.state.format(value).map_err(|_| Stop)?;
        self.emit(&Str::short(&text));
        Ok(())
    }

    pub(super) fn truth(&mut self, expr: &'p Expr) -> Ran<bool> {
        Ok(match expr {
            Expr::Not(inner) => !self.truth(inner)?,
            Expr::Both(pair) => self.truth(&pair.0)? && self.truth(&pair.1)?,
            Expr::Either(pair) => self.truth(&pair.0)? || self.truth(&pair.1)?,
            Expr::Compare(op, pair) => match (self.peek(&pair.0), self.peek(&pair.1)) {
                (Some(a), Some(b)) => self.compare(*op, a, b)?,
                _ => match (self.names.integer(&pair.0), self.names.integer(&pair.1)) {
                    (Some(a), Some(b)) => self.compare(*op, &Val::Int(a), &Val::Int(b))?,
                    _ => truth(self.program, &self.expr(expr)?)?,
                },
            },
            _ => match self.peek(expr) {
                Some(value) => truth(self.program, value)?,
                None => truth(self.program, &self.expr(expr)?)?,
            },
        })
    }

    pub(super) fn expr(&mut self, expr: &'p Expr) -> Ran<Val> {
        Ok(match expr {
            Expr::Value(value) => value.clone(),
            Expr::Variable(name) => self.variable(*name)?,
            Expr::Attribute(on, name) => {
                let on = self.expr(on)?;
                self.attribute(&on, *name)?
            }
            Expr::Item(on, key) => {
                let (on, key) = (self.expr(on)?, self.expr(key)?);
                item(&on, &key)?
            }
            Expr::Slice(on, bounds) => {
                let on = self.expr(on)?;
                self.spend(length(&on))?;
                slice(&on, *bounds)?
            }
            Expr::Not(inner) => Val::Bool(!self.truth(inner)?),
            Expr::Both(pair) => {
                let first = self.expr(&pair.0)?;
                if truth(self.program, &first)? { self.expr(&pair.1)? } else { first }
            }
            Expr::Either(pair) => {
                let first = self.expr(&pair.0)?;
                if truth(self.program, &first)? { first } else { self.expr(&pair.1)? }
            }
            Expr::Compare(op, pair) => {
                let (a, b) = (self.expr(&pair.0)?, self.expr(&pair.1)?);
                Val::Bool(self.compare(*op, &a, &b)?)
            }
            Expr::Contains { negated, call } => match self.contains(call)? {
                Val::Bool(found) => Val::Bool(found != *negated),
                _ => return Err(Stop),
            },
            Expr::Sum(terms) => self.sum(terms)?,
            Expr::Join(terms) => self.join(terms, true)?,
            Expr::Minus(pair) => match (self.expr(&pair.0)?, self.expr(&pair.1)?) {
                (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_sub(b).ok_or(Stop)?),
                _ => return Err(Stop),
            },
            Expr::Choose(choice) => {
                let (condition, yes, no) = &**choice;
                match (self.truth(condition)?, no) {
                    (true, _) => self.expr(yes)?,
                    (false, Some(no)) => self.expr(no)?,
                    (false, None) => Val::Undefined,
                }
            }
            Expr::Filter(call) => self.filter(call)?,
            Expr::Test(call) => self.test(call)?,
            Expr::Method(call) => self.method(call)?,
            Expr::Function(name, arguments, keywords) => self.function(*name, arguments, keywords)?,
            Expr::List(items) => {
                List::of(items.iter().map(|item| self.expr(item)).collect::<Ran<_>>()?, false)
            }
        })
    }

    fn sum(&mut self, terms: &'p [Expr]) -> Ran<Val> {
        let (first, rest) = terms.split_first().ok_or(Stop)?;
        match self.expr(first)? {
            Val::Str(_) => self.join(terms, false),
            Val::Int(mut sum) => {
                for term in rest {
                    let Val::Int(term) = self.expr(term)? else { return Err(Stop) };
                    sum = sum.checked_add(term).ok_or(Stop)?;
                }
                Ok(Val::Int(sum))
            }
            _ => Err(Stop),
        }
    }

    fn join(&mut self, terms: &'p [Expr], prints: bool) -> Ran<Val> {
        let mut parts = Vec::with_capacity(terms.len());
        for term in terms {
            let Val::Str(text) = self.term(term, prints)? else { return Err(Stop) };
            push_flat(&mut parts, &text);
        }
        Ok(Val::Str(rope(parts)))
    }

    /// A term of a concatenation, which turns a number into text where it `prints`.
    fn term(&mut self, term: &'p Expr, prints: bool) -> Ran<Val> {
        match self.expr(term)? {
            Val::Int(number) if prints => Ok(Val::Str(Str::short(&number.to_string()))),
            value => Ok(value),
        }
    }

    fn attribute(&self, on: &Val, name: Name) -> Ran<Val> {
        let field = &self.program.names[usize::from(name)];
        Ok(match on {
            Val::Map(map) => map.get(field).cloned().unwrap_or(Val::Undefined),
            Val::Namespace(number) => {
                let found = self.names.namespaces[*number].iter().find(|(known, _)| *known == name);
                found.map_or(Val::Undefined, |(_, value)| value.clone())
            }
            Val::Loop(number) => self.names.loops.get(*number).ok_or(Stop)?.attribute(field)?,
            Val::None | Val::Bool(_) | Val::Int(_) | Val::Str(_) => Val::Undefined,
            _ => return Err(Stop),
        })
    }

    fn compare(&self, op: CompareOpKind, a: &Val, b: &Val) -> Ran<bool> {
        Ok(match (op, a, b) {
            (CompareOpKind::Eq, a, b) => self.equal(a, b)?,
            (CompareOpKind::Ne, a, b) => !self.equal(a, b)?,
            (CompareOpKind::Lt, Val::Int(a), Val::Int(b)) => a < b,
            (CompareOpKind::Lte, Val::Int(a), Val::Int(b)) => a <= b,
            (CompareOpKind::Gt, Val::Int(a), Val::Int(b)) => a > b,
            (CompareOpKind::Gte, Val::Int(a), Val::Int(b)) => a >= b,
            _ => return Err(Stop),
        })
    }

    pub(super) fn equal(&self, a: &Val, b: &Val) -> Ran<bool> {
        Ok(match (a, b) {
            (Val::Str(a), Val::Str(b)) => {
                self.program.flat(a).ok_or(Stop)? == self.program.flat(b).ok_or(Stop)?
            }
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::None, Val::None) => true,
            (Val::Map(a), Val::Map(b)) => Arc::ptr_eq(a, b) || a.source == b.source,
            (
                Val::Str(_),
                Val::None | Val::Undefined | Val::Bool(_) | Val::Int(_) | Val::List(_) | Val::Map(_),
            )
            | (
                Val::None | Val::Undefined | Val::Bool(_) | Val::Int(_) | Val::List(_) | Val::Map(_),
                Val::Str(_),
            ) => false,
            _ => return Err(Stop),
        })
    }

    /// `namespace`, or a macro.
    fn function(&mut self, name: Name, given: &'p [Expr], keywords: &'p [(Name, Expr)]) -> Ran<Val> {
        match self.variable(name) {
            Ok(Val::Macro(number)) => {
                return self.call_macro(&self.program.macros[number], given, keywords);
            }
            Ok(_) => return Err(Stop),
            Err(Stop) => {}
        }
        if &*self.program.names[usize::from(name)] != "namespace" || !given.is_empty() {
            return Err(Stop);
        }
        let mut members = Vec::new();
        for (name, expr) in keywords {
            let value = self.expr(expr)?;
            set(&mut members, *name, value);
        }
        self.names.namespaces.push(members);
        Ok(Val::Namespace(self.names.namespaces.len() - 1))
    }

    fn call_macro(&mut self, called: &'p Macro, given: &'p [Expr], keywords: &'p [(Name, Expr)]) -> Ran<Val> {
        let known = |name: &Name| called.arguments.iter().skip(given.len()).any(|(known, _)| known == name);
        if given.len() > called.arguments.len()
            || !keywords.iter().all(|(name, _)| known(name))
            || self.calls == MAX_CALLS
        {
            return Err(Stop);
        }
        let mut values = Vec::with_capacity(called.arguments.len());
        for (at, (name, _)) in called.arguments.iter().enumerate() {
            let keyword = keywords.iter().find(|(known, _)| known == name).map(|(_, expr)| expr);
            values.push(given.get(at).or(keyword).map_or(Ok(Val::Undefined), |expr| self.expr(expr))?);
        }
        self.calls += 1;
        let before = self.enter();
        let floor = std::mem::replace(&mut self.names.floor, self.names.scope);
        // Later arguments first, as minijinja does: a default may name those behind it.
        for ((name, default), value) in called.arguments.iter().zip(values).rev() {
            let value = match (value, default) {
                (Val::Undefined, Some(default)) => self.expr(default)?,
                (value, _) => value,
            };
            self.store(*name, value);
        }
        let result = self.capture(&called.body)?;
        self.names.floor = floor;
        self.leave(before);
        self.calls -= 1;
        Ok(result)
    }
}

impl Names<'_> {
    /// The value of a variable that has one.
    fn visible(&self, name: Name) -> Option<&Val> {
        let named = |local: &&(Name, Val)| local.0 == name;
        let local = self.locals[self.floor..].iter().rev().find(named);
        let root = || self.locals[..self.floor.min(self.root.unwrap_or(0))].iter().rev().find(named);
        match local.or_else(root) {
            Some((_, value)) => Some(value),
            None => self.globals[usize::from(name)].as_ref(),
        }
    }

    /// The value of `expr` where it stands somewhere already; otherwise it is worked out with a copy.
    fn peek<'s>(&'s self, expr: &'s Expr) -> Option<&'s Val> {
        match expr {
            Expr::Value(value) => Some(value),
            Expr::Variable(name) => self.visible(*name),
            Expr::Attribute(on, name) => match self.peek(on)? {
                Val::Map(map) => map.get(&self.program.names[usize::from(*name)]),
                Val::Namespace(number) => {
                    let found = self.namespaces[*number].iter().find(|(known, _)| known == name);
                    found.map(|(_, value)| value)
                }
                _ => None,
            },
            Expr::Item(on, key) => match self.peek(on)? {
                Val::List(list) => list.items.get(usize::try_from(self.integer(key)?).ok()?),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value of `expr` where it is an integer that needs no call.
    fn integer(&self, expr: &Expr) -> Option<i64> {
        match expr {
            Expr::Minus(pair) => self.integer(&pair.0)?.checked_sub(self.integer(&pair.1)?),
            Expr::Sum(terms) => {
                terms.iter().try_fold(0_i64, |sum, term| sum.checked_add(self.integer(term)?))
            }
            Expr::Attribute(on, name) if matches!(self.peek(on), Some(Val::Loop(_))) => {
                let Some(Val::Loop(number)) = self.peek(on) else { return None };
                let name = &self.program.names[usize::from(*name)];
                match self.loops.get(*number)?.attribute(name) {
                    Ok(Val::Int(value)) => Some(value),
                    _ => None,
                }
            }
            _ => match self.peek(expr)? {
                Val::Int(value) => Some(*value),
                _ => None,
            },
        }
    }
}

impl Loop {
    fn attribute(&self, name: &str) -> Ran<Val> {
        let (at, items) = (self.at, &self.items.items);
        let length = items.len();
        let count = |number: usize| i64::try_from(number).map(Val::Int).map_err(|_| Stop);
        let neighbour = |item: Option<&Val>| Ok(item.cloned().unwrap_or(Val::Undefined));
        match name {
            "index0" => count(at),
            "index" => count(at + 1),
            "first" => Ok(Val::Bool(at == 0)),
            "last" => Ok(Val::Bool(at + 1 == length)),
            "length" => count(length),
            "revindex" => count(length - at),
            "revindex0" => count(length - at - 1),
            "previtem" => neighbour(at.checked_sub(1).and_then(|at| items.get(at))),
            "nextitem" => neighbour(items.get(at + 1)),
            _ => Err(Stop),
        }
    }
}

fn write(captures: &mut [Vec<Str>], out: &mut Skeleton<'_>, text: &Str) {
    match captures.last_mut() {
        Some(capture) => push_flat(capture, text),
        None => out.push(text),
    }
}

fn set(members: &mut Vec<(Name, Val)>, name: Name, value: Val) {
    match members.iter_mut().find(|(known, _)| *known == name) {
        Some(member) => member.1 = value,
        None => members.push((name, value)),
    }
}

fn truth(program: &Program, value: &Val) -> Ran<bool> {
    Ok(match value {
        Val::Undefined | Val::None => false,
        Val::Bool(value) => *value,
        Val::Int(value) => *value != 0,
        Val::Str(text) => !program.is_empty(text),
        Val::List(list) if !list.lazy => !list.items.is_empty(),
        Val::Map(map) => !map.members.is_empty(),
        _ => return Err(Stop),
    })
}

fn item(on: &Val, key: &Val) -> Ran<Val> {
    match (on, key) {
        (Val::List(list), Val::Int(index)) => {
            let at = match usize::try_from(*index) {
                Ok(at) => Some(at),
                Err(_) if list.lazy => return Err(Stop),
                Err(_) => usize::try_from(index.unsigned_abs())
                    .ok()
                    .and_then(|back| list.items.len().checked_sub(back)),
            };
            Ok(at.and_then(|at| list.items.get(at)).cloned().unwrap_or(Val::Undefined))
        }
        _ => Err(Stop),
    }
}

/// Values that a copy of `value` copies.
fn length(value: &Val) -> usize {
    match value {
        Val::List(list) => list.items.len(),
        Val::Map(map) => map.members.len(),
        _ => 0,
    }
}

/// A slice of a list: a part of it in its order, or all of it backwards.
fn slice(on: &Val, [start, stop, step]: [Option<i64>; 3]) -> Ran<Val> {
    let Val::List(list) = on else { return Err(Stop) };
    let items = &list.items;
    if list.lazy {
        return Err(Stop);
    }
    let place = |bound: i64| match usize::try_from(bound) {
        Ok(at) => at.min(items.len()),
        Err(_) => usize::try_from(bound.unsigned_abs()).map_or(0, |back| items.len().saturating_sub(back)),
    };
    match (start, stop, step) {
        (start, stop, None | Some(1)) => {
            let (start, stop) = (start.map_or(0, place), stop.map_or(items.len(), place));
            Ok(List::of(items.get(start..stop).unwrap_or_default().to_vec(), true))
        }
        (None, None, Some(-1)) => Ok(List::of(items.iter().rev().cloned().collect(), true)),
        _ => Err(Stop),
    }
}

/// Appends `text`, and of a rope its parts.
fn push_flat(parts: &mut Vec<Str>, text: &Str) {
    match text {
        Str::Rope(inner) => parts.extend_from_slice(inner),
        text => parts.push(text.clone()),
    }
}

fn rope(mut parts: Vec<Str>) -> Str {
    match parts.len() {
        0 => Str::short(""),
        1 => parts.pop().unwrap_or(Str::Short(Arc::from(""))),
        _ => Str::Rope(parts.into()),
    }
}
