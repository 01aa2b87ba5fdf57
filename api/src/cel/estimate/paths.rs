//! Where values come from: paths through the schema, by which their sizes are known.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::super::shape::{Kind, Shape};
use super::Range;

/// A step of a path into the items of a list.
pub(super) const ITEMS: &str = "@items";
/// A step of a path to the values of a map.
pub(super) const VALUES: &str = "@values";
/// A step of a path to the keys of a map.
pub(super) const KEYS: &str = "@keys";
/// A step of a path to the positions of a list.
pub(super) const INDICES: &str = "@indices";

/// A path from a name. Two paths that begin alike may share their memory: as in Go, appending to
/// the shorter one changes the longer one, and estimates depend on that.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    memory: Rc<RefCell<Vec<Arc<str>>>>,
    length: usize,
    capacity: usize,
}

impl Path {
    /// Returns the path of a name.
    pub(super) fn of(name: &str) -> Path {
        Path {
            memory: Rc::new(RefCell::new(vec![Arc::from(name)])),
            length: 1,
            capacity: 1,
        }
    }

    /// Returns the path with one more step.
    pub(super) fn with(&self, step: &str) -> Path {
        let step: Arc<str> = Arc::from(step);
        if self.length < self.capacity {
            let mut memory = self.memory.borrow_mut();
            match memory.get_mut(self.length) {
                Some(place) => *place = step,
                None => memory.push(step),
            }
            return Path {
                memory: Rc::clone(&self.memory),
                length: self.length + 1,
                capacity: self.capacity,
            };
        }
        let mut steps: Vec<Arc<str>> = self
            .memory
            .borrow()
            .iter()
            .take(self.length)
            .cloned()
            .collect();
        steps.push(step);
        Path {
            memory: Rc::new(RefCell::new(steps)),
            length: self.length + 1,
            capacity: (2 * self.capacity).max(1),
        }
    }

    /// Returns the path with one more step in memory of its own.
    pub(super) fn copied_with(&self, step: &str) -> Path {
        let mut steps: Vec<Arc<str>> = self
            .memory
            .borrow()
            .iter()
            .take(self.length)
            .cloned()
            .collect();
        steps.push(Arc::from(step));
        Path {
            length: steps.len(),
            capacity: steps.len(),
            memory: Rc::new(RefCell::new(steps)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the size of the value at this path. The first step does not count.
    pub(super) fn size(&self, root: &Shape) -> Option<Range> {
        if self.is_empty() {
            return None;
        }
        let memory = self.memory.borrow();
        let mut place = Place::Shape(root);
        for step in memory.iter().take(self.length).skip(1) {
            place = place.below(step)?;
        }
        Some(Range {
            min: 0,
            max: place.most(),
        })
    }
}

/// A place in a schema.
enum Place<'s> {
    Shape(&'s Shape),
    /// The key of a map.
    Key,
}

impl<'s> Place<'s> {
    fn below(&self, step: &str) -> Option<Place<'s>> {
        let Place::Shape(shape) = self else {
            return None;
        };
        let found = match (step, &shape.kind) {
            (ITEMS | VALUES, _) => shape.element(),
            (KEYS, Kind::Map(_)) => return Some(Place::Key),
            (KEYS, _) => None,
            (name, Kind::Object(of)) => of.member(name).map(|field| &field.shape),
            _ => None,
        };
        found
            .filter(|shape| shape.bounds.is_some())
            .map(Place::Shape)
    }

    fn most(&self) -> u64 {
        match self {
            Place::Shape(shape) => shape.bounds.map_or(0, |bounds| bounds.most),
            Place::Key => 0,
        }
    }
}
