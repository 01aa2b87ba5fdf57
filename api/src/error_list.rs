//! The field errors of one object, bounded by the number that a response can show (API-146 to
//! API-149).
//!
//! A body of a megabyte can break a rule some hundred thousand times, but a response shows only a
//! hundred errors. A list therefore formats only the errors that it keeps, and counts the rest: an
//! error is passed as a [`Report`], which knows the field and the rule, and formats path and value
//! only if the list has room.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::field_error::{FieldError, MAX_FIELD_ERRORS};

/// The limit on the texts that a list keeps. The message of a Status is cut at that length, see
/// [`crate::status`].
const MAX_KEPT_BYTES: usize = 40 * 1024;

/// A field error that may not be formatted yet.
pub trait Report {
    /// Formats the error.
    fn written(self) -> FieldError;

    /// Formats the error without its value.
    fn without_value(&self) -> FieldError;

    /// Formats the value alone.
    fn value(&self) -> String;
}

impl Report for FieldError {
    fn written(self) -> FieldError {
        self
    }

    fn without_value(&self) -> FieldError {
        FieldError {
            value: String::new(),
            ..self.clone()
        }
    }

    fn value(&self) -> String {
        self.value.clone()
    }
}

/// Policies of a cluster that validation obeys, as a set of bits. The crate of the kinds says what
/// each bit forbids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterPolicies(u8);

impl ClusterPolicies {
    /// Returns a set of one policy.
    pub const fn of(bit: u8) -> ClusterPolicies {
        ClusterPolicies(1 << bit)
    }

    /// Returns whether all policies of another set are in this one.
    pub const fn include(self, other: ClusterPolicies) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The field errors of an object, in order: those that a response shows, and the number of all.
#[derive(Debug)]
pub struct ErrorList {
    kept: Vec<FieldError>,
    kept_bytes: usize,
    most: usize,
    most_bytes: usize,
    reported: usize,
    ratcheting: Option<Ratcheting>,
    policies: ClusterPolicies,
    warnings: Vec<String>,
}

/// How a list treats errors that a ratchet covers.
#[derive(Debug)]
enum Ratcheting {
    /// The list holds the errors of the stored object: it notes them as exemptions and keeps none.
    Noting(Exemptions),
    /// The list holds the errors of the changed object, which may keep the errors of the stored
    /// one.
    Exempting(Exemptions),
}

impl Default for ErrorList {
    fn default() -> ErrorList {
        ErrorList {
            kept: Vec::new(),
            kept_bytes: 0,
            most: MAX_FIELD_ERRORS,
            most_bytes: MAX_KEPT_BYTES,
            reported: 0,
            ratcheting: None,
            policies: ClusterPolicies::default(),
            warnings: Vec::new(),
        }
    }
}

impl ErrorList {
    /// Returns an empty list.
    pub fn new() -> ErrorList {
        ErrorList::default()
    }

    /// Returns an empty list that keeps up to `most` errors, for a check that sorts its errors
    /// before a response shows them.
    pub fn to_be_sorted(most: usize) -> ErrorList {
        ErrorList {
            most,
            most_bytes: usize::MAX,
            ..ErrorList::default()
        }
    }

    /// Returns an empty list that leaves out exempt errors.
    pub fn except(exemptions: Exemptions) -> ErrorList {
        ErrorList {
            ratcheting: Some(Ratcheting::Exempting(exemptions)),
            ..ErrorList::default()
        }
    }

    /// Adds a warning about an error that a change may keep (CRD-162). A list keeps as many as
    /// errors.
    pub fn warn(&mut self, text: impl ToString) {
        if self.warnings.len() < self.most {
            self.warnings.push(text.to_string());
        }
    }

    /// Returns the warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Has the checks that add to this list obey the policies of a cluster.
    pub fn obey(&mut self, policies: ClusterPolicies) {
        self.policies = policies;
    }

    /// Returns the policies that checks obey.
    pub fn policies(&self) -> ClusterPolicies {
        self.policies
    }

    /// Returns the errors that `find` adds.
    pub fn of(find: impl FnOnce(&mut ErrorList)) -> ErrorList {
        let mut errors = ErrorList::new();
        find(&mut errors);
        errors
    }

    /// Returns the errors of a change, without those that the stored object exempts. `change` finds
    /// the errors of the change; `stored` finds those of the stored object as if it were new.
    pub fn ratcheted(
        ratchets: &[Ratchet],
        change: impl Fn(&mut ErrorList),
        stored: impl FnOnce(&mut ErrorList),
    ) -> ErrorList {
        let errors = ErrorList::of(&change);
        // linear: a list keeps at most a hundred errors.
        let is_covered = |ratchet: &Ratchet| errors.iter().any(|error| ratchet.covers(error));
        // If no ratchet covers a kept error, the change is refused anyway, so the stored object
        // need not be validated.
        if !ratchets.iter().any(is_covered) {
            return errors;
        }
        let mut remaining = ErrorList::except(Exemptions::of(ratchets, stored));
        change(&mut remaining);
        remaining
    }

    /// Adds an error.
    pub fn push(&mut self, error: impl Report) {
        self.reported += 1;
        if self.is_full() {
            return;
        }
        match &mut self.ratcheting {
            Some(Ratcheting::Noting(exemptions)) => return exemptions.note(&error),
            Some(Ratcheting::Exempting(exemptions)) if exemptions.cover(&error) => return,
            _ => {}
        }
        let error = error.written();
        // The message of a Status shows equal errors once, so a repetition takes no space.
        if !self.kept.contains(&error) {
            self.kept_bytes += error.path.len() + error.value.len() + error.detail.len();
        }
        self.kept.push(error);
    }

    /// Adds the same error `count` times. Errors beyond the limit cost nothing.
    pub fn push_repeated(&mut self, count: usize, error: impl Fn() -> FieldError) {
        for added in 0..count {
            if self.is_full() {
                self.reported += count - added;
                return;
            }
            self.push(error());
        }
    }

    /// Adds errors.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = impl Report>) {
        for error in errors {
            self.push(error);
        }
    }

    /// Appends the errors of another list. No ratchet may cover errors of that list, because it may
    /// have counted further errors after a hundred that are exempt here.
    pub fn append(&mut self, other: ErrorList) {
        self.reported += other.reported - other.kept.len();
        self.extend(other.kept);
    }

    /// Sorts the errors by their texts.
    #[must_use]
    pub fn sorted_by_text(mut self) -> ErrorList {
        self.kept.sort_by_cached_key(ToString::to_string);
        self
    }

    /// Returns whether further errors are only counted. A costly check can stop then.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.most || self.kept_bytes > self.most_bytes
    }

    /// Returns whether the list keeps no errors, which is also true if all of them are exempt. A
    /// check that depends on another one must use [`ErrorList::reported`] instead.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the number of all reported errors, including those that are not kept. A check that
    /// depends on another one compares the number before it with the number after it.
    pub fn reported(&self) -> usize {
        self.reported
    }

    /// Returns the errors that a response shows, in order.
    pub fn kept(&self) -> &[FieldError] {
        &self.kept
    }

    /// Returns an iterator over the errors that a response shows, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.kept.iter()
    }
}

impl<'l> IntoIterator for &'l ErrorList {
    type Item = &'l FieldError;
    type IntoIter = std::slice::Iter<'l, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for ErrorList {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

/// Field errors that an object may keep on update if the stored object has them (ratcheting,
/// http.md 6.2).
#[derive(Clone, Copy)]
pub struct Ratchet {
    covers: fn(&FieldError) -> bool,
    is_same_only: bool,
}

impl Ratchet {
    /// Exempts all covered errors if the stored object has any covered error. `covers` must not
    /// look at the value, which may not be formatted yet.
    pub const fn any(covers: fn(&FieldError) -> bool) -> Ratchet {
        Ratchet {
            covers,
            is_same_only: false,
        }
    }

    /// Exempts exactly those covered errors that the stored object has. `covers` must not look at
    /// the value, which may not be formatted yet.
    pub const fn same(covers: fn(&FieldError) -> bool) -> Ratchet {
        Ratchet {
            covers,
            is_same_only: true,
        }
    }

    /// Returns whether the ratchet covers an error.
    pub fn covers(&self, error: &FieldError) -> bool {
        (self.covers)(error)
    }
}

/// The errors that a changed object may have because the stored object has them.
pub struct Exemptions {
    of_ratchets: Vec<Exemption>,
    hasher: RandomState,
}

struct Exemption {
    ratchet: Ratchet,
    /// Whether the stored object has an error that the ratchet covers.
    is_broken: bool,
    /// Hashes of the covered errors, for a ratchet that exempts only the same errors.
    same: HashSet<u64>,
}

impl std::fmt::Debug for Exemptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exemptions").finish_non_exhaustive()
    }
}

impl Exemptions {
    /// Returns the exemptions of a stored object. `validate` finds its errors as if it were new.
    pub fn of(ratchets: &[Ratchet], validate: impl FnOnce(&mut ErrorList)) -> Exemptions {
        let of_ratchets = ratchets.iter().map(|ratchet| Exemption {
            ratchet: *ratchet,
            is_broken: false,
            same: HashSet::new(),
        });
        let exemptions = Exemptions {
            of_ratchets: of_ratchets.collect(),
            hasher: RandomState::new(),
        };
        let mut stored = ErrorList {
            ratcheting: Some(Ratcheting::Noting(exemptions)),
            ..ErrorList::default()
        };
        validate(&mut stored);
        match stored.ratcheting {
            Some(Ratcheting::Noting(exemptions) | Ratcheting::Exempting(exemptions)) => exemptions,
            None => Exemptions {
                of_ratchets: Vec::new(),
                hasher: RandomState::new(),
            },
        }
    }

    /// Records an error of the stored object.
    fn note(&mut self, error: &impl Report) {
        let is_settled = |one: &Exemption| one.is_broken && !one.ratchet.is_same_only;
        if self.of_ratchets.iter().all(is_settled) {
            return;
        }
        let known = error.without_value();
        let mut hash = None;
        for one in &mut self.of_ratchets {
            if !one.ratchet.covers(&known) {
                continue;
            }
            one.is_broken = true;
            if one.ratchet.is_same_only {
                let hash = *hash.get_or_insert_with(|| hash_of(&self.hasher, &known, error));
                one.same.insert(hash);
            }
        }
    }

    /// Returns whether the stored object exempts an error.
    fn cover(&self, error: &impl Report) -> bool {
        let mut broken = self
            .of_ratchets
            .iter()
            .filter(|one| one.is_broken)
            .peekable();
        if broken.peek().is_none() {
            return false;
        }
        let known = error.without_value();
        broken.any(|one| {
            let is_same = || one.same.contains(&hash_of(&self.hasher, &known, error));
            one.ratchet.covers(&known) && (!one.ratchet.is_same_only || is_same())
        })
    }
}

/// Returns the hash of an error. `known` lacks the value, which is taken from `error`.
fn hash_of(hasher: &RandomState, known: &FieldError, error: &impl Report) -> u64 {
    hasher.hash_one((known.kind, &known.path, &known.detail, error.value()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field::Field;
    use crate::field_error::FieldErrorKind;

    fn numbered(number: usize) -> FieldError {
        FieldError::invalid(format!("spec.items[{number}]"), number, "is wrong")
    }

    /// API-148.
    #[test]
    fn a_list_keeps_a_hundred_errors_and_counts_the_rest() {
        let mut errors = ErrorList::new();
        assert!(errors.is_empty());
        for number in 0..1_000_000 {
            errors.push(numbered(number));
        }
        assert_eq!(errors.kept().len(), MAX_FIELD_ERRORS);
        assert_eq!(errors.reported(), 1_000_000);
        assert_eq!(errors.kept()[99].path, "spec.items[99]");
        let mut both = ErrorList::of(|errors| errors.push(numbered(0)));
        both.append(errors);
        assert_eq!(both.reported(), 1_000_001);
        assert_eq!(both.kept().len(), MAX_FIELD_ERRORS);
    }

    /// API-147: long values fill a list sooner. The message shows equal errors once.
    #[test]
    fn a_list_keeps_a_bounded_number_of_bytes() {
        let long = json!({"spec": "a".repeat(1_000_000)});
        let field = Field::named("spec", long.get("spec"));
        let different = ErrorList::of(|errors| {
            for number in 0..50 {
                errors.push(field.invalid(format!("is wrong {number}")));
            }
        });
        assert_eq!((different.kept().len(), different.reported()), (3, 50));
        let equal = ErrorList::of(|errors| {
            errors.push_repeated(usize::MAX, || field.invalid("is wrong").written());
        });
        assert_eq!(equal.kept().len(), MAX_FIELD_ERRORS);
        assert_eq!(equal.reported(), usize::MAX);
    }

    /// API-146: an exempt error is left out, no matter how many others there are.
    #[test]
    fn errors_of_the_stored_object_are_exempt() {
        const RATCHETS: [Ratchet; 2] = [
            Ratchet::any(|error| error.path.starts_with("old[")),
            Ratchet::same(|error| error.path.starts_with("spec.items[")),
        ];
        let old = |errors: &mut ErrorList, count: usize| {
            for number in 0..count {
                errors.push(FieldError::required(format!("old[{number}]"), ""));
            }
        };
        let exemptions = || {
            Exemptions::of(&RATCHETS, |errors| {
                old(errors, 500);
                for number in 0..500 {
                    errors.push(numbered(number));
                }
            })
        };
        let mut errors = ErrorList::except(exemptions());
        old(&mut errors, 1000);
        errors.push(numbered(499));
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(errors.reported(), 1001);
        errors.push(numbered(500));
        let value = FieldError::invalid("spec.items[1]", 2, "is wrong");
        errors.push(value.clone());
        assert_eq!(errors.kept(), [numbered(500), value]);
        let mut errors = ErrorList::except(Exemptions::of(&RATCHETS, |_| {}));
        old(&mut errors, 1);
        assert_eq!(errors.kept()[0].kind, FieldErrorKind::Required);
    }
}
