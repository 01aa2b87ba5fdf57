//! Searches for the path from a certificate of a client or server to a trusted authority. Pure.
//!
//! The rules are those of Go's crypto/x509, so that the daemon accepts the same certificates as
//! kube-apiserver.

use rustls::pki_types::SignatureVerificationAlgorithm;

use super::names::COMPARISONS_MAX;
use super::proof;
use super::{Certificate, Refused};

/// The most signatures that are verified for one certificate, as in Go.
const SIGNATURES_MAX: usize = 100;

/// The seconds since 1970 between which all certificates of a path are valid, both included.
pub type Validity = (i64, i64);

/// The part that the holder of a certificate plays in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Client,
    Server,
}

/// Verifies that authorities have signed a client's certificate, and returns how long that holds.
///
/// # Errors
/// [`Refused`] with the first obstacle.
pub fn verify(
    own: &Certificate,
    between: &[Certificate],
    authorities: &[Certificate],
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    now: i64,
) -> Result<Validity, Refused> {
    let trust = Trust {
        authorities,
        algorithms,
        now,
        purpose: Purpose::Client,
    };
    trust.verify(own, between)
}

/// The certificates that are trusted, for a purpose, at a time.
#[derive(Clone, Copy)]
pub(super) struct Trust<'s> {
    pub(super) authorities: &'s [Certificate],
    pub(super) algorithms: &'s [&'s dyn SignatureVerificationAlgorithm],
    pub(super) now: i64,
    pub(super) purpose: Purpose,
}

impl<'s> Trust<'s> {
    /// Searches for a path to a trusted certificate.
    pub(super) fn verify(
        self,
        own: &'s Certificate,
        between: &'s [Certificate],
    ) -> Result<Validity, Refused> {
        if !proof::is_provable(&own.key) {
            return Err(Refused::Key);
        }
        let mut search = Search {
            between,
            trust: self,
            signatures: SIGNATURES_MAX,
            comparisons: COMPARISONS_MAX,
            obstacle: None,
        };
        search.holds(own)?;
        let mut path = vec![own];
        // A certificate that is itself trusted needs no signature.
        let is_found = match self.authorities.iter().any(|one| one.der == own.der) {
            true => search.ends(&path),
            false => search.extend(&mut path),
        };
        match is_found {
            true => Ok(validity(&path)),
            false => Err(search.obstacle.unwrap_or(Refused::UnknownAuthority)),
        }
    }
}

fn validity(path: &[&Certificate]) -> Validity {
    path.iter().fold((i64::MIN, i64::MAX), |valid, one| {
        (valid.0.max(one.valid.0), valid.1.min(one.valid.1))
    })
}

struct Search<'s> {
    between: &'s [Certificate],
    trust: Trust<'s>,
    /// The number of signatures that may still be verified.
    signatures: usize,
    /// The number of names that may still be compared.
    comparisons: usize,
    /// The first obstacle.
    obstacle: Option<Refused>,
}

impl<'s> Search<'s> {
    /// Extends a path, which begins with the client's certificate, until it reaches an authority.
    fn extend(&mut self, path: &mut Vec<&'s Certificate>) -> bool {
        for (candidates, are_last) in [(self.trust.authorities, true), (self.between, false)] {
            for candidate in candidates {
                match self.may_follow(path, candidate, are_last) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(obstacle) => {
                        self.obstacle.get_or_insert(obstacle);
                        continue;
                    }
                }
                path.push(candidate);
                let is_found = match are_last {
                    true => self.ends(path),
                    false => self.extend(path),
                };
                if is_found {
                    return true;
                }
                path.pop();
            }
        }
        false
    }

    /// Whether every certificate of a complete path permits the purpose.
    fn ends(&mut self, path: &[&Certificate]) -> bool {
        let is_good = path.iter().all(|one| match self.trust.purpose {
            Purpose::Client => one.is_for_clients,
            Purpose::Server => one.is_for_servers,
        });
        if !is_good {
            self.obstacle.get_or_insert(Refused::NotOfClient);
        }
        is_good
    }

    /// Whether the candidate has signed the last certificate of the path, and was allowed to.
    fn may_follow(
        &mut self,
        path: &[&Certificate],
        candidate: &Certificate,
        is_last: bool,
    ) -> Result<bool, Refused> {
        let Some(signed) = path.last() else {
            return Ok(false);
        };
        let is_again = |one: &&Certificate| {
            one.subject == candidate.subject
                && one.key == candidate.key
                && one.names == candidate.names
        };
        if signed.issuer != candidate.subject || path.iter().any(is_again) {
            return Ok(false);
        }
        self.signatures = self.signatures.checked_sub(1).ok_or(Refused::TooMuch)?;
        // A certificate of version 1 cannot state that it is an authority. It is one if the
        // operator trusts it.
        let is_authority = candidate
            .is_authority
            .unwrap_or(is_last && !candidate.is_version3);
        if !is_authority || !candidate.may_sign {
            return Err(Refused::NotAnAuthority);
        }
        // Several authorities may have the same name.
        if !signed.is_signed_by(&candidate.key, self.trust.algorithms)? {
            return Ok(false);
        }
        self.holds(candidate)?;
        let between = path.len() - 1;
        if candidate.path_length.is_some_and(|most| between > most) {
            return Err(Refused::PathLength);
        }
        for below in path {
            let budget = &mut self.comparisons;
            candidate.constraints.check(&below.names, budget)?;
        }
        Ok(true)
    }

    /// Checks a certificate by itself: its critical extensions and its validity.
    fn holds(&self, certificate: &Certificate) -> Result<(), Refused> {
        let (from, until) = certificate.valid;
        if certificate.has_unknown_critical {
            return Err(Refused::CriticalExtension);
        }
        match (from..=until).contains(&self.trust.now) {
            true => Ok(()),
            false => Err(Refused::NotValidNow),
        }
    }
}
