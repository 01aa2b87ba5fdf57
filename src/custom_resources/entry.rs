//! One definition as the controller knows it, and the next step for it. Pure.

use std::sync::Arc;

use actors::object::CachedObject;

use super::definition::Definition;
use super::life::{Leftovers, Life};
use super::made::{Identity, Made, phase_of};
use crate::api::deep;
use crate::api::object::Object;
use crate::api::resource::Phase;
use crate::kinds::strategies::apiextensions::CLEANUP;
use crate::kinds::strategies::definition_conditions::{Condition, structural_condition};

/// A definition, and the state of its resource.
#[derive(Default)]
pub(super) struct Entry {
    /// The definition, and the object that it was read from. `None` if it is gone.
    pub current: Option<Current>,
    /// The resource as it is served.
    pub served: Option<Made>,
    /// Whether its resource is being changed.
    pub is_serving: bool,
    /// Whether its status is being written.
    pub is_writing: bool,
    /// Whether its objects are being deleted.
    pub is_cleaning: bool,
    /// The objects that a definition before the current one may have left.
    pub left: Option<Leftovers>,
    /// Whether these are being deleted.
    pub is_sweeping: bool,
    /// The number of failed attempts to delete them.
    pub failed_sweeps: u32,
    life: Life,
    /// The last check of its schemas.
    structural: Option<Checked>,
}

/// The result of a check whether the schemas of a definition are structural.
pub(super) struct Checked {
    uid: String,
    generation: i64,
    /// The condition about schemas that are not.
    condition: Option<Condition>,
}

impl Checked {
    fn is_about(&self, definition: &Definition) -> bool {
        self.uid == definition.uid && self.generation == definition.generation
    }
}

/// A definition, and the object that it was read from.
#[derive(Clone)]
pub(super) struct Current {
    pub definition: Definition,
    pub cached: Arc<CachedObject>,
}

impl Current {
    /// Checks whether the schemas are structural. It reads all of them, which may take a
    /// millisecond.
    pub fn check(&self) -> Checked {
        let text = [b"{", self.cached.item_body()].concat();
        // Another server may have stored a schema of any depth.
        let condition = deep::retry_with_room(|| {
            let object = Object::read(&text);
            object.ok().and_then(|object| structural_condition(&object))
        });
        Checked {
            uid: self.definition.uid.clone(),
            generation: self.definition.generation,
            condition,
        }
    }
}

/// Whether the schemas of a definition are structural.
#[derive(Clone, Copy)]
pub(super) enum Structural<'e> {
    /// They were not checked yet.
    Unknown,
    /// They are.
    Yes,
    /// They are not, as this condition says.
    No(&'e Condition),
}

/// The next step of serving.
pub(super) enum Step {
    /// Nothing, or only a newer text of the same spec.
    None,
    /// Serve this resource.
    Serve { made: Box<Made>, ends_watches: bool },
    /// Serve nothing any longer.
    Withdraw,
}

impl Entry {
    /// Returns the definition as it was read last.
    pub fn definition(&self) -> Option<&Definition> {
        self.current.as_ref().map(|current| &current.definition)
    }

    /// Takes the newest state of the definition, and the object that it was read from. `is_new`
    /// says that its creation was seen.
    pub fn take(&mut self, definition: Definition, cached: &Arc<CachedObject>, is_new: bool) {
        let created = is_new.then_some(definition.version);
        match (&mut self.left, created) {
            (Some(left), Some(created)) if left.until.is_none() => left.until = Some(created),
            // Nobody knows whose the objects are.
            (Some(left), None) if left.until.is_none() && self.current.is_none() => {
                self.left = None;
            }
            _ => {}
        }
        if let Some(left) = self.life.take(&definition, created) {
            self.leave(left);
        }
        self.current = Some(Current {
            definition,
            cached: Arc::clone(cached),
        });
    }

    /// Takes note that the definition is gone. Returns it.
    pub fn forget(&mut self) -> Option<Current> {
        if let Some(left) = self.life.end() {
            self.leave(left);
        }
        self.current.take()
    }

    fn leave(&mut self, left: Leftovers) {
        let since = self.left.take().map_or(left.since, |before| before.since);
        self.left = Some(Leftovers {
            since: since.min(left.since),
            ..left
        });
    }

    /// Returns the left objects, if it is time to look for them: clients could create objects here.
    pub fn sweep(&mut self) -> Option<Leftovers> {
        if self
            .served
            .as_ref()
            .is_none_or(|made| made.phase().is_none())
        {
            self.left = None;
        }
        let left = self.left.clone().filter(|_| !self.is_sweeping);
        self.is_sweeping |= left.is_some();
        left
    }

    /// Reads the definition again from the object that it was read from, without decisions that
    /// could not be written.
    pub fn forget_decisions(&mut self) {
        if let Some(current) = &mut self.current
            && let Ok(definition) = Definition::read(&current.cached, None)
        {
            current.definition = definition;
        }
    }

    /// Returns the next step of serving. `is_hidden` says whether a built-in group hides the
    /// resource.
    pub fn step(&self, is_hidden: bool) -> Step {
        let current = self.current.as_ref();
        let wanted = current.filter(|current| current.definition.is_served());
        let Some(Current { definition, cached }) = wanted else {
            return match self.served {
                Some(_) => Step::Withdraw,
                None => Step::None,
            };
        };
        let identity = Identity::of(definition);
        let phase = phase_of(definition);
        match &self.served {
            Some(served) if served.identity == identity => {
                served.source.renew(Arc::clone(cached));
                match served.phase().is_none_or(|known| known == phase) {
                    true => Step::None,
                    false => Step::Serve {
                        made: Box::new(served.in_phase(phase)),
                        ends_watches: false,
                    },
                }
            }
            served => {
                let made = Made::of(
                    definition,
                    Arc::clone(cached),
                    &self.life.closing,
                    is_hidden,
                );
                let served_form = served.as_ref().map(|served| served.form);
                let is_same = served
                    .as_ref()
                    .is_some_and(|served| served.identity.is_same(&identity));
                match made {
                    Some(made) => Step::Serve {
                        ends_watches: !is_same || served_form != Some(made.form),
                        made: Box::new(made),
                    },
                    None if served.is_some() => Step::Withdraw,
                    None => Step::None,
                }
            }
        }
    }

    /// Returns whether the schemas of the current definition are structural.
    pub fn structural(&self) -> Structural<'_> {
        let (Some(current), Some(known)) = (&self.current, &self.structural) else {
            return Structural::Unknown;
        };
        match &known.condition {
            _ if !known.is_about(&current.definition) => Structural::Unknown,
            Some(condition) => Structural::No(condition),
            None => Structural::Yes,
        }
    }

    /// Takes the result of a check of the schemas.
    pub fn take_checked(&mut self, checked: Checked) {
        self.structural = Some(checked);
    }

    /// Returns whether the objects of the definition must be deleted now: it is being deleted, and
    /// nobody can create more.
    pub fn needs_cleanup(&self) -> bool {
        let Some(Current { definition, .. }) = &self.current else {
            return false;
        };
        // linear: few finalizers.
        let waits = definition.finalizers.iter().any(|name| name == CLEANUP);
        let is_closed = self
            .served
            .as_ref()
            .is_none_or(|served| served.phase().is_none_or(|phase| phase != Phase::Announced));
        definition.is_deleting && waits && is_closed
    }
}
