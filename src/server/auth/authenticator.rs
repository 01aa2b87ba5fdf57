//! From an `Authorization` header to a user (API-279, API-280).

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

/// The secret that makes its bearer the admin. It has no `Display` and hides in `Debug`, so that
/// it can't slip into a log.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// Takes a token as it is; `None` when it is empty or could not be sent in a header.
    pub fn new(secret: &str) -> Option<AdminToken> {
        let sendable = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
        sendable.then(|| AdminToken(secret.to_owned()))
    }

    /// The secret itself, for the files that hold it.
    pub fn secret(&self) -> &str {
        &self.0
    }

    fn is(&self, presented: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(presented).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AdminToken(hidden)")
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: &'static str,
    /// The groups the user belongs to.
    pub groups: &'static [&'static str],
}

impl User {
    /// The bearer of the admin token.
    pub const ADMIN: User = User {
        name: "admin",
        groups: &["system:masters", "system:authenticated"],
    };
    /// A request without credentials (API-280).
    pub const ANONYMOUS: User = User {
        name: "system:anonymous",
        groups: &["system:unauthenticated"],
    };

    /// Whether the user may do anything; `system:masters` may (API-286).
    pub fn is_admin(&self) -> bool {
        self.groups.contains(&"system:masters")
    }
}

/// Credentials were presented and are wrong (API-279).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credentials presented are not valid")]
pub struct Unauthorized;

/// Knows the admin token. It can't say who may do what: that is authorization.
#[derive(Clone, Debug)]
pub struct Authenticator {
    admin: AdminToken,
}

impl Authenticator {
    /// An authenticator that knows one token.
    pub fn new(admin: AdminToken) -> Authenticator {
        Authenticator { admin }
    }

    /// The user a request's headers speak for.
    ///
    /// # Errors
    /// A bearer token that is wrong: 401 even though anonymous requests are let in (API-279).
    /// A header of another scheme (`Basic`, …) is no credential of ours and counts as none.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<User, Unauthorized> {
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Ok(User::ANONYMOUS);
        };
        let Some(token) = bearer(header.as_bytes()) else {
            return Ok(User::ANONYMOUS);
        };
        if self.admin.is(token) {
            Ok(User::ADMIN)
        } else {
            Err(Unauthorized)
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
    use super::*;
    use http::HeaderValue;

    fn authenticate(header: Option<&str>) -> Result<User, Unauthorized> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        Authenticator::new(AdminToken::new("secret-token").unwrap()).authenticate(&headers)
    }

    #[test]
    fn the_admin_token_makes_the_admin() {
        assert_eq!(authenticate(Some("Bearer secret-token")), Ok(User::ADMIN));
        assert_eq!(
            authenticate(Some("bearer   secret-token ")),
            Ok(User::ADMIN)
        );
        assert!(User::ADMIN.is_admin());
    }

    /// API-279.
    #[test]
    fn a_wrong_token_is_refused() {
        for header in ["Bearer secret-toke", "Bearer secret-token2", "Bearer x"] {
            assert_eq!(authenticate(Some(header)), Err(Unauthorized), "{header}");
        }
    }

    /// API-280.
    #[test]
    fn no_credentials_make_the_anonymous_user() {
        for header in [None, Some("Bearer "), Some("Bearer"), Some("Basic YTpi")] {
            assert_eq!(authenticate(header), Ok(User::ANONYMOUS), "{header:?}");
        }
        assert!(!User::ANONYMOUS.is_admin());
    }

    #[test]
    fn a_token_never_shows_itself() {
        let authenticator = Authenticator::new(AdminToken::new("secret-token").unwrap());
        assert!(!format!("{authenticator:?}").contains("secret"));
    }

    #[test]
    fn what_a_header_cannot_carry_is_no_token() {
        for bad in ["", "with space", "line\nbreak", "ümlaut"] {
            assert!(AdminToken::new(bad).is_none(), "{bad:?}");
        }
    }
}
