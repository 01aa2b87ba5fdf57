//! The authenticator that asks a webhook for the users of tokens (AC-24 to AC-26).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::super::authenticator::{Authenticated, Unauthorized};
use super::super::token_lookups::{Found, TokenLookup};
use super::answer::{CallError, ReviewForm, ReviewKind};
use super::call::{Attempt, Caller};
use super::review_version::ReviewVersion;
use crate::api::go_json::write_json;
use crate::api::user_info::UserInfo;
use crate::auth::kept::{Kept, Key};
use crate::clock;

/// The most answers that are kept.
const KEPT_MAX: usize = 4096;

/// Users with more bytes than this are not kept.
const USER_BYTES_MAX: usize = 16 << 10;

/// Asks a webhook for the users of tokens.
pub struct WebhookTokens {
    caller: Caller,
    version: ReviewVersion,
    ttl: Duration,
    /// The audiences of the API.
    of_api: Vec<String>,
    /// Makes keys unpredictable for those who send tokens.
    salt: [u8; 32],
    kept: Mutex<Kept<Option<Authenticated>>>,
}

#[derive(Serialize)]
struct Review<'t> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'t str,
    metadata: Empty,
    spec: Spec<'t>,
    status: Status,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Spec<'t> {
    token: &'t str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    audiences: &'t [String],
}

#[derive(Serialize)]
struct Status {
    user: Empty,
}

/// An attempt that nobody counts: kube-apiserver has no metrics of it.
struct Uncounted;

impl Attempt for Uncounted {
    fn ended(self, _: Option<&CallError>) {}
}

impl WebhookTokens {
    /// Asks the webhook that `caller` calls. Its answers are kept for `ttl`, and `of_api` are the
    /// audiences of the API.
    pub fn new(
        caller: Caller,
        version: ReviewVersion,
        ttl: Duration,
        of_api: Vec<String>,
    ) -> WebhookTokens {
        let mut salt = [0; 32];
        // Without random numbers the keys are those of a plain digest.
        let _ = rand::fill(&mut salt);
        WebhookTokens {
            caller,
            version,
            ttl,
            of_api,
            salt,
            kept: Mutex::new(Kept::new(KEPT_MAX)),
        }
    }

    fn key(&self, token: &str, audiences: &[String]) -> Key {
        let mut digest = Sha256::new();
        digest.update(self.salt);
        for part in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    async fn user_of(&self, token: &str, audiences: &[String]) -> Found {
        let key = self.key(token, audiences);
        let kept = self.kept.lock().get(&key, clock::moment());
        if let Some(known) = kept {
            return Ok(known);
        }
        let form = ReviewKind::Token.in_version(self.version);
        let body = body(form, token, audiences);
        let status = self.caller.status(body, form, || Uncounted).await;
        let status = status.map_err(|error| {
            tracing::error!(
                error = error.text,
                "a webhook could not be asked for the user of a token"
            );
            Unauthorized::Token(error.text)
        })?;
        let known = user_in(&status, audiences, &self.of_api).map_err(Unauthorized::Token)?;
        if is_small(&status) {
            let mut kept = self.kept.lock();
            kept.keep(key, known.clone(), self.ttl, clock::moment());
        }
        Ok(known)
    }
}

impl TokenLookup for WebhookTokens {
    fn look_up<'a>(&'a self, token: &'a [u8], audiences: &'a [String]) -> BoxFuture<'a, Found> {
        async move {
            // JSON has no other texts.
            let Ok(token) = std::str::from_utf8(token) else {
                return Ok(None);
            };
            let audiences = match audiences {
                [] => &self.of_api,
                audiences => audiences,
            };
            self.user_of(token, audiences).await
        }
        .boxed()
    }
}

fn body(form: ReviewForm, token: &str, audiences: &[String]) -> Bytes {
    let review = Review {
        kind: form.kind.name(),
        api_version: &form.api_version(),
        metadata: Empty {},
        spec: Spec { token, audiences },
        status: Status { user: Empty {} },
    };
    // The room is enough for every escape, so no copy of the token is left in freed memory.
    let mut text = Vec::with_capacity(6 * token.len() + 1024);
    write_json(&mut text, &review);
    text.push(b'\n');
    Bytes::from_owner(Zeroizing::new(text))
}

fn texts(of: Option<&Value>) -> Vec<String> {
    let items = of.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether an answer is small enough to be kept.
fn is_small(status: &Value) -> bool {
    let mut text = Vec::new();
    write_json(&mut text, status);
    text.len() <= USER_BYTES_MAX
}

/// Returns the user in the status of a review, `None` if it has none.
///
/// # Errors
/// The error of the webhook about a token that it refuses.
fn user_in(
    status: &Value,
    wanted: &[String],
    of_api: &[String],
) -> Result<Option<Authenticated>, String> {
    let named = texts(status.get("audiences"));
    let got = match named.is_empty() {
        true => of_api,
        false => &named,
    };
    // linear: the audiences of one token.
    let both = wanted.iter().filter(|audience| got.contains(audience));
    let both: Vec<String> = both.cloned().collect();
    if both.is_empty() && !wanted.is_empty() {
        return Ok(None);
    }
    let text = |of: &Value, name: &str| {
        let text = of.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    if status.get("authenticated").and_then(Value::as_bool) != Some(true) {
        let error = text(status, "error");
        return match error.is_empty() {
            true => Ok(None),
            false => Err(error),
        };
    }
    let user = status.get("user").unwrap_or(&Value::Null);
    let extra = user.get("extra").and_then(Value::as_object);
    let extra = extra.into_iter().flatten();
    let extra: BTreeMap<String, Vec<String>> = extra
        .map(|(key, values)| (key.clone(), texts(Some(values))))
        .collect();
    let user = UserInfo {
        uid: text(user, "uid"),
        extra,
        ..UserInfo::authenticated(text(user, "username"), texts(user.get("groups")))
    };
    Ok(Some(Authenticated {
        user: Arc::new(user),
        audiences: Some(both.into()),
        ..Authenticated::default()
    }))
}

#[cfg(test)]
mod tests;
