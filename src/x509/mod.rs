//! Certificates of clients and servers: parsing them, proving their keys, and verifying their
//! signatures.
//!
//! kube-apiserver accepts the certificates that Go's crypto/x509 accepts, including those of
//! version 1, authorities that act as clients, and any critical extension that no check asks about.
//! The library that rustls uses for servers accepts less, so this folder searches for the path to
//! an authority itself. rustls' algorithms verify the signatures.

mod certificate;
mod names;
mod parts;
mod path;
mod peer;
mod proof;
mod server;
mod server_verifier;
#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use path::{Validity, verify};
pub use peer::PeerCertificates;
pub use proof::{verify_tls12, verify_tls13};
pub use server::{Distrusted, verify_server};
pub(crate) use server_verifier::ServerVerifier;

/// The reason why a client certificate is refused. Only the log contains it, not the response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The client certificate, or one that came with it, cannot be parsed.
    #[error("the client certificate, or one that came with it, cannot be parsed")]
    Unreadable,
    /// Its subject has several uids, or an empty one.
    #[error("the subject of the client certificate must have at most one uid, and no empty one")]
    Uid,
    /// The handshake cannot prove that the client has the private key.
    #[error(
        "the key of the client certificate is of an unknown kind or size; it must be RSA of 2048 \
         to 8192 bits, ECDSA P-256 to P-521 or Ed25519"
    )]
    Key,
    /// No trusted authority has signed it.
    #[error("the client certificate is not signed by a trusted CA")]
    UnknownAuthority,
    /// A certificate on the path is signed in a way that is not accepted.
    #[error(
        "the client certificate, or one that signed it, is signed with an algorithm or key that is \
         not accepted (SHA-1, MD5, RSA below 2048 bits)"
    )]
    Signature,
    /// It, or one between it and the authority, is not valid at this time.
    #[error("the client certificate has expired, or is not valid yet")]
    NotValidNow,
    /// The extended key usage of a certificate on the path does not include clients.
    #[error("the certificate is not meant for clients (extended key usage)")]
    NotOfClient,
    /// A critical extension of a certificate on the path is unknown.
    #[error("the client certificate, or one that signed it, has an unknown critical extension")]
    CriticalExtension,
    /// The signer is not allowed to sign certificates.
    #[error("the client certificate is signed by a certificate that is not a CA")]
    NotAnAuthority,
    /// There are more certificates between it and an authority than the authority permits.
    #[error("an authority permits fewer certificates below it (path length)")]
    PathLength,
    /// An authority may not sign for the alternative names of the certificate.
    #[error("an authority may not sign for the names in the client certificate (name constraints)")]
    Names,
    /// The search for an authority exceeded its limits.
    #[error("the client certificate came with too many others")]
    TooMuch,
}
