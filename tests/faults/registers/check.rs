//! Checks whether the answers of registers are linearizable: the calls happened one after another,
//! each between its beginning and its end.
//!
//! Every value is written once, and every write has a version that orders it. There is only this
//! one order to check against the times of the calls. All functions are pure.

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
    pub did: Did,
}

/// The request and answer of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It was read with this version and value.
    Read { version: u64, value: String },
    /// The value was set, in place of the one of version `over`.
    Set {
        over: u64,
        value: String,
        version: u64,
    },
    /// It may or may not have been set, then or later.
    Perhaps { over: u64, value: String },
    /// Somebody else had set it since version `over`.
    Beaten { over: u64, value: String },
    /// It was told that nothing was done.
    Refused { value: String },
}

/// A list: the state of all registers at a version.
#[derive(Clone, Debug)]
pub struct Listed {
    pub begun: Instant,
    pub ended: Instant,
    pub version: u64,
    pub items: BTreeMap<Key, (u64, String)>,
}

/// What really happened to a register, by version, its creation first.
pub type Truth = BTreeMap<Key, BTreeMap<u64, String>>;

/// All calls and answers.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub calls: Vec<Call>,
    pub lists: Vec<Listed>,
}

/// Compares.
///
/// # Errors
/// The first impossible answer.
pub fn check(history: &History, truth: &Truth) -> Result<(), String> {
    for (key, happened) in truth {
        let calls: Vec<&Call> = history
            .calls
            .iter()
            .filter(|call| call.key == *key)
            .collect();
        let register = Register::new(key, happened, &calls)?;
        for call in &calls {
            register.check(call)?;
        }
    }
    let unknown = history
        .calls
        .iter()
        .find(|call| !truth.contains_key(&call.key));
    if let Some(call) = unknown {
        return Err(format!("nothing ever happened to the register of {call:?}"));
    }
    history
        .lists
        .iter()
        .try_for_each(|list| check_list(list, history, truth))
}

/// One register: what happened to it, and when each of its versions can have come to be.
struct Register<'h> {
    key: &'h str,
    happened: &'h BTreeMap<u64, String>,
    /// When the call that set a version began; versions that nobody here set have no entry.
    begun: BTreeMap<u64, Instant>,
    /// Versions that somebody was told of, by the time that was over.
    told: Vec<(Instant, u64)>,
}

impl<'h> Register<'h> {
    fn new(
        key: &'h str,
        happened: &'h BTreeMap<u64, String>,
        calls: &[&Call],
    ) -> Result<Register<'h>, String> {
        let mut register = Register {
            key,
            happened,
            begun: BTreeMap::new(),
            told: Vec::new(),
        };
        for call in calls {
            match &call.did {
                Did::Set { version, .. } => {
                    register.begun.insert(*version, call.begun);
                    register.told.push((call.ended, *version));
                }
                Did::Read { version, .. } => register.told.push((call.ended, *version)),
                Did::Perhaps { value, .. } => {
                    if let Some(version) = register.version_of(value) {
                        register.begun.insert(version, call.begun);
                    }
                }
                Did::Beaten { value, .. } | Did::Refused { value } => {
                    if let Some(version) = register.version_of(value) {
                        let what = format!("it was done, at {version}: {call:?}");
                        return Err(register.fault(&what));
                    }
                }
            }
        }
        register.told.sort();
        // What was told once is known from then on.
        let mut newest = 0;
        for (_, version) in &mut register.told {
            newest = newest.max(*version);
            *version = newest;
        }
        let unasked = register.happened.keys().skip(1);
        let mut unasked = unasked.filter(|version| !register.begun.contains_key(version));
        match unasked.next() {
            Some(version) => Err(register.fault(&format!("nobody set version {version}"))),
            None => Ok(register),
        }
    }

    fn fault(&self, what: &str) -> String {
        format!("{}: {what}", self.key)
    }

    fn version_of(&self, value: &str) -> Option<u64> {
        let mut all = self.happened.iter();
        all.find(|(_, known)| *known == value)
            .map(|(version, _)| *version)
    }

    /// The version before this one.
    fn before(&self, version: u64) -> Option<u64> {
        self.happened
            .range(..version)
            .next_back()
            .map(|(version, _)| *version)
    }

    /// The newest version that anybody had been told of before this moment.
    fn told_before(&self, moment: Instant) -> u64 {
        let at = self.told.partition_point(|(ended, _)| *ended < moment);
        at.checked_sub(1).map_or(0, |at| self.told[at].1)
    }

    fn check(&self, call: &Call) -> Result<(), String> {
        let known = self.told_before(call.begun);
        match &call.did {
            Did::Read { version, value } => {
                self.check_is(*version, value)?;
                self.check_not_of_the_future(*version, call)?;
                match *version < known {
                    true => Err(self.fault(&format!("stale, as {known} had been told: {call:?}"))),
                    false => Ok(()),
                }
            }
            Did::Set {
                over,
                value,
                version,
            } => {
                self.check_is(*version, value)?;
                self.check_set(*over, *version, known, call)
            }
            Did::Perhaps { over, value } => match self.version_of(value) {
                Some(version) => self.check_set(*over, version, known, call),
                None => Ok(()),
            },
            Did::Beaten { over, .. } => {
                let next = self.happened.range(over + 1..).next();
                let by = next.and_then(|(version, _)| self.begun.get(version));
                match by {
                    Some(begun) if *begun <= call.ended => Ok(()),
                    _ => Err(self.fault(&format!("nobody can have beaten {call:?}"))),
                }
            }
            // That it was not done was seen to before.
            Did::Refused { .. } => Ok(()),
        }
    }

    fn check_is(&self, version: u64, value: &str) -> Result<(), String> {
        match self.happened.get(&version) {
            Some(real) if real == value => Ok(()),
            real => Err(self.fault(&format!("{value:?} at {version}, where there was {real:?}"))),
        }
    }

    fn check_set(&self, over: u64, version: u64, known: u64, call: &Call) -> Result<(), String> {
        if self.before(version) != Some(over) {
            let before = self.before(version);
            return Err(self.fault(&format!("an update of {before:?} was lost: {call:?}")));
        }
        match version <= known {
            true => Err(self.fault(&format!("in the past, as {known} had been told: {call:?}"))),
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

/// A list shows each register as it was at the list's version, and everything told before.
fn check_list(list: &Listed, history: &History, truth: &Truth) -> Result<(), String> {
    for (key, happened) in truth {
        let real = happened.range(..=list.version).next_back();
        let shown = list.items.get(key).map(|(version, value)| (version, value));
        if real != shown {
            return Err(format!(
                "{key}: a list at {} shows {shown:?}, there was {real:?}",
                list.version
            ));
        }
    }
    let told = |call: &&Call| match &call.did {
        Did::Set { version, .. } | Did::Read { version, .. } => {
            call.ended < list.begun && *version > list.version
        }
        _ => false,
    };
    if let Some(call) = history.calls.iter().find(told) {
        return Err(format!("stale: a list at {} after {call:?}", list.version));
    }
    let unasked = |call: &&Call| match &call.did {
        Did::Set { version, .. } => call.begun > list.ended && *version <= list.version,
        _ => false,
    };
    match history.calls.iter().find(unasked) {
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

    struct Story {
        start: Instant,
        history: History,
        truth: Truth,
    }

    impl Story {
        /// A register whose values 0, 1, 2, 3 have versions 10, 11, 12 and 13.
        fn new() -> Story {
            let happened = (0..4).map(|n| (10 + n, n.to_string())).collect();
            Story {
                start: Instant::now(),
                history: History::default(),
                truth: BTreeMap::from([("r".to_owned(), happened)]),
            }
        }

        fn call(mut self, begun: u64, ended: u64, did: Did) -> Story {
            self.history.calls.push(Call {
                key: "r".to_owned(),
                begun: self.start + Duration::from_millis(begun),
                ended: self.start + Duration::from_millis(ended),
                did,
            });
            self
        }

        fn set(self, begun: u64, ended: u64, number: u64) -> Story {
            let did = Did::Set {
                over: 9 + number,
                value: number.to_string(),
                version: 10 + number,
            };
            self.call(begun, ended, did)
        }

        fn read(self, begun: u64, ended: u64, number: u64) -> Story {
            let did = Did::Read {
                version: 10 + number,
                value: number.to_string(),
            };
            self.call(begun, ended, did)
        }

        fn list(mut self, begun: u64, version: u64, number: u64) -> Story {
            let item = (10 + number, number.to_string());
            self.history.lists.push(Listed {
                begun: self.start + Duration::from_millis(begun),
                ended: self.start + Duration::from_millis(begun + 1),
                version,
                items: BTreeMap::from([("r".to_owned(), item)]),
            });
            self
        }

        fn told(&self) -> Result<(), String> {
            check(&self.history, &self.truth)
        }
    }

    fn three() -> Story {
        Story::new().set(0, 10, 1).set(20, 30, 2).set(40, 50, 3)
    }

    #[test]
    fn what_happened_one_after_the_other_is_fine() {
        let story = three().read(5, 6, 0).read(5, 25, 2).read(60, 61, 3);
        assert_eq!(story.list(60, 99, 3).told(), Ok(()));
    }

    #[test]
    fn stale_reads_and_lists_are_found() {
        assert!(
            three()
                .read(31, 32, 1)
                .told()
                .unwrap_err()
                .contains("stale")
        );
        assert!(
            three()
                .list(51, 12, 2)
                .told()
                .unwrap_err()
                .contains("stale")
        );
        // A read may show what another read has shown, and nothing older from then on.
        assert!(three().read(21, 25, 2).read(26, 27, 1).told().is_err());
    }

    #[test]
    fn what_was_not_there_at_a_lists_version_is_found() {
        assert!(three().list(60, 13, 2).told().is_err());
    }

    #[test]
    fn lost_updates_are_found() {
        let lost = Did::Set {
            over: 10,
            value: "2".to_owned(),
            version: 12,
        };
        let story = Story::new().set(0, 10, 1).call(5, 30, lost).set(40, 50, 3);
        assert!(story.told().unwrap_err().contains("lost"));
    }

    #[test]
    fn a_write_that_was_said_to_have_failed_and_took_place_is_found() {
        for did in [
            Did::Refused {
                value: "2".to_owned(),
            },
            Did::Beaten {
                over: 11,
                value: "2".to_owned(),
            },
        ] {
            let story = three().call(20, 30, did);
            assert!(story.told().unwrap_err().contains("it was done"));
        }
    }

    #[test]
    fn nobody_is_beaten_by_nobody() {
        let beaten = |over| Did::Beaten {
            over,
            value: "x".to_owned(),
        };
        assert_eq!(three().call(35, 45, beaten(12)).told(), Ok(()));
        assert!(three().call(31, 35, beaten(12)).told().is_err());
        assert!(three().call(60, 65, beaten(13)).told().is_err());
    }

    #[test]
    fn a_write_of_unknown_outcome_may_take_place_once_and_never_before_it_began() {
        let perhaps = || Did::Perhaps {
            over: 11,
            value: "2".to_owned(),
        };
        let story = || Story::new().set(0, 10, 1).set(40, 50, 3);
        assert_eq!(story().call(20, 21, perhaps()).told(), Ok(()));
        // Version 13 was told before it began.
        assert!(story().call(60, 61, perhaps()).told().is_err());
        // Nobody asked for version 12.
        assert!(story().told().unwrap_err().contains("nobody set"));
    }

    #[test]
    fn nothing_is_seen_before_it_was_asked_for() {
        assert!(three().read(31, 35, 3).told().is_err());
        assert!(three().list(31, 13, 3).told().is_err());
    }
}
