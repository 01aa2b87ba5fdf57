//! One watch, as the stream that serves it sees it.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::start::WatchStart;

/// A registered watch. It belongs to the thread that opened it; dropping it unregisters it.
pub struct Watcher {
    _here: Rc<WatchStart>,
}

impl Watcher {
    pub(super) fn ended(start: WatchStart) -> Watcher {
        Watcher {
            _here: Rc::new(start),
        }
    }

    /// The next frame; `None` is the end.
    pub fn poll_next(&mut self, _context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(None)
    }
}
