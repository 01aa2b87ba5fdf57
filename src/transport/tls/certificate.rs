//! The daemon's own certificates, which its authorities sign and which are renewed when necessary:
//! that of the server, and that of the front proxy.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, SanType,
};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsError;
use super::authority::{Authority, set_validity};
use super::names::Name;
use super::pem::der;
use crate::clock;
use crate::files::own;

/// The names of the files of a certificate.
pub(super) struct LeafFiles {
    pub(super) certificate: &'static str,
    pub(super) key: &'static str,
}

impl LeafFiles {
    fn within(&self, folder: &Path) -> (PathBuf, PathBuf) {
        (folder.join(self.certificate), folder.join(self.key))
    }
}

const SERVER: LeafFiles = LeafFiles {
    certificate: "apiserver.crt",
    key: "apiserver.key",
};

/// The content of a certificate.
struct Contents<'c> {
    common_name: &'c str,
    usage: ExtendedKeyUsagePurpose,
    names: &'c BTreeSet<Name>,
}

/// Two years, long enough for a daemon that restarts only for upgrades.
const VALID_DAYS: i64 = 730;

/// A certificate that expires within this time is renewed at the start.
const RENEWED_BEFORE_END_SECONDS: i64 = 365 * 86_400;

/// A certificate with its key.
pub(super) struct Leaf {
    pub(super) path: PathBuf,
    pub(super) certificate_pem: String,
    pub(super) key_path: PathBuf,
    pub(super) key_pem: String,
}

/// The paths of the server's certificate and of its key in a folder.
pub(super) fn paths(folder: &Path) -> (PathBuf, PathBuf) {
    SERVER.within(folder)
}

/// Whether the daemon's authority has signed a certificate.
pub(super) fn is_signed_by(path: &Path, certificate_pem: &str, authority: &Authority) -> bool {
    let Ok(der) = der(path, certificate_pem) else {
        return false;
    };
    let parsed = X509Certificate::from_der(&der);
    parsed.is_ok_and(|(_, parsed)| signer(&parsed) == Some(authority.key_identifier()))
}

/// The host names of a certificate, in lower case.
///
/// # Errors
/// [`TlsError`]
pub(super) fn names(path: &Path, certificate_pem: &str) -> Result<Vec<String>, TlsError> {
    let der = der(path, certificate_pem)?;
    let unreadable = |error| TlsError::new(path, error);
    let (_, parsed) = X509Certificate::from_der(&der).map_err(unreadable)?;
    let common = parsed.subject().iter_common_name();
    let common = common
        .filter_map(|name| name.as_str().ok())
        .map(str::to_owned);
    let hosts = names_of(&parsed).into_iter().filter_map(|name| match name {
        Name::Host(host) => Some(host),
        Name::Address(_) => None,
    });
    let all = common.chain(hosts);
    Ok(all.map(|name| name.to_ascii_lowercase()).collect())
}

/// Returns the certificate of a server with these names.
pub(super) fn load_or_create(
    folder: &Path,
    authority: &Authority,
    names: &BTreeSet<Name>,
) -> Result<Leaf, TlsError> {
    let contents = Contents {
        common_name: "taffrail",
        usage: ExtendedKeyUsagePurpose::ServerAuth,
        names,
    };
    kept_or_made(SERVER.within(folder), authority, &contents)
}

/// Returns the certificate of a client with this name.
pub(super) fn load_or_create_client(
    folder: &Path,
    files: &LeafFiles,
    authority: &Authority,
    common_name: &str,
) -> Result<Leaf, TlsError> {
    let contents = Contents {
        common_name,
        usage: ExtendedKeyUsagePurpose::ClientAuth,
        names: &BTreeSet::new(),
    };
    kept_or_made(files.within(folder), authority, &contents)
}

fn kept_or_made(
    paths: (PathBuf, PathBuf),
    authority: &Authority,
    contents: &Contents<'_>,
) -> Result<Leaf, TlsError> {
    let (path, key_path) = paths;
    let certificate_pem = super::kept(&path)?;
    let key_pem = super::kept(&key_path)?;
    if let (Some(certificate_pem), Some(key_pem)) = (certificate_pem, key_pem) {
        match reason_to_renew(&path, &certificate_pem, &key_pem, authority, contents.names) {
            None => {
                return Ok(Leaf {
                    path,
                    certificate_pem,
                    key_path,
                    key_pem,
                });
            }
            Some(reason) => {
                let name = contents.common_name;
                tracing::info!(name, reason, "making a new certificate of this server");
            }
        }
    }
    create(path, key_path, authority, contents)
}

fn create(
    path: PathBuf,
    key_path: PathBuf,
    authority: &Authority,
    contents: &Contents<'_>,
) -> Result<Leaf, TlsError> {
    let refuse = |error: rcgen::Error| TlsError::new(&path, error);
    let key = KeyPair::generate().map_err(refuse)?;
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, contents.common_name);
    parameters.distinguished_name = name;
    parameters.subject_alt_names = contents
        .names
        .iter()
        .map(|name| match name {
            Name::Host(host) => host.as_str().try_into().map(SanType::DnsName),
            Name::Address(address) => Ok(SanType::IpAddress(*address)),
        })
        .collect::<Result<_, _>>()
        .map_err(refuse)?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![contents.usage.clone()];
    parameters.use_authority_key_identifier_extension = true;
    set_validity(&mut parameters, VALID_DAYS, clock::of_machine());
    let certificate_pem = parameters
        .signed_by(&key, authority.issuer())
        .map_err(refuse)?
        .pem();
    let key_pem = key.serialize_pem();
    for (path, text) in [(&key_path, &key_pem), (&path, &certificate_pem)] {
        own::write(path, text.as_bytes()).map_err(|error| TlsError::new(path, error))?;
    }
    Ok(Leaf {
        path,
        certificate_pem,
        key_path,
        key_pem,
    })
}

/// Returns the reason why a certificate must be renewed. After a crash the key may not match the
/// certificate.
fn reason_to_renew(
    path: &Path,
    certificate_pem: &str,
    key_pem: &str,
    authority: &Authority,
    names: &BTreeSet<Name>,
) -> Option<&'static str> {
    let Ok(der) = der(path, certificate_pem) else {
        return Some("it can't be read");
    };
    let Ok((_, parsed)) = X509Certificate::from_der(&der) else {
        return Some("it can't be read");
    };
    let Ok(key) = KeyPair::from_pem(key_pem) else {
        return Some("its key can't be read");
    };
    if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Some("its key belongs to another certificate");
    }
    let now = clock::of_machine().as_second();
    if parsed.validity().not_after.timestamp() - now < RENEWED_BEFORE_END_SECONDS {
        return Some("it expires within a year");
    }
    if parsed.validity().not_before.timestamp() > now {
        return Some("it is not valid yet: the clock was ahead when it was made, or is behind");
    }
    if signer(&parsed) != Some(authority.key_identifier()) {
        return Some("another authority signed it");
    }
    if names_of(&parsed) != *names {
        return Some("its names changed");
    }
    None
}

fn signer<'c>(certificate: &'c X509Certificate<'_>) -> Option<&'c [u8]> {
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(identifier) => {
                identifier.key_identifier.as_ref().map(|key| key.0)
            }
            _ => None,
        })
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<Name> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|extension| extension.value.general_names.iter());
    names
        .into_iter()
        .flatten()
        .filter_map(|name| match name {
            GeneralName::DNSName(host) => Some(Name::Host((*host).to_owned())),
            GeneralName::IPAddress(bytes) => address(bytes).map(Name::Address),
            _ => None,
        })
        .collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
