//! Any method on a connect subresource: logs, commands, port forwarding, proxies.

mod asked;
mod command;
mod log;
mod proxied;
mod stream;
mod translated;
mod tunnel;

use http::{Response, StatusCode};

use super::{Answered, capability};
use crate::api::status::Status;
use crate::registry::rest::Connected;
use crate::server::passed_on::awaited;
use crate::server::request_scope::RequestScope;
use crate::server::respond::ResponseBody;
use crate::server::routes::Target;
use crate::transport::RequestBody;

/// Finds where the request leads, and connects to it. Without content the response is a 204.
pub(super) async fn connect(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let connecter = capability(target.storage.connecter())?;
    if target.storage.subresource() == Some("log") {
        log::negotiate(scope)?;
    }
    let (context, object) = (&scope.context, target.object());
    let connecting = connecter.connect(context, object, &target.path, &scope.query);
    match connecting.await? {
        Connected::Nothing => {
            let mut answer = Response::new(ResponseBody::Empty);
            *answer.status_mut() = StatusCode::NO_CONTENT;
            Ok(answer)
        }
        Connected::Log {
            request,
            skips_verification,
            ..
        } => log::log(scope, target, request, skips_verification, &body).await,
        Connected::Stream { request, streams } => {
            stream::stream(scope, target, request, streams, body).await
        }
        Connected::Proxy { server, path } => {
            proxied::proxied(scope, target, server, path.as_deref(), body).await
        }
    }
}

/// Waits for the answer of a kubelet, or of a server that a proxy leads to.
///
/// # Errors
/// 503 if the daemon stops first, 401 if the user loses access ([`awaited`]).
async fn answer_of<T>(
    scope: &RequestScope<'_>,
    is_write: bool,
    asking: impl Future<Output = T>,
) -> Result<T, Box<Status>> {
    let answer = awaited(asking, is_write, &scope.access, &scope.server.authenticator);
    scope.leaving.unless(answer).await.ok_or_else(stopping)?
}

/// Returns the refusal of a connection while the daemon stops.
fn stopping() -> Box<Status> {
    Box::new(Status::unavailable("the server is shutting down", 1))
}
