//! Checks whether the results of registers are linearizable, that is, whether the calls happened
//! one after another, each between its beginning and its end.
//!
//! Every value is written once, and every write has a version that orders it. So there is only one
//! order to check against the times of the calls. Pure.

use std::collections::BTreeMap;
use std::time::Instant;

/// The name of a register.
pub type Key = String;

/// One call of one client.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: Key,
    pub begun: Instant,
    pub ended: Instant,
    pub operation: Operation,
}

/// The request and answer of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It was read with this version and value.
    Read { version: u64, value: String },
    /// The value was set, in place of the one of version `over`, or of any one.
    Set {
        over: Option<u64>,
        value: String,
        version: u64,
    },
    /// The outcome is unknown: the value may have been set, then or later.
    Unknown { over: Option<u64>, value: String },
    /// Another client had set it since version `over`.
    Conflict { over: u64, value: String },
    /// The answer says that nothing was done.
    Refused { value: String },
}

/// A list: the state of all registers at a version.
#[derive(Clone, Debug)]
pub struct ListResult {
    pub begun: Instant,
    pub ended: Instant,
    pub version: u64,
    pub items: BTreeMap<Key, (u64, String)>,
}

/// The actual values of each register by version, with its creation first.
pub type ActualHistory = BTreeMap<Key, BTreeMap<u64, String>>;

/// All calls and answers.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub calls: Vec<Call>,
    pub lists: Vec<ListResult>,
}

/// Compares the answers with the actual history.
///
/// # Errors
/// The first impossible answer.
pub fn check(history: &History, actual: &ActualHistory) -> Result<(), String> {
    for (key, versions) in actual {
        let calls: Vec<&Call> = history
            .calls
            .iter()
            .filter(|call| call.key == *key)
            .collect();
        let register = Register::new(key, versions, &calls)?;
        for call in &calls {
            register.check(call)?;
        }
    }
    let unknown = history
        .calls
        .iter()
        .find(|call| !actual.contains_key(&call.key));
    if let Some(call) = unknown {
        return Err(format!("there is no history of the register of {call:?}"));
    }
    history
        .lists
        .iter()
        .try_for_each(|list| check_list(list, history, actual))
}

/// One register: its versions, and when each of them can have been written.
struct Register<'h> {
    key: &'h str,
    versions: &'h BTreeMap<u64, String>,
    /// When the call that set a version began; versions that nobody here set have no entry.
    begun: BTreeMap<u64, Instant>,
    /// Versions in answers, by the end of the call.
    observed: Vec<(Instant, u64)>,
}

impl<'h> Register<'h> {
    fn new(
        key: &'h str,
        versions: &'h BTreeMap<u64, String>,
        calls: &[&Call],
    ) -> Result<Register<'h>, String> {
        let mut register = Register {
            key,
            versions,
            begun: BTreeMap::new(),
            observed: Vec::new(),
        };
        for call in calls {
            match &call.operation {
                Operation::Set { version, .. } => {
                    register.begun.insert(*version, call.begun);
                    register.observed.push((call.ended, *version));
                }
                Operation::Read { version, .. } => register.observed.push((call.ended, *version)),
                Operation::Unknown { value, .. } => {
                    if let Some(version) = register.version_of(value) {
                        register.begun.insert(version, call.begun);
                    }
                }
                Operation::Conflict { value, .. } | Operation::Refused { value } => {
                    if let Some(version) = register.version_of(value) {
                        let what = format!("it was done, at {version}: {call:?}");
                        return Err(register.fault(&what));
                    }
                }
            }
        }
        register.observed.sort();
        // An answer also implies all older versions.
        let mut newest = 0;
        for (_, version) in &mut register.observed {
            newest = newest.max(*version);
            *version = newest;
        }
        let unexplained = register.versions.keys().skip(1);
        let mut unexplained = unexplained.filter(|version| !register.begun.contains_key(version));
        match unexplained.next() {
            Some(version) => Err(register.fault(&format!("nobody set version {version}"))),
            None => Ok(register),
        }
    }

    fn fault(&self, what: &str) -> String {
        format!("{}: {what}", self.key)
    }

    fn version_of(&self, value: &str) -> Option<u64> {
        let mut all = self.versions.iter();
        all.find(|(_, known)| *known == value)
            .map(|(version, _)| *version)
    }

    /// The version before this one.
    fn before(&self, version: u64) -> Option<u64> {
        self.versions
            .range(..version)
            .next_back()
            .map(|(version, _)| *version)
    }

    /// The newest version in any answer before this moment.
    fn observed_before(&self, moment: Instant) -> u64 {
        let at = self.observed.partition_point(|(ended, _)| *ended < moment);
        at.checked_sub(1).map_or(0, |at| self.observed[at].1)
    }

    fn check(&self, call: &Call) -> Result<(), String> {
        let known = self.observed_before(call.begun);
        match &call.operation {
            Operation::Read { version, value } => {
                self.check_is(*version, value)?;
                self.check_not_of_the_future(*version, call)?;
                match *version < known {
                    true => {
                        Err(self.fault(&format!("stale, as {known} had been observed: {call:?}")))
                    }
                    false => Ok(()),
                }
            }
            Operation::Set {
                over,
                value,
                version,
            } => {
                self.check_is(*version, value)?;
                self.check_set(*over, *version, known, call)
            }
            Operation::Unknown { over, value } => match self.version_of(value) {
                Some(version) => self.check_set(*over, version, known, call),
                None => Ok(()),
            },
            Operation::Conflict { over, .. } => {
                let next = self.versions.range(over + 1..).next();
                let by = next.and_then(|(version, _)| self.begun.get(version));
                match by {
                    Some(begun) if *begun <= call.ended => Ok(()),
                    _ => {
                        Err(self
                            .fault(&format!("no other write explains the conflict of {call:?}")))
                    }
                }
            }
            // `Register::new` checks that it was not done.
            Operation::Refused { .. } => Ok(()),
        }
    }

    fn check_is(&self, version: u64, value: &str) -> Result<(), String> {
        match self.versions.get(&version) {
            Some(real) if real == value => Ok(()),
            real => Err(self.fault(&format!("{value:?} at {version}, where there was {real:?}"))),
        }
    }

    fn check_set(
        &self,
        over: Option<u64>,
        version: u64,
        known: u64,
        call: &Call,
    ) -> Result<(), String> {
        let before = self.before(version);
        if over.is_some() && before != over {
            return Err(self.fault(&format!("an update of {before:?} was lost: {call:?}")));
        }
        match version <= known {
            true => Err(self.fault(&format!(
                "in the past, as {known} had been observed: {call:?}"
            ))),
            false => Ok(()),
        }
    }

    /// Checks that no value is seen before its write was requested.
    fn check_not_of_the_future(&self, version: u64, call: &Call) -> Result<(), String> {
        match self.begun.get(&version) {
            Some(begun) if *begun > call.ended => {
                Err(self.fault(&format!("not set yet: {call:?}")))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a list shows each register as it was at the list's version, and is not stale.
fn check_list(list: &ListResult, history: &History, actual: &ActualHistory) -> Result<(), String> {
    for (key, versions) in actual {
        let real = versions.range(..=list.version).next_back();
        let shown = list.items.get(key).map(|(version, value)| (version, value));
        if real != shown {
            return Err(format!(
                "{key}: a list at {} shows {shown:?}, there was {real:?}",
                list.version
            ));
        }
    }
    let observed = |call: &&Call| match &call.operation {
        Operation::Set { version, .. } | Operation::Read { version, .. } => {
            call.ended < list.begun && *version > list.version
        }
        _ => false,
    };
    if let Some(call) = history.calls.iter().find(observed) {
        return Err(format!("stale: a list at {} after {call:?}", list.version));
    }
    let unexplained = |call: &&Call| match &call.operation {
        Operation::Set { version, .. } => call.begun > list.ended && *version <= list.version,
        _ => false,
    };
    match history.calls.iter().find(unexplained) {
        Some(call) => Err(format!(
            "a list at {} shows what was not set yet: {call:?}",
            list.version
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Scenario {
        start: Instant,
        history: History,
        actual: ActualHistory,
    }

    impl Scenario {
        /// A register whose values 0, 1, 2, 3 have versions 10, 11, 12 and 13.
        fn new() -> Scenario {
            let versions = (0..4).map(|n| (10 + n, n.to_string())).collect();
            Scenario {
                start: Instant::now(),
                history: History::default(),
                actual: BTreeMap::from([("r".to_owned(), versions)]),
            }
        }

        fn call(mut self, begun: u64, ended: u64, operation: Operation) -> Scenario {
            self.history.calls.push(Call {
                key: "r".to_owned(),
                begun: self.start + Duration::from_millis(begun),
                ended: self.start + Duration::from_millis(ended),
                operation,
            });
            self
        }

        fn set(self, begun: u64, ended: u64, number: u64) -> Scenario {
            let operation = Operation::Set {
                over: Some(9 + number),
                value: number.to_string(),
                version: 10 + number,
            };
            self.call(begun, ended, operation)
        }

        fn read(self, begun: u64, ended: u64, number: u64) -> Scenario {
            let operation = Operation::Read {
                version: 10 + number,
                value: number.to_string(),
            };
            self.call(begun, ended, operation)
        }

        fn list(mut self, begun: u64, version: u64, number: u64) -> Scenario {
            let item = (10 + number, number.to_string());
            self.history.lists.push(ListResult {
                begun: self.start + Duration::from_millis(begun),
                ended: self.start + Duration::from_millis(begun + 1),
                version,
                items: BTreeMap::from([("r".to_owned(), item)]),
            });
            self
        }

        fn check(&self) -> Result<(), String> {
            check(&self.history, &self.actual)
        }
    }

    fn three() -> Scenario {
        Scenario::new().set(0, 10, 1).set(20, 30, 2).set(40, 50, 3)
    }

    #[test]
    fn what_happened_one_after_the_other_is_fine() {
        let scenario = three().read(5, 6, 0).read(5, 25, 2).read(60, 61, 3);
        assert_eq!(scenario.list(60, 99, 3).check(), Ok(()));
    }

    #[test]
    fn stale_reads_and_lists_are_found() {
        assert!(
            three()
                .read(31, 32, 1)
                .check()
                .unwrap_err()
                .contains("stale")
        );
        assert!(
            three()
                .list(51, 12, 2)
                .check()
                .unwrap_err()
                .contains("stale")
        );
        // A read may show what another read has shown, and nothing older from then on.
        assert!(three().read(21, 25, 2).read(26, 27, 1).check().is_err());
    }

    #[test]
    fn what_was_not_there_at_a_lists_version_is_found() {
        assert!(three().list(60, 13, 2).check().is_err());
    }

    #[test]
    fn lost_updates_are_found() {
        let lost = Operation::Set {
            over: Some(10),
            value: "2".to_owned(),
            version: 12,
        };
        let scenario = Scenario::new()
            .set(0, 10, 1)
            .call(5, 30, lost)
            .set(40, 50, 3);
        assert!(scenario.check().unwrap_err().contains("lost"));
    }

    #[test]
    fn a_write_that_was_said_to_have_failed_and_took_place_is_found() {
        for operation in [
            Operation::Refused {
                value: "2".to_owned(),
            },
            Operation::Conflict {
                over: 11,
                value: "2".to_owned(),
            },
        ] {
            let scenario = three().call(20, 30, operation);
            assert!(scenario.check().unwrap_err().contains("it was done"));
        }
    }

    #[test]
    fn a_conflict_needs_a_write_that_explains_it() {
        let conflict = |over| Operation::Conflict {
            over,
            value: "x".to_owned(),
        };
        assert_eq!(three().call(35, 45, conflict(12)).check(), Ok(()));
        assert!(three().call(31, 35, conflict(12)).check().is_err());
        assert!(three().call(60, 65, conflict(13)).check().is_err());
    }

    #[test]
    fn a_write_of_unknown_outcome_may_take_place_once_and_never_before_it_began() {
        let unknown = || Operation::Unknown {
            over: Some(11),
            value: "2".to_owned(),
        };
        let scenario = || Scenario::new().set(0, 10, 1).set(40, 50, 3);
        assert_eq!(scenario().call(20, 21, unknown()).check(), Ok(()));
        // Version 13 was observed before it began.
        assert!(scenario().call(60, 61, unknown()).check().is_err());
        // No call wrote version 12.
        assert!(scenario().check().unwrap_err().contains("nobody set"));
    }

    #[test]
    fn nothing_is_seen_before_it_was_asked_for() {
        assert!(three().read(31, 35, 3).check().is_err());
        assert!(three().list(31, 13, 3).check().is_err());
    }
}
