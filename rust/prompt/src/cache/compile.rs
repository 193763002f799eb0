//! From a template's syntax tree to a [`Program`].

use std::sync::Arc;

use minijinja::machinery::ast::{self, BinOpKind, CallArg, CallType, CompareOpKind, UnaryOpKind};
use minijinja::machinery::parse;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Value};

use super::program::{Call, Expr, For, Macro, Name, Node, Program, Target};
use super::value::{List, Str, Val};

/// The template uses something that is not known here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown;

type Compiled<T> = Result<T, Unknown>;

impl Program {
    /// The program of `source`.
    ///
    /// # Errors
    /// [`Unknown`] where the template cannot be parsed, too.
    pub(super) fn compile(source: &str, environment: &Environment<'_>) -> Compiled<Program> {
        let root = parse(source, "chat", environment.syntax().clone()).map_err(|_| Unknown)?;
        let ast::Stmt::Template(root) = root else { return Err(Unknown) };
        let mut compiler = Compiler::default();
        let body = compiler.nodes(&root.children)?;
        let loop_name = compiler.name("loop")?;
        let Compiler { names, constants, macros, .. } = compiler;
        let number = |name: &str| names.iter().position(|known| **known == *name);
        let functions = environment.globals().filter_map(|(name, _)| Name::try_from(number(name)?).ok());
        let functions = functions.collect();
        Ok(Program { body, names, constants, macros, functions, loop_name })
    }
}

/// Expressions and blocks inside one another; templates of models have about 20.
const MAX_NESTING: usize = 64;

#[derive(Default)]
struct Compiler {
    names: Vec<Arc<str>>,
    constants: Vec<Arc<str>>,
    macros: Vec<Macro>,
    sites: u32,
    /// Expressions and blocks around the place that is compiled.
    nesting: usize,
    /// Scopes between here and the template's own.
    depth: usize,
    breaks: bool,
}

impl Compiler {
    fn name(&mut self, name: &str) -> Compiled<Name> {
        let at = self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.names.push(Arc::from(name));
            self.names.len() - 1
        });
        Name::try_from(at).map_err(|_| Unknown)
    }

    fn constant(&mut self, text: &str) -> Compiled<u32> {
        let at = self.constants.iter().position(|known| **known == *text).unwrap_or_else(|| {
            self.constants.push(Arc::from(text));
            self.constants.len() - 1
        });
        u32::try_from(at).map_err(|_| Unknown)
    }

    fn nodes(&mut self, nodes: &[ast::Stmt<'_>]) -> Compiled<Vec<Node>> {
        nodes.iter().map(|node| self.node(node)).collect()
    }

    /// `nodes` in a scope of their own.
    fn scope(&mut self, nodes: &[ast::Stmt<'_>]) -> Compiled<Vec<Node>> {
        self.depth += 1;
        let nodes = self.nodes(nodes);
        self.depth -= 1;
        nodes
    }

    /// What `compile` gives one level further in. Running a program follows the same levels by calls.
    fn inside<T>(&mut self, compile: impl FnOnce(&mut Compiler) -> Compiled<T>) -> Compiled<T> {
        if self.nesting == MAX_NESTING {
            return Err(Unknown);
        }
        self.nesting += 1;
        let compiled = compile(self);
        self.nesting -= 1;
        compiled
    }

    fn node(&mut self, node: &ast::Stmt<'_>) -> Compiled<Node> {
        self.inside(|compiler| compiler.statement(node))
    }

    fn expr(&mut self, node: &ast::Expr<'_>) -> Compiled<Expr> {
        self.inside(|compiler| compiler.expression(node))
    }

    fn statement(&mut self, node: &ast::Stmt<'_>) -> Compiled<Node> {
        Ok(match node {
            ast::Stmt::EmitRaw(node) => Node::Raw(self.constant(node.raw)?),
            ast::Stmt::EmitExpr(node) => Node::Emit(self.expr(&node.expr)?),
            ast::Stmt::IfCond(node) => {
                Node::If(self.expr(&node.expr)?, self.nodes(&node.true_body)?, self.nodes(&node.false_body)?)
            }
            ast::Stmt::ForLoop(node) => self.for_loop(node)?,
            ast::Stmt::Set(node) => Node::Set(self.target(&node.target)?, self.expr(&node.expr)?),
            ast::Stmt::SetBlock(node) if node.filter.is_none() => {
                Node::Capture(self.target(&node.target)?, self.nodes(&node.body)?)
            }
            ast::Stmt::WithBlock(node) => {
                let mut assignments = Vec::new();
                for (target, value) in &node.assignments {
                    assignments.push((self.target(target)?, self.expr(value)?));
                }
                Node::With(assignments, self.scope(&node.body)?)
            }
            ast::Stmt::Macro(node) => self.declaration(node)?,
            ast::Stmt::Break(_) => {
                self.breaks = true;
                Node::Break
            }
            ast::Stmt::Continue(_) => Node::Continue,
            _ => return Err(Unknown),
        })
    }

    fn for_loop(&mut self, node: &ast::ForLoop<'_>) -> Compiled<Node> {
        if node.recursive {
            return Err(Unknown);
        }
        let outer = std::mem::take(&mut self.breaks);
        let body = self.scope(&node.body)?;
        let otherwise = self.nodes(&node.else_body)?;
        // minijinja takes a loop that is left in its first round for one that had none.
        if self.breaks && !otherwise.is_empty() {
            return Err(Unknown);
        }
        self.breaks = outer;
        Ok(Node::For(Box::new(For {
            site: self.site(),
            target: self.target(&node.target)?,
            items: self.expr(&node.iter)?,
            condition: self.optional(node.filter_expr.as_ref())?,
            body,
            otherwise,
        })))
    }

    /// A macro sees its own names and those of the template's own scope, so it must be declared there.
    fn declaration(&mut self, node: &ast::Macro<'_>) -> Compiled<Node> {
        if self.depth > 0 {
            return Err(Unknown);
        }
        let name = self.name(node.name)?;
        let without = node.args.len().checked_sub(node.defaults.len()).ok_or(Unknown)?;
        let mut arguments = Vec::new();
        for (at, argument) in node.args.iter().enumerate() {
            let ast::Expr::Var(argument) = argument else { return Err(Unknown) };
            let default = at.checked_sub(without).map(|at| self.expr(&node.defaults[at])).transpose()?;
            arguments.push((self.name(argument.id)?, default));
        }
        let body = self.scope(&node.body)?;
        self.macros.push(Macro { arguments, body });
        Ok(Node::Declare(name, self.macros.len() - 1))
    }

    fn target(&mut self, target: &ast::Expr<'_>) -> Compiled<Target> {
        let variable = |node: &ast::Expr<'_>, compiler: &mut Compiler| match node {
            ast::Expr::Var(node) => compiler.name(node.id),
            _ => Err(Unknown),
        };
        Ok(match target {
            ast::Expr::List(node) => {
                Target::Names(node.items.iter().map(|item| variable(item, self)).collect::<Compiled<_>>()?)
            }
            ast::Expr::GetAttr(node) => Target::Member(variable(&node.expr, self)?, self.name(node.name)?),
            node => Target::Name(variable(node, self)?),
        })
    }

    fn optional(&mut self, node: Option<&ast::Expr<'_>>) -> Compiled<Option<Expr>> {
        node.map(|node| self.expr(node)).transpose()
    }

    fn pair(&mut self, a: &ast::Expr<'_>, b: &ast::Expr<'_>) -> Compiled<Box<(Expr, Expr)>> {
        Ok(Box::new((self.expr(a)?, self.expr(b)?)))
    }

    fn expression(&mut self, node: &ast::Expr<'_>) -> Compiled<Expr> {
        if let Some(value) = node.as_const() {
            return self.literal(&value).map(Expr::Value);
        }
        Ok(match node {
            ast::Expr::Var(node) => Expr::Variable(self.name(node.id)?),
            ast::Expr::GetAttr(node) => {
                Expr::Attribute(Box::new(self.expr(&node.expr)?), self.name(node.name)?)
            }
            ast::Expr::GetItem(node) => self.item(node)?,
            ast::Expr::Slice(node) => {
                let bounds = [&node.start, &node.stop, &node.step];
                let [start, stop, step] = bounds.map(|bound| self.optional(bound.as_ref()));
                Expr::Slice(Box::new(self.expr(&node.expr)?), Box::new([start?, stop?, step?]))
            }
            ast::Expr::UnaryOp(node) => match node.op {
                UnaryOpKind::Not => Expr::Not(Box::new(self.expr(&node.expr)?)),
                UnaryOpKind::Neg => return Err(Unknown),
            },
            ast::Expr::BinOp(node) => self.operation(node)?,
            ast::Expr::Compare(node) => {
                let [operation] = &node.ops[..] else { return Err(Unknown) };
                self.comparison(operation.op, &node.expr, &operation.expr)?
            }
            ast::Expr::IfExpr(node) => Expr::Choose(Box::new((
                self.expr(&node.test_expr)?,
                self.expr(&node.true_expr)?,
                self.optional(node.false_expr.as_ref())?,
            ))),
            ast::Expr::Filter(node) => {
                let on = node.expr.as_ref().ok_or(Unknown)?;
                Expr::Filter(self.call(node.name, on, &node.args)?)
            }
            ast::Expr::Test(node) => Expr::Test(self.call(node.name, &node.expr, &node.args)?),
            ast::Expr::Call(node) => match node.identify_call() {
                CallType::Method(on, name) => Expr::Method(self.call(name, on, &node.args)?),
                CallType::Function(name) => self.function(name, &node.args)?,
                _ => return Err(Unknown),
            },
            ast::Expr::List(node) => {
                Expr::List(node.items.iter().map(|item| self.expr(item)).collect::<Compiled<_>>()?)
            }
            _ => return Err(Unknown),
        })
    }

    fn item(&mut self, node: &ast::GetItem<'_>) -> Compiled<Expr> {
        let on = Box::new(self.expr(&node.expr)?);
        match node.subscript_expr.as_const() {
            // As an attribute, where it is a name; a number is looked up as an index.
            Some(key) if key.kind() == ValueKind::String => {
                Ok(Expr::Attribute(on, self.name(key.as_str().unwrap_or_default())?))
            }
            _ => Ok(Expr::Item(on, Box::new(self.expr(&node.subscript_expr)?))),
        }
    }

    fn operation(&mut self, node: &ast::BinOp<'_>) -> Compiled<Expr> {
        let compare = match node.op {
            BinOpKind::ScAnd => return Ok(Expr::Both(self.pair(&node.left, &node.right)?)),
            BinOpKind::ScOr => return Ok(Expr::Either(self.pair(&node.left, &node.right)?)),
            BinOpKind::Sub => return Ok(Expr::Minus(self.pair(&node.left, &node.right)?)),
            BinOpKind::Rem => return Ok(Expr::Remainder(self.pair(&node.left, &node.right)?)),
            BinOpKind::Add => {
                let mut terms = match self.expr(&node.left)? {
                    Expr::Sum(terms) => terms,
                    term => vec![term],
                };
                terms.push(self.expr(&node.right)?);
                return Ok(Expr::Sum(terms));
            }
            BinOpKind::Concat => {
                let mut terms = match self.expr(&node.left)? {
                    Expr::Join(terms) => terms,
                    term => vec![term],
                };
                terms.push(self.expr(&node.right)?);
                return Ok(Expr::Join(terms));
            }
            BinOpKind::Eq => CompareOpKind::Eq,
            BinOpKind::Ne => CompareOpKind::Ne,
            BinOpKind::Lt => CompareOpKind::Lt,
            BinOpKind::Lte => CompareOpKind::Lte,
            BinOpKind::Gt => CompareOpKind::Gt,
            BinOpKind::Gte => CompareOpKind::Gte,
            BinOpKind::In => CompareOpKind::In,
            _ => return Err(Unknown),
        };
        self.comparison(compare, &node.left, &node.right)
    }

    fn comparison(&mut self, op: CompareOpKind, a: &ast::Expr<'_>, b: &ast::Expr<'_>) -> Compiled<Expr> {
        let negated = match op {
            CompareOpKind::In => false,
            CompareOpKind::NotIn => true,
            _ => return Ok(Expr::Compare(op, self.pair(a, b)?)),
        };
        let arguments = vec![self.expr(a)?];
        let constant = a.as_const().map(|value| vec![value]);
        let call = Call { site: self.site(), name: Arc::from("in"), on: self.expr(b)?, arguments, constant };
        Ok(Expr::Contains { negated, call: Box::new(call) })
    }

    fn site(&mut self) -> u32 {
        self.sites += 1;
        self.sites
    }

    fn call(&mut self, name: &str, on: &ast::Expr<'_>, given: &[CallArg<'_>]) -> Compiled<Box<Call>> {
        let (mut arguments, mut constant, mut keywords) = (Vec::new(), Some(Vec::new()), Vec::new());
        for argument in given {
            match argument {
                CallArg::Pos(value) => {
                    arguments.push(self.expr(value)?);
                    constant = constant.zip(value.as_const()).map(|(mut all, value)| {
                        all.push(value);
                        all
                    });
                }
                CallArg::Kwarg(name, value) => keywords.push((*name, value.as_const().ok_or(Unknown)?)),
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => return Err(Unknown),
            }
        }
        if !keywords.is_empty() {
            constant.as_mut().ok_or(Unknown)?.push(Value::from(Kwargs::from_iter(keywords)));
        }
        Ok(Box::new(Call {
            site: self.site(),
            name: Arc::from(name),
            on: self.expr(on)?,
            arguments,
            constant,
        }))
    }

    fn function(&mut self, name: &str, given: &[CallArg<'_>]) -> Compiled<Expr> {
        let (mut arguments, mut keywords) = (Vec::new(), Vec::new());
        for argument in given {
            match argument {
                CallArg::Pos(value) => arguments.push(self.expr(value)?),
                CallArg::Kwarg(name, value) => keywords.push((self.name(name)?, self.expr(value)?)),
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => return Err(Unknown),
            }
        }
        Ok(Expr::Function(self.name(name)?, arguments, keywords))
    }

    fn literal(&mut self, value: &Value) -> Compiled<Val> {
        Ok(match value.kind() {
            ValueKind::String if !value.is_safe() => {
                Val::Str(Str::Const(self.constant(value.as_str().ok_or(Unknown)?)?))
            }
            ValueKind::Seq if !value.is_tuple() => {
                let items = value.try_iter().map_err(|_| Unknown)?;
                List::of(items.map(|item| self.literal(&item)).collect::<Compiled<_>>()?, false)
            }
            ValueKind::Seq => Val::Other(value.clone()),
            _ => Val::of(value, false),
        })
    }
}
