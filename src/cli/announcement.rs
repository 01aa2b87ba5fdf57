//! The text that a daemon prints on stdout once it listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::build_info;

/// The addresses and paths to announce.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// The address of HTTPS.
    pub secure: SocketAddr,
    /// The address of plain metrics, if they are served.
    pub metrics: Option<SocketAddr>,
    /// The data directory, absolute.
    pub data_dir: PathBuf,
    /// The admin's kubeconfig, absolute.
    pub kubeconfig: PathBuf,
}

impl fmt::Display for Announcement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "taffrail {}", build_info::VERSION)?;
        writeln!(formatter, "  API      https://{}", self.secure)?;
        if let Some(metrics) = self.metrics {
            writeln!(formatter, "  metrics  http://{metrics}/metrics")?;
        }
        writeln!(formatter, "  data     {}", self.data_dir.display())?;
        writeln!(formatter)?;
        writeln!(
            formatter,
            "export KUBECONFIG={}",
            in_shell(&self.kubeconfig)
        )
    }
}

/// A path, quoted for a shell.
pub(super) fn in_shell(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    if path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(kubeconfig: &str) -> String {
        Announcement {
            secure: "127.0.0.1:6443".parse().unwrap(),
            metrics: Some("127.0.0.1:9464".parse().unwrap()),
            data_dir: PathBuf::from("/data"),
            kubeconfig: PathBuf::from(kubeconfig),
        }
        .to_string()
    }

    #[test]
    fn it_says_where_everything_is() {
        let said = announcement("/data/admin.kubeconfig");
        for part in [
            "https://127.0.0.1:6443\n",
            "http://127.0.0.1:9464/metrics\n",
            "/data\n",
            "\nexport KUBECONFIG=/data/admin.kubeconfig\n",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_path_with_spaces_can_be_pasted_into_a_shell() {
        let said = announcement("/my data/it's/admin.kubeconfig");
        assert!(
            said.contains(r"export KUBECONFIG='/my data/it'\''s/admin.kubeconfig'"),
            "{said}"
        );
    }
}
