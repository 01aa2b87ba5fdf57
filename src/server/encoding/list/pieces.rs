//! Produces long lists piece by piece from the cached objects (API-64).
//!
//! No tree is built, and the list is never copied as a whole. Each piece is produced when the
//! connection has room for it, and the thread does other work in between. A body declares how much
//! memory it may hold while its client does not read, and the connection counts that.

use std::mem::size_of_val;
use std::sync::Arc;
use std::vec;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::stream::{self, LocalBoxStream};
use futures_util::{Stream, StreamExt};

use super::runs::{CompressedRuns, RUN_BYTES_MAX, Run, RunForm, run_length};
use super::{ItemForm, ListBody, Shape};
use crate::server::gzip::segments::{Assembly, Segment};
use crate::server::gzip::{self, Gzip};
use crate::transport::{PIECE_BYTES, Pieces};

/// Lists with more items than this allocate full-size buffers instead of growing them.
const MANY_ITEMS: usize = 100;

/// Produces a list piece by piece.
pub(super) trait Producer: 'static {
    /// Returns the next piece: items until it exceeds `bytes`, or the rest.
    fn next_piece(&mut self, bytes: usize) -> Vec<u8>;

    /// Whether all pieces have been returned.
    fn is_done(&self) -> bool;
}

/// The memory that a list takes while its client does not read, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    /// The vector of items, and the items that no cache holds because they come from the store.
    items: usize,
    /// The longest item. A piece exceeds its limit by up to one item.
    pub(super) longest: usize,
}

impl Holding {
    /// Computes the memory of a list of these objects.
    pub(super) fn of(items: &[Arc<CachedObject>]) -> Holding {
        let mut holding = Holding {
            items: size_of_val(items),
            longest: 0,
        };
        for item in items {
            holding.longest = holding.longest.max(item.item_body().len());
            if Arc::strong_count(item) == 1 {
                holding.items += item.size();
            }
        }
        holding
    }

    /// Returns the same with a longer item, if `longest` is more.
    pub(super) fn with_longest(self, longest: usize) -> Holding {
        let longest = self.longest.max(longest);
        Holding { longest, ..self }
    }

    /// Returns the sum with a piece of at least this many bytes.
    pub(super) fn with_piece(self, bytes: usize) -> usize {
        self.items + self.longest + bytes.max(PIECE_BYTES)
    }

    /// Returns the sum with a run of compressed items.
    pub(super) fn of_runs(self) -> usize {
        self.with_piece(RUN_BYTES_MAX)
    }
}

/// Returns the body of a list. A list that fits into one buffer is produced at once.
pub(super) fn body(mut producer: impl Producer, gzip: bool, holding: Holding) -> ListBody {
    let head = producer.next_piece(gzip::THRESHOLD_BYTES);
    match producer.is_done() {
        true => ListBody::Whole(head),
        false => in_pieces(head, producer, gzip, holding),
    }
}

/// Returns a body in pieces, of which `head` is the first.
pub(super) fn in_pieces(
    head: Vec<u8>,
    producer: impl Producer,
    gzip: bool,
    holding: Holding,
) -> ListBody {
    let held = holding.with_piece(head.len());
    let rest = stream::unfold(Some(producer), |producer| async move {
        let mut producer = producer?;
        tokio::task::yield_now().await;
        let piece = producer.next_piece(PIECE_BYTES);
        let next = (!producer.is_done()).then_some(producer);
        Some((piece, next))
    });
    let pieces = stream::once(async move { head }).chain(rest);
    ListBody::Pieces(match gzip {
        true => Pieces::new(compressed(pieces.boxed_local()), held + Gzip::SIZE),
        false => Pieces::new(pieces.map(Bytes::from), held),
    })
}

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

    /// Turns the whole list into a gzip body of compressed runs, which are cached for later
    /// requests.
    pub(super) fn into_runs(
        self,
        items: ItemForm,
        kept: Arc<CompressedRuns>,
    ) -> impl Stream<Item = Bytes> + 'static {
        let state = (self, Assembly::default());
        stream::unfold(Some(state), move |state| {
            let (items, kept) = (items.clone(), Arc::clone(&kept));
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
    }

    /// Returns the next run of items, or `None` at the end.
    fn next_run(&mut self, items: ItemForm, kept: &CompressedRuns) -> Option<Arc<Run>> {
        let rest = self.items.as_slice();
        let run = rest.get(..run_length(rest)).filter(|run| !run.is_empty())?;
        let form = RunForm {
            items,
            is_protobuf: false,
            is_first: self.is_first,
            is_counted: false,
        };
        let found = kept.get(&form, run, || {
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

    /// Passes the opening, each item with its comma, and the closing to a function, without
    /// consuming the list.
    ///
    /// # Errors
    /// The error of the function.
    pub(super) async fn pass<E>(
        &self,
        mut show: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        show(Part::Text(&self.opening))?;
        let (mut is_first, mut turn) = (true, 0);
        let mut text = Vec::new();
        for item in self.items.as_slice() {
            text.clear();
            if write(&*self.shape, item, is_first, &mut text) {
                show(Part::Item(item, &text))?;
                is_first = false;
            }
            turn += text.len();
            if turn > PIECE_BYTES {
                turn = 0;
                text = Vec::new();
                tokio::task::yield_now().await;
            }
        }
        show(Part::Text(self.closing))
    }

    /// Returns the next item, without a comma. `None` at the end.
    pub(super) fn next_item(&mut self) -> Option<Vec<u8>> {
        loop {
            let item = self.items.next()?;
            let mut text = Vec::new();
            self.shape.write_item(&item, &mut text);
            if !text.is_empty() {
                return Some(text);
            }
        }
    }

    /// Returns the list without its items.
    pub(super) fn shell(&self) -> Vec<u8> {
        [&self.opening, self.closing].concat()
    }

    /// Removes the newline at the end.
    pub(super) fn without_newline(self) -> ListWriter {
        ListWriter {
            closing: self.closing.trim_ascii_end(),
            ..self
        }
    }

    /// Returns the memory that the list takes.
    pub(super) fn holding(&self) -> Holding {
        Holding::of(self.items.as_slice())
    }
}

/// A part of a list in JSON.
pub(super) enum Part<'p> {
    /// The text before or after the items.
    Text(&'p [u8]),
    /// An object, and its text with the comma before it.
    Item(&'p CachedObject, &'p [u8]),
}

impl Producer for ListWriter {
    fn next_piece(&mut self, bytes: usize) -> Vec<u8> {
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

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Writes an item, with a comma before it unless it is the first. Returns whether it did: for an
/// object that cannot be shown nothing is written, not even a comma.
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

/// Compresses pieces into one gzip body.
fn compressed(pieces: LocalBoxStream<'static, Vec<u8>>) -> impl Stream<Item = Bytes> + 'static {
    stream::unfold(Some((pieces, Gzip::default())), |state| async move {
        let (mut pieces, mut gzip) = state?;
        // The compressor may buffer a piece and return nothing. Empty chunks are not sent.
        while let Some(piece) = pieces.next().await {
            let out = gzip.push(&piece);
            if !out.is_empty() {
                return Some((Bytes::from(out), Some((pieces, gzip))));
            }
        }
        Some((Bytes::from(gzip.finish()), None))
    })
}
