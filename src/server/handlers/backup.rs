//! `GET /taffrail/v1/backup` lets operators read the whole store.

use futures_util::{StreamExt, stream};

use super::{Answered, RequestScope};
use crate::api::status::Status;
use crate::server::body::Pieces;
use crate::server::respond;

/// What a backup holds while its client reads nothing: a few frames of some hundred KiB.
const HELD_BYTES: usize = 1 << 20;

/// Streams a backup. It ends when the client leaves or loses its access, and is incomplete then,
/// which its reader notices.
///
/// # Errors
/// 429 while others are being made.
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
