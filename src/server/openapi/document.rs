//! A document that is written on its first request.

use std::sync::OnceLock;

use http::header::{
    ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, VARY,
};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use metrics::counter;

use super::JSON;
use super::packing::{Packed, Packer};
use crate::clock;
use crate::server::discovery::{Tag, WRITTEN};
use crate::server::gzip;
use crate::server::respond::{self, Answer};

/// A document, from its first request on.
pub(super) struct Document {
    /// When the document got its current content.
    made: Timestamp,
    /// The JSON form, and the tag that the protobuf form shares (API-41).
    json: OnceLock<(Tag, Packed)>,
    protobuf: OnceLock<Packed>,
}

impl Default for Document {
    fn default() -> Document {
        Document {
            made: clock::now(),
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
        }
    }
}

impl Document {
    /// Returns whether nothing has to be written for an answer in this form.
    pub(super) fn is_written(&self, is_protobuf: bool) -> bool {
        self.json.get().is_some() && (!is_protobuf || self.protobuf.get().is_some())
    }

    /// Returns the tag of the document. The first call writes it.
    pub(super) fn tag(&self, write: impl FnOnce(&mut Packer)) -> &Tag {
        let (tag, _) = self.json.get_or_init(|| {
            counter!(WRITTEN, "document" => "openapi").increment(1);
            Packer::pack(write)
        });
        tag
    }

    /// Returns the document, or 304 if the client already has it. `protobuf` writes its protobuf
    /// form, if the client wants that.
    pub(super) fn answer(
        &self,
        json: impl FnOnce(&mut Packer),
        protobuf: Option<(&'static str, impl FnOnce() -> Vec<u8>)>,
        headers: &HeaderMap,
    ) -> Answer {
        let made = self.made;
        let tag = self.tag(json);
        let takes_gzip = gzip::is_accepted(headers);
        let in_full = || match protobuf {
            Some((media_type, write)) => {
                let pack = || Packer::pack(|packer| *packer.text() = write()).1;
                let packed = self.protobuf.get_or_init(pack);
                Some(packed.answer(media_type, takes_gzip))
            }
            None => {
                let (_, packed) = self.json.get()?;
                Some(packed.answer(JSON, takes_gzip))
            }
        };
        let full = (!is_known(headers, tag, made)).then(in_full).flatten();
        let mut answer = full.map_or_else(|| tag.not_modified(), |full| dated(full, made));
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
