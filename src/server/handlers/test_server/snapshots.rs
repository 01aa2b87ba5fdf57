//! `/taffrail/v1/test/snapshots` takes snapshots of the store and resets it to them.
//!
//! | request | answer |
//! |---|---|
//! | `POST …/snapshots` | 201 `{"snapshot":"1"}` |
//! | `GET …/snapshots` | 200 `{"snapshots":["1"]}` |
//! | `POST …/snapshots/1/reset` | 200 `{"resourceVersion":"77"}` |
//! | `DELETE …/snapshots/1` | 200 `{}` |

use actors::engine::EngineError;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::status::{Status, StatusReason};
use crate::server::handlers::Answered;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::test_controls::{KEPT_MAX, Snapshots};

/// Answers a request for the snapshots, or for a part of the path below them.
///
/// # Errors
/// 404 for a snapshot that is not kept, 400 if too many are, 405 for other methods, 503 while the
/// daemon stops.
pub(super) async fn snapshots(
    scope: &RequestScope<'_>,
    snapshots: &Snapshots,
    method: Method,
    below: &[&str],
) -> Answered {
    let (code, document) = match (below, method) {
        ([], Method::GET) => {
            let numbers = snapshots.numbers().into_iter();
            let names: Vec<String> = numbers.map(|number| number.to_string()).collect();
            (StatusCode::OK, json!({ "snapshots": names }))
        }
        ([], Method::POST) => (StatusCode::CREATED, taken(snapshots)?),
        ([name], Method::DELETE) => match number(name).is_some_and(|n| snapshots.forget(n)) {
            true => (StatusCode::OK, json!({})),
            false => return Err(Box::new(unknown(name))),
        },
        ([name, "reset"], Method::POST) => {
            let snapshot = number(name).and_then(|number| snapshots.kept(number));
            let snapshot = snapshot.ok_or_else(|| Box::new(unknown(name)))?;
            let reset = snapshots.reset(snapshot).await;
            let revision = reset.map_err(|error| Box::new(unavailable(&error)))?;
            let document = json!({ "resourceVersion": revision.to_string() });
            (StatusCode::OK, document)
        }
        ([] | [_] | [_, "reset"], _) => return Err(Box::new(Status::method_not_allowed_route())),
        _ => return Ok(respond::page_not_found()),
    };
    let form = scope.plain_form()?;
    let document = document.to_string().into_bytes();
    Ok(respond::document(code, &form, document))
}

fn taken(snapshots: &Snapshots) -> Result<Value, Box<Status>> {
    let snapshot = snapshots.take();
    let snapshot = snapshot.map_err(|error| Box::new(unavailable(&error)))?;
    match snapshots.keep(snapshot) {
        Some(number) => Ok(json!({ "snapshot": number.to_string() })),
        None => Err(Box::new(Status::bad_request(format!(
            "{KEPT_MAX} snapshots are kept, and no more can be; delete one first"
        )))),
    }
}

/// The number that a name stands for. No other text stands for the same one.
fn number(name: &str) -> Option<u64> {
    let number: u64 = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

fn unknown(name: &str) -> Status {
    let message =
        format!("snapshot {name:?} is not kept; GET /taffrail/v1/test/snapshots lists them");
    Status::failure(404, StatusReason::NOT_FOUND, message)
}

fn unavailable(error: &EngineError) -> Status {
    Status::unavailable(error.to_string(), 1)
}
