//! The metrics of TLS.

use std::path::Path;

use metrics::Counter;
use x509_parser::prelude::{FromDer, X509Certificate};

/// When a certificate ends.
const END: &str = "taffrail_certificate_expiration_timestamp_seconds";

/// Sets when the first certificate of this text ends. `which` names it: `serving`, `authority`.
pub(super) fn end(which: &'static str, pem: &str) {
    metrics::describe_gauge!(END, "When a certificate ends, in seconds since 1970");
    if let Some(end) = end_of(pem) {
        metrics::gauge!(END, "certificate" => which).set(end as f64);
    }
}

/// When the first certificate of this text ends, in seconds since 1970.
pub(super) fn end_of(pem: &str) -> Option<i64> {
    let der = super::certificate::der(Path::new(""), pem).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// Counts failed handshakes, under the name that Kubernetes uses.
pub(in crate::server) fn handshake_errors() -> Counter {
    metrics::describe_counter!(
        "apiserver_tls_handshake_errors_total",
        "TLS handshakes that failed or took too long."
    );
    metrics::counter!("apiserver_tls_handshake_errors_total")
}
