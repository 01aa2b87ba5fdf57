//! What goes on in the background: learning the servers' versions, following what is compacted,
//! looking at the size of the database; and the rounds of the agreement on compaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use actors::engine::{EngineError, Prefix, Revision};
use etcd_client::proto::PbTxnOpResponse;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tokio::runtime::Handle;

use super::Shared;
use super::agreement::{self, Bid};
use super::fault::Fault;
use super::seen::{Floor, Header, number};
use super::servers::{Manner, Member};
use super::stream::Message;
use super::version::believes_progress;

/// Watches of the past are looked through so often.
const SWEPT_EVERY: Duration = Duration::from_secs(3);
/// Servers are upgraded, and rolled back.
const VERSION_EVERY: Duration = Duration::from_secs(60);
/// Pauses between attempts to learn a server's version (ST-72).
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Before the compactions of others are followed again (OP-15).
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// How long a server may take to say how it is.
const STATUS_WITHIN: Duration = Duration::from_secs(2);

pub(super) fn start(shared: &Arc<Shared>, handle: &Handle, size_every: Duration) {
    for number in 0..shared.servers.all().len() {
        handle.spawn(follow_version(Arc::clone(shared), number));
    }
    handle.spawn(follow_compactions(Arc::clone(shared)));
    handle.spawn(sweep_parked(Arc::clone(shared)));
    if !size_every.is_zero() {
        handle.spawn(watch_size(Arc::clone(shared), size_every));
    }
}

/// Asks a server for its version now and then (ST-72).
async fn follow_version(shared: Arc<Shared>, number: usize) {
    let mut closed = shared.closed.subscribe();
    let mut pause = FIRST_PAUSE;
    while let Some(member) = shared.servers.all().get(number) {
        let next = match learn_version(member).await {
            true => VERSION_EVERY,
            false => {
                let longer = (pause * 2).min(LONGEST_PAUSE);
                std::mem::replace(&mut pause, longer)
            }
        };
        tokio::select! {
            _ = closed.changed() => return,
            () = tokio::time::sleep(next) => {}
        }
    }
}

/// Asks a server for its version once; whether it said it.
pub(super) async fn learn_version(member: &Member) -> bool {
    match version_of(member).await {
        Ok(version) => judge(member, &version),
        Err(why) => {
            tracing::debug!(server = %member.url, why, "its version is not known");
            return false;
        }
    }
    true
}

fn judge(member: &Member, version: &str) {
    let truthful = believes_progress(version);
    if !member.truthful.learn(truthful) {
        return;
    }
    if truthful {
        tracing::debug!(server = %member.url, version, "its version is known");
    } else {
        tracing::warn!(
            server = %member.url,
            version,
            "this etcd can't be relied on to say how far a watch is: consistent reads go to etcd; \
             versions from 3.4.31 and 3.5.13 on serve them from the cache"
        );
    }
}

async fn version_of(member: &Member) -> Result<String, String> {
    let mut maintenance = member.maintenance.clone();
    let status = tokio::time::timeout(STATUS_WITHIN, maintenance.status());
    match status.await {
        Ok(Ok(status)) => Ok(status.version().to_owned()),
        Ok(Err(error)) => Err(Fault::of(&error).into_error().to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Learns from the key of the agreement what others have compacted (OP-15).
async fn follow_compactions(shared: Arc<Shared>) {
    let mut closed = shared.closed.subscribe();
    loop {
        tokio::select! {
            _ = closed.changed() => return,
            () = tokio::time::sleep(FOLLOW_PAUSE) => {}
        }
        let followed = tokio::select! {
            _ = closed.changed() => return,
            followed = follow(&shared) => followed,
        };
        if let Err(error) = followed {
            tracing::debug!(%error, "what others compact is followed again");
        }
    }
}

async fn follow(shared: &Shared) -> Result<(), EngineError> {
    let lineage = shared.seen.lineage();
    let key = actors::engine::Key::new(agreement::KEY);
    let learn = |value: &[u8], written_at: Revision| {
        if let Some(revision) = agreement::compacted(value, written_at) {
            shared.seen.learn_compacted(revision, lineage);
        }
    };
    let read = shared.get(key.clone(), actors::engine::At::Latest).await?;
    if let Some(item) = read.item {
        learn(&item.value, item.revision);
    }
    let mut stream = shared
        .open_stream(&Prefix::new(key.as_bytes()), read.revision)
        .await?;
    loop {
        let Some(Message::Events(events)) = stream.next(shared).await? else {
            continue;
        };
        for event in events.iter().filter(|event| event.key == key) {
            learn(&event.value, event.revision);
        }
    }
}

/// Ends watches of the past that nobody came back for.
async fn sweep_parked(shared: Arc<Shared>) {
    let mut closed = shared.closed.subscribe();
    loop {
        tokio::select! {
            _ = closed.changed() => return,
            () = tokio::time::sleep(SWEPT_EVERY) => shared.parked.sweep(),
        }
    }
}

async fn watch_size(shared: Arc<Shared>, every: Duration) {
    loop {
        let size = match shared.servers.current() {
            Some((_, member)) => size_of(member).await,
            None => None,
        };
        // What it was is no answer to what it is (ME-11).
        let known = size.unwrap_or_default();
        shared.database_bytes.store(known, Ordering::Relaxed);
        // A server that does not answer yet will soon.
        let pause = if size.is_some() {
            every
        } else {
            every.min(STATUS_WITHIN)
        };
        tokio::time::sleep(pause).await;
    }
}

async fn size_of(member: &Member) -> Option<i64> {
    let mut maintenance = member.maintenance.clone();
    let status = tokio::time::timeout(STATUS_WITHIN, maintenance.status());
    Some(status.await.ok()?.ok()?.db_size())
}

impl Shared {
    /// A round of the agreement if one is due, and the compaction if it is this daemon's to do:
    /// what is compacted now. It is done here and at once: who follows the key takes it for done,
    /// this daemon too.
    pub(super) async fn agree(&self) -> Result<Revision, EngineError> {
        let bid = self.agreement.lock().bid(Instant::now());
        if let Some(bid) = bid
            && let Some(up_to) = self.offer(bid, self.seen.floor()).await?
        {
            self.compact(up_to).await?;
        }
        Ok(self.seen.compacted())
    }

    async fn offer(&self, bid: Bid, floor: Floor) -> Result<Option<Revision>, EngineError> {
        let transaction = Txn::new()
            .when([Compare::version(
                agreement::KEY,
                CompareOp::Equal,
                bid.version,
            )])
            .and_then([TxnOp::put(agreement::KEY, bid.revision.to_string(), None)])
            .or_else([TxnOp::get(agreement::KEY, None)]);
        let answer = self
            .servers
            .call(Manner::CHANGE, |member| {
                let (mut kv, transaction) = (member.kv(), transaction.clone());
                async move { kv.txn(transaction).await }
            })
            .await
            .map_err(Fault::of_effect)?;
        let header = Header::from(answer.header());
        self.note_linearizable(header, floor);
        let answer = answer.0;
        let mut agreement = self.agreement.lock();
        if answer.succeeded {
            return Ok(agreement.won(header.revision));
        }
        let read = answer
            .responses
            .into_iter()
            .find_map(|response| match response.response {
                Some(PbTxnOpResponse::ResponseRange(range)) => range.kvs.into_iter().next(),
                _ => None,
            });
        let version = read.as_ref().map_or(0, |kv| kv.version);
        agreement.lost(version, header.revision);
        let compacted = read.and_then(|kv| agreement::compacted(&kv.value, header.revision));
        if let Some(revision) = compacted {
            self.seen.learn_compacted(revision, floor.lineage());
        }
        Ok(None)
    }

    /// See [`actors::engine::MaintenanceEngine::compact`].
    pub(super) async fn compact(&self, up_to: Revision) -> Result<(), EngineError> {
        let lineage = self.seen.lineage();
        let compacted = self
            .servers
            .call(Manner::PAGE, |member| {
                let mut kv = member.kv();
                async move { kv.compact(number(up_to), None).await }
            })
            .await;
        match compacted {
            // Somebody has compacted further.
            Ok(_) | Err(Fault::Compacted) => {
                self.seen.learn_compacted(up_to, lineage);
                Ok(())
            }
            Err(Fault::Future) => Err(EngineError::FutureRevision {
                requested: up_to,
                current: self.newest().await?,
            }),
            Err(fault) => Err(fault.into_error()),
        }
    }
}
