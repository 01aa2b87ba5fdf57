//! The OpenID Connect documents with which others verify tokens of this issuer (API-227).

use std::sync::Arc;

use http::header::{CACHE_CONTROL, HeaderValue};
use http::{StatusCode, Uri};
use serde_json::{Value, json};

use crate::auth::service_accounts::ServiceAccountTokens;
use crate::server::respond::{self, Answer};

/// The documents: the issuer's configuration and its public keys.
pub struct IssuerDiscovery {
    tokens: Arc<ServiceAccountTokens>,
    keys_uri: String,
}

impl IssuerDiscovery {
    /// Creates the documents, or returns `None` if the issuer is not an https URL below which they
    /// can be served. `keys_uri` is the URL of the keys; empty means this server's own, at
    /// `address`.
    pub fn new(
        tokens: &Arc<ServiceAccountTokens>,
        keys_uri: &str,
        address: &str,
    ) -> Option<IssuerDiscovery> {
        let issuer = tokens.config().issuers.first()?;
        if !is_usable(issuer) {
            tracing::warn!(
                issuer,
                "service-account-issuer is not an https URL without query and fragment, so \
                 /.well-known/openid-configuration is not served"
            );
            return None;
        }
        let keys_uri = match keys_uri {
            "" => format!("https://{address}/openid/v1/jwks"),
            given => given.to_owned(),
        };
        Some(IssuerDiscovery {
            tokens: Arc::clone(tokens),
            keys_uri,
        })
    }

    /// Returns `/.well-known/openid-configuration`.
    pub fn configuration(&self) -> Answer {
        let keys = self.tokens.public_keys();
        let mut algorithms: Vec<&str> = keys.iter().map(|key| key.algorithm.name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let document = json!({
            "issuer": self.tokens.config().issuers.first(),
            "jwks_uri": self.keys_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        });
        answer("application/json", &document)
    }

    /// Returns `/openid/v1/jwks`.
    pub fn keys(&self) -> Answer {
        let keys = self.tokens.public_keys();
        let keys: Vec<&Value> = keys.iter().map(|key| &key.jwk).collect();
        answer("application/jwk-set+json", &json!({"keys": keys}))
    }
}

fn is_usable(issuer: &str) -> bool {
    let uri: Option<Uri> = issuer.parse().ok();
    uri.is_some_and(|uri| {
        uri.scheme_str() == Some("https") && uri.query().is_none() && !issuer.contains('#')
    })
}

fn answer(content_type: &'static str, document: &Value) -> Answer {
    let body = document.to_string().into_bytes().into();
    let mut answer = respond::answer(StatusCode::OK, content_type, body);
    answer.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=3600"),
    );
    answer
}
