//! From an `Authorization` header to a user (API-279, API-280).

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};

use super::token_file::{self, TokenFileError};

/// The secret that makes its bearer a user. It has no `Display` and hides in `Debug`, so that it
/// can't slip into a log.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Takes a token as it is; `None` when it is empty or could not be sent in a header.
    pub fn new(secret: &str) -> Option<Token> {
        let sendable = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
        sendable.then(|| Token(secret.to_owned()))
    }

    /// The secret itself, for the files that hold it.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}

/// What tokens are known by: looking one up tells nothing of the others, however long it takes.
type Digest = [u8; 32];

fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

/// Who asks; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: Arc<str>,
    /// The groups the user belongs to.
    pub groups: Arc<[String]>,
}

const AUTHENTICATED: &str = "system:authenticated";

impl User {
    /// The bearer of the admin token.
    pub fn admin() -> User {
        User::authenticated("admin", ["system:masters"])
    }

    /// A request without credentials (API-280).
    pub fn anonymous() -> User {
        User {
            name: Arc::from("system:anonymous"),
            groups: Arc::from(["system:unauthenticated".to_owned()]),
        }
    }

    /// Somebody whose credentials were good (API-279).
    pub fn authenticated<'g>(name: &str, groups: impl IntoIterator<Item = &'g str>) -> User {
        let mut groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User {
            name: Arc::from(name),
            groups: Arc::from(groups),
        }
    }

    /// Whether the user may do anything; `system:masters` may (API-286).
    pub fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }
}

/// Credentials were presented and are wrong (API-279).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credentials presented are not valid")]
pub struct Unauthorized;

/// Knows the admin's token and those of a file. It can't say who may do what: that is
/// authorization.
pub struct Authenticator {
    admin: Token,
    /// The file of further users, when there is one.
    file: Option<PathBuf>,
    users: ArcSwap<HashMap<Digest, User>>,
    anonymous: User,
}

impl Authenticator {
    /// An authenticator that knows one token.
    pub fn new(admin: Token) -> Authenticator {
        let users = HashMap::from([(digest(admin.0.as_bytes()), User::admin())]);
        Authenticator {
            admin,
            file: None,
            users: ArcSwap::from_pointee(users),
            anonymous: User::anonymous(),
        }
    }

    /// The same, and the users of a file of `--token-auth-file`.
    ///
    /// # Errors
    /// [`TokenFileError`]
    pub fn with_file(self, path: &Path) -> Result<Authenticator, TokenFileError> {
        let authenticator = Authenticator {
            file: Some(path.to_owned()),
            ..self
        };
        authenticator.reload()?;
        Ok(authenticator)
    }

    /// Reads the file again, if there is one; says how many users it has. Where it can't be used
    /// the users of before stay.
    ///
    /// # Errors
    /// [`TokenFileError`]
    pub fn reload(&self) -> Result<Option<usize>, TokenFileError> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let mut users = HashMap::new();
        let read = token_file::read(path)?;
        let count = read.len();
        for (token, user) in read {
            let name = user.name.clone();
            if users.insert(digest(token.0.as_bytes()), user).is_some() {
                tracing::warn!(user = %name, "token-auth-file: a token is given twice; the last line counts");
            }
        }
        users.insert(digest(self.admin.0.as_bytes()), User::admin());
        self.users.store(Arc::new(users));
        Ok(Some(count))
    }

    /// The user a request's headers speak for.
    ///
    /// # Errors
    /// A bearer token that is wrong: 401 even though anonymous requests are let in (API-279).
    /// A header of another scheme (`Basic`, …) is no credential of ours and counts as none.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<User, Unauthorized> {
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Ok(self.anonymous.clone());
        };
        let Some(token) = bearer(header.as_bytes()) else {
            return Ok(self.anonymous.clone());
        };
        let users = self.users.load();
        users.get(&digest(token)).cloned().ok_or(Unauthorized)
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
    use std::io::Write;

    use super::*;
    use http::HeaderValue;

    fn authenticate(header: Option<&str>) -> Result<User, Unauthorized> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        Authenticator::new(Token::new("secret-token").unwrap()).authenticate(&headers)
    }

    #[test]
    fn the_admin_token_makes_the_admin() {
        assert_eq!(authenticate(Some("Bearer secret-token")), Ok(User::admin()));
        assert_eq!(
            authenticate(Some("bearer   secret-token ")),
            Ok(User::admin())
        );
        assert!(User::admin().is_admin());
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
            assert_eq!(authenticate(header), Ok(User::anonymous()), "{header:?}");
        }
        assert!(!User::anonymous().is_admin());
    }

    #[test]
    fn a_token_never_shows_itself() {
        let token = Token::new("secret-token").unwrap();
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn what_a_header_cannot_carry_is_no_token() {
        for bad in ["", "with space", "line\nbreak", "ümlaut"] {
            assert!(Token::new(bad).is_none(), "{bad:?}");
        }
    }

    /// Several daemons that share a file know the same users.
    #[test]
    fn tokens_of_a_file_make_its_users_and_the_admins_stays_good() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"t1,ada,u1,system:masters\nt2,bob,u2\n")
            .unwrap();
        let admin = Token::new("secret-token").unwrap();
        let authenticator = Authenticator::new(admin).with_file(file.path()).unwrap();
        let asked = |token: &str| {
            let mut headers = HeaderMap::new();
            let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            headers.insert(AUTHORIZATION, header);
            let user = authenticator.authenticate(&headers).ok()?;
            Some((user.name.to_string(), user.is_admin()))
        };
        assert_eq!(asked("t1"), Some(("ada".to_owned(), true)));
        assert_eq!(asked("t2"), Some(("bob".to_owned(), false)));
        assert_eq!(asked("secret-token"), Some(("admin".to_owned(), true)));
        assert_eq!(asked("t3"), None);

        // Taken away and given, by a reload; a file that can't be used changes nothing.
        std::fs::write(file.path(), "t3,eve,u3\n").unwrap();
        assert_eq!(authenticator.reload().unwrap(), Some(1));
        assert_eq!(
            (asked("t1"), asked("t3")),
            (None, Some(("eve".to_owned(), false)))
        );
        std::fs::write(file.path(), "t4\n").unwrap();
        assert!(authenticator.reload().is_err());
        assert_eq!(asked("t3"), Some(("eve".to_owned(), false)));
    }
}
