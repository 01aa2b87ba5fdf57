//! Decides which history retention drops, by age and by bytes. Pure.

use std::time::SystemTime;

use crate::engine::{Retention, Revision};

/// A point in the log: every event up to this revision happened up to this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineMark {
    /// The revision.
    pub revision: Revision,
    /// When it was committed.
    pub time: SystemTime,
    /// Bytes of all records superseded by the events from the store's beginning up to here. The
    /// difference of two marks is what compacting from one to the other gives back.
    pub superseded_bytes: u64,
}

/// The newest revision that retention forgets, among marks in ascending order. The walk stops at
/// the first mark that must stay. By bytes no more is forgotten than brings the rest within the
/// limit, and the first mark only if the records after it exceed the limit alone. A mark in the
/// future (a clock that was set back) stays until its time comes, or until the bytes are too many:
/// history is never lost to a wrong clock alone.
pub fn horizon(
    marks: impl IntoIterator<Item = TimelineMark>,
    retention: Retention,
    now: SystemTime,
    superseded_bytes: u64,
) -> Revision {
    let cutoff = now.checked_sub(retention.age);
    let mut kept_before = None;
    marks
        .into_iter()
        .take_while(|mark| {
            let old = cutoff.is_some_and(|cutoff| mark.time <= cutoff);
            let kept_after = superseded_bytes.saturating_sub(mark.superseded_bytes);
            let kept = kept_before.replace(kept_after).unwrap_or(kept_after);
            old || kept > retention.bytes
        })
        .last()
        .map_or(Revision::ZERO, |mark| mark.revision)
}
