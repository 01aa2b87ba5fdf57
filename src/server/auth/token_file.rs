//! The file of `--token-auth-file`: a line for each token, `token,user,uid,"group1,group2"`, as
//! kube-apiserver reads it. Several daemons that share it know the same users.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::authenticator::{Token, User};

/// A file of tokens holds some lines; anything else was given by mistake.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The file can't be used; it names a line and never what is in it.
#[derive(Debug, thiserror::Error)]
#[error("--token-auth-file={}: {problem}", .path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads the users of a file, each with the token that makes them.
///
/// # Errors
/// [`TokenFileError`] for a file that can't be read and a line that is no user's.
pub(super) fn read(path: &Path) -> Result<Vec<(Token, User)>, TokenFileError> {
    let refuse = |problem: String| TokenFileError {
        path: path.to_owned(),
        problem,
    };
    let file = std::fs::File::open(path).map_err(|error| refuse(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| refuse(error.to_string()))?;
    if metadata.permissions().mode() & 0o044 != 0 {
        let path = path.display();
        tracing::warn!(%path, "others than its owner can read the file of tokens; chmod 600 it");
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| refuse(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse(format!(
            "more than {FILE_BYTES_MAX} bytes are no file of tokens"
        )));
    }
    users(&text).map_err(refuse)
}

fn users(text: &str) -> Result<Vec<(Token, User)>, String> {
    let mut lines = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut users = Vec::new();
    for line in lines.records() {
        let line = line.map_err(|error| match error.position() {
            Some(position) => format!("line {} is not comma-separated values", position.line()),
            None => "it is not comma-separated values".to_owned(),
        })?;
        let number = line.position().map_or(0, csv::Position::line);
        let [token, name, uid] = [0, 1, 2].map(|column| line.get(column));
        let (Some(token), Some(name), Some(_)) = (token, name, uid) else {
            return Err(format!(
                "line {number} must have at least 3 columns (token, user name, user uid), it has {}",
                line.len()
            ));
        };
        let Some(token) = Token::new(token) else {
            return Err(format!(
                "line {number} has no token that a header can carry"
            ));
        };
        if name.is_empty() {
            return Err(format!("line {number} names no user"));
        }
        let groups = line.get(3).unwrap_or_default().split(',');
        let groups = groups.map(str::trim).filter(|group| !group.is_empty());
        users.push((token, User::authenticated(name, groups)));
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<(String, bool)>, String> {
        let users = users(text)?.into_iter();
        Ok(users
            .map(|(_, user)| (user.name.to_string(), user.is_admin()))
            .collect())
    }

    #[test]
    fn each_line_is_a_user_with_groups_in_one_quoted_column() {
        let text = "t1,ada,u1,\"system:masters,crew\"\nt2, bob ,u2\n\nt3,eve,u3,crew\n";
        let expected = [("ada", true), ("bob", false), ("eve", false)];
        let expected = expected.map(|(name, admin)| (name.to_owned(), admin));
        assert_eq!(names(text), Ok(expected.to_vec()));
        let eve = users(text).unwrap().pop().unwrap().1;
        assert_eq!(eve.groups.join(" "), "crew system:authenticated");
    }

    #[test]
    fn a_line_that_is_no_users_is_named_and_not_shown() {
        for (text, problem) in [
            ("t1,ada,u1\nt2,bob\n", "line 2 must have at least 3 columns"),
            (",ada,u1\n", "line 1 has no token"),
            ("se cret,ada,u1\n", "line 1 has no token"),
            ("secret,,u1\n", "line 1 names no user"),
        ] {
            let said = names(text).unwrap_err();
            assert!(said.starts_with(problem), "{said}");
            assert!(!said.contains("cret") && !said.contains("t2"), "{said}");
        }
    }
}
