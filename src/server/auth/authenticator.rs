//! Finds the user that a request speaks for (API-276 to API-280).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use super::access::{Access, Revocations};
use super::client_certificates::PeerCertificates;
use crate::api::user_info::UserInfo;
use crate::server::x509::Refused;

/// The presented credentials are wrong (API-279). The response does not say why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// A bearer token that belongs to no user.
    #[error("the bearer token is unknown")]
    UnknownToken,
    /// A value that cannot be a token.
    #[error("the bearer token is malformed")]
    MalformedToken,
    /// A client certificate that is not good.
    #[error(transparent)]
    Certificate(#[from] Refused),
    /// A token of a service account that is not good, or no longer.
    #[error("the token of a service account is refused: {0}")]
    ServiceAccount(String),
    /// A token in a Secret that is marked as no longer used.
    #[error("the token of a service account is refused: {problem}")]
    Invalidated {
        /// What is wrong.
        problem: String,
        /// The name of the Secret, and its namespace behind a slash.
        secret: String,
    },
}

impl Unauthorized {
    /// What is said of the use of the credential.
    pub fn notes(&self) -> Notes {
        let mut notes = Notes::default();
        if let Unauthorized::Invalidated { secret, .. } = self {
            let name = "authentication.k8s.io/legacy-token-invalidated";
            notes.annotations.push((name, secret.clone()));
        }
        notes
    }
}

/// What is said of the use of a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Annotations of the audit log.
    pub annotations: Vec<(&'static str, String)>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// What must still be so of good credentials, which takes a read to see.
pub trait LiveCheck: fmt::Debug + Send + Sync {
    /// Looks.
    ///
    /// # Errors
    /// The credentials are no longer good.
    fn check(&self) -> BoxFuture<'_, Result<Notes, Unauthorized>>;
}

/// How long the look may take.
const LOOK: Duration = Duration::from_secs(10);

/// The user and the access gained by the credentials. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Authenticated {
    /// The user.
    pub user: Arc<UserInfo>,
    /// The access for work that continues after the request.
    pub access: Access,
    /// Which of the wanted audiences the credentials are for; `None` for credentials that are for
    /// no audience in particular.
    pub audiences: Option<Vec<String>>,
    /// What must still be looked at before the user is believed.
    pub check: Option<Arc<dyn LiveCheck>>,
    /// What is said of the use of the credentials.
    pub notes: Notes,
    /// When a client certificate ends, in seconds since 1970.
    pub ends: Option<i64>,
}

/// The credentials in a request.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'r> {
    /// The token of `Authorization: Bearer`. A header of another scheme (`Basic`, …) counts as no
    /// credential.
    pub bearer: Option<&'r [u8]>,
    /// Whether there is a token that is ignored, because more than one space stands before it.
    pub is_bearer_ignored: bool,
    /// The certificates that the client has shown when it connected.
    pub certificates: Option<&'r PeerCertificates>,
    /// The audiences that a token should be for; empty for those of the API.
    pub audiences: &'r [String],
}

impl<'r> Credentials<'r> {
    /// The credentials in these headers, and those of their connection.
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

/// Knows the users of one kind of credentials. An Authorizer decides what they may do.
pub trait Authenticator: Send + Sync {
    /// The user of these credentials, or `None` if this authenticator does not know them. It is to
    /// be believed once [`Authenticated::check`] was passed.
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

    /// The user that a request speaks for.
    ///
    /// # Errors
    /// The credentials are wrong or unknown: 401, even if anonymous requests are allowed (API-279).
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

    /// The user of these credentials, if they are genuine. The objects that a token names may be
    /// gone, so this tells connections apart and carries out no request.
    pub fn recognises(&self, credentials: &Credentials<'_>) -> Option<Arc<UserInfo>> {
        let known = self.known(credentials).ok()?;
        known.map(|known| known.user)
    }

    /// The user of a token that is for one of these audiences, and for which of them; empty for
    /// those of the API.
    ///
    /// # Errors
    /// There is no such user.
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

    /// Asks all authenticators. The first refusal counts only if none of them knows the user.
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

    /// Changes whenever an access is revoked.
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    /// Completes once this access is revoked.
    pub fn revoked(&self, access: Access) -> impl Future<Output = ()> + use<> {
        let mut revocations = self.revocations();
        async move {
            // Without an authenticator there is no access to wait for.
            let _ = revocations.wait_for(|_| access.is_revoked()).await;
        }
    }
}

/// Warns of a token that is ignored.
fn warned(mut known: Authenticated, credentials: &Credentials<'_>) -> Authenticated {
    if credentials.is_bearer_ignored {
        let warning = "the provided Authorization header contains extra space before the bearer \
                       token, and is ignored";
        known.notes.warnings.push(warning.to_owned());
    }
    known
}

/// Sees that credentials are still good.
async fn checked(known: Authenticated) -> Result<Authenticated, Unauthorized> {
    let Some(check) = known.check.clone() else {
        return Ok(known);
    };
    let looked = tokio::time::timeout(LOOK, check.check()).await;
    let late = "the objects that it names could not be read in time";
    let notes = looked.unwrap_or_else(|_| Err(Unauthorized::ServiceAccount(late.to_owned())))?;
    Ok(Authenticated { notes, ..known })
}

/// The token of `Bearer <token>`, with the spaces in front of it but the first. The scheme is
/// case-insensitive. An empty token counts as none.
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

    /// Knows one token and refuses tokens that start like it.
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
        let answer = answer.now_or_never().expect("nothing is looked at");
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
