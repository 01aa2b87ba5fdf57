//! `application/json`, compact or indented.

use std::sync::Arc;

use actors::watch::Projection;

use super::events::JsonEvents;
use super::media_type::{JSON, MediaType};
use super::shape::Shape;
use crate::api::indentation::{is_out_of_proportion, text_length};
use crate::api::resource::ResourceDefinition;

/// JSON, the format in which objects are cached.
pub(super) struct Json;

impl MediaType for Json {
    fn name(&self) -> &'static str {
        JSON
    }

    fn stream_name(&self) -> Option<&'static str> {
        Some("application/json;stream=watch")
    }

    /// Ends compact JSON with a newline. Indents only if that does not multiply the length of the
    /// document.
    fn document(&self, mut json: Vec<u8>, pretty: bool) -> Vec<u8> {
        if pretty && !is_out_of_proportion(&json) {
            return indented(&json);
        }
        json.push(b'\n');
        json
    }

    fn is_compact_json(&self, pretty: bool) -> bool {
        !pretty
    }

    fn events(
        &self,
        shape: Box<dyn Shape>,
        kind: &Arc<ResourceDefinition>,
    ) -> Option<Arc<dyn Projection>> {
        Some(Arc::new(JsonEvents::new(shape, kind.clone())))
    }
}

/// Indents by two spaces per level, without a newline at the end. Works on the text, so that
/// members keep their order.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + json.len() / 2);
    Indenter::default().push(json, usize::MAX, &mut out);
    out
}

/// Indents a document piece by piece.
#[derive(Default)]
pub(super) struct Indenter {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether the last byte opened an object or array. An empty one stays on one line.
    has_opened: bool,
}

impl Indenter {
    /// Appends the next piece until the output has `most` bytes, or slightly more. Returns how many
    /// bytes of the piece were used.
    pub(super) fn push(&mut self, json: &[u8], most: usize, out: &mut Vec<u8>) -> usize {
        let mut rest = json;
        while out.len() < most && !rest.is_empty() {
            if self.in_text {
                rest = self.copy_text(rest, most, out);
                continue;
            }
            let Some((byte, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            let is_end = matches!(byte, b'}' | b']');
            match std::mem::take(&mut self.has_opened) {
                true if !is_end => {
                    self.depth += 1;
                    self.new_line(out);
                }
                false if is_end => {
                    self.depth = self.depth.saturating_sub(1);
                    self.new_line(out);
                }
                _ => {}
            }
            out.push(*byte);
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.has_opened = true,
                b',' => self.new_line(out),
                b':' => out.push(b' '),
                _ => {}
            }
        }
        json.len() - rest.len()
    }

    /// Copies the string at the start of the bytes. Returns the rest.
    fn copy_text<'j>(&mut self, json: &'j [u8], most: usize, out: &mut Vec<u8>) -> &'j [u8] {
        let part = json.get(..most - out.len()).unwrap_or(json);
        let (length, has_ended) = text_length(part, &mut self.escaped);
        self.in_text = !has_ended;
        let (text, after) = json.split_at(length);
        out.extend_from_slice(text);
        after
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}
