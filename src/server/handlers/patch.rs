//! PATCH of an object (http.md 4.1).

use serde_json::Value;

use super::document::judge;
use super::{Answered, RequestScope, applied, capability, written};
use crate::api::options::{WriteOptions, WriteVerb};
use crate::api::patch::{Patch, PatchKind};
use crate::api::status::{Status, StatusReason};
use crate::registry::{RequestContext, UpdateSource};
use crate::server::body::RequestBody;
use crate::server::large_requests::LARGE_REQUEST_BYTES;
use crate::server::negotiation::{
    self, APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Offer, STRATEGIC_PATCH,
};
use crate::server::respond;
use crate::server::routes::Target;

/// JSON patches above this size count as large. It is enough for about a hundred operations.
const LARGE_OPERATIONS_BYTES: usize = 4 * 1024;

/// Patches the current state of an object (API-151).
pub(super) async fn patch(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let kind = target.storage.response_kind();
    // Check the patch type before anything else.
    let given = given(scope)?;
    let form = scope.object_form(Offer::Objects)?;
    let body = scope.read(body).await?;
    let verb = match given {
        Given::Apply => WriteVerb::Apply,
        Given::Plain(_) | Given::Strategic => WriteVerb::Patch,
    };
    let options = WriteOptions::parse(&scope.query, verb)?;
    let is_large = given.is_large(&body) || target.is_large();
    let (target, context) = (target.clone(), scope.context.clone());
    let update = async move {
        let source = match given {
            Given::Apply => applied::read(&body, &options, &context)?,
            Given::Plain(_) | Given::Strategic => source(&given, &body, &options, &context)?,
        };
        let patcher = capability(target.storage.patcher())?;
        let patching = patcher.update(&context, target.object(), source, &options);
        patching.await
    };
    let written_object = scope.carry_out(is_large, update).await?;
    let code = written(written_object.created);
    respond::object(code, &form, kind, &written_object.object)
}

/// The patch of a body, with its duplicate members reported as the client asked.
fn source(
    given: &Given,
    body: &[u8],
    options: &WriteOptions,
    context: &RequestContext,
) -> Result<UpdateSource, Box<Status>> {
    let patch = read(given, body)?;
    if let Patch::Merge(document, duplicates) = &patch {
        let (validation, warnings) = (options.field_validation, &context.warnings);
        judge(duplicates, validation, warnings, |error| {
            Status::patch_result_invalid(document, error)
        })?;
    }
    Ok(UpdateSource::Patch(patch))
}

/// A patch of a supported type, not parsed yet.
enum Given {
    Plain(PatchKind),
    Strategic,
    Apply,
}

impl Given {
    /// Whether to carry out the patch away from the HTTP thread.
    fn is_large(&self, body: &[u8]) -> bool {
        match self {
            // Each operation may touch all of an object.
            Given::Plain(PatchKind::Json) => body.len() > LARGE_OPERATIONS_BYTES,
            Given::Plain(PatchKind::Merge) | Given::Strategic => body.len() > LARGE_REQUEST_BYTES,
            Given::Apply => !applied::is_json(body) || body.len() > LARGE_REQUEST_BYTES,
        }
    }
}

fn given(scope: &RequestScope<'_>) -> Result<Given, Box<Status>> {
    match negotiation::content_type(scope.headers).as_str() {
        JSON_PATCH => Ok(Given::Plain(PatchKind::Json)),
        MERGE_PATCH => Ok(Given::Plain(PatchKind::Merge)),
        STRATEGIC_PATCH => Ok(Given::Strategic),
        APPLY_PATCH => Ok(Given::Apply),
        _ => Err(Box::new(Status::unsupported_patch_type())),
    }
}

/// Parses a patch. A strategic merge patch without lists and directives is equivalent to a merge
/// patch and treated as one. Others stay unsupported until the merge keys of their lists are known.
fn read(given: &Given, body: &[u8]) -> Result<Patch, Box<Status>> {
    match given {
        Given::Plain(kind) => Patch::parse(*kind, body),
        Given::Strategic | Given::Apply => {
            let patch = Patch::parse(PatchKind::Merge, body)?;
            if matches!(&patch, Patch::Merge(document, _) if is_strategic(document)) {
                return Err(unsupported(
                    "strategic merge patches with lists or directives are not supported yet: use \
                     a merge patch or a JSON patch",
                ));
            }
            Ok(patch)
        }
    }
}

fn unsupported(message: &str) -> Box<Status> {
    let reason = StatusReason::UNSUPPORTED_MEDIA_TYPE;
    Box::new(Status::failure(415, reason, message))
}

fn is_strategic(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name.starts_with('$') || is_strategic(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> u16 {
        read(&Given::Strategic, body.as_bytes()).map_or_else(|status| status.code, |_| 200)
    }

    #[test]
    fn a_strategic_patch_without_lists_and_directives_is_a_merge_patch() {
        assert_eq!(
            code(r#"{"data":{"k":"v","gone":null},"metadata":{"labels":{"a":"b"}}}"#),
            200
        );
        assert_eq!(code(r#"{"metadata":{"finalizers":["a"]}}"#), 415);
        assert_eq!(code(r#"{"$patch":"replace"}"#), 415);
        assert_eq!(code(r#"{"spec":{"$retainKeys":"x"}}"#), 415);
        assert_eq!(code("[]"), 400);
        assert_eq!(code("{"), 400);
    }
}
