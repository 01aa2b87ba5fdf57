//! Compression of a document while it is written, so that its text is never in memory as a whole.

use std::io::Read;

use bytes::{Buf, Bytes};
use flate2::read::GzDecoder;
use futures_util::{Stream, stream};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderValue};
use sha2::{Digest, Sha512};

use crate::server::discovery::Tag;
use crate::server::gzip::Gzip;
use crate::server::respond::{self, Answer};
use crate::transport::{PIECE_BYTES, Pieces};

/// Longer documents are compressed if the client accepts gzip. kube-apiserver has this lower
/// threshold for OpenAPI only (API-65).
const GZIP_BYTES: usize = 1400;

/// The text that is compressed at a time.
const WRITTEN_BYTES: usize = 64 << 10;

/// The approximate size of a decompressor's state.
const INFLATE_BYTES: usize = 48 << 10;

/// Takes the text of a document.
pub(super) struct Packer {
    text: Vec<u8>,
    plain_bytes: usize,
    hash: Sha512,
    gzip: Gzip,
    packed: Vec<u8>,
}

/// A compressed document. Compression saves nine tenths of the memory.
pub(super) struct Packed {
    packed: Bytes,
    plain_bytes: usize,
}

impl Packer {
    /// Returns the compressed form of what `write` writes, and its tag.
    pub(super) fn pack(write: impl FnOnce(&mut Packer)) -> (Tag, Packed) {
        let mut packer = Packer {
            text: Vec::new(),
            plain_bytes: 0,
            hash: Sha512::new(),
            gzip: Gzip::default(),
            packed: Vec::new(),
        };
        write(&mut packer);
        packer.take();
        packer.packed.extend(packer.gzip.finish());
        // A compressor asks for room ahead, and the document stays.
        packer.packed.shrink_to_fit();
        let packed = Packed {
            packed: packer.packed.into(),
            plain_bytes: packer.plain_bytes,
        };
        (Tag::of_digest(&packer.hash.finalize()), packed)
    }

    /// Returns the end of the text, to which more can be added.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        if self.text.len() > WRITTEN_BYTES {
            self.take();
        }
        &mut self.text
    }

    fn take(&mut self) {
        self.hash.update(&self.text);
        self.packed.extend(self.gzip.push(&self.text));
        self.plain_bytes += self.text.len();
        self.text.clear();
    }
}

impl Packed {
    /// Returns the document, compressed if the client takes that and it is long enough.
    pub(super) fn answer(&self, media_type: &'static str, takes_gzip: bool) -> Answer {
        let packed = self.packed.clone();
        if takes_gzip && self.plain_bytes > GZIP_BYTES {
            let answer = respond::answer(StatusCode::OK, media_type, packed);
            return respond::with_header(
                answer,
                CONTENT_ENCODING,
                HeaderValue::from_static("gzip"),
            );
        }
        let plain = Pieces::new(unpacked(packed), PIECE_BYTES + INFLATE_BYTES);
        respond::long(media_type, self.plain_bytes, plain)
    }
}

/// Decompresses a document in pieces.
fn unpacked(packed: Bytes) -> impl Stream<Item = Bytes> + 'static {
    stream::unfold(GzDecoder::new(packed.reader()), async |mut decoder| {
        let mut piece = Vec::new();
        // The data was compressed here, so reading it does not fail.
        let read = decoder
            .by_ref()
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece);
        (read.is_ok() && !piece.is_empty()).then(|| (Bytes::from(piece), decoder))
    })
}
