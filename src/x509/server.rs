//! Verifies the certificate of a server by the rules of Go's crypto/x509, and says in its texts why
//! one is refused. Pure.

use std::net::IpAddr;

use rustls::pki_types::{SignatureVerificationAlgorithm, alg_id};

use super::names::Name;
use super::path::{Purpose, Trust};
use super::{Certificate, Refused, Validity};

/// The reason why the certificate of a server is refused, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x509: {0}")]
pub struct Distrusted(String);

/// Verifies that a server's certificate is trusted, valid, meant for servers and names the host.
/// Returns how long that holds. It is trusted if a path leads to a certificate of the bundle, or if
/// it is in the bundle itself. `between` are the further certificates that the server sent.
///
/// # Errors
/// [`Distrusted`] with the first obstacle.
pub fn verify_server(
    chain: (&Certificate, &[Certificate]),
    bundle: &[Certificate],
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    now: i64,
    host: &str,
) -> Result<Validity, Distrusted> {
    let (own, between) = chain;
    // Its own validity and name come before the search for a path, as in Go.
    if let Some(text) = outside(own, now) {
        return Err(Distrusted(text));
    }
    check_host(own, host)?;
    let trust = Trust {
        authorities: bundle,
        algorithms,
        now,
        purpose: Purpose::Server,
    };
    let late = || {
        let mut all = between.iter().chain(bundle);
        all.find_map(|one| outside(one, now))
    };
    trust.verify(own, between).map_err(|refused| {
        Distrusted(match refused {
            Refused::NotValidNow => late().unwrap_or_else(|| UNKNOWN.to_owned()),
            Refused::NotAnAuthority | Refused::UnknownAuthority => {
                // linear: a bundle has some hundred certificates, and this handshake has failed.
                let mut all = bundle.iter().chain(between);
                let candidate = all.find(|one| one.subject == own.issuer && one.der != own.der);
                candidate.map_or_else(|| UNKNOWN.to_owned(), hint)
            }
            refused => text(&refused).to_owned(),
        })
    })
}

const UNKNOWN: &str = "certificate signed by unknown authority";

/// Names the certificate that has the name of the issuer, and is not it.
fn hint(candidate: &Certificate) -> String {
    let key = &*candidate.key.algorithm;
    let why = match candidate.is_authority {
        Some(true) if key == &*alg_id::RSA_ENCRYPTION => "crypto/rsa: verification error",
        Some(true) if key == &*alg_id::ED25519 => "x509: Ed25519 verification failure",
        Some(true) => "x509: ECDSA verification failure",
        _ => "x509: invalid signature: parent certificate cannot sign this kind of certificate",
    };
    format!(
        "{UNKNOWN} (possibly because of {why:?} while trying to verify candidate authority \
         certificate {:?})",
        candidate.common_name
    )
}

fn text(refused: &Refused) -> &'static str {
    match refused {
        Refused::Unreadable | Refused::Uid => "malformed certificate",
        Refused::Key => "cannot verify signature: algorithm unimplemented",
        Refused::NotAnAuthority
        | Refused::Signature
        | Refused::UnknownAuthority
        | Refused::NotValidNow => UNKNOWN,
        Refused::NotOfClient => "certificate specifies an incompatible key usage",
        Refused::CriticalExtension => "unhandled critical extension",
        Refused::PathLength => "too many intermediates for path length constraint",
        Refused::Names => {
            "a root or intermediate certificate is not authorized to sign for this name"
        }
        Refused::TooMuch => "signature check attempts limit reached while verifying certificate",
    }
}

/// Says that a certificate is not valid at this time.
fn outside(certificate: &Certificate, now: i64) -> Option<String> {
    let (from, until) = certificate.valid;
    let (word, limit) = match now {
        _ if now < from => ("before", from),
        _ if now > until => ("after", until),
        _ => return None,
    };
    let [now, limit] = [now, limit].map(|time| {
        jiff::Timestamp::from_second(time)
            .map_or_else(|_| time.to_string(), |time| time.to_string())
    });
    Some(format!(
        "certificate has expired or is not yet valid: current time {now} is {word} {limit}"
    ))
}

/// Checks that the alternative names of a certificate have this host. A common name does not count.
fn check_host(certificate: &Certificate, host: &str) -> Result<(), Distrusted> {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let refusal = match address.parse::<IpAddr>() {
        Ok(address) => wrong_address(certificate, address),
        Err(_) => wrong_name(certificate, host),
    };
    refusal.map_or(Ok(()), |text| Err(Distrusted(text)))
}

fn wrong_address(certificate: &Certificate, wanted: IpAddr) -> Option<String> {
    let mut valid = Vec::new();
    for name in &certificate.names {
        if let Name::Ip(bytes) = name
            && let Some(address) = address(bytes)
        {
            if address == wanted.to_canonical() {
                return None;
            }
            valid.push(address.to_string());
        }
    }
    Some(match valid.is_empty() {
        true => format!(
            "cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
        ),
        false => format!(
            "certificate is valid for {}, not {wanted}",
            valid.join(", ")
        ),
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| sixteen())
        .ok()
        .map(|one| one.to_canonical())
}

fn wrong_name(certificate: &Certificate, host: &str) -> Option<String> {
    let names = certificate.names.iter().filter_map(|name| match name {
        Name::Dns(name) => Some(name.as_str()),
        _ => None,
    });
    let names: Vec<&str> = names.collect();
    // linear: a certificate has a few names.
    if names.iter().any(|name| matches(name, host)) {
        return None;
    }
    Some(match () {
        () if certificate.names.is_empty() && matches(&certificate.common_name, host) => {
            "certificate relies on legacy Common Name field, use SANs instead".to_owned()
        }
        () if names.is_empty() => {
            format!("certificate is not valid for any names, but wanted to match {host}")
        }
        () => format!("certificate is valid for {}, not {host}", names.join(", ")),
    })
}

/// Whether a name, whose first label may be a wildcard, stands for a host.
fn matches(name: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_good = |name: &str| !name.is_empty() && name.split('.').all(|label| !label.is_empty());
    if !is_good(name) || !is_good(host) {
        return false;
    }
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(parent), Some((_, rest))) => parent.eq_ignore_ascii_case(rest),
        (Some(_), None) => false,
        (None, _) => name.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        for (name, host, expected) in [
            ("a.example", "A.example", true),
            ("a.example", "a.example.", true),
            ("*.example", "a.example", true),
            ("*.example", "b.a.example", false),
            ("*.example", "example", false),
            ("*", "example", false),
            ("", "", false),
            ("a..b", "a..b", false),
        ] {
            assert_eq!(matches(name, host), expected, "{name} {host}");
        }
    }
}
