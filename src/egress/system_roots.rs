//! The authorities that the machine trusts, from the files where distributions of Linux keep them.
//!
//! They are read by the rules of Go's crypto/x509, which kube-apiserver follows: `SSL_CERT_FILE`,
//! else the first file of a list that exists. So no crate is needed, and the file is found with the
//! daemon's own bounded reader.

use std::path::{Path, PathBuf};

use crate::files;

/// The most bytes of such a file. That of Debian has 0.2 MiB.
const BYTES_MAX: u64 = 8 << 20;

const FILES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the certificates in PEM; nothing if the machine has no such file, which trusts nobody.
pub(super) fn read() -> Vec<u8> {
    let named = std::env::var_os("SSL_CERT_FILE").filter(|name| !name.is_empty());
    read_first(&match named {
        Some(name) => vec![PathBuf::from(name)],
        None => FILES.iter().map(PathBuf::from).collect(),
    })
}

fn read_first(paths: &[impl AsRef<Path>]) -> Vec<u8> {
    let read = |path: &Path| files::given::read(path, BYTES_MAX).ok();
    let first = paths.iter().find_map(|path| read(path.as_ref()));
    first.map(|given| given.bytes.to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_exists_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [none, some] = ["none", "some"].map(|name| folder.path().join(name));
        std::fs::write(&some, "roots").unwrap();
        assert_eq!(read_first(&[none.clone(), some]), b"roots");
        assert_eq!(read_first(&[none]), b"");
    }
}
