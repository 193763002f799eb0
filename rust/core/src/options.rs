//! A table of options: each is defined once, and flags, files, defaults, ranges and docs derive from it.

use crate::error::ConfigError;

/// A value of an option, as it comes from a flag, a file or a keyword argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number that is not negative.
    Int(u64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// One of a few names.
    Choice(String),
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// Whole numbers from the first to the second.
    Int(u64, u64),
    /// Finite numbers from the first to the second.
    Float(f64, f64),
    /// Yes or no.
    Bool,
    /// One of these names.
    Choice(&'static [&'static str]),
}

/// One option.
#[derive(Clone, Debug)]
pub struct OptionSpec {
    /// Its name, the same as keyword, in files and, with dashes, as a flag.
    pub name: &'static str,
    /// Its value when none is given.
    pub default: Value,
    /// What values it takes.
    pub allowed: Allowed,
    /// The unit of the value; empty where there is none.
    pub unit: &'static str,
    /// What it does, for a person to read.
    pub doc: &'static str,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Choice(value) => write!(f, "{value:?}"),
        }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allowed::Int(from, u64::MAX) => write!(f, "a whole number of at least {from}"),
            Allowed::Int(from, to) => write!(f, "a whole number from {from} to {to}"),
            Allowed::Float(from, to) => write!(f, "a number from {from} to {to}"),
            Allowed::Bool => f.write_str("true or false"),
            Allowed::Choice(names) => write!(f, "one of {}", names.join(", ")),
        }
    }
}

impl Allowed {
    /// `value` in the form that this option holds it, or nothing where it is not allowed.
    fn admit(&self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Allowed::Int(from, to), Value::Int(n)) => (from..=to).contains(&n).then(|| value.clone()),
            (Allowed::Float(from, to), Value::Float(x)) => (from..=to).contains(&x).then(|| value.clone()),
            (Allowed::Float(..), Value::Int(n)) => self.admit(&Value::Float(*n as f64)),
            (Allowed::Bool, Value::Bool(_)) => Some(value.clone()),
            (Allowed::Choice(names), Value::Choice(name)) => {
                names.contains(&name.as_str()).then(|| value.clone())
            }
            _ => None,
        }
    }
}

/// Looks `name` up in `table` and checks `value` against what it allows.
///
/// # Errors
/// [`ConfigError`] that names the key, the value and what is allowed.
pub fn admit(table: &[OptionSpec], name: &str, value: &Value) -> Result<Value, ConfigError> {
    let refuse = |allowed: String| ConfigError { key: name.to_owned(), value: value.to_string(), allowed };
    let Some(spec) = table.iter().find(|spec| spec.name == name) else {
        let names: Vec<_> = table.iter().map(|spec| spec.name).collect();
        return Err(refuse(format!("one of the options {}", names.join(", "))));
    };
    spec.allowed.admit(value).ok_or_else(|| refuse(spec.allowed.to_string()))
}

/// A field of an options struct: how it stands in a [`Value`].
pub trait Field: Sized {
    /// The field as a value.
    fn to_value(&self) -> Value;
    /// The field from a value that was admitted; nothing where the kind differs.
    fn from_value(value: Value) -> Option<Self>;
}

impl Field for u32 {
    fn to_value(&self) -> Value {
        Value::Int(u64::from(*self))
    }
    fn from_value(value: Value) -> Option<u32> {
        match value {
            Value::Int(n) => n.try_into().ok(),
            _ => None,
        }
    }
}

impl Field for u64 {
    fn to_value(&self) -> Value {
        Value::Int(*self)
    }
    fn from_value(value: Value) -> Option<u64> {
        match value {
            Value::Int(n) => Some(n),
            _ => None,
        }
    }
}

impl Field for f64 {
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }
    fn from_value(value: Value) -> Option<f64> {
        match value {
            Value::Float(x) => Some(x),
            _ => None,
        }
    }
}

impl Field for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
    fn from_value(value: Value) -> Option<bool> {
        match value {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }
}

/// Defines an options struct: its fields, defaults, [`OptionSpec`] table, `set` and `get`.
///
/// Each field is `name: Type = default, allowed, unit;` under its doc comment.
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident : $Type:ty = $default:expr, $allowed:expr, $unit:literal; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name { $( $(#[doc = $doc])+ pub $field: $Type, )+ }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $( $field: $default, )+ }
            }
        }

        impl $Name {
            /// Every option, in the order of the struct.
            pub fn options() -> Vec<$crate::options::OptionSpec> {
                vec![ $( $crate::options::OptionSpec {
                    name: stringify!($field),
                    default: $crate::options::Field::to_value(&{ let value: $Type = $default; value }),
                    allowed: $allowed,
                    unit: $unit,
                    doc: concat!($($doc),+).trim_ascii(),
                }, )+ ]
            }

            /// Checks every field against what it allows.
            ///
            /// # Errors
            /// [`ConfigError`](crate::error::ConfigError) for the first that is not allowed.
            pub fn validate(&self) -> Result<(), $crate::error::ConfigError> {
                let table = Self::options();
                $( $crate::options::admit(
                    &table,
                    stringify!($field),
                    &$crate::options::Field::to_value(&self.$field),
                )?; )+
                Ok(())
            }

            /// Sets the option `name`.
            ///
            /// # Errors
            /// [`ConfigError`](crate::error::ConfigError) for an unknown name or a value that is not allowed.
            pub fn set(
                &mut self,
                name: &str,
                value: &$crate::options::Value,
            ) -> Result<(), $crate::error::ConfigError> {
                let admitted = $crate::options::admit(&Self::options(), name, value)?;
                match name {
                    $( stringify!($field) => {
                        if let Some(value) = $crate::options::Field::from_value(admitted) {
                            self.$field = value;
                        }
                    } )+
                    _ => {}
                }
                Ok(())
            }
        }
    };
}
