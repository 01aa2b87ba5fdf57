//! The keys that sign and verify tokens, read from PEM.

use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm, KeyPair,
    ParsedPublicKey, RsaKeyPair, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey as Numbers;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::files::given::{self, PEM_BYTES_MAX};

/// A file of keys that is unusable. The error never shows a key.
#[derive(Debug, thiserror::Error)]
#[error("--{setting}={}: {problem}", .path.display())]
pub struct KeyFileError {
    /// The setting that names the file.
    pub setting: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The problem with it.
    pub problem: String,
}

/// A signature algorithm. It is chosen by the key, never by the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA by PKCS #1 v1.5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
}

/// The ECDSA algorithms.
const CURVES: [Algorithm; 3] = [Algorithm::Es256, Algorithm::Es384, Algorithm::Es512];

impl Algorithm {
    /// Returns the name in a token's header.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
        }
    }

    fn curve(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "",
            Algorithm::Es256 => "P-256",
            Algorithm::Es384 => "P-384",
            Algorithm::Es512 => "P-521",
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        let on_curve: &'static EcdsaVerificationAlgorithm = match self {
            Algorithm::Rs256 => return &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Algorithm::Es512 => &signature::ECDSA_P521_SHA512_FIXED,
        };
        on_curve
    }

    fn signing(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Algorithm::Rs256 => None,
            Algorithm::Es256 => Some(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::Es384 => Some(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::Es512 => Some(&signature::ECDSA_P521_SHA512_FIXED_SIGNING),
        }
    }
}

/// A key that verifies tokens.
#[derive(Debug)]
pub struct PublicKey {
    /// The key id in tokens: a digest of the key.
    pub id: String,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// The key as a JWK.
    pub jwk: Value,
    parsed: ParsedPublicKey,
}

impl PublicKey {
    /// Reads a key from an X.509 SubjectPublicKeyInfo.
    fn of(info: &[u8]) -> Result<PublicKey, String> {
        let unusable = || "it has a key that is neither RSA nor ECDSA on P-256, P-384 or P-521";
        let (_, parsed) = SubjectPublicKeyInfo::from_der(info).map_err(|_| unusable())?;
        let numbers = parsed.parsed().map_err(|_| unusable())?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(info));
        let (algorithm, jwk) = match numbers {
            Numbers::RSA(key) => {
                let [n, e] = [key.modulus, key.exponent].map(without_zeros);
                if n.len() < 256 {
                    return Err("it has an RSA key of less than 2048 bits".to_owned());
                }
                let jwk = json!({
                    "use": "sig", "kty": "RSA", "kid": id, "alg": "RS256",
                    "n": URL_SAFE_NO_PAD.encode(n), "e": URL_SAFE_NO_PAD.encode(e),
                });
                (Algorithm::Rs256, jwk)
            }
            Numbers::EC(point) => {
                let point = point.data();
                let algorithm = match point.len() {
                    65 => Algorithm::Es256,
                    97 => Algorithm::Es384,
                    133 => Algorithm::Es512,
                    _ => return Err(unusable().to_owned()),
                };
                let coordinates = point.get(1..).unwrap_or_default();
                let (x, y) = coordinates.split_at(coordinates.len() / 2);
                let jwk = json!({
                    "use": "sig", "kty": "EC", "kid": id, "crv": algorithm.curve(),
                    "alg": algorithm.name(),
                    "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
                });
                (algorithm, jwk)
            }
            _ => return Err(unusable().to_owned()),
        };
        let parsed = ParsedPublicKey::new(algorithm.verification(), info);
        let parsed = parsed.map_err(|_| unusable())?;
        Ok(PublicKey {
            id,
            algorithm,
            jwk,
            parsed,
        })
    }

    /// Whether the key has signed these bytes.
    pub fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(signed, signature).is_ok()
    }
}

/// Returns a number without the zeros that DER puts before it.
fn without_zeros(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0);
    number.get(start.unwrap_or(0)..).unwrap_or_default()
}

enum Secret {
    Rsa(RsaKeyPair),
    Curve(Algorithm, EcdsaKeyPair),
}

/// A key that signs tokens. It has no `Debug`, so that it cannot appear in a log.
pub struct SigningKey {
    secret: Secret,
    /// The key id in tokens.
    pub id: String,
}

impl SigningKey {
    /// Reads a key from PEM.
    ///
    /// # Errors
    /// A description of the problem, without any of the text.
    pub fn of_pem(pem: &[u8]) -> Result<SigningKey, String> {
        for section in sections(pem)? {
            let (kind, der) = section;
            if let Some(secret) = secret_of(kind, &der) {
                let id = PublicKey::of(&public_part(&secret)?)?.id;
                return Ok(SigningKey { secret, id });
            }
        }
        Err("it holds no private RSA key, and none for ECDSA on P-256, P-384 or P-521".to_owned())
    }

    /// Reads a key from a file, and warns if others can read it, unless this only checks the file.
    ///
    /// # Errors
    /// The file cannot be read, others can write it, or it holds no private key.
    pub fn read(
        setting: &'static str,
        path: &Path,
        checks_only: bool,
    ) -> Result<SigningKey, KeyFileError> {
        let file = read(setting, path)?;
        if let Some(remedy) = file.close_to_readers().filter(|_| !checks_only) {
            let path = path.display();
            tracing::warn!(%path, "others than its owner can read the signing key; {remedy}");
        }
        SigningKey::of_pem(&file.bytes).map_err(|problem| refusal(setting, path, problem))
    }

    /// Generates a new key on P-256 and returns it as PEM.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generated() -> Result<zeroize::Zeroizing<String>, String> {
        let key = rcgen::KeyPair::generate().map_err(|error| error.to_string())?;
        Ok(zeroize::Zeroizing::new(key.serialize_pem()))
    }

    /// Returns the algorithm of the key.
    pub fn algorithm(&self) -> Algorithm {
        match &self.secret {
            Secret::Rsa(_) => Algorithm::Rs256,
            Secret::Curve(algorithm, _) => *algorithm,
        }
    }

    /// Returns the key that verifies the signatures of this one.
    ///
    /// # Errors
    /// The library cannot encode the key.
    pub fn public(&self) -> Result<PublicKey, String> {
        PublicKey::of(&public_part(&self.secret)?)
    }

    /// Signs bytes. Returns `None` if the library fails.
    pub fn sign(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.secret {
            Secret::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding = &signature::RSA_PKCS1_SHA256;
                pair.sign(padding, &random, bytes, &mut signature).ok()?;
                Some(signature)
            }
            Secret::Curve(_, pair) => {
                let signature = pair.sign(&random, bytes).ok()?;
                Some(signature.as_ref().to_vec())
            }
        }
    }
}

/// Reads the keys in a file: public keys, those of certificates, and the public parts of private
/// keys.
///
/// # Errors
/// The file cannot be read, others can write it, or it holds no key.
pub fn read_public(setting: &'static str, path: &Path) -> Result<Vec<PublicKey>, KeyFileError> {
    let file = read(setting, path)?;
    public_keys(&file.bytes).map_err(|problem| refusal(setting, path, problem))
}

/// Reads the keys in PEM.
fn public_keys(pem: &[u8]) -> Result<Vec<PublicKey>, String> {
    let mut keys = Vec::new();
    for (kind, der) in sections(pem)? {
        let info = match kind {
            SectionKind::PublicKey => der.to_vec(),
            SectionKind::Certificate => {
                let certificate = X509Certificate::from_der(&der);
                let (_, certificate) = certificate.map_err(|_| "it has a damaged certificate")?;
                certificate.public_key().raw.to_vec()
            }
            kind => match secret_of(kind, &der) {
                Some(secret) => public_part(&secret)?,
                None => continue,
            },
        };
        keys.push(PublicKey::of(&info)?);
    }
    match keys.is_empty() {
        true => Err("data does not contain any valid RSA or ECDSA public keys".to_owned()),
        false => Ok(keys),
    }
}

type Section = (SectionKind, zeroize::Zeroizing<Vec<u8>>);

fn sections(pem: &[u8]) -> Result<Vec<Section>, String> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem);
    let sections = sections.map(|section| {
        let (kind, der) = section.map_err(|_| "it is not valid PEM".to_owned())?;
        Ok((kind, zeroize::Zeroizing::new(der)))
    });
    sections.collect()
}

fn secret_of(kind: SectionKind, der: &[u8]) -> Option<Secret> {
    let on_curve = || {
        CURVES.into_iter().find_map(|algorithm| {
            let pair = EcdsaKeyPair::from_private_key_der(algorithm.signing()?, der).ok()?;
            Some(Secret::Curve(algorithm, pair))
        })
    };
    match kind {
        SectionKind::RsaPrivateKey => RsaKeyPair::from_der(der).ok().map(Secret::Rsa),
        SectionKind::EcPrivateKey => on_curve(),
        SectionKind::PrivateKey => match RsaKeyPair::from_pkcs8(der) {
            Ok(pair) => Some(Secret::Rsa(pair)),
            Err(_) => on_curve(),
        },
        _ => None,
    }
}

/// Returns the public part of a key, as an X.509 SubjectPublicKeyInfo.
fn public_part(secret: &Secret) -> Result<Vec<u8>, String> {
    let der = |public: Result<PublicKeyX509Der<'_>, _>| {
        let public = public.map_err(|_: aws_lc_rs::error::Unspecified| "cannot encode the key")?;
        Ok(public.as_ref().to_vec())
    };
    match secret {
        Secret::Rsa(pair) => der(pair.public_key().as_der()),
        Secret::Curve(_, pair) => der(pair.public_key().as_der()),
    }
}

fn read(setting: &'static str, path: &Path) -> Result<given::Given, KeyFileError> {
    let unusable = |error: std::io::Error| refusal(setting, path, error.to_string());
    let file = given::read(path, PEM_BYTES_MAX).map_err(unusable)?;
    // A user who can write the file can become any service account.
    file.check_writers().map_err(unusable)?;
    Ok(file)
}

fn refusal(setting: &'static str, path: &Path, problem: String) -> KeyFileError {
    KeyFileError {
        setting,
        path: path.to_owned(),
        problem,
    }
}
