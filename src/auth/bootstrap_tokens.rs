//! Bootstrap tokens: Secrets with which new machines join a cluster (AC-8).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::authenticator::{Authenticated, Unauthorized};
use super::token_lookups::{Found, TokenLookup};
use crate::api::object::Object;
use crate::api::user_info::UserInfo;
use crate::clock;

/// The type of the Secrets.
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// The group of all users of such tokens. Their further groups begin with it and a colon.
const GROUP: &str = "system:bootstrappers";

/// The most bytes of the name of a further group.
const GROUP_BYTES_MAX: usize = 256;

/// Reads the Secrets of bootstrap tokens. The registry implements it.
pub trait BootstrapSecrets: Send + Sync + 'static {
    /// Returns the Secret of `kube-system` with this name, or `None` if it does not exist.
    ///
    /// # Errors
    /// The Secret could not be read.
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Object>, String>>;
}

/// Identifies the users of bootstrap tokens. Their Secrets are read with each request, so a deleted
/// one ends its token at once.
#[derive(Default)]
pub struct BootstrapTokens {
    secrets: OnceLock<Arc<dyn BootstrapSecrets>>,
}

impl BootstrapTokens {
    /// Sets where Secrets are read. Until then no token is valid.
    pub fn attach(&self, secrets: Arc<dyn BootstrapSecrets>) {
        // The daemon calls this once, before it serves.
        let _ = self.secrets.set(secrets);
    }

    async fn found(&self, token: &[u8]) -> Found {
        let (Some((id, secret)), Some(secrets)) = (parts(token), self.secrets.get()) else {
            return Ok(None);
        };
        let name = format!("bootstrap-token-{id}");
        let read = secrets.secret(&name).await;
        let Some(stored) = read.map_err(Unauthorized::Token)? else {
            return Ok(None);
        };
        match user(&stored, id, secret) {
            Ok(user) => Ok(Some(Authenticated {
                user: Arc::new(user),
                ..Authenticated::default()
            })),
            Err(why) => {
                tracing::debug!(name, why, "a bootstrap token is refused");
                Ok(None)
            }
        }
    }
}

impl TokenLookup for BootstrapTokens {
    fn look_up<'a>(&'a self, token: &'a [u8], _audiences: &'a [String]) -> BoxFuture<'a, Found> {
        self.found(token).boxed()
    }

    fn keeps(&self) -> bool {
        false
    }
}

/// Returns the id and the secret of a token, or `None` if it has another form.
fn parts(token: &[u8]) -> Option<(&str, &str)> {
    let (id, secret) = std::str::from_utf8(token).ok()?.split_once('.')?;
    let is_plain = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let fits = id.len() == 6 && secret.len() == 16 && is_plain(id) && is_plain(secret);
    fits.then_some((id, secret))
}

/// Returns the user of a token whose Secret this is.
///
/// # Errors
/// The reason why the Secret is not valid for the token.
fn user(stored: &Object, id: &str, secret: &str) -> Result<UserInfo, &'static str> {
    let data = |key: &str| {
        let decoded = STANDARD.decode(stored.text(&["data", key]));
        zeroize::Zeroizing::new(decoded.unwrap_or_default())
    };
    if stored.is_being_deleted() {
        return Err("the Secret is being deleted");
    }
    if stored.text(&["type"]) != TYPE {
        return Err("the Secret has another type");
    }
    let is_right = |key: &str, text: &str| {
        let kept = data(key);
        !kept.is_empty() && verify_slices_are_equal(&kept, text.as_bytes()).is_ok()
    };
    if !is_right("token-secret", secret) || !is_right("token-id", id) {
        return Err("the Secret has another token");
    }
    let expiration = data("expiration");
    let expiration = std::str::from_utf8(&expiration).unwrap_or("?");
    let is_to_come = |time: Timestamp| time > clock::now();
    if !expiration.is_empty() && !expiration.parse().is_ok_and(is_to_come) {
        return Err("the Secret has expired");
    }
    if data("usage-bootstrap-authentication").as_slice() != b"true" {
        return Err("the Secret is not for authentication");
    }
    let groups = data("auth-extra-groups");
    let groups = std::str::from_utf8(&groups).map_err(|_| "a group is not text")?;
    let mut all = BTreeSet::from([GROUP.to_owned()]);
    for group in groups.split(',').filter(|_| !groups.is_empty()) {
        if !is_group(group) {
            return Err("a group of the Secret does not begin with system:bootstrappers:");
        }
        all.insert(group.to_owned());
    }
    let name = format!("system:bootstrap:{id}");
    Ok(UserInfo::authenticated(name, all.into_iter().collect()))
}

/// Whether a further group has the form that Kubernetes demands.
fn is_group(group: &str) -> bool {
    let rest = group.strip_prefix(GROUP);
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix(':')) else {
        return false;
    };
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    rest.len() <= GROUP_BYTES_MAX
        && rest.bytes().next_back().is_some_and(is_plain)
        && rest
            .bytes()
            .all(|byte| is_plain(byte) || matches!(byte, b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TOKEN: &[u8] = b"abcdef.0123456789abcdef";

    struct One(Value);

    impl BootstrapSecrets for One {
        fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Object>, String>> {
            let mut secret = self.0.clone();
            let failed = secret["failed"].as_str().map(str::to_owned);
            if let Some(data) = secret["data"].as_object_mut() {
                for value in data.values_mut() {
                    *value = STANDARD.encode(value.as_str().unwrap()).into();
                }
            }
            let found = (name == "bootstrap-token-abcdef")
                .then(|| Object::read(secret.to_string().as_bytes()).unwrap());
            async move { failed.map_or(Ok(found), Err) }.boxed()
        }
    }

    fn secret(data: Value) -> Value {
        let mut secret = json!({"type": TYPE, "metadata": {"name": "bootstrap-token-abcdef"}, "data": {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        }});
        for (key, value) in data.as_object().unwrap() {
            secret["data"][key] = value.clone();
        }
        secret
    }

    fn asked(secret: Value, token: &[u8]) -> Result<Option<(String, Vec<String>)>, Unauthorized> {
        let tokens = BootstrapTokens::default();
        tokens.attach(Arc::new(One(secret)));
        let found = tokens.look_up(token, &[]).now_or_never().unwrap()?;
        Ok(found.map(|known| {
            assert_eq!((&*known.user.uid, known.user.extra.len()), ("", 0));
            (known.user.name.clone(), known.user.groups.clone())
        }))
    }

    fn groups(further: &str) -> Option<Vec<String>> {
        let found = asked(secret(json!({"auth-extra-groups": further})), TOKEN).unwrap();
        found.map(|(_, groups)| groups)
    }

    #[test]
    fn a_secret_makes_a_user_with_its_groups_ac_8() {
        let found = asked(secret(json!({})), TOKEN).unwrap().unwrap();
        let expected = ["system:bootstrappers", "system:authenticated"];
        assert_eq!(found.0, "system:bootstrap:abcdef");
        assert_eq!(found.1, expected);
        let expected = [
            "system:bootstrappers",
            "system:bootstrappers:a",
            "system:bootstrappers:kubeadm:b",
            "system:authenticated",
        ];
        let further = "system:bootstrappers:kubeadm:b,system:bootstrappers:a";
        assert_eq!(groups(further).unwrap(), expected);
        for wrong in [
            "system:masters",
            "system:bootstrappers:",
            "system:bootstrappers:A",
            ",",
        ] {
            assert_eq!(groups(wrong), None, "{wrong}");
        }
        let long = |count| format!("system:bootstrappers:{}", "a".repeat(count));
        assert!(groups(&long(256)).is_some() && groups(&long(257)).is_none());
    }

    #[test]
    fn what_does_not_fit_is_nobodys_token_ac_8() {
        for wrong in [
            &b"abcdef.0123456789abcdeg"[..],
            b"abcdeg.0123456789abcdef",
            b"abcdef.0123456789abcde",
            b"ABCDEF.0123456789abcdef",
            b"abcdef0123456789abcdef",
            b"abcdef.0123456789abcdef.",
            b"",
        ] {
            assert_eq!(asked(secret(json!({})), wrong), Ok(None), "{wrong:?}");
        }
        for data in [
            json!({"token-id": "abcdeg"}),
            json!({"token-secret": ""}),
            json!({"usage-bootstrap-authentication": "True"}),
            json!({"expiration": "2020-01-01T00:00:00Z"}),
            json!({"expiration": "tomorrow"}),
        ] {
            assert_eq!(asked(secret(data.clone()), TOKEN), Ok(None), "{data}");
        }
        let later = secret(json!({"expiration": "2222-01-01T00:00:00Z"}));
        assert!(asked(later, TOKEN).unwrap().is_some());
        let mut other = secret(json!({}));
        other["type"] = "Opaque".into();
        assert_eq!(asked(other, TOKEN), Ok(None));
        let mut deleted = secret(json!({}));
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(asked(deleted, TOKEN), Ok(None));
        let failed = asked(json!({"failed": "no store"}), TOKEN);
        assert_eq!(failed, Err(Unauthorized::Token("no store".to_owned())));
    }
}
