//! Kubelets that are asked for an upgrade, and their refusals.

use std::time::Duration;

use http::Response;
use http::header::CONTENT_TYPE;

use super::super::Answered;
use crate::api::status::Status;
use crate::egress::{Answer, EgressError, Failure, Target};
use crate::server::filters::seats::Seat;
use crate::server::metrics::LongRunning;
use crate::server::respond::ResponseBody;

/// How long a kubelet may take to answer. It may have to start a process first.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(4 * 60);

/// A kubelet that has to be asked, and the guards that live as long as the session.
pub(super) struct Found {
    pub(super) kubelet: Target,
    pub(super) path: String,
    pub(super) guards: (Seat, LongRunning),
}

/// Returns the Status for a kubelet that cannot be reached, or answers no HTTP (CN-51).
pub(super) fn failed(error: &EgressError) -> Box<Status> {
    Box::new(match &error.failure {
        why @ (Failure::Dial(_) | Failure::Tls(_) | Failure::Roots | Failure::Identity(_)) => {
            Status::unknown(format!("error dialing backend: {why}"))
        }
        why => Status::unknown(why.to_string()),
    })
}

/// Returns the answer of a kubelet that does not upgrade (CN-51).
pub(super) fn refused(answer: Answer) -> Answered {
    if answer.status.as_u16() < 400 {
        let text = format!(
            "invalid upgrade response: status code {}",
            answer.status.as_u16()
        );
        return Err(Box::new(Status::unknown(text)));
    }
    let mut passed = Response::new(ResponseBody::Full(answer.body));
    *passed.status_mut() = answer.status;
    if let Some(of) = answer.headers.get(CONTENT_TYPE) {
        passed.headers_mut().insert(CONTENT_TYPE, of.clone());
    }
    Ok(passed)
}
