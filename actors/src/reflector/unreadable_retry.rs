//! Waits until one of the unreadable values can be decoded.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::unreadable::{Page, UnreadableValues};
use crate::cacher::Update;
use crate::engine::Event;
use crate::object::Decode;

/// How often some of the values are retried.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The unreadable values of a resource, and when they are retried.
#[derive(Default)]
pub(super) struct UnreadableRetry {
    values: UnreadableValues,
    /// When they are retried next.
    next: Option<Instant>,
}

impl UnreadableRetry {
    /// Replaces the values by those of a page that is the whole content.
    pub(super) fn replace(&mut self, page: &Page) {
        self.values = UnreadableValues::of(page);
    }

    /// Follows a batch of events and the updates they were decoded to.
    pub(super) fn follow(&mut self, updates: &[Update], events: &[Event]) {
        self.values.follow(updates, events);
    }

    /// Returns once one of the values can be decoded. It may be dropped and called again at any
    /// time.
    pub(super) async fn readable(&mut self, decode: &dyn Decode) {
        loop {
            if self.values.is_empty() {
                self.next = None;
                return pending().await;
            }
            let next = *self
                .next
                .get_or_insert_with(|| Instant::now() + RETRY_EVERY);
            Box::pin(sleep_until(next)).await;
            self.next = Some(Instant::now() + RETRY_EVERY);
            if self.values.retry_some(decode) {
                return;
            }
        }
    }
}
