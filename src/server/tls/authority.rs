//! The authority that signs the server's certificate: made once, kept for ten years.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsError;
use crate::server::auth::private_file;

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const VALID_DAYS: i64 = 3650;

/// Certificates are valid from a day before they are made, for clocks that are behind.
const BACKDATED_DAYS: i64 = 1;

/// An authority.
pub(super) struct Authority {
    certificate_pem: String,
    key_identifier: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn load_or_create(folder: &Path) -> Result<Authority, TlsError> {
        let certificate = folder.join(CERTIFICATE);
        let key = folder.join(KEY);
        let read =
            |path: &Path| private_file::read(path).map_err(|error| TlsError::new(path, error));
        match (read(&certificate)?, read(&key)?) {
            (Some(certificate_pem), Some(key_pem)) => {
                Authority::load(&certificate, certificate_pem, &key, &key_pem)
            }
            // The certificate is written last: without it nobody has ever trusted the key.
            (None, _) => Authority::create(&certificate, &key),
            (Some(_), None) => Err(TlsError::new(
                &key,
                "the authority's key is missing; bring it back, or remove ca.crt too for a new \
                 authority that clients then have to trust",
            )),
        }
    }

    fn create(certificate_path: &Path, key_path: &Path) -> Result<Authority, TlsError> {
        let refuse = |error: rcgen::Error| TlsError::new(certificate_path, error);
        let key = KeyPair::generate().map_err(refuse)?;
        // A name of its own, so that the authorities of two daemons can be told apart.
        let common_name = format!("taffrail-ca-{}", Timestamp::now().as_second());
        let parameters = parameters(&common_name);
        let certificate_pem = parameters.self_signed(&key).map_err(refuse)?.pem();
        let key_pem = key.serialize_pem();
        for (path, text) in [(key_path, &key_pem), (certificate_path, &certificate_pem)] {
            private_file::write(path, text).map_err(|error| TlsError::new(path, error))?;
        }
        Authority::load(certificate_path, certificate_pem, key_path, &key_pem)
    }

    fn load(
        certificate_path: &Path,
        certificate_pem: String,
        key_path: &Path,
        key_pem: &str,
    ) -> Result<Authority, TlsError> {
        let refuse = |problem: &str| TlsError::new(certificate_path, problem);
        let key = KeyPair::from_pem(key_pem).map_err(|error| TlsError::new(key_path, error))?;
        let der = super::certificate::der(certificate_path, &certificate_pem)?;
        let (_, parsed) = X509Certificate::from_der(&der)
            .map_err(|error| refuse(&format!("not a certificate: {error}")))?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(refuse("it does not belong to ca.key"));
        }
        if !parsed.validity().is_valid() {
            return Err(refuse(
                "it has expired; remove the folder for a new authority that clients then have to \
                 trust",
            ));
        }
        let common_name = parsed
            .subject()
            .iter_common_name()
            .find_map(|name| name.as_str().ok())
            .unwrap_or_default();
        let parameters = parameters(common_name);
        let key_identifier = parameters.key_identifier(&key);
        Ok(Authority {
            issuer: Issuer::new(parameters, key),
            key_identifier,
            certificate_pem,
        })
    }

    pub(super) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// What certificates that it signed carry to say so.
    pub(super) fn key_identifier(&self) -> &[u8] {
        &self.key_identifier
    }
}

fn parameters(common_name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    parameters.distinguished_name = name;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    set_validity(&mut parameters, VALID_DAYS);
    parameters
}

/// Valid from now on for so many days.
pub(super) fn set_validity(parameters: &mut CertificateParams, days: i64) {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let date = |offset: i64| {
        let date = today.saturating_add(jiff::Span::new().days(offset));
        // Months and days of a calendar date always fit.
        rcgen::date_time_ymd(
            i32::from(date.year()),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    parameters.not_before = date(-BACKDATED_DAYS);
    parameters.not_after = date(days);
}
