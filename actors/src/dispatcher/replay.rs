//! Turns events of the engine's history into what a watcher is shown. Pure.

use crate::engine::{Event, EventKind, HistoryChunk, Revision};
use crate::object::{CachedObject, Decode};
use crate::watch::{WatchEventKind, WatchInterest, transition};

/// An event that the watcher is shown.
pub(super) struct ReplayedEvent {
    pub(super) kind: WatchEventKind,
    /// The object to show.
    pub(super) object: CachedObject,
    pub(super) revision: Revision,
}

/// The part of a chunk of history that a watcher sees.
pub(super) struct ReplayChunk {
    pub(super) events: Vec<ReplayedEvent>,
    /// Everything up to here was evaluated.
    pub(super) reached: Revision,
}

/// Evaluates the events of a chunk for one watcher.
///
/// # Errors
/// The text of the ERROR event that ends the stream. Nothing may be delivered after an event that
/// can't be decoded (WA-32, WA-33). The events before it are returned as a chunk of their own.
pub(super) fn replay(
    chunk: HistoryChunk,
    interest: &WatchInterest,
    decode: &dyn Decode,
) -> Result<ReplayChunk, String> {
    let mut events = Vec::with_capacity(chunk.events.len());
    for event in &chunk.events {
        if !interest.scope.covers(event.key.as_bytes()) {
            continue;
        }
        match evaluate(event, interest, decode) {
            Ok(replayed) => events.extend(replayed),
            Err(why) => {
                // The events of one revision are shown together or not at all.
                events.retain(|shown: &ReplayedEvent| shown.revision < event.revision);
                let reached = Revision(event.revision.0.saturating_sub(1));
                return match events.is_empty() {
                    true => Err(why),
                    false => Ok(ReplayChunk { events, reached }),
                };
            }
        }
    }
    Ok(ReplayChunk {
        events,
        reached: chunk.reached,
    })
}

fn evaluate(
    event: &Event,
    interest: &WatchInterest,
    decode: &dyn Decode,
) -> Result<Option<ReplayedEvent>, String> {
    let has_previous = event.prev_revision > Revision::ZERO;
    let selects_all = interest.predicate.identity().is_empty();
    let current = match event.kind {
        EventKind::Put => Some(current(event, decode)?),
        EventKind::Delete => None,
    };
    if selects_all && let Some(object) = current {
        // The content before does not matter, only whether there was any.
        let kind = if has_previous {
            WatchEventKind::Modified
        } else {
            WatchEventKind::Added
        };
        return Ok(Some(replayed(kind, object, event)));
    }
    let previous = has_previous.then(|| previous(event, decode)).transpose()?;
    let (scope, predicate) = (&interest.scope, &*interest.predicate);
    let transition = transition(scope, predicate, current.as_ref(), previous.as_ref());
    let Some((kind, _)) = transition else {
        return Ok(None);
    };
    let shown = match kind {
        WatchEventKind::Deleted => previous,
        WatchEventKind::Added | WatchEventKind::Modified => current,
    };
    Ok(shown.map(|object| replayed(kind, object, event)))
}

fn replayed(kind: WatchEventKind, object: CachedObject, event: &Event) -> ReplayedEvent {
    ReplayedEvent {
        kind,
        object,
        revision: event.revision,
    }
}

fn current(event: &Event, decode: &dyn Decode) -> Result<CachedObject, String> {
    decode
        .decode(&event.key, event.revision, &event.value)
        .map_err(|error| error.to_string())
}

fn previous(event: &Event, decode: &dyn Decode) -> Result<CachedObject, String> {
    let Some(value) = &event.previous else {
        return Err(format!(
            "the value of {} before its event at revision {} is missing",
            event.key, event.revision
        ));
    };
    decode
        .decode(&event.key, event.prev_revision, value)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::{DataEngine, HistoryRequest, Revision};
    use crate::testing::{ColorIs, FaultyEngine, Lines, OneLiners, interest, key, prefix};
    use crate::watch::{Projection, Scope};

    async fn lines(
        engine: &Arc<FaultyEngine>,
        interest: &WatchInterest,
    ) -> Result<Vec<String>, String> {
        let request = HistoryRequest {
            prefix: prefix(),
            after: Revision::ZERO,
            until: engine.revision(),
            bytes_max: usize::MAX,
        };
        let chunk = engine.history(request).await.unwrap();
        let replay = replay(chunk, interest, &OneLiners)?;
        let lines = replay.events.iter().map(|event| {
            let frame = Lines.frame(event.kind, &event.object, event.revision, false);
            String::from_utf8_lossy(&frame).into_owned()
        });
        Ok(lines.collect())
    }

    #[tokio::test]
    async fn history_shows_transitions_as_the_cache_does_wa_20_pf_1_pf_2() {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        engine.put(&key("ns/a"), "blue 2");
        engine.put(&key("other/b"), "blue 3");
        engine.put(&key("ns/a"), "red 4");
        engine.delete(&key("ns/a"));
        let mut red = interest(Scope::Namespace(crate::engine::Prefix::new(
            "/registry/things/ns/",
        )));
        assert_eq!(
            lines(&engine, &red).await.unwrap(),
            [
                "ADDED ns/a@1 red 1",
                "MODIFIED ns/a@2 blue 2",
                "MODIFIED ns/a@4 red 4",
                "DELETED ns/a@5 red 4",
            ]
        );
        red.predicate = Arc::new(ColorIs("red"));
        assert_eq!(
            lines(&engine, &red).await.unwrap(),
            [
                "ADDED ns/a@1 red 1",
                "DELETED ns/a@2 red 1",
                "ADDED ns/a@4 red 4",
                "DELETED ns/a@5 red 4",
            ]
        );
    }

    #[tokio::test]
    async fn without_the_old_value_a_replay_ends_rather_than_guess_wa_32_pf_29() {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        engine.put(&key("ns/a"), "red 2");
        let request = HistoryRequest {
            prefix: prefix(),
            after: Revision(1),
            until: Revision(2),
            bytes_max: usize::MAX,
        };
        let mut chunk = engine.history(request).await.unwrap();
        chunk.events[0].previous = None;
        let mut red = interest(Scope::All);
        red.predicate = Arc::new(ColorIs("red"));
        let failed = replay(chunk, &red, &OneLiners).err().unwrap();
        assert!(failed.contains("/registry/things/ns/a"), "{failed}");
        assert!(failed.contains("revision 2"), "{failed}");
    }

    #[tokio::test]
    async fn an_event_that_cannot_be_read_ends_the_replay_with_its_reason_wa_33() {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        engine.put(&key("ns/b"), "undecodable");
        engine.put(&key("ns/c"), "red 3");
        let before = lines(&engine, &interest(Scope::All)).await.unwrap();
        assert_eq!(before, ["ADDED ns/a@1 red 1"], "and then");
        let unread = interest(Scope::Object(key("ns/b")));
        let failed = lines(&engine, &unread).await.unwrap_err();
        assert!(failed.contains("/registry/things/ns/b"), "{failed}");
    }
}
