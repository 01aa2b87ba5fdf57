//! The Supervisor starts all other actors, restarts those that fail, and stops them in order.
//!
//! It owns the children: how each is started, how often it may fail, and its state. It takes
//! configuration, requests to add or remove a resource, and [`Exited`] reports of the children.
//! [`ActorSystem`] gives out handles of the actors, and states for `/readyz` and metrics. It must
//! know nothing of what the actors do: it sees factories, exits and stop messages.
//!
//! actix restarts no actor after a panic. Therefore each actor holds an [`ExitGuard`] that reports
//! its end, `policy.rs` decides whether and when it is restarted, and its
//! [`ActorRef`](crate::actor_ref::ActorRef) gets the new address. A child that has used up its
//! restart budget is degraded and restarted after a while; the daemon goes on. When the Supervisor
//! itself ends, [`ActorSystem::ended`] returns and the daemon ends.
//!
//! Children can be added and removed at any time. A [`ChildId`] is never used twice.

mod actor_system;
mod child;
mod child_specs;
mod child_statuses;
mod config;
mod handlers;
mod messages;
mod metrics;
mod policy;
mod removal;
mod resources;
#[cfg(test)]
mod tests;
mod unused;

use std::collections::BTreeMap;
use std::time::Instant;

use actix::{Actor, AsyncContext, Context};
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use tokio::sync::watch;

pub use actor_system::{ActorStatus, ActorSystem, ActorSystemError, ActorSystemState};
pub use config::{ActorSystemConfig, CacherSpec, OnRemoved, StoreSpec};
pub use metrics::describe_metrics;
pub use policy::RestartBudget;
pub use resources::{AddResourceError, RemoveResourceError, Replaced, Replacement};

use crate::backoff::random_unit;
use crate::exit::{ChildId, ExitGuard, ExitReason, ExitReports, Exited};
use crate::mailbox;
use crate::watchdog::{Pulse, Watchdog};
use child::{ActorKind, Child};
use child_statuses::{ChildState, ChildStatuses};
use messages::Stopping;
use policy::RestartDecision;
use removal::Removal;

/// The actor that starts, restarts and stops all others.
pub(crate) struct Supervisor {
    children: BTreeMap<ChildId, Child>,
    budget: RestartBudget,
    statuses: ChildStatuses,
    reports: ExitReports,
    watchdog: Watchdog,
    pulse: Pulse,
    is_stopping: bool,
    /// Dropped with the Supervisor. Receivers learn of its end that way.
    _alive: watch::Sender<()>,
}

impl Supervisor {
    fn new(
        children: Vec<Child>,
        budget: RestartBudget,
        statuses: ChildStatuses,
        watchdog: Watchdog,
        alive: watch::Sender<()>,
    ) -> Supervisor {
        Supervisor {
            children: children
                .into_iter()
                .map(|child| (child.id, child))
                .collect(),
            budget,
            statuses,
            reports: ExitReports::default(),
            pulse: watchdog.pulse("supervisor"),
            watchdog,
            is_stopping: false,
            _alive: alive,
        }
    }

    fn start_child(&mut self, id: ChildId) {
        let Some(child) = self.children.get_mut(&id) else {
            return;
        };
        child.incarnation += 1;
        child.is_running = true;
        let pulse = self.watchdog.pulse(&*child.name);
        let guard = ExitGuard::new(id, child.incarnation, self.reports.clone(), pulse);
        (child.factory)(guard);
    }

    /// A child has ended. Decides whether and when it is restarted.
    fn child_exited(&mut self, exited: Exited, context: &mut Context<Supervisor>) {
        let pulse = self.pulse.clone();
        let _turn = pulse.turn();
        let Some(child) = self.children.get_mut(&exited.child) else {
            return;
        };
        if child.incarnation != exited.incarnation {
            return;
        }
        let reason = match exited.reason {
            ExitReason::Panicked => "it panicked",
            ExitReason::Stopped => "it stopped",
        };
        child.is_running = false;
        (child.on_exit)(reason);
        if child.removal.is_some() {
            self.remove_child(exited.child);
            return;
        }
        if self.is_stopping {
            self.statuses.set(exited.child, ChildState::Stopped);
            return;
        }
        let decision =
            child
                .recent_exits
                .ended_unexpectedly(Instant::now(), &self.budget, random_unit());
        metrics::ended_unexpectedly(child.kind, exited.reason);
        let (state, wait) = match decision {
            RestartDecision::Restart(wait) => (ChildState::Restarting, wait),
            RestartDecision::Degrade(wait) => (ChildState::Degraded, wait),
        };
        tracing::error!(
            actor = child.name,
            reason,
            ?state,
            restart_after = ?wait,
            "an actor ended and will be restarted"
        );
        self.statuses.set(exited.child, state);
        context.run_later(wait, move |supervisor, _| supervisor.restart(exited.child));
    }

    fn restart(&mut self, id: ChildId) {
        if !self.is_stopping {
            self.statuses.restarted(id);
            self.start_child(id);
        }
    }

    /// Starts further children. Their statuses have been added already.
    fn add_children(&mut self, children: Vec<Child>) -> Result<(), Stopping> {
        if self.is_stopping {
            return Err(Stopping);
        }
        for child in children {
            let id = child.id;
            self.children.insert(id, child);
            self.start_child(id);
        }
        Ok(())
    }

    /// Marks children as removed. Returns those that still have to be stopped, last added first.
    fn begin_removals(&mut self, ids: &[ChildId]) -> Vec<Removal> {
        let mut removals = Vec::new();
        for id in ids.iter().rev() {
            let Some(child) = self.children.get_mut(id) else {
                continue;
            };
            if child.is_running {
                removals.push(Removal::of(child));
            } else {
                self.remove_child(*id);
            }
        }
        removals
    }

    fn remove_child(&mut self, id: ChildId) {
        self.statuses.remove(id);
        if let Some(ended) = self.children.remove(&id).and_then(|child| child.removal) {
            // The requester of the removal may be gone.
            let _ = ended.send(());
        }
    }

    /// The futures that stop every child: those of a kind together, the kind that was started last
    /// first.
    fn stops_in_order(&mut self) -> Vec<Vec<BoxFuture<'static, ()>>> {
        self.is_stopping = true;
        let mut kinds: BTreeMap<ActorKind, Vec<BoxFuture<'static, ()>>> = BTreeMap::new();
        for child in self.children.values() {
            kinds.entry(child.kind).or_default().push((child.stop)());
        }
        kinds.into_values().rev().collect()
    }
}

impl Actor for Supervisor {
    type Context = Context<Supervisor>;

    fn started(&mut self, context: &mut Context<Supervisor>) {
        context.set_mailbox_capacity(mailbox::SUPERVISOR);
        let exits = unfold(self.reports.clone(), async |reports| {
            Some((reports.next().await, reports))
        });
        context.add_stream(exits);
        let mut children: Vec<_> = self.children.values().map(|c| (c.kind, c.id)).collect();
        children.sort();
        for (_, id) in children {
            self.start_child(id);
        }
    }
}
