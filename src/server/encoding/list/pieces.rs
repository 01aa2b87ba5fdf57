//! Writes long lists piece by piece from the cached objects (API-64).
//!
//! No tree is built, and the list is never copied as a whole. Each piece is made when the
//! connection has room for it, and the thread does other work between two pieces.

use std::sync::Arc;
use std::vec;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream};

use super::runs::{CompressedRuns, Run, RunForm, run_length};
use super::{ItemForm, Shape};
use crate::server::gzip::Gzip;
use crate::server::gzip::segments::{Assembly, Segment};

/// The size of one piece of a list.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// Lists with more items allocate their buffers in full instead of growing them.
const MANY_ITEMS: usize = 100;

/// The state of a list that is being written.
pub(super) struct ListWriter {
    opening: Vec<u8>,
    items: vec::IntoIter<Arc<CachedObject>>,
    shape: Box<dyn Shape>,
    closing: &'static [u8],
    is_first: bool,
    is_done: bool,
}

impl ListWriter {
    /// Starts a list of these items between an opening and a closing text.
    pub(super) fn new(
        opening: Vec<u8>,
        items: Vec<Arc<CachedObject>>,
        shape: Box<dyn Shape>,
        closing: &'static [u8],
    ) -> ListWriter {
        ListWriter {
            opening,
            items: items.into_iter(),
            shape,
            closing,
            is_first: true,
            is_done: false,
        }
    }

    /// Whether everything has been returned.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next piece: items until it exceeds `bytes`, or the rest.
    pub(super) fn next_piece(&mut self, bytes: usize) -> Vec<u8> {
        let mut piece = std::mem::take(&mut self.opening);
        if self.items.len() > MANY_ITEMS {
            piece.reserve(bytes);
        }
        while piece.len() <= bytes {
            let Some(item) = self.items.next() else {
                piece.extend_from_slice(self.closing);
                self.is_done = true;
                break;
            };
            self.is_first &= !write(&*self.shape, &item, self.is_first, &mut piece);
        }
        piece
    }

    /// The whole list as a gzip body, made of runs that are kept for later requests.
    pub(super) fn into_runs(
        self,
        items: ItemForm,
        kept: Arc<CompressedRuns>,
    ) -> LocalBoxStream<'static, Bytes> {
        let state = (self, Assembly::default());
        stream::unfold(Some(state), move |state| {
            let kept = Arc::clone(&kept);
            async move {
                let (mut writer, mut assembly) = state?;
                tokio::task::yield_now().await;
                let mut out = Vec::new();
                let opening = std::mem::take(&mut writer.opening);
                if !opening.is_empty() {
                    assembly.push(&Segment::of(&opening), opening.len(), &mut out);
                }
                if let Some(run) = writer.next_run(items, &kept) {
                    assembly.push(&run.segment, run.length, &mut out);
                    return Some((Bytes::from(out), Some((writer, assembly))));
                }
                let closing = writer.closing;
                assembly.push(&Segment::of(closing), closing.len(), &mut out);
                assembly.finish(&mut out);
                Some((Bytes::from(out), None))
            }
        })
        .boxed_local()
    }

    /// The next run of items, or `None` when none are left.
    fn next_run(&mut self, items: ItemForm, kept: &CompressedRuns) -> Option<Arc<Run>> {
        let rest = self.items.as_slice();
        let run = rest.get(..run_length(rest)).filter(|run| !run.is_empty())?;
        let form = RunForm {
            items,
            is_protobuf: false,
            is_first: self.is_first,
        };
        let found = kept.get(form, run, || {
            let mut text = Vec::new();
            let mut is_first = form.is_first;
            for item in run {
                is_first &= !write(&*self.shape, item, is_first, &mut text);
            }
            text
        });
        let length = run.len();
        self.is_first &= found.length == 0;
        self.items.by_ref().take(length).for_each(drop);
        Some(found)
    }

    /// The rest of the list as a stream. The piece in `head` comes first.
    pub(super) fn into_stream(self, head: Vec<u8>, gzip: bool) -> LocalBoxStream<'static, Bytes> {
        let rest = stream::unfold(Some(self), |writer| async move {
            let mut writer = writer?;
            tokio::task::yield_now().await;
            let piece = writer.next_piece(PIECE_BYTES);
            let next = (!writer.is_done).then_some(writer);
            Some((piece, next))
        });
        let pieces = stream::once(async move { head }).chain(rest);
        if gzip {
            compressed(pieces.boxed_local())
        } else {
            pieces.map(Bytes::from).boxed_local()
        }
    }
}

/// Writes an item, with a comma before it unless it is the first. Returns whether it did: an object
/// that cannot be shown leaves nothing, not even its comma.
fn write(shape: &dyn Shape, item: &CachedObject, is_first: bool, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    if !is_first {
        out.push(b',');
    }
    let with_comma = out.len();
    shape.write_item(item, out);
    let is_written = out.len() > with_comma;
    if !is_written {
        out.truncate(before);
    }
    is_written
}

/// Pieces as one gzip body.
pub(super) fn compressed(
    pieces: LocalBoxStream<'static, Vec<u8>>,
) -> LocalBoxStream<'static, Bytes> {
    stream::unfold(Some((pieces, Gzip::default())), |state| async move {
        let (mut pieces, mut gzip) = state?;
        // The compressor may return nothing for a piece. Empty chunks are not sent.
        while let Some(piece) = pieces.next().await {
            let out = gzip.push(&piece);
            if !out.is_empty() {
                return Some((Bytes::from(out), Some((pieces, gzip))));
            }
        }
        Some((Bytes::from(gzip.finish()), None))
    })
    .boxed_local()
}
