//! The parts of a certificate that matter for clients and servers. Pure.

use std::collections::HashSet;

use rustls::pki_types::SignatureVerificationAlgorithm;
use x509_parser::asn1_rs::FromDer;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::{
    OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER, OID_X509_EXT_CERTIFICATE_POLICIES,
    OID_X509_EXT_CRL_DISTRIBUTION_POINTS, OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
};
use x509_parser::prelude::{X509Certificate, X509Extension, X509Version};

use super::Refused;
use super::names::{Constraints, Name};
use super::parts::{Parts, PublicKey};
use super::proof;

/// A parsed certificate.
#[derive(Debug)]
pub struct Certificate {
    pub(super) der: Vec<u8>,
    pub(super) subject: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    pub(super) key: PublicKey,
    /// The validity in seconds since 1970, including both ends.
    pub(super) valid: (i64, i64),
    /// Whether it may sign others, according to its basic constraints, if it has any.
    pub(super) is_authority: Option<bool>,
    pub(super) is_version3: bool,
    /// The most certificates between it and the client's certificate.
    pub(super) path_length: Option<usize>,
    /// Whether its key usage permits signing certificates.
    pub(super) may_sign: bool,
    /// Whether its extended key usage permits client authentication.
    pub(super) is_for_clients: bool,
    /// Whether its extended key usage permits server authentication.
    pub(super) is_for_servers: bool,
    /// The common name of its subject, which only the text of a refusal mentions.
    pub(super) common_name: String,
    pub(super) has_unknown_critical: bool,
    pub(super) names: Vec<Name>,
    pub(super) constraints: Constraints,
    signed: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
}

impl Certificate {
    /// The last second in which it is valid, since 1970.
    pub fn valid_until(&self) -> i64 {
        self.valid.1
    }

    /// Reads a certificate.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn read(der: &[u8]) -> Result<Certificate, Refused> {
        let parts = Parts::of(der).ok_or(Refused::Unreadable)?;
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| Refused::Unreadable)?;
        let is_version3 = parsed.version() == X509Version::V3;
        // Certificates of versions 1 and 2 must have no extensions.
        if !rest.is_empty() || !is_version3 && !parsed.extensions().is_empty() {
            return Err(Refused::Unreadable);
        }
        let validity = parsed.validity();
        let mut certificate = Certificate {
            der: der.to_vec(),
            subject: parsed.subject().as_raw().to_vec(),
            issuer: parsed.issuer().as_raw().to_vec(),
            key: PublicKey::of(parts.key).ok_or(Refused::Unreadable)?,
            valid: (
                validity.not_before.timestamp(),
                validity.not_after.timestamp(),
            ),
            is_authority: None,
            is_version3,
            path_length: None,
            may_sign: true,
            is_for_clients: true,
            is_for_servers: true,
            common_name: {
                let mut names = parsed.subject().iter_common_name();
                let name = names.next().and_then(|name| name.as_str().ok());
                name.unwrap_or_default().to_owned()
            },
            has_unknown_critical: false,
            names: Vec::new(),
            constraints: Constraints::default(),
            signed: parts.signed.to_vec(),
            algorithm: parts.algorithm.to_vec(),
            signature: parts.signature.to_vec(),
        };
        let mut seen = HashSet::new();
        for extension in parsed.extensions() {
            if !seen.insert(&extension.oid) || !certificate.remember(extension)? {
                return Err(Refused::Unreadable);
            }
        }
        Ok(certificate)
    }

    /// Records an extension. Returns whether it could be parsed.
    fn remember(&mut self, extension: &X509Extension<'_>) -> Result<bool, Refused> {
        let mut is_known = true;
        match extension.parsed_extension() {
            ParsedExtension::ParseError { .. } => return Ok(false),
            ParsedExtension::BasicConstraints(basic) => {
                self.is_authority = Some(basic.ca);
                let most = basic.path_len_constraint.filter(|_| basic.ca);
                self.path_length = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
            }
            ParsedExtension::KeyUsage(usage) => {
                self.may_sign = usage.flags == 0 || usage.key_cert_sign();
            }
            ParsedExtension::ExtendedKeyUsage(usage) => {
                let others = [
                    usage.code_signing,
                    usage.email_protection,
                    usage.time_stamping,
                    usage.ocsp_signing,
                    !usage.other.is_empty(),
                ];
                let is_empty = !others.contains(&true);
                let (client, server) = (usage.client_auth, usage.server_auth);
                self.is_for_clients = usage.any || client || is_empty && !server;
                self.is_for_servers = usage.any || server || is_empty && !client;
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                let names = names.general_names.iter().map(Name::read);
                self.names = names.collect::<Result<_, _>>()?;
                is_known = self.names.iter().any(|name| *name != Name::Other);
            }
            ParsedExtension::NameConstraints(constraints) => {
                self.constraints = Constraints::read(constraints)?;
                is_known = self.constraints.are_known();
            }
            _ => {
                is_known = [
                    OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER,
                    OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
                    OID_X509_EXT_CERTIFICATE_POLICIES,
                    OID_X509_EXT_CRL_DISTRIBUTION_POINTS,
                ]
                .contains(&extension.oid);
            }
        }
        self.has_unknown_critical |= extension.critical && !is_known;
        Ok(true)
    }

    /// Whether the holder of this key has signed the certificate.
    ///
    /// # Errors
    /// The kind of signature or key is not accepted.
    pub(super) fn is_signed_by(
        &self,
        key: &PublicKey,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<bool, Refused> {
        let mut fitting = algorithms.iter().filter(|one| {
            *one.signature_alg_id() == *self.algorithm && *one.public_key_alg_id() == *key.algorithm
        });
        let is_accepted = fitting.clone().next().is_some() && proof::is_provable(key);
        let is_signed = fitting.any(|one| {
            let verified = one.verify_signature(&key.key, &self.signed, &self.signature);
            verified.is_ok()
        });
        is_accepted.then_some(is_signed).ok_or(Refused::Signature)
    }
}
