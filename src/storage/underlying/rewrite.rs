//! Rewrites values that another key or provider than the current first one has written, and values
//! of other versions of their kind (KV-28): the empty update of ST-56, for many values. If only the
//! encryption changes, objects are not decoded.

use std::time::Instant;

use actors::engine::{
    At, Change, EngineError, Expect, KeyValue, Mutation, Origin, Outcome, Prepared, RangeRequest,
    Revision,
};
use actors::object::DecodeError;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Underlying;
use super::outstanding::Outstanding;
use crate::storage::transformer::TransformError;
use crate::storage::{StorageError, StorageErrorKind};

/// Values of one page.
const PAGE: usize = 500;

/// The number of concurrent writes. Their commits share disk syncs.
const CONCURRENT: usize = 16;

/// The most attempts for a key that others write. Each of their writes uses the current key, so one
/// attempt should be enough.
const ATTEMPTS: usize = 100;

/// The values that are rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewrittenValues {
    /// Those that old keys have encrypted, and those of other versions than the configured one.
    #[default]
    All,
    /// Those of other versions.
    OtherVersions,
}

/// The outcome for a page of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewrittenPage {
    /// Values read.
    pub seen: u64,
    /// Stale values: those that another key than the current first one had written, and those of
    /// another version. Only the expired ones remain.
    pub stale: u64,
    /// Stale values whose lease has expired, but which are not deleted yet.
    pub expired: u64,
    /// Stale values that this call has rewritten. Others may have rewritten the rest.
    pub written: u64,
    /// Values that no key can read, one line for the operator each.
    pub unreadable: Vec<String>,
    /// Values of other versions that can't be decoded, one line each.
    pub undecodable: Vec<String>,
    /// The start of the next page, if there is one.
    pub next: Option<Vec<u8>>,
}

/// The outcome for a value.
enum ValueOutcome {
    Fresh,
    Stale {
        written: bool,
    },
    /// Stale, and its lease has expired. It can only be waited for.
    Expired,
    Unreadable(TransformError),
    Undecodable(DecodeError),
}

/// The outcome of a commit.
enum CommitOutcome {
    Yes,
    /// The key is absent now.
    Gone,
    /// This value has replaced it.
    Replaced(KeyValue),
    /// Its lease has expired. It will be deleted.
    Expired,
}

impl From<Option<KeyValue>> for CommitOutcome {
    fn from(current: Option<KeyValue>) -> CommitOutcome {
        current.map_or(CommitOutcome::Gone, CommitOutcome::Replaced)
    }
}

impl Underlying {
    /// Reads a page of the state at a revision and rewrites the stale values.
    ///
    /// # Errors
    /// [`StorageErrorKind::Expired`] for a compacted state. Errors of the engine.
    pub async fn rewrite_page(
        &self,
        at: Revision,
        start: Option<Vec<u8>>,
        values: RewrittenValues,
        origin: &Origin,
    ) -> Result<RewrittenPage, StorageError> {
        let prefix = self.keys.resource_prefix();
        let started = Instant::now();
        let answer = self
            .engine
            .range(RangeRequest {
                prefix: prefix.clone(),
                start,
                at: At::Revision(at),
                limit: PAGE,
                count_only: false,
            })
            .await;
        self.metrics.request("list", started, answer.is_ok());
        let answer = answer.map_err(|error| self.engine_fault(&prefix.to_string(), error))?;
        let next = match answer.items.last() {
            Some(last) if answer.more => Some([last.key.as_bytes(), b"\0"].concat()),
            _ => None,
        };
        let mut page = RewrittenPage {
            seen: answer.items.len() as u64,
            next,
            ..RewrittenPage::default()
        };
        let mut outcomes = stream::iter(answer.items)
            .map(|item| self.rewrite_value(item, values, origin))
            .buffer_unordered(CONCURRENT);
        while let Some(outcome) = outcomes.try_next().await? {
            match outcome {
                ValueOutcome::Fresh => {}
                ValueOutcome::Stale { written } => {
                    page.stale += 1;
                    page.written += u64::from(written);
                }
                ValueOutcome::Expired => {
                    page.stale += 1;
                    page.expired += 1;
                }
                ValueOutcome::Unreadable(error) => page.unreadable.push(error.to_string()),
                ValueOutcome::Undecodable(error) => page.undecodable.push(error.to_string()),
            }
        }
        Ok(page)
    }

    async fn rewrite_value(
        &self,
        mut item: KeyValue,
        values: RewrittenValues,
        origin: &Origin,
    ) -> Result<ValueOutcome, StorageError> {
        // Yield, even when there is little to do.
        tokio::task::yield_now().await;
        let mut outcome = ValueOutcome::Fresh;
        for _ in 0..ATTEMPTS {
            let transformer = &self.decoder.transformer;
            let hold = transformer.hold();
            let read = transformer.transform_from_storage(&item.key, &item.value);
            let (plain, is_stale) = match read {
                Ok(read) => read,
                Err(error) => return Ok(ValueOutcome::Unreadable(error)),
            };
            let codec = &self.decoder.codec;
            let now = (self.decoder.clock)();
            let plain = match codec.renewed(&item.key, item.revision, &plain, now) {
                Err(error) => return Ok(ValueOutcome::Undecodable(error)),
                Ok(Some(renewed)) => renewed,
                Ok(None) if is_stale && values == RewrittenValues::All => plain.to_vec(),
                Ok(None) => return Ok(outcome),
            };
            outcome = ValueOutcome::Stale { written: false };
            let value = transformer.transform_to_storage(&item.key, plain);
            let value = value.map_err(|error| {
                self.fault(
                    &item.key.to_text(),
                    StorageErrorKind::Internal(error.to_string()),
                )
            })?;
            // The lease is neither renewed nor removed.
            let change = Change::Put {
                value,
                lease: item.lease,
            };
            let outstanding = Outstanding::new(hold);
            match self
                .commit_value(&item, change, origin, outstanding)
                .await?
            {
                CommitOutcome::Yes => return Ok(ValueOutcome::Stale { written: true }),
                CommitOutcome::Gone => return Ok(outcome),
                CommitOutcome::Replaced(newer) => item = newer,
                CommitOutcome::Expired => return Ok(ValueOutcome::Expired),
            }
        }
        let text = "others write this key too fast for it to be rewritten".to_owned();
        Err(self.fault(&item.key.to_text(), StorageErrorKind::Unavailable(text, 1)))
    }

    /// Commits if the value is still the same.
    async fn commit_value(
        &self,
        item: &KeyValue,
        change: Change,
        origin: &Origin,
        outstanding: Outstanding,
    ) -> Result<CommitOutcome, StorageError> {
        let started = Instant::now();
        let answer = self
            .engine
            .commit(Mutation {
                key: item.key.clone(),
                expect: Expect::Unchanged(item.revision),
                change,
                origin: origin.clone(),
                prepared: Prepared::default(),
            })
            .await;
        self.metrics.request("update", started, answer.is_ok());
        outstanding.answered(&answer);
        match answer {
            Ok(Outcome::Committed(_)) => Ok(CommitOutcome::Yes),
            Ok(Outcome::Refused { current, .. }) => Ok(current.into()),
            // The value is about to be deleted, or has just been deleted.
            Err(EngineError::LeaseNotFound(_)) => {
                let found = self.engine.get(item.key.clone(), At::Latest).await;
                let found = found.map_err(|error| self.engine_fault(&item.key.to_text(), error))?;
                Ok(match found.item {
                    Some(same) if same.revision == item.revision => CommitOutcome::Expired,
                    other => other.into(),
                })
            }
            Err(error) => {
                if let (EngineError::OutcomeUnknown(_), Some(writers)) = (&error, &self.writers) {
                    writers.forget_all().await;
                }
                Err(self.engine_fault(&item.key.to_text(), error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use actors::engine::{DataEngine, Key, LeaseEngine, LeaseId, MaintenanceEngine, MemoryEngine};
    use actors::lessor::{LeaseReuse, LessorHandle};
    use bytes::Bytes;

    use super::*;
    use crate::kinds::definitions::core::configmaps;
    use crate::storage::codec::Codec;
    use crate::storage::keys::Keys;
    use crate::storage::transformer::Transformer;
    use crate::storage::underlying::StoredDecoder;
    use RewrittenValues::All as ALL;

    /// Writes `new:`, reads that and `old:`.
    struct Rotated;

    impl Transformer for Rotated {
        fn transform_from_storage(
            &self,
            key: &Key,
            stored: &Bytes,
        ) -> Result<(Bytes, bool), TransformError> {
            let text = stored.clone();
            match stored.get(..4) {
                Some(b"new:") => Ok((text.slice(4..), false)),
                Some(b"old:") => Ok((text.slice(4..), true)),
                _ => Err(TransformError {
                    key: key.to_string(),
                    reason: "by another key".to_owned(),
                }),
            }
        }

        fn transform_to_storage(&self, _: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError> {
            Ok([b"new:".as_slice(), &plain].concat().into())
        }
    }

    async fn put(engine: &Arc<MemoryEngine>, name: &str, value: &str, lease: LeaseId) {
        let change = Change::Put {
            value: Bytes::copy_from_slice(value.as_bytes()),
            lease,
        };
        let mutation = Mutation {
            key: Key::new(format!("/registry/configmaps/{name}")),
            expect: Expect::Absent,
            change,
            origin: Origin::default(),
            prepared: Prepared::default(),
        };
        let outcome = engine.commit(mutation).await.unwrap();
        assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    }

    fn store(engine: &Arc<MemoryEngine>) -> Underlying {
        let decoder = StoredDecoder::new(Codec::new(configmaps()), Arc::new(Rotated));
        let keys = Keys::new("/registry", "configmaps").unwrap();
        let lessor = LessorHandle::new(engine.clone(), LeaseReuse::default());
        Underlying::new(engine.clone(), keys, Arc::new(decoder), lessor, None)
    }

    async fn values(engine: &Arc<MemoryEngine>) -> Vec<(String, LeaseId)> {
        let request = RangeRequest {
            prefix: actors::engine::Prefix::new("/registry/configmaps/"),
            start: None,
            at: At::Latest,
            limit: 0,
            count_only: false,
        };
        let items = engine.range(request).await.unwrap().items.into_iter();
        let text = |item: KeyValue| String::from_utf8(item.value.to_vec()).unwrap();
        items.map(|item| (text(item.clone()), item.lease)).collect()
    }

    #[tokio::test]
    async fn what_is_stale_is_written_anew_and_stays_what_it_is_st_56() {
        let engine = MemoryEngine::new();
        let lease = engine.grant(Duration::from_secs(3600)).await.unwrap().id;
        let none = LeaseId::default();
        // A value that is not an object is rewritten like any other.
        put(&engine, "a/a", "old:garbage", none).await;
        put(&engine, "a/b", "old:leased", lease).await;
        put(&engine, "a/c", "new:fresh", none).await;
        put(&engine, "a/d", "lost", none).await;
        let store = store(&engine);
        let origin = Origin::default();
        let page = store
            .rewrite_page(Revision(4), None, ALL, &origin)
            .await
            .unwrap();
        assert_eq!((page.seen, page.stale, page.written), (4, 2, 2));
        assert_eq!(page.unreadable.len(), 1);
        assert!(
            page.unreadable[0].contains("/registry/configmaps/a/d"),
            "{page:?}"
        );
        assert_eq!(page.next, None);
        let expected = [
            ("new:garbage", none),
            ("new:leased", lease),
            ("new:fresh", none),
            ("lost", none),
        ];
        let expected = expected.map(|(text, lease)| (text.to_owned(), lease));
        assert_eq!(values(&engine).await, expected);

        // The same old state once more: the values are rewritten already.
        let page = store
            .rewrite_page(Revision(4), None, ALL, &origin)
            .await
            .unwrap();
        assert_eq!((page.stale, page.written), (2, 0));
        assert_eq!(values(&engine).await, expected);
        let newest = Revision(6);
        let page = store
            .rewrite_page(newest, None, ALL, &origin)
            .await
            .unwrap();
        assert_eq!((page.stale, page.written), (0, 0));
    }

    /// Long enough for the value to be stored in time on a busy machine.
    const LEASE: Duration = Duration::from_millis(500);

    #[tokio::test]
    async fn what_has_outlived_its_lease_is_left_to_die_st_57() {
        let engine = MemoryEngine::new();
        let lease = engine.grant(LEASE).await.unwrap().id;
        put(&engine, "a/a", "old:dying", lease).await;
        put(&engine, "a/b", "old:alive", LeaseId::default()).await;
        tokio::time::sleep(LEASE * 2).await;
        let store = store(&engine);
        let origin = Origin::default();
        let page = store.rewrite_page(Revision(2), None, ALL, &origin).await;
        let page = page.unwrap();
        assert_eq!((page.stale, page.expired, page.written), (2, 1, 1));
        assert_eq!(engine.expire().await.unwrap().expired, 1);
        let page = store.rewrite_page(Revision(4), None, ALL, &origin).await;
        let page = page.unwrap();
        assert_eq!((page.seen, page.stale, page.expired), (1, 0, 0));
    }

    #[tokio::test]
    async fn pages_join_without_a_gap_and_a_state_that_is_gone_is_an_error() {
        let engine = MemoryEngine::new();
        for number in 0..PAGE + 10 {
            put(
                &engine,
                &format!("a/{number:05}"),
                "old:x",
                LeaseId::default(),
            )
            .await;
        }
        let store = store(&engine);
        let origin = Origin::default();
        let at = Revision((PAGE + 10) as u64);
        let first = store.rewrite_page(at, None, ALL, &origin).await.unwrap();
        assert_eq!((first.seen, first.written), (PAGE as u64, PAGE as u64));
        assert!(first.next.is_some());
        let second = store
            .rewrite_page(at, first.next, ALL, &origin)
            .await
            .unwrap();
        assert_eq!((second.seen, second.written, second.next), (10, 10, None));
        engine.compact(at.next()).await.unwrap();
        let gone = store
            .rewrite_page(at, None, ALL, &origin)
            .await
            .unwrap_err();
        assert!(
            matches!(gone.kind, StorageErrorKind::Expired { .. }),
            "{gone:?}"
        );
    }
}
