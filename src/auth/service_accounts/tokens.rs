//! Signs service account tokens and identifies their users (API-278, API-281).

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::super::compact_token::CompactToken;
use super::claims::{Claims, LEGACY_ISSUER, NewToken};
use super::issuer::{self, Keys, ServiceAccountConfig};
use super::jwt::{self, TOKEN_BYTES_MAX};
use super::keys::{KeyFileError, PublicKey};
use super::metrics;
use super::passed::Passed;
use crate::api::user_info::UserInfo;
use crate::auth::{
    Access, Authenticated, Authenticator, ByHash, Credentials, LiveCheck, Notes, Revocations,
    Unauthorized,
};
use crate::clock;

/// The most verified tokens that are remembered, in each of two generations. Verifying a signature
/// takes longer than the rest of a small request.
const REMEMBERED: usize = 2048;

/// The most bytes of a token that is remembered by its text. Longer ones are by their digests.
const TEXT_MAX: usize = 4096;

/// The last bytes of a token, by which it is found. They are those of its signature.
const SIGNATURE_END: usize = 64;

/// The changes that a reload of the keys made.
#[derive(Clone, Copy, Debug)]
pub struct KeyReload {
    /// Whether the keys have changed.
    pub is_changed: bool,
    /// The number of watches that end, because the keys of their tokens were removed.
    pub watches: usize,
}

/// The reason why a token was not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    /// The daemon has no signing key and only verifies.
    #[error("the daemon has no signing key")]
    NoKey,
    /// The library failed.
    #[error("the key could not sign")]
    Failed,
    /// The token would be too long to be accepted.
    #[error("the token would have more than {TOKEN_BYTES_MAX} bytes; ask for fewer audiences")]
    TooLong,
}

/// Looks up the objects that tokens name. The registry implements it.
pub trait TokenObjects: Send + Sync + 'static {
    /// Checks that all objects that a token names still exist.
    ///
    /// # Errors
    /// The object that no longer exists, in the words of Kubernetes.
    fn check<'a>(
        &'a self,
        claims: &'a Claims,
        passed: &'a Passed,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Returns whether the check would certainly succeed, because nothing has changed since it did.
    fn still_passes(&self, claims: &Claims, passed: &Passed) -> bool;

    /// Checks that a token of a Secret is still the token in that Secret.
    ///
    /// # Errors
    /// The reason why the token is no longer valid, in the words of Kubernetes.
    fn check_legacy<'a>(
        &'a self,
        claims: &'a Claims,
        token: &'a [u8],
    ) -> BoxFuture<'a, Result<Notes, Unauthorized>>;
}

/// Signs service account tokens, and identifies their users.
pub struct ServiceAccountTokens {
    config: ServiceAccountConfig,
    keys: ArcSwap<Keys>,
    objects: OnceLock<Arc<dyn TokenObjects>>,
    verified: Mutex<Remembered>,
    revocations: Revocations,
}

/// A token with a valid signature.
struct Verified {
    claims: Claims,
    key: String,
    user: Arc<UserInfo>,
    access: Access,
    passed: Passed,
    /// The audiences of the API that it is for, once a request has asked.
    of_api: OnceLock<Arc<[String]>>,
    /// The text of the token, or its digest.
    proof: zeroize::Zeroizing<Vec<u8>>,
}

/// A token whose objects are checked with each request.
struct Presented {
    verified: Arc<Verified>,
    objects: Option<Arc<dyn TokenObjects>>,
    /// The token itself, if its Secret must still hold it.
    looked_up: Option<zeroize::Zeroizing<Vec<u8>>>,
}

/// Tokens by a hash of their ends. Of two with the same hash the newer one is kept.
type Generation = ByHash<Arc<Verified>>;

/// The recently verified tokens. Only holders of valid tokens can fill it.
#[derive(Default)]
struct Remembered {
    young: Generation,
    old: Generation,
    hasher: RandomState,
}

impl Remembered {
    /// Only users who have a token know the end of its signature, so only their requests get as far
    /// as the comparison with it, whose duration depends on the texts.
    fn find(&mut self, token: &[u8]) -> Option<Arc<Verified>> {
        let hash = self.hash(token);
        let is_same = |found: &&Arc<Verified>| *found.proof == *proof(token);
        if let Some(found) = self.young.get(&hash).filter(is_same) {
            return Some(Arc::clone(found));
        }
        let found = self.old.get(&hash).filter(is_same).cloned()?;
        self.old.remove(&hash);
        self.keep(token, &found);
        Some(found)
    }

    fn keep(&mut self, token: &[u8], verified: &Arc<Verified>) {
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(self.hash(token), Arc::clone(verified));
    }

    fn hash(&self, token: &[u8]) -> u64 {
        let end = token.last_chunk::<SIGNATURE_END>();
        self.hasher
            .hash_one((token.len(), end.map_or(token, |end| end)))
    }

    /// Forgets all tokens, and returns them.
    fn clear(&mut self) -> impl Iterator<Item = Arc<Verified>> + use<> {
        let (young, old) = (
            std::mem::take(&mut self.young),
            std::mem::take(&mut self.old),
        );
        young.into_values().chain(old.into_values())
    }
}

/// Returns the bytes by which a token is recognised.
fn proof(token: &[u8]) -> Cow<'_, [u8]> {
    match token.len() <= TEXT_MAX {
        true => Cow::Borrowed(token),
        false => Cow::Owned(Sha256::digest(token).to_vec()),
    }
}

impl ServiceAccountTokens {
    /// Creates the authenticator and reads the keys.
    ///
    /// # Errors
    /// [`KeyFileError`]
    pub fn load(
        config: ServiceAccountConfig,
        revocations: Revocations,
    ) -> Result<ServiceAccountTokens, KeyFileError> {
        metrics::describe();
        Ok(ServiceAccountTokens {
            keys: ArcSwap::from_pointee(issuer::load(&config)?),
            config,
            objects: OnceLock::new(),
            verified: Mutex::default(),
            revocations,
        })
    }

    /// Sets where the objects that tokens name are looked up. Until then no token is valid.
    pub fn attach(&self, objects: Arc<dyn TokenObjects>) {
        // The daemon calls this once, before it serves.
        let _ = self.objects.set(objects);
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ServiceAccountConfig {
        &self.config
    }

    /// Whether tokens are issued.
    pub fn issues(&self) -> bool {
        !self.config.issuers.is_empty()
    }

    /// Returns the verifying keys.
    pub fn public_keys(&self) -> Vec<Arc<PublicKey>> {
        self.keys.load().public.clone()
    }

    /// Returns all files with keys.
    pub fn files(&self) -> Vec<PathBuf> {
        self.config.files()
    }

    /// Reads the keys again. Tokens whose keys were removed become invalid, and their watches end.
    ///
    /// # Errors
    /// [`KeyFileError`]. The earlier keys stay valid then.
    pub fn reload(&self) -> Result<KeyReload, KeyFileError> {
        let keys = Arc::new(issuer::load(&self.config)?);
        let before = self.keys.swap(Arc::clone(&keys));
        let ids =
            |keys: &Keys| -> Vec<String> { keys.public.iter().map(|key| key.id.clone()).collect() };
        let signer = |keys: &Keys| keys.signing.as_ref().map(|key| key.id.clone());
        let is_changed = ids(&before) != ids(&keys) || signer(&before) != signer(&keys);
        if !is_changed {
            return Ok(KeyReload {
                is_changed,
                watches: 0,
            });
        }
        let known = ids(&keys);
        let gone = self.verified.lock().clear();
        let gone = gone.filter(|one| !known.contains(&one.key));
        let watches = gone.map(|one| self.revocations.revoke(&one.access)).sum();
        Ok(KeyReload {
            is_changed,
            watches,
        })
    }

    /// Signs a token.
    ///
    /// # Errors
    /// The reason why no token was signed.
    pub fn sign(&self, token: &NewToken) -> Result<String, NotSigned> {
        let keys = self.keys.load();
        let key = keys.signing.as_ref().ok_or(NotSigned::NoKey)?;
        let signed = jwt::sign(key, &token.claims()).ok_or(NotSigned::Failed)?;
        match signed.len() > TOKEN_BYTES_MAX {
            true => Err(NotSigned::TooLong),
            false => Ok(signed),
        }
    }

    /// Returns the token if its signature is valid, or `None` if no issuer of this daemon issued
    /// it.
    fn verified(&self, token: &[u8]) -> Result<Option<Arc<Verified>>, Unauthorized> {
        // Other tokens are looked up elsewhere, and cost nothing here.
        if token.len() > TOKEN_BYTES_MAX || !token.contains(&b'.') {
            return Ok(None);
        }
        if let Some(known) = self.verified.lock().find(token) {
            return Ok(Some(known));
        }
        let Some(compact) = CompactToken::parse(token, jwt::LIMITS) else {
            return Ok(None);
        };
        let Some(members) = compact.claims.as_object() else {
            return Ok(None);
        };
        let issuer = compact.issuer();
        if issuer != LEGACY_ISSUER && !self.config.issuers.iter().any(|known| known == issuer) {
            return Ok(None);
        }
        let keys = self.keys.load();
        let key = signer_of(&compact, &keys.public)?;
        let claims = Claims::of(members).map_err(Unauthorized::ServiceAccount)?;
        let verified = Arc::new(Verified {
            user: Arc::new(claims.user()),
            claims,
            key: key.id.clone(),
            access: Access::default(),
            passed: Passed::default(),
            of_api: OnceLock::new(),
            proof: proof(token).into_owned().into(),
        });
        let mut remembered = self.verified.lock();
        // A reload meanwhile has emptied the memory, and may have removed this token's key.
        if Arc::ptr_eq(&keys, &self.keys.load()) {
            remembered.keep(token, &verified);
        }
        Ok(Some(verified))
    }

    /// Returns which of the wanted audiences the token is for.
    fn audiences(
        &self,
        verified: &Verified,
        asked: &[String],
    ) -> Result<Arc<[String]>, Unauthorized> {
        if asked.is_empty()
            && let Some(known) = verified.of_api.get()
        {
            return Ok(Arc::clone(known));
        }
        let claims = &verified.claims;
        let implicit = &self.config.audiences;
        let own = match claims.audiences.is_empty() {
            true => implicit,
            false => &claims.audiences,
        };
        let wanted = match asked.is_empty() {
            true => implicit,
            false => asked,
        };
        let both: Arc<[String]> = own
            .iter()
            .filter(|one| wanted.contains(one))
            .cloned()
            .collect();
        if both.is_empty() && !implicit.is_empty() {
            let problem = format!(
                "token audiences {} is invalid for the target audiences {}",
                listed(own),
                listed(wanted)
            );
            return Err(Unauthorized::ServiceAccount(problem));
        }
        if asked.is_empty() {
            // The audiences of the API do not change.
            let _ = verified.of_api.set(Arc::clone(&both));
        }
        Ok(both)
    }
}

/// Returns the key that has signed a token: the key it names, or any key if it names none of these.
fn signer_of<'k>(
    token: &CompactToken<'_>,
    keys: &'k [Arc<PublicKey>],
) -> Result<&'k Arc<PublicKey>, Unauthorized> {
    let is_named = |key: &&Arc<PublicKey>| key.id == token.key_id;
    let is_any = !keys.iter().any(|key| is_named(&key));
    let mut tried = keys.iter().filter(|key| is_any || is_named(key));
    let found = tried.find(|key| jwt::is_signed_by(token, key));
    found.ok_or_else(|| {
        let problem = match keys.is_empty() {
            true => "invalid signature, no keys found",
            false => "go-jose/go-jose: error in cryptographic primitive",
        };
        Unauthorized::ServiceAccount(problem.to_owned())
    })
}

/// Formats texts as Go prints a slice of them.
fn listed(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

impl Authenticator for ServiceAccountTokens {
    fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        let Some(token) = credentials.bearer else {
            return Ok(None);
        };
        let Some(verified) = self.verified(token)? else {
            return Ok(None);
        };
        let claims = &verified.claims;
        let audiences = self.audiences(&verified, credentials.audiences)?;
        let now = clock::now_in_seconds();
        if !claims.is_legacy {
            let refused = |why: &str| Unauthorized::ServiceAccount(why.to_owned());
            claims.check_times(now).map_err(refused)?;
        }
        let user = Arc::clone(&verified.user);
        let access = verified.access.clone();
        let objects = self.objects.get();
        let passes = objects.is_some_and(|objects| verified.still_passes(&**objects, now));
        let is_looked_up = claims.is_legacy && self.config.looks_up;
        let check = (!passes).then(|| {
            let looked_up = is_looked_up.then(|| zeroize::Zeroizing::new(token.to_vec()));
            Arc::new(Presented {
                objects: objects.cloned(),
                looked_up,
                verified,
            }) as Arc<dyn LiveCheck>
        });
        Ok(Some(Authenticated {
            user,
            access,
            audiences: Some(audiences),
            ends: None,
            check,
            notes: Notes::default(),
        }))
    }
}

impl Verified {
    /// Returns whether a check would succeed and have nothing to note.
    fn still_passes(&self, objects: &dyn TokenObjects, now: i64) -> bool {
        let claims = &self.claims;
        let has_notes = claims.is_legacy
            || claims.audiences.is_empty()
            || claims.times.warn_after.is_some_and(|after| now > after);
        !has_notes && objects.still_passes(claims, &self.passed)
    }
}

impl Presented {
    async fn look(&self) -> Result<Notes, Unauthorized> {
        let claims = &self.verified.claims;
        let failed = Unauthorized::ServiceAccount;
        let Some(objects) = &self.objects else {
            return Err(failed("this daemon serves no service accounts".to_owned()));
        };
        let mut notes = Notes::default();
        match &self.looked_up {
            Some(token) => notes = objects.check_legacy(claims, token).await?,
            None if claims.is_legacy => {}
            None => {
                let checking = objects.check(claims, &self.verified.passed);
                checking.await.map_err(failed)?;
            }
        }
        if claims.audiences.is_empty() {
            let subject = claims.subject.clone();
            notes
                .annotations
                .push(("authentication.k8s.io/legacy-token", subject));
            metrics::legacy();
        }
        let now = clock::now_in_seconds();
        let warned = claims.times.warn_after.filter(|after| *after != 0);
        if let Some(after) = warned {
            metrics::renewable(now > after);
        }
        if let Some(after) = warned.filter(|after| now > *after) {
            let text = format!(
                "subject: {}, seconds after warning threshold: {}",
                claims.subject,
                now.saturating_sub(after)
            );
            notes
                .annotations
                .push(("authentication.k8s.io/stale-token", text));
        }
        Ok(notes)
    }
}

impl LiveCheck for Presented {
    fn check(&self) -> BoxFuture<'_, Result<Notes, Unauthorized>> {
        self.look().boxed()
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Presented(hidden)")
    }
}
