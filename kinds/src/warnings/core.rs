//! Warnings about ServiceAccounts, and about Secrets with a certificate and its private key.

use api::field::Field;
use api::object::Object;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Warnings, warn_of_annotation};

/// Returns the warning about a deprecated annotation that a write adds to a ServiceAccount.
pub fn of_serviceaccount(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let key = "kubernetes.io/enforce-mountable-secrets";
    let had = stored.is_some_and(|stored| stored.at(&["metadata", "annotations", key]).is_some());
    if !had {
        let text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted \
                    secrets";
        warn_of_annotation(&Field::of(object, "metadata"), key, text, &warnings);
    }
    warnings.take()
}

/// Returns the warnings about a Secret of the TLS type without a certificate or without a private
/// key. Their contents are not parsed, so a key that does not match the certificate gets no
/// warning.
pub fn of_secret(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    if object.text(&["type"]) != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = |name: &str| {
        let encoded = object.text(&["data", name]);
        STANDARD.decode(encoded).unwrap_or_default()
    };
    let warning =
        warning_about_certificate(&data("tls.crt")).or_else(|| warning_about_key(&data("tls.key")));
    warning.into_iter().collect()
}

fn warning_about_certificate(pem: &[u8]) -> Option<String> {
    let types = types_of_blocks(pem);
    if types.iter().any(|name| name == "CERTIFICATE") {
        return None;
    }
    Some(match types.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a \
             private key; PEM inputs may have been switched"
                .to_owned()
        }
        others => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping \
             PEM blocks of the following types: [{}]",
            others.join(" ")
        ),
    })
}

fn warning_about_key(pem: &[u8]) -> Option<String> {
    let types = types_of_blocks(pem);
    let is_key = |name: &String| name == "PRIVATE KEY" || name.ends_with(" PRIVATE KEY");
    if types.iter().any(is_key) {
        return None;
    }
    Some(match types.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        others => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after \
             skipping PEM blocks of the following types: [{}]",
            others.join(" ")
        ),
    })
}

/// Returns the types of the PEM blocks in a text, in order. Text between blocks, unterminated
/// blocks, and blocks with invalid Base64 are skipped.
fn types_of_blocks(pem: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(pem);
    let mut types = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in text.lines().map(str::trim_end) {
        let marker = |start: &str| line.strip_prefix(start)?.strip_suffix("-----");
        if let Some(name) = marker("-----BEGIN ") {
            open = Some((name, String::new()));
        } else if let Some(name) = marker("-----END ") {
            let block = open.take().filter(|(begun, _)| *begun == name);
            if block.is_some_and(|(_, body)| STANDARD.decode(body).is_ok()) {
                types.push(name.to_owned());
            }
        } else if let Some((_, body)) = &mut open {
            // A PEM block may have headers before its body.
            if !(body.is_empty() && line.contains(':')) {
                body.push_str(line);
            }
        }
    }
    types
}
