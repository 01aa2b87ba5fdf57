//! The chain of authenticators (AC-1 to AC-6).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;

use super::access::{Access, Revocations};
use super::authenticator::{Authenticated, Authenticator, Credentials, Unauthorized};
use super::front_proxy::ProxyHeaders;
use super::token_lookups::{TokenLookup, TokenLookups};
use crate::api::user_info::UserInfo;

/// The most time that the check may take.
const LOOK: Duration = Duration::from_secs(10);

/// Which requests without credentials are served (AC-16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// All of them.
    #[default]
    Everywhere,
    /// None.
    Nowhere,
    /// Those with one of these paths.
    At(HashSet<String>),
}

impl Anonymous {
    fn includes(&self, path: &str) -> bool {
        match self {
            Anonymous::Everywhere => true,
            Anonymous::Nowhere => false,
            Anonymous::At(paths) => paths.contains(path),
        }
    }
}

/// All authenticators, asked in order until one knows the user (AC-1). Those that answer at once
/// come first, then the look-ups of tokens.
pub struct Authenticators {
    members: Vec<Arc<dyn Authenticator>>,
    look_ups: TokenLookups,
    revocations: Revocations,
    /// The user of requests without credentials.
    anonymous: Authenticated,
    served: Anonymous,
    proxy_headers: Arc<ProxyHeaders>,
}

impl Authenticators {
    /// Combines authenticators that announce revoked accesses through `revocations`.
    pub fn new(members: Vec<Arc<dyn Authenticator>>, revocations: Revocations) -> Authenticators {
        Authenticators {
            members,
            look_ups: TokenLookups::default(),
            revocations,
            anonymous: Authenticated {
                user: Arc::new(UserInfo::anonymous()),
                ..Authenticated::default()
            },
            served: Anonymous::default(),
            proxy_headers: Arc::default(),
        }
    }

    /// Adds look-ups of tokens, which are asked in this order after all other authenticators.
    #[must_use]
    pub fn looking_up(mut self, members: Vec<Arc<dyn TokenLookup>>) -> Authenticators {
        self.look_ups = TokenLookups::new(members);
        self
    }

    /// Sets which requests without credentials are served.
    #[must_use]
    pub fn serving_anonymous(mut self, served: Anonymous) -> Authenticators {
        self.served = served;
        self
    }

    /// Sets the headers that front proxies set, so that they are hidden from handlers.
    #[must_use]
    pub fn behind_proxies(mut self, headers: Arc<ProxyHeaders>) -> Authenticators {
        self.proxy_headers = headers;
        self
    }

    /// Removes all credentials from the headers of an authenticated request (AC-12).
    pub fn strip(&self, headers: &mut HeaderMap) {
        self.proxy_headers.strip(headers);
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
        match (self.identified(credentials).await?, credentials.bearer) {
            (Some(known), _) => Ok(warned(known, credentials)),
            (None, None) if self.served.includes(credentials.path) => {
                Ok(warned(self.anonymous.clone(), credentials))
            }
            (None, None) => Err(Unauthorized::NoCredentials),
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
        // linear: the authenticators are few.
        let mut members = self.members.iter();
        let known = members.find_map(|member| member.authenticate(credentials).ok()?);
        let known = known.or_else(|| {
            let token = credentials.bearer?;
            self.look_ups.kept(token, credentials.audiences)
        });
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
            audiences,
            ..Credentials::default()
        };
        let known = self.identified(&credentials).await?;
        let known = known.ok_or(Unauthorized::UnknownToken)?;
        if let Some(audiences) = known.audiences {
            return Ok((known.user, audiences.to_vec()));
        }
        let is_wanted = |one: &&String| audiences.is_empty() || audiences.contains(one);
        let both: Vec<String> = of_api.iter().filter(is_wanted).cloned().collect();
        match both.is_empty() && !(audiences.is_empty() && of_api.is_empty()) {
            true => Err(Unauthorized::UnknownToken),
            false => Ok((known.user, both)),
        }
    }

    /// Asks all authenticators. Refusals are returned only if none of them identifies the user
    /// (AC-2).
    async fn identified(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        let mut refusals = Vec::new();
        for member in &self.members {
            let answer = match member.authenticate(credentials) {
                Ok(Some(known)) => checked(known).await.map(Some),
                answer => answer,
            };
            match answer {
                Ok(Some(known)) => return Ok(Some(known)),
                Ok(None) => {}
                Err(refused) => refusals.push(refused),
            }
        }
        if let Some(token) = credentials.bearer {
            match self.look_ups.look_up(token, credentials.audiences).await {
                Ok(Some(known)) => return Ok(Some(known)),
                Ok(None) => {}
                Err(refused) => refusals.push(refused),
            }
        }
        Unauthorized::all(refusals).map_or(Ok(None), Err)
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http::HeaderValue;
    use http::header::AUTHORIZATION;

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
        let refused = Err(Unauthorized::MalformedToken);
        assert_eq!(asked(&["x"], Some("Bearer a\tb")), refused);
    }

    #[test]
    fn a_token_ends_at_the_next_space_ac_4() {
        let known = Ok("a".to_owned());
        assert_eq!(asked(&["a"], Some("bEARER a b")), known);
        assert_eq!(asked(&["a"], Some("Bearer a  ")), known);
        let unknown = Err(Unauthorized::UnknownToken);
        assert_eq!(asked(&["b"], Some("Bearer a b")), unknown);
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
