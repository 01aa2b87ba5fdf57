//! The counts of a store, as the metrics page shows them.

use std::sync::Arc;

use actors::engine::{
    Change, DataEngine, Expect, Key, LeaseId, MemoryEngine, Mutation, Origin, Outcome, Prepared,
    Revision,
};
use actors::lessor::{LeaseReuse, LessorHandle};
use actors::object::Decode;
use actors::watch::Everything;
use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::api::object::Object;
use crate::api::version::VersionMatch;
use crate::kinds::definitions::core::configmaps;
use crate::storage::codec::Codec;
use crate::storage::keys::Keys;
use crate::storage::transformer::{Identity, TransformError, Transformer};
use crate::storage::underlying::{StoredDecoder, Underlying};
use crate::storage::{Asked, GetRequest, ListRequest, Storage};

/// A store and what it lies on.
struct Store {
    engine: Arc<MemoryEngine>,
    decoder: Arc<StoredDecoder>,
    storage: Underlying,
}

impl Store {
    fn new(transformer: Arc<dyn Transformer>) -> Store {
        let engine = MemoryEngine::new();
        let codec = Codec::new(configmaps());
        let decoder = StoredDecoder::measured_as("requested.io", "things", codec, transformer);
        let decoder = Arc::new(decoder);
        let keys = Keys::new("/registry", "configmaps").unwrap();
        let lessor = LessorHandle::new(engine.clone(), LeaseReuse::default());
        let storage = Underlying::new(engine.clone(), keys, decoder.clone(), lessor, None);
        Store {
            engine,
            decoder,
            storage,
        }
    }

    async fn list(&self, asked: Asked, is_exact: bool) -> bool {
        let list = self.storage.get_list(ListRequest {
            key: "/configmaps".to_owned(),
            recursive: true,
            asked,
            version_match: is_exact.then_some(VersionMatch::Exact),
            limit: 0,
            continue_token: None,
            predicate: Arc::new(Everything),
        });
        list.await.is_ok()
    }

    async fn get(&self, name: &str) -> bool {
        let key = format!("/configmaps/d/{name}");
        let asked = Asked::Unset;
        let got = self.storage.get(GetRequest { key, asked }).await;
        got.is_ok_and(|object| object.is_some())
    }

    async fn create(&self, name: &str) {
        let mut object = Object::default();
        object.set_type("ConfigMap", "v1");
        object.set_meta("name", name);
        object.set_meta("namespace", "d");
        let key = format!("/configmaps/d/{name}");
        let created = self.storage.create(&key, object.into(), Origin::default());
        created.await.unwrap();
    }

    async fn put(&self, name: &str, value: &'static str) {
        let mutation = Mutation {
            key: key(name),
            expect: Expect::Absent,
            change: Change::Put {
                value: value.into(),
                lease: LeaseId::default(),
            },
            origin: Origin::default(),
            prepared: Prepared::default(),
        };
        let outcome = self.engine.commit(mutation).await.unwrap();
        assert!(matches!(outcome, Outcome::Committed(_)));
    }
}

fn key(name: &str) -> Key {
    Key::new(format!("/registry/configmaps/d/{name}"))
}

/// The page after some work.
fn page(work: impl AsyncFnOnce()) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work()));
    handle.render()
}

/// The value of the one sample of the resource with this name, and operation where given.
fn value(page: &str, name: &str, operation: &str) -> u64 {
    let labels = match operation {
        "" => r#"{group="requested.io",resource="things"} "#.to_owned(),
        operation => {
            format!(r#"{{operation="{operation}",group="requested.io",resource="things"}} "#)
        }
    };
    let sample = format!("{name}{labels}");
    let line = page.lines().find_map(|line| line.strip_prefix(&sample));
    line.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn calls_are_counted_by_what_they_do_me_1_me_2_me_70_st_70_sf_42() {
    let page = page(async || {
        let store = Store::new(Arc::new(Identity));
        store.create("a").await;
        assert!(store.get("a").await);
        assert!(store.list(Asked::Unset, false).await);
        store.storage.current_revision().await.unwrap();
        let unread = store
            .storage
            .delete_unreadable("/configmaps/d/a", Origin::default());
        assert!(!unread.await.unwrap());
    });
    for name in ["etcd_requests_total", "etcd_request_duration_seconds_count"] {
        // The object, the revision, and what was to be deleted unread.
        assert_eq!(value(&page, name, "get"), 3, "{page}");
        assert_eq!(value(&page, name, "list"), 1, "{page}");
        assert_eq!(value(&page, name, "create"), 1, "{page}");
    }
    assert!(!page.contains(r#"resource="configmaps""#), "{page}");
}

#[test]
fn lists_that_fail_are_counted_too_me_14() {
    let page = page(async || {
        let store = Store::new(Arc::new(Identity));
        store.create("a").await;
        assert!(store.list(Asked::Unset, false).await);
        assert!(!store.list(Asked::At(Revision(1 << 40)), true).await);
        store.put("b", "nothing").await;
        assert!(!store.list(Asked::Unset, false).await);
    });
    assert_eq!(
        value(&page, "apiserver_storage_list_total", ""),
        3,
        "{page}"
    );
    let fetched = "apiserver_storage_list_fetched_objects_total";
    assert_eq!(value(&page, fetched, ""), 2, "{page}");
}

/// Has lost its key.
struct Lost;

impl Transformer for Lost {
    fn transform_from_storage(
        &self,
        key: &Key,
        _: &Bytes,
    ) -> Result<(Bytes, bool), TransformError> {
        Err(TransformError {
            key: key.to_string(),
            reason: "no key".to_owned(),
        })
    }

    fn transform_to_storage(&self, _: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError> {
        Ok(Bytes::from(plain))
    }
}

#[test]
fn what_was_decoded_in_vain_is_counted_whoever_asks_me_18() {
    const ERRORS: &str = "apiserver_storage_decode_errors_total";
    let garbage = page(async || {
        let store = Store::new(Arc::new(Identity));
        store.put("b", "nothing").await;
        assert!(!store.get("b").await);
        assert!(!store.list(Asked::Unset, false).await);
        // As feeds, history and watches without a cache do.
        let value = Bytes::from_static(b"nothing");
        assert!(
            store
                .decoder
                .decode(&key("b"), Revision(1), &value)
                .is_err()
        );
        // A cache retries the same value, which must not count again.
        let again = store.decoder.decode_again(&key("b"), Revision(1), &value);
        assert!(again.is_err());
    });
    assert_eq!(value(&garbage, ERRORS, ""), 3, "{garbage}");
    let encrypted = page(async || {
        let store = Store::new(Arc::new(Lost));
        store.put("b", "nothing").await;
        assert!(!store.get("b").await);
        let value = Bytes::from_static(b"nothing");
        assert!(
            store
                .decoder
                .decode(&key("b"), Revision(1), &value)
                .is_err()
        );
    });
    assert_eq!(value(&encrypted, ERRORS, ""), 0, "{encrypted}");
}
