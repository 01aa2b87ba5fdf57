//! PATCH of an object (http.md 4.1).

use std::sync::Arc;

use super::{Answered, RequestScope, applied, capability, written};
use crate::api::deep;
use crate::api::options::{FieldValidation, WriteOptions, WriteVerb};
use crate::api::patch::{Patch, PatchKind};
use crate::api::status::Status;
use crate::registry::{UpdateSource, Written};
use crate::server::audit::Holds;
use crate::server::body::RequestBody;
use crate::server::large_requests::is_large;
use crate::server::negotiation::{
    self, APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Offer, STRATEGIC_PATCH,
};
use crate::server::respond::{self, Form};
use crate::server::routes::Target;

/// JSON patches above this size count as large. It is enough for about a hundred operations.
const LARGE_OPERATIONS_BYTES: usize = 4 * 1024;

/// Patches the current state of an object (API-151).
pub(super) async fn patch(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let kind = Arc::clone(target.storage.response_kind());
    // Check the patch type before anything else.
    let given = given(scope, target)?;
    let form = scope.object_form(Offer::of(target))?;
    let body = scope.read(body, Holds::Patch).await?;
    let verb = match given {
        Given::Apply => WriteVerb::Apply,
        Given::Plain(_) => WriteVerb::Patch,
    };
    let options = WriteOptions::parse(&scope.query, verb)?;
    let is_large = given.is_large(&body) || target.is_large();
    let (target, context) = (target.clone(), scope.context.clone());
    let update = async move {
        let source = match given {
            Given::Apply => deep::retry(|| applied::read(&body)).await?,
            Given::Plain(kind) => source(kind, &body, &options, &target).await?,
        };
        let patcher = capability(target.storage.patcher())?;
        let patching = patcher.update(&context, target.object(), source, &options);
        patching.await
    };
    let respond = move |form: &Form, done: Written| {
        respond::object(written(done.created), form, &kind, &done.object)
    };
    scope.answer(&form, is_large, update, respond).await
}

/// The patch of a body. One that can't be read is refused when its object was found, as
/// kube-apiserver reads patches only then (API-153).
async fn source(
    kind: PatchKind,
    body: &[u8],
    options: &WriteOptions,
    target: &Target,
) -> Result<UpdateSource, Box<Status>> {
    let parse = || match options.field_validation {
        FieldValidation::Ignore => Patch::parse_unchecked(kind, body),
        FieldValidation::Warn | FieldValidation::Strict => Patch::parse(kind, body),
    };
    match deep::retry(parse).await {
        Ok(patch) => Ok(UpdateSource::Patch(patch)),
        Err(refusal) => {
            let getter = capability(target.storage.getter())?;
            getter.get(target.object(), "").await?;
            Err(refusal)
        }
    }
}

/// A patch of a supported type, not parsed yet.
enum Given {
    Plain(PatchKind),
    Apply,
}

impl Given {
    /// Whether to carry out the patch away from the HTTP thread.
    fn is_large(&self, body: &[u8]) -> bool {
        match self {
            // Each operation may touch all of an object.
            Given::Plain(PatchKind::Json) => body.len() > LARGE_OPERATIONS_BYTES || may_copy(body),
            Given::Plain(PatchKind::Merge | PatchKind::Strategic) => is_large(body),
            Given::Apply => !applied::is_json(body) || is_large(body),
        }
    }
}

/// Whether operations may copy: each copy can double the object, up to megabytes. The word may be
/// written with escapes.
fn may_copy(operations: &[u8]) -> bool {
    let has = |text: &[u8]| operations.windows(text.len()).any(|part| part == text);
    has(b"copy") || has(b"\\u")
}

fn given(scope: &RequestScope<'_>, target: &Target) -> Result<Given, Box<Status>> {
    const TYPES: [&str; 4] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH];
    match negotiation::patch_type(scope.headers) {
        JSON_PATCH => Ok(Given::Plain(PatchKind::Json)),
        MERGE_PATCH => Ok(Given::Plain(PatchKind::Merge)),
        STRATEGIC_PATCH if has_struct(target) => Ok(Given::Plain(PatchKind::Strategic)),
        APPLY_PATCH => Ok(Given::Apply),
        // The route takes what names such a type, which is read more closely behind it.
        _ if has_struct(target) && negotiation::mentions(scope.headers, &TYPES) => {
            Err(Box::new(Status::unsupported_media_type(&TYPES)))
        }
        _ => Err(Box::new(Status::unsupported_patch_type())),
    }
}

/// Whether the type of the objects says how lists are merged. That of custom resources doesn't
/// (http.md 4.1).
fn has_struct(target: &Target) -> bool {
    let found = target.storage.resource().object_type.found();
    let of = found.and_then(|(schema, id)| schema.get(id));
    of.is_some_and(|of| !of.is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_operations_that_can_multiply_an_object_are_large() {
        let is_large = |body: &str| Given::Plain(PatchKind::Json).is_large(body.as_bytes());
        assert!(!is_large(
            r#"[{"op":"add","path":"/metadata/labels/c","value":"d"}]"#
        ));
        assert!(is_large(
            r#"[{"op":"copy","from":"/data","path":"/data/a"}]"#
        ));
        assert!(is_large(
            r#"[{"op":"\u0063opy","from":"/data","path":"/data/a"}]"#
        ));
        assert!(is_large(&" ".repeat(LARGE_OPERATIONS_BYTES + 1)));
    }
}
