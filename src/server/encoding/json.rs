//! `application/json`, compact or indented.

use std::sync::Arc;

use actors::watch::Projection;

use super::events::JsonEvents;
use super::media_type::{JSON, MediaType};
use super::shape::Shape;
use crate::api::indentation::is_out_of_proportion;
use crate::api::resource::ResourceDefinition;

/// JSON, the format in which objects are kept.
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

/// Indents by two spaces per level, without a newline at the end. It works on the text, so that
/// members keep their order.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + json.len() / 2);
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if matches!(bytes.peek(), Some(b'}' | b']')) {
                    out.extend(bytes.next());
                } else {
                    depth += 1;
                    new_line(depth, &mut out);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(depth, &mut out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(depth, &mut out);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

fn new_line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}
