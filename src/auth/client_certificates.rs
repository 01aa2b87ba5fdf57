//! Client certificates: the common name is the user, the organizations are the groups (API-277).
//!
//! The handshake only proves that the client has the key. The signature of the certificate is
//! verified here, so that an invalid certificate results in a 401 and not in a broken connection,
//! and so that authorities can change while connections live. A certificate is verified once for
//! each connection and set of authorities.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::der_parser::oid::Oid;
use x509_parser::oid_registry;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

use super::access::Revocations;
use super::authenticator::{Authenticated, Authenticator, Credentials, Unauthorized};
use crate::api::user_info::UserInfo;
use crate::x509::{self, Certificate, PeerCertificates, Refused, Validity};

/// The object identifier that Kubernetes defines for a user's uid in a subject.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The key of Kubernetes' extra value that identifies the certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The result of verifying a connection's certificate.
#[derive(Clone, Debug)]
struct Identified {
    /// The generation of the authorities that it was verified with.
    generation: u64,
    /// The user, with the time during which all certificates on the path are valid.
    user: Result<(Validity, Option<Arc<KnownCertificate>>), Unauthorized>,
}

impl Identified {
    /// Whether the result is still valid.
    fn holds(&self, generation: u64, now: i64) -> bool {
        let is_valid = |valid: &Validity| (valid.0..=valid.1).contains(&now);
        let user = self.user.as_ref();
        self.generation == generation && user.map_or(true, |(valid, _)| is_valid(valid))
    }
}

/// A verified certificate, shared by all connections that show it.
#[derive(Debug)]
struct KnownCertificate {
    chain: Vec<CertificateDer<'static>>,
    authenticated: Authenticated,
}

/// The trusted authorities of client certificates.
pub(super) struct Authorities {
    generation: u64,
    certificates: Vec<Certificate>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Identifies users by client certificates.
pub struct ClientCertificates {
    authorities: ArcSwap<Authorities>,
    known: Mutex<Known>,
    revocations: Revocations,
}

impl ClientCertificates {
    /// Creates an authenticator without any trusted authority.
    pub fn new(revocations: Revocations) -> ClientCertificates {
        ClientCertificates {
            authorities: ArcSwap::from_pointee(Authorities::new(0, &[])),
            known: Mutex::default(),
            revocations,
        }
    }

    /// Replaces the trusted authorities. Returns the number of watches that end, because none of
    /// the new authorities has signed the certificate they were opened with.
    pub fn believe(&self, authorities: &[CertificateDer<'_>]) -> usize {
        // The lock prevents that a certificate is added that only the old authorities have
        // signed.
        let mut known = self.known.lock();
        let generation = self.authorities.load().generation + 1;
        let authorities = Arc::new(Authorities::new(generation, authorities));
        self.authorities.store(Arc::clone(&authorities));
        let mut watches = 0;
        known.retain(|_, known| {
            let Some(known) = known.upgrade() else {
                return false;
            };
            let is_good = authorities.verify(&known.chain, now()).is_ok();
            if !is_good {
                watches += self.revocations.revoke(&known.authenticated.access);
            }
            is_good
        });
        watches
    }

    fn identify(&self, peer: &PeerCertificates) -> Identified {
        let now = now();
        let Some(memo) = peer.memo::<Mutex<Option<Identified>>>() else {
            return self.verify(peer, now);
        };
        let mut identified = memo.lock();
        if let Some(known) = &*identified
            && known.holds(self.authorities.load().generation, now)
        {
            return known.clone();
        }
        identified.insert(self.verify(peer, now)).clone()
    }

    fn verify(&self, peer: &PeerCertificates, now: i64) -> Identified {
        let mut known = self.known.lock();
        let authorities = self.authorities.load_full();
        Identified {
            generation: authorities.generation,
            user: verified(&authorities, &mut known, peer.chain(), now),
        }
    }
}

/// The verified certificates, by the digest of the client's own certificate.
type Known = HashMap<[u8; 32], Weak<KnownCertificate>>;

fn verified(
    authorities: &Authorities,
    known: &mut Known,
    chain: &[CertificateDer<'static>],
    now: i64,
) -> Result<(Validity, Option<Arc<KnownCertificate>>), Unauthorized> {
    let valid = authorities.verify(chain, now)?;
    let own = chain.first().ok_or(Refused::Unreadable)?;
    let digest = <[u8; 32]>::from(Sha256::digest(own));
    if let Some(known) = known.get(&digest).and_then(Weak::upgrade) {
        return Ok((valid, Some(known)));
    }
    let Some(user) = user(own, &digest)? else {
        return Ok((valid, None));
    };
    let certificate = Arc::new(KnownCertificate {
        chain: chain.to_vec(),
        authenticated: Authenticated {
            user: Arc::new(user),
            ..Authenticated::default()
        },
    });
    if known.len() == known.capacity() {
        // Entries of closed connections are removed before the table grows.
        known.retain(|_, one| one.strong_count() > 0);
    }
    known.insert(digest, Arc::downgrade(&certificate));
    Ok((valid, Some(certificate)))
}

impl Authorities {
    /// Unreadable certificates are left out. The daemon has already refused an operator's file with
    /// any.
    pub(super) fn new(generation: u64, certificates: &[CertificateDer<'_>]) -> Authorities {
        let read = certificates.iter().map(|one| Certificate::read(one));
        Authorities {
            generation,
            certificates: read.filter_map(Result::ok).collect(),
            algorithms: aws_lc_rs::default_provider().signature_verification_algorithms,
        }
    }

    /// The number of changes of the authorities until these.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Verifies a certificate, followed by those between it and an authority. Returns the time
    /// during which all of them are valid.
    pub(super) fn verify(
        &self,
        chain: &[CertificateDer<'static>],
        now: i64,
    ) -> Result<Validity, Refused> {
        let (own, between) = chain.split_first().ok_or(Refused::Unreadable)?;
        let own = Certificate::read(own)?;
        let between = between.iter().map(|one| Certificate::read(one));
        let between = between.collect::<Result<Vec<_>, _>>()?;
        x509::verify(&own, &between, &self.certificates, self.algorithms.all, now)
    }
}

impl Authenticator for ClientCertificates {
    fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        let Some(peer) = credentials.certificates else {
            return Ok(None);
        };
        let ((_, until), known) = self.identify(peer).user?;
        Ok(known.map(|known| Authenticated {
            ends: Some(until),
            ..known.authenticated.clone()
        }))
    }
}

/// The current time in seconds since 1970.
fn now() -> i64 {
    crate::clock::of_machine().as_second()
}

/// Returns the user in the subject of a certificate, or `None` without a common name.
fn user(own: &CertificateDer<'_>, digest: &[u8; 32]) -> Result<Option<UserInfo>, Unauthorized> {
    let parsed = X509Certificate::from_der(own);
    let (_, certificate) = parsed.map_err(|_| Refused::Unreadable)?;
    let subject = certificate.subject();
    let name = texts(subject, &oid_registry::OID_X509_COMMON_NAME).pop();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let groups = texts(subject, &oid_registry::OID_X509_ORGANIZATION_NAME);
    let mut user = UserInfo::authenticated(name, groups);
    if let Ok(oid) = Oid::from(UID) {
        let given = subject.iter_by_oid(&oid).count();
        user.uid = texts(subject, &oid).pop().unwrap_or_default();
        if given > 1 || given == 1 && user.uid.is_empty() {
            return Err(Refused::Uid.into());
        }
    }
    let mut shown = String::from("X509SHA256=");
    digest
        .iter()
        .for_each(|byte| shown.push_str(&format!("{byte:02x}")));
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![shown]);
    Ok(Some(user))
}

/// Returns the common name of a certificate.
pub(super) fn common_name(own: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(own).ok()?;
    texts(certificate.subject(), &oid_registry::OID_X509_COMMON_NAME).pop()
}

/// Returns the values of an attribute of a name, in their order.
fn texts(name: &X509Name<'_>, oid: &Oid<'_>) -> Vec<String> {
    let values = name.iter_by_oid(oid);
    let texts = values.filter_map(|value| Some(value.as_str().ok()?.to_owned()));
    texts.collect()
}

#[cfg(test)]
pub(super) mod testing {
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
        IsCa, Issuer, KeyPair,
    };

    use super::*;

    /// An authority of client certificates.
    pub struct Authority {
        issuer: Issuer<'static, KeyPair>,
        der: CertificateDer<'static>,
    }

    /// Makes an authority.
    pub fn authority() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = parameters.self_signed(&key).unwrap().der().clone();
        Authority {
            issuer: Issuer::new(parameters, key),
            der,
        }
    }

    /// Makes the certificate of a client.
    pub fn leaf(
        authority: &Authority,
        change: impl FnOnce(&mut CertificateParams),
    ) -> PeerCertificates {
        let mut parameters = CertificateParams::default();
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "ada");
        name.push(DnType::OrganizationName, "crew");
        parameters.distinguished_name = name;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &authority.issuer).unwrap();
        PeerCertificates::new(&[signed.der().clone()]).unwrap()
    }

    /// The certificates of authorities.
    pub fn roots(authorities: &[&Authority]) -> Vec<CertificateDer<'static>> {
        authorities.iter().map(|one| one.der.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{DistinguishedName, DnType, ExtendedKeyUsagePurpose};

    use super::super::access::WatchAccess;
    use super::testing::{authority, leaf, roots};
    use super::*;

    fn asked(
        certificates: &ClientCertificates,
        peer: &PeerCertificates,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        certificates.authenticate(&Credentials {
            certificates: Some(peer),
            ..Credentials::default()
        })
    }

    #[test]
    fn the_common_name_is_the_user_and_the_organizations_are_the_groups_api_277_ac_9() {
        let authority = authority();
        let certificates = ClientCertificates::new(Revocations::default());
        certificates.believe(&roots(&[&authority]));
        let ada = asked(&certificates, &leaf(&authority, |_| ()))
            .unwrap()
            .unwrap();
        assert_eq!(ada.user.name, "ada");
        assert_eq!(ada.user.groups, ["crew", "system:authenticated"]);
        let shown = &ada.user.extra[CREDENTIAL_ID][0];
        assert_eq!(shown.len(), "X509SHA256=".len() + 64, "{shown}");
        let nameless = leaf(&authority, |parameters| {
            parameters.distinguished_name = DistinguishedName::new();
        });
        assert!(asked(&certificates, &nameless).unwrap().is_none());
        let uid = leaf(&authority, |parameters| {
            parameters
                .distinguished_name
                .push(DnType::CustomDnType(UID.to_vec()), "17");
        });
        assert_eq!(asked(&certificates, &uid).unwrap().unwrap().user.uid, "17");
        let twice = leaf(&authority, |parameters| {
            let name = &mut parameters.distinguished_name;
            name.push(DnType::CustomDnType(UID.to_vec()), "17");
            name.push(DnType::CustomDnType([UID, &[1]].concat()), "18");
        });
        assert_eq!(
            asked(&certificates, &twice).unwrap().unwrap().user.uid,
            "17",
            "another attribute is not the uid"
        );
        let empty = leaf(&authority, |parameters| {
            let uid = DnType::CustomDnType(UID.to_vec());
            parameters.distinguished_name.push(uid, "");
        });
        assert_eq!(
            asked(&certificates, &empty).err(),
            Some(Refused::Uid.into()),
            "as kube-apiserver"
        );
    }

    #[test]
    fn a_certificate_of_another_authority_purpose_or_time_is_refused_api_279() {
        let (authority, other) = (authority(), authority());
        let certificates = ClientCertificates::new(Revocations::default());
        let good = leaf(&authority, |_| ());
        assert_eq!(
            asked(&certificates, &good).err(),
            Some(Refused::UnknownAuthority.into())
        );
        certificates.believe(&roots(&[&authority]));
        assert!(asked(&certificates, &good).is_ok());
        let refused = |peer: &PeerCertificates| asked(&certificates, peer).err();
        let foreign = leaf(&other, |_| ());
        assert_eq!(refused(&foreign), Some(Refused::UnknownAuthority.into()));
        let of_server = leaf(&authority, |parameters| {
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        assert_eq!(refused(&of_server), Some(Refused::NotOfClient.into()));
        let past = leaf(&authority, |parameters| {
            parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        });
        assert_eq!(refused(&past), Some(Refused::NotValidNow.into()));
    }

    #[test]
    fn who_was_signed_by_an_authority_that_is_gone_loses_watches_and_requests() {
        let (first, second) = (authority(), authority());
        let certificates = ClientCertificates::new(Revocations::default());
        certificates.believe(&roots(&[&first, &second]));
        let (ada, eve) = (leaf(&first, |_| ()), leaf(&second, |_| ()));
        let open = |peer| WatchAccess::new(asked(&certificates, peer).unwrap().unwrap().access);
        let (ada_s, eve_s) = (open(&ada), open(&eve));
        assert_eq!(certificates.believe(&roots(&[&second])), 1);
        assert!(ada_s.access().is_revoked() && !eve_s.access().is_revoked());
        assert!(asked(&certificates, &ada).is_err());
        assert!(asked(&certificates, &eve).is_ok());
        // After the authority is added again, the certificate grants a new access.
        certificates.believe(&roots(&[&first]));
        assert!(
            !asked(&certificates, &ada)
                .unwrap()
                .unwrap()
                .access
                .is_revoked()
        );
        assert!(ada_s.access().is_revoked());
    }

    #[test]
    fn connections_with_one_certificate_share_their_access_while_one_is_open() {
        let authority = authority();
        let certificates = ClientCertificates::new(Revocations::default());
        certificates.believe(&roots(&[&authority]));
        let one = leaf(&authority, |_| ());
        let other = PeerCertificates::new(one.chain()).unwrap();
        let access = |peer: &PeerCertificates| asked(&certificates, peer).unwrap().unwrap().access;
        assert!(access(&one).is_the_same(&access(&other)));
        drop((one, other));
        for _ in 0..20 {
            access(&leaf(&authority, |_| ()));
        }
        assert!(certificates.known.lock().len() < 5);
    }
}
