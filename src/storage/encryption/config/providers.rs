//! The elements of `providers` and their keys (EN-13, EN-15).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zeroize::Zeroizing;

use super::document::{Document, joined};
use super::{NamedSecret, ProviderConfig, REDACTED, Secret};
use crate::api::field_error::FieldError;
use crate::storage::encryption::ciphers::Algorithm;

/// The members of a provider. Exactly one must be set.
const MEMBERS: [&str; 5] = ["aesgcm", "aescbc", "secretbox", "identity", "kms"];

pub(super) fn read(
    document: &mut Document,
    path: &str,
    elements: Vec<Value>,
) -> Vec<ProviderConfig> {
    let elements = elements.into_iter().enumerate();
    elements
        .filter_map(|(index, element)| read_one(document, &format!("{path}[{index}]"), element))
        .collect()
}

fn read_one(document: &mut Document, path: &str, element: Value) -> Option<ProviderConfig> {
    let [aesgcm, aescbc, secretbox, identity, kms] = document.members(path, element, MEMBERS);
    if kms.is_some() {
        let detail = "kms is not built yet: encrypt with aesgcm, aescbc or secretbox";
        document.refuse(FieldError::forbidden(joined(path, "kms"), detail));
    }
    let mut found = Vec::new();
    for (algorithm, value) in Algorithm::ALL.into_iter().zip([aesgcm, aescbc, secretbox]) {
        if let Some(value) = value {
            let keys = read_keys(
                document,
                &joined(path, algorithm.member()),
                algorithm,
                value,
            );
            found.push(ProviderConfig::Cipher(algorithm, keys));
        }
    }
    if let Some(value) = identity {
        let [] = document.members(&joined(path, "identity"), value, []);
        found.push(ProviderConfig::Identity);
    }
    match found.len() + usize::from(kms.is_some()) {
        0 => {
            let detail = format!("it names no provider; one of {}", MEMBERS.join(", "));
            document.refuse(FieldError::required(path, detail));
        }
        1 => {}
        _ => {
            let detail = "an element names one provider; begin another element for the next";
            document.refuse(FieldError::forbidden(path, detail));
        }
    }
    found.into_iter().next()
}

fn read_keys(
    document: &mut Document,
    path: &str,
    algorithm: Algorithm,
    value: Value,
) -> Vec<NamedSecret> {
    let [keys] = document.members(path, value, ["keys"]);
    let place = joined(path, "keys");
    let keys = document.list(&place, keys).into_iter().enumerate();
    keys.filter_map(|(index, key)| read_key(document, &format!("{place}[{index}]"), algorithm, key))
        .collect()
}

fn read_key(
    document: &mut Document,
    path: &str,
    algorithm: Algorithm,
    value: Value,
) -> Option<NamedSecret> {
    let [name, secret] = document.members(path, value, ["name", "secret"]);
    let name = document.text(&joined(path, "name"), name);
    if name.as_deref() == Some("") {
        let detail = "a key needs a name, which is stored with the values that it wrote";
        document.refuse(FieldError::required(joined(path, "name"), detail));
    }
    let place = joined(path, "secret");
    let encoded = document.text(&place, secret).map(Zeroizing::new)?;
    let secret = read_secret(document, &place, algorithm, &encoded)?;
    Some(NamedSecret {
        name: name?,
        secret,
    })
}

fn read_secret(
    document: &mut Document,
    path: &str,
    algorithm: Algorithm,
    encoded: &str,
) -> Option<Secret> {
    if encoded.is_empty() {
        let detail = "a key needs a secret: random bytes in base64";
        document.refuse(FieldError::required(path, detail));
        return None;
    }
    // Line breaks are ignored, because `base64` writes them.
    let encoded: Zeroizing<Vec<u8>> = Zeroizing::new(
        encoded
            .bytes()
            .filter(|byte| !matches!(byte, b'\r' | b'\n'))
            .collect(),
    );
    let Ok(secret) = STANDARD.decode(encoded.as_slice()).map(Zeroizing::new) else {
        let detail = "it is not base64";
        document.refuse(FieldError::invalid(path, REDACTED, detail));
        return None;
    };
    let lengths = algorithm.key_lengths();
    if !lengths.contains(&secret.len()) {
        let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
        let detail = format!(
            "it has {} bytes, and a key of {} has {}",
            secret.len(),
            algorithm.member(),
            lengths.join(" or ")
        );
        document.refuse(FieldError::invalid(path, REDACTED, detail));
        return None;
    }
    Some(Secret(secret))
}
