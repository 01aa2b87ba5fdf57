//! `POST /taffrail/v1/storage/rewrite` rewrites data that was encrypted with old keys.

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Answer};
use crate::storage::rewrite::RewriteProgress;
use crate::transport::{PIECE_BYTES, Pieces};

/// Starts the rewriting and streams one line of JSON per step. It stops when the client disconnects
/// or its access is revoked.
pub fn rewrite(scope: &RequestScope<'_>) -> Answer {
    let origin = scope.context.origin();
    let steps = scope.server.rewriter.clone().start(origin);
    let lines = stream::unfold(steps, async |mut steps| {
        let step = steps.recv().await?;
        Some((line(&step), steps))
    });
    let authenticator = &scope.server.authenticator;
    let lines = lines.take_until(authenticator.revoked(scope.access.clone()));
    respond::lines(Pieces::new(lines, PIECE_BYTES))
}

fn line(step: &RewriteProgress) -> Bytes {
    // Serializing names and numbers into memory cannot fail.
    let mut line = serde_json::to_vec(step).unwrap_or_default();
    line.push(b'\n');
    Bytes::from(line)
}
