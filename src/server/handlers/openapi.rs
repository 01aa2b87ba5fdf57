//! OpenAPI documents. With hundreds of custom resources one takes a second to write, so they are
//! written on the threads for large requests.

use std::sync::Arc;

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, VARY,
};
use http::{Response, StatusCode};

use super::Answered;
use crate::aggregation::ExtensionAnswer;
use crate::aggregation::openapi::{V3Source, converted};
use crate::api::status::Status;
use crate::server::discovery::Tag;
use crate::server::encoding::Encoding;
use crate::server::gzip;
use crate::server::openapi::OpenApi;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Answer, ResponseBody};

/// The headers of a request that an extension is asked with.
const ASKED_WITH: [HeaderName; 2] = [ACCEPT, IF_NONE_MATCH];

/// The headers of an extension's answer that are passed on.
const PASSED_ON: [HeaderName; 7] = [
    CONTENT_TYPE,
    ETAG,
    CACHE_CONTROL,
    EXPIRES,
    LAST_MODIFIED,
    LOCATION,
    VARY,
];

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

/// Returns `/openapi/v3/{key}`, or `None` if the document does not exist. That of an extension is
/// asked for there (CN-27).
///
/// # Errors
/// 429 if it has to be written and too many large requests are running.
pub async fn openapi_v3(
    scope: &RequestScope<'_>,
    key: String,
) -> Result<Option<Answer>, Box<Status>> {
    if let Some((group, version)) = key.strip_prefix("apis/").and_then(|of| of.split_once('/'))
        && documents(scope).extensions().has(group, version)
    {
        return of_extension(scope, group, version).await;
    }
    let is_written = documents(scope).has_v3(&key, scope.headers);
    let (query, headers) = (scope.query.clone(), scope.headers.clone());
    let answer = move |documents: &OpenApi| documents.v3(&key, &query, &headers);
    answered(scope, is_written, answer).await
}

/// Returns the document about a group version of an extension.
async fn of_extension(
    scope: &RequestScope<'_>,
    group: &str,
    version: &str,
) -> Result<Option<Answer>, Box<Status>> {
    let Some(aggregation) = &scope.server.aggregation else {
        return Ok(None);
    };
    match aggregation.documents.current().source(group, version) {
        None => Ok(None),
        Some(V3Source::Extension(service)) => {
            let mut headers = HeaderMap::new();
            for name in ASKED_WITH {
                for value in scope.headers.get_all(&name) {
                    headers.append(&name, value.clone());
                }
            }
            let hash = scope.query.first("hash");
            let hash = hash.filter(|hash| hash.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            let query = hash.map(|hash| format!("hash={hash}"));
            let asking = aggregation
                .documents
                .v3(&service, query.as_deref(), headers);
            Ok(Some(match asking.await {
                Ok(answer) => passed_on(answer),
                Err(why) => respond::unreachable(&why),
            }))
        }
        Some(V3Source::Converted(v2)) => {
            let (group, version) = (group.to_owned(), version.to_owned());
            let work = async move { Ok(converted(&v2, &group, &version)) };
            let document = scope.carry_out(true, work).await?;
            Ok(document.map(|document| {
                let tag = Tag::of(&document);
                if tag.is_known(scope.headers) {
                    return tag.not_modified();
                }
                let form = respond::Form {
                    encoding: Encoding::default(),
                    gzip: gzip::is_accepted(scope.headers),
                };
                let answer = respond::document(StatusCode::OK, &form, document.to_vec());
                respond::with_header(answer, ETAG, tag.header)
            }))
        }
    }
}

fn passed_on(answer: ExtensionAnswer) -> Answer {
    let mut passed = Response::new(ResponseBody::Full(answer.body));
    *passed.status_mut() = answer.status;
    for name in PASSED_ON {
        for value in answer.headers.get_all(&name) {
            passed.headers_mut().append(&name, value.clone());
        }
    }
    passed
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
