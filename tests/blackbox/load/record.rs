//! The records of writers and watchers, and their rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The state of one object: its value, or nothing. Values are never written twice.
pub type State = Option<String>;

/// The possible states of an object, as far as its only writer can know.
#[derive(Clone, Debug)]
pub struct PossibleStates(BTreeSet<State>);

/// The request of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteRequest {
    Create(String),
    Update(String),
    Delete,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    NotFound,
    AlreadyExists,
    /// The connection broke, or the answer says that the outcome is unknown.
    Unknown,
    /// The answer says that nothing was done.
    Refused,
}

impl PossibleStates {
    /// Nothing was ever written.
    pub fn absent() -> PossibleStates {
        PossibleStates(BTreeSet::from([None]))
    }

    /// The states after a request with this outcome.
    ///
    /// # Errors
    /// When no state that was possible allows this outcome.
    pub fn after(
        &self,
        request: &WriteRequest,
        outcome: Outcome,
    ) -> Result<PossibleStates, String> {
        let applied = |state: &State| match (request, state) {
            (WriteRequest::Create(value), None) | (WriteRequest::Update(value), Some(_)) => {
                Some(Some(value.clone()))
            }
            (WriteRequest::Delete, Some(_)) => Some(None),
            _ => None,
        };
        let states: BTreeSet<State> = match outcome {
            Outcome::Done => self.0.iter().filter_map(applied).collect(),
            Outcome::NotFound => self
                .0
                .iter()
                .filter(|state| state.is_none())
                .cloned()
                .collect(),
            Outcome::AlreadyExists => self
                .0
                .iter()
                .filter(|state| state.is_some())
                .cloned()
                .collect(),
            Outcome::Unknown => self
                .0
                .iter()
                .cloned()
                .chain(self.0.iter().filter_map(applied))
                .collect(),
            Outcome::Refused => self.0.clone(),
        };
        if states.is_empty() {
            return Err(format!(
                "{request:?} was {outcome:?}, but the object was one of {:?}",
                self.0
            ));
        }
        Ok(PossibleStates(states))
    }

    /// The states after the object was read.
    ///
    /// # Errors
    /// The state that was read is impossible.
    pub fn read(&self, state: State) -> Result<PossibleStates, String> {
        if !self.0.contains(&state) {
            return Err(format!(
                "read {state:?}, but the object was one of {:?}",
                self.0
            ));
        }
        Ok(PossibleStates(BTreeSet::from([state])))
    }

    /// Whether the object exists, or `None` if that is unknown.
    pub fn is_there(&self) -> Option<bool> {
        let there = self.0.iter().any(Option::is_some);
        let absent = self.0.contains(&None);
        (there != absent).then_some(there)
    }
}

/// An event of a watch.
#[derive(Clone, PartialEq, Eq)]
pub struct WatchEvent {
    pub version: u64,
    pub kind: String,
    pub name: String,
    pub value: String,
}

impl fmt::Debug for WatchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}={}",
            self.version, self.kind, self.name, self.value
        )
    }
}

/// Folds events of one stream to the state that they leave.
///
/// # Errors
/// When events are out of order, or an event contradicts the ones before it.
pub fn fold(events: &[WatchEvent]) -> Result<BTreeMap<String, String>, String> {
    let mut state: BTreeMap<String, String> = BTreeMap::new();
    let mut last = 0;
    for event in events {
        if event.version <= last {
            return Err(format!("{event:?} came after version {last}"));
        }
        last = event.version;
        let before = state.get(&event.name);
        let fits = match event.kind.as_str() {
            "ADDED" => before.is_none(),
            "MODIFIED" => before.is_some_and(|before| *before != event.value),
            "DELETED" => before == Some(&event.value),
            _ => false,
        };
        if !fits {
            return Err(format!("{event:?} came when the object was {before:?}"));
        }
        if event.kind == "DELETED" {
            state.remove(&event.name);
        } else {
            state.insert(event.name.clone(), event.value.clone());
        }
    }
    Ok(state)
}

#[test]
fn an_unknown_outcome_leaves_both_states_possible() {
    let states = PossibleStates::absent();
    let states = states
        .after(&WriteRequest::Create("1".into()), Outcome::Unknown)
        .unwrap();
    assert_eq!(states.is_there(), None);
    assert!(states.read(None).is_ok());
    assert!(states.read(Some("1".into())).is_ok());
    assert!(states.read(Some("2".into())).is_err());
    let states = states
        .after(&WriteRequest::Update("2".into()), Outcome::Done)
        .unwrap();
    assert_eq!(states.is_there(), Some(true));
    assert!(
        states
            .after(&WriteRequest::Create("3".into()), Outcome::Done)
            .is_err()
    );
    assert!(
        states
            .after(&WriteRequest::Delete, Outcome::NotFound)
            .is_err()
    );
}

#[test]
fn events_must_follow_from_one_another() {
    let event = |version, kind: &str, value: &str| WatchEvent {
        version,
        kind: kind.into(),
        name: "a".into(),
        value: value.into(),
    };
    let good = [
        event(1, "ADDED", "1"),
        event(3, "MODIFIED", "2"),
        event(4, "DELETED", "2"),
    ];
    assert!(fold(&good).unwrap().is_empty());
    assert!(fold(&good[1..]).is_err(), "a gap");
    assert!(
        fold(&[good[0].clone(), good[0].clone()]).is_err(),
        "a repetition"
    );
    assert!(
        fold(&[good[0].clone(), event(1, "DELETED", "1")]).is_err(),
        "a version used twice"
    );
    assert!(
        fold(&[good[0].clone(), event(2, "DELETED", "0")]).is_err(),
        "another content"
    );
}
