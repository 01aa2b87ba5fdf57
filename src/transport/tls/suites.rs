//! The parts of TLS that operators may restrict: versions, cipher suites and groups.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::TLS13;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::config::{CipherSuites, Config, TlsVersion};

const ONLY_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

/// Returns the algorithms that the settings allow.
pub(super) fn provider(config: &Config) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    let suites = &config.tls_cipher_suites;
    if !suites.0.is_empty() {
        provider
            .cipher_suites
            .retain(|one| is_allowed(*one, suites));
    }
    let curves = &config.tls_curve_preferences.0;
    if !curves.is_empty() {
        provider.kx_groups = aws_lc_rs::ALL_KX_GROUPS.to_vec();
        // linear: a few groups.
        provider
            .kx_groups
            .retain(|group| curves.contains(&u16::from(group.name())));
    }
    Arc::new(provider)
}

/// Returns the versions that the settings allow.
pub(super) fn versions(config: &Config) -> &'static [&'static SupportedProtocolVersion] {
    match config.tls_min_version {
        TlsVersion::Tls13 => ONLY_TLS13,
        _ => rustls::DEFAULT_VERSIONS,
    }
}

/// Whether a list allows a suite. One without suites of TLS 1.3 says nothing about that version
/// (D-119).
fn is_allowed(suite: SupportedCipherSuite, CipherSuites(allowed): &CipherSuites) -> bool {
    let is_of_tls13 = suite.tls13().is_some();
    let number = u16::from(suite.suite());
    // linear: a few suites.
    allowed.iter().any(|one| one.number == number)
        || is_of_tls13 && !allowed.iter().any(|one| one.is_of_tls13)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<u16> {
        let config = Config {
            tls_cipher_suites: text.parse().unwrap(),
            ..Config::default()
        };
        let provider = provider(&config);
        let suites = provider.cipher_suites.iter();
        let mut numbers: Vec<u16> = suites.map(|one| u16::from(one.suite())).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn lists_restrict_the_versions_that_they_name() {
        assert_eq!(numbers("").len(), 9);
        let of_tls12 = numbers("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
        assert_eq!(of_tls12, [0x1301, 0x1302, 0x1303, 0xc02b]);
        assert_eq!(numbers("TLS_AES_256_GCM_SHA384"), [0x1302]);
    }

    #[test]
    fn every_curve_of_the_settings_is_built() {
        let config = Config {
            tls_curve_preferences: "23,24,29,4587,4588".parse().unwrap(),
            ..Config::default()
        };
        assert_eq!(provider(&config).kx_groups.len(), 5);
        // As the description of the setting says.
        let usual = provider(&Config::default());
        let usual = usual.kx_groups.iter().map(|one| u16::from(one.name()));
        let mut usual: Vec<u16> = usual.collect();
        usual.sort_unstable();
        assert_eq!(usual, [23, 24, 29, 4588]);
    }
}
