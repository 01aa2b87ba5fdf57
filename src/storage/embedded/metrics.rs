//! The metrics of the embedded engine.

use std::time::{Duration, SystemTime};

use actors::engine::Revision;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::schema::Totals;

const COMMIT_SECONDS: &str = "taffrail_storage_commit_duration_seconds";
const CHECKPOINT_SECONDS: &str = "taffrail_storage_checkpoint_duration_seconds";
const BATCH_EVENTS: &str = "taffrail_storage_commit_events";
const EVENTS: &str = "taffrail_storage_events_total";
const REFUSALS: &str = "taffrail_storage_refusals_total";
const REVISION: &str = "taffrail_storage_revision";
const COMPACTED: &str = "taffrail_storage_compacted_revision";
const LIVE_KEYS: &str = "taffrail_storage_live_keys";
const RETAINED_BYTES: &str = "taffrail_storage_retained_bytes";
const FILE_BYTES: &str = "taffrail_storage_file_allocated_bytes";
const REMOVED: &str = "taffrail_storage_removed_records_total";
const SCRUB_SECONDS: &str = "taffrail_storage_removal_duration_seconds";
const PROMOTE_SECONDS: &str = "taffrail_storage_file_switch_duration_seconds";
const FREE_BYTES: &str = "taffrail_storage_free_bytes";
const RESERVE_BYTES: &str = "taffrail_storage_reserve_bytes";
const LEASES: &str = "taffrail_storage_leases";
const REOPENED: &str = "taffrail_storage_reopened_total";
const DAMAGED: &str = "taffrail_storage_damaged_records";
const VERIFIED_BYTES: &str = "taffrail_storage_verified_bytes_total";
const PASSES: &str = "taffrail_storage_verification_passes_total";
const LAST_PASS: &str = "taffrail_storage_verification_last_pass_timestamp_seconds";

/// Registers units and help texts.
pub(super) fn describe() {
    describe_histogram!(
        COMMIT_SECONDS,
        Unit::Seconds,
        "Time of a group commit, sync included."
    );
    describe_histogram!(
        CHECKPOINT_SECONDS,
        Unit::Seconds,
        "Time of a checkpoint, which makes durable in the database what the journal holds."
    );
    describe_histogram!(
        BATCH_EVENTS,
        Unit::Count,
        "Events that shared a group commit."
    );
    describe_counter!(EVENTS, Unit::Count, "Events committed.");
    describe_counter!(
        REFUSALS,
        Unit::Count,
        "Mutations that were not committed: their precondition did not hold, or the disk was full."
    );
    describe_gauge!(REVISION, Unit::Count, "The newest durable revision.");
    describe_gauge!(COMPACTED, Unit::Count, "The newest compacted revision.");
    describe_gauge!(LIVE_KEYS, Unit::Count, "Keys that exist.");
    describe_gauge!(
        RETAINED_BYTES,
        Unit::Bytes,
        "Records retained, live ones included."
    );
    describe_gauge!(
        FILE_BYTES,
        Unit::Bytes,
        "Blocks that the log occupies on disk."
    );
    describe_gauge!(
        FREE_BYTES,
        Unit::Bytes,
        "Bytes that are free on the file system of the store."
    );
    describe_gauge!(
        RESERVE_BYTES,
        Unit::Bytes,
        "Bytes that creates and updates leave free."
    );
    describe_counter!(REMOVED, Unit::Count, "Records removed after compaction.");
    describe_histogram!(
        SCRUB_SECONDS,
        Unit::Seconds,
        "Time of a step that removes records."
    );
    describe_histogram!(
        PROMOTE_SECONDS,
        Unit::Seconds,
        "Time that writes waited while a smaller file took the log's place."
    );
    describe_gauge!(
        LEASES,
        Unit::Count,
        "Leases that are alive, or whose keys are being deleted."
    );
    describe_counter!(
        REOPENED,
        Unit::Count,
        "Times the database was opened again after a failure."
    );
    // A rate of a counter that is not there is none.
    counter!(REOPENED).increment(0);
    describe_verification();
}

fn describe_verification() {
    describe_gauge!(
        DAMAGED,
        Unit::Count,
        "Records, or ranges of them, that verification found damaged and not whole since."
    );
    describe_counter!(
        VERIFIED_BYTES,
        Unit::Bytes,
        "Bytes of the store that were read again to find damage."
    );
    describe_counter!(PASSES, Unit::Count, "Verifications of the whole store.");
    describe_gauge!(
        LAST_PASS,
        Unit::Seconds,
        "When the whole store was last verified, since 1970."
    );
}

/// A checkpoint was made.
pub(super) fn checkpointed(took: Duration) {
    histogram!(CHECKPOINT_SECONDS).record(took.as_secs_f64());
}

pub(super) fn committed(events: usize, requests: usize, took: Duration) {
    histogram!(COMMIT_SECONDS).record(took);
    histogram!(BATCH_EVENTS).record(events as f64);
    counter!(EVENTS).increment(events as u64);
    counter!(REFUSALS).increment(requests.saturating_sub(events) as u64);
}

pub(super) fn compacted(revision: Revision) {
    gauge!(COMPACTED).set(revision.0 as f64);
}

pub(super) fn scrubbed(records: u64, took: Duration) {
    counter!(REMOVED).increment(records);
    histogram!(SCRUB_SECONDS).record(took);
}

pub(super) fn promoted(took: Duration) {
    histogram!(PROMOTE_SECONDS).record(took);
}

pub(super) fn reopened() {
    counter!(REOPENED).increment(1);
}

pub(super) fn sizes(totals: Totals, compacted: Revision, file_bytes: u64) {
    gauge!(REVISION).set(totals.revision.0 as f64);
    gauge!(COMPACTED).set(compacted.0 as f64);
    gauge!(LIVE_KEYS).set(totals.live_keys as f64);
    gauge!(RETAINED_BYTES).set(totals.retained_bytes as f64);
    gauge!(FILE_BYTES).set(file_bytes as f64);
}

/// Publishes the disk space that the file system reports.
pub(super) fn disk_space(free_bytes: u64, reserve_bytes: u64) {
    gauge!(FREE_BYTES).set(free_bytes as f64);
    gauge!(RESERVE_BYTES).set(reserve_bytes as f64);
}

pub(super) fn damaged(records: usize) {
    gauge!(DAMAGED).set(records as f64);
}

pub(super) fn verified(bytes: u64) {
    counter!(VERIFIED_BYTES).increment(bytes);
}

pub(super) fn verified_all() {
    counter!(PASSES).increment(1);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    gauge!(LAST_PASS).set(since.unwrap_or_default().as_secs_f64());
}

pub(super) fn leases(count: usize) {
    gauge!(LEASES).set(count as f64);
}
