//! The Supervisor: starts everyone, restarts the fallen, gives up loudly.
//!
//! actix restarts nobody after a panic, so this does, from factories: an [`ExitGuard`] inside each
//! actor reports how it ended, `policy.rs` decides whether and when it is started again, and its
//! slot gets the new address. A child that uses up its budget degrades what depends on it and is
//! tried again after a while; the daemon goes on. When the Supervisor itself dies, [`House::ended`]
//! comes back and the daemon ends.

mod board;
mod child;
mod children;
mod config;
mod handlers;
mod house;
mod messages;
mod metrics;
mod policy;
#[cfg(test)]
mod tests;

use std::time::Instant;

use actix::{Actor, AsyncContext, Context};
use futures_util::future::BoxFuture;
use futures_util::stream::poll_fn;
use tokio::sync::{mpsc, watch};

pub use config::{CacherSpec, HouseConfig, StoreSpec};
pub use house::{House, HouseError, HouseState, PartState};
pub use metrics::describe_metrics;
pub use policy::RestartBudget;

use crate::backoff::random_unit;
use crate::exit::{ExitGuard, ExitReason, Exited};
use crate::mailbox;
use board::{Board, Standing};
use child::Child;
use policy::Verdict;

/// See the module's documentation.
pub(crate) struct Supervisor {
    children: Vec<Child>,
    budget: RestartBudget,
    board: Board,
    reports: mpsc::Sender<Exited>,
    inbox: Option<mpsc::Receiver<Exited>>,
    is_stopping: bool,
    /// Dropped with the Supervisor: that is how its end becomes known.
    _alive: watch::Sender<()>,
}

impl Supervisor {
    fn new(
        children: Vec<Child>,
        budget: RestartBudget,
        board: Board,
        alive: watch::Sender<()>,
    ) -> Supervisor {
        // One report for each child is under way at most (see ExitGuard).
        let (reports, inbox) = mpsc::channel(children.len().max(1));
        Supervisor {
            children,
            budget,
            board,
            reports,
            inbox: Some(inbox),
            is_stopping: false,
            _alive: alive,
        }
    }

    fn start_child(&mut self, number: usize) {
        let Some(child) = self.children.get_mut(number) else {
            return;
        };
        child.life += 1;
        let guard = ExitGuard::new(number, child.life, self.reports.clone());
        (child.factory)(guard);
    }

    /// Buries a dead child and decides when the next life begins.
    fn child_exited(&mut self, exited: Exited, context: &mut Context<Supervisor>) {
        let Some(child) = self.children.get_mut(exited.child) else {
            return;
        };
        if child.life != exited.life {
            return;
        }
        let reason = match exited.reason {
            ExitReason::Panicked => "it panicked",
            ExitReason::Stopped => "it stopped",
        };
        (child.bury)(reason);
        if self.is_stopping {
            self.board.set(exited.child, Standing::Stopped);
            return;
        }
        let verdict = child
            .deaths
            .died(Instant::now(), &self.budget, random_unit());
        metrics::died(child.kind, exited.reason);
        let (standing, wait) = match verdict {
            Verdict::Restart(wait) => (Standing::Restarting, wait),
            Verdict::Degrade(wait) => (Standing::Degraded, wait),
        };
        tracing::error!(
            actor = child.name,
            reason,
            ?standing,
            again_after = ?wait,
            "an actor died"
        );
        self.board.set(exited.child, standing);
        context.run_later(wait, move |supervisor, _| supervisor.restart(exited.child));
    }

    fn restart(&mut self, number: usize) {
        if !self.is_stopping {
            self.board.restarted(number);
            self.start_child(number);
        }
    }

    /// The ways to stop every child, last started first.
    fn stops_in_order(&mut self) -> Vec<BoxFuture<'static, ()>> {
        self.is_stopping = true;
        let reverse = self.children.iter().rev();
        reverse.map(|child| (child.stop)()).collect()
    }
}

impl Actor for Supervisor {
    type Context = Context<Supervisor>;

    fn started(&mut self, context: &mut Context<Supervisor>) {
        context.set_mailbox_capacity(mailbox::SUPERVISOR);
        if let Some(mut inbox) = self.inbox.take() {
            context.add_stream(poll_fn(move |task| inbox.poll_recv(task)));
        }
        for number in 0..self.children.len() {
            self.start_child(number);
        }
    }
}
