//! Decides whether a user may have another definition of a custom resource, or a larger one. Pure.
//!
//! The store does not say who has created a definition. So the ledger remembers it for as long as
//! the daemon runs. Definitions that are older, or that other servers have written, count for
//! nobody and towards the whole.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a definition counts that is not in the cache yet. Its write may have failed. Those that
/// are remembered therefore exist, or were admitted within this time.
const PENDING: Duration = Duration::from_secs(10);

/// The limits on definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionLimits {
    /// Their number.
    pub count: usize,
    /// Their bytes as JSON.
    pub bytes: usize,
}

impl Default for DefinitionLimits {
    fn default() -> DefinitionLimits {
        DefinitionLimits {
            count: usize::MAX,
            bytes: usize::MAX,
        }
    }
}

/// A definition that a user wants to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'w> {
    pub name: &'w str,
    pub user: &'w str,
    pub bytes: usize,
    /// Whether it is stored, and not only tried.
    pub is_stored: bool,
}

/// The user who has created a definition.
struct Creator {
    user: String,
    bytes: usize,
    at: Instant,
    /// Whether it was among those that exist.
    is_seen: bool,
}

/// The creators of definitions, by the names of these.
#[derive(Default)]
pub(super) struct Ledger(HashMap<String, Creator>);

/// The number and bytes of definitions.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: usize,
    bytes: usize,
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Ledger {
    /// Checks a write against the definitions that exist, and notes who creates one.
    ///
    /// # Errors
    /// The reason why the user may not have it.
    pub(super) fn check(
        &mut self,
        wanted: Wanted<'_>,
        limits: DefinitionLimits,
        existing: &HashMap<&str, usize>,
        now: Instant,
    ) -> Result<(), String> {
        let is_new = !existing.contains_key(wanted.name);
        self.forget(existing, now);
        let (mut all, mut own) = (Sum::default(), Sum::default());
        for (name, bytes) in existing.iter().filter(|(name, _)| **name != wanted.name) {
            all.add(*bytes);
            if self.0.get(*name).is_some_and(|one| one.user == wanted.user) {
                own.add(*bytes);
            }
        }
        for (name, one) in &self.0 {
            let is_other = name != wanted.name;
            if is_other && !one.is_seen {
                all.add(one.bytes);
                if one.user == wanted.user {
                    own.add(one.bytes);
                }
            }
        }
        let creator = self.0.get(wanted.name);
        let is_own = is_new || creator.is_some_and(|one| one.user == wanted.user);
        all.add(wanted.bytes);
        if is_own {
            own.add(wanted.bytes);
        }
        refusal(all, own, wanted.user, limits)?;
        if is_new && wanted.is_stored {
            let creator = Creator {
                user: wanted.user.to_owned(),
                bytes: wanted.bytes,
                at: now,
                is_seen: false,
            };
            self.0.insert(wanted.name.to_owned(), creator);
        }
        Ok(())
    }

    /// Forgets the definitions that are gone, and those that were never stored.
    fn forget(&mut self, existing: &HashMap<&str, usize>, now: Instant) {
        self.0.retain(|name, one| {
            let exists = existing.contains_key(name.as_str());
            let is_pending = !one.is_seen && now.duration_since(one.at) < PENDING;
            one.is_seen |= exists;
            exists || is_pending
        });
    }
}

/// One user has at most this much, so that there is room for others.
fn share(limit: usize) -> usize {
    limit - limit / 8
}

fn refusal(all: Sum, own: Sum, user: &str, limits: DefinitionLimits) -> Result<(), String> {
    const REMEDY: &str = "delete definitions that nobody needs, or raise the limit";
    let DefinitionLimits { count, bytes } = limits;
    let user: String = user.chars().take(100).collect();
    let text = match () {
        () if all.count > count => {
            format!("there may be {count} definitions (--max-definitions): {REMEDY}")
        }
        () if all.bytes > bytes => format!(
            "all definitions together may take {bytes} bytes (--max-definition-bytes), and would \
             take {}: {REMEDY}",
            all.bytes
        ),
        () if own.count > share(count) => format!(
            "user {user:?} has {} definitions, seven eighths of --max-definitions: {REMEDY}",
            share(count)
        ),
        () if own.bytes > share(bytes) => format!(
            "the definitions of user {user:?} would take {} bytes, and may take {}, seven eighths \
             of --max-definition-bytes: {REMEDY}",
            own.bytes,
            share(bytes)
        ),
        () => return Ok(()),
    };
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DefinitionLimits = DefinitionLimits {
        count: 8,
        bytes: 800,
    };

    fn wanted<'w>(name: &'w str, user: &'w str, bytes: usize) -> Wanted<'w> {
        Wanted {
            name,
            user,
            bytes,
            is_stored: true,
        }
    }

    #[test]
    fn one_user_leaves_room_for_others_and_all_together_end_at_the_limit() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
        let mut existing = HashMap::new();
        for name in &names[..7] {
            let check = ledger.check(wanted(name, "ada", 10), LIMITS, &existing, now);
            assert_eq!(check, Ok(()), "{name}");
            existing.insert(name.as_str(), 10);
        }
        let refused = ledger.check(wanted("n7", "ada", 10), LIMITS, &existing, now);
        assert!(
            refused
                .unwrap_err()
                .starts_with("user \"ada\" has 7 definitions")
        );
        let other = ledger.check(wanted("n7", "bob", 10), LIMITS, &existing, now);
        assert_eq!(other, Ok(()));
        existing.insert("n7", 10);
        let refused = ledger.check(wanted("n8", "eve", 10), LIMITS, &existing, now);
        assert!(
            refused
                .unwrap_err()
                .starts_with("there may be 8 definitions")
        );
        // A deletion makes room at once.
        existing.remove("n0");
        let again = ledger.check(wanted("n8", "ada", 10), LIMITS, &existing, now);
        assert_eq!(again, Ok(()));
    }

    #[test]
    fn bytes_count_and_writes_that_are_not_seen_yet_count_for_a_while() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let none = HashMap::new();
        assert_eq!(
            ledger.check(wanted("a", "ada", 600), LIMITS, &none, now),
            Ok(())
        );
        let refused = ledger.check(wanted("b", "ada", 150), LIMITS, &none, now);
        assert!(
            refused
                .unwrap_err()
                .contains("would take 750 bytes, and may take 700")
        );
        let refused = ledger.check(wanted("b", "bob", 250), LIMITS, &none, now);
        assert!(
            refused
                .unwrap_err()
                .contains("all definitions together may take 800 bytes")
        );
        // The first one was never stored.
        let later = now + PENDING;
        assert_eq!(
            ledger.check(wanted("b", "ada", 150), LIMITS, &none, later),
            Ok(())
        );
        let existing = HashMap::from([("a", 100), ("b", 150)]);
        let grown = ledger.check(wanted("a", "bob", 700), LIMITS, &existing, later);
        assert!(grown.is_err());
        assert_eq!(
            ledger.check(wanted("a", "bob", 600), LIMITS, &existing, later),
            Ok(())
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut ledger, mut now) = (Ledger::default(), Instant::now());
        let none = HashMap::new();
        for number in 0..100 {
            now += PENDING;
            let name = format!("n{number}");
            assert_eq!(
                ledger.check(wanted(&name, "ada", 1), LIMITS, &none, now),
                Ok(())
            );
        }
        assert_eq!(ledger.0.len(), 1);
    }
}
