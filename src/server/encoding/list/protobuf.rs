//! Lists in protobuf (API-64).
//!
//! The length of a list precedes its items. A list that fits into one buffer is written at once.
//! For a longer one, the first items are written and a pass over the others adds up their lengths;
//! those become protobuf as the client reads.
//!
//! A compressed list consists of cached runs, as in JSON (API-65). Its length is the sum of the
//! lengths of their texts. Lengths that are not cached are computed.

use std::sync::Arc;
use std::vec;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;

use super::pieces::{Holding, Producer, in_pieces};
use super::runs::{CompressedRuns, Run, RunForm, run_length};
use super::{ListBody, ListMetadata, Shape, is_long};
use crate::api::protobuf::{
    END, Envelope, message_length, push_bytes, push_opening, write_json_message, write_message,
};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::types::TYPES;
use crate::schema::{Schema, StructId};
use crate::server::encoding::{Conversion, Encoding};
use crate::server::gzip;
use crate::server::gzip::segments::{Assembly, Segment};
use crate::storage::ObjectList;
use crate::transport::{PIECE_BYTES, Pieces};

/// The field number of the items in all lists.
const ITEMS: u32 = 2;

/// Writes items.
struct Items {
    shape: Box<dyn Shape>,
    of: StructId,
    json: Vec<u8>,
    raw: Vec<u8>,
    /// The cache of lengths, and the form of the runs in it.
    kept: Option<(RunForm, Arc<CompressedRuns>)>,
}

impl Items {
    /// Returns the length of all items. The lengths of runs are cached for the next list.
    async fn count(&mut self, objects: &[Arc<CachedObject>]) -> Result<usize, Box<Status>> {
        let (mut rest, mut length) = (objects, 0);
        let kept = self.kept.clone();
        while !rest.is_empty() {
            let (run, others) = rest.split_at(run_length(rest));
            rest = others;
            let mut count = || {
                let lengths = run.iter().map(|object| {
                    let counted = self.length(object);
                    counted.map_err(|error| unreadable(object, &error))
                });
                lengths.sum::<Result<usize, Box<Status>>>()
            };
            length += match &kept {
                Some((form, kept)) => kept.length(form, run, count)?,
                None => count()?,
            };
            self.rest();
            tokio::task::yield_now().await;
        }
        Ok(length)
    }

    /// Appends an item. One that cannot be shown is skipped, as in JSON.
    ///
    /// # Errors
    /// The object does not match its schema.
    fn write(&mut self, object: &CachedObject, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let schema: &Schema = &TYPES;
        if self.is_shown(object) {
            self.raw.clear();
            write_json_message(schema, self.of, &self.json, &mut self.raw)?;
            push_bytes(out, ITEMS, &self.raw);
        }
        Ok(())
    }

    /// Returns the number of bytes that [`Items::write`] appends.
    ///
    /// # Errors
    /// As for [`Items::write`].
    fn length(&mut self, object: &CachedObject) -> serde_json::Result<usize> {
        let schema: &Schema = &TYPES;
        if !self.is_shown(object) {
            return Ok(0);
        }
        let Some(length) = message_length(schema, self.of, &self.json) else {
            let mut written = Vec::new();
            self.write(object, &mut written)?;
            return Ok(written.len());
        };
        self.raw.clear();
        push_opening(&mut self.raw, ITEMS, length);
        Ok(self.raw.len() + length)
    }

    /// Whether an object can be shown. If so, `json` holds its text.
    fn is_shown(&mut self, object: &CachedObject) -> bool {
        self.json.clear();
        self.shape.write_item(object, &mut self.json);
        !self.json.is_empty()
    }

    /// Appends an item whose length was counted before.
    fn write_counted(&mut self, object: &CachedObject, out: &mut Vec<u8>) {
        if let Err(error) = self.write(object, out) {
            tracing::error!(%error, "writing a list item that was already counted failed");
        }
    }

    /// Frees the buffers, which a long item may have grown.
    fn rest(&mut self) {
        (self.json, self.raw) = (Vec::new(), Vec::new());
    }
}

fn unreadable(object: &CachedObject, error: &serde_json::Error) -> Box<Status> {
    let key = String::from_utf8_lossy(object.key());
    let text = format!("the value of {key} can't be converted to protobuf: {error}");
    Box::new(Status::internal(text))
}

/// The part of a list before the items.
struct Head {
    kind: String,
    api_version: String,
    metadata: Vec<u8>,
}

impl Head {
    /// Returns the opening of a list whose items have this total length.
    fn opening(&self, items: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let length = self.metadata.len() + items;
        Envelope::write_opening(&self.api_version, &self.kind, length, &mut out);
        out.extend_from_slice(&self.metadata);
        out
    }
}

/// Encodes a page of objects of this kind.
///
/// # Errors
/// 500 for an object that does not match its schema. The caller has checked that the kind has a
/// protobuf schema.
pub(super) async fn list(
    encoding: &Encoding,
    gzip: bool,
    kind: &Arc<ResourceDefinition>,
    shape: Box<dyn Shape>,
    list: ObjectList,
    kept: &Arc<CompressedRuns>,
) -> Result<ListBody, Box<Status>> {
    let (name, api_version, of) = match encoding.conversion {
        Some(Conversion::Metadata(version) | Conversion::MetadataList(version)) => (
            "PartialObjectMetadataList".to_owned(),
            version.api_version().to_owned(),
            TYPES.find("meta.v1.PartialObjectMetadata"),
        ),
        _ => (
            kind.list_kind(),
            kind.api_version(),
            TYPES.kind(&kind.api_version(), &kind.kind),
        ),
    };
    let of = of.ok_or_else(|| Box::new(Status::internal("the kind has no protobuf schema")))?;
    let head = Head {
        kind: name,
        api_version,
        metadata: metadata(&ListMetadata::of(&list)),
    };
    let form = shape.kept_as().map(|items| RunForm {
        items,
        is_protobuf: true,
        is_first: false,
        is_counted: false,
    });
    // JSON is longer than protobuf, so its length is enough for a first decision.
    let gzip = gzip && is_long(&*shape, &[], &list.items);
    let items = Items {
        shape,
        of,
        json: Vec::new(),
        raw: Vec::new(),
        kept: form.clone().map(|form| (form, Arc::clone(kept))),
    };
    match form {
        Some(form) if gzip => {
            let runs = Runs {
                items,
                objects: list.items.into_iter(),
                form,
                kept: Arc::clone(kept),
            };
            runs.list(&head).await
        }
        _ => plain(&head, items, list.items, gzip).await,
    }
}

/// Encodes a list without cached runs.
async fn plain(
    head: &Head,
    mut items: Items,
    objects: Vec<Arc<CachedObject>>,
    gzip: bool,
) -> Result<ListBody, Box<Status>> {
    let holding = Holding::of(&objects);
    let mut objects = objects.into_iter();
    let mut first = Vec::new();
    while first.len() <= gzip::THRESHOLD_BYTES
        && let Some(object) = objects.next()
    {
        let written = items.write(&object, &mut first);
        written.map_err(|error| unreadable(&object, &error))?;
    }
    let length = first.len() + items.count(objects.as_slice()).await?;
    let opening = head.opening(length);
    let whole = opening.len() + length + END.len();
    if whole <= gzip::THRESHOLD_BYTES {
        return Ok(ListBody::Whole([&opening, &*first, END].concat()));
    }
    let counted = Counted {
        items,
        objects,
        is_done: false,
    };
    let first = [opening, first].concat();
    Ok(in_pieces(first, counted, gzip, holding))
}

/// The rest of a list whose length was counted.
struct Counted {
    items: Items,
    objects: vec::IntoIter<Arc<CachedObject>>,
    is_done: bool,
}

impl Producer for Counted {
    fn next_piece(&mut self, bytes: usize) -> Vec<u8> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        while piece.len() <= bytes {
            let Some(object) = self.objects.next() else {
                piece.extend_from_slice(END);
                self.is_done = true;
                break;
            };
            self.items.write_counted(&object, &mut piece);
        }
        self.items.rest();
        piece
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// The compressed runs of a list.
struct Runs {
    items: Items,
    objects: vec::IntoIter<Arc<CachedObject>>,
    form: RunForm,
    kept: Arc<CompressedRuns>,
}

impl Runs {
    /// Returns the next run, or `None` at the end.
    fn next(&mut self) -> Option<Arc<Run>> {
        let rest = self.objects.as_slice();
        let objects = rest.get(..run_length(rest)).filter(|run| !run.is_empty())?;
        let items = &mut self.items;
        let run = self.kept.get(&self.form, objects, || {
            let mut text = Vec::new();
            for object in objects {
                items.write_counted(object, &mut text);
            }
            text
        });
        items.rest();
        let taken = objects.len();
        self.objects.by_ref().take(taken).for_each(drop);
        Some(run)
    }

    /// Returns the list as a gzip body, or uncompressed if it is too short for that.
    async fn list(mut self, head: &Head) -> Result<ListBody, Box<Status>> {
        let length = self.items.count(self.objects.as_slice()).await?;
        let opening = head.opening(length);
        if opening.len() + length + END.len() <= gzip::THRESHOLD_BYTES {
            return plain(head, self.items, self.objects.collect(), false).await;
        }
        let holding = Holding::of(self.objects.as_slice());
        let pieces = self.into_stream(opening);
        Ok(ListBody::Pieces(Pieces::new(pieces, holding.of_runs())))
    }

    fn into_stream(self, opening: Vec<u8>) -> impl Stream<Item = Bytes> + 'static {
        let state = (opening, self, Assembly::default());
        stream::unfold(Some(state), |state| async move {
            let (opening, mut runs, mut assembly) = state?;
            tokio::task::yield_now().await;
            let mut out = Vec::new();
            if !opening.is_empty() {
                assembly.push(&Segment::of(&opening), opening.len(), &mut out);
            }
            if let Some(run) = runs.next() {
                assembly.push(&run.segment, run.length, &mut out);
                return Some((Bytes::from(out), Some((Vec::new(), runs, assembly))));
            }
            assembly.push(&Segment::of(END), END.len(), &mut out);
            assembly.finish(&mut out);
            Some((Bytes::from(out), None))
        })
    }
}

/// Encodes the metadata as a field of the list.
fn metadata(metadata: &ListMetadata) -> Vec<u8> {
    let mut raw = Vec::new();
    if let Some(of) = TYPES.find("meta.v1.ListMeta") {
        let document = metadata.document();
        let mut document = serde_json::Deserializer::from_str(&document);
        // The document was built above and matches its type.
        let _ = write_message(&TYPES, of, &mut document, &mut raw);
    }
    let mut field = Vec::new();
    push_bytes(&mut field, 1, &raw);
    field
}
