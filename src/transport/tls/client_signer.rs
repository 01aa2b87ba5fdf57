//! Certificates for clients, signed by the daemon's own authority.

use std::path::Path;
use std::time::Duration;

use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SigningKey, date_time_ymd,
};
use yasna::models::ObjectIdentifier;

use super::authority::Authority;
use super::{FOLDER, TlsError};
use crate::clock;

/// How far back a certificate is valid, for servers whose clocks are slow.
const BACKDATED: Duration = Duration::from_secs(3600);

/// The index of the subject among the fields of a TBSCertificate (RFC 5280, 4.1).
const SUBJECT: usize = 5;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// A certificate with its key, in PEM.
pub struct ClientCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its key.
    pub key_pem: String,
}

/// Signs a certificate for a user with the authority in a data directory, even while a daemon runs.
///
/// # Errors
/// [`TlsError`] if the authority does not exist or is unusable.
pub fn sign(
    data_dir: &Path,
    user: &str,
    groups: &[String],
    valid_for: Duration,
) -> Result<ClientCertificate, TlsError> {
    let folder = data_dir.join(FOLDER);
    let authority = Authority::load_existing(&folder)?;
    let refuse = |error: rcgen::Error| TlsError::new(&folder, error);
    let key = KeyPair::generate().map_err(refuse)?;
    let mut parameters = CertificateParams::default();
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters.use_authority_key_identifier_extension = true;
    let now = u64::try_from(clock::of_machine().as_second()).unwrap_or_default();
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(now);
    parameters.not_before = now - BACKDATED;
    parameters.not_after = now + valid_for;
    let issuer = authority.issuer();
    let nameless = parameters.signed_by(&key, issuer).map_err(refuse)?;
    let named = named(nameless.der(), &subject(user, groups), issuer.key());
    let certificate = named.map_err(|problem| TlsError::new(&folder, problem))?;
    Ok(ClientCertificate {
        certificate_pem: pem(&certificate),
        key_pem: key.serialize_pem(),
    })
}

/// Returns a distinguished name with the user as its common name and each group as an organization.
fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let groups = groups.iter().map(|group| (ORGANIZATION, group.as_str()));
    let attributes = groups.chain([(COMMON_NAME, user)]);
    yasna::construct_der(|writer| {
        writer.write_sequence(|names| {
            for (kind, value) in attributes {
                names.next().write_set(|set| {
                    set.next().write_sequence(|attribute| {
                        let kind = ObjectIdentifier::from_slice(kind);
                        attribute.next().write_oid(&kind);
                        attribute.next().write_utf8_string(value);
                    });
                });
            }
        });
    })
}

/// Returns the same certificate with another subject, signed again.
fn named(certificate: &[u8], subject: &[u8], key: &KeyPair) -> Result<Vec<u8>, String> {
    let parts = parts(certificate)?;
    let [signed, algorithm, _] = parts.as_slice() else {
        return Err("the certificate does not have three parts".to_owned());
    };
    let mut fields = self::parts(signed)?;
    let place = fields.get_mut(SUBJECT);
    *place.ok_or("the certificate has no subject")? = subject.to_vec();
    let signed = sequence(&fields);
    let signature = key.sign(&signed).map_err(|error| error.to_string())?;
    let signature =
        yasna::construct_der(|writer| writer.write_bitvec_bytes(&signature, signature.len() * 8));
    Ok(sequence(&[signed, algorithm.clone(), signature]))
}

/// Splits a sequence into its parts.
fn parts(sequence: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let parts = yasna::parse_der(sequence, |reader| {
        reader.collect_sequence_of(|part| part.read_der())
    });
    parts.map_err(|error| error.to_string())
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|sequence| {
            for part in parts {
                sequence.next().write_der(part);
            }
        });
    })
}

/// Encodes a certificate as PEM.
pub(super) fn pem(certificate: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::super::Tls;
    use super::*;
    use crate::config::{Config, FilePath};

    #[test]
    fn a_user_may_be_in_many_groups_and_the_authority_has_signed_it() {
        let folder = tempfile::tempdir().unwrap();
        let missing = sign(folder.path(), "ada", &[], BACKDATED).err().unwrap();
        let missing = missing.to_string();
        assert!(missing.contains("there is no authority"), "{missing}");
        let config = Config {
            data_dir: FilePath::from(folder.path()),
            ..Config::default()
        };
        let tls = Tls::load_or_create(&config).unwrap();
        let groups = ["crew", "\u{e9}quipe", "system:masters"].map(str::to_owned);
        let day = Duration::from_secs(86_400);
        let signed = sign(folder.path(), "ada, \"lovelace\"", &groups, day).unwrap();
        let der = CertificateDer::from_pem_slice(signed.certificate_pem.as_bytes()).unwrap();
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        let trust = super::super::pem::der(Path::new("ca"), &tls.trust_pem()).unwrap();
        let (_, authority) = X509Certificate::from_der(&trust).unwrap();
        assert_eq!(parsed.issuer(), authority.subject());
        let organizations = parsed.subject().iter_organization();
        let organizations: Vec<_> = organizations.map(|one| one.as_str().unwrap()).collect();
        assert_eq!(organizations, groups);
        let validity = parsed.validity();
        let (from, until) = (validity.not_before, validity.not_after);
        assert_eq!(until.timestamp() - from.timestamp(), 86_400 + 3600);
        assert!(KeyPair::from_pem(&signed.key_pem).is_ok());
    }
}
