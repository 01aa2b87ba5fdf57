//! The configuration of the issuer, and its keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keys::{KeyFileError, PublicKey, SigningKey, read_public};
use crate::files::own;

const KEY_FILE: &str = "service-account-key-file";
const SIGNING_KEY_FILE: &str = "service-account-signing-key-file";

/// The key that the daemon generates if an issuer is configured without a signing key.
const OWN_KEY: &str = "service-account.key";
const OWN_KEY_BYTES_MAX: u64 = 64 << 10;

/// The configuration for signing and accepting tokens.
#[derive(Clone, Debug, Default)]
pub struct ServiceAccountConfig {
    /// The accepted issuers. The first one signs new tokens.
    pub issuers: Vec<String>,
    /// The audiences of the API: those of tokens that name none, and those that an accepted token
    /// needs.
    pub audiences: Vec<String>,
    /// The files with the public keys of other signers.
    pub key_files: Vec<PathBuf>,
    /// The file with the signing key.
    pub signing_key_file: Option<PathBuf>,
    /// The directory for the daemon's own key, for an issuer without a signing key.
    pub data_dir: PathBuf,
    /// The longest validity of a new token in seconds; 0 for no bound.
    pub seconds_max: i64,
    /// Whether tokens of pods are valid for longer than requested, while clients learn to renew
    /// them.
    pub extends: bool,
    /// Whether a token of a Secret is valid only while the Secret holds it.
    pub looks_up: bool,
}

/// The keys that were last read from their files.
pub struct Keys {
    /// The signing key.
    pub signing: Option<SigningKey>,
    /// The verifying keys. That of the signer comes first unless the files have it, too.
    pub public: Vec<Arc<PublicKey>>,
}

impl ServiceAccountConfig {
    /// Returns the file of the signing key, if tokens are issued.
    pub fn signing_file(&self) -> Option<PathBuf> {
        let own = || self.data_dir.join(OWN_KEY);
        let file = || self.signing_key_file.clone().unwrap_or_else(own);
        (!self.issuers.is_empty()).then(file)
    }

    /// Returns all files with keys.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = self.key_files.iter().cloned();
        files.chain(self.signing_file()).collect()
    }
}

/// Checks that the configured files are usable, and creates none.
///
/// # Errors
/// [`KeyFileError`]
pub fn check_keys(config: &ServiceAccountConfig) -> Result<(), KeyFileError> {
    for file in &config.key_files {
        read_public(KEY_FILE, file)?;
    }
    if let Some(file) = &config.signing_key_file {
        SigningKey::read(SIGNING_KEY_FILE, file, true)?;
    }
    Ok(())
}

/// Reads the keys. Creates the daemon's own key if it does not exist.
///
/// # Errors
/// [`KeyFileError`]
pub fn load(config: &ServiceAccountConfig) -> Result<Keys, KeyFileError> {
    let mut public = Vec::new();
    for file in &config.key_files {
        public.extend(read_public(KEY_FILE, file)?.into_iter().map(Arc::new));
    }
    let signing = match (&config.signing_key_file, config.issuers.is_empty()) {
        (_, true) => None,
        (Some(file), _) => Some(SigningKey::read(SIGNING_KEY_FILE, file, false)?),
        (None, _) => Some(own_key(&config.data_dir.join(OWN_KEY))?),
    };
    if let Some(key) = &signing
        && !public
            .iter()
            .any(|known: &Arc<PublicKey>| known.id == key.id)
    {
        let refusal = |problem| refused(&config.signing_file().unwrap_or_default(), problem);
        public.insert(0, Arc::new(key.public().map_err(refusal)?));
    }
    Ok(Keys { signing, public })
}

/// Reads or creates the key in the data directory, which only its owner may read.
fn own_key(path: &Path) -> Result<SigningKey, KeyFileError> {
    let failed = |error: std::io::Error| refused(path, error.to_string());
    if let Some(pem) = own::read_text(path, OWN_KEY_BYTES_MAX).map_err(failed)? {
        let pem = zeroize::Zeroizing::new(pem);
        return SigningKey::of_pem(pem.as_bytes()).map_err(|problem| refused(path, problem));
    }
    let pem = SigningKey::generated().map_err(|problem| refused(path, problem))?;
    own::write(path, pem.as_bytes()).map_err(failed)?;
    SigningKey::of_pem(pem.as_bytes()).map_err(|problem| refused(path, problem))
}

fn refused(path: &Path, problem: String) -> KeyFileError {
    KeyFileError {
        setting: SIGNING_KEY_FILE,
        path: path.to_owned(),
        problem,
    }
}
