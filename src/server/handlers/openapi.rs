//! OpenAPI documents. With hundreds of custom resources one takes a second to write, so they are
//! written on the threads for large requests.

use std::sync::Arc;

use super::Answered;
use crate::api::status::Status;
use crate::server::openapi::OpenApi;
use crate::server::request_scope::RequestScope;
use crate::server::respond::Answer;

/// Returns `/openapi/v2`.
///
/// # Errors
/// 429 if it has to be written and too many large requests are running.
pub async fn openapi_v2(scope: &RequestScope<'_>) -> Answered {
    let headers = scope.headers.clone();
    if !documents(scope).has_v2(scope.headers) {
        written(scope, move |documents| drop(documents.v2(&headers))).await?;
    }
    Ok(documents(scope).v2(scope.headers))
}

/// Returns `/openapi/v3`, the list of documents.
///
/// # Errors
/// 429 if documents have to be written and too many large requests are running.
pub async fn openapi_v3_index(scope: &RequestScope<'_>) -> Answered {
    let headers = scope.headers.clone();
    if !documents(scope).has_v3_index() {
        written(scope, move |documents| drop(documents.v3_index(&headers))).await?;
    }
    Ok(documents(scope).v3_index(scope.headers))
}

/// Returns `/openapi/v3/{key}`, or `None` if the document does not exist.
///
/// # Errors
/// 429 if it has to be written and too many large requests are running.
pub async fn openapi_v3(
    scope: &RequestScope<'_>,
    key: String,
) -> Result<Option<Answer>, Box<Status>> {
    if !documents(scope).has_v3(&key, scope.headers) {
        let (key, query, headers) = (key.clone(), scope.query.clone(), scope.headers.clone());
        let write = move |documents: &OpenApi| drop(documents.v3(&key, &query, &headers));
        written(scope, write).await?;
    }
    Ok(documents(scope).v3(&key, &scope.query, scope.headers))
}

fn documents<'r>(scope: &RequestScope<'r>) -> &'r OpenApi {
    &scope.generation.openapi
}

/// Has a document written, which the generation then keeps.
async fn written(
    scope: &RequestScope<'_>,
    write: impl FnOnce(&OpenApi) + Send + 'static,
) -> Result<(), Box<Status>> {
    let generation = Arc::clone(scope.generation);
    let work = async move {
        write(&generation.openapi);
        Ok(())
    };
    scope.carry_out(true, work).await
}
