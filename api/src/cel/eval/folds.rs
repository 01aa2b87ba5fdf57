//! The macros over the items of a value. Each is a loop that charges what cel-go charges for the
//! steps of its own loops, so results are built in place.

use std::sync::Arc;

use super::super::library::lists::insert;
use super::super::values::value::{BuiltMap, Failure, Map, Outcome, Value, error, no_overload};
use super::call_cost::LIST;
use super::run::{Local, Run};
use super::steps::{Fold, FoldKind, Step};

/// The result of a loop so far.
enum SoFar<'v> {
    Bool(Outcome<bool>),
    Count(Outcome<i64>),
    List(Outcome<Vec<Value<'v>>>),
    Map(Outcome<BuiltMap<'v>>),
}

impl<'p, 'v> Run<'p, 'v> {
    pub(super) fn fold(&mut self, fold: &'p Fold) -> Outcome<Value<'v>> {
        let range = self.value(&fold.range)?;
        let mut result = match fold.kind {
            FoldKind::All => SoFar::Bool(Ok(true)),
            FoldKind::Exists => SoFar::Bool(Ok(false)),
            FoldKind::ExistsOne => SoFar::Count(Ok(0)),
            FoldKind::List { .. } => SoFar::List(Ok(Vec::new())),
            FoldKind::Map | FoldKind::Entries => SoFar::Map(Ok(BuiltMap::default())),
        };
        self.each(fold, &range, &mut result)?;
        self.charge(1)?;
        match result {
            SoFar::Bool(of) => of.map(Value::Bool),
            SoFar::Count(of) => {
                self.charge(1)?;
                of.map(|count| Value::Bool(count == 1))
            }
            SoFar::List(of) => of.map(Value::list),
            SoFar::Map(of) => of.map(|map| Value::Map(Map::Built(Arc::new(map)))),
        }
    }

    /// Runs the loop.
    fn each(&mut self, fold: &'p Fold, range: &Value<'v>, result: &mut SoFar<'v>) -> Outcome<()> {
        let second = fold.second;
        match (range, second) {
            (Value::List(list), None) => {
                for item in list.iter() {
                    self.set_local(fold.first, Local::Known(item));
                    if !self.step(fold, result)? {
                        break;
                    }
                }
            }
            (Value::List(list), Some(second)) => {
                for (at, item) in list.iter().enumerate() {
                    let at = i64::try_from(at).unwrap_or(i64::MAX);
                    self.set_local(fold.first, Local::Known(Ok(Value::Int(at))));
                    self.set_local(second, Local::Known(item));
                    if !self.step(fold, result)? {
                        break;
                    }
                }
            }
            (Value::Map(map), None) => {
                for key in map.keys() {
                    self.set_local(fold.first, Local::Known(Ok(key)));
                    if !self.step(fold, result)? {
                        break;
                    }
                }
            }
            (Value::Map(map), Some(second)) => {
                for (key, value) in map.entries() {
                    self.set_local(fold.first, Local::Known(Ok(key)));
                    self.set_local(second, Local::Known(value));
                    if !self.step(fold, result)? {
                        break;
                    }
                }
            }
            (other, second) => return not_iterable(other, second.is_some()),
        }
        Ok(())
    }

    /// Handles one item. Returns whether the loop goes on.
    fn step(&mut self, fold: &'p Fold, result: &mut SoFar<'v>) -> Outcome<bool> {
        self.work.take(1)?;
        match result {
            SoFar::Bool(so_far) => {
                let is_all = fold.kind == FoldKind::All;
                self.charge(if is_all { 2 } else { 3 })?;
                if matches!(so_far, Ok(of) if *of != is_all) {
                    return Ok(self.is_exhaustive);
                }
                self.charge(1)?;
                let found = self.outcome(&fold.body)?;
                match (found, &so_far) {
                    (Ok(Value::Bool(of)), _) if of != is_all => *so_far = Ok(of),
                    (Ok(Value::Bool(_)), _) | (_, Err(_)) => {}
                    (Ok(_), Ok(_)) => *so_far = no_overload(),
                    (Err(fault), Ok(_)) => *so_far = Err(fault),
                }
            }
            SoFar::Count(so_far) => match self.outcome(&fold.body)? {
                Ok(Value::Bool(true)) => {
                    self.charge(2)?;
                    if let Ok(count) = so_far {
                        *count += 1;
                    }
                }
                Ok(Value::Bool(false)) => {}
                Ok(_) => *so_far = no_overload(),
                Err(fault) => *so_far = Err(fault),
            },
            SoFar::List(so_far) => match self.is_chosen(fold)? {
                Ok(false) => {}
                Ok(true) => {
                    self.charge(1)?;
                    let is_free = fold.kind == FoldKind::List { is_constant: true };
                    let item = self.outcome(&fold.body)?;
                    self.charge(if is_free { 1 } else { LIST + 1 })?;
                    match (&mut *so_far, item) {
                        (Ok(items), Ok(item)) => items.push(item),
                        (Ok(_), Err(fault)) => *so_far = Err(fault),
                        (Err(_), _) => {}
                    }
                }
                Err(fault) => *so_far = Err(fault),
            },
            SoFar::Map(so_far) => match self.is_chosen(fold)? {
                Ok(false) => {}
                Ok(true) => self.entry(fold, so_far)?,
                Err(fault) => *so_far = Err(fault),
            },
        }
        Ok(true)
    }

    /// Returns whether the filter chooses an item.
    fn is_chosen(&mut self, fold: &'p Fold) -> Outcome<Outcome<bool>> {
        let Some(filter) = &fold.filter else {
            return Ok(Ok(true));
        };
        Ok(match self.outcome(filter)? {
            Ok(Value::Bool(of)) => Ok(of),
            Ok(_) => no_overload(),
            Err(fault) => Err(fault),
        })
    }

    /// Inserts what an item becomes into a map.
    fn entry(&mut self, fold: &'p Fold, so_far: &mut Outcome<BuiltMap<'v>>) -> Outcome<()> {
        self.charge(1)?;
        if fold.kind == FoldKind::Map {
            // After an error the other arguments are not evaluated.
            let Ok(map) = so_far else { return Ok(()) };
            self.charge(1)?;
            let key = match self.locals.get(fold.first) {
                Some(Local::Known(Ok(key))) => key.clone(),
                _ => Value::Null,
            };
            let value = self.outcome(&fold.body)?;
            self.charge(1)?;
            if let Err(fault) = value.and_then(|value| insert(map, key, value)) {
                *so_far = Err(fault);
            }
            return Ok(());
        }
        let entries = self.outcome(&fold.body)?;
        self.charge(1)?;
        let Ok(map) = so_far else { return Ok(()) };
        let inserted = entries.and_then(|entries| match entries {
            Value::Map(entries) => entries.entries().into_iter().try_for_each(|(key, value)| {
                self.work.take(1)?;
                insert(map, key, value?)
            }),
            other => error(format!(
                "no such overload: cel.@mapInsert(map, {})",
                other.type_name()
            )),
        });
        match inserted {
            Ok(()) => Ok(()),
            Err(Failure::Error(what)) => {
                *so_far = Err(Failure::Error(what));
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }
}

/// Returns the error for a value that has no items.
fn not_iterable<T>(value: &Value<'_>, has_two_names: bool) -> Outcome<T> {
    let found = match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        other => other.type_name(),
    };
    match has_two_names {
        true => error(format!("unsupported comprehension range type: {found}")),
        false => error(format!("got '{found}', expected iterable type")),
    }
}

/// Returns whether a step is a constant.
pub(super) fn is_constant(step: &Step) -> bool {
    step.constant().is_some()
}
