//! Names the threads and actors that do not turn.
//!
//! It owns the list of the parts that are watched, and the thread that looks at them. A part is a
//! thread, or an actor. Each holds a [`Pulse`] and marks with it when it begins and ends a turn:
//! the handling of one message, one poll, one commit. A part whose turn lasts longer than the limit
//! is stalled: it is logged, counted, and listed by [`Watchdog::stalled`] until it turns again. The
//! watchdog must not know what the parts do.
//!
//! A thread that runs tasks has no turns of its own. The watchdog asks it to run a task
//! ([`Watchdog::probe`]), and its turn lasts until the task has run.

mod pulse;
mod stalls;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

pub use pulse::{Pulse, Turn, Turning};
pub use stalls::Stall;

use pulse::{Part, now};
use stalls::{Change, Stalls};

use crate::threads;

/// How long a turn may last. Nothing that works takes a tenth of it.
pub const LIMIT: Duration = Duration::from_secs(5);

/// How many times within the limit the watchdog looks.
const LOOKS: u32 = 5;

/// The list of watched parts. Cheap to clone. Nobody watches the default one, for tests and for
/// commands.
#[derive(Clone, Default)]
pub struct Watchdog {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watchdog")
    }
}

#[derive(Default)]
struct Shared {
    parts: Mutex<Vec<Weak<Part>>>,
    stalled: Mutex<Vec<Stall>>,
}

impl Watchdog {
    /// A watchdog with a thread that looks. The thread ends when the watchdog and all its clones
    /// are dropped.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(limit: Duration) -> std::io::Result<Watchdog> {
        let watchdog = Watchdog::default();
        let shared = Arc::downgrade(&watchdog.shared);
        threads::spawn("watchdog", move || look_again_and_again(&shared, limit))?;
        Ok(watchdog)
    }

    /// The pulse of a new part. `name` is what the operator reads: `cacher/configmaps`,
    /// `storage-write`. The part is watched until its pulse and all clones are dropped.
    pub fn pulse(&self, name: impl Into<String>) -> Pulse {
        self.add(Part::new(name.into()))
    }

    /// A task for a thread that runs tasks. While it runs, the thread is a watched part.
    pub fn probe(&self, name: String) -> impl Future<Output = ()> + Send + use<> {
        let pulse = self.add(Part::probed(name));
        async move {
            loop {
                pulse.asked().await;
            }
        }
    }

    /// The parts that are stalled now.
    pub fn stalled(&self) -> Vec<Stall> {
        self.shared.stalled.lock().clone()
    }

    fn add(&self, part: Part) -> Pulse {
        let pulse = Pulse::new(part);
        self.shared.parts.lock().push(pulse.downgrade());
        pulse
    }
}

impl Shared {
    /// The parts that still exist.
    fn parts(&self) -> Vec<Arc<Part>> {
        let mut existing = Vec::new();
        self.parts.lock().retain(|part| {
            let part = part.upgrade();
            existing.extend(part.clone());
            part.is_some()
        });
        existing
    }

    fn look(&self, stalls: &mut Stalls) {
        let parts = self.parts();
        let turns = parts.iter();
        let turns = turns.filter_map(|part| Some((part.name.as_str(), part.turning_since()?)));
        let changes = stalls.look(now(), turns);
        for change in &changes {
            tell(change);
        }
        if !changes.is_empty() {
            *self.stalled.lock() = stalls.list();
        }
        for part in &parts {
            part.ask();
        }
    }
}

fn look_again_and_again(shared: &Weak<Shared>, limit: Duration) {
    let mut stalls = Stalls::new(limit);
    loop {
        std::thread::sleep(limit / LOOKS);
        match shared.upgrade() {
            Some(shared) => shared.look(&mut stalls),
            None => return,
        }
    }
}

fn tell(change: &Change) {
    match change {
        Change::Stalled(stall) => {
            let (part, lasting) = (&stall.part, stall.lasting);
            tracing::error!(
                part,
                ?lasting,
                "a thread or an actor does not turn; what it serves waits"
            );
            metrics::gauge!("taffrail_stalled", "part" => part.clone()).set(1.0);
            metrics::counter!("taffrail_stalls_total", "part" => part.clone()).increment(1);
        }
        Change::Turns { part, lasted } => {
            tracing::info!(
                part,
                ?lasted,
                "a thread or an actor that was stalled turns again"
            );
            metrics::gauge!("taffrail_stalled", "part" => part.clone()).set(0.0);
        }
    }
}

/// Gives the metrics of the watchdog their help texts.
pub(crate) fn describe_metrics() {
    metrics::describe_gauge!(
        "taffrail_stalled",
        "1 while a thread or an actor has not turned for 5 seconds; else 0"
    );
    metrics::describe_counter!(
        "taffrail_stalls_total",
        "Times that a thread or an actor did not turn for 5 seconds"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    fn until(holds: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_part_whose_turn_lasts_is_named_until_the_turn_ends() {
        let watchdog = Watchdog::start(SHORT).unwrap();
        let (stuck, idle) = (watchdog.pulse("stuck"), watchdog.pulse("idle"));
        drop(idle.turn());
        let turn = stuck.turn();
        until(|| watchdog.stalled().iter().any(|stall| stall.part == "stuck"));
        assert_eq!(watchdog.stalled().len(), 1);
        drop(turn);
        until(|| watchdog.stalled().is_empty());
    }

    #[test]
    fn a_thread_that_runs_no_tasks_is_named() {
        let watchdog = Watchdog::start(SHORT).unwrap();
        let probe = watchdog.probe("tasks".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.spawn(probe);
        // Nothing runs the runtime.
        until(|| watchdog.stalled().iter().any(|stall| stall.part == "tasks"));
        runtime.block_on(async {
            while !watchdog.stalled().is_empty() {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn a_part_that_is_gone_is_no_longer_watched() {
        let watchdog = Watchdog::start(SHORT).unwrap();
        let stuck = watchdog.pulse("stuck");
        std::mem::forget(stuck.clone().turn());
        until(|| !watchdog.stalled().is_empty());
        drop(stuck);
        // Forgotten turns hold no pulse.
        until(|| watchdog.stalled().is_empty());
        assert!(watchdog.shared.parts().is_empty());
    }
}
