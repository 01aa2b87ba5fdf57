//! The certificates by which a conversion webhook is trusted.

use api::pem::pem_blocks;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::parse_x509_certificate;

/// Returns why a bundle of certificates, in PEM and base64, has none that can be read. An empty
/// one is accepted. One of blanks is not, though it is used as if it were empty (CRD-210).
pub fn bundle_fault(bundle: &str) -> Option<&'static str> {
    if bundle.is_empty() {
        return None;
    }
    let bytes = STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut blocks = pem_blocks(&text).peekable();
    if blocks.peek().is_none() {
        return Some("unable to parse bytes as PEM block");
    }
    let certificates = blocks.filter(|block| block.kind == "CERTIFICATE" && !block.has_headers);
    let mut fault = "no valid certificate authority data seen";
    for certificate in certificates {
        if parse_x509_certificate(&certificate.bytes).is_ok_and(|(rest, _)| rest.is_empty()) {
            return None;
        }
        fault = "failed to parse certificate: x509: malformed certificate";
    }
    Some(fault)
}
