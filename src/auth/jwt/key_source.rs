//! Where the keys of an issuer come from: its document and its key set, over HTTPS (AC-23).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep};

use super::super::compact_token::CompactToken;
use super::config::IssuerConfig;
use super::keys::KeySet;
use super::metrics;
use crate::egress::{EgressClient, EgressRequest, Redirects, Roots, Target, TargetSettings};

/// The time of a request to an issuer.
const REQUEST: Duration = Duration::from_secs(30);

/// The pause after an issuer could not be reached at the start.
const PAUSE: Duration = match cfg!(test) {
    true => Duration::from_millis(20),
    false => Duration::from_secs(10),
};

/// The least time between two reads of the keys because of unknown ids. Everybody can send tokens
/// with unknown ids.
const REREAD_PAUSE: Duration = Duration::from_secs(1);

/// The most bytes of a document of an issuer.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

const USUAL: &str = "/.well-known/openid-configuration";

/// The keys, and where they were read.
struct Known {
    keys_url: String,
    keys: Arc<KeySet>,
}

/// The keys of one issuer.
pub(super) struct KeySource {
    client: Arc<EgressClient>,
    issuer: String,
    document_url: String,
    roots: Roots,
    issuer_hash: String,
    known: ArcSwapOption<Known>,
    /// When the keys were read last. One read runs at a time.
    read_at: Mutex<Option<Instant>>,
    is_ready: watch::Sender<bool>,
}

impl KeySource {
    /// Creates the source of an issuer, and asks nobody yet.
    pub(super) fn new(issuer: &IssuerConfig, client: Arc<EgressClient>) -> KeySource {
        let usual = || format!("{}{USUAL}", issuer.url.trim_end_matches('/'));
        let given = issuer.discovery_url.clone().filter(|url| !url.is_empty());
        KeySource {
            client,
            issuer: issuer.url.clone(),
            document_url: given.unwrap_or_else(usual),
            roots: match issuer.certificate_authority.is_empty() {
                true => Roots::System,
                false => Roots::Bundle(issuer.certificate_authority.clone().into_bytes()),
            },
            issuer_hash: metrics::hash(issuer.url.as_bytes()),
            known: ArcSwapOption::empty(),
            read_at: Mutex::default(),
            is_ready: watch::Sender::new(false),
        }
    }

    /// Asks the issuer until it answers.
    pub(super) async fn prepare(&self) {
        loop {
            match self.discover().await {
                Ok(()) => {
                    tracing::info!(issuer = self.issuer, "the keys of an issuer were read");
                    self.is_ready.send_replace(true);
                    return;
                }
                Err(why) => {
                    let issuer = &self.issuer;
                    tracing::warn!(issuer, why, "an issuer of tokens can't be asked, retrying");
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits until the issuer has answered.
    pub(super) async fn ready(&self) {
        // An error means that the source is gone.
        let _ = self
            .is_ready
            .subscribe()
            .wait_for(|is_ready| *is_ready)
            .await;
    }

    /// Reads the document and the keys.
    async fn discover(&self) -> Result<(), String> {
        let document = self.get(&self.document_url).await?;
        let document: Value = serde_json::from_slice(&document)
            .map_err(|why| format!("{}: {why}", self.document_url))?;
        let text = |name| {
            document
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if text("issuer") != self.issuer {
            return Err(format!(
                "oidc: issuer URL provided to client ({:?}) did not match the issuer URL returned \
                 by provider ({:?})",
                self.issuer,
                text("issuer")
            ));
        }
        self.read_keys(text("jwks_uri").to_owned())
            .await
            .map(|_| ())
    }

    async fn read_keys(&self, keys_url: String) -> Result<Arc<KeySet>, String> {
        let read = async {
            let document = self.get(&keys_url).await?;
            let keys = KeySet::read(&document).map_err(|why| format!("{keys_url}: {why}"))?;
            Ok((keys, document))
        };
        let read: Result<_, String> = read.await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs_f64();
        metrics::keys_read(&self.issuer_hash, read.is_ok(), now);
        let (keys, document) = read?;
        tracing::debug!(issuer = self.issuer, keys = keys.len(), "keys were read");
        metrics::key_set(&self.issuer_hash, &document);
        let keys = Arc::new(keys);
        let known = Known {
            keys_url,
            keys: Arc::clone(&keys),
        };
        self.known.store(Some(Arc::new(known)));
        Ok(keys)
    }

    /// Checks that the issuer has signed a token. If no known key has, the keys are read again.
    ///
    /// # Errors
    /// The issuer has not signed it, or its keys cannot be read.
    pub(super) async fn verify(&self, token: &CompactToken<'_>) -> Result<(), String> {
        let known = self.known.load_full();
        let known = known.ok_or("oidc: authenticator not initialized")?;
        if known.keys.verifies(token) {
            return Ok(());
        }
        let mut read_at = self.read_at.lock().await;
        // Another request may have read them meanwhile.
        let current = self.known.load_full();
        let current = current.as_ref().unwrap_or(&known);
        if !Arc::ptr_eq(&current.keys, &known.keys) && current.keys.verifies(token) {
            return Ok(());
        }
        let unsigned = || "failed to verify signature: failed to verify id token signature";
        if read_at.is_some_and(|at| at.elapsed() < REREAD_PAUSE) {
            return Err(unsigned().to_owned());
        }
        let read = self.read_keys(known.keys_url.clone()).await;
        *read_at = Some(Instant::now());
        drop(read_at);
        let keys =
            read.map_err(|why| format!("failed to verify signature: fetching keys {why}"))?;
        match keys.verifies(token) {
            true => Ok(()),
            false => Err(unsigned().to_owned()),
        }
    }

    async fn get(&self, url: &str) -> Result<Bytes, String> {
        let uri: Uri = url.parse().map_err(|why| format!("{url:?}: {why}"))?;
        let authority = uri
            .authority()
            .filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| format!("{url:?} is not a URL with https"))?;
        let mut settings = TargetSettings::new(format!("https://{authority}"), self.roots.clone());
        settings.redirects = Redirects::Follow;
        let target = Target::new(settings).map_err(|why| format!("{url:?}: {why}"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = EgressRequest {
            method: Method::GET,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            deadline: Instant::now() + REQUEST,
            answer_bytes_max: DOCUMENT_BYTES_MAX,
        };
        let answer = self.client.send(&target, request).await;
        let answer = answer.map_err(|why| why.to_string())?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(format!("{url}: {}", answer.status)),
        }
    }
}
