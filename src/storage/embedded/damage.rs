//! The damage that verification has found, for health, metrics and the log.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::metrics;

/// How many damaged places are kept. A store with more is lost anyway.
const RECORDS_MAX: usize = 1000;
/// How many damaged places are logged.
const LOGGED_MAX: usize = 20;

/// The damage of a file that was removed, moved or replaced while the daemon runs.
pub const MISPLACED: &str = "it is not at its path any more, or another file is";

/// The known damage. Damage that a complete pass does not find again is dropped.
#[derive(Debug, Default)]
pub struct Damage(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Found by the last complete pass or by the current one.
    all: BTreeSet<String>,
    /// Found by the current pass.
    pass: BTreeSet<String>,
    /// The number of complete passes.
    passes: u64,
    /// Why the log's path cannot be checked at the moment. That does not count as damage.
    hidden: Option<String>,
}

impl Damage {
    /// Begins a pass.
    pub fn begin_pass(&self) {
        self.0.lock().pass.clear();
    }

    /// Adds damage that the current pass has found.
    pub fn note(&self, file: &str, what: String) {
        let mut known = self.0.lock();
        if known.pass.len() < RECORDS_MAX {
            known.pass.insert(what.clone());
        }
        if known.all.len() >= RECORDS_MAX || known.all.contains(&what) {
            return;
        }
        match known.all.len() {
            ..LOGGED_MAX => tracing::error!(file, "the store is damaged: {what}"),
            LOGGED_MAX => tracing::error!(
                file,
                "more records of the store are damaged; they are not logged"
            ),
            _ => {}
        }
        known.all.insert(what);
        metrics::damaged(known.all.len());
    }

    /// Records whether the log's path could be checked. A failure is logged once, until a check
    /// succeeds.
    pub fn looked(&self, file: &str, looked: Result<(), String>) {
        let mut known = self.0.lock();
        match (&looked, &known.hidden) {
            (Err(why), None) => tracing::warn!(
                file,
                "the path of the store can't be looked at: {why}; is the data directory the daemon's?"
            ),
            (Ok(()), Some(_)) => {
                tracing::info!(file, "the path of the store can be looked at again")
            }
            _ => {}
        }
        known.hidden = looked.err();
    }

    /// Ends a pass that has read everything.
    pub fn complete_pass(&self, file: &str) {
        let mut known = self.0.lock();
        let found = std::mem::take(&mut known.pass);
        if found.is_empty() && !known.all.is_empty() {
            tracing::info!(file, "the store was verified again: no damage is left");
        }
        known.all = found;
        known.passes += 1;
        metrics::verified_all();
        metrics::damaged(known.all.len());
    }

    /// The number of complete passes.
    pub fn passes(&self) -> u64 {
        self.0.lock().passes
    }

    /// Whether the current pass has found damage.
    pub fn is_in_pass(&self) -> bool {
        !self.0.lock().pass.is_empty()
    }

    /// The damage and advice, as one text.
    pub fn summary(&self, file: &str) -> Option<String> {
        let known = self.0.lock();
        if let Some(why) = known.hidden.as_ref().filter(|_| known.all.is_empty()) {
            let advice = "give the data directory back to the daemon's user";
            return Some(format!(
                "the path of {file} can't be looked at: {why}; {advice}"
            ));
        }
        let (first, advice) = match known.all.get(MISPLACED) {
            Some(first) => (
                first,
                "what is written now is lost when the daemon stops: put the file back to its path \
                 while the daemon runs, or read the objects from the daemon and keep them \
                 elsewhere before it stops",
            ),
            None => (
                known.all.first()?,
                "what can't be read is refused and everything else is served and written: stop the \
                 daemon and restore the directory from a backup, or write the object anew and \
                 compact what was before",
            ),
        };
        let more = match known.all.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more, which the log names)"),
        };
        Some(format!("{file} is damaged: {first}{more}; {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Missing file permissions do not count as damage, and are found restored at the next check.
    #[test]
    fn a_path_that_can_not_be_looked_at_is_told_until_it_can() {
        let damage = Damage::default();
        damage.begin_pass();
        damage.looked("f", Err("permission denied".to_owned()));
        let summary = damage.summary("f").unwrap();
        assert!(summary.contains("permission denied"), "{summary}");
        assert!(
            !summary.contains("damaged") && !damage.is_in_pass(),
            "{summary}"
        );
        damage.looked("f", Ok(()));
        assert_eq!(damage.summary("f"), None);
    }

    #[test]
    fn damage_stays_known_until_a_complete_pass_does_not_find_it() {
        let damage = Damage::default();
        assert_eq!(damage.summary("f"), None);
        damage.begin_pass();
        damage.note("f", "table events, record 7: bad".to_owned());
        damage.note("f", "table events, record 7: bad".to_owned());
        damage.note("f", "table live: worse".to_owned());
        assert!(damage.is_in_pass());
        let summary = damage.summary("f").unwrap();
        for word in [
            "f is damaged: table events, record 7: bad",
            "1 more",
            "backup",
        ] {
            assert!(summary.contains(word), "{word}: {summary}");
        }
        damage.complete_pass("f");
        // One is found again, the other is not; a pass that does not end changes nothing.
        for is_complete in [false, true] {
            damage.begin_pass();
            damage.note("f", "table live: worse".to_owned());
            assert!(damage.summary("f").unwrap().contains("record 7"));
            if is_complete {
                damage.complete_pass("f");
            }
        }
        let summary = damage.summary("f").unwrap();
        assert!(
            summary.contains("live") && !summary.contains("more"),
            "{summary}"
        );
        damage.begin_pass();
        damage.complete_pass("f");
        assert_eq!(damage.summary("f"), None);
    }

    #[test]
    fn a_file_that_is_not_at_its_path_comes_first_and_nobody_is_told_to_stop_the_daemon() {
        let damage = Damage::default();
        damage.note("f", "a table".to_owned());
        damage.note("f", MISPLACED.to_owned());
        let summary = damage.summary("f").unwrap();
        let words = format!("f is damaged: {MISPLACED} (and 1 more");
        assert!(summary.starts_with(&words), "{summary}");
        assert!(summary.contains("put the file back"), "{summary}");
        assert!(!summary.contains("stop the daemon"), "{summary}");
    }

    #[test]
    fn what_is_kept_of_much_damage_is_bounded() {
        let damage = Damage::default();
        for number in 0..3 * RECORDS_MAX {
            damage.note("f", format!("record {number:05}"));
        }
        damage.complete_pass("f");
        assert!(damage.summary("f").unwrap().contains("(and 999 more"));
    }
}
