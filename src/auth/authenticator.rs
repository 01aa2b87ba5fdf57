//! Finds the user who makes a request (API-276 to API-280).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use super::access::{Access, Revocations};
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
        if let Unauthorized::Invalidated { secret, .. } = self {
            let name = "authentication.k8s.io/legacy-token-invalidated";
            notes.annotations.push((name, secret.clone()));
        }
        notes
    }
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

/// The most time that the check may take.
const LOOK: Duration = Duration::from_secs(10);

/// The user who is identified by credentials, and the access they grant. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Authenticated {
    /// The user.
    pub user: Arc<UserInfo>,
    /// The access for work that continues after the request.
    pub access: Access,
    /// The wanted audiences that the credentials are for; `None` if the credentials are not limited
    /// to audiences.
    pub audiences: Option<Vec<String>>,
    /// The check that must pass before the user is trusted.
    pub check: Option<Arc<dyn LiveCheck>>,
    /// Audit annotations and warnings for the use of the credentials.
    pub notes: Notes,
    /// The expiry of a client certificate, in seconds since 1970.
    pub ends: Option<i64>,
}

/// The credentials in a request.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'r> {
    /// The token of `Authorization: Bearer`. A header with another scheme (`Basic`, …) counts as no
    /// credential.
    pub bearer: Option<&'r [u8]>,
    /// Whether the header has a token that is ignored, because more than one space precedes it.
    pub is_bearer_ignored: bool,
    /// The certificates that the client showed when it connected.
    pub certificates: Option<&'r PeerCertificates>,
    /// The audiences that a token should be for. If empty, they are those of the API.
    pub audiences: &'r [String],
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
        Credentials {
            bearer,
            is_bearer_ignored: bearer.is_none() && token.is_some(),
            certificates,
            audiences: &[],
        }
    }
}

/// Identifies the users of one kind of credentials. An Authorizer decides what they may do.
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

/// All authenticators, asked in order until one knows the user.
pub struct Authenticators {
    members: Vec<Arc<dyn Authenticator>>,
    revocations: Revocations,
    anonymous: Authenticated,
}

impl Authenticators {
    /// Combines authenticators that announce revoked accesses through `revocations`.
    pub fn new(members: Vec<Arc<dyn Authenticator>>, revocations: Revocations) -> Authenticators {
        Authenticators {
            members,
            revocations,
            anonymous: Authenticated {
                user: Arc::new(UserInfo::anonymous()),
                ..Authenticated::default()
            },
        }
    }

    /// Returns the user who makes a request.
    ///
    /// # Errors
    /// The credentials are invalid or unknown: 401, even if anonymous requests are allowed
    /// (API-279).
    pub async fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Authenticated, Unauthorized> {
        match (self.known(credentials)?, credentials.bearer) {
            (Some(known), _) => checked(known).await.map(|known| warned(known, credentials)),
            (None, None) => Ok(warned(self.anonymous.clone(), credentials)),
            (None, Some(token)) if token.iter().all(u8::is_ascii_graphic) => {
                Err(Unauthorized::UnknownToken)
            }
            (None, Some(_)) => Err(Unauthorized::MalformedToken),
        }
    }

    /// Returns the user of these credentials, if they are genuine. The objects that a token names
    /// may no longer exist, so the result only serves to distinguish connections, and authorizes no
    /// request.
    pub fn recognises(&self, credentials: &Credentials<'_>) -> Option<Arc<UserInfo>> {
        let known = self.known(credentials).ok()?;
        known.map(|known| known.user)
    }

    /// Returns the user of a token, and which of these audiences the token is for. If `audiences`
    /// is empty, they are those of the API.
    ///
    /// # Errors
    /// The token has no valid user.
    pub async fn review(
        &self,
        token: &[u8],
        audiences: &[String],
        of_api: &[String],
    ) -> Result<(Arc<UserInfo>, Vec<String>), Unauthorized> {
        let credentials = Credentials {
            bearer: Some(token),
            is_bearer_ignored: false,
            certificates: None,
            audiences,
        };
        let known = self.known(&credentials)?;
        let known = checked(known.ok_or(Unauthorized::UnknownToken)?).await?;
        if let Some(audiences) = known.audiences {
            return Ok((known.user, audiences));
        }
        let is_wanted = |one: &&String| audiences.is_empty() || audiences.contains(one);
        let both: Vec<String> = of_api.iter().filter(is_wanted).cloned().collect();
        match both.is_empty() && !(audiences.is_empty() && of_api.is_empty()) {
            true => Err(Unauthorized::UnknownToken),
            false => Ok((known.user, both)),
        }
    }

    /// Asks all authenticators. The first refusal is returned only if none of them identifies the
    /// user.
    fn known(&self, credentials: &Credentials<'_>) -> Result<Option<Authenticated>, Unauthorized> {
        let mut answer = Ok(None);
        for member in &self.members {
            match member.authenticate(credentials) {
                Ok(Some(known)) => return Ok(Some(known)),
                Ok(None) => {}
                Err(refused) => answer = answer.and(Err(refused)),
            }
        }
        answer
    }

    /// Returns a receiver that changes whenever an access is revoked.
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    /// Waits until this access is revoked.
    pub fn revoked(&self, access: Access) -> impl Future<Output = ()> + use<> {
        let mut revocations = self.revocations();
        async move {
            // An error means that there are no authenticators any more, so no access to wait for.
            let _ = revocations.wait_for(|_| access.is_revoked()).await;
        }
    }
}

/// Adds a warning if a token is ignored.
fn warned(mut known: Authenticated, credentials: &Credentials<'_>) -> Authenticated {
    if credentials.is_bearer_ignored {
        let warning = "the provided Authorization header contains extra space before the bearer \
                       token, and is ignored";
        known.notes.warnings.push(warning.to_owned());
    }
    known
}

/// Runs the check of credentials, so that only valid ones are returned.
async fn checked(known: Authenticated) -> Result<Authenticated, Unauthorized> {
    let Some(check) = known.check.clone() else {
        return Ok(known);
    };
    let looked = tokio::time::timeout(LOOK, check.check()).await;
    let late = "the objects that it names could not be read in time";
    let notes = looked.unwrap_or_else(|_| Err(Unauthorized::ServiceAccount(late.to_owned())))?;
    Ok(Authenticated { notes, ..known })
}

/// Returns the token of `Bearer <token>`, including all spaces before it except the first. The
/// scheme is case-insensitive. An empty token counts as absent.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let header = header.trim_ascii();
    let scheme_end = header.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = header.split_at(scheme_end);
    let token = rest.get(1..)?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http::HeaderValue;

    use super::*;

    /// Knows one token, and refuses tokens that begin with it.
    struct Known(&'static str);

    impl Authenticator for Known {
        fn authenticate(
            &self,
            credentials: &Credentials<'_>,
        ) -> Result<Option<Authenticated>, Unauthorized> {
            let Some(token) = credentials.bearer else {
                return Ok(None);
            };
            if token == self.0.as_bytes() {
                return Ok(Some(Authenticated {
                    user: Arc::new(UserInfo::authenticated(self.0, Vec::new())),
                    ..Authenticated::default()
                }));
            }
            match token.starts_with(self.0.as_bytes()) {
                true => Err(Unauthorized::MalformedToken),
                false => Ok(None),
            }
        }
    }

    fn asked(members: &[&'static str], header: Option<&str>) -> Result<String, Unauthorized> {
        let members = members.iter().map(|token| Arc::new(Known(token)) as _);
        let authenticators = Authenticators::new(members.collect(), Revocations::default());
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        let credentials = Credentials::of(&headers, None);
        let answer = authenticators.authenticate(&credentials);
        let answer = answer.now_or_never().expect("nothing needs a check");
        let is_known = answer
            .as_ref()
            .is_ok_and(|known| *known.user != UserInfo::anonymous());
        assert_eq!(authenticators.recognises(&credentials).is_some(), is_known);
        answer.map(|known| known.user.name.clone())
    }

    #[test]
    fn the_first_who_knows_the_user_is_believed_whatever_the_others_say_api_279() {
        let ok = |name: &str| Ok(name.to_owned());
        assert_eq!(asked(&["a", "ab"], Some("Bearer a")), ok("a"));
        assert_eq!(asked(&["a", "ab"], Some("Bearer ab")), ok("ab"));
        assert_eq!(asked(&["ab", "a"], Some(" bearer ab ")), ok("ab"));
        let refused = Err(Unauthorized::MalformedToken);
        assert_eq!(asked(&["a", "x"], Some("Bearer abc")), refused);
        let unknown = Err(Unauthorized::UnknownToken);
        assert_eq!(asked(&["a", "x"], Some("Bearer b")), unknown);
        assert_eq!(asked(&[], Some("Bearer b")), unknown);
    }

    #[test]
    fn what_can_not_be_a_token_is_refused_as_such_api_279() {
        for header in ["Bearer a b", "Bearer a\tb"] {
            let refused = Err(Unauthorized::MalformedToken);
            assert_eq!(asked(&["x"], Some(header)), refused, "{header}");
        }
    }

    #[test]
    fn no_credentials_make_the_anonymous_user_api_280() {
        let spaced = ["Bearer  a", "bearer   a "].map(Some);
        let others = [None, Some("Bearer "), Some("Bearer"), Some("Basic YTpi")];
        for header in others.into_iter().chain(spaced) {
            let anonymous = Ok("system:anonymous".to_owned());
            assert_eq!(asked(&["a"], header), anonymous, "{header:?}");
        }
    }
}
