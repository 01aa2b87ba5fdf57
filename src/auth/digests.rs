//! Digests by which metrics name configurations, keys and servers without showing them (AC-75).

use sha2::{Digest, Sha256};

/// Returns the digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Returns the text by which Kubernetes distinguishes servers: the digest of the host name.
pub(super) fn server() -> String {
    digest(rustix::system::uname().nodename().to_bytes())
}
