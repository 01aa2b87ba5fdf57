//! Updates that start from a state that is not durable yet (docs/design.md 6).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actors::engine::{EngineError, Key};
use actors::object::CachedObject;
use actors::writer::Turn;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use taffrail::api::object::Object;
use taffrail::api::status::Status;
use taffrail::storage::codec::object_of;
use taffrail::storage::{StorageError, StorageErrorKind, UpdateRequest, VersionUse};
use tokio::task::JoinHandle;

use crate::harness::{Harness, pod, update_of, with_node};

const A: &str = "/pods/ns/a";

/// The turn of the pod. While it is held, updates wait in the order in which they came.
async fn turn(h: &Harness) -> Turn {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let key = Key::new("/registry/pods/ns/a");
    h.writers.turn(&key, deadline).await.unwrap()
}

fn node(object: &Object) -> String {
    let spec = object.0.get("spec");
    spec.map_or_else(String::new, |spec| {
        spec["nodeName"].as_str().unwrap().to_owned()
    })
}

type Function = Box<dyn FnMut(Object) -> Result<Object, Box<Status>> + Send>;

/// A running update, which counts the calls of its function.
struct Running {
    calls: Arc<AtomicUsize>,
    answer: JoinHandle<Result<Arc<CachedObject>, StorageError>>,
}

impl Running {
    fn start(h: &Rc<Harness>, version: VersionUse, mut function: Function) -> Running {
        let calls = Arc::new(AtomicUsize::new(0));
        let (h, counted) = (h.clone(), calls.clone());
        let answer = tokio::task::spawn_local(async move {
            let request = UpdateRequest {
                version,
                ..update_of(A)
            };
            let update = h.update_with(request, |current| {
                counted.fetch_add(1, Ordering::SeqCst);
                function(current.unwrap())
            });
            update.await
        });
        Running { calls, answer }
    }

    /// An update that appends to `spec.nodeName`.
    fn append(h: &Rc<Harness>, text: &'static str) -> Running {
        let append = move |object: Object| {
            let node = node(&object) + text;
            Ok(with_node(object, &node))
        };
        Running::start(h, VersionUse::Ignores, Box::new(append))
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn was_called(&self) {
        while self.calls() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn end(self) -> BoxFuture<'static, Result<Arc<CachedObject>, StorageError>> {
        self.answer.map(Result::unwrap).boxed()
    }
}

/// Lets everything run that does not wait.
async fn pass() {
    tokio::time::sleep(Duration::from_millis(30)).await;
}

pub async fn st_58_updates_build_on_what_is_not_durable_yet_and_lose_nothing(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let (held, turn) = (h.faults.hold_commits().await, turn(&h).await);
    let mut updates = Vec::new();
    for text in ["a", "b", "c", "d"] {
        updates.push(Running::append(&h, text));
        pass().await;
    }
    drop(turn);
    for update in &updates {
        update.was_called().await;
    }
    assert!(updates.iter().all(|update| !update.answer.is_finished()));
    drop(held);
    let answers = join_all(updates.into_iter().map(Running::end)).await;
    let mut last = h
        .get(A, taffrail::storage::Asked::Unset)
        .await
        .unwrap()
        .unwrap();
    for (answer, nodes) in answers.into_iter().zip(["a", "ab", "abc", "abcd"]).rev() {
        let answer = answer.unwrap();
        let object = object_of(&answer).unwrap();
        assert_eq!(node(&object), nodes);
        assert_eq!(
            object.meta("resourceVersion"),
            answer.revision.to_string(),
            "ST-59"
        );
        assert!(answer.revision <= last.revision);
        last = answer;
    }
}

pub async fn st_53_an_end_without_a_write_waits_until_its_state_is_durable(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let (held, turn) = (h.faults.hold_commits().await, turn(&h).await);
    let first = Running::append(&h, "a");
    pass().await;
    let no_op = Running::start(&h, VersionUse::Ignores, Box::new(Ok));
    pass().await;
    let refusal = Running::start(
        &h,
        VersionUse::Ignores,
        Box::new(|object| match node(&object).as_str() {
            "" => Ok(object),
            other => Err(Box::new(Status::bad_request(other))),
        }),
    );
    pass().await;
    drop(turn);
    no_op.was_called().await;
    pass().await;
    assert!(!no_op.answer.is_finished() && !refusal.answer.is_finished());
    drop(held);
    let first = first.end().await.unwrap();
    assert_eq!(no_op.end().await.unwrap(), first);
    let refused = refusal.end().await.unwrap_err().kind;
    assert!(
        matches!(refused, StorageErrorKind::Refused(_)),
        "{refused:?}"
    );
}

pub async fn st_58_a_failed_commit_takes_its_successors_back_to_the_durable_state(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let (held, turn) = (h.faults.hold_commits().await, turn(&h).await);
    let mut updates = Vec::new();
    for text in ["a", "b", "c"] {
        updates.push(Running::append(&h, text));
        pass().await;
    }
    // Computed from a state that never comes to be.
    updates.push(Running::start(
        &h,
        VersionUse::Ignores,
        Box::new(|object| match node(&object).contains('a') {
            true => Err(Box::new(Status::bad_request("a"))),
            false => Ok(object),
        }),
    ));
    pass().await;
    drop(turn);
    for update in &updates {
        update.was_called().await;
    }
    h.faults
        .fail_next_commit(EngineError::OutOfSpace("told to fail".to_owned()));
    drop(held);
    let answers = join_all(updates.into_iter().map(Running::end)).await;
    let [first, second, third, last] = answers.try_into().unwrap();
    assert!(matches!(
        first.unwrap_err().kind,
        StorageErrorKind::Unavailable(..)
    ));
    let (second, third) = (second.unwrap(), third.unwrap());
    let newest = [&second, &third].into_iter().max_by_key(|it| it.revision);
    let mut nodes: Vec<char> = node(&object_of(newest.unwrap()).unwrap()).chars().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ['b', 'c']);
    last.unwrap();
}

pub async fn api_102_an_update_of_one_version_neither_waits_nor_builds_on_others(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let (held, turn) = (h.faults.hold_commits().await, turn(&h).await);
    let first = Running::append(&h, "a");
    pass().await;
    drop(turn);
    first.was_called().await;
    // Neither a turn nor a commit keeps it from being refused.
    let stale = Running::start(
        &h,
        VersionUse::Names,
        Box::new(|_| Err(Box::new(Status::bad_request("stale")))),
    );
    let refused = stale.end().await.unwrap_err().kind;
    assert!(
        matches!(refused, StorageErrorKind::Refused(_)),
        "{refused:?}"
    );
    assert!(!first.answer.is_finished());
    // It must know the version, so it waits for it.
    let reading = Running::start(
        &h,
        VersionUse::Reads,
        Box::new(|object| {
            let version = object.meta("resourceVersion").to_owned();
            Ok(with_node(object, &version))
        }),
    );
    pass().await;
    assert_eq!(reading.calls(), 0);
    drop(held);
    let first = first.end().await.unwrap();
    assert!(first.revision > created.revision);
    let read = object_of(&reading.end().await.unwrap()).unwrap();
    assert_eq!(node(&read), first.revision.to_string());
}
