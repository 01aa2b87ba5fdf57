//! The content of namespaces at extensions, the servers of remote APIServices (CN-25).

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::namespace_conditions::RemainingContent;

/// The pause between two questions about a namespace that something else holds up anyway.
const PAUSE_WHILE_HELD: Duration = Duration::from_secs(15);

/// The extensions, as the namespace controller needs them.
pub trait Extensions: Send + Sync {
    /// Returns the group versions whose resources are not known, such as `example.com/v1`, because
    /// their extensions are not available or have not described them.
    fn undiscovered(&self) -> BoxFuture<'_, BTreeSet<String>>;

    /// Deletes the objects of a namespace at all extensions, and returns what remains there. It
    /// ends in a bounded time, and names extensions that take longer.
    fn empty<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, RemainingContent>;
}

/// The content of one namespace at extensions, when they were asked last.
#[derive(Debug, Default)]
pub(super) struct ExtensionContent {
    asked: Option<Instant>,
    remaining: RemainingContent,
}

impl ExtensionContent {
    /// Empties the namespace at extensions, and returns what remains there. A namespace that
    /// something else holds up is checked often. Extensions are spared most of these checks.
    pub(super) async fn emptied(
        &mut self,
        extensions: &dyn Extensions,
        namespace: &str,
        is_held: bool,
    ) -> RemainingContent {
        let undiscovered = extensions.undiscovered().await;
        let is_held = is_held || !undiscovered.is_empty();
        let is_recent = self
            .asked
            .is_some_and(|asked| asked.elapsed() < PAUSE_WHILE_HELD);
        if !(is_held && is_recent) {
            self.remaining = extensions.empty(namespace).await;
            self.asked = Some(Instant::now());
        }
        let mut remaining = self.remaining.clone();
        remaining.undiscovered.extend(undiscovered);
        remaining
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    #[derive(Default)]
    struct Fake {
        is_missing: bool,
        asked: AtomicUsize,
    }

    impl Extensions for Fake {
        fn undiscovered(&self) -> BoxFuture<'_, BTreeSet<String>> {
            let missing = self.is_missing.then(|| "a.example/v1".to_owned());
            std::future::ready(missing.into_iter().collect()).boxed()
        }

        fn empty<'a>(&'a self, _: &'a str) -> BoxFuture<'a, RemainingContent> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            let remaining = RemainingContent {
                failures: vec![format!("{asked}")],
                ..RemainingContent::default()
            };
            std::future::ready(remaining).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn extensions_are_asked_before_a_release_and_rarely_while_a_namespace_is_held_cn_25() {
        for (is_held, is_missing) in [(true, false), (false, true)] {
            let mut extensions = Fake {
                is_missing,
                ..Fake::default()
            };
            let mut content = ExtensionContent::default();
            for _ in 0..3 {
                let remaining = content.emptied(&extensions, "n", is_held).await;
                assert_eq!(remaining.failures, ["0"], "the last answers are kept");
                assert_eq!(remaining.undiscovered.len(), usize::from(is_missing));
            }
            tokio::time::advance(PAUSE_WHILE_HELD).await;
            let remaining = content.emptied(&extensions, "n", is_held).await;
            assert_eq!(remaining.failures, ["1"]);
            // Nothing else holds it any more.
            extensions.is_missing = false;
            let remaining = content.emptied(&extensions, "n", false).await;
            assert_eq!(remaining.failures, ["2"]);
            assert!(remaining.undiscovered.is_empty());
        }
    }
}
