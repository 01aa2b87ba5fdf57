//! Pure: PEM texts, as Go reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block of a PEM text.
pub struct PemBlock<'p> {
    /// What it is: `CERTIFICATE REQUEST`.
    pub kind: &'p str,
    /// Whether it has headers.
    pub has_headers: bool,
    /// What is in it.
    pub bytes: Vec<u8>,
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The well-formed blocks of a PEM text, as Go finds them. What is between them is skipped.
pub fn pem_blocks(text: &str) -> impl Iterator<Item = PemBlock<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = match rest.strip_prefix(BEGIN) {
                Some(after) => after,
                None => rest.split_once("\n-----BEGIN ")?.1,
            };
            rest = start;
            let Some((block, after)) = pem_block(start) else {
                continue;
            };
            rest = after;
            return Some(block);
        }
    })
}

/// The block whose kind a text begins with, and what follows it.
fn pem_block(text: &str) -> Option<(PemBlock<'_>, &str)> {
    let (first, body) = text.split_once('\n')?;
    let kind = first.trim_end().strip_suffix(DASHES)?;
    let (mut body, after) = match body.strip_prefix(END) {
        Some(after) => ("", after),
        None => body.split_once("\n-----END ")?,
    };
    let after = after.strip_prefix(kind)?.strip_prefix(DASHES)?;
    let mut has_headers = false;
    while let Some((line, rest)) = body.split_once('\n') {
        if !line.contains(':') {
            break;
        }
        has_headers = true;
        body = rest;
    }
    let packed: String = body.split_whitespace().collect();
    let block = PemBlock {
        kind,
        has_headers,
        bytes: STANDARD.decode(packed).ok()?,
    };
    Some((block, after))
}
