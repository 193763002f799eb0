//! A chat template as a tree that is walked over references to texts.
//!
//! Only control flow, names, look-ups, comparisons and concatenation are done here. Filters, tests and
//! methods are minijinja's own, called with the whole text. What is not known here makes the template, or
//! the one request, be rendered by minijinja in full.

use std::sync::Arc;

use minijinja::Value;
use minijinja::machinery::ast::CompareOpKind;

use super::value::Val;

/// A name in the template, by number.
pub(super) type Name = u16;

/// A compiled template.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) body: Vec<Node>,
    pub(super) names: Vec<Arc<str>>,
    pub(super) constants: Vec<Arc<str>>,
    pub(super) macros: Vec<Macro>,
    /// Names that are functions unless a variable has them.
    pub(super) functions: Vec<Name>,
    /// The name `loop`.
    pub(super) loop_name: Name,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) arguments: Vec<(Name, Option<Expr>)>,
    pub(super) body: Vec<Node>,
}

#[derive(Debug)]
pub(super) enum Node {
    Emit(Expr),
    Raw(u32),
    For(Box<For>),
    If(Expr, Vec<Node>, Vec<Node>),
    Set(Target, Expr),
    Capture(Target, Vec<Node>),
    With(Vec<(Target, Expr)>, Vec<Node>),
    Declare(Name, usize),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    /// The place in the template.
    pub(super) site: u32,
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) condition: Option<Expr>,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(super) enum Target {
    Name(Name),
    Names(Vec<Name>),
    Member(Name, Name),
}

#[derive(Debug)]
pub(super) enum Expr {
    Value(Val),
    Variable(Name),
    Attribute(Box<Expr>, Name),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    Not(Box<Expr>),
    Both(Box<(Expr, Expr)>),
    Either(Box<(Expr, Expr)>),
    Compare(CompareOpKind, Box<(Expr, Expr)>),
    Contains {
        negated: bool,
        call: Box<Call>,
    },
    /// `a + b + …`
    Sum(Vec<Expr>),
    /// `a ~ b ~ …`
    Join(Vec<Expr>),
    Minus(Box<(Expr, Expr)>),
    Remainder(Box<(Expr, Expr)>),
    Choose(Box<(Expr, Expr, Option<Expr>)>),
    Filter(Box<Call>),
    Test(Box<Call>),
    Method(Box<Call>),
    Function(Name, Vec<Expr>, Vec<(Name, Expr)>),
    List(Vec<Expr>),
}

/// A filter, test or method with what it is applied to.
#[derive(Debug)]
pub(super) struct Call {
    /// The place in the template.
    pub(super) site: u32,
    pub(super) name: Arc<str>,
    pub(super) on: Expr,
    pub(super) arguments: Vec<Expr>,
    /// The arguments where all are constants, keywords last as minijinja takes them.
    pub(super) constant: Option<Vec<Value>>,
}

impl Call {
    /// Whether there are no arguments.
    pub(super) fn is_bare(&self) -> bool {
        self.arguments.is_empty() && !self.has_keywords()
    }

    /// Whether it is the filter that counts.
    pub(super) fn is_count(&self) -> bool {
        matches!(&*self.name, "length" | "count") && self.is_bare()
    }

    /// Whether there are arguments with names, which are constants.
    pub(super) fn has_keywords(&self) -> bool {
        self.constant.as_ref().is_some_and(|all| all.len() > self.arguments.len())
    }
}
