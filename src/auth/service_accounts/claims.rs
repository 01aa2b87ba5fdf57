//! The claims of service account tokens (API-227, API-281). Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::user_info::{
    UserInfo, service_account, service_account_groups, service_account_name,
};

/// The issuer of tokens that are stored in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The tolerated difference between clocks, in seconds.
pub const LEEWAY: i64 = 60;

/// An object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid, empty if unknown.
    pub uid: String,
}

/// The objects that a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The pod that the token was issued for.
    pub pod: Option<Reference>,
    /// The node: that of the pod, or the one that the token itself is bound to.
    pub node: Option<Reference>,
    /// The Secret that the token is bound to.
    pub secret: Option<Reference>,
}

/// The times of a token, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    issued: Option<i64>,
    not_before: Option<i64>,
    expires: Option<i64>,
    /// The time after which the use of the token is reported.
    pub warn_after: Option<i64>,
}

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The name of the user.
    pub subject: String,
    /// The audiences of the token.
    pub audiences: Vec<String>,
    /// The namespace of its objects.
    pub namespace: String,
    /// The service account.
    pub account: Reference,
    /// The objects that the token is bound to.
    pub binding: Binding,
    /// When the token is valid. A token in a Secret is valid as long as the Secret exists.
    pub times: Times,
    /// The token's id (`jti`), empty for tokens in Secrets.
    pub id: String,
    /// Whether the token is stored in a Secret.
    pub is_legacy: bool,
}

/// A token to be signed.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The issuer.
    pub issuer: String,
    /// The audiences of the token.
    pub audiences: Vec<String>,
    /// The namespace.
    pub namespace: String,
    /// The service account.
    pub account: Reference,
    /// The objects that the token is bound to.
    pub binding: Binding,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// How long the token is valid, in seconds.
    pub seconds: i64,
    /// The number of seconds after which the use of the token is reported.
    pub warn_after: Option<i64>,
    /// The token's id (`jti`).
    pub id: String,
}

impl NewToken {
    /// Returns the claims as JSON.
    pub fn claims(&self) -> Map<String, Value> {
        let shown = |reference: &Reference| match reference.uid.is_empty() {
            true => json!({"name": reference.name}),
            false => json!({"name": reference.name, "uid": reference.uid}),
        };
        let mut own = Map::new();
        own.insert("namespace".to_owned(), self.namespace.as_str().into());
        own.insert("serviceaccount".to_owned(), shown(&self.account));
        let Binding { pod, node, secret } = &self.binding;
        for (name, reference) in [("pod", pod), ("node", node), ("secret", secret)] {
            if let Some(reference) = reference {
                own.insert(name.to_owned(), shown(reference));
            }
        }
        if let Some(seconds) = self.warn_after {
            own.insert(
                "warnafter".to_owned(),
                self.now.saturating_add(seconds).into(),
            );
        }
        let subject = service_account_name(&self.namespace, &self.account.name);
        let claims = [
            ("aud", json!(self.audiences)),
            ("exp", self.now.saturating_add(self.seconds).into()),
            ("iat", self.now.into()),
            ("iss", self.issuer.as_str().into()),
            ("jti", self.id.as_str().into()),
            ("kubernetes.io", own.into()),
            ("nbf", self.now.into()),
            ("sub", subject.into()),
        ];
        let claims = claims.into_iter();
        claims
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

impl Claims {
    /// Reads the claims of a token with a valid signature.
    ///
    /// # Errors
    /// The missing claim, in the words of Kubernetes, or a claim of a wrong type. Such a claim is
    /// not taken for an absent one, because an absent one may limit nothing.
    pub fn of(claims: &Map<String, Value>) -> Result<Claims, String> {
        let read = match text_of(claims, "iss")? == LEGACY_ISSUER {
            true => Claims::legacy(claims)?,
            false => Claims::bound(claims)?,
        };
        let audiences = match claims.get("aud") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                let texts = all.iter().map(|one| one.as_str().map(ToOwned::to_owned));
                let texts: Option<Vec<String>> = texts.collect();
                texts.ok_or_else(|| wrong("aud"))?
            }
            Some(_) => return Err(wrong("aud")),
        };
        Ok(Claims {
            subject: text_of(claims, "sub")?,
            audiences,
            ..read
        })
    }

    fn bound(claims: &Map<String, Value>) -> Result<Claims, String> {
        let none = Map::new();
        let own = object_of(claims, "kubernetes.io")?.unwrap_or(&none);
        let reference = |name| {
            let Some(value) = object_of(own, name)? else {
                return Ok(None);
            };
            Ok::<_, String>(Some(Reference {
                name: text_of(value, "name")?,
                uid: text_of(value, "uid")?,
            }))
        };
        Ok(Claims {
            subject: String::new(),
            audiences: Vec::new(),
            namespace: text_of(own, "namespace")?,
            account: reference("serviceaccount")?.unwrap_or_default(),
            binding: Binding {
                pod: reference("pod")?,
                node: reference("node")?,
                secret: reference("secret")?,
            },
            times: Times {
                issued: seconds_of(claims, "iat")?,
                not_before: seconds_of(claims, "nbf")?,
                expires: seconds_of(claims, "exp")?,
                warn_after: seconds_of(own, "warnafter")?,
            },
            id: text_of(claims, "jti")?,
            is_legacy: false,
        })
    }

    fn legacy(claims: &Map<String, Value>) -> Result<Claims, String> {
        let own = |name: &str| {
            let name = format!("kubernetes.io/serviceaccount/{name}");
            text_of(claims, &name)
        };
        let subject = text_of(claims, "sub")?;
        let (namespace, secret) = (own("namespace")?, own("secret.name")?);
        let (name, uid) = (own("service-account.name")?, own("service-account.uid")?);
        for (what, value) in [
            ("sub", &subject),
            ("namespace", &namespace),
            ("secretName", &secret),
            ("serviceAccountName", &name),
            ("serviceAccountUID", &uid),
        ] {
            if value.is_empty() {
                return Err(format!("{what} claim is missing"));
            }
        }
        if service_account(&subject) != Some((&namespace, &name)) {
            return Err("sub claim is invalid".to_owned());
        }
        Ok(Claims {
            subject,
            audiences: Vec::new(),
            namespace,
            account: Reference { name, uid },
            binding: Binding {
                secret: Some(Reference {
                    name: secret,
                    uid: String::new(),
                }),
                ..Binding::default()
            },
            times: Times::default(),
            id: String::new(),
            is_legacy: true,
        })
    }

    /// Checks that the token is valid at `now`.
    ///
    /// # Errors
    /// The reason why it is not, in the words of Kubernetes.
    pub fn check_times(&self, now: i64) -> Result<(), &'static str> {
        let Times {
            issued,
            not_before,
            expires,
            ..
        } = self.times;
        let late = now.saturating_add(LEEWAY);
        if not_before.is_some_and(|time| late < time) {
            return Err("service account token is not valid yet");
        }
        if expires.is_some_and(|time| now.saturating_sub(LEEWAY) > time) {
            return Err("service account token has expired");
        }
        if issued.is_some_and(|time| late < time) {
            return Err("service account token is issued in the future");
        }
        Ok(())
    }

    /// Returns the user that the claims name.
    pub fn user(&self) -> UserInfo {
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, text: &str| {
            if !text.is_empty() {
                let key = format!("authentication.kubernetes.io/{key}");
                extra.insert(key, vec![text.to_owned()]);
            }
        };
        if !self.id.is_empty() {
            add("credential-id", &format!("JTI={}", self.id));
        }
        for (what, reference) in [("pod", &self.binding.pod), ("node", &self.binding.node)] {
            if let Some(Reference { name, uid }) = reference {
                add(&format!("{what}-name"), name);
                add(&format!("{what}-uid"), uid);
            }
        }
        let groups = service_account_groups(&self.namespace);
        let name = service_account_name(&self.namespace, &self.account.name);
        UserInfo {
            uid: self.account.uid.clone(),
            extra,
            ..UserInfo::authenticated(name, groups)
        }
    }
}

fn wrong(name: &str) -> String {
    format!("the claim {name} has a wrong type")
}

/// Returns a claim that is a text, empty if it is absent.
fn text_of(claims: &Map<String, Value>, name: &str) -> Result<String, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(wrong(name)),
    }
}

/// Returns a claim that is an object.
fn object_of<'c>(
    claims: &'c Map<String, Value>,
    name: &str,
) -> Result<Option<&'c Map<String, Value>>, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(_) => Err(wrong(name)),
    }
}

/// Returns a claim that is a time, in seconds since 1970.
fn seconds_of(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, String> {
    let value = match claims.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let whole = value.as_i64();
    let seconds = whole.or_else(|| value.as_f64().map(|seconds| seconds as i64));
    seconds.map(Some).ok_or_else(|| wrong(name))
}
