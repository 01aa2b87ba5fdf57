//! The metrics of certificates that kube-apiserver tolerated once (HK-95).

use metrics::{counter, describe_counter};

const MISSING_NAMES: &str = "apiserver_webhooks_x509_missing_san_total";
const SHA1: &str = "apiserver_webhooks_x509_insecure_sha1_total";

/// Puts them on the metrics page. They stay 0, because such certificates are refused like others
/// that cannot be verified.
pub fn describe() {
    describe_counter!(
        MISSING_NAMES,
        "Calls of webhooks whose certificate has no alternative names: always 0"
    );
    describe_counter!(
        SHA1,
        "Calls of webhooks whose certificate has a signature with SHA-1: always 0"
    );
    for name in [MISSING_NAMES, SHA1] {
        counter!(name).absolute(0);
    }
}
