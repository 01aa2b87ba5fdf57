//! Dry runs: every check runs, and nothing is stored.

use std::rc::Rc;

use actors::engine::Revision;
use taffrail::storage::codec::object_of;
use taffrail::storage::{
    Asked, DeleteRequest, GetRequest, Preconditions, StorageErrorKind, UpdateRequest,
    ValidateDeletion, WriteDecision,
};

use crate::harness::*;

struct Fine;

impl ValidateDeletion for Fine {
    fn call(
        &mut self,
        _: &std::sync::Arc<actors::object::CachedObject>,
    ) -> futures_util::future::BoxFuture<
        '_,
        Result<WriteDecision<()>, Box<taffrail::api::status::Status>>,
    > {
        Box::pin(std::future::ready(Ok(WriteDecision::Write(()))))
    }
}

pub async fn st_80_create(h: Rc<Harness>) {
    let before = h.revision().await;
    let answer = h
        .dry
        .create("/pods/ns/a", pod("ns", "a").into(), origin())
        .await
        .unwrap();
    assert_eq!(answer.revision, Revision::ZERO);
    assert_eq!(object_of(&answer).unwrap().resource_version(), "");
    assert!(h.get("/pods/ns/a", Asked::Unset).await.unwrap().is_none());
    h.create(&pod("ns", "a")).await;
    let exists = h
        .dry
        .create("/pods/ns/a", pod("ns", "a").into(), origin())
        .await;
    assert!(matches!(kind(exists), StorageErrorKind::KeyExists));
    assert_eq!(h.revision().await, before.next());
}

pub async fn st_81_delete(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let request = |preconditions: Preconditions, name: &str| DeleteRequest {
        key: format!("/pods/ns/{name}"),
        preconditions,
        suggestion: None,
        origin: origin(),
    };
    let answer = h
        .dry
        .delete(request(uid("uid-a"), "a"), &mut Fine)
        .await
        .unwrap();
    assert_eq!(done(answer), created, "as read, at its own version");
    let wrong = h.dry.delete(request(uid("x"), "a"), &mut Fine).await;
    assert!(matches!(kind(wrong), StorageErrorKind::InvalidObject(_)));
    let missing = h
        .dry
        .delete(request(Preconditions::default(), "none"), &mut Fine)
        .await;
    assert!(matches!(kind(missing), StorageErrorKind::KeyNotFound));
    assert_eq!(
        h.get("/pods/ns/a", Asked::Unset).await.unwrap().unwrap(),
        created
    );
}

pub async fn st_82_update(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut calls = 0;
    let mut update = Update(|current: Option<taffrail::api::object::Object>| {
        calls += 1;
        Ok(with_node(current.unwrap(), "dry"))
    });
    let answer = h
        .dry
        .guaranteed_update(update_of("/pods/ns/a"), &mut update)
        .await
        .map(done)
        .unwrap();
    assert_eq!(answer.revision, created.revision, "the old version");
    assert_eq!(
        object_of(&answer).unwrap().text(&["spec", "nodeName"]),
        "dry"
    );
    let wrong = UpdateRequest {
        preconditions: uid("x"),
        ..update_of("/pods/ns/a")
    };
    let refused = h.dry.guaranteed_update(wrong, &mut update).await;
    assert!(matches!(kind(refused), StorageErrorKind::InvalidObject(_)));
    let missing = h
        .dry
        .guaranteed_update(update_of("/pods/ns/none"), &mut update)
        .await;
    assert!(matches!(kind(missing), StorageErrorKind::KeyNotFound));
    assert_eq!(calls, 1, "once, and not at all when a check fails before");
    assert_eq!(
        h.get("/pods/ns/a", Asked::Unset).await.unwrap().unwrap(),
        created
    );
}

pub async fn st_83_reads_are_what_they_are(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let got = h.dry.get(GetRequest {
        key: "/pods/ns/a".to_owned(),
        asked: Asked::Unset,
    });
    assert_eq!(got.await.unwrap(), Some(created.clone()));
    let list = h.dry.get_list(List::below("/pods").0).await.unwrap();
    assert_eq!(list.items, [created]);
    assert_eq!(h.dry.stats().await.unwrap().object_count, 1);
    assert_eq!(h.dry.current_revision().await.unwrap(), h.revision().await);
}
