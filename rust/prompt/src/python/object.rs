//! Lists, objects and floats whose printed form does not depend on who prints them.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};

use super::repr::write_repr;

/// A list.
pub(crate) fn list(elements: Vec<Value>) -> Value {
    printed(Value::from(elements))
}

/// An object; of a name that occurs twice the last value counts, in the first one's place.
pub(crate) fn map<K: Into<Value>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
    printed(Value::from_pairs(members))
}

/// A float. One that Rust and Python print differently becomes an object, with which a template can do nothing but
/// print it and ask for its type.
pub(crate) fn float(value: f64) -> Value {
    let size = value.abs();
    let alike = size == 0.0 || (1e-4..1e16).contains(&size);
    if alike { Value::from(value) } else { Value::from_object(OddFloat(value)) }
}

/// The number, where `value` is one that [`float`] made an object of.
pub(crate) fn odd_float(value: &Value) -> Option<f64> {
    value.downcast_object_ref::<OddFloat>().map(|float| float.0)
}

#[derive(Debug)]
struct OddFloat(f64);

impl Object for OddFloat {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_repr(f, &Value::from(self.0))
    }
}

fn printed(value: Value) -> Value {
    match value.as_object() {
        Some(object) => Value::from_object(Printed(object.clone())),
        None => value,
    }
}

/// A list or an object that prints itself.
#[derive(Debug)]
struct Printed(DynObject);

impl Object for Printed {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.enumerator_len()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_repr(f, &Value::from_dyn_object(self.0.clone()))
    }
}
