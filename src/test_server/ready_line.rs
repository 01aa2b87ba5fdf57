//! Pure. The line of JSON that says where a server is.

use std::path::PathBuf;

use serde_json::json;

use crate::auth::AdminAccess;
use crate::build_info;

/// The facts in the line.
pub(super) struct ReadyLine<'a> {
    pub(super) access: &'a AdminAccess,
    pub(super) kubeconfig: PathBuf,
}

impl ReadyLine<'_> {
    /// The line, without its end. URL, certificates and token are enough for a client that opens no
    /// files.
    pub(super) fn text(&self) -> String {
        let AdminAccess {
            address,
            trust_pem,
            token,
        } = self.access;
        json!({
            "url": format!("https://{address}"),
            "ca": trust_pem,
            "token": token.secret(),
            "kubeconfig": self.kubeconfig.display().to_string(),
            "pid": std::process::id(),
            "version": build_info::VERSION,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::auth::Token;

    #[test]
    fn the_line_is_one_line_of_json() {
        let access = AdminAccess {
            address: "127.0.0.1:6443".parse().unwrap(),
            trust_pem: "one\ntwo\n".to_owned(),
            token: Token::new("secret").unwrap(),
        };
        let line = ReadyLine {
            access: &access,
            kubeconfig: "/t/admin.kubeconfig".into(),
        };
        let text = line.text();
        assert!(!text.contains('\n'));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["url"], "https://127.0.0.1:6443");
        assert_eq!(value["ca"], "one\ntwo\n");
        assert_eq!(value["token"], "secret");
        assert_eq!(value["kubeconfig"], "/t/admin.kubeconfig");
    }
}
