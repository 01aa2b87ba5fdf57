//! Client certificates: the common name is the user, the organizations are the groups (API-277).
//!
//! The handshake only proves that the client has the key. Who signed the certificate is asked here,
//! so that a wrong certificate is a 401 and not a broken connection, and so that authorities can
//! change while connections live. A certificate is verified once for each connection and set of
//! authorities.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};
use sha2::{Digest as _, Sha256};
use x509_parser::der_parser::oid::Oid;
use x509_parser::oid_registry;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

use super::access::Revocations;
use super::authenticator::{Authenticated, Authenticator, Credentials, Unauthorized};
use crate::api::user_info::UserInfo;

/// Where a user's uid stands in the subject, by Kubernetes' own object identifier.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The key under which Kubernetes tells which certificate was shown.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What a client has shown in the handshake of its connection: its certificate and those between it
/// and an authority. The handshake has proved that the client has the key.
#[derive(Debug)]
pub struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    identified: Mutex<Option<Identified>>,
}

impl PeerCertificates {
    /// The certificates of a handshake, the client's own first. `None` if there are none.
    pub fn new(chain: &[CertificateDer<'_>]) -> Option<PeerCertificates> {
        (!chain.is_empty()).then(|| PeerCertificates {
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
            identified: Mutex::default(),
        })
    }
}

/// Whom a connection's certificate stands for.
#[derive(Clone, Debug)]
struct Identified {
    /// The authorities that were asked.
    generation: u64,
    user: Result<Option<Arc<KnownCertificate>>, Unauthorized>,
}

/// A certificate that was verified. All connections that show it share it.
#[derive(Debug)]
struct KnownCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// Seconds since 1970 between which every certificate of the chain is valid.
    valid: (i64, i64),
    authenticated: Authenticated,
}

/// The authorities whose certificates are believed.
struct Authorities {
    generation: u64,
    /// `None` if there are none.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// Knows the users of client certificates.
pub struct ClientCertificates {
    authorities: ArcSwap<Authorities>,
    known: Mutex<Known>,
    revocations: Revocations,
    provider: Arc<CryptoProvider>,
}

impl ClientCertificates {
    /// Believes nobody yet.
    pub fn new(revocations: Revocations) -> ClientCertificates {
        ClientCertificates {
            authorities: ArcSwap::from_pointee(Authorities {
                generation: 0,
                verifier: None,
            }),
            known: Mutex::default(),
            revocations,
            provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
        }
    }

    /// Believes these authorities from now on. Returns how many watches end, because they were
    /// opened with a certificate that none of these has signed.
    pub fn believe(&self, roots: Arc<RootCertStore>) -> usize {
        let builder =
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&self.provider));
        // Held, so that nobody becomes known by what is no longer believed.
        let mut known = self.known.lock();
        let authorities = Arc::new(Authorities {
            generation: self.authorities.load().generation + 1,
            // It fails only if there is no authority.
            verifier: builder.build().ok(),
        });
        self.authorities.store(Arc::clone(&authorities));
        let mut watches = 0;
        known.retain(|_, known| {
            let Some(known) = known.upgrade() else {
                return false;
            };
            let is_good = authorities.verify(&known.chain).is_ok();
            if !is_good {
                watches += self.revocations.revoke(&known.authenticated.access);
            }
            is_good
        });
        watches
    }

    fn identify(&self, peer: &PeerCertificates) -> Identified {
        let mut identified = peer.identified.lock();
        if let Some(known) = &*identified
            && known.generation == self.authorities.load().generation
        {
            return known.clone();
        }
        let mut known = self.known.lock();
        let authorities = self.authorities.load_full();
        let found = Identified {
            generation: authorities.generation,
            user: verified(&authorities, &mut known, &peer.chain),
        };
        identified.insert(found).clone()
    }
}

/// The certificates that are known, by the digest of the client's own.
type Known = HashMap<[u8; 32], Weak<KnownCertificate>>;

fn verified(
    authorities: &Authorities,
    known: &mut Known,
    chain: &[CertificateDer<'static>],
) -> Result<Option<Arc<KnownCertificate>>, Unauthorized> {
    authorities.verify(chain)?;
    let Some(own) = chain.first() else {
        return Ok(None);
    };
    let digest = <[u8; 32]>::from(Sha256::digest(own));
    if let Some(known) = known.get(&digest).and_then(Weak::upgrade) {
        return Ok(Some(known));
    }
    let Some(user) = user(own, &digest)? else {
        return Ok(None);
    };
    let certificate = Arc::new(KnownCertificate {
        valid: validity(chain)?,
        chain: chain.to_vec(),
        authenticated: Authenticated {
            user: Arc::new(user),
            ..Authenticated::default()
        },
    });
    if known.len() == known.capacity() {
        // Those of closed connections go before the table grows.
        known.retain(|_, one| one.strong_count() > 0);
    }
    known.insert(digest, Arc::downgrade(&certificate));
    Ok(Some(certificate))
}

impl Authorities {
    fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<(), Unauthorized> {
        let (Some(verifier), Some((own, between))) = (&self.verifier, chain.split_first()) else {
            return Err(Unauthorized::UnknownAuthority);
        };
        let verified = verifier.verify_client_cert(own, between, UnixTime::now());
        verified.map(|_| ()).map_err(|error| match error {
            rustls::Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ) => Unauthorized::CertificateNotValidNow,
            rustls::Error::InvalidCertificate(
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
            ) => Unauthorized::CertificateNotOfClient,
            _ => Unauthorized::UnknownAuthority,
        })
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
        let Some(known) = self.identify(peer).user? else {
            return Ok(None);
        };
        let now = UnixTime::since_unix_epoch(since_1970()).as_secs();
        let (from, until) = known.valid;
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        match (from..=until).contains(&now) {
            true => Ok(Some(known.authenticated.clone())),
            false => Err(Unauthorized::CertificateNotValidNow),
        }
    }
}

fn since_1970() -> Duration {
    let seconds = crate::clock::now().as_second();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn parsed<'d>(der: &'d CertificateDer<'_>) -> Result<X509Certificate<'d>, Unauthorized> {
    let parsed = X509Certificate::from_der(der);
    let (_, certificate) = parsed.map_err(|_| Unauthorized::UnknownAuthority)?;
    Ok(certificate)
}

/// The time in which all certificates of the chain are valid, in seconds since 1970.
fn validity(chain: &[CertificateDer<'static>]) -> Result<(i64, i64), Unauthorized> {
    let mut valid = (i64::MIN, i64::MAX);
    for one in chain {
        let one = parsed(one)?;
        let validity = one.validity();
        valid.0 = valid.0.max(validity.not_before.timestamp());
        valid.1 = valid.1.min(validity.not_after.timestamp());
    }
    Ok(valid)
}

/// The user in the subject of a certificate. `None` without a common name.
fn user(own: &CertificateDer<'_>, digest: &[u8; 32]) -> Result<Option<UserInfo>, Unauthorized> {
    let certificate = parsed(own)?;
    let subject = certificate.subject();
    let name = texts(subject, &oid_registry::OID_X509_COMMON_NAME).pop();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let groups = texts(subject, &oid_registry::OID_X509_ORGANIZATION_NAME);
    let mut user = UserInfo::authenticated(name, groups);
    if let Ok(oid) = Oid::from(UID) {
        user.uid = texts(subject, &oid).pop().unwrap_or_default();
    }
    let mut shown = String::from("X509SHA256=");
    digest
        .iter()
        .for_each(|byte| shown.push_str(&format!("{byte:02x}")));
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![shown]);
    Ok(Some(user))
}

/// The values of an attribute of a name, in their order.
fn texts(name: &X509Name<'_>, oid: &Oid<'_>) -> Vec<String> {
    let values = name.iter_by_oid(oid);
    let texts = values.filter_map(|value| Some(value.as_str().ok()?.to_owned()));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
        IsCa, Issuer, KeyPair,
    };

    use super::super::access::WatchAccess;
    use super::*;

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        der: CertificateDer<'static>,
    }

    fn authority() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = parameters.self_signed(&key).unwrap().der().clone();
        Authority {
            issuer: Issuer::new(parameters, key),
            der,
        }
    }

    fn leaf(
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

    fn roots(authorities: &[&Authority]) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority.der.clone()).unwrap();
        }
        Arc::new(roots)
    }

    fn asked(
        certificates: &ClientCertificates,
        peer: &PeerCertificates,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        certificates.authenticate(&Credentials {
            bearer: None,
            is_bearer_ignored: false,
            certificates: Some(peer),
            audiences: &[],
        })
    }

    #[test]
    fn the_common_name_is_the_user_and_the_organizations_are_the_groups_api_277() {
        let authority = authority();
        let certificates = ClientCertificates::new(Revocations::default());
        certificates.believe(roots(&[&authority]));
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
    }

    #[test]
    fn a_certificate_of_another_authority_purpose_or_time_is_refused_api_279() {
        let (authority, other) = (authority(), authority());
        let certificates = ClientCertificates::new(Revocations::default());
        let good = leaf(&authority, |_| ());
        assert_eq!(
            asked(&certificates, &good).err(),
            Some(Unauthorized::UnknownAuthority)
        );
        certificates.believe(roots(&[&authority]));
        assert!(asked(&certificates, &good).is_ok());
        let refused = |peer: &PeerCertificates| asked(&certificates, peer).err();
        let foreign = leaf(&other, |_| ());
        assert_eq!(refused(&foreign), Some(Unauthorized::UnknownAuthority));
        let of_server = leaf(&authority, |parameters| {
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        assert_eq!(
            refused(&of_server),
            Some(Unauthorized::CertificateNotOfClient)
        );
        let past = leaf(&authority, |parameters| {
            parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        });
        assert_eq!(refused(&past), Some(Unauthorized::CertificateNotValidNow));
    }

    #[test]
    fn who_was_signed_by_an_authority_that_is_gone_loses_watches_and_requests() {
        let (first, second) = (authority(), authority());
        let certificates = ClientCertificates::new(Revocations::default());
        certificates.believe(roots(&[&first, &second]));
        let (ada, eve) = (leaf(&first, |_| ()), leaf(&second, |_| ()));
        let open = |peer| WatchAccess::new(asked(&certificates, peer).unwrap().unwrap().access);
        let (ada_s, eve_s) = (open(&ada), open(&eve));
        assert_eq!(certificates.believe(roots(&[&second])), 1);
        assert!(ada_s.access().is_revoked() && !eve_s.access().is_revoked());
        assert!(asked(&certificates, &ada).is_err());
        assert!(asked(&certificates, &eve).is_ok());
        // It comes back with an access of its own.
        certificates.believe(roots(&[&first]));
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
        certificates.believe(roots(&[&authority]));
        let one = leaf(&authority, |_| ());
        let other = PeerCertificates::new(&one.chain).unwrap();
        let access = |peer: &PeerCertificates| asked(&certificates, peer).unwrap().unwrap().access;
        assert!(access(&one).is_the_same(&access(&other)));
        drop((one, other));
        for _ in 0..20 {
            access(&leaf(&authority, |_| ()));
        }
        assert!(certificates.known.lock().len() < 5);
    }
}
