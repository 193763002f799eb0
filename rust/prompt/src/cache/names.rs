//! What the names of a template stand for while it runs.

use std::sync::Arc;

use super::program::{Expr, Name, Program};
use super::run::{Ran, Stop};
use super::value::{List, Val};

/// What names stand for.
pub(super) struct Names<'p> {
    pub(super) program: &'p Program,
    /// Variables from outside, by name.
    pub(super) globals: Vec<Option<Val>>,
    /// Names that were set, scope after scope.
    pub(super) locals: Vec<(Name, Val)>,
    /// Where the innermost scope begins.
    pub(super) scope: usize,
    /// Where the template's own scope ends, while inside another.
    pub(super) root: Option<usize>,
    /// Where the names begin that a macro sees.
    pub(super) floor: usize,
    pub(super) loops: Vec<Loop>,
    pub(super) namespaces: Vec<Vec<(Name, Val)>>,
}

/// A loop that runs.
pub(super) struct Loop {
    pub(super) items: Arc<List>,
    pub(super) at: usize,
}

impl<'p> Names<'p> {
    pub(super) fn new(program: &'p Program) -> Names<'p> {
        Names {
            program,
            globals: vec![None; program.names.len()],
            locals: Vec::with_capacity(32),
            scope: 0,
            root: None,
            floor: 0,
            loops: Vec::new(),
            namespaces: Vec::new(),
        }
    }
}

impl Names<'_> {
    /// The value of a variable that has one.
    pub(super) fn visible(&self, name: Name) -> Option<&Val> {
        let named = |local: &&(Name, Val)| local.0 == name;
        let local = self.locals[self.floor..].iter().rev().find(named);
        let root = || self.locals[..self.floor.min(self.root.unwrap_or(0))].iter().rev().find(named);
        match local.or_else(root) {
            Some((_, value)) => Some(value),
            None => self.globals[usize::from(name)].as_ref(),
        }
    }

    /// The value of `expr` where it stands somewhere already; otherwise it is worked out with a copy.
    pub(super) fn peek<'s>(&'s self, expr: &'s Expr) -> Option<&'s Val> {
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
    pub(super) fn integer(&self, expr: &Expr) -> Option<i64> {
        match expr {
            Expr::Minus(pair) => self.integer(&pair.0)?.checked_sub(self.integer(&pair.1)?),
            Expr::Remainder(pair) => match (self.integer(&pair.0)?, self.integer(&pair.1)?) {
                (a, b) if b > 0 => Some(a.rem_euclid(b)),
                _ => None,
            },
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
    pub(super) fn attribute(&self, name: &str) -> Ran<Val> {
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

/// Gives the member `name` its value.
pub(super) fn set(members: &mut Vec<(Name, Val)>, name: Name, value: Val) {
    match members.iter_mut().find(|(known, _)| *known == name) {
        Some(member) => member.1 = value,
        None => members.push((name, value)),
    }
}
