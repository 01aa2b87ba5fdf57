//! Rewriting over an engine in memory, during other writes.

use std::path::PathBuf;
use std::time::Duration;

use actors::engine::{
    Change, DataEngine, Engine, Expect, Key, LeaseEngine, LeaseId, MaintenanceEngine, MemoryEngine,
    Mutation, Outcome, Prefix, Prepared, Revision,
};
use actors::lessor::{LeaseReuse, LessorHandle};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::Origin;
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::kinds::definitions::core::configmaps;
use crate::storage::codec::Codec;
use crate::storage::encryption::Encryption;
use crate::storage::keys::Keys;
use crate::storage::transformer::TransformerSource;
use crate::storage::underlying::StoredDecoder;
use crate::storage::underlying::Underlying;
use crate::storage::{Storage, StorageError, StorageErrorKind};

/// More than two pages.
const VALUES: u64 = 1100;

const VALUE: &[u8] = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"}}"#;

/// A store of values that one key has written, and a file of keys.
struct Stage {
    engine: Arc<MemoryEngine>,
    encryption: Encryption,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// A configuration whose providers have these keys, which are as old as their numbers are low.
fn file(keys: &[u8]) -> String {
    let mut text = "kind: EncryptionConfig\napiVersion: v1\nresources:\n\
         - resources: [configmaps]\n  providers:\n"
        .to_owned();
    for key in keys {
        let secret = STANDARD.encode([*key; 32]);
        text += &format!("  - secretbox: {{keys: [{{name: 'k{key}', secret: '{secret}'}}]}}\n");
    }
    text
}

/// The same with providers as they are written, such as `aescbc: {keys: [..]}`.
fn providers(providers: &[String]) -> String {
    let head = file(&[]);
    providers
        .iter()
        .fold(head, |text, one| format!("{text}  - {one}\n"))
}

fn aescbc(name: &str, key: u8) -> String {
    let secret = STANDARD.encode([key; 32]);
    format!("aescbc: {{keys: [{{name: '{name}', secret: '{secret}'}}]}}")
}

impl Stage {
    async fn start() -> Stage {
        Stage::by(&file(&[1])).await
    }

    /// Values that a configuration has written.
    async fn by(text: &str) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("encryption.yaml");
        std::fs::write(&path, text).unwrap();
        let stage = Stage {
            engine: MemoryEngine::new(),
            encryption: Encryption::load(&path).unwrap(),
            path,
            _folder: folder,
        };
        for number in 0..VALUES {
            stage.put(&format!("c{number:05}"), Expect::Absent).await;
        }
        stage
    }

    fn store(&self) -> Underlying {
        let decoder = StoredDecoder::new(
            Codec::new(configmaps()),
            self.encryption.transformer_for("", "configmaps"),
        );
        let keys = Keys::new("/registry", "configmaps").unwrap();
        let engine: Arc<dyn Engine> = self.engine.clone();
        let lessor = LessorHandle::new(engine.clone(), LeaseReuse::default());
        Underlying::new(engine, keys, Arc::new(decoder), lessor, None)
    }

    fn encrypted(&self, name: &str) -> Bytes {
        let key = Key::new(format!("/registry/configmaps/ns/{name}"));
        let transformer = self.encryption.transformer_for("", "configmaps");
        let value = transformer.transform_to_storage(&key, VALUE.to_vec());
        value.unwrap()
    }

    async fn put(&self, name: &str, expect: Expect) -> Outcome {
        let change = Change::Put {
            value: self.encrypted(name),
            lease: LeaseId::default(),
        };
        let key = Key::new(format!("/registry/configmaps/ns/{name}"));
        self.commit(key, expect, change).await
    }

    async fn put_value(&self, key: &str, value: Bytes) {
        let change = Change::Put {
            value,
            lease: LeaseId::default(),
        };
        self.commit(Key::new(key), Expect::Absent, change).await;
    }

    async fn commit(&self, key: Key, expect: Expect, change: Change) -> Outcome {
        let mutation = Mutation {
            key,
            expect,
            change,
            origin: Origin::default(),
            prepared: Prepared::default(),
        };
        self.engine.commit(mutation).await.unwrap()
    }

    fn rewriter(&self) -> Arc<Rewriter> {
        let stores = RewrittenStores::default();
        stores.add(RewrittenStore {
            resource: "configmaps".to_owned(),
            back_end: "base".to_owned(),
            store: self.store().into(),
            custom_version: None,
            engine: self.engine.clone(),
        });
        let rewriter = Rewriter::new(self.encryption.clone(), stores, BTreeMap::new());
        Arc::new(rewriter)
    }

    /// Starts a rewrite of all values.
    fn rewrite_all(&self) -> Receiver<RewriteProgress> {
        self.rewriter()
            .start(Origin::default(), RewrittenValues::All)
    }

    fn newest(&self) -> Revision {
        self.engine.known(&Prefix::new("")).revision
    }
}

async fn last(mut steps: Receiver<RewriteProgress>) -> RewriteProgress {
    let mut last = None;
    let listening = async {
        while let Some(step) = steps.recv().await {
            last = Some(step);
        }
    };
    let listened = tokio::time::timeout(Duration::from_secs(60), listening).await;
    listened.expect("it should end within a minute");
    last.unwrap()
}

/// Asserts that it has read everything and rewritten this many values.
fn assert_done(told: RewriteProgress, rewritten: u64) {
    let RewriteProgress::Done {
        seen,
        rewritten: told_rewritten,
        is_encrypted: true,
        only_versions: false,
        stored_as,
        covered,
        compacted_revision: None,
        reclaimed_bytes: 0,
    } = told
    else {
        panic!("it is not done: {told:?}");
    };
    assert_eq!((seen, told_rewritten), (VALUES, rewritten));
    assert!(stored_as.is_empty());
    let [base] = covered.as_slice() else {
        panic!("{covered:?}");
    };
    assert!(base.revision >= VALUES && base.is_shared, "{base:?}");
    assert_eq!((base.back_end.as_str(), base.resources), ("base", 1));
}

#[tokio::test]
async fn passes_end_with_one_that_finds_nothing_and_the_file_is_read_first_st_56() {
    let stage = Stage::start().await;
    assert_done(last(stage.rewrite_all()).await, 0);
    std::fs::write(&stage.path, file(&[2, 1])).unwrap();
    assert_done(last(stage.rewrite_all()).await, VALUES);
    assert_done(last(stage.rewrite_all()).await, 0);
}

#[tokio::test]
async fn others_may_compact_and_write_meanwhile() {
    let stage = Arc::new(Stage::start().await);
    std::fs::write(&stage.path, file(&[2, 1])).unwrap();
    let other = stage.clone();
    let meddling = tokio::spawn(async move {
        for number in 0.. {
            let name = format!("c{:05}", number * 7 % VALUES);
            let key = Key::new(format!("/registry/configmaps/ns/{name}"));
            let found = other
                .engine
                .get(key, actors::engine::At::Latest)
                .await
                .unwrap();
            let revision = found.item.unwrap().revision;
            other.put(&name, Expect::Unchanged(revision)).await;
            other.engine.compact(other.newest()).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let told = last(stage.rewrite_all()).await;
    meddling.abort();
    assert!(
        matches!(told, RewriteProgress::Done { seen: VALUES, .. }),
        "{told:?}"
    );
    assert_done(last(stage.rewrite_all()).await, 0);
}

#[tokio::test]
async fn what_can_not_be_read_keeps_the_old_keys_and_all_else_is_rewritten() {
    let stage = Stage::start().await;
    let lost = Bytes::from_static(b"k8s:enc:secretbox:v1:lost:payload");
    stage.put_value("/registry/configmaps/ns/lost", lost).await;
    std::fs::write(&stage.path, file(&[2, 1])).unwrap();
    let RewriteProgress::Failed { reason, unreadable } = last(stage.rewrite_all()).await else {
        panic!("it is not done");
    };
    assert!(
        reason.starts_with("1 values can't be read by any key"),
        "{reason}"
    );
    assert_eq!(unreadable.len(), 1);
    assert!(
        unreadable[0].contains("/registry/configmaps/ns/lost"),
        "{unreadable:?}"
    );
    assert_eq!(stage.newest(), Revision(2 * VALUES + 1));
}

fn is_internal(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::Internal(_))
}

/// Of 256 wrong keys of aescbc one decrypts to something.
#[tokio::test]
async fn wrong_keys_of_aescbc_lose_certify_and_delete_nothing_en_7_st_46() {
    let stage = Stage::by(&providers(&[aescbc("k1", 1)])).await;
    let newest = stage.newest();
    for wrong in [
        // A new key before one with a wrong secret, and a wrong secret alone.
        providers(&[aescbc("k2", 2), aescbc("k1", 3)]),
        providers(&[aescbc("k1", 4)]),
    ] {
        std::fs::write(&stage.path, wrong).unwrap();
        let told = last(stage.rewrite_all()).await;
        let RewriteProgress::Failed { reason, .. } = told else {
            panic!("it is not done: {told:?}");
        };
        let expected = format!("{VALUES} values can't be read by any key");
        assert!(reason.starts_with(&expected), "{reason}");
        let store = stage.store();
        for number in 0..VALUES {
            let key = format!("/configmaps/ns/c{number:05}");
            let deleted = store.delete_unreadable(&key, Origin::default()).await;
            let refused = deleted.unwrap_err();
            assert!(is_internal(&refused), "{refused:?}");
        }
        assert_eq!(stage.newest(), newest);
    }
    // A wrong secret before the right one of the same name.
    let both = [aescbc("k2", 2), aescbc("k1", 3), aescbc("k1", 1)];
    std::fs::write(&stage.path, providers(&both)).unwrap();
    assert_done(last(stage.rewrite_all()).await, VALUES);
}

#[tokio::test]
async fn what_no_served_resource_has_keeps_its_keys() {
    let stage = Stage::start().await;
    let values = [
        ("/registry/a", "k8s:enc:secretbox:v1:k1:payload"),
        (
            "/registry/configmapsets/ns/a",
            "k8s:enc:aesgcm:v1:k1:payload",
        ),
        ("/registry/zebras/a", "{}"),
        ("/elsewhere/a", "k8s:enc:secretbox:v1:k1:payload"),
    ];
    for (key, value) in values {
        stage
            .put_value(key, Bytes::from_static(value.as_bytes()))
            .await;
    }
    let told = last(stage.rewrite_all()).await;
    let RewriteProgress::Failed { reason, unreadable } = told else {
        panic!("it is not done: {told:?}");
    };
    let expected = "2 encrypted values belong to no resource that is served, such as /registry/a: ";
    assert!(reason.starts_with(expected), "{reason}");
    assert!(unreadable.is_empty());
}

#[tokio::test]
async fn what_an_old_key_encrypted_and_is_still_on_its_way_is_waited_for_st_56() {
    let stage = Stage::start().await;
    let transformer = stage.encryption.transformer_for("", "configmaps");
    let hold = transformer.hold();
    let key = "/registry/configmaps/ns/late";
    let value = transformer.transform_to_storage(&Key::new(key), VALUE.to_vec());
    std::fs::write(&stage.path, file(&[2, 1])).unwrap();
    let mut steps = stage.rewrite_all();
    let told = tokio::time::timeout(Duration::from_millis(300), steps.recv()).await;
    assert!(told.is_err(), "it has begun too early: {told:?}");
    stage.put_value(key, value.unwrap()).await;
    drop(hold);
    let told = last(steps).await;
    assert!(
        matches!(told, RewriteProgress::Done { rewritten, .. } if rewritten == VALUES + 1),
        "{told:?}"
    );
}

/// Long enough for the value to be stored in time on a busy machine.
const LEASE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn what_has_outlived_its_lease_is_waited_for_until_it_is_deleted_st_57() {
    let stage = Stage::start().await;
    let lease = stage.engine.grant(LEASE).await.unwrap();
    let (key, old) = (
        Key::new("/registry/configmaps/ns/dying"),
        stage.encrypted("dying"),
    );
    let change = Change::Put {
        value: old,
        lease: lease.id,
    };
    stage.commit(key, Expect::Absent, change).await;
    tokio::time::sleep(LEASE * 2).await;
    std::fs::write(&stage.path, file(&[2, 1])).unwrap();
    let steps = stage.rewrite_all();
    let engine = stage.engine.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        engine.expire().await.unwrap();
    });
    assert_done(last(steps).await, VALUES);
}

#[tokio::test]
async fn who_goes_away_stops_it_and_who_comes_back_goes_on() {
    let stage = Stage::start().await;
    std::fs::write(&stage.path, file(&[2, 1])).unwrap();
    let mut steps = stage.rewrite_all();
    steps.recv().await.unwrap();
    drop(steps);
    let RewriteProgress::Done { rewritten, .. } = last(stage.rewrite_all()).await else {
        panic!("it is done");
    };
    assert!(rewritten < VALUES, "{rewritten}");
}
