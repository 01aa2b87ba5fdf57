//! The metrics of the Supervisor, and the descriptions of all metrics of the actors.

use super::child::ActorKind;
use crate::exit::ExitReason;

/// Counts an actor of this kind that ended unexpectedly.
pub(super) fn ended_unexpectedly(kind: ActorKind, reason: ExitReason) {
    let reason = match reason {
        ExitReason::Panicked => "panicked",
        ExitReason::Stopped => "stopped",
    };
    metrics::counter!("taffrail_actor_deaths_total", "actor" => kind.name(), "reason" => reason)
        .increment(1);
}

/// Counts an actor of this kind that was restarted.
pub(super) fn restarted(kind: ActorKind) {
    metrics::counter!("taffrail_actor_restarts_total", "actor" => kind.name()).increment(1);
}

/// Sets how many actors of this kind have used up their restart budget.
pub(super) fn degraded(kind: ActorKind, count: usize) {
    metrics::gauge!("taffrail_actors_degraded", "actor" => kind.name()).set(count as f64);
}

/// Gives every metric of the actors its unit and help text.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    crate::cacher::describe_metrics();
    crate::dispatcher::describe_metrics();
    crate::lessor::describe_metrics();
    crate::reflector::describe_metrics();
    crate::watchdog::describe_metrics();
    describe_counter!("taffrail_actor_deaths_total", "Actors that died, by reason");
    describe_counter!(
        "taffrail_actor_restarts_total",
        "Actors that were restarted after they had died"
    );
    describe_gauge!(
        "taffrail_actors_degraded",
        "Actors that died too often and are left alone for a minute"
    );
    describe_histogram!(
        "taffrail_mailbox_blocked_seconds",
        Unit::Seconds,
        "Time that senders waited for room in a mailbox"
    );
    describe_gauge!(
        "taffrail_compacted_revision",
        "Revision up to which superseded events are forgotten"
    );
    describe_gauge!(
        crate::compactor::FAILING,
        "1 while history can't be compacted, which the log explains; else 0"
    );
    describe_counter!(
        "taffrail_compaction_records_removed_total",
        "Records that compaction removed"
    );
    describe_counter!(
        "taffrail_compaction_bytes_reclaimed_total",
        Unit::Bytes,
        "Bytes that compaction gave back to the file system"
    );
    describe_counter!(
        "taffrail_write_turns_expired_total",
        "Turns to write that expired while others waited"
    );
}
