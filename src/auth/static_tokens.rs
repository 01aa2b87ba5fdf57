//! Tokens from files: the admin's token, and those of the token file (API-278).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::access::Revocations;
use super::admin::{self, AdminError};
use super::authenticator::{Authenticated, Authenticator, Credentials, Unauthorized};
use super::token::Token;
use super::token_file::{self, TokenFileError};
use crate::api::user_info::{MASTERS, UserInfo};

/// The key of the token table. It is a digest, so the duration of a lookup reveals nothing about
/// other tokens.
type Digest = [u8; 32];

fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

/// The user of the admin's token.
fn admin_user() -> UserInfo {
    UserInfo::authenticated("admin", vec![MASTERS.to_owned()])
}

/// Whether work started by one user may continue as the other: the user must have the same name and
/// at least the same permissions.
fn may_go_on(known: &UserInfo, user: &UserInfo) -> bool {
    known.name == user.name && user.is_in(MASTERS) >= known.is_in(MASTERS)
}

/// The users by the digests of their tokens.
#[derive(Default)]
struct Users {
    by_token: HashMap<Digest, Authenticated>,
    /// The bytes of the longest token. No digest is made of a longer one, such as that of a service
    /// account.
    longest: usize,
}

/// Users as a source has them.
#[derive(Clone, Default)]
struct Source {
    by_token: HashMap<Digest, Arc<UserInfo>>,
    longest: usize,
}

impl Source {
    /// Adds a user. Returns whether the token was known before.
    fn add(&mut self, token: &Token, user: UserInfo) -> bool {
        let token = token.secret().as_bytes();
        self.longest = self.longest.max(token.len());
        self.by_token
            .insert(digest(token), Arc::new(user))
            .is_some()
    }
}

/// Identifies the users of the admin's token and of the token file (API-278).
pub struct StaticTokens {
    sources: Mutex<Sources>,
    users: ArcSwap<Users>,
    revocations: Revocations,
}

/// The sources of the users, as they were last read.
struct Sources {
    admin: Token,
    /// Users whose tokens never change.
    fixed: Source,
    /// The data directory that holds the admin's token, if there is one.
    data_dir: Option<PathBuf>,
    /// The file of further users, if there is one.
    file: Option<PathBuf>,
    of_file: Source,
}

/// The result of reading the files again. If a file is unusable, its previous users stay valid.
#[derive(Debug)]
pub struct Reload {
    /// Whether the admin's token has changed.
    pub admin: Result<bool, AdminError>,
    /// The admin's token that is valid now.
    pub token: Token,
    /// The number of users in the token file, if one is configured.
    pub users: Result<Option<usize>, TokenFileError>,
    /// The number of watches that end because their users lost their access.
    pub watches: usize,
}

impl StaticTokens {
    /// Creates an authenticator for the admin's token, and for users whose tokens never change.
    pub fn new(
        admin: Token,
        users: Vec<(Token, UserInfo)>,
        revocations: Revocations,
    ) -> StaticTokens {
        let mut fixed = Source::default();
        for (token, user) in users {
            fixed.add(&token, user);
        }
        let tokens = StaticTokens {
            sources: Mutex::new(Sources {
                admin,
                fixed,
                data_dir: None,
                file: None,
                of_file: Source::default(),
            }),
            users: ArcSwap::default(),
            revocations,
        };
        tokens.take_over(&tokens.sources.lock());
        tokens
    }

    /// Reloads also read the admin's token from this data directory.
    #[must_use]
    pub fn following(self, data_dir: &Path) -> StaticTokens {
        self.sources.lock().data_dir = Some(data_dir.to_owned());
        self
    }

    /// Adds the users of the file of `--token-auth-file`.
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

    /// Reads the files again. A user who is no longer listed, or has fewer permissions than before,
    /// loses the earlier access.
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

    /// Writes a new admin's token to the data directory and replaces the earlier one, whose access
    /// is revoked. Returns the token and the number of watches that end.
    ///
    /// # Errors
    /// [`AdminError`] if the file cannot be written. The earlier token stays valid then.
    pub fn rotate_admin(&self) -> Result<(Token, usize), AdminError> {
        let mut sources = self.sources.lock();
        if let Some(data_dir) = &sources.data_dir {
            sources.admin = admin::replace_token(data_dir)?;
        }
        let watches = self.take_over(&sources);
        Ok((sources.admin.clone(), watches))
    }

    /// Replaces the users with those of the sources. Returns the number of watches that end.
    fn take_over(&self, sources: &Sources) -> usize {
        let before = self.users.load_full();
        let mut after = Users::default();
        let mut admin = Source::default();
        admin.add(&sources.admin, admin_user());
        let all = [sources.fixed.clone(), sources.of_file.clone(), admin];
        after.longest = all.iter().map(|source| source.longest).max().unwrap_or(0);
        for (digest, user) in all.into_iter().flat_map(|source| source.by_token) {
            let known = before.by_token.get(&digest);
            let known = known.filter(|known| may_go_on(&known.user, &user));
            let access = known.map(|known| known.access.clone()).unwrap_or_default();
            let known = Authenticated {
                user,
                access,
                ..Authenticated::default()
            };
            after.by_token.insert(digest, known);
        }
        let after = Arc::new(after);
        // The users must be stored first, so that nobody can gain an access that is already
        // revoked.
        self.users.store(Arc::clone(&after));
        let mut watches = 0;
        for (digest, known) in &before.by_token {
            let now = after.by_token.get(digest);
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
        let token = credentials.bearer;
        let token = token.filter(|token| token.len() <= users.longest);
        let known = token.and_then(|token| users.by_token.get(&digest(token)));
        Ok(known.cloned())
    }
}

impl Sources {
    /// Reads the admin's token. Returns whether it has changed.
    fn read_admin(&mut self) -> Result<bool, AdminError> {
        let Some(data_dir) = &self.data_dir else {
            return Ok(false);
        };
        let before = std::mem::replace(&mut self.admin, admin::reread_token(data_dir)?);
        Ok(before.secret() != self.admin.secret())
    }

    /// Reads the token file. Returns the number of its users, or `None` without a file.
    fn read_users(&mut self) -> Result<Option<usize>, TokenFileError> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let mut users = Source::default();
        let read = token_file::read(path)?;
        let count = read.len();
        if count == 0 && !self.of_file.by_token.is_empty() {
            // An editor that rewrites the file empties it first.
            return Err(TokenFileError {
                path: path.clone(),
                problem:
                    "it no longer holds any user; replace it by renaming a complete file over \
                          it. To remove the last user, leave a user without groups in it, or start \
                          the daemon without this flag"
                        .to_owned(),
            });
        }
        for (token, user) in read {
            let name = user.name.clone();
            if users.add(&token, user) {
                tracing::warn!(user = %name, "token-auth-file: a token repeats; the last line counts");
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
        StaticTokens::new(
            Token::new(admin).unwrap(),
            Vec::new(),
            Revocations::default(),
        )
    }

    fn known(tokens: &StaticTokens, token: &str) -> Option<Authenticated> {
        let bearer = Some(token.as_bytes());
        tokens
            .authenticate(&Credentials {
                bearer,
                ..Credentials::default()
            })
            .unwrap()
    }

    fn name(tokens: &StaticTokens, token: &str) -> Option<String> {
        known(tokens, token).map(|known| known.user.name.clone())
    }

    /// Returns the access that a token currently grants.
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
        let none = Credentials::default();
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

        // A reload removes and adds users. A file that cannot be used changes nothing.
        std::fs::write(file.path(), "t3,eve,u3\n").unwrap();
        assert_eq!(tokens.reload().users.unwrap(), Some(1));
        assert_eq!((asked("t1"), asked("t3")), (None, of("eve", "u3", false)));
        for (text, problem) in [
            ("t4\n", "3 columns"),
            ("", "any user"),
            ("\n\n", "any user"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let refusal = tokens.reload().users.unwrap_err().to_string();
            assert!(refusal.contains(problem), "{refusal}");
            assert_eq!(asked("t3"), of("eve", "u3", false));
        }

        // An empty file is valid if there were no users before.
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

        // Added groups and permissions end no watch. A new name or fewer permissions do.
        write(
            "t1,ada,1,\"system:masters,crew\"\nt2,bob,2,crew\nt3,zoe,3,system:masters\nt4,joe,4,system:masters\n",
        );
        assert_eq!(tokens.reload().watches, 2);
        assert!(changed.has_changed().unwrap());
        let revoked = opened.each_ref().map(|watch| watch.access().is_revoked());
        assert_eq!(revoked, [false, true, true, false]);
        assert!(gained().iter().all(|access| !access.is_revoked()));

        // An access from before a change that removed nothing can still be revoked.
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
        let tokens = StaticTokens::new(admin.clone(), Vec::new(), Revocations::default())
            .following(folder.path());
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
