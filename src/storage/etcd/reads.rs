//! Reads of one key and of pages of a prefix.

use std::time::Instant;

use actors::engine::{
    At, EngineError, GetResponse, Key, KeyValue, RangeRequest, RangeResponse, Revision,
};
use etcd_client::GetOptions;

use super::call_error::CallError;
use super::cluster::Cluster;
use super::cluster_state::{Header, KnownBefore, number};
use super::etcd_watch::range_of;
use super::events::key_value;
use super::servers::CallKind;

/// A range as etcd answers it.
struct Answer {
    revision: Revision,
    items: Vec<KeyValue>,
    more: bool,
    count: u64,
}

/// Whether any member may answer a read without its leader. The past is the same on every member
/// that has reached it.
fn is_serializable(at: At) -> bool {
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

impl Cluster {
    /// See [`actors::engine::DataEngine::get`].
    pub(super) async fn get(&self, key: Key, at: At) -> Result<GetResponse, EngineError> {
        let answer = self.read(key.as_bytes(), at, CallKind::READ, |options| options);
        let answer = answer.await;
        match answer {
            Ok(answer) => Ok(GetResponse {
                revision: answer.revision,
                item: answer.items.into_iter().next(),
            }),
            Err(error) => Err(self.read_error(error, at).await),
        }
    }

    /// See [`actors::engine::DataEngine::range`]. Reads a page of about the wanted bytes, and a
    /// smaller one where that exceeds a message.
    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EngineError> {
        let (first, end) = range_of(&request.prefix);
        let start = request
            .start
            .filter(|start| *start > first)
            .unwrap_or(first);
        let mut keys = self.page_sizes.keys(&request.prefix, request.limit);
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
            match self.read(&start, request.at, CallKind::PAGE, shape).await {
                Ok(answer) => {
                    self.page_sizes.learn(&request.prefix, &answer.items);
                    return Ok(RangeResponse {
                        revision: answer.revision,
                        items: answer.items,
                        more: answer.more && !count_only,
                        count: answer.count,
                    });
                }
                Err(CallError::AnswerTooLarge) => {
                    let fewer = self.page_sizes.too_large(&request.prefix, keys);
                    keys = fewer.ok_or_else(|| CallError::AnswerTooLarge.into_read_error())?;
                }
                Err(error) => return Err(self.read_error(error, request.at).await),
            }
        }
    }

    /// Reads one range. If a member lags behind the requested revision, another read goes to its
    /// leader.
    async fn read(
        &self,
        key: &[u8],
        at: At,
        manner: CallKind,
        shape: impl Fn(GetOptions) -> GetOptions,
    ) -> Result<Answer, CallError> {
        let is_past = is_serializable(at);
        let ask = |serializable: bool| {
            let options = shape(options(at, serializable));
            self.servers.call(manner, move |member| {
                let (mut kv, key) = (member.kv(), key.to_vec());
                let options = options.clone();
                async move { kv.get(key, Some(options)).await }
            })
        };
        let known = self.state.known();
        let (answer, is_past) = match ask(is_past).await {
            Err(CallError::FutureRevision) if is_past => (ask(false).await, false),
            answer => (answer, is_past),
        };
        Ok(self.take(answer?, known, is_past))
    }

    fn take(
        &self,
        answer: etcd_client::GetResponse,
        known: KnownBefore,
        may_be_old: bool,
    ) -> Answer {
        let header = Header::from(answer.header());
        match may_be_old {
            true => self.state.learn(header, known),
            false => self.state.learn_linearizable(header, known, Instant::now()),
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
