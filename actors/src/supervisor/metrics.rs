//! What the Supervisor counts.

use crate::exit::ExitReason;

/// An actor of this kind died.
pub(super) fn died(kind: &'static str, reason: ExitReason) {
    let reason = match reason {
        ExitReason::Panicked => "panicked",
        ExitReason::Stopped => "stopped",
    };
    metrics::counter!("taffrail_actor_deaths_total", "actor" => kind, "reason" => reason)
        .increment(1);
}
