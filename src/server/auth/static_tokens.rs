//! Tokens that are written down: the admin's, and those of a file (API-278).

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::access::Revocations;
use super::admin::{self, AdminError};
use super::authenticator::{Authenticated, Authenticator, Credentials, Unauthorized};
use super::token_file::{self, TokenFileError};
use crate::api::user_info::{MASTERS, UserInfo};

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

/// The bearer of the admin's token.
fn admin_user() -> UserInfo {
    UserInfo::authenticated("admin", vec![MASTERS.to_owned()])
}

/// Whether what one user has begun may go on as the other: the same one, who may do no less.
fn may_go_on(known: &UserInfo, user: &UserInfo) -> bool {
    known.name == user.name && user.is_in(MASTERS) >= known.is_in(MASTERS)
}

type Users = HashMap<Digest, Authenticated>;

/// Knows the admin's token and those of a file (API-278).
pub struct StaticTokens {
    sources: Mutex<Sources>,
    users: ArcSwap<Users>,
    revocations: Revocations,
}

/// What the users are made of: what was last read of each file.
struct Sources {
    admin: Token,
    /// Where the admin's token lies, when there is such a place.
    data_dir: Option<PathBuf>,
    /// The file of further users, when there is one.
    file: Option<PathBuf>,
    of_file: HashMap<Digest, Arc<UserInfo>>,
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

impl StaticTokens {
    /// The admin's token alone.
    pub fn new(admin: Token, revocations: Revocations) -> StaticTokens {
        let tokens = StaticTokens {
            sources: Mutex::new(Sources {
                admin,
                data_dir: None,
                file: None,
                of_file: HashMap::new(),
            }),
            users: ArcSwap::default(),
            revocations,
        };
        tokens.take_over(&tokens.sources.lock());
        tokens
    }

    /// The same, following the admin's token in this data directory.
    #[must_use]
    pub fn following(self, data_dir: &Path) -> StaticTokens {
        self.sources.lock().data_dir = Some(data_dir.to_owned());
        self
    }

    /// The same, and the users of a file of `--token-auth-file`.
    ///
    /// # Errors
    /// [`TokenFileError`]
    pub fn with_file(self, path: &Path) -> Result<StaticTokens, TokenFileError> {
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
        let admin = (digest(sources.admin.0.as_bytes()), Arc::new(admin_user()));
        let of_file = sources.of_file.clone().into_iter();
        for (digest, user) in of_file.chain([admin]) {
            let known = before.get(&digest);
            let known = known.filter(|known| may_go_on(&known.user, &user));
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
                watches += self.revocations.revoke(&known.access);
            }
        }
        watches
    }
}

impl Authenticator for StaticTokens {
    fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        let users = self.users.load();
        let known = credentials
            .bearer
            .and_then(|token| users.get(&digest(token)));
        Ok(known.cloned())
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
            if users
                .insert(digest(token.0.as_bytes()), Arc::new(user))
                .is_some()
            {
                tracing::warn!(user = %name, "token-auth-file: a token is given twice; the last line counts");
            }
        }
        self.of_file = users;
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::access::{Access, WatchAccess};
    use super::*;
    use crate::files::own;

    fn tokens(admin: &str) -> StaticTokens {
        StaticTokens::new(Token::new(admin).unwrap(), Revocations::default())
    }

    fn known(tokens: &StaticTokens, token: &str) -> Option<Authenticated> {
        let bearer = Some(token.as_bytes());
        tokens.authenticate(&Credentials { bearer }).unwrap()
    }

    fn name(tokens: &StaticTokens, token: &str) -> Option<String> {
        known(tokens, token).map(|known| known.user.name.clone())
    }

    /// The access that a token gives now.
    fn access(tokens: &StaticTokens, token: &str) -> Access {
        known(tokens, token).unwrap().access
    }

    #[test]
    fn the_admin_token_makes_the_admin_and_no_other_does_api_278() {
        let tokens = self::tokens("secret-token");
        let admin = known(&tokens, "secret-token").unwrap().user;
        assert_eq!(admin.name, "admin");
        assert_eq!(admin.groups, ["system:masters", "system:authenticated"]);
        for other in ["secret-toke", "secret-token2", "x", "", "a b"] {
            assert_eq!(name(&tokens, other), None, "{other}");
        }
        let none = Credentials { bearer: None };
        assert!(tokens.authenticate(&none).unwrap().is_none());
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
        let tokens = self::tokens("secret-token").with_file(file.path()).unwrap();
        let asked = |token: &str| {
            let user = known(&tokens, token)?.user;
            Some((user.name.clone(), user.uid.clone(), user.is_in(MASTERS)))
        };
        let of = |name: &str, uid: &str, admin| Some((name.to_owned(), uid.to_owned(), admin));
        assert_eq!(asked("t1"), of("ada", "u1", true));
        assert_eq!(asked("t2"), of("bob", "u2", false));
        assert_eq!(asked("secret-token"), of("admin", "", true));
        assert_eq!(asked("t3"), None);

        // Taken away and given, by a reload; a file that can't be used changes nothing.
        std::fs::write(file.path(), "t3,eve,u3\n").unwrap();
        assert_eq!(tokens.reload().users.unwrap(), Some(1));
        assert_eq!((asked("t1"), asked("t3")), (None, of("eve", "u3", false)));
        for (text, problem) in [("t4\n", "3 columns"), ("", "no user"), ("\n\n", "no user")] {
            std::fs::write(file.path(), text).unwrap();
            let refusal = tokens.reload().users.unwrap_err().to_string();
            assert!(refusal.contains(problem), "{refusal}");
            assert_eq!(asked("t3"), of("eve", "u3", false));
        }

        // Where there was no user, none is missing.
        std::fs::write(file.path(), "").unwrap();
        let tokens = self::tokens("secret-token").with_file(file.path()).unwrap();
        assert_eq!(tokens.reload().users.unwrap(), Some(0));
    }

    #[test]
    fn who_is_gone_or_may_do_less_loses_the_access_that_was_gained() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write(
            "t1,ada,1,system:masters\nt2,bob,2,system:masters\nt3,eve,3,system:masters\nt4,joe,4,crew\n",
        );
        let tokens = self::tokens("secret-token").with_file(file.path()).unwrap();
        let gained = || ["t1", "t2", "t3", "t4"].map(|token| access(&tokens, token));
        let before = gained();
        let changed = tokens.revocations.subscribe();
        let opened = before.clone().map(WatchAccess::new);
        assert_eq!(tokens.reload().watches, 0);
        assert!(!changed.has_changed().unwrap());

        // Further groups and rights end nothing; another name does, and less rights do.
        write(
            "t1,ada,1,\"system:masters,crew\"\nt2,bob,2,crew\nt3,zoe,3,system:masters\nt4,joe,4,system:masters\n",
        );
        assert_eq!(tokens.reload().watches, 2);
        assert!(changed.has_changed().unwrap());
        let revoked = opened.each_ref().map(|watch| watch.access().is_revoked());
        assert_eq!(revoked, [false, true, true, false]);
        assert!(gained().iter().all(|access| !access.is_revoked()));

        // What was gained before a change that took nothing away can still be revoked.
        write("t2,bob,2,crew\n");
        assert_eq!(tokens.reload().watches, 2);
        assert!(before.iter().all(Access::is_revoked));
        assert!(!access(&tokens, "secret-token").is_revoked());
    }

    #[test]
    fn the_admins_token_follows_its_file_and_a_bad_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.token");
        let admin = admin::load_or_create_token(folder.path()).unwrap();
        let tokens =
            StaticTokens::new(admin.clone(), Revocations::default()).following(folder.path());
        let first = access(&tokens, admin.secret());
        assert!(!tokens.reload().admin.unwrap());

        for text in [None, Some(""), Some("two words\n"), Some("caf\u{e9}\n")] {
            match text {
                Some(text) => own::write(&path, text.as_bytes()).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let refusal = tokens.reload().admin.unwrap_err().to_string();
            assert!(refusal.contains("admin.token: it "), "{refusal}");
            assert!(!refusal.contains("words"), "{refusal}");
            assert!(!path.exists() || text.is_some(), "a reload makes no token");
            assert!(!access(&tokens, admin.secret()).is_revoked());
        }

        own::write(&path, b"another-token\n").unwrap();
        let reload = tokens.reload();
        assert!(reload.admin.unwrap());
        assert_eq!(reload.token.secret(), "another-token");
        assert!(first.is_revoked());
        assert!(!access(&tokens, "another-token").is_revoked());
        assert_eq!(name(&tokens, admin.secret()), None);
    }
}
