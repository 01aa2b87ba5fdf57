//! Which parts of an object correspond to parts of the object before an update, and whether they
//! are equal (CRD-160, CRD-173).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::super::shape::{Kind, Order, Shape};
use super::super::values::{Outcome, Work};
use super::subject::Subject;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// A part of an object with its part before the update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'o> {
    pub new: Subject<'o>,
    pub old: Subject<'o>,
    pub shape: &'o Shape,
}

impl<'o> Pair<'o> {
    /// Returns a member that both have, if the schema describes it.
    pub(super) fn key(&self, name: &str) -> Option<Pair<'o>> {
        let (new, old) = (self.new.get(name)?, self.old.get(name)?);
        let shape = match &self.shape.kind {
            Kind::Object(_) => self.shape.described(name)?,
            Kind::Map(of) => of,
            _ => return None,
        };
        Some(Pair::of(new, old, shape))
    }

    fn of(new: &'o Json, old: &'o Json, shape: &'o Shape) -> Pair<'o> {
        let (new, old) = (Subject::Value(new), Subject::Value(old));
        Pair { new, old, shape }
    }

    /// Returns whether the part is unchanged. The order of keyed lists does not count. A member
    /// that the schema does not describe counts as changed.
    fn is_equal(&self, work: &Work) -> Outcome<bool> {
        work.take(1)?;
        if self.new.is_null() || self.old.is_null() {
            return Ok(self.new.is_null() && self.old.is_null());
        }
        if let (Some(new), Some(old)) = (self.new.items(), self.old.items()) {
            return self.are_equal_lists(new, old, work);
        }
        let (Some(new), Some(old)) = (self.new.members(), self.old.members()) else {
            return self.old.equals(self.new, work);
        };
        if new.len() != old.len() {
            return Ok(false);
        }
        for name in new.keys() {
            let is_equal = match self.key(name) {
                Some(pair) => pair.is_equal_below(work)?,
                None => false,
            };
            if !is_equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn are_equal_lists(&self, new: &'o [Json], old: &'o [Json], work: &Work) -> Outcome<bool> {
        if new.len() != old.len() {
            return Ok(false);
        }
        let Some((keys, items)) = keys(self.shape).zip(self.shape.element()) else {
            return self.old.equals(self.new, work);
        };
        let known = Keyed::of(old, keys);
        for item in new {
            let Some(old) = known.get(item) else {
                return Ok(false);
            };
            if !Pair::of(item, old, items).is_equal_below(work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_equal_below(&self, work: &Work) -> Outcome<bool> {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.is_equal(work))
    }
}

/// Returns whether a part of an object is unchanged, as ratcheting sees it.
pub fn is_unchanged(new: &Json, old: &Json, shape: &Shape) -> bool {
    let pair = Pair::of(new, old, shape);
    pair.is_equal_below(&Work::default()).unwrap_or(false)
}

/// Returns the keys of a list's items, if they have some.
pub(super) fn keys(shape: &Shape) -> Option<&[Arc<str>]> {
    let Kind::List(Some(of)) = &shape.kind else {
        return None;
    };
    match &of.order {
        Order::Map(keys) if !keys.is_empty() => Some(keys),
        _ => None,
    }
}

/// The items of a keyed list by their keys. Of several with the same keys the first one counts.
pub(super) struct Keyed<'o, 'k> {
    keys: &'k [Arc<str>],
    items: HashMap<Vec<Part>, &'o Json>,
}

/// The value of a key.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Part {
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(String),
}

impl<'o, 'k> Keyed<'o, 'k> {
    pub(super) fn of(list: &'o [Json], keys: &'k [Arc<str>]) -> Keyed<'o, 'k> {
        let mut items = HashMap::with_capacity(list.len());
        for item in list {
            if let Some(key) = key_of(item, keys) {
                items.entry(key).or_insert(item);
            }
        }
        Keyed { keys, items }
    }

    /// Returns the item with the same keys.
    pub(super) fn get(&self, item: &Json) -> Option<&'o Json> {
        self.items.get(&key_of(item, self.keys)?).copied()
    }
}

fn key_of(item: &Json, keys: &[Arc<str>]) -> Option<Vec<Part>> {
    let parts = keys.iter().map(|key| match item.get(&**key)? {
        Json::Bool(of) => Some(Part::Bool(*of)),
        Json::Number(of) => match of.as_i64() {
            Some(of) => Some(Part::Int(of)),
            None => of.as_f64().map(|of| Part::Float(of.to_bits())),
        },
        Json::String(of) => Some(Part::Text(of.clone())),
        _ => None,
    });
    parts.collect()
}

/// The parts whose changes decide whether the errors of a part count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratchet<'o> {
    /// The part with its part before the update.
    current: Option<Pair<'o>>,
    /// The nearest part around it that has one.
    nearest: Option<Pair<'o>>,
}

impl<'o> Ratchet<'o> {
    pub(super) fn of(pair: Option<Pair<'o>>) -> Ratchet<'o> {
        Ratchet {
            current: pair,
            nearest: None,
        }
    }

    /// Returns the comparison inside of `allOf`, which is not about the part itself.
    pub(super) fn of_all(self) -> Ratchet<'o> {
        Ratchet {
            current: None,
            ..self
        }
    }

    pub(super) fn key(self, name: &str) -> Ratchet<'o> {
        let Some(current) = self.current else {
            return self;
        };
        // Version and kind of an object are the same before and after a conversion.
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Ratchet::default();
        }
        Ratchet {
            current: current.key(name),
            nearest: self.current,
        }
    }

    pub(super) fn item(self, new: &'o Json, old: Option<&'o Json>) -> Ratchet<'o> {
        let Some(current) = self.current else {
            return self;
        };
        let shape = current.shape.element();
        let pair = shape.zip(old);
        let pair = pair.map(|(shape, old)| Pair::of(new, old, shape));
        Ratchet {
            current: pair,
            nearest: self.current,
        }
    }

    /// Returns whether errors of the part do not count.
    pub(super) fn forgives(&self, work: &Work) -> bool {
        let pair = self.current.or(self.nearest);
        pair.is_some_and(|pair| pair.is_equal_below(work).unwrap_or(false))
    }
}
