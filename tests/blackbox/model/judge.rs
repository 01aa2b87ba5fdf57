//! The expected content of a stream, from the log of events.

use std::collections::BTreeMap;

use super::session::{Session, Start};
use super::things::Selection;
use crate::load::Seen;

/// The difference between a stream and the log.
struct Fault {
    /// So much of it is.
    same: usize,
    text: String,
}

/// Compares a stream with the log of its kind, which begins with an empty collection.
///
/// # Errors
/// The place where they differ.
pub fn judge(log: &[Seen], session: &Session) -> Result<(), String> {
    let events = transitions(log, &session.selection);
    let fault = match session.start {
        Start::After(version) => stream(session, &[], &events[split(&events, version)..]).err(),
        Start::State { at_least } => state(session, &events, at_least).err(),
    };
    let Some(Fault { same, text }) = fault else {
        return Ok(());
    };
    let heard = &session.heard;
    let near = &heard[same.saturating_sub(3)..heard.len().min(same + 3)];
    Err(format!(
        "{text}\n{:?} of {:?} as {:?}, {} watches, at {:?}; around: {near:?}",
        session.start, session.selection, session.form, session.watches, session.at
    ))
}

/// How many events there are up to a version.
fn split(events: &[Seen], version: u64) -> usize {
    events.partition_point(|event| event.version <= version)
}

/// The events of a log as a selection sees them (WA-20).
fn transitions(log: &[Seen], selection: &Selection) -> Vec<Seen> {
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
        events.push(Seen {
            version: event.version,
            kind: kind.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
        });
    }
    events
}

/// A stream that begins with a state that nobody named: one of those that there were must fit.
fn state(session: &Session, events: &[Seen], at_least: u64) -> Result<(), Fault> {
    let (first, last) = match session.initial_end {
        Some(version) => (split(events, version), split(events, version)),
        None => (split(events, at_least), events.len()),
    };
    // What is selected, in order of the keys.
    let mut state: BTreeMap<&str, &Seen> = BTreeMap::new();
    let mut nearest: Option<Fault> = None;
    for passed in 0..=last {
        match passed.checked_sub(1).map(|before| &events[before]) {
            Some(event) if event.kind == "DELETED" => _ = state.remove(event.name.as_str()),
            Some(event) => _ = state.insert(&event.name, event),
            None => {}
        }
        if passed < first {
            continue;
        }
        let initial: Vec<&Seen> = state.values().copied().collect();
        let Err(fault) = stream(session, &initial, &events[passed..]) else {
            return Ok(());
        };
        if nearest.as_ref().is_none_or(|near| near.same < fault.same) {
            nearest = Some(fault);
        }
    }
    Err(nearest.unwrap_or(Fault {
        same: 0,
        text: format!("no state is as new as {at_least}"),
    }))
}

/// A stream that begins with these objects and goes on with these events: what was heard must be
/// its beginning, with all that a bookmark or the end stands for.
fn stream(session: &Session, initial: &[&Seen], events: &[Seen]) -> Result<(), Fault> {
    let heard = &session.heard;
    let end = session.at.filter(|_| session.is_complete);
    let end = end.map(|at| (heard.len(), at));
    let mut bookmarks = session.bookmarks.iter().copied().chain(end).peekable();
    let length = initial.len() + events.len();
    let initial = initial.iter().map(|object| (0, "ADDED", *object));
    let events = events
        .iter()
        .map(|event| (event.version, event.kind.as_str(), event));
    for (same, (version, kind, wanted)) in initial.chain(events).enumerate() {
        while let Some((_, bookmark)) = bookmarks.next_if(|(events, _)| *events == same) {
            if version <= bookmark {
                let text = format!("a bookmark of {bookmark} passes {wanted:?}");
                return Err(Fault { same, text });
            }
        }
        let Some(other) = heard.get(same) else {
            return Ok(());
        };
        let is_same = other.kind == kind
            && (other.version, &other.name, &other.value)
                == (wanted.version, &wanted.name, &wanted.value);
        if !is_same {
            let text = format!("{other:?} came where the log has {wanted:?}");
            return Err(Fault { same, text });
        }
    }
    match heard.get(length) {
        None => Ok(()),
        Some(other) => {
            let text = format!("{other:?} came after the end of the log");
            Err(Fault { same: length, text })
        }
    }
}

mod tests {
    use super::super::session::Form;
    use super::super::things::Kind;
    use super::*;

    fn event(version: u64, kind: &str, value: &str) -> Seen {
        Seen {
            version,
            kind: kind.to_owned(),
            name: "m0/a".to_owned(),
            value: value.to_owned(),
        }
    }

    fn log() -> Vec<Seen> {
        vec![
            event(2, "ADDED", "1 red n0 0"),
            event(4, "MODIFIED", "2 blue n0 0"),
            event(7, "MODIFIED", "3 red n0 0"),
            event(9, "DELETED", "3 red n0 0"),
        ]
    }

    /// A stream of everything, or of what is red, that heard this.
    fn session(start: Start, is_red: bool, heard: &[Seen]) -> Session {
        let selection = Selection::all(Kind::Pods);
        Session {
            selection: match is_red {
                true => selection.of_color("red"),
                false => selection,
            },
            form: Form::Whole,
            start,
            initial_end: None,
            heard: heard.to_vec(),
            bookmarks: Vec::new(),
            at: None,
            watches: 1,
            is_gone: false,
            is_complete: false,
        }
    }

    fn fault(session: &Session) -> String {
        judge(&log(), session).unwrap_err()
    }

    #[test]
    fn the_beginning_of_the_log_is_right_and_a_gap_a_repetition_or_another_order_is_not() {
        let log = log();
        let after = |heard: &[Seen]| session(Start::After(2), false, heard);
        for length in 0..=3 {
            assert_eq!(judge(&log, &after(&log[1..1 + length])), Ok(()));
        }
        assert!(fault(&after(&log[2..])).contains("where the log has 4 MODIFIED"));
        let twice = [log[1].clone(), log[1].clone()];
        assert!(fault(&after(&twice)).contains("where the log has 7 MODIFIED"));
        let more = [&log[1..], &[event(12, "ADDED", "4 red n0 0")]].concat();
        assert!(fault(&after(&more)).contains("after the end of the log"));
    }

    #[test]
    fn selections_see_transitions_wa_20() {
        let red = [
            event(2, "ADDED", "1 red n0 0"),
            event(4, "DELETED", "1 red n0 0"),
            event(7, "ADDED", "3 red n0 0"),
            event(9, "DELETED", "3 red n0 0"),
        ];
        assert_eq!(judge(&log(), &session(Start::After(1), true, &red)), Ok(()));
        let plain = &log()[1..];
        assert!(judge(&log(), &session(Start::After(2), true, plain)).is_err());
    }

    #[test]
    fn an_initial_state_is_one_that_there_was_and_is_new_enough() {
        let heard = [event(4, "ADDED", "2 blue n0 0"), log()[2].clone()];
        let stream = |at_least| session(Start::State { at_least }, false, &heard);
        for at_least in 0..=6 {
            assert_eq!(judge(&log(), &stream(at_least)), Ok(()));
        }
        assert!(judge(&log(), &stream(7)).is_err());
        // A bookmark that closes the state names it.
        let mut closed = stream(0);
        (closed.initial_end, closed.bookmarks) = (Some(5), vec![(1, 5)]);
        assert_eq!(judge(&log(), &closed), Ok(()));
        (closed.initial_end, closed.bookmarks) = (Some(8), vec![(1, 8)]);
        assert!(judge(&log(), &closed).is_err());
    }

    #[test]
    fn a_bookmark_and_the_end_stand_for_all_events_up_to_them_pf_17() {
        let mut early = session(Start::After(2), false, &log()[1..2]);
        early.bookmarks = vec![(1, 6)];
        assert_eq!(judge(&log(), &early), Ok(()));
        early.bookmarks = vec![(0, 6)];
        assert!(fault(&early).contains("a bookmark of 6 passes 4 MODIFIED"));
        let mut short = session(Start::After(2), false, &log()[1..3]);
        (short.is_complete, short.at) = (true, Some(8));
        assert_eq!(judge(&log(), &short), Ok(()));
        short.at = Some(9);
        assert!(fault(&short).contains("passes 9 DELETED"));
    }
}
