//! The issuer as it is configured, with its keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keys::{KeyFileError, PublicKey, SigningKey, read_public};
use crate::files::own;

const KEY_FILE: &str = "service-account-key-file";
const SIGNING_KEY_FILE: &str = "service-account-signing-key-file";

/// The key that the daemon makes for itself where it is given none.
const OWN_KEY: &str = "service-account.key";
const OWN_KEY_BYTES_MAX: u64 = 64 << 10;

/// How tokens are made and known.
#[derive(Clone, Debug, Default)]
pub struct ServiceAccountConfig {
    /// The issuers. The first one is that of new tokens.
    pub issuers: Vec<String>,
    /// Whom tokens are for that name nobody, and whom those that come here must be for.
    pub audiences: Vec<String>,
    /// The files with the keys of other signers.
    pub key_files: Vec<PathBuf>,
    /// The file with the key that signs.
    pub signing_key_file: Option<PathBuf>,
    /// The directory for a key of the daemon's own, for an issuer that is given none.
    pub data_dir: PathBuf,
    /// The most seconds that a new token is good; 0 for no such bound.
    pub seconds_max: i64,
    /// Whether the tokens that pods are given outlive their time, while clients learn to renew.
    pub extends: bool,
    /// Whether tokens in Secrets must still lie there.
    pub looks_up: bool,
}

/// The keys as their files hold them now.
pub struct Keys {
    /// The key that signs.
    pub signing: Option<SigningKey>,
    /// The keys that verify, that of the signer first unless it is given among them.
    pub public: Vec<Arc<PublicKey>>,
}

impl ServiceAccountConfig {
    /// The file of the key that signs, if tokens are made.
    pub fn signing_file(&self) -> Option<PathBuf> {
        let own = || self.data_dir.join(OWN_KEY);
        let file = || self.signing_key_file.clone().unwrap_or_else(own);
        (!self.issuers.is_empty()).then(file)
    }

    /// The files that hold keys.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = self.key_files.iter().cloned();
        files.chain(self.signing_file()).collect()
    }
}

/// Looks whether the given files can be used. Makes none.
///
/// # Errors
/// [`KeyFileError`]
pub fn check_keys(config: &ServiceAccountConfig) -> Result<(), KeyFileError> {
    for file in &config.key_files {
        read_public(KEY_FILE, file)?;
    }
    if let Some(file) = &config.signing_key_file {
        SigningKey::read(SIGNING_KEY_FILE, file)?;
    }
    Ok(())
}

/// Reads the keys. The daemon's own is made when it is not there.
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
        (Some(file), _) => Some(SigningKey::read(SIGNING_KEY_FILE, file)?),
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

/// The key of the data directory, which only its owner may read.
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
