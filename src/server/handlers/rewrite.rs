//! `POST /taffrail/v1/storage/rewrite` lets operators rewrite data that was encrypted with old
//! keys.

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::RequestScope;
use crate::server::body::{PIECE_BYTES, Pieces};
use crate::server::respond::{self, Answer};
use crate::storage::rewrite::RewriteProgress;

/// Starts the rewriting and sends one line of JSON per step. It stops when the client leaves or
/// loses its access.
pub fn rewrite(scope: &RequestScope<'_>) -> Answer {
    let origin = scope.context.origin();
    let told = scope.server.rewriter.clone().start(origin);
    let lines = stream::unfold(told, async |mut told| {
        let step = told.recv().await?;
        Some((line(&step), told))
    });
    let authenticator = &scope.server.authenticator;
    let lines = lines.take_until(authenticator.revoked(scope.access.clone()));
    respond::lines(Pieces::new(lines, PIECE_BYTES))
}

fn line(step: &RewriteProgress) -> Bytes {
    // Writing names and numbers into memory cannot fail.
    let mut line = serde_json::to_vec(step).unwrap_or_default();
    line.push(b'\n');
    Bytes::from(line)
}
