//! The field errors of one object, bounded by what an answer can show (API-146 to API-149).
//!
//! A body of a megabyte can break a rule some hundred thousand times. An answer shows a hundred
//! errors. A list therefore writes only the errors that it keeps, and counts the rest: an error
//! arrives as a [`Report`], which knows the field and the rule, and whose path and value become
//! text only when the list has room for it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::field_error::{FieldError, MAX_FIELD_ERRORS};

/// The limit on the texts that a list keeps. The message of a Status shows no more, see
/// [`crate::status`].
const MAX_KEPT_BYTES: usize = 40 * 1024;

/// A field error that may not have been written yet.
pub trait Report {
    /// Writes the error.
    fn written(self) -> FieldError;

    /// Writes the error without its value.
    fn without_value(&self) -> FieldError;

    /// Writes the value alone.
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

/// The errors of an object, in order: those that an answer shows, and the number of all.
#[derive(Debug)]
pub struct ErrorList {
    kept: Vec<FieldError>,
    kept_bytes: usize,
    most: usize,
    most_bytes: usize,
    reported: usize,
    ratcheting: Option<Ratcheting>,
}

/// The treatment of errors that a ratchet covers.
#[derive(Debug)]
enum Ratcheting {
    /// They are those of the stored object: the list notes them and keeps nothing.
    Noting(Exemptions),
    /// They are those of the changed object, which may have what the stored one had.
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
        }
    }
}

impl ErrorList {
    /// A list without errors.
    pub fn new() -> ErrorList {
        ErrorList::default()
    }

    /// A list that keeps so many errors, for a check whose errors are sorted before they are shown.
    pub fn to_be_sorted(most: usize) -> ErrorList {
        ErrorList {
            most,
            most_bytes: usize::MAX,
            ..ErrorList::default()
        }
    }

    /// A list that leaves out these errors.
    pub fn except(exemptions: Exemptions) -> ErrorList {
        ErrorList {
            ratcheting: Some(Ratcheting::Exempting(exemptions)),
            ..ErrorList::default()
        }
    }

    /// The errors of one object, as this function finds them.
    pub fn of(find: impl FnOnce(&mut ErrorList)) -> ErrorList {
        let mut errors = ErrorList::new();
        find(&mut errors);
        errors
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
        // The message of a Status shows equal errors once.
        if !self.kept.contains(&error) {
            self.kept_bytes += error.path.len() + error.value.len() + error.detail.len();
        }
        self.kept.push(error);
    }

    /// Adds an error this many times. The errors beyond the limit cost nothing.
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

    /// Adds the errors of another list, which must not be one whose errors ratchets cover: the
    /// other list may have counted errors behind a hundred that are exempt.
    pub fn append(&mut self, other: ErrorList) {
        self.reported += other.reported - other.kept.len();
        self.extend(other.kept);
    }

    /// The same errors in the order of their texts.
    #[must_use]
    pub fn sorted_by_text(mut self) -> ErrorList {
        self.kept.sort_by_cached_key(ToString::to_string);
        self
    }

    /// Whether further errors are only counted. A costly check can end then.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.most || self.kept_bytes > self.most_bytes
    }

    /// Whether the list keeps no errors: the object has none but exempt ones. A check that depends
    /// on another one must ask [`ErrorList::reported`].
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The number of all errors that were reported, those that are not kept among them. A check
    /// that depends on another one compares the number before it with the number after it.
    pub fn reported(&self) -> usize {
        self.reported
    }

    /// The errors that an answer shows, in order.
    pub fn kept(&self) -> &[FieldError] {
        &self.kept
    }

    /// The errors that an answer shows, in order.
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

/// Errors that an object may keep if it was stored with such an error (http.md 6.2).
#[derive(Clone, Copy)]
pub struct Ratchet {
    covers: fn(&FieldError) -> bool,
    is_same_only: bool,
}

impl Ratchet {
    /// All of these errors, if there was any of them. `covers` looks at no value.
    pub const fn any(covers: fn(&FieldError) -> bool) -> Ratchet {
        Ratchet {
            covers,
            is_same_only: false,
        }
    }

    /// Those of these errors that were there. `covers` looks at no value.
    pub const fn same(covers: fn(&FieldError) -> bool) -> Ratchet {
        Ratchet {
            covers,
            is_same_only: true,
        }
    }

    /// Whether an error is one of these.
    pub fn covers(&self, error: &FieldError) -> bool {
        (self.covers)(error)
    }
}

/// The errors that a changed object may have, because the stored object has them.
pub struct Exemptions {
    of_ratchets: Vec<Exemption>,
    hasher: RandomState,
}

struct Exemption {
    ratchet: Ratchet,
    /// Whether the stored object has an error that the ratchet covers.
    is_broken: bool,
    /// Hashes of these errors, where only the same errors are exempt.
    same: HashSet<u64>,
}

impl std::fmt::Debug for Exemptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exemptions").finish_non_exhaustive()
    }
}

impl Exemptions {
    /// The exemptions of a stored object. `validate` finds its errors as if it were new.
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

    /// Notes an error of the stored object.
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

    /// Whether the stored object exempts an error.
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

/// The hash of an error, of which the value is still to be written.
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
    fn a_list_keeps_what_an_answer_shows_and_counts_the_rest() {
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

    /// API-147: long values fill a list sooner. Equal errors are one in the message.
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

    /// API-146: an exempt error is left out, however many others there are.
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
