//! Lists, in one piece or in many (API-61, API-64, API-68, API-71).
//!
//! This folder owns how a list becomes bytes, and the cache of its compressed parts. Cached objects
//! and an encoding enter, and a body leaves. It must not know HTTP headers, users or how objects
//! were selected.

mod pieces;
mod protobuf;
mod runs;

use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::stream::LocalBoxStream;

pub use runs::CompressedRuns;

use super::shape::{ItemForm, ListMetadata, Shape};
use super::{Content, Encoding};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::server::gzip;
use crate::storage::ObjectList;
use pieces::ListWriter;

/// The body of a list.
pub enum ListBody {
    /// The complete list, not compressed.
    Whole(Vec<u8>),
    /// Pieces, each made when there is room for it. They are compressed if that was requested.
    Pieces(LocalBoxStream<'static, Bytes>),
}

/// A page of objects of this kind. The part that fits into one buffer is made at once, and the rest
/// in pieces. Long lists are compressed if the client accepts `gzip`.
///
/// # Errors
/// 406 for a conversion that only single objects have (API-71).
pub async fn list(
    encoding: &Encoding,
    gzip: bool,
    kind: &Arc<ResourceDefinition>,
    list: ObjectList,
    kept: &Arc<CompressedRuns>,
) -> Result<ListBody, Box<Status>> {
    let shape = encoding.shape(kind, Content::List)?;
    if encoding.media_type.is_protobuf() {
        return protobuf::list(encoding, gzip.then_some(kept), kind, shape, list).await;
    }
    let opening = shape.list_opening(&ListMetadata::of(&list));
    let kept_as = shape.kept_as();
    if !encoding.media_type.get().is_compact_json(encoding.pretty) {
        return Ok(rewritten(*encoding, writer(shape, opening, list.items)).await);
    }
    if gzip
        && let Some(items) = kept_as
        && is_long(&*shape, &opening, &list.items)
    {
        let writer = writer(shape, opening, list.items);
        return Ok(ListBody::Pieces(writer.into_runs(items, Arc::clone(kept))));
    }
    let mut writer = writer(shape, opening, list.items);
    let head = writer.next_piece(gzip::THRESHOLD_BYTES);
    if writer.is_done() {
        return Ok(ListBody::Whole(head));
    }
    Ok(ListBody::Pieces(writer.into_stream(head, gzip)))
}

fn writer(
    shape: Box<dyn Shape>,
    mut opening: Vec<u8>,
    items: Vec<Arc<CachedObject>>,
) -> ListWriter {
    let mut closing: &'static [u8] = b"]}\n";
    if shape.is_null_when_empty() && items.is_empty() {
        opening.pop();
        closing = b"null}\n";
    }
    ListWriter::new(opening, items, shape, closing)
}

/// Whether a list is long enough to be compressed. If the length of items is known, the list is not
/// written for this. Otherwise only as many items are written as the answer needs.
fn is_long(shape: &dyn Shape, opening: &[u8], items: &[Arc<CachedObject>]) -> bool {
    let mut length = opening.len();
    let mut text = Vec::new();
    for (index, item) in items.iter().enumerate() {
        length += usize::from(index > 0);
        length += shape.item_length(item).unwrap_or_else(|| {
            text.clear();
            shape.write_item(item, &mut text);
            text.len()
        });
        if length > gzip::THRESHOLD_BYTES {
            return true;
        }
    }
    false
}

/// YAML and indented JSON, which are rare and meant for people. The whole list is written and then
/// converted on a thread that may block.
async fn rewritten(encoding: Encoding, mut writer: ListWriter) -> ListBody {
    let mut json = Vec::new();
    while !writer.is_done() {
        json.extend(writer.next_piece(gzip::THRESHOLD_BYTES));
        tokio::task::yield_now().await;
    }
    // Only compact JSON ends with a newline (API-60).
    json.truncate(json.trim_ascii_end().len());
    let body = tokio::task::spawn_blocking(move || encoding.document(json)).await;
    ListBody::Whole(body.unwrap_or_default())
}
