//! The metrics of issuers (AC-75).

use std::time::Duration;

use metrics::{describe_gauge, describe_histogram, gauge, histogram};
use parking_lot::Mutex;

pub(super) use super::super::digests::digest as hash;
use super::super::digests::server;

const LATENCY: &str = "apiserver_authentication_jwt_authenticator_latency_seconds";
const KEYS_READ: &str =
    "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds";
const KEY_SET: &str = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info";

/// Records how long it took to find the user of a token.
pub(super) fn latency(issuer_hash: &str, is_accepted: bool, took: Duration) {
    let result = if is_accepted { "success" } else { "failure" };
    let labels = [
        ("result", result.to_owned()),
        ("jwt_issuer_hash", issuer_hash.to_owned()),
    ];
    histogram!(LATENCY, &labels).record(took);
}

/// Records when keys were read.
pub(super) fn keys_read(issuer_hash: &str, is_read: bool, now: f64) {
    let result = if is_read { "success" } else { "failure" };
    let labels = [
        ("result", result.to_owned()),
        ("jwt_issuer_hash", issuer_hash.to_owned()),
        ("apiserver_id_hash", server()),
    ];
    gauge!(KEYS_READ, &labels).set(now);
}

/// The digests of the last key set of each issuer, which lose their value when another one takes
/// their place.
static LAST: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Remembers the digest of something. Returns the earlier one, if it differs.
fn replaced(what: &str, digest: &str) -> Option<String> {
    let mut last = LAST.lock();
    // linear: a few issuers.
    match last.iter_mut().find(|(known, _)| known == what) {
        Some((_, before)) if before == digest => None,
        Some((_, before)) => Some(std::mem::replace(before, digest.to_owned())),
        None => {
            last.push((what.to_owned(), digest.to_owned()));
            None
        }
    }
}

/// Publishes the digest of the keys of an issuer.
pub(super) fn key_set(issuer_hash: &str, document: &[u8]) {
    let digest = hash(document);
    let set = |digest: String, value: f64| {
        let labels = [
            ("hash", digest),
            ("jwt_issuer_hash", issuer_hash.to_owned()),
            ("apiserver_id_hash", server()),
        ];
        gauge!(KEY_SET, &labels).set(value);
    };
    if let Some(before) = replaced(issuer_hash, &digest) {
        set(before, 0.0);
    }
    set(digest, 1.0);
}

/// Describes the metrics.
pub(super) fn describe() {
    describe_histogram!(
        LATENCY,
        metrics::Unit::Seconds,
        "Time until the user of a token was known, by result and issuer"
    );
    describe_gauge!(
        KEYS_READ,
        "Time of the last read of an issuer's keys, by result"
    );
    describe_gauge!(KEY_SET, "Digest of the keys of an issuer that are in use");
}
