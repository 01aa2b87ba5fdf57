//! Pure. Writes of the simulation that the server refuses again and again, so that a test finds out
//! why its pods are not made.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::objects::Id;
use super::plan::Step;

/// A write that was refused this long is reported. Until then it may be early: a new namespace
/// gets its service account after a moment.
const PATIENCE: Duration = Duration::from_millis(500);
/// The characters that complete a `generateName`.
const GENERATED: usize = 5;

/// A write that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    message: String,
    is_create: bool,
}

impl Refusal {
    /// The refusal of a step with this message, without the name that was generated for it.
    pub(super) fn of(step: &Step, message: &str) -> Refusal {
        let object = match step {
            Step::Create(_, object) => Some(object),
            _ => None,
        };
        let prefix = object.map_or("", |object| object.meta("generateName"));
        Refusal {
            message: without_generated(message, prefix),
            is_create: object.is_some(),
        }
    }
}

/// A message without the ends of names with this prefix, which differ in each attempt.
fn without_generated(message: &str, prefix: &str) -> String {
    if prefix.is_empty() {
        return message.to_owned();
    }
    let mut parts = message.split(prefix);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.get(GENERATED..).filter(|rest| rest.starts_with('"'));
        text + prefix + rest.unwrap_or(part)
    })
}

/// The last refusal for an object.
#[derive(Debug)]
struct Last {
    refusal: Refusal,
    since: Instant,
    is_reported: bool,
}

/// The objects whose writes are refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    all: HashMap<Id, Last>,
}

impl Refusals {
    /// Takes note of a refusal of a write for an object. Returns its message if it is to be
    /// reported now, which is once.
    pub(super) fn note(&mut self, id: &Id, refusal: Refusal, now: Instant) -> Option<&str> {
        let last = self.all.entry(id.clone()).or_insert_with(|| Last {
            refusal: refusal.clone(),
            since: now,
            is_reported: false,
        });
        if last.refusal != refusal {
            *last = Last {
                refusal,
                since: now,
                is_reported: false,
            };
        }
        if last.is_reported || now.duration_since(last.since) < PATIENCE {
            return None;
        }
        last.is_reported = true;
        Some(&last.refusal.message)
    }

    /// The writes for an object were carried out, or it is gone.
    pub(super) fn end(&mut self, id: &Id) {
        self.all.remove(id);
    }

    /// The message about an object that can't be created for this one, once it was reported.
    pub(super) fn of_creates(&self, id: &Id) -> Option<&str> {
        let last = self.all.get(id)?;
        (last.is_reported && last.refusal.is_create).then_some(&*last.refusal.message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::Kind;
    use super::*;
    use crate::api::object::Object;

    #[test]
    fn a_refusal_that_lasts_is_reported_once() {
        let mut refusals = Refusals::default();
        let id = Id::new(Kind::ReplicaSet, "n", "web");
        let mut pod = Object::default();
        pod.set_meta("generateName", "web-");
        let step = Step::Create(Kind::Pod, pod);
        let refused = |name: &str| {
            let message = format!("pods \"{name}\" is forbidden: web-based");
            Refusal::of(&step, &message)
        };
        let begun = Instant::now();
        assert_eq!(refusals.note(&id, refused("web-abcde"), begun), None);
        assert_eq!(refusals.of_creates(&id), None);
        let later = begun + PATIENCE;
        let message = "pods \"web-\" is forbidden: web-based";
        assert_eq!(
            refusals.note(&id, refused("web-fghij"), later),
            Some(message)
        );
        assert_eq!(refusals.note(&id, refused("web-klmno"), later), None);
        assert_eq!(refusals.of_creates(&id), Some(message));
        // Another one is reported again.
        let other = || Refusal::of(&step, "no");
        assert_eq!(refusals.note(&id, other(), later), None);
        assert_eq!(refusals.note(&id, other(), later + PATIENCE), Some("no"));
        refusals.end(&id);
        assert_eq!(refusals.of_creates(&id), None);
    }
}
