//! A document that is written when it is asked for.

use std::io::Read;
use std::sync::OnceLock;

use bytes::{Buf, Bytes};
use flate2::read::GzDecoder;
use futures_util::{Stream, stream};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue, VARY};

use crate::server::body::{PIECE_BYTES, Pieces};
use crate::server::discovery::Tag;
use crate::server::gzip;
use crate::server::respond::{self, Answer};

/// Longer documents are compressed if the client accepts it (API-65).
const GZIP_BYTES: usize = 1400;

/// What is kept of a document.
#[derive(Default)]
pub(super) struct Document {
    /// The tag of its JSON, which its protobuf has, too.
    tag: OnceLock<Tag>,
    json: Packed,
    protobuf: Packed,
}

/// A form of a document, compressed, from the first client on that asks for it: a tenth of it.
#[derive(Default)]
struct Packed(OnceLock<Kept>);

struct Kept {
    packed: Bytes,
    plain_bytes: usize,
}

/// The state of a decompressor.
const INFLATE_BYTES: usize = 48 << 10;

/// A form of a document: its media type, and how it is written.
pub(super) struct Form<W> {
    pub media_type: &'static str,
    pub is_protobuf: bool,
    pub write: W,
}

impl Document {
    /// Its tag. The JSON comes along if it was written for that.
    pub(super) fn tag(&self, write: impl FnOnce() -> Vec<u8>) -> (&Tag, Option<Vec<u8>>) {
        let mut written = None;
        let tag = self.tag.get_or_init(|| {
            let text = write();
            let tag = Tag::of(&text);
            written = Some(text);
            tag
        });
        (tag, written)
    }

    /// A form of the document, or 304 if the client already has it. The JSON may have been written
    /// before.
    pub(super) fn answer(
        &self,
        (tag, json): (&Tag, Option<Vec<u8>>),
        form: Form<impl FnOnce() -> Vec<u8>>,
        headers: &HeaderMap,
    ) -> Answer {
        let packed = match form.is_protobuf {
            true => &self.protobuf,
            false => &self.json,
        };
        let written = json.filter(|_| !form.is_protobuf);
        let mut answer = match tag.is_known(headers) {
            true => tag.not_modified(),
            false => packed.answer(written, form, gzip::is_accepted(headers)),
        };
        let headers = answer.headers_mut();
        headers.insert(ETAG, tag.header.clone());
        headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        answer
    }
}

impl Packed {
    fn answer(
        &self,
        written: Option<Vec<u8>>,
        form: Form<impl FnOnce() -> Vec<u8>>,
        takes_gzip: bool,
    ) -> Answer {
        let kept = match self.0.get() {
            Some(kept) => kept,
            None => {
                let plain = written.unwrap_or_else(form.write);
                if plain.len() <= GZIP_BYTES {
                    return respond::answer(StatusCode::OK, form.media_type, plain.into());
                }
                self.0.get_or_init(|| Kept {
                    packed: gzip::compressed(&plain).into(),
                    plain_bytes: plain.len(),
                })
            }
        };
        if !takes_gzip {
            let plain = Pieces::new(unpacked(kept.packed.clone()), PIECE_BYTES + INFLATE_BYTES);
            return respond::long(form.media_type, kept.plain_bytes, plain);
        }
        let answer = respond::answer(StatusCode::OK, form.media_type, kept.packed.clone());
        respond::with_header(answer, CONTENT_ENCODING, HeaderValue::from_static("gzip"))
    }
}

/// The document in pieces, of its compressed form.
fn unpacked(packed: Bytes) -> impl Stream<Item = Bytes> + 'static {
    stream::unfold(GzDecoder::new(packed.reader()), async |mut decoder| {
        let mut piece = Vec::new();
        // What was compressed here can be read.
        let read = decoder
            .by_ref()
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece);
        (read.is_ok() && !piece.is_empty()).then(|| (Bytes::from(piece), decoder))
    })
}
