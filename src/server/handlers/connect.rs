//! Any method on a path that holds no objects: logs, streams, proxies.

use http::header::{CONTENT_TYPE, HeaderValue};

use super::{Answered, RequestScope, capability};
use crate::registry::rest::Connected;
use crate::server::body::ResponseBody;
use crate::server::routes::Target;

/// Passes on the response of the connected storage unchanged.
pub(super) async fn connect(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let connecter = capability(target.storage.connecter())?;
    let (context, object) = (&scope.context, target.object());
    let connecting = connecter.connect(context, object, &target.path, &scope.query);
    let Connected { content_type, body } = connecting.await?;
    let mut answer = http::Response::new(ResponseBody::Full(body));
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(answer)
}
