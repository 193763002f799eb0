//! The expressions of a [`Program`](super::program::Program), while it runs.

use std::sync::Arc;

use minijinja::machinery::ast::CompareOpKind;

use super::operations::{item, length, slice, truth};
use super::program::{Call, Expr, Name};
use super::run::{Run, push_flat, rope};
use super::stop::{Ran, Stop};
use super::value::{List, Str, Val};
use crate::python::DEEPEST_VALUE;

impl<'p> Run<'p> {
    pub(super) fn truth(&mut self, expr: &'p Expr) -> Ran<bool> {
        Ok(match expr {
            Expr::Not(inner) => !self.truth(inner)?,
            Expr::Both(pair) => self.truth(&pair.0)? && self.truth(&pair.1)?,
            Expr::Either(pair) => self.truth(&pair.0)? || self.truth(&pair.1)?,
            Expr::Compare(op, pair) => {
                if let Some(holds) = self.names.compare(*op, pair) {
                    return Ok(holds);
                }
                match (self.peek(&pair.0), self.peek(&pair.1)) {
                    (Some(a), Some(b)) => self.compare(*op, a, b)?,
                    _ => match (self.names.integer(&pair.0), self.names.integer(&pair.1)) {
                        (Some(a), Some(b)) => self.compare(*op, &Val::Int(a), &Val::Int(b))?,
                        _ => truth(self.program, &self.expr(expr)?)?,
                    },
                }
            }
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
            Expr::Item(on, key) => self.item(on, key)?,
            Expr::Slice(on, bounds) => self.slice(on, bounds)?,
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
            Expr::Contains { negated, call } => match self.known_or(call, Run::contains)? {
                Val::Bool(found) => Val::Bool(found != *negated),
                _ => return Err(Stop),
            },
            Expr::Sum(terms) => self.sum(terms)?,
            Expr::Join(terms) => self.join(terms, true)?,
            Expr::Minus(pair) => match self.names.integer(expr) {
                Some(difference) => Val::Int(difference),
                None => match (self.expr(&pair.0)?, self.expr(&pair.1)?) {
                    (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_sub(b).ok_or(Stop)?),
                    _ => return Err(Stop),
                },
            },
            Expr::Remainder(pair) => match (self.expr(&pair.0)?, self.expr(&pair.1)?) {
                (Val::Int(a), Val::Int(b)) if b > 0 => Val::Int(a.rem_euclid(b)),
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
            Expr::Filter(call) => self.known_or(call, Run::filter)?,
            Expr::Test(call) => self.test(call)?,
            Expr::Method(call) => self.known_or(call, Run::method)?,
            Expr::Function(name, arguments, keywords) => self.function(*name, arguments, keywords)?,
            Expr::List(items) => {
                let list = List::new(items.iter().map(|item| self.expr(item)).collect::<Ran<_>>()?, false);
                // One that a template puts into itself again and again would be dropped by as many calls.
                if list.depth > DEEPEST_VALUE {
                    return Err(Stop);
                }
                Val::List(Arc::new(list))
            }
        })
    }

    /// What `call` gave for its value before, or what it gives.
    fn known_or(&mut self, call: &'p Call, work: impl FnOnce(&mut Self, &'p Call) -> Ran<Val>) -> Ran<Val> {
        match self.remembered(call) {
            Some(known) => Ok(known),
            None => work(self, call),
        }
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
    pub(super) fn term(&mut self, term: &'p Expr, prints: bool) -> Ran<Val> {
        match self.expr(term)? {
            Val::Int(number) if prints => Ok(Val::Str(Str::short(&number.to_string()))),
            value => Ok(value),
        }
    }

    fn item(&mut self, on: &'p Expr, key: &'p Expr) -> Ran<Val> {
        if let Some(found) = self.names.message(on, key) {
            return Ok(found.cloned().unwrap_or(Val::Undefined));
        }
        let (on, key) = (self.expr(on)?, self.expr(key)?);
        match (&on, &key) {
            (Val::Map(map), Val::Str(key)) => {
                let name = self.program.flat(key).ok_or(Stop)?;
                Ok(map.get(name).cloned().unwrap_or(Val::Undefined))
            }
            _ => item(&on, &key),
        }
    }

    fn slice(&mut self, on: &'p Expr, bounds: &'p [Option<Expr>; 3]) -> Ran<Val> {
        let on = self.expr(on)?;
        self.spend(length(&on))?;
        let mut numbers = [None; 3];
        for (number, bound) in numbers.iter_mut().zip(bounds) {
            if let Some(bound) = bound {
                let Val::Int(bound) = self.expr(bound)? else { return Err(Stop) };
                *number = Some(bound);
            }
        }
        slice(&on, numbers)
    }

    fn attribute(&self, on: &Val, name: Name) -> Ran<Val> {
        let field = &self.program.names[usize::from(name)];
        Ok(match on {
            Val::Map(map) => map.get(field).cloned().unwrap_or(Val::Undefined),
            Val::Namespace(number) => self.names.member(*number, name).cloned().unwrap_or(Val::Undefined),
            Val::Loop(number) => self.names.loop_attribute(*number, field)?,
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
            (Val::Map(a), Val::Map(b)) => a.is(b) || a.source == b.source,
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
}
