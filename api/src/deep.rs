//! Room on the stack for documents that nest deeply.
//!
//! Functions that read, copy, compare, print and drop a tree call themselves for each level. Every
//! thread of the daemon has room for [`SHALLOW`] levels, and no reader makes a deeper tree on it.
//! Code that meets a deeper document asks for more: [`with_room`] and [`retry_with_room`] for a
//! step, and [`Roomy`] for a request, whose trees live as long as the request. They run on a stack
//! that has room for [`MAX_DEPTH`] levels and is given back afterwards. So a reader asks [`levels`]
//! how deep it may go, and a tree never leaves the stack that has room for it. A reader that stops
//! for want of room says so by [`note`], which costs nothing where documents are as shallow as
//! most.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::de::{Deserializer, SliceRead};

use crate::go_json::is_deeper_than;

/// The limit on objects and lists inside each other, which is Go's.
pub const MAX_DEPTH: usize = 10_000;

/// How many levels any thread has room for. The reader of JSON stops there by itself, too.
pub const SHALLOW: usize = 127;

/// The stack that one level takes, at most, of all that goes down a tree: twice of what was
/// measured. `api/tests/depth.rs` and `kinds/tests/depth.rs` fail if it is more than half of this.
pub const LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    16 * 1024
} else {
    4 * 1024
};

/// As [`LEVEL_BYTES`], of the reader of YAML.
pub const YAML_LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    64 * 1024
} else {
    12 * 1024
};

/// The stack that [`MAX_DEPTH`] levels take.
const ROOM: usize = LEVEL_BYTES * MAX_DEPTH;

/// Room for the functions around the tree.
const AROUND: usize = 1024 * 1024;

thread_local! {
    /// Whether a [`Roomy`] runs here that would get room if it were asked for.
    static GIVES: Cell<bool> = const { Cell::new(false) };
    /// Whether it was asked.
    static ASKED: Cell<bool> = const { Cell::new(false) };
    /// Whether a reader has stopped for want of room.
    static SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Whether the stack has room for [`MAX_DEPTH`] levels.
pub fn has_room() -> bool {
    stacker::remaining_stack().is_some_and(|left| left >= ROOM)
}

/// How many levels a tree may have that is made here.
pub fn levels() -> usize {
    match has_room() {
        true => MAX_DEPTH,
        false => SHALLOW,
    }
}

/// Does a step on a stack that has room.
pub fn with_room<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM, ROOM + AROUND, step)
}

/// Reads YAML on a stack for as many levels as its tree may have here.
pub(crate) fn with_room_for_yaml<T>(read: impl FnOnce(usize) -> T) -> T {
    let levels = levels();
    let room = YAML_LEVEL_BYTES * levels;
    stacker::maybe_grow(room, room + AROUND, || read(levels))
}

/// Notes that a reader stops for want of room.
pub(crate) fn note() {
    SHORT.set(true);
}

/// Notes it of the reader of JSON, which doesn't say why it failed.
///
/// # Errors
/// Those of the reader.
pub fn noted<T, E>(json: &[u8], read: Result<T, E>) -> Result<T, E> {
    if read.is_err() && !has_room() && is_deep(json) {
        note();
    }
    read
}

/// Does a step. Says `None` if a document in it was too deep for the stack, so that it is to be
/// done again with room.
fn attempt<T>(step: impl FnOnce() -> T) -> Option<T> {
    SHORT.set(false);
    let done = step();
    let is_short = SHORT.take() && !has_room();
    (!is_short).then_some(done)
}

/// Does a step, and again with room if a document in it is too deep for the stack. It must return
/// no tree.
pub fn retry_with_room<T>(mut step: impl FnMut() -> T) -> T {
    attempt(&mut step).unwrap_or_else(|| with_room(step))
}

/// As [`retry_with_room`], of a step of a [`Roomy`] that may return a tree: the rest of the request
/// has room then.
pub async fn retry<T>(mut step: impl FnMut() -> T) -> T {
    if let Some(done) = attempt(&mut step) {
        return done;
    }
    room().await;
    step()
}

/// A reader of JSON that goes as deep as there is room.
pub fn reader(json: &[u8]) -> Deserializer<SliceRead<'_>> {
    let mut reader = Deserializer::from_slice(json);
    if has_room() && !is_deeper_than(json, MAX_DEPTH) {
        reader.disable_recursion_limit();
    }
    reader
}

/// Reads JSON that is as deep as there is room.
///
/// # Errors
/// It is no JSON, not of the type, or too deep.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let mut reader = reader(json);
    let read = T::deserialize(&mut reader);
    noted(json, read.and_then(|read| reader.end().map(|()| read)))
}

/// Whether JSON may have more than [`SHALLOW`] levels.
pub fn is_deep(json: &[u8]) -> bool {
    is_deeper_than(json, SHALLOW)
}

/// Waits until the rest of the request has room. Outside of a [`Roomy`] it gets none, and what is
/// too deep is refused.
pub async fn room() {
    poll_fn(|context| {
        if has_room() || !GIVES.get() {
            return Poll::Ready(());
        }
        ASKED.set(true);
        // A combinator between here and there may poll only the future that was woken.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Work whose steps run on a stack that has room, from when it asks for that.
pub struct Roomy<F> {
    /// `Some` until the drop.
    work: Option<Pin<Box<F>>>,
    has_asked: bool,
    /// Whether it has had room, so that there may be deep trees in it.
    is_deep: bool,
}

impl<F: Future> Roomy<F> {
    /// Work that may ask for room.
    pub fn new(work: F) -> Roomy<F> {
        Roomy {
            work: Some(Box::pin(work)),
            has_asked: false,
            is_deep: false,
        }
    }
}

impl<F: Future> Future for Roomy<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Roomy {
            work,
            has_asked,
            is_deep,
        } = &mut *self;
        let Some(work) = work else {
            return Poll::Pending;
        };
        // There may be room around it.
        *has_asked |= has_room();
        if !*has_asked {
            let polled = giving(|| work.as_mut().poll(context));
            *has_asked = ASKED.take();
            if !*has_asked || polled.is_ready() {
                return polled;
            }
        }
        with_room(|| {
            *is_deep = true;
            work.as_mut().poll(context)
        })
    }
}

impl<F> Drop for Roomy<F> {
    fn drop(&mut self) {
        let mut work = self.work.take();
        if !self.is_deep {
            return;
        }
        // Without memory for a stack there is a panic, and what needs that stack is left.
        let dropping = || with_room(|| drop(work.take()));
        if std::panic::catch_unwind(AssertUnwindSafe(dropping)).is_err() {
            std::mem::forget(work);
        }
    }
}

/// Runs a step that may ask for room.
fn giving<T>(step: impl FnOnce() -> T) -> T {
    /// Puts back what was there before, after a panic too.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            GIVES.set(self.0);
        }
    }

    let _restore = Restore(GIVES.replace(true));
    step()
}
