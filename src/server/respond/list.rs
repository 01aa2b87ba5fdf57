//! Lists: of objects, of their metadata, as Tables (API-61, API-64, API-68, API-71).

use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::stream::LocalBoxStream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::Value;

use super::kept::{ItemForm, KeptRuns};
use super::pieces::{ListWriter, WriteItem};
use super::{Answer, Form, mark_gzip, packed, text};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::clock;
use crate::server::body::ResponseBody;
use crate::server::conversion::{self, TableForm};
use crate::server::gzip;
use crate::server::negotiation::{Conversion, Format, MetaVersion};
use crate::storage::ObjectList;

/// The members of a list's metadata, without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMetadata(String);

impl ListMetadata {
    /// Those of a page (LI-40, PF-6).
    pub fn of(list: &ObjectList) -> ListMetadata {
        let mut members = format!(r#""resourceVersion":"{}""#, list.revision);
        if let Some(token) = &list.continue_token {
            members.push_str(&format!(r#","continue":{}"#, Value::from(token.as_str())));
        }
        if let Some(count) = list.remaining_item_count {
            members.push_str(&format!(r#","remainingItemCount":{count}"#));
        }
        ListMetadata(members)
    }
}

/// A page of objects in the form that was agreed on. What fits into one buffer goes out at once,
/// the rest of a longer one in pieces.
///
/// # Errors
/// 406 for a conversion that only single objects have (API-71).
pub async fn list(
    form: &Form,
    definition: &Arc<ResourceDefinition>,
    list: ObjectList,
    kept: &Arc<KeptRuns>,
) -> Result<Answer, Box<Status>> {
    let shape = shape(form, definition, &ListMetadata::of(&list))?;
    if form.accepted.format != Format::Json || form.accepted.pretty {
        return Ok(rewritten(form, shape.writer(list.items)).await);
    }
    if form.gzip
        && let Some(items) = item_form(form.accepted.conversion)
        && shape.is_long(items, &list.items)
    {
        let writer = shape.writer(list.items);
        let mut answer = chunked(writer.into_runs(items, Arc::clone(kept)));
        mark_gzip(&mut answer);
        return Ok(answer);
    }
    Ok(streamed(form, shape.writer(list.items)))
}

/// The form of items whose text depends on the object alone, and may be kept.
fn item_form(conversion: Option<Conversion>) -> Option<ItemForm> {
    match conversion {
        None | Some(Conversion::AggregatedDiscovery) => Some(ItemForm::Plain),
        Some(Conversion::MetadataList(MetaVersion::V1)) => Some(ItemForm::MetadataV1),
        Some(Conversion::MetadataList(MetaVersion::V1Beta1)) => Some(ItemForm::MetadataV1Beta1),
        Some(Conversion::Metadata(_) | Conversion::Table(_)) => None,
    }
}

/// How a list begins, and how each of its items is written.
struct Shape {
    opening: Vec<u8>,
    write_item: WriteItem,
    /// Lists of metadata say null where others have no items, as kube-apiserver's do.
    is_null_when_empty: bool,
}

impl Shape {
    fn writer(mut self, items: Vec<Arc<CachedObject>>) -> ListWriter {
        let mut closing: &'static [u8] = b"]}\n";
        if self.is_null_when_empty && items.is_empty() {
            self.opening.pop();
            closing = b"null}\n";
        }
        ListWriter::new(self.opening, items, self.write_item, closing)
    }

    /// Whether the list is long enough to be compressed: found without writing it where an item is
    /// a part of its object, and of no more items than decide it.
    fn is_long(&self, form: ItemForm, items: &[Arc<CachedObject>]) -> bool {
        let mut length = self.opening.len();
        let mut text = Vec::new();
        for (index, item) in items.iter().enumerate() {
            length += usize::from(index > 0);
            length += match form {
                ItemForm::Plain => plain_item_length(item),
                ItemForm::MetadataV1 | ItemForm::MetadataV1Beta1 => {
                    text.clear();
                    (self.write_item)(item, &mut text);
                    text.len()
                }
            };
            if length > gzip::THRESHOLD_BYTES {
                return true;
            }
        }
        false
    }
}

fn shape(
    form: &Form,
    definition: &Arc<ResourceDefinition>,
    metadata: &ListMetadata,
) -> Result<Shape, Box<Status>> {
    let (opening, write_item): (Vec<u8>, WriteItem) = match form.accepted.conversion {
        None | Some(Conversion::AggregatedDiscovery) => {
            let kind = format!("{}List", definition.kind);
            (
                opening(&kind, &definition.api_version(), metadata),
                Box::new(write_plain_item),
            )
        }
        Some(Conversion::MetadataList(version)) => (
            opening("PartialObjectMetadataList", version.api_version(), metadata),
            Box::new(move |object, out| {
                conversion::write_partial_metadata(conversion::metadata_of(object), version, out);
            }),
        ),
        Some(Conversion::Metadata(_)) => {
            return Err(Box::new(Status::not_acceptable_because(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({}List)",
                definition.kind
            ))));
        }
        Some(Conversion::Table(version)) => table(form, definition, version, metadata),
    };
    let is_null_when_empty = matches!(form.accepted.conversion, Some(Conversion::MetadataList(_)));
    Ok(Shape {
        opening,
        write_item,
        is_null_when_empty,
    })
}

fn table(
    form: &Form,
    definition: &Arc<ResourceDefinition>,
    version: MetaVersion,
    metadata: &ListMetadata,
) -> (Vec<u8>, WriteItem) {
    let table = TableForm {
        definition: definition.clone(),
        version,
        include: form.include,
    };
    let mut opening = Vec::new();
    table.write_opening(&metadata.0, true, &mut opening);
    let now = clock::now();
    let write_row = move |object: &CachedObject, out: &mut Vec<u8>| {
        table.write_row(object, now, out);
    };
    (opening, Box::new(write_row))
}

fn opening(kind: &str, api_version: &str, metadata: &ListMetadata) -> Vec<u8> {
    format!(
        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{{}}},"items":["#,
        metadata.0
    )
    .into_bytes()
}

/// An item of a typed list carries neither kind nor apiVersion (API-61).
fn write_plain_item(object: &CachedObject, out: &mut Vec<u8>) {
    out.push(b'{');
    out.extend_from_slice(object.item_body());
}

fn plain_item_length(object: &CachedObject) -> usize {
    1 + object.item_body().len()
}

fn chunked(chunks: LocalBoxStream<'static, Bytes>) -> Answer {
    let mut answer = Response::new(ResponseBody::Chunks(chunks));
    let json = HeaderValue::from_static(Format::Json.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

fn streamed(form: &Form, mut writer: ListWriter) -> Answer {
    let head = writer.next_piece(gzip::THRESHOLD_BYTES);
    if writer.is_done() {
        return packed(StatusCode::OK, form, head);
    }
    let mut answer = chunked(writer.into_stream(head, form.gzip));
    if form.gzip {
        mark_gzip(&mut answer);
    }
    answer
}

/// YAML and indented JSON: rare, and for people. The list is written whole and turned on a thread
/// that may block.
async fn rewritten(form: &Form, mut writer: ListWriter) -> Answer {
    let mut json = Vec::new();
    while !writer.is_done() {
        json.extend(writer.next_piece(gzip::THRESHOLD_BYTES));
        tokio::task::yield_now().await;
    }
    // The newline at the end belongs to compact JSON alone (API-60).
    json.truncate(json.trim_ascii_end().len());
    let accepted = form.accepted;
    let body = tokio::task::spawn_blocking(move || text::rendered(json, accepted)).await;
    packed(StatusCode::OK, form, body.unwrap_or_default())
}
