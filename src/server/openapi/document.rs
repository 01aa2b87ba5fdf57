//! A document that is written on its first request.

use std::io::Read;
use std::sync::OnceLock;

use bytes::{Buf, Bytes};
use flate2::read::GzDecoder;
use futures_util::{Stream, stream};
use http::StatusCode;
use http::header::{
    CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, VARY,
};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use metrics::counter;

use crate::clock;
use crate::server::discovery::{Tag, WRITTEN};
use crate::server::gzip;
use crate::server::respond::{self, Answer};
use crate::transport::{PIECE_BYTES, Pieces};

/// Longer documents are compressed if the client accepts gzip. kube-apiserver has this lower
/// threshold for OpenAPI only (API-65).
const GZIP_BYTES: usize = 1400;

/// The cached facts about a document.
pub(super) struct Document {
    /// When the document got its current content.
    made: Timestamp,
    /// The tag of the JSON form, which the protobuf form shares (API-41).
    tag: OnceLock<Tag>,
    json: Packed,
    protobuf: Packed,
}

/// One form of a document, compressed, from its first request on. Compression saves nine tenths of
/// the memory.
#[derive(Default)]
struct Packed(OnceLock<Kept>);

struct Kept {
    packed: Bytes,
    plain_bytes: usize,
}

/// The approximate size of a decompressor's state.
const INFLATE_BYTES: usize = 48 << 10;

/// A form of a document: its media type, and the function that writes it.
pub(super) struct Form<W> {
    pub media_type: &'static str,
    pub is_protobuf: bool,
    pub write: W,
}

impl Default for Document {
    fn default() -> Document {
        Document {
            made: clock::now(),
            tag: OnceLock::new(),
            json: Packed::default(),
            protobuf: Packed::default(),
        }
    }
}

impl Document {
    /// Returns the tag of the document, and the JSON if it was written for the tag.
    pub(super) fn tag(&self, write: impl FnOnce() -> Vec<u8>) -> (&Tag, Option<Vec<u8>>) {
        let mut written = None;
        let tag = self.tag.get_or_init(|| {
            counter!(WRITTEN, "document" => "openapi").increment(1);
            let text = write();
            let tag = Tag::of(&text);
            written = Some(text);
            tag
        });
        (tag, written)
    }

    /// Returns a form of the document, or 304 if the client already has it. `json` may hold the
    /// text that was written for the tag.
    pub(super) fn answer(
        &self,
        tag: &Tag,
        json: Option<Vec<u8>>,
        form: Form<impl FnOnce() -> Vec<u8>>,
        headers: &HeaderMap,
    ) -> Answer {
        let made = self.made;
        let packed = match form.is_protobuf {
            true => &self.protobuf,
            false => &self.json,
        };
        let written = json.filter(|_| !form.is_protobuf);
        let mut answer = match is_known(headers, tag, made) {
            true => tag.not_modified(),
            false => dated(
                packed.answer(written, form, gzip::is_accepted(headers)),
                made,
            ),
        };
        let headers = answer.headers_mut();
        headers.insert(ETAG, tag.header.clone());
        headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        answer
    }
}

/// Whether the client has the document with this tag, or, if it names no tag, of this time.
pub(super) fn is_known(headers: &HeaderMap, tag: &Tag, made: Timestamp) -> bool {
    if headers.contains_key(IF_NONE_MATCH) {
        return tag.is_known(headers);
    }
    let since = headers.get(IF_MODIFIED_SINCE);
    let since = since.and_then(|since| rfc2822::parse(since.to_str().ok()?).ok());
    since.is_some_and(|since| made.as_second() <= since.timestamp().as_second())
}

/// Adds the `Last-Modified` header.
pub(super) fn dated(answer: Answer, made: Timestamp) -> Answer {
    respond::with_header(answer, LAST_MODIFIED, http_date(made))
}

/// Formats a time for an HTTP header.
pub(super) fn http_date(time: Timestamp) -> HeaderValue {
    let text = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
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
