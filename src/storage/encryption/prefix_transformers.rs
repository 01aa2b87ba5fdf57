//! Chooses which provider and which of its keys reads a value, and which writes it (EN-4 to EN-6).
//!
//! Kubernetes calls this a prefix transformer. It is used on two levels: providers have prefixes
//! such as `k8s:enc:aesgcm:v1:`, and the keys of a provider have their names as prefixes.

use std::sync::Arc;
use std::time::Instant;

use actors::engine::Key;
use bytes::Bytes;

use super::ciphers::{Algorithm, Cipher, CipherError};
use super::config::NamedSecret;
use super::metrics::TransformerMetrics;
use crate::storage::codec::is_stored_form;
use crate::storage::transformer::ENCRYPTED;

/// Transforms values that have one prefix. The prefix itself is handled by the caller.
pub(super) trait ValueTransformer: Send + Sync {
    /// Returns the plain form of a payload, and whether the value is stale and should be rewritten.
    fn read(&self, key: &Key, payload: &Bytes) -> Result<(Bytes, bool), Fault>;

    /// Appends the stored form of `plain`.
    fn write(&self, key: &Key, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault>;
}

/// The reason why a value cannot be transformed, for the operator. Each level prepends its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) String);

/// Reads a value by each transformer whose prefix it has, in order. Writes by the first one (EN-4,
/// EN-5).
pub(super) struct PrefixTransformers {
    transformers: Vec<(Vec<u8>, Box<dyn ValueTransformer>)>,
    /// Describes a value that has none of the prefixes.
    unmatched: fn(&[u8]) -> String,
    metrics: TransformerMetrics,
}

impl PrefixTransformers {
    /// Chooses among at least one transformer.
    pub(super) fn new(
        resource: &str,
        transformers: Vec<(Vec<u8>, Box<dyn ValueTransformer>)>,
        unmatched: fn(&[u8]) -> String,
    ) -> PrefixTransformers {
        let prefixes = transformers.iter().map(|(prefix, _)| prefix.as_slice());
        PrefixTransformers {
            metrics: TransformerMetrics::new(resource, prefixes),
            transformers,
            unmatched,
        }
    }
}

impl ValueTransformer for PrefixTransformers {
    fn read(&self, key: &Key, stored: &Bytes) -> Result<(Bytes, bool), Fault> {
        let started = Instant::now();
        let mut faults = Vec::new();
        for (index, (prefix, transformer)) in self.transformers.iter().enumerate() {
            if !stored.starts_with(prefix) {
                continue;
            }
            match transformer.read(key, &stored.slice(prefix.len()..)) {
                Ok((plain, is_stale)) => {
                    self.metrics.has_read(index, started);
                    return Ok((plain, is_stale || index > 0));
                }
                // Identity has an empty prefix, so it matches every value.
                Err(_) if prefix.is_empty() => {}
                Err(Fault(fault)) => {
                    self.metrics.failed_to_read(Some(prefix));
                    let prefix = String::from_utf8_lossy(prefix);
                    faults.push(format!("{prefix}{fault}"));
                }
            }
        }
        if faults.is_empty() {
            self.metrics.failed_to_read(None);
            return Err(Fault((self.unmatched)(stored)));
        }
        Err(Fault(faults.join("; ")))
    }

    fn write(&self, key: &Key, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let started = Instant::now();
        let Some((prefix, transformer)) = self.transformers.first() else {
            return Err(Fault("no provider is configured".to_owned()));
        };
        out.extend_from_slice(prefix);
        let written = transformer.write(key, plain, out);
        match &written {
            Ok(()) => self.metrics.has_written(started),
            Err(_) => self.metrics.failed_to_write(prefix),
        }
        written.map_err(|Fault(fault)| {
            let prefix = String::from_utf8_lossy(prefix);
            Fault(format!("{prefix}{fault}"))
        })
    }
}

/// A cipher with one key.
struct Ciphered(Arc<dyn Cipher>);

impl ValueTransformer for Ciphered {
    fn read(&self, key: &Key, payload: &Bytes) -> Result<(Bytes, bool), Fault> {
        let plain = self.0.decrypt(key.as_bytes(), payload);
        let plain = plain.and_then(|plain| {
            // A text that results from a wrong key must not pass for a damaged object: a damaged
            // object may be deleted, and a rewrite under another key would destroy the value.
            match self.0.authenticates() || is_stored_form(&plain) {
                true => Ok(plain),
                false => Err(CipherError::Unauthentic("changed")),
            }
        });
        let plain = plain.map_err(|error| Fault(format!(" {error}")))?;
        Ok((Bytes::from(plain), false))
    }

    fn write(&self, key: &Key, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let written = self.0.encrypt(key.as_bytes(), plain, out);
        written.map_err(|error| Fault(format!(" {error}")))
    }
}

/// Values as they are (EN-3).
pub(super) struct Plain;

impl ValueTransformer for Plain {
    fn read(&self, _: &Key, payload: &Bytes) -> Result<(Bytes, bool), Fault> {
        match payload.starts_with(ENCRYPTED) {
            true => Err(Fault(unread_provider(payload))),
            false => Ok((payload.clone(), false)),
        }
    }

    fn write(&self, _: &Key, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend_from_slice(plain);
        Ok(())
    }
}

/// A key from the file, prepared once for all resources.
#[derive(Clone)]
pub(super) struct ReadyKey {
    prefix: Vec<u8>,
    cipher: Arc<dyn Cipher>,
}

impl ReadyKey {
    /// `None` when the cipher does not accept a key of this length. Parsing the file has excluded
    /// that.
    pub(super) fn new(algorithm: Algorithm, key: &NamedSecret) -> Option<ReadyKey> {
        Some(ReadyKey {
            prefix: format!("{}:", key.name).into_bytes(),
            cipher: algorithm.with_key(&key.secret.0)?,
        })
    }
}

/// A provider, prepared once for all resources.
#[derive(Clone)]
pub(super) enum ReadyProvider {
    /// Values as they are.
    Identity,
    /// A cipher with its keys.
    Cipher(Algorithm, Vec<ReadyKey>),
}

impl ReadyProvider {
    fn prefix(&self) -> &'static str {
        match self {
            ReadyProvider::Identity => "",
            ReadyProvider::Cipher(algorithm, _) => algorithm.prefix(),
        }
    }

    fn transformer(&self, resource: &str) -> Box<dyn ValueTransformer> {
        match self {
            ReadyProvider::Identity => Box::new(Plain),
            ReadyProvider::Cipher(_, keys) => {
                let transformers = keys.iter().map(|key| {
                    let transformer: Box<dyn ValueTransformer> =
                        Box::new(Ciphered(key.cipher.clone()));
                    (key.prefix.clone(), transformer)
                });
                Box::new(PrefixTransformers::new(
                    resource,
                    transformers.collect(),
                    unread_key,
                ))
            }
        }
    }
}

/// The providers of a resource.
pub(super) fn for_providers(resource: &str, providers: &[ReadyProvider]) -> PrefixTransformers {
    let transformers = providers.iter().map(|provider| {
        let prefix = provider.prefix().as_bytes().to_vec();
        (prefix, provider.transformer(resource))
    });
    PrefixTransformers::new(resource, transformers.collect(), unread_provider)
}

/// Describes a value that no provider reads.
fn unread_provider(stored: &[u8]) -> String {
    match written_by(stored) {
        Some(prefix) => format!(
            "it was written by {prefix}, which the encryption configuration lacks for this \
             resource; put that key back to read it"
        ),
        None => "it is not encrypted, and the encryption configuration has no identity provider \
                 for this resource; add `identity: {}` as the last one to read it"
            .to_owned(),
    }
}

/// Describes a value that no key of its provider has written. Follows the provider's prefix.
fn unread_key(payload: &[u8]) -> String {
    let name = up_to_colon(payload, 1).unwrap_or_default();
    format!("{name} this key is not among those configured; put it back to read the value")
}

/// The provider and the key of an encrypted value, `k8s:enc:aesgcm:v1:key1:`.
fn written_by(stored: &[u8]) -> Option<&str> {
    stored.starts_with(ENCRYPTED).then_some(())?;
    up_to_colon(stored, 5).or(Some("an unknown provider"))
}

/// The beginning of a value up to its n-th colon, if it is printable and short.
fn up_to_colon(bytes: &[u8], colons: usize) -> Option<&str> {
    const SHOWN_MAX: usize = 300;
    let mut ends = bytes.iter().take(SHOWN_MAX).enumerate();
    let (end, _) = ends.by_ref().filter(|(_, b)| **b == b':').nth(colons - 1)?;
    let text = std::str::from_utf8(bytes.get(..=end)?).ok()?;
    text.chars().all(|c| !c.is_control()).then_some(text)
}
