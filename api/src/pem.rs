//! Pure: parsing of PEM texts, as in Go's `encoding/pem`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block of a PEM text.
pub struct PemBlock<'p> {
    /// The type in the first line: `CERTIFICATE REQUEST`.
    pub kind: &'p str,
    /// Whether it has headers.
    pub has_headers: bool,
    /// The decoded content.
    pub bytes: Vec<u8>,
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Returns the well-formed blocks of a PEM text, as Go finds them. Skips everything between them.
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

/// Parses the block whose type a text begins with. Returns it with the text that follows.
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
