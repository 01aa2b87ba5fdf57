//! From an `Authorization` header to a user (API-279, API-280).

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::access::Access;
use super::admin::{self, AdminError};
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

/// Who asks, and the access that was gained by it.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The user.
    pub user: User,
    /// For what goes on after the request.
    pub access: Access,
}

impl Authenticated {
    fn new(user: User) -> Authenticated {
        Authenticated {
            user,
            access: Access::default(),
        }
    }

    /// Whether what this user has begun may go on as this one: the same user, who may do no less.
    fn may_go_on_as(&self, user: &User) -> bool {
        self.user.name == user.name && user.is_admin() >= self.user.is_admin()
    }
}

type Users = HashMap<Digest, Authenticated>;

/// Knows the admin's token and those of a file. It can't say who may do what: that is
/// authorization.
pub struct Authenticator {
    sources: Mutex<Sources>,
    users: ArcSwap<Users>,
    /// Changes whenever an access is revoked.
    revocations: watch::Sender<u64>,
    anonymous: Authenticated,
}

/// What the users are made of: what was last read of each file.
struct Sources {
    admin: Token,
    /// Where the admin's token lies, when there is such a place.
    data_dir: Option<PathBuf>,
    /// The file of further users, when there is one.
    file: Option<PathBuf>,
    of_file: HashMap<Digest, User>,
}

/// What reading the files again has come to; of a file that can't be used what was read before
/// stays in force.
#[derive(Debug)]
pub struct Reload {
    /// Whether the admin has another token now.
    pub admin: Result<bool, AdminError>,
    /// The admin's token that is in force.
    pub token: Token,
    /// How many users the file of users has, if there is one.
    pub users: Result<Option<usize>, TokenFileError>,
    /// How many watches end because their users have lost their access.
    pub watches: usize,
}

impl Authenticator {
    /// An authenticator that knows one token.
    pub fn new(admin: Token) -> Authenticator {
        let authenticator = Authenticator {
            sources: Mutex::new(Sources {
                admin,
                data_dir: None,
                file: None,
                of_file: HashMap::new(),
            }),
            users: ArcSwap::default(),
            revocations: watch::Sender::new(0),
            anonymous: Authenticated::new(User::anonymous()),
        };
        authenticator.take_over(&authenticator.sources.lock());
        authenticator
    }

    /// The same, following the admin's token in this data directory.
    #[must_use]
    pub fn following(self, data_dir: &Path) -> Authenticator {
        self.sources.lock().data_dir = Some(data_dir.to_owned());
        self
    }

    /// The same, and the users of a file of `--token-auth-file`.
    ///
    /// # Errors
    /// [`TokenFileError`]
    pub fn with_file(self, path: &Path) -> Result<Authenticator, TokenFileError> {
        let mut sources = self.sources.lock();
        sources.file = Some(path.to_owned());
        sources.read_users()?;
        self.take_over(&sources);
        drop(sources);
        Ok(self)
    }

    /// Reads the files again. Who is not in them any more, or may do less, loses the access that
    /// was gained before.
    pub fn reload(&self) -> Reload {
        let mut sources = self.sources.lock();
        let admin = sources.read_admin();
        let users = sources.read_users();
        let watches = self.take_over(&sources);
        Reload {
            admin,
            token: sources.admin.clone(),
            users,
            watches,
        }
    }

    /// Makes the users those of the sources; how many watches end by that.
    fn take_over(&self, sources: &Sources) -> usize {
        let before = self.users.load_full();
        let mut after = Users::new();
        let admin = (digest(sources.admin.0.as_bytes()), User::admin());
        let of_file = sources.of_file.clone().into_iter();
        for (digest, user) in of_file.chain([admin]) {
            let known = before.get(&digest);
            let known = known.filter(|known| known.may_go_on_as(&user));
            let access = known.map(|known| known.access.clone()).unwrap_or_default();
            after.insert(digest, Authenticated { user, access });
        }
        let after = Arc::new(after);
        // In this order: nobody gains an access that is revoked already.
        self.users.store(Arc::clone(&after));
        let mut watches = 0;
        for (digest, known) in &*before {
            let now = after.get(digest);
            if !now.is_some_and(|now| now.access.is_the_same(&known.access)) {
                watches += known.access.revoke();
                self.revocations.send_modify(|count| *count += 1);
            }
        }
        watches
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

    /// Whether a request's headers carry credentials, and they are good.
    pub fn recognises(&self, headers: &HeaderMap) -> bool {
        self.authenticate(headers)
            .is_ok_and(|authenticated| authenticated.user != self.anonymous.user)
    }

    /// The user a request's headers speak for.
    ///
    /// # Errors
    /// A bearer token that is wrong: 401 even though anonymous requests are let in (API-279).
    /// A header of another scheme (`Basic`, …) is no credential of ours and counts as none.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Authenticated, Unauthorized> {
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Ok(self.anonymous.clone());
        };
        let Some(token) = bearer(header.as_bytes()) else {
            return Ok(self.anonymous.clone());
        };
        let users = self.users.load();
        let known = users.get(&digest(token)).cloned();
        known.ok_or_else(|| match token.iter().all(u8::is_ascii_graphic) {
            true => Unauthorized::UnknownToken,
            false => Unauthorized::MalformedToken,
        })
    }
}

impl Sources {
    /// Whether the admin has another token now.
    fn read_admin(&mut self) -> Result<bool, AdminError> {
        let Some(data_dir) = &self.data_dir else {
            return Ok(false);
        };
        let before = std::mem::replace(&mut self.admin, admin::reread_token(data_dir)?);
        Ok(before.0 != self.admin.0)
    }

    /// How many users the file has, if there is one.
    fn read_users(&mut self) -> Result<Option<usize>, TokenFileError> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let mut users = HashMap::new();
        let read = token_file::read(path)?;
        let count = read.len();
        if count == 0 && !self.of_file.is_empty() {
            // Whoever writes it anew empties it first.
            return Err(TokenFileError {
                path: path.clone(),
                problem: "it holds no user any more; replace it by renaming a complete file over \
                          it and send SIGHUP again. To take the last user away, leave a user \
                          without groups in it, or start the daemon without this flag"
                    .to_owned(),
            });
        }
        for (token, user) in read {
            let name = user.name.clone();
            if users.insert(digest(token.0.as_bytes()), user).is_some() {
                tracing::warn!(user = %name, "token-auth-file: a token is given twice; the last line counts");
            }
        }
        self.of_file = users;
        Ok(Some(count))
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

    use super::super::access::WatchAccess;
    use super::*;
    use crate::files::own;
    use http::HeaderValue;

    fn authenticate(header: Option<&str>) -> Result<User, Unauthorized> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        let authenticator = Authenticator::new(Token::new("secret-token").unwrap());
        authenticator.authenticate(&headers).map(|known| known.user)
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
            let refused = Err(Unauthorized::UnknownToken);
            assert_eq!(authenticate(Some(header)), refused, "{header}");
        }
        for header in ["Bearer secret-token secret-token", "Bearer a\tb"] {
            let refused = Err(Unauthorized::MalformedToken);
            assert_eq!(authenticate(Some(header)), refused, "{header}");
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
            let user = authenticator.authenticate(&headers).ok()?.user;
            Some((user.name.to_string(), user.is_admin()))
        };
        assert_eq!(asked("t1"), Some(("ada".to_owned(), true)));
        assert_eq!(asked("t2"), Some(("bob".to_owned(), false)));
        assert_eq!(asked("secret-token"), Some(("admin".to_owned(), true)));
        assert_eq!(asked("t3"), None);

        // Taken away and given, by a reload; a file that can't be used changes nothing.
        std::fs::write(file.path(), "t3,eve,u3\n").unwrap();
        assert_eq!(authenticator.reload().users.unwrap(), Some(1));
        assert_eq!(
            (asked("t1"), asked("t3")),
            (None, Some(("eve".to_owned(), false)))
        );
        for (text, problem) in [("t4\n", "3 columns"), ("", "no user"), ("\n\n", "no user")] {
            std::fs::write(file.path(), text).unwrap();
            let refusal = authenticator.reload().users.unwrap_err().to_string();
            assert!(refusal.contains(problem), "{refusal}");
            assert_eq!(asked("t3"), Some(("eve".to_owned(), false)));
        }

        // Where there was no user, none is missing.
        std::fs::write(file.path(), "").unwrap();
        let admin = Token::new("secret-token").unwrap();
        let authenticator = Authenticator::new(admin).with_file(file.path()).unwrap();
        assert_eq!(authenticator.reload().users.unwrap(), Some(0));
    }

    /// The access that a token gives now.
    fn access(authenticator: &Authenticator, token: &str) -> Access {
        let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        let headers = [(AUTHORIZATION, header)].into_iter().collect();
        authenticator.authenticate(&headers).unwrap().access
    }

    #[test]
    fn who_is_gone_or_may_do_less_loses_the_access_that_was_gained() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write(
            "t1,ada,1,system:masters\nt2,bob,2,system:masters\nt3,eve,3,system:masters\nt4,joe,4,crew\n",
        );
        let admin = Token::new("secret-token").unwrap();
        let authenticator = Authenticator::new(admin).with_file(file.path()).unwrap();
        let gained = || ["t1", "t2", "t3", "t4"].map(|token| access(&authenticator, token));
        let before = gained();
        let changed = authenticator.revocations();
        let opened = before.clone().map(WatchAccess::new);
        assert_eq!(authenticator.reload().watches, 0);
        assert!(!changed.has_changed().unwrap());

        // Further groups and rights end nothing; another name does, and less rights do.
        write(
            "t1,ada,1,\"system:masters,crew\"\nt2,bob,2,crew\nt3,zoe,3,system:masters\nt4,joe,4,system:masters\n",
        );
        assert_eq!(authenticator.reload().watches, 2);
        assert!(changed.has_changed().unwrap());
        let revoked = opened.each_ref().map(|watch| watch.access().is_revoked());
        assert_eq!(revoked, [false, true, true, false]);
        assert!(gained().iter().all(|access| !access.is_revoked()));

        // What was gained before a change that took nothing away can still be revoked.
        write("t2,bob,2,crew\n");
        assert_eq!(authenticator.reload().watches, 2);
        assert!(before.iter().all(Access::is_revoked));
        assert!(!access(&authenticator, "secret-token").is_revoked());
    }

    #[test]
    fn the_admins_token_follows_its_file_and_a_bad_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.token");
        let admin = admin::load_or_create_token(folder.path()).unwrap();
        let authenticator = Authenticator::new(admin.clone()).following(folder.path());
        let first = access(&authenticator, admin.secret());
        assert!(!authenticator.reload().admin.unwrap());

        for text in [None, Some(""), Some("two words\n"), Some("caf\u{e9}\n")] {
            match text {
                Some(text) => own::write(&path, text.as_bytes()).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let refusal = authenticator.reload().admin.unwrap_err().to_string();
            assert!(refusal.contains("admin.token: it "), "{refusal}");
            assert!(!refusal.contains("words"), "{refusal}");
            assert!(!path.exists() || text.is_some(), "a reload makes no token");
            assert!(!access(&authenticator, admin.secret()).is_revoked());
        }

        own::write(&path, b"another-token\n").unwrap();
        let reload = authenticator.reload();
        assert!(reload.admin.unwrap());
        assert_eq!(reload.token.secret(), "another-token");
        assert!(first.is_revoked());
        assert!(!access(&authenticator, "another-token").is_revoked());
        let header = format!("Bearer {}", admin.secret());
        let headers = [(AUTHORIZATION, HeaderValue::from_str(&header).unwrap())];
        let refused = authenticator.authenticate(&headers.into_iter().collect());
        assert_eq!(refused.unwrap_err(), Unauthorized::UnknownToken);
    }
}
