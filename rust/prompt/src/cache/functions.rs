//! Functions: `namespace`, `strftime_now`, and the template's macros.

use minijinja::Value;

use super::names::set;
use super::program::{Expr, Macro, Name};
use super::run::Run;
use super::stop::{Ran, Stop};
use super::value::{Str, Val};

/// Macros inside one another before a request is left to minijinja's own limits.
const MAX_CALLS: usize = 16;

impl<'p> Run<'p> {
    /// `namespace`, or a macro.
    pub(super) fn function(
        &mut self,
        name: Name,
        given: &'p [Expr],
        keywords: &'p [(Name, Expr)],
    ) -> Ran<Val> {
        match self.variable(name) {
            Ok(Val::Macro(number)) => {
                return self.call_macro(&self.program.macros[number], given, keywords);
            }
            Ok(_) => return Err(Stop),
            Err(Stop) => {}
        }
        match &*self.program.names[usize::from(name)] {
            "namespace" if given.is_empty() => {}
            "strftime_now" if keywords.is_empty() => return self.date(given),
            _ => return Err(Stop),
        }
        let mut members = Vec::new();
        for (name, expr) in keywords {
            let value = self.expr(expr)?;
            set(&mut members, *name, value);
        }
        self.names.namespaces.push(members);
        Ok(Val::Namespace(self.names.namespaces.len() - 1))
    }

    /// `strftime_now`, minijinja's own: the text that it gives is a part of the key of its piece.
    fn date(&mut self, given: &'p [Expr]) -> Ran<Val> {
        if let Some(trace) = &self.names.trace {
            // It says another time later.
            trace.lose();
        }
        let [format] = given else { return Err(Stop) };
        let Val::Str(format) = self.expr(format)? else { return Err(Stop) };
        let format = Value::from(self.program.flat(&format).ok_or(Stop)?);
        let function = self.state.lookup("strftime_now").ok_or(Stop)?;
        let date = function.call(&mut self.state, &[format]).map_err(|_| Stop)?;
        Ok(Val::Str(Str::short(date.as_str().ok_or(Stop)?)))
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
