//! Lists in indented JSON and in YAML, the forms for people (API-60).
//!
//! A first pass computes the length of the indented list without keeping any text. If indentation
//! would multiply the length, the list is sent as compact JSON. Otherwise items are converted one
//! after the other, as the client reads.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ListBody;
use super::pieces::{ListWriter, Part, Producer, body};
use crate::api::indentation::Growth;
use crate::api::status::Status;
use crate::server::encoding::json::Indenter;
use crate::server::encoding::{Encoding, yaml};
use crate::transport::PIECE_BYTES;

/// Returns a list in YAML or indented JSON.
///
/// # Errors
/// 500 for an object that is not valid JSON and so cannot be converted to YAML.
pub(super) async fn list(
    encoding: &Encoding,
    gzip: bool,
    writer: ListWriter,
) -> Result<ListBody, Box<Status>> {
    let is_yaml = encoding.media_type.get().is_yaml();
    let (mut growth, mut longest) = (Growth::default(), 0);
    let counted = writer.pass(|part| {
        let before = growth.indented();
        match part {
            Part::Text(text) => growth.push(text),
            Part::Item(object, text) => {
                growth.push(text);
                longest = longest.max(growth.indented() - before);
                if is_yaml {
                    check(text).map_err(|error| {
                        let key = String::from_utf8_lossy(object.key());
                        let text = format!("the value of {key} can't be read: {error}");
                        Box::new(Status::internal(text))
                    })?;
                }
            }
        }
        Ok::<(), Box<Status>>(())
    });
    counted.await?;
    let holding = writer.holding();
    if growth.is_out_of_proportion() || (is_yaml && growth.deepest() > yaml::DEPTH_MAX) {
        return Ok(body(writer, gzip, holding));
    }
    if is_yaml {
        let yaml = YamlWriter::new(writer);
        return Ok(body(yaml, gzip, holding.with_longest(longest)));
    }
    // Each piece of compact JSON is split into pieces of indented JSON.
    let holding = holding.with_longest(holding.longest + PIECE_BYTES);
    let json = IndentedWriter::new(writer.without_newline());
    Ok(body(json, gzip, holding))
}

/// Checks that an item, after its comma, is JSON.
fn check(text: &[u8]) -> serde_json::Result<()> {
    let item = text.strip_prefix(b",").unwrap_or(text);
    serde_json::from_slice::<&RawValue>(item).map(|_| ())
}

/// Produces indented JSON.
struct IndentedWriter {
    compact: ListWriter,
    piece: Vec<u8>,
    /// The number of bytes of the piece that have been written.
    at: usize,
    indenter: Indenter,
}

impl IndentedWriter {
    fn new(compact: ListWriter) -> IndentedWriter {
        IndentedWriter {
            compact,
            piece: Vec::new(),
            at: 0,
            indenter: Indenter::default(),
        }
    }
}

impl Producer for IndentedWriter {
    fn next_piece(&mut self, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(PIECE_BYTES);
        while out.len() <= bytes && !self.is_done() {
            if self.at == self.piece.len() {
                self.piece = self.compact.next_piece(PIECE_BYTES);
                self.at = 0;
            }
            let rest = self.piece.get(self.at..).unwrap_or_default();
            self.at += self.indenter.push(rest, bytes + 1, &mut out);
        }
        out
    }

    fn is_done(&self) -> bool {
        self.compact.is_done() && self.at == self.piece.len()
    }
}

/// Produces YAML: members sorted by name, with the items in their place.
struct YamlWriter {
    items: ListWriter,
    /// The name of the member that holds the items.
    name: &'static str,
    /// The next output: the members before the items, then the first item.
    next: Vec<u8>,
    /// The members after the items.
    after: Vec<u8>,
    is_done: bool,
}

/// The members that hold the items of lists and of Tables.
const ITEMS: [&str; 2] = ["items", "rows"];

impl YamlWriter {
    fn new(mut items: ListWriter) -> YamlWriter {
        let shell: Map<String, Value> = serde_json::from_slice(&items.shell()).unwrap_or_default();
        let found = ITEMS.into_iter().find(|name| shell.contains_key(*name));
        let (name, mut next, mut after) = (found.unwrap_or_default(), Vec::new(), Vec::new());
        let first = items.next_item();
        for (member, value) in shell {
            let is_after = member.as_str() > name;
            if member == name && first.is_some() {
                next.extend(format!("{name}:\n").into_bytes());
                continue;
            }
            let place = if is_after { &mut after } else { &mut next };
            place.extend(yaml::written(&json!({ member: value })));
        }
        next.extend(first.map(|item| item_of(name, &item)).unwrap_or_default());
        YamlWriter {
            items,
            name,
            next,
            after,
            is_done: false,
        }
    }
}

/// Writes an item of the sequence of this name.
fn item_of(name: &str, item: &[u8]) -> Vec<u8> {
    let value: Value = serde_json::from_slice(item).unwrap_or_default();
    let written = yaml::written(&json!({ name: [value] }));
    // The first line holds only the name.
    let end = written.iter().position(|byte| *byte == b'\n');
    written
        .get(end.map_or(0, |end| end + 1)..)
        .unwrap_or_default()
        .to_vec()
}

impl Producer for YamlWriter {
    fn next_piece(&mut self, bytes: usize) -> Vec<u8> {
        let mut piece = std::mem::take(&mut self.next);
        while piece.len() <= bytes {
            let Some(item) = self.items.next_item() else {
                piece.append(&mut self.after);
                self.is_done = true;
                break;
            };
            piece.extend(item_of(self.name, &item));
        }
        piece
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
