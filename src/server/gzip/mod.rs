//! Compression of responses (API-65): gzip, level 1, only for long bodies.
//!
//! This folder owns the gzip format. It takes the bytes of a body and returns compressed bytes. It
//! must not know what the bytes mean or how they are sent.

pub mod segments;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Responses up to this length are not compressed, as in kube-apiserver (API-65).
pub const THRESHOLD_BYTES: usize = 128 * 1024;

/// The fastest level, as in kube-apiserver. Within one network, a higher level costs more time than
/// the saved bytes are worth.
const LEVEL: u32 = 1;

/// Whether the client accepts gzip. The token must match exactly, as in Go's servers: `gzip;q=1`
/// does not.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|token| token.trim() == "gzip")
}

/// A body that is compressed piece by piece.
pub struct Gzip(GzEncoder<Vec<u8>>);

impl Default for Gzip {
    fn default() -> Gzip {
        Gzip(GzEncoder::new(Vec::new(), Compression::new(LEVEL)))
    }
}

impl Gzip {
    /// The approximate size of the compressor's state in bytes.
    pub const SIZE: usize = 256 << 10;

    /// Compresses a piece of the body. Returns the output available so far, which may be empty.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        // Writing into memory cannot fail.
        let _ = self.0.write_all(piece);
        std::mem::take(self.0.get_mut())
    }

    /// Returns the end of the body.
    pub fn finish(self) -> Vec<u8> {
        self.0.finish().unwrap_or_default()
    }
}

/// Compresses a whole body at once.
pub fn compressed(body: &[u8]) -> Vec<u8> {
    let mut gzip = Gzip::default();
    let mut out = gzip.push(body);
    out.extend(gzip.finish());
    out
}

#[cfg(test)]
pub(in crate::server) mod tests {
    use std::io::Read;

    use super::*;

    pub(in crate::server) fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(bytes)
            .read_to_end(&mut out)
            .unwrap();
        out
    }

    #[test]
    fn only_the_exact_token_counts_api_65() {
        for (text, expected) in [
            ("gzip", true),
            ("deflate, gzip", true),
            ("gzip;q=0.5", false),
            ("x-gzip", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(is_accepted(&headers), expected, "{text}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    #[test]
    fn a_body_in_pieces_is_the_same_as_a_body_at_once() {
        let body: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        let mut gzip = Gzip::default();
        let mut pieces = Vec::new();
        for piece in body.chunks(64 * 1024) {
            pieces.extend(gzip.push(piece));
        }
        pieces.extend(gzip.finish());
        assert_eq!(unpacked(&pieces), body);
        assert_eq!(unpacked(&compressed(&body)), body);
    }
}
