//! The admin's credentials: a token created on the first start, and a kubeconfig that contains it.
//!
//! Run this only while the data directory is locked. Otherwise a second daemon would overwrite the
//! kubeconfig of the first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustix::rand::{GetRandomFlags, getrandom};

use super::token::Token;
use crate::files::own;

const TOKEN: &str = "admin.token";
const KUBECONFIG: &str = "admin.kubeconfig";
const TOKEN_BYTES: usize = 32;

/// More than a header may carry.
const TOKEN_FILE_BYTES_MAX: u64 = 64 * 1024;
/// The kubeconfig also contains the authorities of `--tls-cert-file`.
const KUBECONFIG_BYTES_MAX: u64 = 8 << 20;

/// The admin's credentials cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct AdminError {
    /// The file.
    pub path: PathBuf,
    /// The problem with it, and what the operator can do.
    pub problem: String,
}

impl AdminError {
    fn new(path: &Path, problem: impl ToString) -> AdminError {
        AdminError {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// Reads the token from `<data-dir>/admin.token`, or creates it. An operator may replace the token.
///
/// # Errors
/// [`AdminError`] names the file but never its content.
pub fn load_or_create_token(data_dir: &Path) -> Result<Token, AdminError> {
    if let Some(token) = read_token(data_dir)? {
        return Ok(token);
    }
    replace_token(data_dir)
}

/// Generates a new token and writes it to `<data-dir>/admin.token`.
///
/// # Errors
/// [`AdminError`] names the file.
pub fn replace_token(data_dir: &Path) -> Result<Token, AdminError> {
    let path = data_dir.join(TOKEN);
    let refuse = |error: std::io::Error| AdminError::new(&path, error);
    let secret = random_secret().map_err(refuse)?;
    own::write(&path, format!("{secret}\n").as_bytes()).map_err(refuse)?;
    Token::new(&secret).ok_or_else(|| AdminError::new(&path, "could not generate a token"))
}

/// Reads the existing token while a daemon runs.
///
/// # Errors
/// [`AdminError`], also when the file is missing, because only a start creates a new token.
pub(super) fn reread_token(data_dir: &Path) -> Result<Token, AdminError> {
    read_token(data_dir)?.ok_or_else(|| {
        AdminError::new(
            &data_dir.join(TOKEN),
            "it is missing; put a token there, or restart the daemon to create one",
        )
    })
}

/// Reads the existing token. Returns `None` if the file does not exist. The file must be a regular
/// file that contains one word. Only root and the owner of the data directory may be able to write
/// it.
///
/// # Errors
/// [`AdminError`] names the file but never its content.
pub fn read_token(data_dir: &Path) -> Result<Option<Token>, AdminError> {
    let path = data_dir.join(TOKEN);
    let text = own::read_text(&path, TOKEN_FILE_BYTES_MAX);
    let Some(text) = text.map_err(|error| AdminError::new(&path, error))? else {
        return Ok(None);
    };
    let token = Token::new(text.trim()).ok_or_else(|| {
        let problem = "it holds no token that a header can carry: one word of printable ASCII; \
                       put one there, or remove it and restart the daemon to create one";
        AdminError::new(&path, problem)
    });
    token.map(Some)
}

fn random_secret() -> std::io::Result<String> {
    let mut secret = [0_u8; TOKEN_BYTES];
    let mut rest = &mut secret[..];
    while !rest.is_empty() {
        let count = getrandom(&mut *rest, GetRandomFlags::empty())?;
        rest = rest.split_at_mut(count).1;
    }
    Ok(URL_SAFE_NO_PAD.encode(secret))
}

/// Writes `<data-dir>/admin.kubeconfig` unless it is up to date. Returns its absolute path.
///
/// # Errors
/// [`AdminError`] names the file.
pub fn write_kubeconfig(
    data_dir: &Path,
    address: SocketAddr,
    trust_pem: &str,
    token: &Token,
) -> Result<PathBuf, AdminError> {
    let path = data_dir.join(KUBECONFIG);
    let refuse = |error: std::io::Error| AdminError::new(&path, error);
    let wanted = kubeconfig(&Kubeconfig {
        server: &format!("https://{}", reachable(address)),
        trust_pem,
        user: "admin",
        credential: Credential::Token(token),
    });
    let text = own::read_text(&path, KUBECONFIG_BYTES_MAX).map_err(refuse)?;
    if text.as_deref() != Some(wanted.as_str()) {
        own::write(&path, wanted.as_bytes()).map_err(refuse)?;
    }
    std::path::absolute(&path).map_err(refuse)
}

/// The contents of a kubeconfig with one server and one user.
pub struct Kubeconfig<'k> {
    /// The URL of the server.
    pub server: &'k str,
    /// The certificates to trust, in PEM.
    pub trust_pem: &'k str,
    /// The name of the user within the file.
    pub user: &'k str,
    /// The credential of that user.
    pub credential: Credential<'k>,
}

/// A proof of a user's identity.
pub enum Credential<'k> {
    /// A bearer token.
    Token(&'k Token),
    /// A client certificate and its key, in PEM.
    Certificate {
        /// The certificate.
        certificate_pem: &'k str,
        /// Its key.
        key_pem: &'k str,
    },
}

/// Formats a kubeconfig.
pub fn kubeconfig(kubeconfig: &Kubeconfig<'_>) -> String {
    let authority = STANDARD.encode(kubeconfig.trust_pem);
    let credential = match kubeconfig.credential {
        Credential::Token(token) => format!("token: {:?}", token.secret()),
        Credential::Certificate {
            certificate_pem,
            key_pem,
        } => format!(
            "client-certificate-data: {}\n    client-key-data: {}",
            STANDARD.encode(certificate_pem),
            STANDARD.encode(key_pem)
        ),
    };
    // Every JSON string is a valid YAML string.
    let user = serde_json::Value::from(kubeconfig.user);
    let server = kubeconfig.server;
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: taffrail
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    {credential}
contexts:
- name: taffrail
  context:
    cluster: taffrail
    user: {user}
current-context: taffrail
preferences: {{}}
"
    )
}

/// Returns the address at which a client on this machine reaches a listener on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(host) if host.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(host) if host.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        host => host,
    };
    SocketAddr::new(host, address.port())
}

/// The content of the kubeconfig that a Taffrail command needs to reach the daemon.
#[derive(Clone)]
pub struct AdminAccess {
    /// The address the daemon listens on.
    pub address: SocketAddr,
    /// The certificates to trust, in PEM.
    pub trust_pem: String,
    /// The admin's token.
    pub token: Token,
}

/// Reads the kubeconfig that a daemon wrote to its data directory. Returns `None` if the file does
/// not exist.
///
/// # Errors
/// [`AdminError`] names the file.
pub fn read_kubeconfig(data_dir: &Path) -> Result<Option<AdminAccess>, AdminError> {
    let path = data_dir.join(KUBECONFIG);
    let text = own::read_text(&path, KUBECONFIG_BYTES_MAX);
    let text = text.map_err(|error| AdminError::new(&path, error))?;
    let Some(text) = text else { return Ok(None) };
    match access(&text) {
        Some(access) => Ok(Some(access)),
        None => Err(AdminError::new(
            &path,
            "not a kubeconfig that a daemon wrote; the daemon rewrites it at its next start",
        )),
    }
}

fn access(kubeconfig: &str) -> Option<AdminAccess> {
    let value: serde_json::Value = serde_saphyr::from_str(kubeconfig).ok()?;
    let text = |pointer: &str| value.pointer(pointer)?.as_str();
    let address = text("/clusters/0/cluster/server")?.strip_prefix("https://")?;
    let authority = text("/clusters/0/cluster/certificate-authority-data")?;
    Some(AdminAccess {
        address: address.parse().ok()?,
        trust_pem: String::from_utf8(STANDARD.decode(authority).ok()?).ok()?,
        token: Token::new(text("/users/0/user/token")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn put(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }

    #[test]
    fn the_token_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let first = load_or_create_token(folder.path()).unwrap();
        let second = load_or_create_token(folder.path()).unwrap();
        assert_eq!(first.secret(), second.secret());
        assert_eq!(first.secret().len(), 43);
        let other = tempfile::tempdir().unwrap();
        let third = load_or_create_token(other.path()).unwrap();
        assert_ne!(first.secret(), third.secret());
    }

    #[test]
    fn the_files_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let token = load_or_create_token(folder.path()).unwrap();
        write_kubeconfig(folder.path(), address("127.0.0.1:1"), "PEM", &token).unwrap();
        for name in [TOKEN, KUBECONFIG] {
            let metadata = std::fs::metadata(folder.path().join(name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_token_file_that_holds_no_token_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["\n", "two words", "a\nb\n", "schl\u{fc}ssel"] {
            put(&folder.path().join(TOKEN), text);
            let refusal = load_or_create_token(folder.path()).unwrap_err().to_string();
            assert!(
                refusal.contains("admin.token: it holds no token")
                    && refusal.ends_with("remove it and restart the daemon to create one"),
                "{refusal}"
            );
        }
        let long = "a".repeat(TOKEN_FILE_BYTES_MAX as usize + 1);
        put(&folder.path().join(TOKEN), &long);
        let refusal = load_or_create_token(folder.path()).unwrap_err().to_string();
        assert!(
            refusal.contains("admin.token: it is longer than 65536 bytes"),
            "{refusal}"
        );
    }

    #[test]
    fn a_token_that_others_can_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TOKEN);
        load_or_create_token(folder.path()).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let refusal = load_or_create_token(folder.path()).unwrap_err().to_string();
        assert!(
            refusal.contains("admin.token: others than its owner can write it")
                && refusal.contains("mode 666"),
            "{refusal}"
        );
    }

    #[test]
    fn the_kubeconfig_follows_the_port_and_can_be_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let token = load_or_create_token(folder.path()).unwrap();
        assert!(read_kubeconfig(folder.path()).unwrap().is_none());
        for port in [6443, 7443] {
            let listening = SocketAddr::from(([0, 0, 0, 0], port));
            let path = write_kubeconfig(folder.path(), listening, "PEM\n", &token).unwrap();
            assert!(path.is_absolute());
            let access = read_kubeconfig(folder.path()).unwrap().unwrap();
            assert_eq!(access.address, SocketAddr::from(([127, 0, 0, 1], port)));
            assert_eq!(access.trust_pem, "PEM\n");
            assert_eq!(access.token.secret(), token.secret());
        }
    }

    #[test]
    fn an_unchanged_kubeconfig_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let token = Token::new("t").unwrap();
        let write = || write_kubeconfig(folder.path(), address("[::]:1"), "PEM", &token).unwrap();
        let path = write();
        let read_only = std::fs::Permissions::from_mode(0o400);
        std::fs::set_permissions(&path, read_only).unwrap();
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        write();
        assert_eq!(
            std::fs::metadata(&path).unwrap().modified().unwrap(),
            before
        );
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("server: https://[::1]:1\n"), "{text}");
    }

    #[test]
    fn a_foreign_kubeconfig_is_refused_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join(KUBECONFIG), "users: [secret]\n");
        let refusal = read_kubeconfig(folder.path()).err().unwrap().to_string();
        assert!(
            refusal.contains("admin.kubeconfig: not a kubeconfig"),
            "{refusal}"
        );
        assert!(!refusal.contains("secret"), "{refusal}");
    }
}
