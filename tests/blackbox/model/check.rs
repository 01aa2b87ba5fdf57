//! The expected content of a stream, from the log of events.

use std::collections::BTreeMap;

use super::objects::Selection;
use super::session::{Session, Start};
use crate::load::WatchEvent;

/// The difference between a stream and the log.
struct Difference {
    /// The number of events before it.
    position: usize,
    text: String,
}

/// Compares a stream with the log of its kind, which begins with an empty collection.
///
/// # Errors
/// The place where they differ.
pub fn check_session(log: &[WatchEvent], session: &Session) -> Result<(), String> {
    let events = transitions(log, &session.selection);
    let difference = match session.start {
        Start::After(version) => stream(session, &[], &events[split(&events, version)..]).err(),
        Start::State { at_least } => state(session, &events, at_least).err(),
    };
    let Some(Difference { position, text }) = difference else {
        return Ok(());
    };
    let received = &session.received;
    let near = &received[position.saturating_sub(3)..received.len().min(position + 3)];
    Err(format!(
        "{text}\n{:?} of {:?} as {:?}, {} watches, at {:?}; around: {near:?}",
        session.start, session.selection, session.representation, session.watches, session.at
    ))
}

/// The number of events up to a version.
fn split(events: &[WatchEvent], version: u64) -> usize {
    events.partition_point(|event| event.version <= version)
}

/// The events of a log as a selection sees them (WA-20).
fn transitions(log: &[WatchEvent], selection: &Selection) -> Vec<WatchEvent> {
    let mut selected: BTreeMap<&str, &str> = BTreeMap::new();
    let mut events = Vec::new();
    for event in log {
        let (name, value) = (event.name.as_str(), event.value.as_str());
        let is_in = event.kind != "DELETED" && selection.selects(name, value);
        let before = match is_in {
            true => selected.insert(name, value),
            false => selected.remove(name),
        };
        let (kind, value) = match (is_in, before) {
            (true, None) => ("ADDED", value),
            (true, Some(_)) => ("MODIFIED", value),
            (false, Some(before)) => ("DELETED", before),
            (false, None) => continue,
        };
        events.push(WatchEvent {
            version: event.version,
            kind: kind.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
        });
    }
    events
}

/// Checks a stream that begins with an unspecified state. One of the past states must fit.
fn state(session: &Session, events: &[WatchEvent], at_least: u64) -> Result<(), Difference> {
    let (first, last) = match session.initial_end {
        Some(version) => (split(events, version), split(events, version)),
        None => (split(events, at_least), events.len()),
    };
    // The selected objects, in order of their keys.
    let mut state: BTreeMap<&str, &WatchEvent> = BTreeMap::new();
    let mut nearest: Option<Difference> = None;
    for passed in 0..=last {
        match passed.checked_sub(1).map(|before| &events[before]) {
            Some(event) if event.kind == "DELETED" => _ = state.remove(event.name.as_str()),
            Some(event) => _ = state.insert(&event.name, event),
            None => {}
        }
        if passed < first {
            continue;
        }
        let initial: Vec<&WatchEvent> = state.values().copied().collect();
        let Err(difference) = stream(session, &initial, &events[passed..]) else {
            return Ok(());
        };
        if nearest
            .as_ref()
            .is_none_or(|near| near.position < difference.position)
        {
            nearest = Some(difference);
        }
    }
    Err(nearest.unwrap_or(Difference {
        position: 0,
        text: format!("no state is as new as {at_least}"),
    }))
}

/// Checks a stream that begins with these objects and continues with these events. The received
/// events must be a prefix that includes all events before each bookmark and before the end.
fn stream(
    session: &Session,
    initial: &[&WatchEvent],
    events: &[WatchEvent],
) -> Result<(), Difference> {
    let received = &session.received;
    let end = session.at.filter(|_| session.is_complete);
    let end = end.map(|at| (received.len(), at));
    let mut bookmarks = session.bookmarks.iter().copied().chain(end).peekable();
    let length = initial.len() + events.len();
    let initial = initial.iter().map(|object| (0, "ADDED", *object));
    let events = events
        .iter()
        .map(|event| (event.version, event.kind.as_str(), event));
    for (position, (version, kind, wanted)) in initial.chain(events).enumerate() {
        while let Some((_, bookmark)) = bookmarks.next_if(|(events, _)| *events == position) {
            if version <= bookmark {
                let text = format!("a bookmark of {bookmark} passes {wanted:?}");
                return Err(Difference { position, text });
            }
        }
        let Some(other) = received.get(position) else {
            return Ok(());
        };
        let is_same = other.kind == kind
            && (other.version, &other.name, &other.value)
                == (wanted.version, &wanted.name, &wanted.value);
        if !is_same {
            let text = format!("{other:?} came where the log has {wanted:?}");
            return Err(Difference { position, text });
        }
    }
    match received.get(length) {
        None => Ok(()),
        Some(other) => {
            let text = format!("{other:?} came after the end of the log");
            Err(Difference {
                position: length,
                text,
            })
        }
    }
}

mod tests {
    use super::super::objects::Kind;
    use super::super::session::Representation;
    use super::*;

    fn event(version: u64, kind: &str, value: &str) -> WatchEvent {
        WatchEvent {
            version,
            kind: kind.to_owned(),
            name: "m0/a".to_owned(),
            value: value.to_owned(),
        }
    }

    fn log() -> Vec<WatchEvent> {
        vec![
            event(2, "ADDED", "1 red n0 0"),
            event(4, "MODIFIED", "2 blue n0 0"),
            event(7, "MODIFIED", "3 red n0 0"),
            event(9, "DELETED", "3 red n0 0"),
        ]
    }

    /// A stream of everything, or of red objects, that received this.
    fn session(start: Start, is_red: bool, received: &[WatchEvent]) -> Session {
        let selection = Selection::all(Kind::Pods);
        Session {
            selection: match is_red {
                true => selection.of_color("red"),
                false => selection,
            },
            representation: Representation::Whole,
            start,
            initial_end: None,
            received: received.to_vec(),
            bookmarks: Vec::new(),
            at: None,
            watches: 1,
            is_gone: false,
            is_complete: false,
        }
    }

    fn difference(session: &Session) -> String {
        check_session(&log(), session).unwrap_err()
    }

    #[test]
    fn the_beginning_of_the_log_is_right_and_a_gap_a_repetition_or_another_order_is_not() {
        let log = log();
        let after = |received: &[WatchEvent]| session(Start::After(2), false, received);
        for length in 0..=3 {
            assert_eq!(check_session(&log, &after(&log[1..1 + length])), Ok(()));
        }
        assert!(difference(&after(&log[2..])).contains("where the log has 4 MODIFIED"));
        let twice = [log[1].clone(), log[1].clone()];
        assert!(difference(&after(&twice)).contains("where the log has 7 MODIFIED"));
        let more = [&log[1..], &[event(12, "ADDED", "4 red n0 0")]].concat();
        assert!(difference(&after(&more)).contains("after the end of the log"));
    }

    #[test]
    fn selections_see_transitions_wa_20() {
        let red = [
            event(2, "ADDED", "1 red n0 0"),
            event(4, "DELETED", "1 red n0 0"),
            event(7, "ADDED", "3 red n0 0"),
            event(9, "DELETED", "3 red n0 0"),
        ];
        assert_eq!(
            check_session(&log(), &session(Start::After(1), true, &red)),
            Ok(())
        );
        let plain = &log()[1..];
        assert!(check_session(&log(), &session(Start::After(2), true, plain)).is_err());
    }

    #[test]
    fn an_initial_state_is_one_that_there_was_and_is_new_enough() {
        let received = [event(4, "ADDED", "2 blue n0 0"), log()[2].clone()];
        let stream = |at_least| session(Start::State { at_least }, false, &received);
        for at_least in 0..=6 {
            assert_eq!(check_session(&log(), &stream(at_least)), Ok(()));
        }
        assert!(check_session(&log(), &stream(7)).is_err());
        // A bookmark at the end of the initial state has its version.
        let mut closed = stream(0);
        (closed.initial_end, closed.bookmarks) = (Some(5), vec![(1, 5)]);
        assert_eq!(check_session(&log(), &closed), Ok(()));
        (closed.initial_end, closed.bookmarks) = (Some(8), vec![(1, 8)]);
        assert!(check_session(&log(), &closed).is_err());
    }

    #[test]
    fn a_bookmark_and_the_end_stand_for_all_events_up_to_them_pf_17() {
        let mut early = session(Start::After(2), false, &log()[1..2]);
        early.bookmarks = vec![(1, 6)];
        assert_eq!(check_session(&log(), &early), Ok(()));
        early.bookmarks = vec![(0, 6)];
        assert!(difference(&early).contains("a bookmark of 6 passes 4 MODIFIED"));
        let mut short = session(Start::After(2), false, &log()[1..3]);
        (short.is_complete, short.at) = (true, Some(8));
        assert_eq!(check_session(&log(), &short), Ok(()));
        short.at = Some(9);
        assert!(difference(&short).contains("passes 9 DELETED"));
    }
}
