//! How a child of each kind is started and stopped, and what happens when it ends.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Context, Handler, Message};
use actix_rt::ArbiterHandle;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::child::{ActorKind, Child, ChildIds};
use super::child_statuses::ChildStatuses;
use super::config::StoreSpec;
use super::policy::RecentExits;
use crate::actor_ref::{ActorRef, AskError};
use crate::cacher::{self, Cacher, WatchCache};
use crate::compactor::{self, Compactor};
use crate::exit::{ChildId, ExitGuard};
use crate::lessor::{self, Lessor, LessorHandle};
use crate::reflector::{self, Reflector, Source};
use crate::writer::{self, Writer};

/// The context for creating children: ids, threads to run them on, and the list of their statuses.
#[derive(Clone)]
pub(super) struct ChildContext {
    pub(super) ids: Arc<ChildIds>,
    pub(super) arbiters: Arc<[ArbiterHandle]>,
    pub(super) statuses: ChildStatuses,
}

/// How long a child may take to answer that it stops.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// A child whose reference is cleared when it ends. Nothing else is done then.
fn child<A, M>(
    id: ChildId,
    kind: ActorKind,
    name: &str,
    actor_ref: &Arc<ActorRef<A>>,
    stop: fn() -> M,
    start: impl Fn(ExitGuard) -> actix::Addr<A> + Send + 'static,
) -> Child
where
    A: Actor<Context = Context<A>> + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    let (filled, cleared, stopped) = (
        Arc::clone(actor_ref),
        Arc::clone(actor_ref),
        Arc::clone(actor_ref),
    );
    let name = format!("{}/{name}", kind.name());
    Child {
        id,
        kind,
        name: name.clone(),
        factory: Box::new(move |exit| filled.set(start(exit))),
        on_exit: Box::new(move |_| cleared.clear()),
        stop: Arc::new(move || stop_actor(name.clone(), Arc::clone(&stopped), stop())),
        incarnation: 0,
        is_running: false,
        recent_exits: RecentExits::default(),
        removal: None,
    }
}

/// Stops an actor. One that is gone or does not answer must not delay the others for long.
fn stop_actor<A, M>(name: String, actor_ref: Arc<ActorRef<A>>, message: M) -> BoxFuture<'static, ()>
where
    A: Actor<Context = Context<A>> + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    async move {
        // The Supervisor learns of the end from the exit report, and of one that is gone too.
        let stopped = actor_ref.ask(message, Instant::now() + STOP_WITHIN).await;
        if stopped == Err(AskError::Deadline) {
            tracing::warn!(
                actor = name,
                "does not stop within 2 seconds; the others are stopped"
            );
        }
    }
    .boxed()
}

/// A Cacher. When it ends, its watch cache is abandoned at once.
pub(super) fn cacher(
    id: ChildId,
    arbiter: ArbiterHandle,
    watch_cache: Arc<WatchCache>,
    actor_ref: &Arc<ActorRef<Cacher>>,
) -> Child {
    let abandoned = Arc::clone(&watch_cache);
    let cleared = Arc::clone(actor_ref);
    let mut child = child(
        id,
        ActorKind::Cacher,
        &watch_cache.resource.clone(),
        actor_ref,
        || cacher::messages::Stop,
        move |exit| {
            let watch_cache = Arc::clone(&watch_cache);
            Cacher::start_in_arbiter(&arbiter, move |_| Cacher::new(watch_cache, exit))
        },
    );
    child.on_exit = Box::new(move |reason| {
        cleared.clear();
        abandoned.abandon(Some(format!("the cacher died: {reason}")));
    });
    child
}

/// A Reflector.
pub(super) fn reflector(
    id: ChildId,
    arbiter: ArbiterHandle,
    source: Source,
    actor_ref: &Arc<ActorRef<Reflector>>,
) -> Child {
    let name = source.resource.clone();
    let source = Arc::new(source);
    child(
        id,
        ActorKind::Reflector,
        &name,
        actor_ref,
        || reflector::messages::Stop,
        move |exit| {
            let source = Arc::clone(&source);
            Reflector::start_in_arbiter(&arbiter, move |_| Reflector::new(source, exit))
        },
    )
}

/// A shard of the Writers. When it ends, everybody who waits for a turn gets an error, and the
/// next incarnation begins without any turns.
pub(super) fn writer(
    id: ChildId,
    arbiter: ArbiterHandle,
    number: usize,
    actor_ref: &Arc<ActorRef<Writer>>,
) -> Child {
    child(
        id,
        ActorKind::Writer,
        &number.to_string(),
        actor_ref,
        || writer::messages::Stop,
        move |exit| Writer::start_in_arbiter(&arbiter, move |_| Writer::new(exit)),
    )
}

/// The Compactor of a store.
pub(super) fn compactor(
    id: ChildId,
    arbiter: ArbiterHandle,
    store: StoreSpec,
    actor_ref: &Arc<ActorRef<Compactor>>,
) -> Child {
    child(
        id,
        ActorKind::Compactor,
        &store.name.clone(),
        actor_ref,
        || compactor::messages::Stop,
        move |exit| {
            let store = store.clone();
            Compactor::start_in_arbiter(&arbiter, move |_| {
                Compactor::new(store.name, store.engine, store.retention, exit)
            })
        },
    )
}

/// The Lessor of a store. The state of its leases is in the handle and outlives the actor.
pub(super) fn lessor(
    id: ChildId,
    arbiter: ArbiterHandle,
    store: String,
    handle: LessorHandle,
    actor_ref: &Arc<ActorRef<Lessor>>,
) -> Child {
    child(
        id,
        ActorKind::Lessor,
        &store.clone(),
        actor_ref,
        || lessor::messages::Stop,
        move |exit| {
            let (store, handle) = (store.clone(), handle.clone());
            Lessor::start_in_arbiter(&arbiter, move |_| Lessor::new(store, handle, exit))
        },
    )
}
