//! Authorities of the daemon: the one that signs the server's certificate, and that of the front
//! proxy. Each is created once and kept for ten years.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsError;
use crate::clock;
use crate::files::own;

/// The names of the files of an authority, and the beginning of its common name.
pub(super) struct AuthorityFiles {
    pub(super) certificate: &'static str,
    pub(super) key: &'static str,
    pub(super) name: &'static str,
}

/// The authority that signs the server's certificate.
pub(super) const SERVING: AuthorityFiles = AuthorityFiles {
    certificate: "ca.crt",
    key: "ca.key",
    name: "taffrail-ca",
};

const VALID_DAYS: i64 = 3650;

/// The first second of 2020, in seconds since 1970. Taffrail's first release is later, so an
/// earlier clock is wrong.
const EARLIEST: i64 = 1_577_836_800;

/// How far back certificates are valid, for clients whose clocks are slow.
const BACKDATED_DAYS: i64 = 1;

/// A certificate authority.
pub(super) struct Authority {
    certificate_pem: String,
    key_identifier: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn load_or_create(
        folder: &Path,
        files: &AuthorityFiles,
    ) -> Result<Authority, TlsError> {
        let certificate = folder.join(files.certificate);
        let key = folder.join(files.key);
        match (super::kept(&certificate)?, super::kept(&key)?) {
            (Some(certificate_pem), Some(key_pem)) => {
                Authority::load(files, folder, certificate_pem, &key_pem)
            }
            // The certificate is written last, so without it no client can have trusted the key.
            (None, _) => Authority::create(files, folder),
            (Some(_), None) => Err(TlsError::new(
                &key,
                format!(
                    "the authority's key is missing; restore it, or move {} away to create a new \
                     authority that clients then have to trust",
                    files.certificate
                ),
            )),
        }
    }

    /// Loads the authority that a daemon created earlier.
    pub(super) fn load_existing(folder: &Path) -> Result<Authority, TlsError> {
        let [certificate, key] = [SERVING.certificate, SERVING.key].map(|name| folder.join(name));
        match (super::kept(&certificate)?, super::kept(&key)?) {
            (Some(certificate_pem), Some(key_pem)) => {
                Authority::load(&SERVING, folder, certificate_pem, &key_pem)
            }
            _ => Err(TlsError::new(
                folder,
                "there is no authority (ca.crt and ca.key); a daemon makes it when it first \
                 starts with this --data-dir",
            )),
        }
    }

    fn create(files: &AuthorityFiles, folder: &Path) -> Result<Authority, TlsError> {
        let [certificate_path, key_path] = [files.certificate, files.key].map(|n| folder.join(n));
        let (certificate_path, key_path) = (certificate_path.as_path(), key_path.as_path());
        let refuse = |error: rcgen::Error| TlsError::new(certificate_path, error);
        if let Some(problem) = too_early(clock::of_machine()) {
            return Err(TlsError::new(certificate_path, problem));
        }
        let key = KeyPair::generate().map_err(refuse)?;
        // A distinct name, so that operators can distinguish the authorities of two daemons.
        let common_name = format!("{}-{}", files.name, clock::of_machine().as_second());
        let parameters = parameters(&common_name);
        let certificate_pem = parameters.self_signed(&key).map_err(refuse)?.pem();
        let key_pem = key.serialize_pem();
        for (path, text) in [(key_path, &key_pem), (certificate_path, &certificate_pem)] {
            own::write(path, text.as_bytes()).map_err(|error| TlsError::new(path, error))?;
        }
        Authority::load(files, folder, certificate_pem, &key_pem)
    }

    fn load(
        files: &AuthorityFiles,
        folder: &Path,
        certificate_pem: String,
        key_pem: &str,
    ) -> Result<Authority, TlsError> {
        let [certificate_path, key_path] = [files.certificate, files.key].map(|n| folder.join(n));
        let (certificate_path, key_path) = (certificate_path.as_path(), key_path.as_path());
        let refuse = |problem: &str| TlsError::new(certificate_path, problem);
        let key = KeyPair::from_pem(key_pem).map_err(|error| TlsError::new(key_path, error))?;
        let der = super::pem::der(certificate_path, &certificate_pem)?;
        let (_, parsed) = X509Certificate::from_der(&der)
            .map_err(|error| refuse(&format!("not a certificate: {error}")))?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(refuse(&format!("it does not belong to {}", files.key)));
        }
        let ends = [parsed.validity().not_before, parsed.validity().not_after];
        let [begin, end] = ends.map(|end| end.timestamp());
        if let Some(problem) = fault_at(files, begin, end, clock::of_machine()) {
            return Err(refuse(&problem));
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

    /// The subject key identifier of this authority, which certificates that it signed refer to.
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
    set_validity(&mut parameters, VALID_DAYS, clock::of_machine());
    parameters
}

fn said(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{seconds} seconds after 1970"),
    }
}

/// Describes the problem if the validity of an authority, in seconds since 1970, does not include
/// `now`. Usually the clock is wrong.
fn fault_at(files: &AuthorityFiles, begin: i64, end: i64, now: Timestamp) -> Option<String> {
    let (problem, clock) = match now.as_second() {
        seconds if seconds < begin => (
            format!("it is not valid yet, but from {} on", said(begin)),
            "behind",
        ),
        seconds if seconds > end => (format!("it expired at {}", said(end)), "ahead"),
        _ => return None,
    };
    Some(format!(
        "{problem}, and this machine's clock says {}: if the clock is {clock}, set it and start \
         again; if it is right, move {} and {} to another place for a new authority that clients \
         then have to trust",
        said(now.as_second()),
        files.certificate,
        files.key
    ))
}

/// Refuses to create an authority while the clock is before [`EARLIEST`]. A clock that was never
/// set shows a time long ago, and an authority created then would have expired by the time the
/// clock is right.
fn too_early(now: Timestamp) -> Option<String> {
    (now.as_second() < EARLIEST).then(|| {
        format!(
            "this machine's clock says {}, which can't be: a certificate authority made now would \
             end too soon; set the clock and start again",
            said(now.as_second())
        )
    })
}

/// Makes a certificate valid for `days` from `now` on.
pub(super) fn set_validity(parameters: &mut CertificateParams, days: i64, now: Timestamp) {
    let today = now.to_zoned(TimeZone::UTC).date();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_wrong_clock_is_told_from_an_authority_that_has_ended() {
        let begin = at("2026-01-01T00:00:00Z").as_second();
        let end = at("2036-01-01T00:00:00Z").as_second();
        let told = |now: &str| fault_at(&SERVING, begin, end, at(now));
        assert_eq!(told("2026-01-01T00:00:00Z"), None);
        assert_eq!(told("2036-01-01T00:00:00Z"), None);
        for (now, words) in [
            (
                "1970-01-01T00:00:09Z",
                [
                    "not valid yet, but from 2026-01-01T00:00:00Z",
                    "if the clock is behind, set it",
                ],
            ),
            (
                "2036-01-01T00:00:01Z",
                [
                    "expired at 2036-01-01T00:00:00Z",
                    "if the clock is ahead, set it",
                ],
            ),
        ] {
            let told = told(now).unwrap();
            let clock = format!("clock says {now}");
            for word in words
                .into_iter()
                .chain([clock.as_str(), "move ca.crt and ca.key"])
            {
                assert!(told.contains(word), "{word}: {told}");
            }
            assert!(!told.contains("remove"), "{told}");
        }
    }

    #[test]
    fn no_authority_begins_before_2020() {
        for now in ["1970-01-01T00:00:09Z", "2019-12-31T23:59:59Z"] {
            let told = too_early(at(now)).unwrap();
            assert!(
                told.contains(now) && told.contains("set the clock"),
                "{told}"
            );
        }
        assert_eq!(too_early(at("2020-01-01T00:00:00Z")), None);
    }

    #[test]
    fn certificates_can_be_made_at_the_ends_of_time() {
        let key = KeyPair::generate().unwrap();
        for now in [Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            let mut parameters = parameters("test");
            set_validity(&mut parameters, VALID_DAYS, now);
            let certificate = parameters.self_signed(&key).unwrap();
            let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
            let validity = parsed.validity();
            let seconds = now.as_second() / 86_400 * 86_400;
            assert_eq!(validity.not_before.timestamp(), seconds - 86_400);
            assert!(validity.not_after > validity.not_before);
        }
    }
}
