//! The metrics of a Lessor.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// Whether the last step of expiry failed.
pub(super) const FAILING: &str = "taffrail_lease_expiry_failing";
/// Whether keys whose lease has expired wait for their deletion.
pub(super) const BEHIND: &str = "taffrail_lease_expiry_behind";
/// Keys deleted.
pub(super) const EXPIRED: &str = "taffrail_lease_expired_objects_total";
/// The number of objects that shared a lease (ME-6).
pub(super) const OBJECT_COUNTS: &str = "etcd_lease_object_counts";

/// Gives every metric of this module its help text.
pub(crate) fn describe() {
    describe_histogram!(
        OBJECT_COUNTS,
        "Number of objects attached to a single lease, observed when the next one is granted"
    );
    describe_counter!(EXPIRED, "Objects deleted because their lease ran out");
    describe_gauge!(
        BEHIND,
        "1 while objects are waiting to be deleted whose lease has run out; else 0"
    );
    describe_gauge!(
        FAILING,
        "1 while what has outlived its lease can't be deleted, which the log explains; else 0"
    );
}
