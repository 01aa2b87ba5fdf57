//! Other servers that are asked for a client, and their refusals.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST, HeaderName};
use tokio::time::Instant;

use super::super::Answered;
use super::answer_of;
use crate::aggregation::proxy::names_user;
use crate::api::status::Status;
use crate::egress::headers::{append_client, end_to_end, of_answer};
use crate::egress::{
    Answer, EgressClient, EgressError, Failure, Target, UpgradeAnswer, UpgradeRequest,
};
use crate::server::filters::seats::Seat;
use crate::server::metrics::LongRunning;
use crate::server::passed_on::whole;
use crate::server::request_scope::RequestScope;
use crate::server::sessions::relayed;
use crate::server::web_sockets::WITH_BODY;
use crate::transport::RequestBody;

/// How long a kubelet may take to answer. It may have to start a process first.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(4 * 60);

/// Headers that do not go to other servers.
const LEFT_OUT: [HeaderName; 4] = [AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST];

/// Returns the headers of a client without its credentials, and with its address (CN-39, CN-73).
pub(super) fn passed_on(headers: &HeaderMap, peer: Option<IpAddr>) -> HeaderMap {
    let mut passed = end_to_end(headers);
    let foreign = headers.keys().filter(|name| names_user(name));
    for name in LEFT_OUT.iter().chain(foreign) {
        passed.remove(name);
    }
    append_client(&mut passed, peer);
    passed
}

/// A kubelet that has to be asked, and the guards that live as long as the session.
pub(super) struct Found {
    pub(super) kubelet: Target,
    pub(super) path: String,
    pub(super) guards: (Seat, LongRunning),
}

/// Returns the Status for a server that cannot be asked for an upgrade, or answers no HTTP
/// (CN-51).
pub(super) fn failed(error: &EgressError) -> Box<Status> {
    Box::new(match &error.failure {
        Failure::NotAllowed => Status::bad_request(Failure::NotAllowed.to_string()),
        why @ (Failure::Dial(_) | Failure::Tls(_) | Failure::Roots | Failure::Identity(_)) => {
            Status::unknown(format!("error dialing backend: {why}"))
        }
        why => Status::unknown(why.to_string()),
    })
}

/// Checks that a request for an upgrade has no body.
///
/// # Errors
/// 400
pub(super) fn without_body(body: &RequestBody) -> Result<(), Box<Status>> {
    match body {
        RequestBody::Empty => Ok(()),
        _ => Err(Box::new(Status::bad_request(WITH_BODY))),
    }
}

/// A server that is asked for an upgrade.
pub(super) struct Asked<'a> {
    pub(super) egress: &'a EgressClient,
    pub(super) server: &'a Target,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
}

/// Asks a server for an upgrade, and has the connections relayed after it. `guards` live as long.
pub(super) async fn upgraded(
    scope: &RequestScope<'_>,
    asked: Asked<'_>,
    guards: (Seat, LongRunning),
) -> Answered {
    let request = UpgradeRequest {
        method: scope.parts.method.clone(),
        path: asked.path,
        headers: asked.headers,
        deadline: Some(Instant::now() + ANSWER_WITHIN),
    };
    let asking = asked.egress.upgrade(asked.server, request);
    let answered = answer_of(scope, false, asking).await?;
    match answered.map_err(|error| failed(&error))? {
        UpgradeAnswer::Switched(switched) => {
            relayed(switched, scope.leaving, scope.access.clone(), guards)
        }
        UpgradeAnswer::Refused(answer) => refused(answer),
    }
}

/// Returns the answer of a server that does not upgrade (CN-51).
pub(super) fn refused(answer: Answer) -> Answered {
    if answer.status.as_u16() < 400 {
        let text = format!(
            "invalid upgrade response: status code {}",
            answer.status.as_u16()
        );
        return Err(Box::new(Status::unknown(text)));
    }
    let headers = of_answer(&answer.headers);
    Ok(whole(answer.status, headers, answer.body))
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn credentials_of_the_client_stay_here_cn_39_cn_73() {
        let given = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "bob"),
            ("connection", "Upgrade, x-hop"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-forwarded-for", "192.0.2.1"),
            ("cookie", "a=b"),
            ("host", "here"),
        ]);
        let passed = passed_on(&given, Some([10, 0, 0, 1].into()));
        let expected = headers(&[
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-forwarded-for", "192.0.2.1, 10.0.0.1"),
            ("cookie", "a=b"),
        ]);
        assert_eq!(passed, expected);
    }
}
