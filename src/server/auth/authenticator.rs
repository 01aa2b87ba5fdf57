//! From what a request shows to the user that it speaks for (API-276 to API-280).

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use super::access::{Access, Revocations};
use crate::api::user_info::UserInfo;

/// Credentials were presented and are wrong (API-279); nothing is said of what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// A bearer token of nobody.
    #[error("the bearer token is unknown")]
    UnknownToken,
    /// What can't be a token at all.
    #[error("the bearer token is malformed")]
    MalformedToken,
}

/// Who asks, and the access that was gained by it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The user.
    pub user: Arc<UserInfo>,
    /// For what goes on after the request.
    pub access: Access,
}

/// What a request shows of who sent it.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'r> {
    /// The token of `Authorization: Bearer`. A header of another scheme (`Basic`, …) is no
    /// credential of ours and counts as none.
    pub bearer: Option<&'r [u8]>,
}

impl Credentials<'_> {
    /// Those of a request with these headers.
    pub fn of(headers: &HeaderMap) -> Credentials<'_> {
        let header = headers.get(AUTHORIZATION);
        Credentials {
            bearer: header.and_then(|header| bearer(header.as_bytes())),
        }
    }
}

/// Knows the users of one kind of credentials. It can't say who may do what: that is an
/// Authorizer's.
pub trait Authenticator: Send + Sync {
    /// The user of these credentials; `None` where it knows nothing of them.
    ///
    /// # Errors
    /// They are of its kind and no good.
    fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized>;
}

/// All of them, asked in order until one knows the user.
pub struct Authenticators {
    members: Vec<Arc<dyn Authenticator>>,
    revocations: Revocations,
    anonymous: Authenticated,
}

impl Authenticators {
    /// These, who tell of the accesses that they revoke by `revocations`.
    pub fn new(members: Vec<Arc<dyn Authenticator>>, revocations: Revocations) -> Authenticators {
        Authenticators {
            members,
            revocations,
            anonymous: Authenticated {
                user: Arc::new(UserInfo::anonymous()),
                access: Access::default(),
            },
        }
    }

    /// The user a request's headers speak for.
    ///
    /// # Errors
    /// Credentials that are wrong, or that nobody knows: 401 even though anonymous requests are
    /// let in (API-279).
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Authenticated, Unauthorized> {
        let credentials = Credentials::of(headers);
        match (self.known(&credentials)?, credentials.bearer) {
            (Some(known), _) => Ok(known),
            (None, None) => Ok(self.anonymous.clone()),
            (None, Some(token)) if token.iter().all(u8::is_ascii_graphic) => {
                Err(Unauthorized::UnknownToken)
            }
            (None, Some(_)) => Err(Unauthorized::MalformedToken),
        }
    }

    /// Whether a request's headers carry credentials, and they are good.
    pub fn recognises(&self, headers: &HeaderMap) -> bool {
        matches!(self.known(&Credentials::of(headers)), Ok(Some(_)))
    }

    /// The first refusal counts only where nobody knows the user.
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

    /// Changes whenever an access was revoked.
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    /// Comes back once this access is revoked.
    pub fn revoked(&self, access: Access) -> impl Future<Output = ()> + use<> {
        let mut revocations = self.revocations();
        async move {
            // Without an authenticator nobody has access.
            let _ = revocations.wait_for(|_| access.is_revoked()).await;
        }
    }
}

/// The token of `Bearer <token>`; the scheme's case does not matter. An empty token is none.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let header = header.trim_ascii();
    let scheme_end = header.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = header.split_at(scheme_end);
    let token = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Knows one token, and refuses those that begin like it.
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
                    access: Access::default(),
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
        let answer = authenticators.authenticate(&headers);
        let is_known = answer
            .as_ref()
            .is_ok_and(|known| *known.user != UserInfo::anonymous());
        assert_eq!(authenticators.recognises(&headers), is_known);
        answer.map(|known| known.user.name.clone())
    }

    #[test]
    fn the_first_who_knows_the_user_is_believed_whatever_the_others_say_api_279() {
        let ok = |name: &str| Ok(name.to_owned());
        assert_eq!(asked(&["a", "ab"], Some("Bearer a")), ok("a"));
        assert_eq!(asked(&["a", "ab"], Some("Bearer ab")), ok("ab"));
        assert_eq!(asked(&["ab", "a"], Some("bearer   ab ")), ok("ab"));
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
        for header in [None, Some("Bearer "), Some("Bearer"), Some("Basic YTpi")] {
            let anonymous = Ok("system:anonymous".to_owned());
            assert_eq!(asked(&["a"], header), anonymous, "{header:?}");
        }
    }
}
