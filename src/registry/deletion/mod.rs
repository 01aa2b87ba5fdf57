//! The decision whether a deletion removes an object, marks it or changes nothing (http.md 3.4,
//! 5.4, RG-9 to RG-11).
//!
//! This folder owns the rules for preconditions, finalizers and grace periods. It takes a stored
//! object, the options of the deletion and the time, and returns a verdict, which `store/delete.rs`
//! carries out. It must not know storage, and its functions are pure.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::strategy::{Strategy, generation_of, set_generation};
use crate::api::object::{Object, put, whole_seconds};
use crate::api::options::{DeleteOptions, Propagation};
use crate::api::resource::{DefaultPropagation, DeletionRule};
use crate::api::status::Status;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const GRACE: &[&str] = &["metadata", "deletionGracePeriodSeconds"];

/// Whether a garbage collector handles the finalizers `orphan` and `foregroundDeletion`, here or in
/// a controller manager. Without one, objects with these finalizers would stay forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collector {
    /// No collector runs, so propagation policies do not change finalizers (SF-16).
    #[default]
    Absent,
    /// A collector runs, so propagation policies become finalizers (API-114).
    Running,
}

/// The effect of a deletion on the stored object.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletionVerdict {
    /// Remove it.
    Remove,
    /// Store this marked object, then remove it if `then_remove` is set.
    Mark {
        /// The object, marked for deletion.
        object: Object,
        /// Nothing keeps the object. Storing the mark only informs watchers before the removal.
        then_remove: bool,
    },
    /// Leave the object unchanged, because it is already being deleted.
    Keep,
}

/// Decides the effect of a deletion on an object.
///
/// # Errors
/// 409 for a failed precondition (API-111).
pub fn decide(
    strategy: &Strategy,
    stored: &Object,
    options: &DeleteOptions,
    collector: Collector,
    now: Timestamp,
) -> Result<DeletionVerdict, Box<Status>> {
    check_preconditions(strategy, stored, options)?;
    let mut object = stored.clone();
    let kind = &strategy.definition().behaviour;
    let has_own_mark = kind.rules().deletion == DeletionRule::OwnMark;
    if has_own_mark && !stored.is_being_deleted() {
        kind.mark(&mut object, now);
        let finalizers = finalizers_after(strategy, &object, options, collector);
        object.set_finalizers(finalizers);
        return Ok(DeletionVerdict::Mark {
            object,
            then_remove: false,
        });
    }
    if kind.is_held(stored) {
        return Ok(DeletionVerdict::Keep);
    }
    let grace = match grace_of(strategy, stored, options, now) {
        Grace::Pending => return Ok(DeletionVerdict::Keep),
        grace => grace,
    };
    let finalizers = finalizers_after(strategy, stored, options, collector);
    let is_free = finalizers.is_empty();
    object.set_finalizers(finalizers);
    match grace {
        Grace::Of {
            seconds,
            ends,
            first,
        } => {
            object.set_meta("deletionTimestamp", &whole_seconds(ends));
            put(&mut object, GRACE, seconds.into());
            if first {
                raise_generation(&mut object);
            }
            let then_remove = is_free && seconds == 0;
            Ok(DeletionVerdict::Mark {
                object,
                then_remove,
            })
        }
        _ if is_free => Ok(DeletionVerdict::Remove),
        _ => {
            mark_now(&mut object, now);
            Ok(DeletionVerdict::Mark {
                object,
                then_remove: false,
            })
        }
    }
}

/// Returns whether an update removes the last thing that keeps a marked object, so that the object
/// is removed instead (API-106, RG-7, API-210).
pub fn is_released(strategy: &Strategy, object: &Object, stored: &Object) -> bool {
    stored.is_being_deleted()
        && object.finalizers().is_empty()
        && stored.at(GRACE).and_then(Value::as_i64).unwrap_or(0) == 0
        && !strategy.definition().behaviour.is_held(object)
}

/// Returns why an object cannot be deleted without reading it, and the remedy. `None` if its name
/// is enough (RG-15).
pub fn needs_content(strategy: &Strategy, options: &DeleteOptions) -> Option<String> {
    let deletion = strategy.definition().rules().deletion;
    if deletion == DeletionRule::OwnMark {
        return Some(
            "its content decides how it is deleted: have its writer store it again as \
             application/json, then delete it"
                .to_owned(),
        );
    }
    let is_forced = options.grace_period_seconds == Some(0);
    (deletion == DeletionRule::Graceful && !is_forced).then(|| {
        "its content decides its grace period: have its writer store it again as \
         application/json, or delete it with --grace-period=0 --force"
            .to_owned()
    })
}

fn check_preconditions(
    strategy: &Strategy,
    stored: &Object,
    options: &DeleteOptions,
) -> Result<(), Box<Status>> {
    let definition = strategy.definition();
    let (name, uid, version) = (stored.name(), stored.uid(), stored.resource_version());
    let wanted = &options.preconditions;
    // Messages for namespaces use the storage's wording, all others the API's (API-111).
    let plain = |what: &str, asked: &str, found: &str| {
        let why = format!(
            "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
        );
        Status::conflict(definition, name, &why)
    };
    let is_marked_its_own_way = strategy.definition().rules().deletion == DeletionRule::OwnMark;
    if let Some(asked) = wanted.uid.as_deref().filter(|asked| *asked != uid) {
        return Err(Box::new(match is_marked_its_own_way {
            true => plain("UID", asked, uid),
            false => Status::delete_precondition_uid(definition, name, asked, uid),
        }));
    }
    if let Some(asked) = wanted
        .resource_version
        .as_deref()
        .filter(|asked| *asked != version)
    {
        return Err(Box::new(match is_marked_its_own_way {
            true => plain("ResourceVersion", asked, version),
            false => Status::delete_precondition_version(definition, name, asked, version),
        }));
    }
    Ok(())
}

/// The grace period that a deletion results in.
enum Grace {
    /// The kind has no grace period, or the period is over.
    None,
    /// The object's grace period still runs, and this request does not shorten it.
    Pending,
    /// The object gets this period.
    Of {
        /// The period in seconds.
        seconds: i64,
        /// The end of the period.
        ends: Timestamp,
        /// Whether this deletion is the first one.
        first: bool,
    },
}

/// API-112: only kinds with graceful deletion have a period, and a repeated deletion can only
/// shorten it.
fn grace_of(
    strategy: &Strategy,
    stored: &Object,
    options: &DeleteOptions,
    now: Timestamp,
) -> Grace {
    let kind = &strategy.definition().behaviour;
    if kind.rules().deletion != DeletionRule::Graceful {
        return Grace::None;
    }
    let asked = options
        .grace_period_seconds
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    if !stored.is_being_deleted() {
        let seconds = kind.grace(stored, asked).unwrap_or_default();
        return Grace::Of {
            seconds,
            ends: after(now, seconds),
            first: true,
        };
    }
    match stored.at(GRACE).and_then(Value::as_i64).unwrap_or(0) {
        0 => Grace::None,
        given => match asked {
            Some(asked) if asked < given => shortened(stored, given, asked, now),
            _ => Grace::Pending,
        },
    }
}

/// Shortens a running grace period, counted from the start of the deletion. If the new end has
/// passed, the period ends now, and one second remains unless the request asked for zero.
fn shortened(stored: &Object, given: i64, asked: i64, now: Timestamp) -> Grace {
    let end: Timestamp = stored.meta("deletionTimestamp").parse().unwrap_or(now);
    let ends = after(end, asked.saturating_sub(given));
    let (seconds, ends) = match ends < now {
        true => (asked.min(1), now),
        false => (asked, ends),
    };
    Grace::Of {
        seconds,
        ends,
        first: false,
    }
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(time)
}

/// RG-11: marks an object of a kind without a grace period.
fn mark_now(object: &mut Object, now: Timestamp) {
    let marked: Option<Timestamp> = object.meta("deletionTimestamp").parse().ok();
    if !object.is_being_deleted() {
        raise_generation(object);
    }
    if marked.is_none_or(|marked| marked > now) {
        object.set_meta("deletionTimestamp", &whole_seconds(now));
    }
    put(object, GRACE, 0.into());
}

/// API-198.
fn raise_generation(object: &mut Object) {
    match generation_of(object) {
        0 => {}
        generation => set_generation(object, generation + 1),
    }
}

/// API-114: the policy of the request, else the existing finalizers, else the default of the kind.
fn finalizers_after(
    strategy: &Strategy,
    stored: &Object,
    options: &DeleteOptions,
    collector: Collector,
) -> Vec<String> {
    let present: Vec<String> = stored.finalizers().into_iter().map(str::to_owned).collect();
    if collector == Collector::Absent {
        return present;
    }
    let default = strategy.definition().rules().propagation;
    if default == DefaultPropagation::Unsupported {
        return present
            .into_iter()
            .filter(|f| f != ORPHAN && f != FOREGROUND)
            .collect();
    }
    let asked = match options.orphan_dependents {
        Some(true) => Some(Propagation::Orphan),
        Some(false) => Some(Propagation::Background),
        None => options.propagation_policy,
    };
    // linear: called for two names.
    let has = |finalizer: &str| present.iter().any(|f| f == finalizer);
    let implied = || match (has(ORPHAN), has(FOREGROUND), default) {
        (true, _, _) => Propagation::Orphan,
        (_, true, _) => Propagation::Foreground,
        (_, _, DefaultPropagation::Orphan) => Propagation::Orphan,
        _ => Propagation::Background,
    };
    let wanted = match asked.unwrap_or_else(implied) {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    if wanted.is_some_and(has) && !(has(ORPHAN) && has(FOREGROUND)) {
        return present;
    }
    let others = present
        .iter()
        .filter(|f| *f != ORPHAN && *f != FOREGROUND)
        .cloned();
    others.chain(wanted.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
