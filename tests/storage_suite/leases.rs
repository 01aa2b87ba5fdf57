//! Objects with a limited lifetime.

use std::rc::Rc;
use std::sync::Arc;

use actors::engine::{At, Key, LeaseId};
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};
use taffrail::api::object::Object;
use taffrail::api::status::Status;
use taffrail::storage::codec::object_of;
use taffrail::storage::{Asked, Current, NewObject, UpdateFunction, WriteDecision};

use crate::harness::*;

const A: &str = "/pods/ns/a";

/// Changes an object and sets its remaining lifetime.
struct ForSeconds<F>(Option<u64>, F);

impl<F: FnMut(Option<Object>) -> Object + Send> UpdateFunction for ForSeconds<F> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        let current = current.object.map(|object| object_of(&object).unwrap());
        let updated = NewObject {
            ttl: self.0,
            ..NewObject::from((self.1)(current))
        };
        async move { Ok(WriteDecision::Write(updated)) }.boxed()
    }
}

async fn create(h: &Harness, name: &str, ttl: Option<u64>) -> Arc<CachedObject> {
    let pod = pod("ns", name);
    let key = key_of(&pod);
    let new = NewObject {
        ttl,
        ..NewObject::from(pod)
    };
    h.storage.create(&key, new, origin()).await.unwrap()
}

async fn update(
    h: &Harness,
    name: &str,
    ttl: Option<u64>,
    change: impl FnMut(Option<Object>) -> Object + Send,
) -> Arc<CachedObject> {
    let mut request = update_of(&format!("/pods/ns/{name}"));
    request.ignore_not_found = true;
    let mut function = ForSeconds(ttl, change);
    let outcome = h.storage.guaranteed_update(request, &mut function).await;
    done(outcome.unwrap())
}

async fn lease(h: &Harness, name: &str) -> LeaseId {
    let key = Key::new(format!("/registry/pods/ns/{name}"));
    let found = h.engine.get(key, At::Latest).await.unwrap();
    found.item.unwrap().lease
}

pub async fn ts_2_wa_23_what_is_created_to_live_a_second_is_deleted_by_itself(h: Rc<Harness>) {
    let created = create(&h, "a", Some(1)).await;
    let kept = create(&h, "kept", Some(0)).await;
    let watch = Watch::below("/pods").after(created.revision);
    let mut stream = h.watch(watch).await.unwrap();
    stream.expect("Added", "ns/kept", kept.revision).await;
    let gone = stream.expect_any("Deleted", "ns/a").await;
    assert!(gone.revision > kept.revision, "a version of its own");
    assert!(h.get(A, Asked::Unset).await.unwrap().is_none());
    assert!(
        h.get("/pods/ns/kept", Asked::Unset)
            .await
            .unwrap()
            .is_some()
    );
}

pub async fn ts_25_wa_23_what_is_updated_to_live_a_second_is_deleted_by_itself(h: Rc<Harness>) {
    let start = create(&h, "a", None).await;
    let changed = update(&h, "a", Some(1), |pod| with_node(pod.unwrap(), "n")).await;
    let made = update(&h, "b", Some(1), |none| {
        assert!(none.is_none());
        pod("ns", "b")
    })
    .await;
    let watch = Watch::below("/pods").after(start.revision);
    let mut stream = h.watch(watch).await.unwrap();
    stream.expect("Modified", "ns/a", changed.revision).await;
    stream.expect("Added", "ns/b", made.revision).await;
    // Which of two leases is ended first is the engine's choice.
    let mut gone = [stream.next().await.unwrap(), stream.next().await.unwrap()];
    assert!(
        gone.iter()
            .all(|seen| seen.kind == "Deleted" && seen.revision > made.revision)
    );
    gone.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(gone.map(|seen| seen.name), ["ns/a", "ns/b"]);
}

pub async fn st_57_pf_5_an_update_without_a_ttl_makes_the_object_permanent(h: Rc<Harness>) {
    create(&h, "a", Some(1)).await;
    update(&h, "a", None, |pod| with_node(pod.unwrap(), "n")).await;
    assert_eq!(lease(&h, "a").await, LeaseId(0));
    create(&h, "b", Some(1)).await;
    update(&h, "b", Some(0), |pod| with_node(pod.unwrap(), "n")).await;
    let last = create(&h, "last", Some(1)).await;
    let watch = Watch::below("/pods").after(last.revision);
    let mut stream = h.watch(watch).await.unwrap();
    stream.expect_any("Deleted", "ns/last").await;
    assert!(stream.is_quiet());
    for key in [A, "/pods/ns/b"] {
        assert!(h.get(key, Asked::Unset).await.unwrap().is_some());
    }
}

pub async fn st_55_pf_5_op_5_an_update_that_changes_nothing_keeps_the_lease(h: Rc<Harness>) {
    let created = create(&h, "a", Some(2)).await;
    let held = lease(&h, "a").await;
    for ttl in [Some(3600), None] {
        let same = update(&h, "a", ttl, |pod| pod.unwrap()).await;
        assert_eq!(same.revision, created.revision);
        assert_eq!(lease(&h, "a").await, held);
    }
    let watch = Watch::below("/pods").after(created.revision);
    let mut stream = h.watch(watch).await.unwrap();
    stream.expect_any("Deleted", "ns/a").await;
}

pub async fn op_1_objects_share_a_lease_and_take_another_when_it_is_gone(h: Rc<Harness>) {
    create(&h, "a", Some(3600)).await;
    let shared = lease(&h, "a").await;
    for name in ["b", "c"] {
        create(&h, name, Some(3600)).await;
        assert_eq!(lease(&h, name).await, shared);
    }
    update(&h, "c", Some(3600), |pod| with_node(pod.unwrap(), "n")).await;
    assert_eq!(lease(&h, "c").await, shared, "OP-4");
    create(&h, "d", Some(60)).await;
    assert_ne!(lease(&h, "d").await, shared);
    create(&h, "e", Some(60)).await;
    let latest = lease(&h, "e").await;
    assert_eq!(lease(&h, "d").await, latest);
    h.engine.revoke(latest).await.unwrap();
    create(&h, "f", Some(60)).await;
    assert_ne!(lease(&h, "f").await, latest);
    assert!(h.get(A, Asked::Unset).await.unwrap().is_some());
}
