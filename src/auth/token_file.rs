//! The file of `--token-auth-file`, in the format of kube-apiserver: one line per token,
//! `token,user,uid,"group1,group2"`. Several daemons that share the file have the same users.

use std::path::{Path, PathBuf};

use super::token::Token;
use crate::api::user_info::UserInfo;
use crate::files::given;

/// The largest token file. A larger file was probably configured by mistake.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The file is unusable. The error names a line but never its content.
#[derive(Debug, thiserror::Error)]
#[error("--token-auth-file={}: {problem}", .path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// The problem with it.
    pub problem: String,
}

/// Users, each with its token.
type Users = Vec<(Token, UserInfo)>;

/// Reads the users of a file, each with its token.
///
/// # Errors
/// [`TokenFileError`] if the file cannot be read or a line does not describe a user.
pub(super) fn read(path: &Path) -> Result<Users, TokenFileError> {
    let (users, remedy) = understood(path)?;
    if let Some(remedy) = remedy {
        let path = path.display();
        tracing::warn!(%path, "others than its owner can read the file of tokens; {remedy}");
    }
    Ok(users)
}

/// Checks that a file is usable, and logs nothing.
///
/// # Errors
/// [`TokenFileError`] if the file cannot be read or a line does not describe a user.
pub fn check_token_file(path: &Path) -> Result<(), TokenFileError> {
    understood(path).map(|_| ())
}

/// Returns the users of a file, and advice for the operator if others can read it.
fn understood(path: &Path) -> Result<(Users, Option<String>), TokenFileError> {
    let refuse = |problem: String| TokenFileError {
        path: path.to_owned(),
        problem,
    };
    let unusable = |error: std::io::Error| refuse(error.to_string());
    let file = given::read(path, FILE_BYTES_MAX).map_err(unusable)?;
    // A user who can write the file can become any user.
    file.check_writers().map_err(unusable)?;
    let users = users(path, file.text().map_err(unusable)?).map_err(refuse)?;
    Ok((users, file.close_to_readers()))
}

fn users(path: &Path, text: &str) -> Result<Users, String> {
    let mut users = Vec::new();
    let lines = text.trim_start_matches('\u{feff}').lines();
    for (number, line) in (1..).zip(lines).filter(|(_, line)| !line.is_empty()) {
        let line = columns(line).map_err(|why| format!("line {number} {why}"))?;
        let [token, name, uid] = [0, 1, 2].map(|column| line.get(column).map(String::as_str));
        let (Some(token), Some(name), Some(uid)) = (token.map(str::trim), name, uid) else {
            return Err(format!(
                "line {number}: token file '{}' must have at least 3 columns (token, user name, \
                 user uid), found {}",
                path.display(),
                line.len()
            ));
        };
        if token.is_empty() {
            tracing::warn!(
                line = number,
                "token-auth-file: a line without a token is skipped"
            );
            continue;
        }
        let Some(token) = Token::new(token) else {
            return Err(format!(
                "line {number} has no token that a header can carry"
            ));
        };
        if name.is_empty() {
            return Err(format!("line {number} has no user name"));
        }
        let groups = line.get(3).map(String::as_str).unwrap_or_default();
        // Names appear in logs and on terminals.
        if [name, uid, groups].concat().contains(char::is_control) {
            return Err(format!(
                "line {number} has a control character in the name or uid of its user or in a group"
            ));
        }
        // Spaces are part of a name: " system:masters" is another group.
        let groups = groups.split(',').filter(|group| !group.is_empty());
        let groups = groups.map(str::to_owned).collect();
        let user = UserInfo {
            uid: uid.to_owned(),
            ..UserInfo::authenticated(name, groups)
        };
        users.push((token, user));
    }
    Ok(users)
}

/// Splits a line into columns, by the strict rules of Go's `encoding/csv`. A column is quoted as a
/// whole or not at all, and two quotes inside a quoted column stand for one. A column cannot
/// continue on the next line, because a missing quote would then merge two users into one.
fn columns(line: &str) -> Result<Vec<String>, &'static str> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let behind = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (column, behind) = unquoted(quoted)?;
                columns.push(column);
                behind
            }
            None => {
                let (column, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if column.contains('"') {
                    return Err("has a quote inside a column that does not begin with one");
                }
                columns.push(column.to_owned());
                behind
            }
        };
        rest = match behind.strip_prefix(',') {
            Some(next) => next,
            None if behind.is_empty() => return Ok(columns),
            None => return Err("has text after the quote that ends a column"),
        };
    }
}

/// Returns the text before the quote that ends a column, and the text after it.
fn unquoted(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut column = String::new();
    let mut rest = quoted;
    loop {
        let Some((text, behind)) = rest.split_once('"') else {
            return Err("has a quote without another one that ends its column");
        };
        column.push_str(text);
        match behind.strip_prefix('"') {
            Some(behind) => {
                column.push('"');
                rest = behind;
            }
            None => return Ok((column, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::access::Revocations;
    use super::super::authenticator::{Authenticator, Credentials};
    use super::super::static_tokens::StaticTokens;
    use super::*;
    use crate::api::user_info::MASTERS;

    fn names(text: &str) -> Result<Vec<(String, bool)>, String> {
        let users = users(Path::new("/f"), text)?.into_iter();
        Ok(users
            .map(|(_, user)| (user.name.clone(), user.is_in(MASTERS)))
            .collect())
    }

    #[test]
    fn each_line_is_a_user_with_groups_in_one_quoted_column() {
        let text = "t1,ada,u1,\"system:masters,crew\"\nt2, bob ,u2\n\nt3,eve,u3,crew\n";
        let expected = [("ada", true), (" bob ", false), ("eve", false)];
        let expected = expected.map(|(name, admin)| (name.to_owned(), admin));
        assert_eq!(names(text), Ok(expected.to_vec()));
        let eve = users(Path::new("/f"), text).unwrap().pop().unwrap().1;
        assert_eq!(eve.groups, ["crew", "system:authenticated"]);
        assert_eq!(eve.uid, "u3");
    }

    #[test]
    fn a_line_without_a_token_is_skipped_ac_7() {
        let expected = vec![("bob".to_owned(), false)];
        assert_eq!(names(",ada,u1,system:masters\nt2,bob,u2\n"), Ok(expected));
    }

    /// As in kube-apiserver.
    #[test]
    fn blanks_belong_to_the_names_of_users_and_groups() {
        let text = "t1,ada,u1,\" system:masters \"\nt2,eve,u2,\"crew, system:masters\"\n";
        let expected = [("ada", false), ("eve", false)];
        let expected = expected.map(|(name, admin)| (name.to_owned(), admin));
        assert_eq!(names(text), Ok(expected.to_vec()));
    }

    #[test]
    fn quoted_columns_hold_commas_and_quotes() {
        let text = "\u{feff}t1,\"a\"\"d,a\",\"\",\"system:masters\"\r\n\r\nt2,bob,\n";
        let expected = [("a\"d,a", true), ("bob", false)];
        let expected = expected.map(|(name, admin)| (name.to_owned(), admin));
        assert_eq!(names(text), Ok(expected.to_vec()));
    }

    #[test]
    fn a_file_that_others_can_write_is_refused_and_one_read_again_leaves_the_users_as_they_were() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        let write = |text: &str, mode: u32| {
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        for mode in [0o620, 0o602] {
            write("t1,ada,u1\n", mode);
            let said = read(path).unwrap_err().to_string();
            assert!(said.contains("others than its owner can write"), "{said}");
        }
        for mode in [0o600, 0o644, 0o400] {
            write("t1,ada,u1\n", mode | 0o200);
            assert_eq!(read(path).unwrap().len(), 1);
        }
        let admin = Token::new("admin").unwrap();
        let tokens = StaticTokens::new(admin, Vec::new(), Revocations::default());
        let tokens = tokens.with_file(path).unwrap();
        let is_known = || {
            let bearer = Some(&b"t1"[..]);
            let known = tokens
                .authenticate(&Credentials {
                    bearer,
                    ..Credentials::default()
                })
                .unwrap();
            known.is_some_and(|known| known.user.name == "ada")
        };
        assert!(is_known());
        for (text, mode) in [("t2,bob,\"u2\nt3,eve,u3\n", 0o600), ("t2,bob,u2\n", 0o666)] {
            write(text, mode);
            tokens.reload().users.unwrap_err();
            assert!(is_known());
        }
        write("t2,bob,u2\n", 0o600);
        tokens.reload().users.unwrap();
        assert!(!is_known());
    }

    #[test]
    fn a_line_that_is_no_users_is_named_and_not_shown_ac_7() {
        for (text, problem) in [
            (
                "t1,ada,u1\nt2,bob\n",
                "line 2: token file '/f' must have at least 3 columns (token, user name, user uid), \
                 found 2",
            ),
            ("se cret,ada,u1\n", "line 1 has no token"),
            ("secret,,u1\n", "line 1 has no user name"),
            ("secret,a\u{1b}[2J,u1\n", "line 1 has a control character"),
            ("secret,ada,u\u{7}1\n", "line 1 has a control character"),
            (
                "secret,ada,u1,\"crew,a\u{7}\"\n",
                "line 1 has a control character",
            ),
            // A missing quote must not merge two users, and must not turn an admin into a user
            // without permissions.
            (
                "secret,ada,\"u1\nt2,bob,\"u2\",system:masters\n",
                "line 1 has a quote without another one",
            ),
            (
                "t0,eve,u0\nsecret,ada,u1,\"crew\n",
                "line 2 has a quote without another one",
            ),
            (
                "secret,ada,u1, \"system:masters,crew\"\n",
                "line 1 has a quote inside a column",
            ),
            ("secret,a\"d\"a,u1\n", "line 1 has a quote inside a column"),
            (
                "secret,ada,\"u1\" ,crew\n",
                "line 1 has text after the quote",
            ),
        ] {
            let said = names(text).unwrap_err();
            assert!(said.starts_with(problem), "{said}");
            assert!(!said.contains("cret") && !said.contains("t2"), "{said}");
        }
    }
}
