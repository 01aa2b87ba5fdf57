//! Finds the user who makes a request (API-276 to API-280).

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::access::Access;
use crate::api::user_info::UserInfo;
use crate::x509::{PeerCertificates, Refused};

/// The presented credentials are invalid (API-279). The response does not say why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// A bearer token that belongs to no user.
    #[error("the bearer token is unknown")]
    UnknownToken,
    /// A value that cannot be a token.
    #[error("the bearer token is malformed")]
    MalformedToken,
    /// An invalid client certificate.
    #[error(transparent)]
    Certificate(#[from] Refused),
    /// A request without credentials where anonymous requests are not allowed (AC-16).
    #[error("the request has no credentials, and anonymous requests are not allowed here")]
    NoCredentials,
    /// A token that an authenticator knows and refuses.
    #[error("the token is refused: {0}")]
    Token(String),
    /// Headers of a front proxy that are refused (AC-10).
    #[error("the front proxy is refused: {0}")]
    FrontProxy(String),
    /// The refusals of several authenticators (AC-2).
    #[error("{}", joined(.0))]
    Several(Vec<Unauthorized>),
    /// A service account token that is invalid or has become invalid.
    #[error("the service account token is refused: {0}")]
    ServiceAccount(String),
    /// A token in a Secret that Kubernetes has marked as invalid because it was not used.
    #[error("the service account token is refused: {problem}")]
    Invalidated {
        /// The reason.
        problem: String,
        /// The name of the Secret and its namespace, separated by a slash.
        secret: String,
    },
}

impl Unauthorized {
    /// Returns the audit annotations and warnings for the use of the credential.
    pub fn notes(&self) -> Notes {
        let mut notes = Notes::default();
        match self {
            Unauthorized::Invalidated { secret, .. } => {
                let name = "authentication.k8s.io/legacy-token-invalidated";
                notes.annotations.push((name, secret.clone()));
            }
            Unauthorized::Several(all) => {
                for one in all {
                    notes.annotations.extend(one.notes().annotations);
                }
            }
            _ => {}
        }
        notes
    }

    /// Returns why authenticators of tokens refused the token, for reviews of tokens.
    pub fn reasons(&self) -> Vec<String> {
        match self {
            Unauthorized::Token(why)
            | Unauthorized::ServiceAccount(why)
            | Unauthorized::Invalidated { problem: why, .. } => vec![why.clone()],
            Unauthorized::Several(all) => all.iter().flat_map(Unauthorized::reasons).collect(),
            _ => Vec::new(),
        }
    }

    /// Combines the refusals of several authenticators; `None` for an empty list.
    pub fn all(mut refusals: Vec<Unauthorized>) -> Option<Unauthorized> {
        match refusals.len() {
            0 | 1 => refusals.pop(),
            _ => Some(Unauthorized::Several(refusals)),
        }
    }
}

fn joined(refusals: &[Unauthorized]) -> String {
    let texts: Vec<String> = refusals.iter().map(Unauthorized::to_string).collect();
    texts.join("; ")
}

/// Audit annotations and warnings that the use of a credential causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Annotations of the audit log.
    pub annotations: Vec<(&'static str, String)>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// A check of valid credentials that has to read objects, so it is separate and asynchronous.
pub trait LiveCheck: fmt::Debug + Send + Sync {
    /// Checks that the credentials are still valid.
    ///
    /// # Errors
    /// The credentials are no longer valid.
    fn check(&self) -> BoxFuture<'_, Result<Notes, Unauthorized>>;
}

/// The user who is identified by credentials, and the access they grant. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Authenticated {
    /// The user.
    pub user: Arc<UserInfo>,
    /// The access for work that continues after the request.
    pub access: Access,
    /// The wanted audiences that the credentials are for; `None` if the credentials are not limited
    /// to audiences.
    pub audiences: Option<Arc<[String]>>,
    /// The check that must pass before the user is trusted.
    pub check: Option<Arc<dyn LiveCheck>>,
    /// Audit annotations and warnings for the use of the credentials.
    pub notes: Notes,
    /// The expiry of a client certificate, in seconds since 1970.
    pub ends: Option<i64>,
}

/// The credentials in a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'r> {
    /// The token of `Authorization: Bearer`. A header with another scheme (`Basic`, …) counts as no
    /// credential.
    pub bearer: Option<&'r [u8]>,
    /// Whether the header has a token that is ignored, because more than one space precedes it.
    pub is_bearer_ignored: bool,
    /// The certificates that the client showed when it connected.
    pub certificates: Option<&'r PeerCertificates>,
    /// The headers, which a front proxy fills in for its clients.
    pub headers: Option<&'r HeaderMap>,
    /// The audiences that a token should be for. If empty, they are those of the API.
    pub audiences: &'r [String],
    /// The path of the request. Anonymous requests may be limited to some.
    pub path: &'r str,
}

impl<'r> Credentials<'r> {
    /// Returns the credentials in these headers, and those of their connection.
    pub fn of(
        headers: &'r HeaderMap,
        certificates: Option<&'r PeerCertificates>,
    ) -> Credentials<'r> {
        let header = headers.get(AUTHORIZATION);
        let token = header.and_then(|header| bearer(header.as_bytes()));
        let bearer = token.filter(|token| !token.starts_with(b" "));
        let bearer = bearer.and_then(|token| match memchr::memchr(b' ', token) {
            Some(end) => token.get(..end),
            None => Some(token),
        });
        Credentials {
            bearer,
            is_bearer_ignored: bearer.is_none() && token.is_some(),
            certificates,
            headers: Some(headers),
            audiences: &[],
            path: "",
        }
    }

    /// Returns the same credentials of a request with this path.
    #[must_use]
    pub fn at(self, path: &'r str) -> Credentials<'r> {
        Credentials { path, ..self }
    }
}

/// Identifies the users of one kind of credentials without waiting. An Authorizer decides what they
/// may do. Kinds of tokens that need to ask others implement [`super::TokenLookup`].
pub trait Authenticator: Send + Sync {
    /// Returns the user of these credentials, or `None` if they are of another kind. The user is
    /// trusted only after [`Authenticated::check`] has passed.
    ///
    /// # Errors
    /// The credentials are of this kind and invalid.
    fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized>;
}

/// Returns the text after `Bearer` and one space. It begins with a space if more of them precede
/// the token. The scheme is case-insensitive. An empty token counts as absent.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let header = header.trim_ascii();
    let scheme_end = header.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = header.split_at(scheme_end);
    let token = rest.get(1..)?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}
