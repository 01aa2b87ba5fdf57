//! Reads of one key and of pages of a prefix.

use actors::engine::{
    At, EngineError, GetResponse, Key, KeyValue, RangeRequest, RangeResponse, Revision,
};
use etcd_client::GetOptions;

use super::Shared;
use super::events::key_value;
use super::fault::Fault;
use super::seen::{Floor, Header, Witness, number};
use super::servers::Manner;
use super::stream::range_of;

/// A range as etcd answers it.
struct Answer {
    revision: Revision,
    items: Vec<KeyValue>,
    more: bool,
    count: u64,
}

/// How a read at `at` is asked for first: the past looks the same on every member that has got so
/// far, so that any of them may answer without asking its leader.
fn serializable(at: At) -> bool {
    matches!(at, At::Revision(_))
}

fn options(at: At, serializable: bool) -> GetOptions {
    let options = match at {
        At::Latest => GetOptions::new(),
        At::Revision(revision) => GetOptions::new().with_revision(number(revision)),
    };
    match serializable {
        true => options.with_serializable(),
        false => options,
    }
}

impl Shared {
    /// See [`actors::engine::DataEngine::get`].
    pub(super) async fn get(&self, key: Key, at: At) -> Result<GetResponse, EngineError> {
        let answer = self.read(key.as_bytes(), at, Manner::READ, |options| options);
        let answer = answer.await;
        match answer {
            Ok(answer) => Ok(GetResponse {
                revision: answer.revision,
                item: answer.items.into_iter().next(),
            }),
            Err(fault) => Err(self.read_fault(fault, at).await),
        }
    }

    /// See [`actors::engine::DataEngine::range`]: a page of about so many bytes, whatever was asked
    /// for, and a smaller one where that is too much for a message.
    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EngineError> {
        let (first, end) = range_of(&request.prefix);
        let start = request
            .start
            .filter(|start| *start > first)
            .unwrap_or(first);
        let mut keys = self.pages.keys(&request.prefix, request.limit);
        loop {
            let end = end.clone();
            let count_only = request.count_only;
            let shape = move |options: GetOptions| {
                let options = options.with_range(end.clone());
                match count_only {
                    true => options.with_count_only(),
                    false => options.with_limit(keys as i64),
                }
            };
            match self.read(&start, request.at, Manner::PAGE, shape).await {
                Ok(answer) => {
                    self.pages.learn(&request.prefix, &answer.items);
                    return Ok(RangeResponse {
                        revision: answer.revision,
                        items: answer.items,
                        more: answer.more && !count_only,
                        count: answer.count,
                    });
                }
                Err(Fault::AnswerTooLarge) => {
                    let fewer = self.pages.too_large(&request.prefix, keys);
                    keys = fewer.ok_or_else(|| Fault::AnswerTooLarge.into_error())?;
                }
                Err(fault) => return Err(self.read_fault(fault, request.at).await),
            }
        }
    }

    /// Looks whether the newest event that was seen is still what happened. A feed that opens
    /// again asks: its cluster may have been restored meanwhile, and have come as far again.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub(super) async fn ask_witness(&self) -> Result<(), EngineError> {
        let Some(witness) = self.seen.witness() else {
            return Ok(());
        };
        let at = [Some(witness.revision), witness.before()];
        for at in at.into_iter().flatten() {
            self.ask_witness_at(&witness, at).await?;
        }
        Ok(())
    }

    async fn ask_witness_at(&self, witness: &Witness, at: Revision) -> Result<(), EngineError> {
        let floor = self.seen.floor();
        let answer = self.servers.call(Manner::READ, |member| {
            let (mut kv, key) = (member.kv(), witness.key.as_bytes().to_vec());
            let options = options(At::Revision(at), false).with_keys_only();
            async move { kv.get(key, Some(options)).await }
        });
        let answer = match answer.await {
            Ok(answer) => answer,
            // Nobody can say any more.
            Err(Fault::Compacted) => return Ok(()),
            // It is further back than it was: an answer with its revision tells everybody.
            Err(Fault::Future) => return self.newest().await.map(|_| ()),
            Err(fault) => return Err(fault.into_error()),
        };
        let header = Header::from(answer.header());
        let found = self.take(answer, floor, false).items;
        if !witness.agrees(at, found.first())
            && let Some(found) = self.seen.refuted(witness, header, floor.lineage())
        {
            self.broken(&found);
        }
        Ok(())
    }

    /// One range; a member that lags behind the revision asked for is not the last word.
    async fn read(
        &self,
        key: &[u8],
        at: At,
        manner: Manner,
        shape: impl Fn(GetOptions) -> GetOptions,
    ) -> Result<Answer, Fault> {
        let is_past = serializable(at);
        let ask = |serializable: bool| {
            let options = shape(options(at, serializable));
            self.servers.call(manner, move |member| {
                let (mut kv, key) = (member.kv(), key.to_vec());
                let options = options.clone();
                async move { kv.get(key, Some(options)).await }
            })
        };
        let floor = self.seen.floor();
        let (answer, is_past) = match ask(is_past).await {
            Err(Fault::Future) if is_past => (ask(false).await, false),
            answer => (answer, is_past),
        };
        Ok(self.take(answer?, floor, is_past))
    }

    fn take(&self, answer: etcd_client::GetResponse, floor: Floor, may_be_old: bool) -> Answer {
        let header = Header::from(answer.header());
        match may_be_old {
            true => self.note(header, floor),
            false => self.note_linearizable(header, floor),
        }
        let answer = answer.0;
        Answer {
            revision: header.revision,
            items: answer.kvs.into_iter().map(key_value).collect(),
            more: answer.more,
            count: u64::try_from(answer.count).unwrap_or_default(),
        }
    }
}
