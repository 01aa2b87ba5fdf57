//! Stack space for deeply nested documents.
//!
//! Functions that read, copy, compare, print and drop a tree recurse into each level. Every thread
//! of the daemon has stack for [`SHALLOW`] levels, and no reader builds a deeper tree there. Code
//! that meets a deeper document asks for more stack: [`with_room`] and [`retry_with_room`] for a
//! single step, [`Roomy`] for a request, whose trees live as long as the request. They run on a
//! separate stack for [`MAX_DEPTH`] levels, which is freed afterwards. A reader therefore asks
//! [`levels`] how deep it may go, and a deep tree never leaves the stack that has room for it. A
//! reader that stops because its stack is too small reports that by [`note`], which costs nothing
//! for the usual shallow documents.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::de::{Deserializer, SliceRead};

/// The limit on nested objects and lists, the same as in Go's `encoding/json`.
pub const MAX_DEPTH: usize = 10_000;

/// The number of levels for which every thread has stack. serde_json's own limit is the same.
pub const SHALLOW: usize = 127;

/// The most stack that one level takes in any function that recurses into a tree: twice the
/// measured value. `api/tests/depth.rs` and `kinds/tests/depth.rs` fail if a level takes more than
/// half of this.
pub const LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    16 * 1024
} else {
    4 * 1024
};

/// As [`LEVEL_BYTES`], for the YAML reader.
pub const YAML_LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    64 * 1024
} else {
    12 * 1024
};

/// The stack for [`MAX_DEPTH`] levels.
const ROOM: usize = LEVEL_BYTES * MAX_DEPTH;

/// Stack for the functions around the recursion.
const MARGIN: usize = 1024 * 1024;

thread_local! {
    /// Whether the calling code runs inside a [`Roomy`], which can provide more stack on request.
    static CAN_GROW: Cell<bool> = const { Cell::new(false) };
    /// Whether more stack was requested.
    static GROWTH_REQUESTED: Cell<bool> = const { Cell::new(false) };
    /// Whether a reader has stopped because its stack was too small.
    static HIT_LIMIT: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the current stack has room for [`MAX_DEPTH`] levels.
pub fn has_room() -> bool {
    stacker::remaining_stack().is_some_and(|left| left >= ROOM)
}

/// Returns how many levels a tree may have on the current stack.
pub fn levels() -> usize {
    if has_room() { MAX_DEPTH } else { SHALLOW }
}

/// Runs a step on a stack for [`MAX_DEPTH`] levels.
pub fn with_room<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM, ROOM + MARGIN, step)
}

/// Reads YAML on a stack for as many levels as a tree may have here, and passes that number to
/// `read`.
pub(crate) fn with_room_for_yaml<T>(read: impl FnOnce(usize) -> T) -> T {
    let levels = levels();
    let room = YAML_LEVEL_BYTES * levels;
    stacker::maybe_grow(room, room + MARGIN, || read(levels))
}

/// Records that a reader stopped because its stack was too small.
pub(crate) fn note() {
    HIT_LIMIT.set(true);
}

/// Passes the result of a JSON reader through, and records a stop for lack of stack. serde_json's
/// error does not distinguish that cause.
///
/// # Errors
/// Those of the reader.
pub fn noted<T, E>(json: &[u8], read: Result<T, E>) -> Result<T, E> {
    if read.is_err() && !has_room() && is_deep(json) {
        note();
    }
    read
}

/// Runs a step. Returns `None` if a document in it was too deep for the stack, so that the step
/// must be repeated with more.
fn attempt<T>(step: impl FnOnce() -> T) -> Option<T> {
    HIT_LIMIT.set(false);
    let done = step();
    let is_short = HIT_LIMIT.take() && !has_room();
    (!is_short).then_some(done)
}

/// Runs a step, and repeats it on a larger stack if a document in it is too deep. The step must not
/// return a tree, because the larger stack is freed afterwards.
pub fn retry_with_room<T>(mut step: impl FnMut() -> T) -> T {
    attempt(&mut step).unwrap_or_else(|| with_room(step))
}

/// As [`retry_with_room`], for a step inside a [`Roomy`]. The step may return a tree, because the
/// rest of the request keeps the larger stack.
pub async fn retry<T>(mut step: impl FnMut() -> T) -> T {
    if let Some(done) = attempt(&mut step) {
        return done;
    }
    room().await;
    step()
}

/// Returns a JSON reader whose depth limit fits the current stack.
pub fn reader(json: &[u8]) -> Deserializer<SliceRead<'_>> {
    let mut reader = Deserializer::from_slice(json);
    if has_room() && !is_deeper_than(json, MAX_DEPTH) {
        reader.disable_recursion_limit();
    }
    reader
}

/// Deserializes JSON that is at most as deep as the current stack allows.
///
/// # Errors
/// The text is not valid JSON, does not fit the type, or is too deep.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let mut reader = reader(json);
    let read = T::deserialize(&mut reader);
    noted(json, read.and_then(|read| reader.end().map(|()| read)))
}

/// Returns whether JSON may have more than [`SHALLOW`] levels.
pub fn is_deep(json: &[u8]) -> bool {
    is_deeper_than(json, SHALLOW)
}

/// Returns whether JSON has more than `most` nested objects and lists. The result may be wrongly
/// true for invalid JSON.
pub fn is_deeper_than(json: &[u8], most: usize) -> bool {
    // For most documents the length or the number of opening brackets suffices: each level takes at
    // least two bytes.
    if json.len() / 2 <= most || openings(json) <= most {
        return false;
    }
    let (mut levels, mut is_text, mut is_escaped) = (0_usize, false, false);
    json.iter().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => levels += 1,
            b'}' | b']' if !is_text => levels = levels.saturating_sub(1),
            _ => {}
        }
        levels > most
    })
}

/// Returns the number of opening brackets and braces. Sums bytes over short chunks, which the
/// compiler vectorizes.
fn openings(json: &[u8]) -> usize {
    let is_opening = |byte: &u8| u8::from(byte | 0x20 == b'{');
    let chunks = json.chunks(usize::from(u8::MAX));
    let counts = chunks.map(|chunk| chunk.iter().map(is_opening).sum::<u8>());
    counts.map(usize::from).sum()
}

/// Waits until the rest of the request runs on the larger stack. Outside of a [`Roomy`] it returns
/// without one, and documents that are too deep are refused.
pub async fn room() {
    poll_fn(|context| {
        if has_room() || !CAN_GROW.get() {
            return Poll::Ready(());
        }
        GROWTH_REQUESTED.set(true);
        // A combinator in between may poll only the future that was woken.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A future whose steps run on the larger stack as soon as it asks for that.
pub struct Roomy<F> {
    /// `Some` until the drop.
    work: Option<Pin<Box<F>>>,
    has_requested: bool,
    /// Whether it has run on the larger stack, so that it may hold deep trees.
    is_deep: bool,
}

impl<F: Future> Roomy<F> {
    /// Wraps work that may ask for the larger stack.
    pub fn new(work: F) -> Roomy<F> {
        Roomy {
            work: Some(Box::pin(work)),
            has_requested: false,
            is_deep: false,
        }
    }
}

impl<F: Future> Future for Roomy<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Roomy {
            work,
            has_requested,
            is_deep,
        } = &mut *self;
        let Some(work) = work else {
            return Poll::Pending;
        };
        // The caller may already run on a larger stack.
        *has_requested |= has_room();
        if !*has_requested {
            let polled = with_growth(|| work.as_mut().poll(context));
            *has_requested = GROWTH_REQUESTED.take();
            if !*has_requested || polled.is_ready() {
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
        // Allocating the stack panics if memory is short. The work is leaked then, because dropping
        // a deep tree without that stack would overflow the current one.
        let dropping = || with_room(|| drop(work.take()));
        if std::panic::catch_unwind(AssertUnwindSafe(dropping)).is_err() {
            std::mem::forget(work);
        }
    }
}

/// Runs a step that may ask for the larger stack.
fn with_growth<T>(step: impl FnOnce() -> T) -> T {
    /// Restores the previous value on drop, also after a panic.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            CAN_GROW.set(self.0);
        }
    }

    let _restore = Restore(CAN_GROW.replace(true));
    step()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_of_texts() {
        for most in [1, 127, 300] {
            let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
            assert!(!is_deeper_than(nested(most).as_bytes(), most));
            assert!(is_deeper_than(nested(most + 1).as_bytes(), most));
            let text = format!("{{\"a\":\"{}\"}}", "[{\\\"".repeat(1000));
            assert!(!is_deeper_than(text.as_bytes(), most));
            let flat = format!("[{}1]", "[],{},".repeat(1000));
            assert_eq!(openings(flat.as_bytes()), 2001);
            assert_eq!(is_deeper_than(flat.as_bytes(), most), most == 1);
        }
    }
}
