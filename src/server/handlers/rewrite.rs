//! `POST /taffrail/v1/storage/rewrite` rewrites data that was encrypted with old keys, or that has
//! old versions.

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::Answered;
use crate::api::status::Status;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::storage::rewrite::{RewriteProgress, RewrittenValues};
use crate::transport::{PIECE_BYTES, Pieces};

/// Starts the rewriting and streams one line of JSON per step. It stops when the client disconnects
/// or its access is revoked. It begins when all custom resources are served, so it goes over their
/// objects, too. `only=version` leaves values alone that differ only in their key.
///
/// # Errors
/// 400 for another value of `only`, 503 while it is unknown which resources there are.
pub async fn rewrite(scope: &RequestScope<'_>) -> Answered {
    let values = match scope.query.first("only") {
        None => RewrittenValues::All,
        Some("version") => RewrittenValues::OtherVersions,
        Some(other) => {
            let text = format!("only={other:?}: it takes version");
            return Err(Box::new(Status::bad_request(text)));
        }
    };
    if let Some(resources) = &scope.server.unknown_paths {
        resources.settled(None).await?;
    }
    let origin = scope.context.origin();
    let steps = scope.server.rewriter.clone().start(origin, values);
    let lines = stream::unfold(steps, async |mut steps| {
        let step = steps.recv().await?;
        Some((line(&step), steps))
    });
    let authenticator = &scope.server.authenticator;
    let lines = lines.take_until(authenticator.revoked(scope.access.clone()));
    Ok(respond::lines(Pieces::new(lines, PIECE_BYTES)))
}

fn line(step: &RewriteProgress) -> Bytes {
    // Serializing names and numbers into memory cannot fail.
    let mut line = serde_json::to_vec(step).unwrap_or_default();
    line.push(b'\n');
    Bytes::from(line)
}
