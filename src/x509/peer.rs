//! The certificates of the peer of a connection.

use std::any::Any;
use std::sync::OnceLock;

use rustls::pki_types::CertificateDer;

/// The certificates that a client showed in the handshake of its connection: its own and those
/// between it and an authority. The handshake has proved that the client has the key.
#[derive(Debug)]
pub struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    memo: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl PeerCertificates {
    /// Takes the certificates of a handshake, the client's own first. Returns `None` if it has
    /// none.
    pub fn new(chain: &[CertificateDer<'_>]) -> Option<PeerCertificates> {
        (!chain.is_empty()).then(|| PeerCertificates {
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
            memo: OnceLock::new(),
        })
    }

    /// Returns the certificates, the client's own first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns a value that the authenticator keeps with the connection, so that it verifies the
    /// chain once for all requests. There is only one value: a second type would get `None`.
    pub fn memo<T: Any + Default + Send + Sync>(&self) -> Option<&T> {
        let memo = self.memo.get_or_init(|| Box::new(T::default()));
        memo.downcast_ref()
    }
}
