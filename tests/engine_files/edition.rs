//! The edition of a store's values: the row of `meta` that says which edition of the program might
//! have written all of them (`FORMAT.md`).

use std::path::Path;
use std::sync::Arc;

use actors::engine::{Engine, Expect, MaintenanceEngine, Revision};
use redb::{Database, ReadableDatabase};
use taffrail::storage::embedded::EmbeddedEngine;

use crate::golden::META;
use crate::history_script::Clock;
use crate::restart::{committed, put};

fn open(directory: &Path, edition: Option<u32>) -> Arc<EmbeddedEngine> {
    let mut options = Clock::default().options(directory);
    options.edition = edition;
    EmbeddedEngine::open(options).unwrap()
}

/// The row of a store that no engine has.
fn row(directory: &Path) -> Option<Vec<u8>> {
    let database = Database::open(directory.join("events.redb")).unwrap();
    let meta = database.begin_read().unwrap().open_table(META).unwrap();
    let row = meta.get("edition").unwrap();
    row.map(|row| row.value().to_vec())
}

const FIRST: Revision = Revision(1);

/// KV-31.
#[tokio::test]
async fn a_store_knows_the_edition_of_its_values_until_another_one_opens_it_kv_31() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let engine = open(directory, Some(7));
    committed(&engine, put("a", Expect::Absent, "1")).await;
    assert!(!engine.may_be_of_other_edition(FIRST));
    engine.close().await;
    assert_eq!(
        row(directory).unwrap(),
        [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );

    // A program without an edition knows nothing of it, and leaves it.
    let engine = open(directory, None);
    engine.close().await;
    let engine = open(directory, Some(7));
    assert!(!engine.may_be_of_other_edition(FIRST));
    engine.close().await;

    // What another one writes is of another edition for both.
    let engine = open(directory, Some(8));
    assert!(engine.may_be_of_other_edition(FIRST));
    engine.close().await;
    assert_eq!(row(directory), None);
    let engine = open(directory, Some(7));
    let second = committed(&engine, put("a", Expect::Unchanged(FIRST), "2")).await;
    assert!(engine.may_be_of_other_edition(second));
    engine.close().await;
}

/// KV-31.
#[tokio::test]
async fn an_edition_that_is_noted_holds_for_what_is_not_superseded_kv_31() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    open(directory, None).close().await;
    assert_eq!(row(directory), None);
    let engine = open(directory, Some(7));
    let first = committed(&engine, put("a", Expect::Absent, "1")).await;
    let second = committed(&engine, put("a", Expect::Unchanged(first), "2")).await;
    assert!(engine.may_be_of_other_edition(second));
    let future = engine.note_edition(second.next()).await;
    assert!(future.is_err(), "{future:?}");

    engine.note_edition(second).await.unwrap();
    let third = committed(&engine, put("a", Expect::Unchanged(second), "3")).await;
    let of_others = |engine: &EmbeddedEngine| {
        [first, second, third].map(|it| engine.may_be_of_other_edition(it))
    };
    // The history before it may be of others.
    assert_eq!(of_others(&engine), [true, true, false]);
    engine.close().await;
    assert_eq!(
        row(directory).unwrap(),
        [7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
    );
    let engine = open(directory, Some(7));
    assert_eq!(of_others(&engine), [true, true, false]);
    // Noted again it stays.
    engine.note_edition(third).await.unwrap();
    assert_eq!(of_others(&engine), [true, true, false]);
    engine.compact(second).await.unwrap();
    assert_eq!(of_others(&engine), [false; 3]);

    // A copy of the store has the row.
    while engine.purge().await.unwrap().more {}
    assert_eq!(of_others(&engine), [false; 3]);
    engine.close().await;
    assert!(row(directory).is_some());
}
