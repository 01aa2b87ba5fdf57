//! `GET /taffrail/v1/history/{path of an object}` returns the changes of an object.
//! `GET /taffrail/v1/revision?time=` returns the revision that the store had at a time.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Answered;
use crate::api::options::Query;
use crate::api::request_info::RequestInfo;
use crate::api::resource::{ResourceDefinition, Verb};
use crate::api::status::Status;
use crate::auth::{Attributes, authorization};
use crate::server::encoding::Encoding;
use crate::server::request_scope::{BODY_BYTES_MAX, RequestScope};
use crate::server::respond;
use crate::server::routes::{self, Route, Target};
use crate::storage::history::{ChangeKind, HistorySpan, ObjectChange, ObjectHistory};
use crate::storage::past::PastError;
use crate::transport::{PIECE_BYTES, Pieces};

/// The memory that a history takes while its client does not read: one piece, whose last change may
/// hold an object of maximum length.
const HELD_BYTES: usize = PIECE_BYTES + BODY_BYTES_MAX;

/// The weight of a history among the long reads of a connection, so that two run at a time.
const WEIGHT: u32 = 8;

/// Streams one line of JSON for each change, oldest first. If the rest of the history cannot be
/// read, the last line is a Status. The user also needs permission to get the object.
///
/// # Errors
/// 400 if the path does not name an object, 403 without permission, 410 if the history has been
/// compacted meanwhile.
pub async fn history(scope: &RequestScope<'_>, path: &str) -> Answered {
    let no_object = || Box::new(Status::bad_request(format!("{path:?} names no object")));
    let info = RequestInfo::parse(&Method::GET, path, false, "").map_err(|_| no_object())?;
    let query = Query::default();
    let attributes = Attributes::of(&scope.context.user, &info, &query);
    authorization::authorize(&*scope.server.authorizer, &attributes).await?;
    let route = routes::route(&Method::GET, &info, &scope.generation.catalog);
    let Ok(Route::Resource(target)) = route else {
        return Err(no_object());
    };
    if target.verb != Verb::Get || target.storage.historian().is_none() {
        return Err(no_object());
    }
    let _turn = scope.reads.turn(WEIGHT).await;
    // Read the first piece before the response begins, so that an error still has its status code.
    let first = piece(&target, None).await?;
    let lines = lines(target, Next::Read(first));
    Ok(respond::lines(Pieces::new(lines, HELD_BYTES)))
}

async fn piece(target: &Target, span: Option<HistorySpan>) -> Result<ObjectHistory, Box<Status>> {
    let historian = super::capability(target.storage.historian())?;
    historian.history(target.object(), span).await
}

/// The next piece of a history.
enum Next {
    /// A piece that was read.
    Read(ObjectHistory),
    /// The span of a piece that is read when the client has room for it.
    Unread(HistorySpan),
}

/// Streams the lines of a piece and of those after it.
fn lines(target: Target, first: Next) -> impl Stream<Item = Bytes> {
    stream::unfold(Some((target, first)), async |state| {
        let (target, next) = state?;
        let read = match next {
            Next::Read(read) => Ok(read),
            Next::Unread(span) => piece(&target, Some(span)).await,
        };
        let ObjectHistory { changes, rest } = match read {
            Ok(read) => read,
            Err(status) => {
                let mut line = status.to_json();
                line.push(b'\n');
                return Some((Bytes::from(line), None));
            }
        };
        let kind = target.storage.response_kind();
        let text: Vec<u8> = changes.iter().flat_map(|one| line(one, kind)).collect();
        let next = rest.map(|span| (target, Next::Unread(span)));
        Some((Bytes::from(text), next))
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'l> {
    resource_version: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    user: &'l str,
    manager: &'l str,
    #[serde(rename = "auditID")]
    audit_id: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'l RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<&'l str>,
}

fn line(change: &ObjectChange, kind: &Arc<ResourceDefinition>) -> Vec<u8> {
    let shown = change.object.as_ref().map(|object| match object {
        Ok(object) => shown(kind, object),
        Err(why) => Err(why.clone()),
    });
    let line = Line {
        resource_version: change.revision.to_string(),
        kind: match change.kind {
            ChangeKind::Earlier => "EARLIER",
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        },
        time: change.time.map(text),
        user: &change.origin.user,
        manager: &change.origin.manager,
        audit_id: &change.origin.audit_id,
        object: shown.as_ref().and_then(|shown| shown.as_deref().ok()),
        unreadable: shown
            .as_ref()
            .and_then(|shown| shown.as_ref().err().map(String::as_str)),
    };
    // Names and JSON always serialize.
    let mut line = serde_json::to_vec(&line).unwrap_or_default();
    line.push(b'\n');
    line
}

fn shown(
    kind: &Arc<ResourceDefinition>,
    object: &actors::object::CachedObject,
) -> Result<Box<RawValue>, String> {
    let json = Encoding::default().object(kind, object);
    let json = json.map_err(|status| status.message.clone())?;
    let json = String::from_utf8(json).map_err(|error| error.to_string())?;
    RawValue::from_string(json).map_err(|error| error.to_string())
}

fn text(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| time.to_string())
}

/// Returns the newest revision that the store had at a time.
///
/// # Errors
/// 400 for an invalid time, or if the store does not record times. 410 for a time before all
/// history.
pub async fn revision(scope: &RequestScope<'_>) -> Answered {
    let form = scope.plain_form()?;
    let asked = scope.query.first("time").unwrap_or_default();
    let time: jiff::Timestamp = asked.parse().map_err(|_| {
        let text = format!("time={asked:?}: not a time such as 2026-11-23T12:00:00Z");
        Box::new(Status::bad_request(text))
    })?;
    let store = scope.server.own_store.as_ref();
    let store =
        store.ok_or_else(|| Box::new(Status::bad_request("the daemon has no store of its own")))?;
    let revision = store.past.revision_at(SystemTime::from(time)).await;
    let revision = revision.map_err(|error| Box::new(refusal(&error)))?;
    let document = serde_json::json!({ "resourceVersion": revision.to_string() });
    let document = document.to_string().into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}

fn refusal(error: &PastError) -> Status {
    match error {
        PastError::NoTimes => Status::bad_request(error.to_string()),
        PastError::TooEarly { .. } => Status::expired(error.to_string()),
        PastError::Engine(engine) if engine.is_retryable() => {
            Status::unavailable(error.to_string(), 1)
        }
        PastError::Engine(_) => Status::internal(error),
    }
}
