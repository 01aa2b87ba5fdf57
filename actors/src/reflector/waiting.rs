//! Waits until one of the values that can't be read can be.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::unread::{Page, Unread};
use crate::cacher::Update;
use crate::engine::Event;
use crate::object::Decode;

/// How often some of them are tried again.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Waiting {
    unread: Unread,
    /// When they are tried next, once there are any.
    next: Option<Instant>,
}

impl Waiting {
    /// Other content has taken the place of what was there.
    pub(super) fn replace(&mut self, page: &Page) {
        self.unread = Unread::of(page);
    }

    /// Follows events and what they were decoded to.
    pub(super) fn follow(&mut self, updates: &[Update], events: &[Event]) {
        self.unread.follow(updates, events);
    }

    /// Comes back once one of them can be read. It may be dropped and called again at any time.
    pub(super) async fn readable(&mut self, decode: &dyn Decode) {
        loop {
            if self.unread.is_empty() {
                self.next = None;
                return pending().await;
            }
            let next = *self.next.get_or_insert_with(|| Instant::now() + TRY_EVERY);
            sleep_until(next).await;
            self.next = Some(Instant::now() + TRY_EVERY);
            if self.unread.can_be_read(decode) {
                return;
            }
        }
    }
}
