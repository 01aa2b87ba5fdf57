//! How a command reaches a daemon: by the admin's kubeconfig in the data directory, or by one that
//! the operator names.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use http::Uri;
use serde_json::Value;

use crate::auth::{AdminAccess, Token, read_kubeconfig};
use crate::files::given;

/// Kubeconfigs of many clusters are smaller.
const KUBECONFIG_BYTES_MAX: u64 = 8 << 20;
/// More than a header may carry.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

const HTTPS_PORT: u16 = 443;

/// The daemon that a command contacts.
#[derive(Args, Clone, Debug)]
pub struct ServerArguments {
    /// Kubeconfig with the address of a daemon, which may run elsewhere, its CA certificate, and a
    /// token or a client certificate. Its current context is used.
    /// [default: admin.kubeconfig in data-dir]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// URL of the daemon, if it differs from that of the kubeconfig: https://192.0.2.7:6443.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

impl ServerArguments {
    /// Whether they name a daemon. If so, the data directory here is not used.
    pub(super) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.server.is_some()
    }

    /// How to reach the daemon. `None` if no daemon is named and none has run in the data
    /// directory.
    pub(super) fn access(&self, data_dir: &Path) -> Result<Option<Access>, String> {
        let access = match &self.kubeconfig {
            Some(path) => Some(
                of_kubeconfig(path)
                    .map_err(|problem| format!("--kubeconfig={}: {problem}", path.display()))?,
            ),
            None => {
                let admin = read_kubeconfig(data_dir).map_err(|error| error.to_string())?;
                admin.map(Access::from)
            }
        };
        match (access, &self.server) {
            (Some(access), Some(url)) => {
                let server = Server::of(url).map_err(|problem| format!("--server={problem}"))?;
                Ok(Some(Access { server, ..access }))
            }
            (None, Some(url)) => Err(format!(
                "--server={url}: no daemon has run in --data-dir={}, so there are no credentials; \
                 name a --kubeconfig",
                data_dir.display()
            )),
            (access, None) => Ok(access),
        }
    }
}

/// The daemon's address, the certificates to trust, and the caller's credentials.
pub(super) struct Access {
    pub(super) server: Server,
    /// The name in the daemon's certificate, if that is not its host.
    pub(super) server_name: Option<String>,
    /// The certificates to trust, in PEM.
    pub(super) trust_pem: String,
    pub(super) credential: Credential,
}

/// The credentials of the caller.
pub(super) enum Credential {
    Token(Token),
    /// A chain and its key, in PEM.
    Certificate {
        chain_pem: String,
        key_pem: String,
    },
}

impl From<AdminAccess> for Access {
    fn from(admin: AdminAccess) -> Access {
        Access {
            server: Server {
                host: admin.address.ip().to_string(),
                port: admin.address.port(),
                authority: admin.address.to_string(),
                base: String::new(),
            },
            server_name: None,
            trust_pem: admin.trust_pem,
            credential: Credential::Token(admin.token),
        }
    }
}

/// The parts of a server's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as in a URL.
    pub(super) authority: String,
    /// The beginning of all paths, without a slash at its end.
    pub(super) base: String,
}

impl Server {
    fn of(url: &str) -> Result<Server, String> {
        let wrong = || format!("{url}: not a URL of a server, such as https://192.0.2.7:6443");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty());
        let (Some("https"), Some(host)) = (uri.scheme_str(), host) else {
            return Err(wrong());
        };
        let port = uri.port_u16().unwrap_or(HTTPS_PORT);
        Ok(Server {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: format!("{host}:{port}"),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// The current context of a kubeconfig.
fn of_kubeconfig(path: &Path) -> Result<Access, String> {
    let text = read(path, KUBECONFIG_BYTES_MAX)?;
    // The parser's reason may show a line of the file, which may be a secret.
    let document: Value =
        serde_saphyr::from_str(&text).map_err(|_| "it is not a kubeconfig".to_owned())?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let current = document["current-context"].as_str().unwrap_or_default();
    if current.is_empty() {
        return Err("it names no current-context".to_owned());
    }
    let context = &named(&document, "contexts", current)?["context"];
    let part = |name: &str| context[name].as_str().unwrap_or_default();
    let cluster = &named(&document, "clusters", part("cluster"))?["cluster"];
    let user = &named(&document, "users", part("user"))?["user"];
    if cluster["insecure-skip-tls-verify"] == true {
        return Err("insecure-skip-tls-verify: the daemon's authority is needed here".to_owned());
    }
    let trust_pem = material(cluster, "certificate-authority", folder)?.ok_or_else(|| {
        "its cluster has no certificate-authority, and no other authorities are known here"
            .to_owned()
    })?;
    Ok(Access {
        server: Server::of(cluster["server"].as_str().unwrap_or_default())?,
        server_name: cluster["tls-server-name"].as_str().map(str::to_owned),
        trust_pem,
        credential: credential(user, folder)?,
    })
}

/// A client certificate, or a token.
fn credential(user: &Value, folder: &Path) -> Result<Credential, String> {
    let chain_pem = material(user, "client-certificate", folder)?;
    let key_pem = material(user, "client-key", folder)?;
    if let (Some(chain_pem), Some(key_pem)) = (chain_pem, key_pem) {
        return Ok(Credential::Certificate { chain_pem, key_pem });
    }
    let token = match (user["token"].as_str(), user["tokenFile"].as_str()) {
        (Some(token), _) => token.to_owned(),
        (None, Some(file)) => read(&folder.join(file), TOKEN_BYTES_MAX)?,
        (None, None) => {
            let text = "its user has neither a token nor a client certificate with its key; \
                        programs that get one are not run here";
            return Err(text.to_owned());
        }
    };
    let token = Token::new(token.trim()).ok_or("its token can't be sent in a header")?;
    Ok(Credential::Token(token))
}

/// The entry with this name in a list of named things.
fn named<'d>(document: &'d Value, list: &str, name: &str) -> Result<&'d Value, String> {
    let entries = document[list].as_array().map_or(&[][..], Vec::as_slice);
    let found = entries.iter().find(|entry| entry["name"] == name);
    found.ok_or_else(|| format!("it has no {name:?} among its {list}"))
}

/// The bytes of `NAME-data` in base64, or of the file that `NAME` names.
fn material(of: &Value, name: &str, folder: &Path) -> Result<Option<String>, String> {
    let data = format!("{name}-data");
    if let Some(encoded) = of[&data].as_str().filter(|text| !text.is_empty()) {
        let bytes = STANDARD.decode(encoded.trim()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        return text
            .map(Some)
            .ok_or_else(|| format!("its {data} is not valid base64"));
    }
    match of[name].as_str().filter(|file| !file.is_empty()) {
        Some(file) => read(&folder.join(file), given::PEM_BYTES_MAX).map(Some),
        None => Ok(None),
    }
}

fn read(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = given::read(path, bytes_max);
    let text = file.and_then(|file| Ok(file.text()?.to_owned()));
    text.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_base() {
        for (url, host, authority, base) in [
            ("https://a.example", "a.example", "a.example:443", ""),
            ("https://[::1]:6443/", "::1", "[::1]:6443", ""),
            ("https://a:1/k8s/c/", "a", "a:1", "/k8s/c"),
        ] {
            let server = Server::of(url).unwrap();
            assert_eq!(server.host, host);
            assert_eq!((&*server.authority, &*server.base), (authority, base));
        }
        for url in ["http://a:1", "a:1", "", "https://"] {
            assert!(Server::of(url).is_err(), "{url}");
        }
    }

    #[test]
    fn what_a_kubeconfig_lacks_is_said_and_nothing_of_it_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let refusal = |text: &str| {
            std::fs::write(&path, text).unwrap();
            of_kubeconfig(&path).err().unwrap()
        };
        let whole = "current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: 'https://a:1', certificate-authority-data: UEVN}}]
users: [{name: u, user: {exec: {command: secret}}}]
";
        for (text, words) in [
            (whole.to_owned(), "neither a token nor a client certificate"),
            (
                whole.replace("name: k", "name: other"),
                "no \"k\" among its clusters",
            ),
            (
                whole.replace("current-context: c", ""),
                "no current-context",
            ),
            (
                whole.replace("certificate-authority-data", "x"),
                "no certificate-authority",
            ),
            (whole.replace("UEVN", "secret!"), "not valid base64"),
            ("a: [secret".to_owned(), "not a kubeconfig"),
        ] {
            let said = refusal(&text);
            assert!(said.contains(words) && !said.contains("secret"), "{said}");
        }
    }
}
