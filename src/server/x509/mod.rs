//! Client certificates: what they say, whether their key can be proven, and who signed them.
//!
//! kube-apiserver accepts what Go's crypto/x509 accepts: certificates of version 1, authorities
//! that act as clients, any critical extension until it is asked about. The library that rustls
//! uses for servers accepts less, so the path to an authority is looked for here. Signatures are
//! verified by rustls' algorithms.

mod certificate;
mod names;
mod path;
mod proof;
#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use path::{Validity, verify};
pub use proof::{verify_tls12, verify_tls13};

/// Why a client certificate is refused. The log says it, the answer does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It, or one of those that came with it, is no certificate.
    #[error("the client certificate, or one that came with it, can't be read")]
    Unreadable,
    /// Its subject has several uids, or an empty one.
    #[error("the subject of the client certificate must have at most one uid, and no empty one")]
    Uid,
    /// The handshake can't prove that the client has its key.
    #[error(
        "the key of the client certificate is of an unknown kind or size; it must be RSA of 2048 \
         to 8192 bits, ECDSA P-256 to P-521 or Ed25519"
    )]
    Key,
    /// No authority that is believed has signed it.
    #[error("no authority that is believed has signed the client certificate")]
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
    /// The extended key usage of a certificate on the path is for something else.
    #[error("the certificate is not meant for clients (extended key usage)")]
    NotOfClient,
    /// A critical extension of a certificate on the path is unknown.
    #[error("the client certificate, or one that signed it, has an unknown critical extension")]
    CriticalExtension,
    /// The signer is not allowed to sign certificates.
    #[error("the client certificate is signed by a certificate that is no authority")]
    NotAnAuthority,
    /// There are more certificates between it and an authority than that permits.
    #[error("an authority permits fewer certificates below it (path length)")]
    PathLength,
    /// An authority may not sign for the alternative names of the certificate.
    #[error("an authority may not sign for the names in the client certificate (name constraints)")]
    Names,
    /// The search for an authority took too long.
    #[error("the client certificate came with too many others")]
    TooMuch,
}
