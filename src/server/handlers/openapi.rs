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
    let extensions = documents(scope).extensions();
    let is_written = documents(scope).has_v2(scope.headers, &extensions);
    let headers = scope.headers.clone();
    let answer = move |documents: &OpenApi| documents.v2(&headers, &extensions);
    answered(scope, is_written, answer).await
}

/// Returns `/openapi/v3`, the list of documents.
///
/// # Errors
/// 429 if documents have to be written and too many large requests are running.
pub async fn openapi_v3_index(scope: &RequestScope<'_>) -> Answered {
    let extensions = documents(scope).extensions();
    let is_written = documents(scope).has_v3_index(&extensions);
    let headers = scope.headers.clone();
    let answer = move |documents: &OpenApi| documents.v3_index(&headers, &extensions);
    answered(scope, is_written, answer).await
}

/// Returns `/openapi/v3/{key}`, or `None` if the document does not exist.
///
/// # Errors
/// 429 if it has to be written and too many large requests are running.
pub async fn openapi_v3(
    scope: &RequestScope<'_>,
    key: String,
) -> Result<Option<Answer>, Box<Status>> {
    let is_written = documents(scope).has_v3(&key, scope.headers);
    let (query, headers) = (scope.query.clone(), scope.headers.clone());
    let answer = move |documents: &OpenApi| documents.v3(&key, &query, &headers);
    answered(scope, is_written, answer).await
}

fn documents<'r>(scope: &RequestScope<'r>) -> &'r OpenApi {
    &scope.generation.openapi
}

/// Answers with documents. Those that are not written yet are written on another thread, and the
/// generation keeps them.
async fn answered<A>(
    scope: &RequestScope<'_>,
    is_written: bool,
    answer: impl Fn(&OpenApi) -> A + Clone + Send + 'static,
) -> Result<A, Box<Status>> {
    if !is_written {
        let (generation, write) = (Arc::clone(scope.generation), answer.clone());
        let work = async move {
            write(&generation.openapi);
            Ok(())
        };
        scope.carry_out(true, work).await?;
    }
    Ok(answer(documents(scope)))
}
