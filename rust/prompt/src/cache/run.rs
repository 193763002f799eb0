//! Runs a [`Program`].

use std::ops::Range;
use std::sync::Arc;

use minijinja::{Environment, State, Value};

use super::known::Known;
use super::names::{Loop, Names, set};
use super::operations::length;
use super::program::{Expr, For, Name, Node, Program, Target};
use super::skeleton::Skeleton;
use super::stop::{Ran, Stop};
use super::trace::{Ahead, Trace};
use super::value::{List, Str, Val};

/// About a tenth of a second. What needs more is left to minijinja, which has limits of its own.
const MAX_STEPS: usize = 1 << 20;

/// How a run of nodes ended.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

/// What is known of messages, each with the place of its first one.
pub(super) type Groups = Vec<(usize, Arc<Known>)>;

/// One rendering.
pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    pub(super) state: State<'p, 'p>,
    pub(super) names: Names<'p>,
    pub(super) calls: usize,
    /// Nodes that may still be run, and values that may still be copied.
    steps: usize,
    out: Skeleton<'p>,
    captures: Vec<Vec<Str>>,
    groups: Groups,
}

impl<'p> Run<'p> {
    pub(super) fn new(
        program: &'p Program,
        environment: &'p Environment<'static>,
        out: Skeleton<'p>,
        steps: usize,
    ) -> Run<'p> {
        let names = Names::new(program);
        let state = environment.empty_state();
        let steps = steps.min(MAX_STEPS);
        let (captures, groups) = (Vec::new(), Vec::new());
        Run { program, state, names, calls: 0, steps, out, captures, groups }
    }

    /// Gives a variable its value; one that the template does not name is passed over.
    pub(super) fn set_global(&mut self, name: &str, value: impl FnOnce() -> Val) {
        if let Some(at) = self.program.names.iter().position(|known| **known == *name) {
            self.names.globals[at] = Some(value());
        }
    }

    /// Gives the template the messages of the chat, of which some are known in groups.
    pub(super) fn set_messages(&mut self, messages: Vec<Val>, groups: Groups) {
        let messages = Arc::new(List { chat: Some(0), ..List::new(messages, false) });
        self.names.messages = Some(Arc::clone(&messages));
        self.groups = groups;
        self.set_global("messages", || Val::List(messages));
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
    pub(super) fn spend(&mut self, steps: usize) -> Ran<()> {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop)?;
        Ok(())
    }

    pub(super) fn capture(&mut self, body: &'p [Node]) -> Ran<Val> {
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
        let is_own = before.1 && self.captures.is_empty() && self.calls == 0;
        let (chat, mut at) = (items.chat.filter(|_| is_own), 0);
        while at < items.items.len() {
            let group = chat.and_then(|from| self.group_at(from + at));
            let rounds = at..at + group.as_ref().map_or(1, |group| group.messages.len());
            at = rounds.end;
            let flow = match group {
                Some(group) => self.known_rounds(node, &items, rounds, &group)?,
                None => self.rounds(node, &items, rounds)?,
            };
            if flow == Flow::Break {
                break;
            }
        }
        self.names.loops.truncate(number);
        self.leave(before);
        Ok(Flow::On)
    }

    /// The group whose first message is `index`.
    fn group_at(&self, index: usize) -> Option<Arc<Known>> {
        let place = self.groups.binary_search_by_key(&index, |(first, _)| *first).ok()?;
        self.groups.get(place).map(|(_, group)| Arc::clone(group))
    }

    /// Some rounds of the innermost loop.
    fn rounds(&mut self, node: &'p For, items: &List, rounds: Range<usize>) -> Ran<Flow> {
        let number = self.names.loops.len().checked_sub(1).ok_or(Stop)?;
        for at in rounds {
            self.names.locals.truncate(self.names.scope);
            self.names.loops[number].at = at;
            // Below the loop's other names, so that one of the same name hides it.
            self.names.locals.push((self.program.loop_name, Val::Loop(number)));
            self.assign(&node.target, items.items.get(at).ok_or(Stop)?.clone())?;
            if self.nodes(&node.body)? == Flow::Break {
                return Ok(Flow::Break);
            }
        }
        Ok(Flow::On)
    }

    /// The same for the messages of `group`: what they do is done again where it is known.
    fn known_rounds(
        &mut self,
        node: &'p For,
        items: &List,
        rounds: Range<usize>,
        group: &Known,
    ) -> Ran<Flow> {
        match group.traces.find(node.site, rounds.start, &self.names) {
            Ahead::Known(replay) => {
                self.spend(replay.steps)?;
                for (number, name, value) in replay.wrote.iter() {
                    set(&mut self.names.namespaces[*number], *name, value.clone());
                }
                self.out.append(&replay.fragment);
                return Ok(Flow::On);
            }
            Ahead::Never => return self.rounds(node, items, rounds),
            Ahead::Unknown => {}
        }
        let (number, from) = (self.names.loops.len() - 1, items.chat.unwrap_or(0) + rounds.start);
        self.names.trace = Some(Trace::new(&self.names, number, rounds.start, from, rounds.len()));
        let (before, mark, first) = (self.steps, self.out.mark(), rounds.start);
        let flow = self.rounds(node, items, rounds)?;
        if let (Some(trace), Flow::On) = (self.names.trace.take(), &flow) {
            let replay =
                trace.finish(&self.names, before - self.steps, self.out.since(mark), 2 * group.length);
            group.traces.put(node.site, first, replay);
        }
        Ok(flow)
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
    pub(super) fn enter(&mut self) -> (usize, bool) {
        let outermost = self.names.root.is_none();
        if outermost {
            self.names.root = Some(self.names.locals.len());
        }
        let before = (self.names.scope, outermost);
        self.names.scope = self.names.locals.len();
        before
    }

    pub(super) fn leave(&mut self, (scope, outermost): (usize, bool)) {
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
                if let Some(trace) = &self.names.trace {
                    trace.write(number, *name);
                }
                set(&mut self.names.namespaces[number], *name, value);
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, name: Name, value: Val) {
        match self.names.locals[self.names.scope..].iter_mut().find(|(known, _)| *known == name) {
            Some(local) => local.1 = value,
            None => self.names.locals.push((name, value)),
        }
    }

    pub(super) fn variable(&self, name: Name) -> Ran<Val> {
        match self.names.visible(name) {
            Some(value) => Ok(value.clone()),
            // A function has the name, and is a value that is not known here.
            None if self.is_function(name) => Err(Stop),
            None => Ok(Val::Undefined),
        }
    }

    /// Whether `name` is a function here, and no variable.
    pub(super) fn is_function(&self, name: Name) -> bool {
        self.program.functions.contains(&name) && self.names.visible(name).is_none()
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
}

fn write(captures: &mut [Vec<Str>], out: &mut Skeleton<'_>, text: &Str) {
    match captures.last_mut() {
        Some(capture) => push_flat(capture, text),
        None => out.push(text),
    }
}

/// Appends `text`, and of a rope its parts.
pub(super) fn push_flat(parts: &mut Vec<Str>, text: &Str) {
    match text {
        Str::Rope(inner) => parts.extend_from_slice(inner),
        text => parts.push(text.clone()),
    }
}

pub(super) fn rope(mut parts: Vec<Str>) -> Str {
    match parts.len() {
        0 => Str::short(""),
        1 => parts.pop().unwrap_or(Str::Short(Arc::from(""))),
        _ => Str::Rope(parts.into()),
    }
}
