//! Requests to a running daemon, over HTTPS.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::access::{Access, Credential, Server};
use super::trust;

/// The maximum wait for data. Returning the space of a large store takes a while.
const PATIENCE: Duration = Duration::from_secs(600);

/// How many bytes of an answer may be in flight.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Longer refusals are cut.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// The reasons why the daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreached {
    /// Nothing listens at the kubeconfig's address.
    #[error("no daemon answers: {0}")]
    NobodyThere(io::Error),
    /// The command can't do any I/O.
    #[error("no event loop: {0}")]
    NoRuntime(io::Error),
    /// The connection broke or can't be trusted.
    #[error("cannot connect to the daemon at {0}: {1}")]
    Broken(String, String),
    /// The daemon refused, with this message.
    #[error("the daemon answered {0}: {1}")]
    Refused(StatusCode, String),
    /// The daemon did not answer in time.
    #[error("the daemon did not answer for {0:?}; it continues its work anyway")]
    TimedOut(Duration),
}

/// Receives an answer in pieces. An error text stops it.
pub(super) type Hear<'h> = &'h mut dyn FnMut(&[u8]) -> Result<(), String>;

/// Posts an empty body to a path, and passes on the answer as it arrives.
pub(super) async fn post(access: &Access, path: &str, hear: Hear<'_>) -> Result<(), Unreached> {
    request(access, Request::new(Method::POST, path, Bytes::new()), hear).await
}

/// Gets the document at a path, and passes it on as it arrives.
pub(super) async fn get(access: &Access, path: &str, hear: Hear<'_>) -> Result<(), Unreached> {
    request(access, Request::get(path), hear).await
}

/// A request with a body of JSON, or an empty one.
pub(super) struct Request<'r> {
    pub(super) method: Method,
    pub(super) path: &'r str,
    /// The media type of the answer.
    pub(super) accept: &'r str,
    pub(super) body: Bytes,
}

impl<'r> Request<'r> {
    pub(super) fn new(method: Method, path: &'r str, body: Bytes) -> Request<'r> {
        Request {
            method,
            path,
            accept: "application/json",
            body,
        }
    }

    pub(super) fn get(path: &'r str) -> Request<'r> {
        Request::new(Method::GET, path, Bytes::new())
    }

    pub(super) fn accepting(self, accept: &'r str) -> Request<'r> {
        Request { accept, ..self }
    }
}

/// Sends a request and passes on the answer as it arrives.
pub(super) async fn request(
    access: &Access,
    asked: Request<'_>,
    hear: Hear<'_>,
) -> Result<(), Unreached> {
    let server = &access.server;
    let stream = TcpStream::connect((server.host.as_str(), server.port))
        .await
        .map_err(Unreached::NobodyThere)?;
    match ask(access, asked, stream, hear).await {
        Ok(None) => Ok(()),
        Ok(Some((status, body))) => {
            let text = message(&String::from_utf8_lossy(&body));
            Err(Unreached::Refused(status, text))
        }
        Err(Broken::Silent) => Err(Unreached::TimedOut(PATIENCE)),
        Err(Broken::Other(error)) => {
            let authority = server.authority.clone();
            Err(Unreached::Broken(authority, error.to_string()))
        }
    }
}

/// The message of a Status, or the text as it is.
fn message(body: &str) -> String {
    let status: Option<Value> = serde_json::from_str(body).ok();
    let message = status
        .as_ref()
        .and_then(|status| status["message"].as_str());
    message.unwrap_or(body).trim().to_owned()
}

/// [`whole`] refuses longer answers.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Posts an empty body to a path. Returns the whole answer, which must be short.
pub(super) async fn post_whole(access: &Access, path: &str) -> Result<Vec<u8>, Unreached> {
    whole(access, Request::new(Method::POST, path, Bytes::new())).await
}

/// Sends a request. Returns the whole answer, which must be short.
pub(super) async fn whole(access: &Access, asked: Request<'_>) -> Result<Vec<u8>, Unreached> {
    let mut answer = Vec::new();
    let mut hear = |piece: &[u8]| match answer.len() + piece.len() > ANSWER_BYTES_MAX {
        true => Err("its answer is too long".to_owned()),
        false => {
            answer.extend_from_slice(piece);
            Ok(())
        }
    };
    request(access, asked, &mut hear).await?;
    Ok(answer)
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Why an answer ended early.
enum Broken {
    Silent,
    Other(Failure),
}

impl<E: Into<Failure>> From<E> for Broken {
    fn from(error: E) -> Broken {
        Broken::Other(error.into())
    }
}

/// The code and text of a refusal, if the answer is one.
type Refusal = Option<(StatusCode, Vec<u8>)>;

async fn ask(
    access: &Access,
    asked: Request<'_>,
    stream: TcpStream,
    hear: Hear<'_>,
) -> Result<Refusal, Broken> {
    let name = access.server_name.as_ref().unwrap_or(&access.server.host);
    let name = ServerName::try_from(name.clone())?;
    let config = trust::client_config(&access.trust_pem, &access.credential)?;
    let stream = TlsConnector::from(config).connect(name, stream);
    let stream = patiently(stream).await??;
    let handshake = h2::client::Builder::new()
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .handshake(stream);
    let (requests, connection) = patiently(handshake).await??;
    let answering = async {
        let Request { path, body, .. } = asked;
        let Server {
            authority, base, ..
        } = &access.server;
        let mut request = http::Request::builder();
        if let Credential::Token(token) = &access.credential {
            request = request.header("authorization", format!("Bearer {}", token.secret()));
        }
        let request = request
            .method(asked.method)
            .uri(format!("https://{authority}{base}{path}"))
            .header("accept", asked.accept)
            .header("content-type", "application/json")
            .body(())?;
        let mut requests = requests.ready().await?;
        let (response, mut sending) = requests.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            sending.send_data(body, true)?;
        }
        let response = patiently(response).await??;
        let status = response.status();
        let mut stream = response.into_body();
        let mut refusal = Vec::new();
        while let Some(data) = patiently(poll_fn(|context| stream.poll_data(context))).await? {
            let data = data?;
            stream.flow_control().release_capacity(data.len())?;
            if status.is_success() {
                hear(&data)?;
            } else if refusal.len() + data.len() <= REFUSAL_BYTES_MAX {
                refusal.extend_from_slice(&data);
            }
        }
        Ok((!status.is_success()).then_some((status, refusal)))
    };
    tokio::select! {
        answer = answering => answer,
        ended = connection => match ended {
            Ok(()) => Err("it closed the connection".into()),
            Err(error) => Err(error.into()),
        },
    }
}

async fn patiently<T>(work: impl Future<Output = T>) -> Result<T, Broken> {
    let work = tokio::time::timeout(PATIENCE, work).await;
    work.map_err(|_| Broken::Silent)
}
