//! How each kind of child is made and stopped, and what its end means.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Context, Handler, Message};
use actix_rt::ArbiterHandle;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::child::{ActorKind, Child};
use super::config::StoreSpec;
use super::policy::Deaths;
use crate::cacher::{self, Cacher, Shared};
use crate::compactor::{self, Compactor};
use crate::exit::{ChildId, ExitGuard};
use crate::lessor::{self, Lessor, LessorHandle};
use crate::reflector::{self, Reflector, Source};
use crate::slot::Slot;
use crate::writer::{self, Writer};

/// How long a child may take to hear that it is to stop.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// A child that needs nothing but its slot cleared when it dies.
fn child<A, M>(
    id: ChildId,
    kind: ActorKind,
    name: &str,
    slot: &Arc<Slot<A>>,
    stop: fn() -> M,
    start: impl Fn(ExitGuard) -> actix::Addr<A> + Send + 'static,
) -> Child
where
    A: Actor<Context = Context<A>> + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    let (filled, cleared, stopped) = (Arc::clone(slot), Arc::clone(slot), Arc::clone(slot));
    Child {
        id,
        kind,
        name: format!("{}/{name}", kind.name()),
        factory: Box::new(move |exit| filled.fill(start(exit))),
        on_exit: Box::new(move |_| cleared.clear()),
        stop: Arc::new(move || stop_actor(Arc::clone(&stopped), stop())),
        incarnation: 0,
        is_running: false,
        deaths: Deaths::default(),
        removal: None,
    }
}

/// One that is gone or does not hear must not keep the others from stopping.
fn stop_actor<A, M>(slot: Arc<Slot<A>>, message: M) -> BoxFuture<'static, ()>
where
    A: Actor<Context = Context<A>> + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    async move {
        // The Supervisor learns of its end in another way.
        let _ = slot.ask(message, Instant::now() + STOP_WITHIN).await;
    }
    .boxed()
}

/// A Cacher; with its death everything it held is abandoned, before anybody reads it again.
pub(super) fn cacher(
    id: ChildId,
    arbiter: ArbiterHandle,
    shared: Arc<Shared>,
    slot: &Arc<Slot<Cacher>>,
) -> Child {
    let abandoned = Arc::clone(&shared);
    let cleared = Arc::clone(slot);
    let mut child = child(
        id,
        ActorKind::Cacher,
        &shared.resource.clone(),
        slot,
        || cacher::messages::Stop,
        move |exit| {
            let shared = Arc::clone(&shared);
            Cacher::start_in_arbiter(&arbiter, move |_| Cacher::new(shared, exit))
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
    slot: &Arc<Slot<Reflector>>,
) -> Child {
    let name = source.resource.clone();
    child(
        id,
        ActorKind::Reflector,
        &name,
        slot,
        || reflector::messages::Stop,
        move |exit| {
            let source = source.clone();
            Reflector::start_in_arbiter(&arbiter, move |_| Reflector::new(source, exit))
        },
    )
}

/// A shard of the Writers. Who waits for a turn when it dies learns it at once, and its next life
/// remembers nothing.
pub(super) fn writer(
    id: ChildId,
    arbiter: ArbiterHandle,
    number: usize,
    slot: &Arc<Slot<Writer>>,
) -> Child {
    child(
        id,
        ActorKind::Writer,
        &number.to_string(),
        slot,
        || writer::messages::Stop,
        move |exit| Writer::start_in_arbiter(&arbiter, move |_| Writer::new(exit)),
    )
}

/// The Compactor of a store.
pub(super) fn compactor(
    id: ChildId,
    arbiter: ArbiterHandle,
    store: StoreSpec,
    slot: &Arc<Slot<Compactor>>,
) -> Child {
    child(
        id,
        ActorKind::Compactor,
        &store.name.clone(),
        slot,
        || compactor::messages::Stop,
        move |exit| {
            let store = store.clone();
            Compactor::start_in_arbiter(&arbiter, move |_| {
                Compactor::new(store.name, store.engine, store.retention, exit)
            })
        },
    )
}

/// The Lessor of a store. What it hands out lies in its handle and outlives it.
pub(super) fn lessor(
    id: ChildId,
    arbiter: ArbiterHandle,
    store: String,
    handle: LessorHandle,
    slot: &Arc<Slot<Lessor>>,
) -> Child {
    child(
        id,
        ActorKind::Lessor,
        &store.clone(),
        slot,
        || lessor::messages::Stop,
        move |exit| {
            let (store, handle) = (store.clone(), handle.clone());
            Lessor::start_in_arbiter(&arbiter, move |_| Lessor::new(store, handle, exit))
        },
    )
}
