//! PATCH of an object (http.md 4.1).

use std::sync::Arc;

use super::{Answered, applied, capability, written};
use crate::api::deep;
use crate::api::large::is_large;
use crate::api::options::{FieldValidation, WriteOptions, WriteVerb};
use crate::api::patch::{Patch, PatchKind};
use crate::api::status::Status;
use crate::registry::{UpdateSource, Written};
use crate::server::audit::Holds;
use crate::server::negotiation::{
    self, APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Offer, STRATEGIC_PATCH,
};
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Form};
use crate::server::routes::Target;
use crate::transport::RequestBody;

/// JSON patches above this size count as large. It is enough for about a hundred operations.
const LARGE_OPERATIONS_BYTES: usize = 4 * 1024;

/// Patches the current state of an object (API-151).
pub(super) async fn patch(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let kind = Arc::clone(target.storage.response_kind());
    // As in kube-apiserver, a wrong patch type wins over all other errors.
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

/// Parses the patch of a body. A malformed one is an error only if the object exists, because
/// kube-apiserver parses patches after it has read the object (API-153).
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
            Err(refusal.into())
        }
    }
}

/// A patch type that is supported, before the patch is parsed.
enum Given {
    Plain(PatchKind),
    Apply,
}

impl Given {
    /// Whether to carry out the patch off the HTTP thread.
    fn is_large(&self, body: &[u8]) -> bool {
        match self {
            // Each operation may touch the whole object.
            Given::Plain(PatchKind::Json) => body.len() > LARGE_OPERATIONS_BYTES || may_copy(body),
            Given::Plain(PatchKind::Merge | PatchKind::Strategic) => is_large(body),
            Given::Apply => !applied::is_json(body) || is_large(body),
        }
    }
}

/// Whether a JSON patch may contain copy operations. Each copy can double the object, up to
/// megabytes. An escape sequence may hide the word.
fn may_copy(operations: &[u8]) -> bool {
    let has = |text: &[u8]| operations.windows(text.len()).any(|part| part == text);
    has(b"copy") || has(b"\\u")
}

fn given(scope: &RequestScope<'_>, target: &Target) -> Result<Given, Box<Status>> {
    const TYPES: [&str; 4] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH];
    if target.storage.resource().rules().is_unstructured {
        return match negotiation::patch_type(scope.headers) {
            JSON_PATCH => Ok(Given::Plain(PatchKind::Json)),
            MERGE_PATCH => Ok(Given::Plain(PatchKind::Merge)),
            APPLY_PATCH => Ok(Given::Apply),
            _ => {
                let types = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH];
                Err(Box::new(Status::unsupported_media_type(&types)))
            }
        };
    }
    match negotiation::patch_type(scope.headers) {
        JSON_PATCH => Ok(Given::Plain(PatchKind::Json)),
        MERGE_PATCH => Ok(Given::Plain(PatchKind::Merge)),
        STRATEGIC_PATCH if has_struct(target) => Ok(Given::Plain(PatchKind::Strategic)),
        APPLY_PATCH => Ok(Given::Apply),
        // kube-apiserver's router admits a header that mentions a patch type; its handler then
        // parses it strictly (API-56).
        _ if has_struct(target) && negotiation::mentions(scope.headers, &TYPES) => {
            Err(Box::new(Status::unsupported_media_type(&TYPES)))
        }
        _ => Err(Box::new(Status::unsupported_patch_type())),
    }
}

/// Whether the type of the objects defines how lists are merged. The types of custom resources do
/// not (http.md 4.1).
fn has_struct(target: &Target) -> bool {
    let found = target.storage.resource().object_type().found();
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
