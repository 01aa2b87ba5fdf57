//! Lists in protobuf (API-64).
//!
//! The length of a list stands before its items. A list that is not too long is written as a whole,
//! and each item becomes protobuf once. Of longer ones the first pass keeps the length alone, and
//! the items become protobuf again while they are sent: memory is bounded, whatever the list is.

use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream};

use super::pieces::{PIECE_BYTES, compressed};
use super::{ListBody, ListMetadata, Shape};
use crate::api::protobuf::{END, Envelope, push_bytes, write_message};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::types::TYPES;
use crate::schema::{Schema, StructId};
use crate::server::encoding::{Conversion, Encoding};
use crate::server::gzip;
use crate::storage::ObjectList;

/// The longest list that is written as a whole.
const WHOLE_BYTES_MAX: usize = 8 << 20;

/// The number of the items in all lists.
const ITEMS: u32 = 2;

/// Writes items.
struct Items {
    shape: Box<dyn Shape>,
    of: StructId,
    json: Vec<u8>,
    raw: Vec<u8>,
}

impl Items {
    /// Appends an item. One that can't be shown is left out, as in JSON.
    fn write(&mut self, object: &CachedObject, out: &mut Vec<u8>) {
        let schema: &Schema = &TYPES;
        self.json.clear();
        self.shape.write_item(object, &mut self.json);
        if self.json.is_empty() {
            return;
        }
        self.raw.clear();
        let mut document = serde_json::Deserializer::from_slice(&self.json);
        match write_message(schema, self.of, &mut document, &mut self.raw) {
            Ok(()) => push_bytes(out, ITEMS, &self.raw),
            Err(error) => tracing::error!(%error, "an item of a list has no form in protobuf"),
        }
    }
}

/// A page of objects of this kind.
///
/// # Errors
/// The kind has no form in protobuf, which was asked before.
pub(super) async fn list(
    encoding: &Encoding,
    gzip: bool,
    kind: &Arc<ResourceDefinition>,
    shape: Box<dyn Shape>,
    list: ObjectList,
) -> Result<ListBody, Box<Status>> {
    let (name, api_version, of) = match encoding.conversion {
        Some(Conversion::Metadata(version) | Conversion::MetadataList(version)) => (
            "PartialObjectMetadataList".to_owned(),
            version.api_version().to_owned(),
            TYPES.find("meta.v1.PartialObjectMetadata"),
        ),
        _ => (
            format!("{}List", kind.kind),
            kind.api_version(),
            TYPES.kind(&kind.api_version(), &kind.kind),
        ),
    };
    let of = of.ok_or_else(|| Box::new(Status::internal("a kind without a form in protobuf")))?;
    let mut items = Items {
        shape,
        of,
        json: Vec::new(),
        raw: Vec::new(),
    };
    let metadata = metadata(&ListMetadata::of(&list));
    // The first pass.
    let (mut body, mut length, mut is_kept) = (Vec::new(), metadata.len(), true);
    let mut turn = 0;
    for object in &list.items {
        let before = body.len();
        items.write(object, &mut body);
        let written = body.len() - before;
        length += written;
        is_kept &= length <= WHOLE_BYTES_MAX;
        if !is_kept {
            body = Vec::new();
        }
        turn += written;
        if turn > PIECE_BYTES {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
    let mut opening = Vec::new();
    Envelope::write_opening(&api_version, &name, length, &mut opening);
    opening.extend_from_slice(&metadata);
    if is_kept {
        let whole = [&opening, &*body, END].concat();
        if whole.len() <= gzip::THRESHOLD_BYTES {
            return Ok(ListBody::Whole(whole));
        }
        return Ok(sent(cut(whole), gzip));
    }
    Ok(sent(again(opening, items, list.items), gzip))
}

/// The metadata as a field of the list.
fn metadata(metadata: &ListMetadata) -> Vec<u8> {
    let mut raw = Vec::new();
    if let Some(of) = TYPES.find("meta.v1.ListMeta") {
        let document = metadata.document();
        let mut document = serde_json::Deserializer::from_str(&document);
        // It was written here, of its type.
        let _ = write_message(&TYPES, of, &mut document, &mut raw);
    }
    let mut field = Vec::new();
    push_bytes(&mut field, 1, &raw);
    field
}

fn sent(pieces: LocalBoxStream<'static, Vec<u8>>, gzip: bool) -> ListBody {
    ListBody::Pieces(match gzip {
        true => compressed(pieces),
        false => pieces.map(Bytes::from).boxed_local(),
    })
}

/// A whole list in pieces.
fn cut(whole: Vec<u8>) -> LocalBoxStream<'static, Vec<u8>> {
    stream::unfold((whole, 0), |(whole, at)| async move {
        let rest = whole.get(at..).filter(|rest| !rest.is_empty())?;
        let piece = rest.get(..PIECE_BYTES).unwrap_or(rest).to_vec();
        let next = at + piece.len();
        Some((piece, (whole, next)))
    })
    .boxed_local()
}

/// The list whose length is known, its items written once more.
fn again(
    opening: Vec<u8>,
    items: Items,
    objects: Vec<Arc<CachedObject>>,
) -> LocalBoxStream<'static, Vec<u8>> {
    let state = (opening, items, objects.into_iter());
    stream::unfold(Some(state), |state| async move {
        let (mut piece, mut items, mut objects) = state?;
        tokio::task::yield_now().await;
        while piece.len() <= PIECE_BYTES {
            let Some(object) = objects.next() else {
                piece.extend_from_slice(END);
                return Some((piece, None));
            };
            items.write(&object, &mut piece);
        }
        Some((piece, Some((Vec::new(), items, objects))))
    })
    .boxed_local()
}
