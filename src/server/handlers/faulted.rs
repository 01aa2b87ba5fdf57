//! The faults that a test injects into requests for resources: which of them suit a request, and
//! how the server itself would answer.

use std::sync::Arc;

use actors::engine::Revision;
use http::header::USER_AGENT;

use crate::api::resource::Verb;
use crate::api::status::Status;
use crate::registry::store::WatchRefusal;
use crate::server::encoding::Encoding;
use crate::server::request_scope::RequestScope;
use crate::server::routes::Target;
use crate::server::test_controls::Faults;
use crate::server::test_controls::faults::{Code, Drawn, FaultyWatch, Subject, WatchSubject};
use crate::storage::RunningWatch;

/// Delays a request and refuses it, if that was drawn. Nothing of it has been carried out.
///
/// # Errors
/// The drawn error. That of a watch may be an event (WA-6).
pub(super) async fn meet(
    faults: &Faults,
    scope: &RequestScope<'_>,
    target: &Target,
) -> Result<(), WatchRefusal> {
    let subject = subject(scope, target);
    let suits = |code| suits(code, scope, target);
    let Some(error) = faults.meet(&subject, suits).await else {
        return Ok(());
    };
    let refusal = Box::new(status(error, scope, target));
    Err(match (target.verb, error.code) {
        (Verb::Watch, Code::Expired) => WatchRefusal::InStream(refusal),
        _ => WatchRefusal::Http(refusal),
    })
}

/// Leads the stream of a watch through the faults.
pub(super) fn watch(
    stream: RunningWatch,
    faults: &Arc<Faults>,
    scope: &RequestScope<'_>,
    target: &Target,
    encoding: Encoding,
) -> RunningWatch {
    let subject = WatchSubject::of(&subject(scope, target), target.storage.resource());
    RunningWatch::other(FaultyWatch::over(stream, faults, subject, encoding))
}

fn subject<'s>(scope: &'s RequestScope<'_>, target: &'s Target) -> Subject<'s> {
    let agent = scope.headers.get(USER_AGENT);
    Subject {
        verb: target.verb,
        resource: target.storage.resource(),
        subresource: target.storage.subresource(),
        namespace: target.namespace.as_deref(),
        user: &scope.context.user.name,
        user_agent: agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default(),
    }
}

/// Returns the version that a list or watch asks for, if its history may be gone.
fn asked_version(scope: &RequestScope<'_>) -> Option<u64> {
    let version = scope.query.first("resourceVersion")?.parse().ok()?;
    (version > 0).then_some(version)
}

fn continues(scope: &RequestScope<'_>) -> bool {
    let token = scope.query.first("continue");
    token.is_some_and(|token| !token.is_empty())
}

/// Whether a server answers such a request with such an error.
fn suits(code: Code, scope: &RequestScope<'_>, target: &Target) -> bool {
    match (code, target.verb) {
        (code, verb) if !code.is_for(verb) => false,
        (Code::Expired, Verb::List) => continues(scope) || asked_version(scope).is_some(),
        (Code::Expired, _) => asked_version(scope).is_some(),
        _ => true,
    }
}

/// Returns an error as the server itself would answer it.
fn status(error: Drawn, scope: &RequestScope<'_>, target: &Target) -> Status {
    match error.code {
        Code::Conflict => Status::stale(target.storage.resource(), &target.name),
        Code::Expired if target.verb == Verb::Watch => {
            let asked = asked_version(scope).unwrap_or_default();
            Status::expired_watch(Revision(asked), Revision(asked.saturating_add(1)))
        }
        Code::Expired if continues(scope) => Status::expired_continue(None),
        Code::Expired => Status::expired_list(),
        Code::TooMany => {
            let text = "the server has received too many requests and has asked us to try again \
                        later";
            Status::too_many_requests(text, error.retry_after)
        }
        Code::Internal => Status::internal("a fault that a test has injected"),
        Code::Unavailable => {
            let text = "the server is currently unable to handle the request";
            Status::unavailable(text, error.retry_after)
        }
        Code::Timeout => Status::request_timeout(),
    }
}
