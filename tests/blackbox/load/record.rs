//! The records of writers and watchers, and their rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The state of one object: its value, or nothing. Values are never written twice.
pub type State = Option<String>;

/// The possible states of an object, as far as its only writer can know.
#[derive(Clone, Debug)]
pub struct PossibleStates {
    worlds: BTreeSet<World>,
    /// Whether a write of unknown outcome may still take effect after later requests were answered.
    may_be_late: bool,
}

/// A possible state, and the writes of unknown outcome that may still change it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    state: State,
    /// The state that each of them replaces, and the one that it leaves.
    late: BTreeSet<(State, State)>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.late.is_empty() {
            true => write!(f, "{:?}", self.state),
            false => write!(f, "{:?}, late: {:?}", self.state, self.late),
        }
    }
}

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
        let absent = World {
            state: None,
            late: BTreeSet::new(),
        };
        PossibleStates {
            worlds: BTreeSet::from([absent]),
            may_be_late: false,
        }
    }

    /// Nothing was ever written to an object in etcd. A daemon gives up a transaction that etcd
    /// does not answer, and can't take it back: an etcd that stood still finds it in its sockets,
    /// and carries it out at any time after a read that came later. The transaction names the
    /// revision that it replaces, so it takes effect only if nothing else was written.
    pub fn absent_in_etcd() -> PossibleStates {
        PossibleStates {
            may_be_late: true,
            ..PossibleStates::absent()
        }
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
        let worlds = self.worlds.iter();
        let worlds = worlds.flat_map(|world| world.after(request, outcome, self.may_be_late));
        let why = || format!("{request:?} was {outcome:?}");
        self.became(worlds.collect(), why)
    }

    /// The states after the object was read.
    ///
    /// # Errors
    /// The state that was read is impossible.
    pub fn read(&self, state: State) -> Result<PossibleStates, String> {
        let worlds = self.worlds.iter().filter(|world| world.state == state);
        self.became(worlds.cloned().collect(), || format!("read {state:?}"))
    }

    /// Whether the object exists, or `None` if that is unknown.
    pub fn is_there(&self) -> Option<bool> {
        let there = self.worlds.iter().any(|world| world.state.is_some());
        let absent = self.worlds.iter().any(|world| world.state.is_none());
        (there != absent).then_some(there)
    }

    /// These worlds, and those that late writes make of them.
    fn became(
        &self,
        mut worlds: Vec<World>,
        why: impl Fn() -> String,
    ) -> Result<PossibleStates, String> {
        if worlds.is_empty() {
            let (why, before) = (why(), &self.worlds);
            return Err(format!("{why}, but the object was one of {before:?}"));
        }
        let mut all = BTreeSet::new();
        while let Some(world) = worlds.pop() {
            worlds.extend(world.after_a_late_write());
            all.insert(world);
        }
        Ok(PossibleStates {
            worlds: all,
            may_be_late: self.may_be_late,
        })
    }
}

impl World {
    fn after(&self, request: &WriteRequest, outcome: Outcome, may_be_late: bool) -> Vec<World> {
        let applied = match (request, &self.state) {
            (WriteRequest::Create(value), None) | (WriteRequest::Update(value), Some(_)) => {
                Some(Some(value.clone()))
            }
            (WriteRequest::Delete, Some(_)) => Some(None),
            _ => None,
        };
        let done = applied.clone().map(|state| World {
            state,
            late: self.late.clone(),
        });
        let is_there = self.state.is_some();
        match outcome {
            Outcome::Done => done.into_iter().collect(),
            Outcome::NotFound if is_there => Vec::new(),
            Outcome::AlreadyExists if !is_there => Vec::new(),
            Outcome::Unknown if may_be_late => {
                let mut world = self.clone();
                let late = applied.map(|applied| (self.state.clone(), applied));
                world.late.extend(late);
                vec![world]
            }
            Outcome::Unknown => [self.clone()].into_iter().chain(done).collect(),
            Outcome::NotFound | Outcome::AlreadyExists | Outcome::Refused => vec![self.clone()],
        }
    }

    /// The worlds after one of the late writes took effect.
    fn after_a_late_write(&self) -> impl Iterator<Item = World> {
        let may_happen = self.late.iter().filter(|(from, _)| *from == self.state);
        may_happen.map(|late| {
            let mut world = self.clone();
            world.late.remove(late);
            world.state = late.1.clone();
            world
        })
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
fn a_write_in_etcd_may_take_effect_after_a_read_and_only_once() {
    use WriteRequest::{Create, Delete, Update};

    let value = |value: &str| Some(value.to_owned());
    let created = |states: PossibleStates| states.after(&Create("1".into()), Outcome::Done);
    // A deletion without an answer, which a read does not show yet.
    let unknown = |states| {
        let states = created(states).unwrap().after(&Delete, Outcome::Unknown);
        states.unwrap().read(value("1")).unwrap()
    };
    let late = unknown(PossibleStates::absent_in_etcd());
    assert_eq!(late.is_there(), None);
    let absent = late.after(&Delete, Outcome::NotFound).unwrap();
    assert_eq!(absent.is_there(), Some(false));
    let in_time = unknown(PossibleStates::absent());
    assert!(in_time.after(&Delete, Outcome::NotFound).is_err());
    // It does not delete what was written after it.
    let updated = late.after(&Update("2".into()), Outcome::Done).unwrap();
    assert!(updated.after(&Delete, Outcome::NotFound).is_err());
    // A creation may come late whenever the object is absent, and only once.
    let states = PossibleStates::absent_in_etcd();
    let states = states.after(&Create("1".into()), Outcome::Unknown).unwrap();
    let states = states.read(None).unwrap().read(value("1")).unwrap();
    let states = states.after(&Delete, Outcome::Done).unwrap();
    assert_eq!(states.is_there(), Some(false));
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
