use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, Change, DataEngine, Event, Expect, ExportItem, Key, LeaseEngine, LeaseId,
    MaintenanceEngine, MemoryEngine, Mutation, Origin, Outcome, Prefix, Prepared, RangeRequest,
    Revision,
};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;

type Item2 = (Revision, bytes::Bytes);

/// An engine whose clock advances by a second at each look at it, from 1970 on.
fn engine() -> Arc<MemoryEngine> {
    let seconds = Mutex::new(0);
    MemoryEngine::with_clock(Arc::new(move || {
        let mut seconds = seconds.lock();
        *seconds += 1;
        SystemTime::UNIX_EPOCH + Duration::from_secs(*seconds)
    }))
}

async fn change(engine: &MemoryEngine, key: &str, value: Option<&str>, lease: LeaseId) -> Event {
    let key = Key::new(format!("/registry/{key}"));
    let item = engine.get(key.clone(), At::Latest).await.unwrap().item;
    let expect = item.map_or(Expect::Absent, |item| Expect::Unchanged(item.revision));
    let change = match value {
        Some(value) => Change::Put {
            value: value.to_owned().into(),
            lease,
        },
        None => Change::Delete,
    };
    let mutation = Mutation {
        key,
        expect,
        change,
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    match engine.commit(mutation).await.unwrap() {
        Outcome::Committed(event) => event,
        refused @ Outcome::Refused { .. } => panic!("{refused:?}"),
    }
}

async fn put(engine: &MemoryEngine, key: &str, value: &str) -> Event {
    change(engine, key, Some(value), LeaseId::default()).await
}

async fn state(engine: &dyn DataEngine) -> Vec<(String, String)> {
    let request = RangeRequest {
        prefix: Prefix::new("/registry/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let items = engine.range(request).await.unwrap().items.into_iter();
    let text = |item: actors::engine::KeyValue| {
        let value = String::from_utf8(item.value.to_vec()).unwrap();
        (item.key.to_string(), value)
    };
    items.map(text).collect()
}

async fn backup(engine: Arc<MemoryEngine>) -> Vec<u8> {
    let source = BackupSource::new(engine, "/registry/".to_owned(), "a test".to_owned());
    let mut pieces = source.begin().unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.recv().await {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

/// Takes bytes apart that arrive in pieces of this length.
fn decode(bytes: &[u8], piece: usize) -> Result<(Vec<Item2>, Summary), DecodeError> {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        while let Some(item) = decoder.next_item()? {
            if let Item::Event { revision, record } = item {
                events.push((revision, record));
            }
        }
    }
    Ok((events, decoder.finish()?))
}

fn revision_of(bytes: &[u8], point: Point) -> Result<Revision, PointError> {
    let (events, summary) = decode(bytes, 1 << 20).unwrap();
    let mut points = Points::new(&summary, point)?;
    for (revision, record) in &events {
        points.see(*revision, record)?;
    }
    points.finish()
}

fn at(seconds: u64) -> Point {
    Point::Time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Three objects with history: five events, of the seconds 1 to 5.
async fn small() -> Arc<MemoryEngine> {
    let engine = engine();
    put(&engine, "configmaps/d/a", "1").await;
    put(&engine, "configmaps/d/b", "1").await;
    put(&engine, "configmaps/d/a", "2").await;
    change(&engine, "configmaps/d/b", None, LeaseId::default()).await;
    put(&engine, "configmaps/d/c", "1").await;
    engine
}

#[tokio::test]
async fn a_backup_holds_all_events_whatever_pieces_it_comes_in() {
    let bytes = backup(small().await).await;
    for piece in [1, 2, 7, 64, 4096] {
        let (events, summary) = decode(&bytes, piece).unwrap();
        let revisions: Vec<u64> = events.iter().map(|(revision, _)| revision.0).collect();
        assert_eq!(revisions, [1, 2, 3, 4, 5]);
        assert_eq!((summary.revision, summary.compacted), (5, 0));
    }
}

#[tokio::test]
async fn any_cut_and_any_change_of_a_byte_is_noticed() {
    let bytes = backup(small().await).await;
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length], 4096).is_err(), "cut at {length}");
    }
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        assert!(decode(&changed, 4096).is_err(), "changed at {place}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let refused = decode(&longer, 4096).unwrap_err();
    assert_eq!(refused, DecodeError::Long(bytes.len() as u64));
}

#[tokio::test]
async fn points_are_found_by_revision_and_by_time() {
    let engine = small().await;
    let times: Vec<u64> = {
        let mut export = engine.export();
        let Ok(ExportItem::Events(events)) = export.next().await else {
            panic!("no events");
        };
        let since = |event: &Event| event.time.duration_since(SystemTime::UNIX_EPOCH);
        events
            .iter()
            .map(|event| since(event).unwrap().as_secs())
            .collect()
    };
    engine.compact(Revision(2)).await.unwrap();
    while engine.maintain(true).await.unwrap().more {}
    let bytes = backup(engine).await;
    assert_eq!(revision_of(&bytes, Point::Newest), Ok(Revision(5)));
    assert_eq!(
        revision_of(&bytes, Point::Revision(Revision(2))),
        Ok(Revision(2))
    );
    assert_eq!(
        revision_of(&bytes, Point::Revision(Revision(4))),
        Ok(Revision(4))
    );
    for outside in [1, 6] {
        let refused = revision_of(&bytes, Point::Revision(Revision(outside)));
        let text = refused.unwrap_err().to_string();
        assert_eq!(
            text,
            format!("revision {outside} is not in it: it holds revisions 2 to 5")
        );
    }
    assert_eq!(revision_of(&bytes, at(times[3])), Ok(Revision(4)));
    assert_eq!(revision_of(&bytes, at(times[3] - 1)), Ok(Revision(3)));
    assert_eq!(revision_of(&bytes, at(times[4] + 1000)), Ok(Revision(5)));
    let refused = revision_of(&bytes, at(0)).unwrap_err();
    assert!(matches!(refused, PointError::TooEarly(_)), "{refused}");
}

#[tokio::test]
async fn a_state_is_put_into_another_engine_with_what_its_leases_have_left() {
    let engine = MemoryEngine::new();
    put(&engine, "configmaps/d/a", "old").await;
    put(&engine, "configmaps/d/a", "new").await;
    put(&engine, "configmaps/d/gone", "1").await;
    change(&engine, "configmaps/d/gone", None, LeaseId::default()).await;
    let lease = engine.grant(Duration::from_secs(500)).await.unwrap();
    let last = change(&engine, "events/d/e", Some("1"), lease.id).await;
    put(&engine, "configmaps/d/later", "1").await;
    let (events, summary) = decode(&backup(engine).await, 4096).unwrap();

    let other = MemoryEngine::new();
    let leases = summary.leases();
    let mut into = IntoEngine::begin(other.clone(), "/registry", last.revision, &leases)
        .await
        .unwrap();
    events
        .iter()
        .for_each(|(revision, record)| into.see(*revision, record).unwrap());
    for (revision, record) in &events {
        into.write(*revision, record).await.unwrap();
    }
    assert_eq!(into.finish().await.unwrap(), (2, Revision(2)));
    let wanted = [
        ("/registry/configmaps/d/a", "new"),
        ("/registry/events/d/e", "1"),
    ];
    let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(state(&*other).await, wanted);
    let Ok(ExportItem::End(end)) = (async {
        let mut export = other.export();
        export.next().await.unwrap();
        export.next().await
    })
    .await
    else {
        panic!("no end");
    };
    let left = end.leases[0]
        .deadline
        .duration_since(SystemTime::now())
        .unwrap();
    assert!((400..=500).contains(&left.as_secs()), "{left:?}");

    let refused = IntoEngine::begin(other, "/registry", last.revision, &leases).await;
    let refused = refused.err().unwrap().to_string();
    assert!(
        refused.contains("holds keys below /registry already"),
        "{refused}"
    );
}

/// The revisions in the header of a backup must be those of its records.
#[test]
fn records_that_are_missing_or_in_another_place_are_noticed() {
    let summary: Summary =
        serde_json::from_str(r#"{"revision": 3, "compacted": 1, "events": 2, "leases": []}"#)
            .unwrap();
    let record = |revision| {
        let event = Event {
            revision: Revision(revision),
            key: Key::new("/a"),
            kind: actors::engine::EventKind::Put,
            value: bytes::Bytes::new(),
            create_revision: Revision(1),
            prev_revision: Revision(0),
            version: 1,
            lease: LeaseId::default(),
            time: SystemTime::UNIX_EPOCH,
            origin: Origin::default(),
            prepared: Prepared::default(),
            previous: None,
        };
        crate::storage::embedded::record::encode(&event).unwrap()
    };
    let mut points = Points::new(&summary, Point::Newest).unwrap();
    points.see(Revision(2), &record(2)).unwrap();
    assert!(matches!(points.finish(), Err(PointError::Short { .. })));
    let mut points = Points::new(&summary, Point::Newest).unwrap();
    let hole = points.see(Revision(3), &record(3));
    assert!(matches!(hole, Err(PointError::Order { .. })), "{hole:?}");
    let other = points.see(Revision(2), &record(3));
    assert!(matches!(other, Err(PointError::Damaged(..))), "{other:?}");
}

proptest! {
    /// Bytes of anybody neither panic nor take memory that they only claim to need.
    #[test]
    fn any_bytes_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        begins in any::<bool>(),
    ) {
        let mut all = Vec::new();
        if begins {
            all.extend_from_slice(MAGIC);
        }
        all.extend(bytes);
        prop_assert!(decode(&all, 13).is_err());
    }

    /// Frames of known kinds with any content.
    #[test]
    fn any_frames_are_refused(
        frames in prop::collection::vec(
            (0u8..6, prop::collection::vec(any::<u8>(), 0..40)),
            0..8,
        ),
    ) {
        let mut all = MAGIC.to_vec();
        for (kind, content) in frames {
            all.push(kind);
            all.extend_from_slice(&(content.len() as u32).to_le_bytes());
            all.extend(content);
        }
        prop_assert!(decode(&all, 4096).is_err());
    }
}
