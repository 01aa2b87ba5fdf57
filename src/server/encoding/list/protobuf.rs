//! Lists in protobuf (API-64).
//!
//! The length of a list stands before its items. A list that is not too long is written as a whole,
//! and each item becomes protobuf once. Of longer ones the first pass keeps the length alone, and
//! the items become protobuf again while they are sent: memory is bounded, whatever the list is.
//!
//! A compressed list is made of runs that are kept, as in JSON (API-65). The lengths of their texts
//! add up to that of the list.

use std::collections::VecDeque;
use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream};

use super::pieces::{PIECE_BYTES, compressed};
use super::runs::{CompressedRuns, Run, RunForm, run_length};
use super::{ListBody, ListMetadata, Shape, is_long};
use crate::api::protobuf::{END, Envelope, push_bytes, write_message};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::types::TYPES;
use crate::schema::{Schema, StructId};
use crate::server::encoding::{Conversion, Encoding};
use crate::server::gzip;
use crate::server::gzip::segments::{Assembly, Segment};
use crate::storage::ObjectList;

/// The longest list that is written as a whole, and the most compressed bytes of one that are held
/// until its length is known.
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

/// What stands before the items.
struct Head {
    kind: String,
    api_version: String,
    metadata: Vec<u8>,
}

impl Head {
    /// The opening of a list whose items have this length.
    fn opening(&self, items: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let length = self.metadata.len() + items;
        Envelope::write_opening(&self.api_version, &self.kind, length, &mut out);
        out.extend_from_slice(&self.metadata);
        out
    }
}

/// A page of objects of this kind, compressed if there are runs to keep.
///
/// # Errors
/// The kind has no form in protobuf, which was asked before.
pub(super) async fn list(
    encoding: &Encoding,
    kept: Option<&Arc<CompressedRuns>>,
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
    let head = Head {
        kind: name,
        api_version,
        metadata: metadata(&ListMetadata::of(&list)),
    };
    let form = shape.kept_as().map(|items| RunForm {
        items,
        is_protobuf: true,
        is_first: false,
    });
    // JSON is longer than protobuf.
    let kept = kept.filter(|_| is_long(&*shape, &[], &list.items));
    let items = Items {
        shape,
        of,
        json: Vec::new(),
        raw: Vec::new(),
    };
    let is_compressed = kept.is_some();
    let items = match (kept, form) {
        (Some(kept), Some(form)) => {
            let runs = Runs::new(items, list.items, form, Arc::clone(kept));
            match runs.sent(&head).await {
                Ok(pieces) => return Ok(ListBody::Pieces(pieces)),
                Err(short) => return Ok(plain(&head, short.items, short.objects, false).await),
            }
        }
        _ => items,
    };
    Ok(plain(&head, items, list.items, is_compressed).await)
}

/// A list that is written for this request alone.
async fn plain(
    head: &Head,
    mut items: Items,
    objects: Vec<Arc<CachedObject>>,
    gzip: bool,
) -> ListBody {
    // The first pass.
    let (mut body, mut length, mut is_kept) = (Vec::new(), 0, true);
    let mut turn = 0;
    for object in &objects {
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
    let opening = head.opening(length);
    if !is_kept {
        return sent(again(opening, items, objects), gzip);
    }
    let whole = [&opening, &*body, END].concat();
    match whole.len() <= gzip::THRESHOLD_BYTES {
        true => ListBody::Whole(whole),
        false => sent(cut(whole), gzip),
    }
}

/// The runs of a list.
struct Runs {
    items: Items,
    objects: Vec<Arc<CachedObject>>,
    /// How many objects were taken.
    taken: usize,
    form: RunForm,
    kept: Arc<CompressedRuns>,
    /// The first runs, from when the length of the list was found out.
    held: VecDeque<Arc<Run>>,
}

impl Runs {
    fn new(
        items: Items,
        objects: Vec<Arc<CachedObject>>,
        form: RunForm,
        kept: Arc<CompressedRuns>,
    ) -> Runs {
        Runs {
            items,
            objects,
            taken: 0,
            form,
            kept,
            held: VecDeque::new(),
        }
    }

    /// The next run, or `None` when none are left.
    fn next(&mut self) -> Option<Arc<Run>> {
        let rest = self.objects.get(self.taken..).unwrap_or_default();
        let objects = rest.get(..run_length(rest)).filter(|run| !run.is_empty())?;
        self.taken += objects.len();
        let items = &mut self.items;
        let held = self.held.pop_front();
        Some(held.unwrap_or_else(|| {
            self.kept.get(self.form, objects, || {
                let mut text = Vec::new();
                for object in objects {
                    items.write(object, &mut text);
                }
                text
            })
        }))
    }

    /// The list as a gzip body. One that is too short for that is given back.
    async fn sent(mut self, head: &Head) -> Result<LocalBoxStream<'static, Bytes>, Runs> {
        let (mut length, mut size) = (0, 0);
        let mut held = VecDeque::new();
        while let Some(run) = self.next() {
            length += run.length;
            size += run.segment.size();
            if size <= WHOLE_BYTES_MAX {
                held.push_back(run);
            }
            tokio::task::yield_now().await;
        }
        (self.taken, self.held) = (0, held);
        let opening = head.opening(length);
        if opening.len() + length + END.len() <= gzip::THRESHOLD_BYTES {
            return Err(self);
        }
        let state = (opening, self, Assembly::default());
        let pieces = stream::unfold(Some(state), |state| async move {
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
        });
        Ok(pieces.boxed_local())
    }
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
