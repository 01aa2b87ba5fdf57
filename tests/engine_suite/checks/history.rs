//! History: past events in bounded parts, with the previous values.

use actors::engine::{EngineError, Event, EventKind, HistoryRequest, Revision};

use futures_util::future::join_all;

use crate::subjects::{Dice, Subject, outline};

fn request(subject: &Subject, prefix: &str, after: Revision, until: Revision) -> HistoryRequest {
    HistoryRequest {
        prefix: subject.prefix(prefix),
        after,
        until,
        bytes_max: usize::MAX,
    }
}

async fn all(subject: &Subject, mut request: HistoryRequest) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let chunk = subject.engine.history(request.clone()).await.unwrap();
        assert!(chunk.reached >= request.after);
        let done = chunk.reached == request.after && chunk.events.is_empty();
        events.extend(chunk.events);
        request.after = chunk.reached;
        if done || chunk.reached >= request.until {
            return events;
        }
    }
}

pub async fn history_has_previous_values_and_every_event(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let other = subject.create("minions/a", "node").await;
    let second = subject.update("pods/ns/a", first.revision, "2").await;
    let gone = subject.delete("pods/ns/a", second.revision).await;
    let again = subject.create("pods/ns/a", "3").await;
    let before = Revision(first.revision.0 - 1);
    let events = all(&subject, request(&subject, "pods/", before, again.revision)).await;
    let expected = [first.clone(), second, gone, again.clone()];
    assert_eq!(outline(&events), outline(&expected));
    let previous: Vec<_> = events
        .iter()
        .map(|event| event.previous.as_deref())
        .collect();
    assert_eq!(
        previous,
        [None, Some(b"1".as_slice()), Some(b"2".as_slice()), None]
    );
    assert_eq!(events[2].kind, EventKind::Delete);
    let everything = all(&subject, request(&subject, "", before, again.revision)).await;
    assert_eq!(everything.len(), 5);
    assert_eq!(everything[1].key, other.key);
    let middle = request(
        &subject,
        "pods/",
        first.revision,
        Revision(again.revision.0 - 1),
    );
    assert_eq!(
        outline(&all(&subject, middle).await),
        outline(&expected[1..3])
    );
}

pub async fn history_comes_in_chunks_that_join_without_gap(subject: Subject) {
    let value = "x".repeat(1000);
    let mut expected = Vec::new();
    for count in 0..40 {
        expected.push(subject.set(&format!("pods/ns/{}", count % 3), &value).await);
    }
    let before = Revision(expected[0].revision.0 - 1);
    let mut chunks = request(&subject, "pods/", before, expected[39].revision);
    chunks.bytes_max = 5000;
    let first = subject.engine.history(chunks.clone()).await.unwrap();
    assert!(!first.events.is_empty() && first.events.len() < 10);
    assert!(first.reached < chunks.until);
    assert_eq!(
        outline(&all(&subject, chunks.clone()).await),
        outline(&expected)
    );
    chunks.bytes_max = 1;
    let one = subject.engine.history(chunks).await.unwrap();
    assert_eq!(one.events.len(), 1, "at least one event is read");
}

pub async fn history_ends_at_the_present_even_if_more_is_asked(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let chunk = subject
        .engine
        .history(request(&subject, "pods/", Revision(0), Revision::MAX))
        .await;
    let chunk = chunk.unwrap();
    assert_eq!(
        chunk.reached, first.revision,
        "what has not happened was not looked at"
    );
    let later = Revision(first.revision.0 + 10);
    let nothing = subject
        .engine
        .history(request(&subject, "pods/", later, Revision::MAX))
        .await;
    assert_eq!(nothing.unwrap().events.len(), 0);
}

pub async fn history_of_a_quiet_prefix_reaches_the_end(subject: Subject) {
    let mut last = Revision::ZERO;
    for count in 0..30 {
        last = subject
            .create(&format!("pods/ns/{count}"), "x")
            .await
            .revision;
    }
    let chunk = subject
        .engine
        .history(request(&subject, "minions/", Revision(0), last))
        .await;
    let chunk = chunk.unwrap();
    assert_eq!((chunk.events.len(), chunk.reached), (0, last));
}

/// A log so long that an engine may look for the few events of a prefix by their keys.
pub async fn history_of_a_quiet_prefix_in_a_long_log_is_whole(subject: Subject) {
    let mut dice = Dice::new(23);
    let first = subject.create("quiet/0", "first").await;
    let mut quiet = vec![first.clone()];
    let mut busy = 0;
    let filler = "x".repeat(400);
    for round in 0..60 {
        let writes = (0..120).map(|number| {
            let name = format!("busy/{round}-{number}");
            let (subject, filler) = (&subject, &filler);
            async move { subject.create(&name, filler).await }
        });
        busy += join_all(writes).await.len();
        // A few keys, which are created, updated, deleted and created again.
        let name = format!("quiet/{}", dice.roll(4));
        let event = match subject.get(&name).await {
            Some(current) if dice.roll(3) == 0 => subject.delete(&name, current.revision).await,
            _ => {
                subject
                    .set(&name, &format!("{name} in round {round}"))
                    .await
            }
        };
        quiet.push(event);
    }
    let last = quiet.last().unwrap().revision;
    for _ in 0..12 {
        let after = quiet[dice.roll(20) as usize].revision;
        let after = Revision(after.0 - dice.roll(2));
        let until = Revision(last.0 - dice.roll(3) * 400);
        let mut asked = request(&subject, "quiet/", after, until);
        asked.bytes_max = [1, 60, usize::MAX][dice.roll(3) as usize];
        let found = all(&subject, asked).await;
        let is_asked = |event: &&Event| event.revision > after && event.revision <= until;
        let expected: Vec<Event> = quiet.iter().filter(is_asked).cloned().collect();
        assert_eq!(outline(&found), outline(&expected), "{after}..={until}");
        for event in &found {
            let before = quiet
                .iter()
                .find(|other| other.revision == event.prev_revision);
            let previous = before.map(|before| before.value.clone());
            assert_eq!(event.previous, previous, "{after}: {}", event.key);
        }
    }
    let everything = request(&subject, "busy/", Revision(first.revision.0), last);
    assert_eq!(all(&subject, everything).await.len(), busy);
}

pub async fn history_before_the_horizon_is_refused_wa_32(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let second = subject.update("pods/ns/a", first.revision, "2").await;
    let third = subject.update("pods/ns/a", second.revision, "3").await;
    subject.engine.compact(second.revision).await.unwrap();
    let late = request(&subject, "pods/", first.revision, third.revision);
    let error = subject.engine.history(late).await;
    assert!(
        matches!(error, Err(EngineError::Compacted { .. })),
        "{error:?}"
    );
    let events = all(
        &subject,
        request(&subject, "pods/", second.revision, third.revision),
    )
    .await;
    assert_eq!(events[0].previous.as_deref(), Some(b"2".as_slice()));
}
