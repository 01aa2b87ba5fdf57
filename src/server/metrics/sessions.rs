//! Metrics of what lasts and is not a watch: logs, commands, port forwarding.

use http::Method;
use metrics::{Gauge, counter, describe_counter, gauge};

use crate::api::resource::ResourceDefinition;
use crate::upgraded::Relayed;

const ENDED: &str = "taffrail_sessions_ended_total";
const BYTES: &str = "taffrail_session_bytes_total";

/// Counts a request that lasts until this is dropped.
pub struct LongRunning(Gauge);

impl LongRunning {
    /// Counts a request of this method for a subresource of an object.
    pub fn begin(
        method: &Method,
        definition: &ResourceDefinition,
        subresource: &str,
    ) -> LongRunning {
        let running = gauge!(
            "apiserver_longrunning_requests",
            "verb" => verb_of(method), "group" => definition.group.clone(),
            "version" => definition.version.clone(),
            "resource" => definition.plural.clone(),
            "subresource" => subresource.to_owned(), "scope" => "resource",
            "component" => "apiserver",
        );
        running.increment(1.0);
        LongRunning(running)
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Returns the verb in metrics. kube-apiserver knows no verb of OPTIONS.
fn verb_of(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// Counts the end of a session.
pub fn session_ended(end: &'static str, relayed: Relayed) {
    counter!(ENDED, "end" => end).increment(1);
    counter!(BYTES, "direction" => "up").increment(relayed.up);
    counter!(BYTES, "direction" => "down").increment(relayed.down);
}

pub(super) fn describe() {
    describe_counter!(
        ENDED,
        "Upgraded connections that were relayed and have ended: in-order, half-open (one side \
         was silent after the other one had ended), failed, stopped with the daemon, or cut \
         (access was revoked, or the client is gone)"
    );
    describe_counter!(
        BYTES,
        "Bytes of upgraded connections, from clients (up) and to them (down)"
    );
}
