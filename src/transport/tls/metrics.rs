//! The metrics of TLS.

use std::path::Path;

use metrics::Counter;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The gauge of the times at which certificates expire.
const END: &str = "taffrail_certificate_expiration_timestamp_seconds";

/// Sets the expiry of the first certificate in `pem`. `which` names it: `serving` or `authority`.
pub(super) fn end(which: &'static str, pem: &str) {
    metrics::describe_gauge!(
        END,
        "Time at which a certificate expires, in seconds since 1970"
    );
    if let Some(end) = end_of(pem) {
        metrics::gauge!(END, "certificate" => which).set(end as f64);
    }
}

/// Returns when the first certificate in `pem` expires, in seconds since 1970.
pub(super) fn end_of(pem: &str) -> Option<i64> {
    let der = super::pem::der(Path::new(""), pem).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// Counts failed handshakes, under the name that Kubernetes uses.
pub(in crate::transport) fn handshake_errors() -> Counter {
    metrics::describe_counter!(
        "apiserver_tls_handshake_errors_total",
        "TLS handshakes that failed or took too long."
    );
    metrics::counter!("apiserver_tls_handshake_errors_total")
}
