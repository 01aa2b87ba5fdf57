//! Checks that the newest event seen is still in etcd's log.
//!
//! A watch that is opened again asks for this: the cluster may have been restored meanwhile and
//! reached the same revision again. The check follows the opening of the stream. A cluster that is
//! replaced after that breaks the stream.

use std::time::Instant;

use actors::engine::{EngineError, Revision};
use etcd_client::{GetOptions, GetResponse};

use super::call_error::CallError;
use super::cluster_state::{ClusterState, Header, LastEvent, number};
use super::events::key_value;
use super::servers::{CallKind, Servers};

/// Begins another epoch if etcd does not have the newest event seen.
///
/// # Errors
/// When etcd does not answer.
pub(super) async fn check_last_event(
    servers: &Servers,
    state: &ClusterState,
) -> Result<(), EngineError> {
    let Some(last) = state.last_event() else {
        return Ok(());
    };
    for at in last.read_at() {
        check_at(servers, state, &last, at).await?;
    }
    Ok(())
}

async fn check_at(
    servers: &Servers,
    state: &ClusterState,
    last: &LastEvent,
    at: Revision,
) -> Result<(), EngineError> {
    let known = state.known();
    let options = GetOptions::new().with_keys_only();
    let past = options.clone().with_revision(number(at));
    let answer = match read(servers, last, past).await {
        Ok(answer) => answer,
        // The revision is compacted, so nothing can be checked.
        Err(CallError::Compacted) => return Ok(()),
        // The cluster was rolled back. An answer with its revision shows it.
        Err(CallError::FutureRevision) => {
            let answer = read(servers, last, options).await;
            let answer = answer.map_err(CallError::into_read_error)?;
            state.learn_linearizable(Header::from(answer.header()), known, Instant::now());
            return Ok(());
        }
        Err(error) => return Err(error.into_read_error()),
    };
    let header = Header::from(answer.header());
    state.learn_linearizable(header, known, Instant::now());
    let found = answer.0.kvs.into_iter().next().map(key_value);
    if !last.agrees(at, found.as_ref()) {
        state.contradict(last, header, known.epoch());
    }
    Ok(())
}

async fn read(
    servers: &Servers,
    last: &LastEvent,
    options: GetOptions,
) -> Result<GetResponse, CallError> {
    let read = servers.call(CallKind::READ, |member| {
        let (mut kv, key) = (member.kv(), last.key.as_bytes().to_vec());
        let options = options.clone();
        async move { kv.get(key, Some(options)).await }
    });
    read.await
}
