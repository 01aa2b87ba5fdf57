//! Any method on a connect subresource: logs, streams, proxies.

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::{Answered, capability};
use crate::registry::rest::Connected;
use crate::server::request_scope::RequestScope;
use crate::server::respond::ResponseBody;
use crate::server::routes::Target;

/// Returns the response of the connected storage unchanged. Without content it is a 204.
pub(super) async fn connect(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let connecter = capability(target.storage.connecter())?;
    let (context, object) = (&scope.context, target.object());
    let connecting = connecter.connect(context, object, &target.path, &scope.query);
    let Some(Connected { content_type, body }) = connecting.await? else {
        let mut answer = http::Response::new(ResponseBody::Empty);
        *answer.status_mut() = StatusCode::NO_CONTENT;
        return Ok(answer);
    };
    let mut answer = http::Response::new(ResponseBody::Full(body));
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(answer)
}
