//! What operators do with values.

use super::program::Program;
use super::stop::{Ran, Stop};
use super::value::{List, Val};

/// Whether a condition with `value` holds.
pub(super) fn truth(program: &Program, value: &Val) -> Ran<bool> {
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

/// `on[key]`.
pub(super) fn item(on: &Val, key: &Val) -> Ran<Val> {
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
pub(super) fn length(value: &Val) -> usize {
    match value {
        Val::List(list) => list.items.len(),
        Val::Map(map) => map.members.len(),
        _ => 0,
    }
}

/// A slice of a list: a part of it in its order, or all of it backwards.
pub(super) fn slice(on: &Val, [start, stop, step]: [Option<i64>; 3]) -> Ran<Val> {
    let Val::List(list) = on else { return Err(Stop) };
    let items = &list.items;
    if list.lazy && !list.slice {
        return Err(Stop);
    }
    let place = |bound: i64| match usize::try_from(bound) {
        Ok(at) => at.min(items.len()),
        Err(_) => usize::try_from(bound.unsigned_abs()).map_or(0, |back| items.len().saturating_sub(back)),
    };
    match (start, stop, step) {
        (start, stop, None | Some(1)) => {
            let (start, stop) = (start.map_or(0, place), stop.map_or(items.len(), place));
            let chat = list.chat.filter(|_| start <= stop && stop == items.len()).map(|from| from + start);
            Ok(List::slice(items.get(start..stop).unwrap_or_default().to_vec(), chat))
        }
        (None, None, Some(-1)) => Ok(List::slice(items.iter().rev().cloned().collect(), None)),
        _ => Err(Stop),
    }
}
