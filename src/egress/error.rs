//! Why a request has failed, in the words of Go's net/http.

use http::Method;

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct EgressError {
    /// The method of the last request, which a redirect may have changed.
    pub method: Method,
    /// The URL of the last request, which a redirect may have changed.
    pub url: String,
    /// The reason.
    pub failure: Failure,
}

impl EgressError {
    /// A failure while the answer's head was awaited names the request: `Post "https://a/b": EOF`.
    /// One of its body, or one before the first request, stands alone.
    fn text(&self) -> String {
        match &self.failure {
            Failure::Roots | Failure::Identity(_) | Failure::Body(_) | Failure::TooLarge(_) => {
                self.failure.to_string()
            }
            failure => {
                let method = self.method.as_str();
                let (first, rest) = method.split_at_checked(1).unwrap_or((method, ""));
                let rest = rest.to_ascii_lowercase();
                format!("{first}{rest} \"{}\": {failure}", self.url)
            }
        }
    }
}

/// The reason why a request has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The bundle of trusted certificates has none.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    Roots,
    /// The client certificate or its key cannot be used.
    #[error("tls: {0}")]
    Identity(String),
    /// No connection: `dial tcp 127.0.0.1:1: connect: connection refused`.
    #[error("{0}")]
    Dial(String),
    /// The server has an address that this client must not connect to.
    #[error("address not allowed")]
    NotAllowed,
    /// The TLS handshake has failed: `tls: failed to verify certificate: x509: …`.
    #[error("{0}")]
    Tls(String),
    /// The time of the request is over.
    #[error("context deadline exceeded")]
    Deadline,
    /// The connection was closed before the answer began.
    #[error("EOF")]
    Closed,
    /// The connection failed before the answer was complete, or the answer is not HTTP.
    #[error("{0}")]
    Transport(String),
    /// A redirect that cannot be followed.
    #[error("{0}")]
    Redirect(String),
    /// The body of the answer ended early: `unexpected EOF`.
    #[error("{0}")]
    Body(String),
    /// The body of the answer has more bytes than the request permits.
    #[error("the answer is too large: it has more than {0} bytes")]
    TooLarge(usize),
}
