//! Requests for an upgrade: an HTTP/1.1 connection that becomes a stream of bytes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{EgressClient, Outline, error, message};
use super::dial;
use super::error::{EgressError, Failure};
use super::outgoing::OutgoingBody;
use super::request::Answer;
use super::target::Target;
use super::wire::Wire;
use crate::upgraded::{ByteStream, ReadAhead};

/// The most bytes of an answer that refuses the upgrade, and the time for them. The rest is left
/// out.
const REFUSAL_BYTES_MAX: usize = 256 << 10;
const REFUSAL_TIME: Duration = Duration::from_secs(10);

/// A request for an upgrade, which has no body.
pub struct UpgradeRequest {
    /// The method.
    pub method: Method,
    /// The path and query, which begin with a slash.
    pub path: String,
    /// All headers but Authorization, among them Connection and Upgrade. Without a Host it is the
    /// target's. They must not have credentials of the daemon's users.
    pub headers: HeaderMap,
    /// When the head of the answer must have come.
    pub deadline: Option<Instant>,
}

/// The answer to a request for an upgrade.
pub enum UpgradeAnswer {
    /// The server keeps to HTTP.
    Refused(Answer),
    /// The server has answered 101.
    Switched(Switched),
}

/// A connection after its upgrade.
pub struct Switched {
    /// The headers of the answer 101.
    pub headers: HeaderMap,
    /// The connection, with the bytes that came together with the answer.
    pub stream: Box<dyn ByteStream>,
}

impl EgressClient {
    /// Asks for an upgrade on a connection of its own. The connection stays on the calling thread.
    ///
    /// # Errors
    /// No connection, or no head of an answer.
    pub async fn upgrade(
        &self,
        target: &Target,
        request: UpgradeRequest,
    ) -> Result<UpgradeAnswer, EgressError> {
        let target = &target.without_http2();
        let outline = Outline::forwarded(&request.method, &request.path, &request.headers);
        let begin = Instant::now();
        let asked = async {
            let pool = self.pool(target)?;
            ask(target, pool.tls(), outline).await
        };
        let asked = match request.deadline {
            Some(deadline) => timeout_at(deadline, asked).await,
            None => Ok(asked.await),
        };
        let asked = asked.unwrap_or(Err(Failure::Deadline));
        let status = asked.as_ref().ok().map(|asked| match asked {
            UpgradeAnswer::Refused(answer) => answer.status,
            UpgradeAnswer::Switched(_) => StatusCode::SWITCHING_PROTOCOLS,
        });
        self.count_status(target, outline, status, begin);
        asked.map_err(|why| error(target, outline, why))
    }
}

async fn ask(
    target: &Target,
    tls: &Arc<ClientConfig>,
    outline: Outline<'_>,
) -> Result<UpgradeAnswer, Failure> {
    let message = message(
        target,
        outline,
        Version::HTTP_11,
        OutgoingBody::Whole(Bytes::new()),
    )?;
    let (wire, _) = dial::open(target, tls).await?;
    let (mut sender, connection) = dial::http1()
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|why| Failure::Transport(why.to_string()))?;
    let mut connection = pin!(connection.without_shutdown());
    // The connection may be over in the same moment in which the answer arrives.
    let mut over = None;
    let mut answering = pin!(sender.send_request(message));
    let answer = poll_fn(|context| {
        if over.is_none()
            && let Poll::Ready(ended) = connection.as_mut().poll(context)
        {
            over = Some(ended);
        }
        answering.as_mut().poll(context)
    })
    .await
    .map_err(|why| dial::of_exchange(&why))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let running = async {
            if over.is_none() {
                // The body below says how the connection fares.
                let _ = connection.as_mut().await;
            }
            std::future::pending().await
        };
        return tokio::select! {
            refused = refused(answer) => refused,
            never = running => never,
        };
    }
    let parts = match over {
        Some(ended) => ended,
        None => connection.await,
    };
    let parts = parts.map_err(|why| dial::of_exchange(&why))?;
    Ok(UpgradeAnswer::Switched(Switched {
        headers: answer.into_parts().0.headers,
        stream: stream(parts.read_buf, parts.io.into_inner()),
    }))
}

fn stream(first: Bytes, wire: Wire) -> Box<dyn ByteStream> {
    Box::new(ReadAhead::new(first, wire))
}

/// Reads the beginning of a refusal.
async fn refused(answer: Response<Incoming>) -> Result<UpgradeAnswer, Failure> {
    let (head, mut incoming) = answer.into_parts();
    let mut body = BytesMut::new();
    let reading = async {
        while let Some(Ok(frame)) = incoming.frame().await
            && body.len() < REFUSAL_BYTES_MAX
        {
            body.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    };
    // A refusal that is cut short is still the refusal.
    let _ = timeout(REFUSAL_TIME, reading).await;
    body.truncate(REFUSAL_BYTES_MAX);
    Ok(UpgradeAnswer::Refused(Answer {
        status: head.status,
        headers: head.headers,
        body: body.freeze(),
    }))
}
