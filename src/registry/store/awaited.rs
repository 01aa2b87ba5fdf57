//! Conversions for the owners of fields, whose managers use other versions than the request
//! (HK-80).
//!
//! Ownership is computed on the thread of the request, but a webhook must be waited for. So a
//! computation that needs conversions notes them and goes on with a guess. They are fetched, and it
//! is repeated, until it needs none that is not known.

use parking_lot::Mutex;

use super::RegistryStore;
use crate::api::managed_fields::Awaited;
use crate::api::object::Object;
use crate::api::resource::{Converter, ResourceDefinition};
use crate::api::status::Status;

/// How often a computation is repeated. Two conversions may depend on each other.
const ROUNDS_MAX: usize = 4;

/// The conversions of one attempt to write.
#[derive(Default)]
pub(super) struct Conversions(Mutex<State>);

#[derive(Default)]
struct State {
    known: Vec<Known>,
    wanted: Vec<Object>,
    rounds: usize,
}

/// A conversion that was waited for.
struct Known {
    from: Object,
    to: Object,
}

/// The conversions of one attempt to write a version that is stored in another one.
pub(super) struct OfVersion<'c> {
    pub conversions: &'c Conversions,
    pub version: &'c ResourceDefinition,
    pub base: ConvertedFrom<'c>,
}

/// The stored version of a resource, for another one that is made from it.
#[derive(Clone, Copy)]
pub(super) struct ConvertedFrom<'c> {
    /// The stored version.
    pub stored: &'c ResourceDefinition,
    /// Converts between both.
    pub converter: &'c dyn Converter,
}

impl Awaited for OfVersion<'_> {
    fn find(&self, object: &Object, version: &ResourceDefinition) -> Option<Object> {
        let names = [self.base.stored.api_version(), self.version.api_version()];
        // Other versions differ in their type only, as far as owners are concerned (D-112).
        let is_between = |name: &str| names.iter().any(|known| known == name);
        if !is_between(object.api_version()) || !is_between(&version.api_version()) {
            return None;
        }
        let mut state = self.conversions.0.lock();
        let mut known = state.known.iter();
        // linear: a write needs a few conversions.
        let found = known.find(|known| known.from.0 == object.0);
        if let Some(found) = found {
            return Some(found.to.clone());
        }
        // linear: as above.
        if !state.wanted.iter().any(|wanted| wanted.0 == object.0) {
            state.wanted.push(object.clone());
        }
        None
    }
}

impl Conversions {
    /// Forgets everything, before another attempt.
    pub(super) fn clear(&self) {
        *self.0.lock() = State::default();
    }

    /// Fetches the conversions that the last computation lacked. Returns whether there were any.
    ///
    /// # Errors
    /// 500 if a conversion fails.
    pub(super) async fn fetch(&self, store: &RegistryStore) -> Result<bool, Box<Status>> {
        let wanted = {
            let mut state = self.0.lock();
            state.rounds += 1;
            std::mem::take(&mut state.wanted)
        };
        let Some(base) = store.converted_from().filter(|_| !wanted.is_empty()) else {
            return Ok(false);
        };
        if self.0.lock().rounds > ROUNDS_MAX {
            return Ok(false);
        }
        let ConvertedFrom { stored, converter } = base;
        let (to_shown, to_stored): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|object| object.api_version() == stored.api_version());
        let failed = |text: String| Box::new(Status::unknown(text));
        let own = store.definition();
        let shown = converter.convert(sent(&to_shown), stored, own, false).await;
        let shown = to_shown.into_iter().zip(shown.map_err(failed)?);
        let stored = converter
            .convert(sent(&to_stored), own, stored, false)
            .await;
        let stored = to_stored.into_iter().zip(stored.map_err(failed)?);
        let found = shown.chain(stored).map(|(from, to)| Known { from, to });
        let found: Vec<Known> = found.collect();
        self.0.lock().known.extend(found);
        Ok(true)
    }
}

/// Returns objects as a converter gets them, without their versions.
fn sent(objects: &[Object]) -> Vec<Object> {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        object.set_meta("resourceVersion", "");
    }
    objects
}
