//! Lists, produced in pieces as their clients read (API-61, API-64, API-68, API-71).
//!
//! This folder owns how a list becomes bytes, and the cache of its compressed parts. It takes
//! cached objects and an encoding, and returns a body. It must not know HTTP headers, users or how
//! objects were selected.
//!
//! A [`Producer`](pieces::Producer) makes the pieces: [`pieces`] in compact JSON, `indented` in
//! indented JSON and YAML, `protobuf` in protobuf. Forms whose first bytes depend on the whole list
//! need a first pass, which keeps no text.

mod indented;
mod pieces;
mod protobuf;
mod runs;

use std::sync::Arc;

use actors::object::CachedObject;

pub use runs::CompressedRuns;

use super::shape::{ItemForm, ListMetadata, Shape};
use super::{Content, Encoding};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::server::gzip;
use crate::storage::ObjectList;
use crate::transport::Pieces;
use pieces::{Holding, ListWriter, body};

/// The body of a list.
pub enum ListBody {
    /// The complete list, not compressed.
    Whole(Vec<u8>),
    /// Pieces that are produced when there is room for them, compressed if that was requested.
    Pieces(Pieces),
}

/// Encodes a page of objects of this kind. A list that fits into one buffer is produced at once, a
/// longer one in pieces. Long lists are compressed if the client accepts `gzip`.
///
/// # Errors
/// 406 for a conversion that only single objects have (API-71). 500 if an object cannot be
/// converted to the form.
pub async fn list(
    encoding: &Encoding,
    gzip: bool,
    kind: &Arc<ResourceDefinition>,
    list: ObjectList,
    kept: &Arc<CompressedRuns>,
) -> Result<ListBody, Box<Status>> {
    let shape = encoding.shape(kind, Content::List)?;
    if encoding.media_type.is_protobuf() {
        return protobuf::list(encoding, gzip, kind, shape, list, kept).await;
    }
    let opening = shape.list_opening(&ListMetadata::of(&list));
    let kept_as = shape.kept_as();
    if !encoding.media_type.get().is_compact_json(encoding.pretty) {
        let writer = writer(shape, opening, list.items);
        return indented::list(encoding, gzip, writer).await;
    }
    if gzip
        && let Some(items) = kept_as
        && is_long(&*shape, &opening, &list.items)
    {
        let holding = Holding::of(&list.items);
        let writer = writer(shape, opening, list.items);
        let pieces = writer.into_runs(items, Arc::clone(kept));
        return Ok(ListBody::Pieces(Pieces::new(pieces, holding.of_runs())));
    }
    let holding = Holding::of(&list.items);
    Ok(body(writer(shape, opening, list.items), gzip, holding))
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

/// Whether a list is long enough to be compressed. Items of unknown length are written until the
/// list exceeds the threshold.
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
