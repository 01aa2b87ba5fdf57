//! The user of a kubeconfig: the credentials of this daemon for a server.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zeroize::Zeroizing;

use super::{TOKEN_BYTES_MAX, check_once, file_of, is_given, text, unreadable};
use crate::egress::{Credentials, Identity};
use crate::files::given;

/// Members of a user that are not supported.
const UNSUPPORTED: [&str; 2] = ["exec", "auth-provider"];

/// Members that name another user.
const OTHER_USER: [&str; 4] = ["as", "as-uid", "as-groups", "as-user-extra"];

/// Whether a user may impersonate another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Impersonation {
    Refused,
    Allowed,
}

/// A user.
pub(super) struct User {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) kubeconfig: PathBuf,
}

impl User {
    /// Refuses members that are not supported or exclude each other.
    pub(super) fn check(&self, impersonation: Impersonation) -> Result<(), String> {
        let User { name, value, .. } = self;
        let is_set = |member: &&str| match value.get(*member) {
            None | Some(Value::Null) => false,
            Some(value) => *value != "" && *value != Value::Array(Vec::new()),
        };
        let others = OTHER_USER
            .iter()
            .filter(|_| impersonation == Impersonation::Refused);
        if let Some(member) = UNSUPPORTED
            .iter()
            .chain(others)
            .find(|member| is_set(member))
        {
            return Err(format!("{member} of user {name:?} is not supported"));
        }
        for member in ["client-certificate", "client-key"] {
            check_once(value, member, name)?;
        }
        let (has_certificate, has_key) = (
            is_given(value, "client-certificate"),
            is_given(value, "client-key"),
        );
        if has_certificate && !has_key {
            return Err(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert \
                 authentication method"
            ));
        }
        if has_key && !has_certificate {
            return Err(format!(
                "client-certificate-data or client-certificate must be specified for {name} to \
                 use its client-key"
            ));
        }
        let has = |members: [&str; 2]| members.iter().any(|one| !text(value, one).is_empty());
        if has(["token", "tokenFile"]) && has(["username", "password"]) {
            return Err(format!(
                "more than one authentication method found for {name}; found [token basicAuth], \
                 only one is allowed"
            ));
        }
        Ok(())
    }

    /// The files that it names.
    pub(super) fn files(&self) -> [Option<PathBuf>; 3] {
        ["client-certificate", "client-key", "tokenFile"].map(|member| self.file(member))
    }

    fn file(&self, member: &str) -> Option<PathBuf> {
        file_of(&self.kubeconfig, &self.value, member)
    }

    /// The certificate and the key, if they are given.
    ///
    /// # Errors
    /// The file that cannot be read.
    pub(super) fn identity(&self) -> Result<Option<Identity>, String> {
        let certificate = part(&self.kubeconfig, &self.value, "client-certificate")?;
        let key = part(&self.kubeconfig, &self.value, "client-key")?;
        Ok(certificate.zip(key).map(|(certificate, key)| Identity {
            certificate: certificate.to_vec(),
            key,
        }))
    }

    /// Names its files in the log.
    pub(super) fn what(&self) -> String {
        let kubeconfig = self.kubeconfig.display();
        format!("the files of a webhook's kubeconfig ({kubeconfig})")
    }

    /// The token or the password, if one is given. If both a file and a token are
    /// given, the file counts.
    ///
    /// # Errors
    /// The file that cannot be read.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, String> {
        if let Some(file) = self.file("tokenFile") {
            let unusable = |error: std::io::Error| unreadable("tokenFile", &file, &error);
            let read = given::read(&file, TOKEN_BYTES_MAX).map_err(unusable)?;
            let token = read.text().map_err(unusable)?.trim();
            if token.is_empty() {
                return Err(format!("tokenFile {}: it is empty", file.display()));
            }
            let token = Zeroizing::new(token.to_owned());
            return Ok(Some(Credentials::Bearer(token)));
        }
        let text = |name| text(&self.value, name).to_owned();
        let (token, name) = (text("token"), text("username"));
        let password = Zeroizing::new(text("password"));
        Ok(
            match (token.is_empty(), name.is_empty() && password.is_empty()) {
                (false, _) => Some(Credentials::Bearer(Zeroizing::new(token))),
                (true, false) => Some(Credentials::Basic(name, password)),
                (true, true) => None,
            },
        )
    }
}

/// The content of a part, from the kubeconfig or from a file.
///
/// # Errors
/// The member or the file that cannot be read.
pub(super) fn part(
    kubeconfig: &Path,
    of: &Value,
    name: &str,
) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    let data = text(of, &format!("{name}-data"));
    if !data.is_empty() {
        let bytes = STANDARD.decode(data);
        let bytes = bytes.map_err(|_| format!("{name}-data is not base64"))?;
        return Ok(Some(Zeroizing::new(bytes)));
    }
    let Some(file) = file_of(kubeconfig, of, name) else {
        return Ok(None);
    };
    let read = given::read(&file, given::PEM_BYTES_MAX);
    let read = read.map_err(|error| unreadable(name, &file, &error))?;
    Ok(Some(read.bytes))
}
