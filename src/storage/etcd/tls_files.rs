//! The files of the TLS towards etcd.

use std::path::{Path, PathBuf};

use super::connect_error::ConnectError;
use crate::files::given;

/// Files of the connections' TLS (SF-4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities (PEM) that vouch for the servers.
    pub authority: Option<PathBuf>,
    /// The client's certificate (PEM) and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Every file that cannot be read.
    pub fn unreadable(&self) -> Vec<ConnectError> {
        let identity = self.identity.iter();
        let identity = identity
            .flat_map(|(certificate, key)| [("certfile", certificate.as_path()), ("keyfile", key)]);
        let authority = self.authority.iter();
        authority
            .map(|authority| ("cafile", authority.as_path()))
            .chain(identity)
            .filter_map(|(flag, path)| read(flag, path).err())
            .collect()
    }

    /// Their content.
    pub(super) fn read(&self, url: &str) -> Result<Pem, ConnectError> {
        let Some(authority) = &self.authority else {
            return Err(ConnectError::NoAuthority(url.to_owned()));
        };
        let identity = self.identity.as_ref();
        let identity = identity.map(|(certificate, key)| {
            Ok::<_, ConnectError>((read("certfile", certificate)?, read("keyfile", key)?))
        });
        Ok(Pem {
            authority: read("cafile", authority)?,
            identity: identity.transpose()?,
        })
    }

    /// All of them.
    pub fn paths(&self) -> Vec<PathBuf> {
        let identity = self.identity.iter();
        let identity = identity.flat_map(|(certificate, key)| [certificate, key]);
        self.authority.iter().chain(identity).cloned().collect()
    }

    /// The file of this flag can be read and not be used.
    pub(super) fn useless(&self, flag: &'static str) -> ConnectError {
        let identity = self.identity.as_ref();
        let (path, reason) = match flag {
            "cafile" => (
                self.authority.as_ref(),
                "it holds no certificate of an authority (PEM)",
            ),
            "keyfile" => (
                identity.map(|both| &both.1),
                "it holds no private key (PEM)",
            ),
            _ => (
                identity.map(|both| &both.0),
                "it holds no certificate (PEM), or the key of --etcd-keyfile does not fit it",
            ),
        };
        ConnectError::File {
            flag,
            path: path.cloned().unwrap_or_default(),
            reason: reason.to_owned(),
        }
    }
}

/// The content of the files, in PEM.
#[derive(PartialEq, Eq)]
pub(super) struct Pem {
    pub(super) authority: Vec<u8>,
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, ConnectError> {
    match given::read(path, given::PEM_BYTES_MAX) {
        Ok(file) => Ok(file.bytes.to_vec()),
        Err(error) => Err(ConnectError::File {
            flag,
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}
