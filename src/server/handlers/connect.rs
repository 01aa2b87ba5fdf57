//! Any method on a path that carries no objects: logs, streams, proxies.

use http::header::{CONTENT_TYPE, HeaderValue};

use super::{Answered, Exchange, capability};
use crate::registry::rest::Connected;
use crate::server::body::ResponseBody;
use crate::server::routes::Target;

/// Answers with what is at the other end, as it comes.
pub(super) async fn connect(exchange: &Exchange<'_>, target: &Target) -> Answered {
    let connecter = capability(target.storage.connecter())?;
    let (context, object) = (&exchange.context, target.object());
    let connecting = connecter.connect(context, object, &target.path, &exchange.query);
    let Connected { content_type, body } = connecting.await?;
    let mut answer = http::Response::new(ResponseBody::Full(body));
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(answer)
}
