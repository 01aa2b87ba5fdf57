//! Calls of a webhook: a POST of a review, and further attempts (AC-26).

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::Instant;

use super::super::kubeconfigs::Server;
use super::answer::{CallError, ReviewForm, status_of};
use crate::api::text::go_duration;
use crate::egress::{EgressClient, EgressError, EgressRequest, Failure};

/// The most bytes of an answer. A review with thousands of groups is smaller.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How often a webhook is asked.
pub(super) const ATTEMPTS: usize = 5;

/// The pause before the second attempt. Each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The most time of all attempts together, which is that of a request.
const ALL_ATTEMPTS: Duration = Duration::from_secs(60);

/// How a webhook is asked.
pub struct Caller {
    client: Arc<EgressClient>,
    server: Arc<Server>,
    timeout: Duration,
    first_pause: Duration,
}

impl Caller {
    /// Asks this server, each time with this time-out.
    pub fn new(client: Arc<EgressClient>, server: Server, timeout: Duration) -> Caller {
        Caller {
            client,
            server: Arc::new(server),
            timeout,
            first_pause: FIRST_PAUSE,
        }
    }

    /// The same without pauses.
    #[cfg(test)]
    pub(super) fn at_once(self) -> Caller {
        Caller {
            first_pause: Duration::ZERO,
            ..self
        }
    }

    /// Sends a review until it has an answer or another attempt would not help, and returns the
    /// status of the answer. `attempt` observes each attempt.
    pub(super) async fn status<A: Attempt>(
        &self,
        body: Bytes,
        form: ReviewForm,
        attempt: impl Fn() -> A,
    ) -> Result<Value, CallError> {
        let end = Instant::now() + ALL_ATTEMPTS;
        let mut pause = self.first_pause;
        for number in 1.. {
            let observed = attempt();
            let deadline = end.min(Instant::now() + self.timeout);
            let answer = self.once(body.clone(), deadline).await;
            let status = answer.and_then(|answer| status_of(&answer, form));
            observed.ended(status.as_ref().err());
            match status {
                Err(error) if error.is_worth_retrying && number < ATTEMPTS => {
                    tracing::debug!(error = error.text, number, "a webhook is asked again");
                }
                status => return status,
            }
            let next = Instant::now() + jittered(pause);
            if next >= end {
                break;
            }
            tokio::time::sleep_until(next).await;
            pause = pause * 3 / 2;
        }
        Err(late("webhook call failed: context deadline exceeded"))
    }

    async fn once(
        &self,
        body: Bytes,
        deadline: Instant,
    ) -> Result<crate::egress::Answer, CallError> {
        let target = self.server.target().await;
        let timeout = go_duration::printed(go_duration::nanos(self.timeout));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = EgressRequest {
            method: Method::POST,
            path: format!("{}?timeout={timeout}", self.server.path()),
            headers,
            body,
            deadline,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        self.client.send(&target, request).await.map_err(unanswered)
    }
}

/// Observes an attempt. It is dropped without [`Attempt::ended`] when nobody waits for the answer
/// any more.
pub(super) trait Attempt {
    /// The attempt has an answer, or an error.
    fn ended(self, error: Option<&CallError>);
}

fn late(text: impl Into<String>) -> CallError {
    CallError {
        is_late: true,
        ..CallError::lasting(text)
    }
}

fn unanswered(error: EgressError) -> CallError {
    let text = error.to_string();
    CallError {
        is_worth_retrying: text.contains("connection reset by peer"),
        is_late: error.failure == Failure::Deadline,
        ..CallError::lasting(text)
    }
}

/// Adds up to a fifth, so that clients whose requests failed together do not return together.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    // Without random numbers the pause is the plain one.
    let _ = rand::fill(&mut byte);
    let [byte] = byte;
    pause + pause * u32::from(byte) / (5 * 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_longer_by_a_fifth_at_most_ac_26() {
        for _ in 0..1000 {
            let pause = jittered(FIRST_PAUSE);
            assert!((FIRST_PAUSE..=FIRST_PAUSE * 6 / 5).contains(&pause));
        }
    }
}
