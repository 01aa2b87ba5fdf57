//! Settings of TLS, with the names of kube-apiserver's flags.

use std::fmt;
use std::str::FromStr;

use super::FilePath;
use super::storage::{entries, joined};

/// A cipher suite that the daemon can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherSuite {
    /// Its name in the registry of IANA.
    pub name: &'static str,
    /// Its number.
    pub number: u16,
    /// Whether it is one of TLS 1.3.
    pub is_of_tls13: bool,
}

const fn suite(name: &'static str, number: u16) -> CipherSuite {
    CipherSuite {
        name,
        number,
        is_of_tls13: number < 0x1400,
    }
}

const SUITES: [CipherSuite; 9] = [
    suite("TLS_AES_128_GCM_SHA256", 0x1301),
    suite("TLS_AES_256_GCM_SHA384", 0x1302),
    suite("TLS_CHACHA20_POLY1305_SHA256", 0x1303),
    suite("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", 0xc02b),
    suite("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", 0xc02c),
    suite("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", 0xcca9),
    suite("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", 0xc02f),
    suite("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", 0xc030),
    suite("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", 0xcca8),
];

/// Suites that kube-apiserver has and the daemon has not.
const LACKING: [&str; 4] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];

/// Suites that kube-apiserver has and calls insecure.
const INSECURE: [&str; 12] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Names of cipher suites, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CipherSuites(pub Vec<CipherSuite>);

impl FromStr for CipherSuites {
    type Err = String;

    fn from_str(text: &str) -> Result<CipherSuites, String> {
        let suites = entries(text).map(|entry| {
            // Two names lack their end in kube-apiserver's older releases.
            let is_named = |suite: &&CipherSuite| {
                let shortened = suite.name.strip_suffix("_SHA256");
                suite.name == entry
                    || shortened == Some(entry) && entry.ends_with("CHACHA20_POLY1305")
            };
            // linear: a few suites, at the start.
            match SUITES.iter().find(is_named) {
                Some(suite) => Ok(*suite),
                None if INSECURE.contains(&entry) => {
                    Err(format!("{entry} is insecure and not built; leave it out"))
                }
                None if LACKING.contains(&entry) => Err(format!(
                    "{entry} is not built; leave it out, or use its GCM variant"
                )),
                None => Err(format!(
                    "Cipher suite {entry} not supported or doesn't exist"
                )),
            }
        });
        Ok(CipherSuites(suites.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for CipherSuites {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(&self.0, |suite| suite.name.to_owned()))
    }
}

/// The least version of TLS. The daemon has 1.2 and 1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2, because nothing is set.
    #[default]
    Unset,
    /// 1.0, which is 1.2 here.
    Tls10,
    /// 1.1, which is 1.2 here.
    Tls11,
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

const VERSIONS: [(TlsVersion, &str); 5] = [
    (TlsVersion::Unset, ""),
    (TlsVersion::Tls10, "VersionTLS10"),
    (TlsVersion::Tls11, "VersionTLS11"),
    (TlsVersion::Tls12, "VersionTLS12"),
    (TlsVersion::Tls13, "VersionTLS13"),
];

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsVersion, String> {
        let known = VERSIONS.iter().find(|(_, name)| *name == text);
        known.map(|(version, _)| *version).ok_or_else(|| {
            "not one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13".to_owned()
        })
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = VERSIONS.iter().find(|(version, _)| version == self);
        formatter.write_str(known.map_or("", |(_, name)| name))
    }
}

/// Numbers of groups for key exchanges, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurvePreferences(pub Vec<u16>);

/// The groups that the daemon can use.
const CURVES: [(u16, &str); 5] = [
    (23, "P-256"),
    (24, "P-384"),
    (29, "X25519"),
    (4587, "SecP256r1MLKEM768"),
    (4588, "X25519MLKEM768"),
];

impl FromStr for CurvePreferences {
    type Err = String;

    fn from_str(text: &str) -> Result<CurvePreferences, String> {
        let known = || {
            let texts = CURVES
                .iter()
                .map(|(number, name)| format!("{number} ({name})"));
            texts.collect::<Vec<_>>().join(", ")
        };
        let numbers = entries(text).map(|entry| {
            let number = entry.parse().ok();
            // linear: a few groups, at the start.
            let number = number.filter(|number| CURVES.iter().any(|(known, _)| known == number));
            number.ok_or_else(|| format!("{entry} is not built; there are {}", known()))
        });
        Ok(CurvePreferences(numbers.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for CurvePreferences {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(&self.0, u16::to_string))
    }
}

/// A certificate for clients that ask for certain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// The file of the certificate chain.
    pub certificate: FilePath,
    /// The file of its private key.
    pub key: FilePath,
    /// The names, which may begin with `*`. Empty means those of the certificate.
    pub names: Vec<String>,
}

/// `certificate,key` or `certificate,key:name,name`, separated by semicolons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SniCertificates(pub Vec<SniCertificate>);

/// The flag of these certificates.
pub(super) const SNI_FLAG: &str = "tls-sni-cert-key";

/// The character between two certificates.
pub(super) const SNI_SEPARATOR: &str = ";";

impl FromStr for SniCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<SniCertificates, String> {
        let parts = text.split(SNI_SEPARATOR).map(str::trim);
        let parts = parts.filter(|part| !part.is_empty());
        let certificates = parts.map(|part| {
            let (files, names) = match part.split_once(':') {
                Some((files, names)) => (files, Some(names)),
                None => (part, None),
            };
            let Some((certificate, key)) = files.split_once(',') else {
                return Err("expected comma separated certificate and key file paths".to_owned());
            };
            let (certificate, key) = (certificate.trim(), key.trim());
            if certificate.is_empty() || key.is_empty() || key.contains(',') {
                return Err("expected comma separated certificate and key file paths".to_owned());
            }
            let names: Vec<String> = names.into_iter().flat_map(entries).map(lowercase).collect();
            if part.contains(':') && names.is_empty() {
                return Err("empty names list is not allowed".to_owned());
            }
            Ok(SniCertificate {
                certificate: certificate.into(),
                key: key.into(),
                names,
            })
        });
        Ok(SniCertificates(certificates.collect::<Result<_, _>>()?))
    }
}

fn lowercase(name: &str) -> String {
    name.to_ascii_lowercase()
}

impl fmt::Display for SniCertificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter().map(|one| {
            let names = match one.names.is_empty() {
                true => String::new(),
                false => format!(":{}", one.names.join(",")),
            };
            format!("{},{}{names}", one.certificate, one.key)
        });
        formatter.write_str(&parts.collect::<Vec<_>>().join(SNI_SEPARATOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_known_insecure_lacking_or_unknown() {
        let text = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        let suites: CipherSuites = text.parse().unwrap();
        assert_eq!(suites.to_string(), text);
        assert!(suites.0[0].is_of_tls13 && !suites.0[1].is_of_tls13);
        let short: CipherSuites = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".parse().unwrap();
        assert!(short.to_string().ends_with("POLY1305_SHA256"));
        let refused = |text: &str| text.parse::<CipherSuites>().unwrap_err();
        for name in INSECURE {
            assert!(refused(name).starts_with(&format!("{name} is insecure")));
        }
        for name in LACKING {
            assert!(refused(name).starts_with(&format!("{name} is not built")));
        }
        for name in ["TLS_AES", "TLS_ECDHE_RSA_WITH_AES_128_GCM"] {
            assert!(refused(name).ends_with("not supported or doesn't exist"));
        }
    }

    #[test]
    fn versions_and_curves_have_kube_apiservers_names() {
        for (_, name) in VERSIONS {
            assert_eq!(name.parse::<TlsVersion>().unwrap().to_string(), name);
        }
        assert!("VersionTLS14".parse::<TlsVersion>().is_err());
        assert_eq!(
            "29, 4588".parse::<CurvePreferences>().unwrap().to_string(),
            "29,4588"
        );
        for wrong in ["25", "X25519", "-1", "70000"] {
            let refusal = wrong.parse::<CurvePreferences>().unwrap_err();
            assert!(refusal.starts_with(&format!("{wrong} is not built; there are 23 (P-256)")));
        }
    }

    #[test]
    fn certificates_have_two_files_and_names() {
        let text = "a.crt,a.key;b.crt,b.key:*.b.example,b.example";
        let certificates: SniCertificates = text.parse().unwrap();
        assert_eq!(certificates.to_string(), text);
        assert_eq!(certificates.0[1].names, ["*.b.example", "b.example"]);
        for wrong in ["a.crt", "a,b,c", ",b", "a,", "a,b:", "a,b: ,"] {
            assert!(wrong.parse::<SniCertificates>().is_err(), "{wrong}");
        }
    }
}
