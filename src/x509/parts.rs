//! The parts of a certificate as DER: its key, and what its signature covers. Pure.

use x509_parser::asn1_rs::{Any, FromDer};

/// A key in the encoding of certificates.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    /// The algorithm and its parameters, without the tag of their sequence.
    pub(super) algorithm: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl PublicKey {
    /// Reads the SubjectPublicKeyInfo.
    pub(super) fn of(info: &[u8]) -> Option<PublicKey> {
        let (_, mut content) = next(&mut &*info, SEQUENCE)?;
        let (_, algorithm) = next(&mut content, SEQUENCE)?;
        let key = bits(&mut content)?;
        content.is_empty().then(|| PublicKey {
            algorithm: algorithm.to_vec(),
            key: key.to_vec(),
        })
    }

    /// Returns the modulus of an RSA key.
    pub(super) fn modulus(&self) -> Option<&[u8]> {
        let (_, mut numbers) = next(&mut &*self.key, SEQUENCE)?;
        let (_, modulus) = next(&mut numbers, INTEGER)?;
        let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
        modulus.get(zeros..)
    }
}

/// The parts of a certificate, with any content (RFC 5280, 4.1).
pub(super) struct Parts<'d> {
    pub(super) signed: &'d [u8],
    pub(super) algorithm: &'d [u8],
    pub(super) signature: &'d [u8],
    /// The SubjectPublicKeyInfo.
    pub(super) key: &'d [u8],
}

impl<'d> Parts<'d> {
    pub(super) fn of(der: &'d [u8]) -> Option<Parts<'d>> {
        let mut rest = der;
        let (_, mut content) = next(&mut rest, SEQUENCE)?;
        let (signed, mut fields) = next(&mut content, SEQUENCE)?;
        let (_, algorithm) = next(&mut content, SEQUENCE)?;
        let signature = bits(&mut content)?;
        if !rest.is_empty() || !content.is_empty() {
            return None;
        }
        // A certificate of version 1 omits the version.
        let mut versioned = fields;
        if next(&mut versioned, VERSION).is_some() {
            fields = versioned;
        }
        next(&mut fields, INTEGER)?;
        let (_, repeated) = next(&mut fields, SEQUENCE)?;
        for _issuer_validity_subject in 0..3 {
            next(&mut fields, SEQUENCE)?;
        }
        let (key, _) = next(&mut fields, SEQUENCE)?;
        (repeated == algorithm).then_some(Parts {
            signed,
            algorithm,
            signature,
            key,
        })
    }
}

/// The DER tags with which elements of a certificate begin.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const VERSION: u8 = 0xa0;

/// Reads the next element if it has the tag `begin`. Returns all of its bytes, and its content.
fn next<'d>(input: &mut &'d [u8], begin: u8) -> Option<(&'d [u8], &'d [u8])> {
    let (rest, element) = Any::from_der(input).ok()?;
    let (whole, _) = input.split_at_checked(input.len() - rest.len())?;
    *input = rest;
    (whole.first() == Some(&begin)).then_some((whole, element.data))
}

/// Returns the content of a bit string without unused bits.
fn bits<'d>(input: &mut &'d [u8]) -> Option<&'d [u8]> {
    let (_, content) = next(input, BIT_STRING)?;
    content.strip_prefix(&[0])
}
