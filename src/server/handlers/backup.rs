//! `GET /taffrail/v1/backup` streams the whole store to operators.

use futures_util::{StreamExt, stream};

use super::Answered;
use crate::api::status::Status;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::transport::Pieces;

/// The memory that a backup takes while its client does not read: a few frames of some hundred KiB.
const HELD_BYTES: usize = 1 << 20;

/// Streams a backup. If the client disconnects or its access is revoked, the backup ends early; its
/// reader detects that it is incomplete.
///
/// # Errors
/// 429 while too many other backups are running.
pub fn backup(scope: &RequestScope<'_>) -> Answered {
    let store = scope.server.own_store.as_ref();
    let Some(pieces) = store.and_then(|store| store.backup.begin()) else {
        let text = "other backups are being made, please try again later";
        return Err(Box::new(Status::too_many_requests(text, 10)));
    };
    let pieces = stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.recv().await?;
        Some((piece, pieces))
    });
    let authenticator = &scope.server.authenticator;
    let pieces = pieces.take_until(authenticator.revoked(scope.access.clone()));
    Ok(respond::bytes(Pieces::new(pieces, HELD_BYTES)))
}
