//! Decides whether a user may have another definition of a custom resource, or a larger one. Pure.
//!
//! The store does not say who has created a definition. So the ledger remembers it for as long as
//! the daemon runs. Definitions that are older, or that other servers have written, count for
//! nobody and towards the whole.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a definition counts that is not in the cache yet. Its write may have failed.
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

/// A definition that counts.
#[derive(Clone)]
struct Counted {
    bytes: usize,
    /// The user who has created it, if that is known.
    creator: Option<Arc<str>>,
}

/// The number and bytes of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    count: usize,
    bytes: usize,
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The sums over all definitions, and over those of each user.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    all: Sum,
    users: HashMap<Arc<str>, Sum>,
}

impl Totals {
    fn add(&mut self, definition: &Counted) {
        self.all.add(definition.bytes);
        if let Some(creator) = &definition.creator {
            let own = self.users.entry(Arc::clone(creator)).or_default();
            own.add(definition.bytes);
        }
    }

    fn remove(&mut self, definition: &Counted) {
        self.all.remove(definition.bytes);
        let Some(creator) = &definition.creator else {
            return;
        };
        if let Some(own) = self.users.get_mut(creator) {
            own.remove(definition.bytes);
            if own.count == 0 {
                self.users.remove(creator);
            }
        }
    }
}

/// The definitions that exist, those that are about to, and their sums. Each change and each check
/// takes the same time however many there are.
#[derive(Default)]
pub(super) struct Ledger {
    existing: HashMap<String, Counted>,
    /// Those that were admitted and that the cache has not shown yet.
    pending: HashMap<String, (Counted, Instant)>,
    /// The pending ones by the time when they were admitted. Some are not pending any longer.
    admitted: VecDeque<(Instant, String)>,
    totals: Totals,
}

impl Ledger {
    /// Takes the names and bytes of all definitions that exist.
    pub(super) fn replace<'n>(&mut self, all: impl Iterator<Item = (&'n str, usize)>) {
        let mut before = std::mem::take(&mut self.existing);
        self.totals = Totals::default();
        for (counted, _) in self.pending.values() {
            self.totals.add(counted);
        }
        for (name, bytes) in all {
            if let Some(known) = before.remove(name) {
                self.totals.add(&known);
                self.existing.insert(name.to_owned(), known);
            }
            self.put(name, bytes);
        }
    }

    /// Takes note that a definition exists, and has this many bytes.
    pub(super) fn put(&mut self, name: &str, bytes: usize) {
        let pending = self.pending.remove(name).map(|(counted, _)| counted);
        let existing = self.existing.remove(name);
        for counted in pending.iter().chain(&existing) {
            self.totals.remove(counted);
        }
        let known = existing.or(pending);
        let counted = Counted {
            bytes,
            creator: known.and_then(|known| known.creator),
        };
        self.totals.add(&counted);
        self.existing.insert(name.to_owned(), counted);
    }

    /// Takes note that a definition is gone.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(counted) = self.existing.remove(name) {
            self.totals.remove(&counted);
        }
    }

    /// Checks a write against the definitions that exist, and notes who creates one.
    ///
    /// # Errors
    /// The reason why the user may not have it.
    pub(super) fn check(
        &mut self,
        wanted: Wanted<'_>,
        limits: DefinitionLimits,
        now: Instant,
    ) -> Result<(), String> {
        self.forget(now);
        let Wanted {
            name, user, bytes, ..
        } = wanted;
        let existing = self.existing.get(name);
        let pending = self.pending.get(name).map(|(counted, _)| counted);
        let is_of_user = |counted: &Counted| counted.creator.as_deref() == Some(user);
        let mut all = self.totals.all;
        let mut own = self.totals.users.get(user).copied().unwrap_or_default();
        for counted in existing.into_iter().chain(pending) {
            all.remove(counted.bytes);
            if is_of_user(counted) {
                own.remove(counted.bytes);
            }
        }
        all.add(bytes);
        if existing.is_none_or(is_of_user) {
            own.add(bytes);
        }
        refusal(all, own, user, limits)?;
        if existing.is_none() && wanted.is_stored {
            self.expect(name, user, bytes, now);
        }
        Ok(())
    }

    /// Counts a definition that is about to be stored.
    fn expect(&mut self, name: &str, user: &str, bytes: usize, now: Instant) {
        let known = self.totals.users.get_key_value(user);
        let creator = known.map_or_else(|| user.into(), |(user, _)| Arc::clone(user));
        let counted = Counted {
            bytes,
            creator: Some(creator),
        };
        self.totals.add(&counted);
        if let Some((before, _)) = self.pending.insert(name.to_owned(), (counted, now)) {
            self.totals.remove(&before);
        }
        self.admitted.push_back((now, name.to_owned()));
    }

    /// Forgets the definitions that were never stored.
    fn forget(&mut self, now: Instant) {
        while let Some((at, name)) = self.admitted.front()
            && now.duration_since(*at) >= PENDING
        {
            let is_it = |(_, admitted): &(Counted, Instant)| admitted == at;
            if self.pending.get(name).is_some_and(is_it)
                && let Some((counted, _)) = self.pending.remove(name)
            {
                self.totals.remove(&counted);
            }
            self.admitted.pop_front();
        }
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
        for number in 0..7 {
            let name = format!("n{number}");
            let check = ledger.check(wanted(&name, "ada", 10), LIMITS, now);
            assert_eq!(check, Ok(()), "{name}");
            // Refused and tried definitions count for nothing.
            let huge = ledger.check(wanted("huge", "ada", 1000), LIMITS, now);
            assert!(huge.is_err());
            ledger.put(&name, 10);
        }
        let refused = ledger.check(wanted("n7", "ada", 10), LIMITS, now);
        assert!(
            refused
                .unwrap_err()
                .starts_with("user \"ada\" has 7 definitions")
        );
        let tried = Wanted {
            is_stored: false,
            ..wanted("n7", "bob", 10)
        };
        for wanted in [tried, wanted("n7", "bob", 10)] {
            assert_eq!(ledger.check(wanted, LIMITS, now), Ok(()));
        }
        ledger.put("n7", 10);
        let refused = ledger.check(wanted("n8", "eve", 10), LIMITS, now);
        assert!(
            refused
                .unwrap_err()
                .starts_with("there may be 8 definitions")
        );
        // A deletion makes room at once.
        ledger.remove("n0");
        let again = ledger.check(wanted("n8", "ada", 10), LIMITS, now);
        assert_eq!(again, Ok(()));
    }

    #[test]
    fn bytes_count_and_writes_that_are_not_seen_yet_count_for_a_while() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        assert_eq!(ledger.check(wanted("a", "ada", 600), LIMITS, now), Ok(()));
        let refused = ledger.check(wanted("b", "ada", 150), LIMITS, now);
        assert!(
            refused
                .unwrap_err()
                .contains("would take 750 bytes, and may take 700")
        );
        let refused = ledger.check(wanted("b", "bob", 250), LIMITS, now);
        assert!(
            refused
                .unwrap_err()
                .contains("all definitions together may take 800 bytes")
        );
        // The first one was never stored.
        let later = now + PENDING;
        assert_eq!(ledger.check(wanted("b", "ada", 150), LIMITS, later), Ok(()));
        ledger.replace([("a", 100), ("b", 150)].into_iter());
        let grown = ledger.check(wanted("a", "bob", 700), LIMITS, later);
        assert!(grown.is_err());
        assert_eq!(ledger.check(wanted("a", "bob", 600), LIMITS, later), Ok(()));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut ledger, mut now) = (Ledger::default(), Instant::now());
        for number in 0..100 {
            now += PENDING;
            let name = format!("n{number}");
            assert_eq!(ledger.check(wanted(&name, "ada", 1), LIMITS, now), Ok(()));
        }
        assert_eq!((ledger.pending.len(), ledger.admitted.len()), (1, 1));
        ledger.put("n99", 1);
        ledger.remove("n99");
        ledger.forget(now + PENDING);
        assert!(ledger.pending.is_empty() && ledger.admitted.is_empty());
        assert_eq!(ledger.totals, Totals::default());
    }

    /// The sums stay those of the definitions that count, whatever happens to these.
    #[test]
    fn sums_stay_right_through_creates_updates_deletions_failures_and_restarts_of_the_cache() {
        let limits = DefinitionLimits {
            count: 12,
            bytes: 900,
        };
        let (mut ledger, mut now) = (Ledger::default(), Instant::now());
        let mut state = 7_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..20_000 {
            let name = format!("n{}", random(16));
            let user = ["ada", "bob", "eve"][random(3) as usize];
            let bytes = 1 + random(200) as usize;
            match random(6) {
                0 | 1 => drop(ledger.check(wanted(&name, user, bytes), limits, now)),
                2 => ledger.put(&name, bytes),
                3 => ledger.remove(&name),
                4 => now += PENDING / 4,
                _ => {
                    let kept = ledger.existing.iter().filter(|_| random(4) > 0);
                    let kept: Vec<_> = kept.map(|(name, one)| (name.clone(), one.bytes)).collect();
                    ledger.replace(kept.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
                }
            }
            let mut totals = Totals::default();
            let pending = ledger.pending.values().map(|(counted, _)| counted);
            for counted in ledger.existing.values().chain(pending) {
                totals.add(counted);
            }
            assert_eq!(ledger.totals, totals);
        }
    }
}
