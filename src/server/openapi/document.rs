//! A document that is written when it is asked for.

use std::io::Read;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue, VARY};

use crate::server::discovery::Tag;
use crate::server::gzip;
use crate::server::respond::{self, Answer};

/// Longer documents are compressed if the client accepts it (API-65).
const GZIP_BYTES: usize = 1400;

/// What is kept of a document.
#[derive(Default)]
pub(super) struct Document {
    known: OnceLock<Known>,
    /// Compressed, from the first client on that takes it so: a tenth of the document.
    packed: OnceLock<Bytes>,
}

struct Known {
    tag: Tag,
    length: usize,
}

impl Document {
    /// Its tag. The document comes along if it was written for that.
    pub(super) fn tag(&self, write: impl FnOnce() -> Vec<u8>) -> (&Tag, Option<Vec<u8>>) {
        let mut written = None;
        let known = self.known.get_or_init(|| {
            let text = write();
            let known = Known {
                tag: Tag::of(&text),
                length: text.len(),
            };
            written = Some(text);
            known
        });
        (&known.tag, written)
    }

    /// The document, or 304 if the client already has it.
    pub(super) fn answer(
        &self,
        (tag, written): (&Tag, Option<Vec<u8>>),
        write: impl FnOnce() -> Vec<u8>,
        media_type: &'static str,
        headers: &HeaderMap,
    ) -> Answer {
        let is_long = self
            .known
            .get()
            .is_some_and(|known| known.length > GZIP_BYTES);
        let mut answer = if tag.is_known(headers) {
            tag.not_modified()
        } else if is_long && gzip::is_accepted(headers) {
            let pack = || gzip::compressed(&written.unwrap_or_else(write)).into();
            let packed = self.packed.get_or_init(pack).clone();
            let answer = respond::answer(StatusCode::OK, media_type, packed);
            respond::with_header(answer, CONTENT_ENCODING, HeaderValue::from_static("gzip"))
        } else {
            let plain = written.or_else(|| self.unpacked()).unwrap_or_else(write);
            respond::answer(StatusCode::OK, media_type, plain.into())
        };
        let headers = answer.headers_mut();
        headers.insert(ETAG, tag.header.clone());
        headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        answer
    }

    /// The document, if it is there in its compressed form.
    fn unpacked(&self) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        let mut decoder = GzDecoder::new(&**self.packed.get()?);
        decoder.read_to_end(&mut plain).ok()?;
        Some(plain)
    }
}
