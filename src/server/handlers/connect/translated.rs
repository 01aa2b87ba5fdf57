//! Newer protocols over WebSocket that are translated for a kubelet: commands of v5, and the tunnel
//! of port forwarding (CN-50, CN-52, CN-68).

use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method};

use super::super::Answered;
use super::answer_of;
use super::asked::{ANSWER_WITHIN, Found, failed, refused};
use super::command::Command;
use super::tunnel::Tunnel;
use crate::api::status::Status;
use crate::egress::{EgressError, Switched, UpgradeAnswer, UpgradeRequest};
use crate::registry::rest::CommandStreams;
use crate::server::metrics::session_ended;
use crate::server::request_scope::RequestScope;
use crate::server::{sessions, web_sockets};
use crate::transport::ClientStream;
use crate::upgraded::{ByteStream, FramesApart, Translated, TranslatedEnd, Translation};

/// The protocol of commands that has to be translated.
const COMMANDS: &str = "v5.channel.k8s.io";

/// The protocols of commands that kubelets are offered (CN-52).
const OFFERED: [&str; 5] = [
    COMMANDS,
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];

/// The beginning of the protocols of a tunnel, before those of its SPDY.
const TUNNEL: &str = "SPDY/3.1+";

const SPDY: HeaderValue = HeaderValue::from_static("SPDY/3.1");

/// Has the protocols that a client of SPDY offers, and the one that a server has chosen.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// A protocol to translate.
pub(super) enum Newer {
    /// A command.
    Command,
    /// A tunnel, with the protocols of its SPDY.
    Tunnel(Vec<String>),
}

impl Newer {
    /// Returns the protocol that a WebSocket asks for, if it is a newer one.
    pub(super) fn of(headers: &HeaderMap, subresource: &str) -> Option<Newer> {
        let mut asked = web_sockets::offered(headers);
        if subresource != "portforward" {
            // linear: a client names a few.
            return asked.any(|one| one == COMMANDS).then_some(Newer::Command);
        }
        let inner = asked.filter_map(|one| one.strip_prefix(TUNNEL).map(str::to_owned));
        let inner: Vec<String> = inner.collect();
        (!inner.is_empty()).then_some(Newer::Tunnel(inner))
    }
}

/// Answers the handshake, and runs the command after it. The client gets all failures of the
/// kubelet as the outcome of the command.
pub(super) fn command(scope: &RequestScope<'_>, found: Found, streams: CommandStreams) -> Answered {
    let answer = web_sockets::accepted(scope.parts, Some(COMMANDS))?;
    let server = Arc::clone(scope.server);
    let stops = scope.leaving.announced();
    let run = async move |client| {
        let Found {
            kubelet,
            path,
            guards,
        } = found;
        let _guards = guards;
        let mut headers = HeaderMap::new();
        for protocol in OFFERED {
            headers.append(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
        }
        let asking = async move {
            let request = asked(path, headers);
            let answer = server.kubelets.egress().upgrade(&kubelet, request).await;
            started(answer)
        };
        let mut running = Running::new(client, Command::new(streams));
        running.run_asking(Box::pin(asking), pin!(stops)).await;
    };
    sessions::switched(answer, scope.access.clone(), run)
}

/// Asks the kubelet to forward ports over SPDY, and answers the handshake if it does.
pub(super) async fn tunnel(
    scope: &RequestScope<'_>,
    found: Found,
    mut headers: HeaderMap,
    protocols: Vec<String>,
) -> Answered {
    // The handshake is checked before the kubelet is asked.
    web_sockets::accepted(scope.parts, Some(TUNNEL))?;
    for name in [
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION,
        SEC_WEBSOCKET_EXTENSIONS,
        STREAM_PROTOCOL,
    ] {
        headers.remove(name);
    }
    for protocol in &protocols {
        headers.append(STREAM_PROTOCOL, web_sockets::value(protocol)?);
    }
    let Found {
        kubelet,
        path,
        guards,
    } = found;
    let egress = scope.server.kubelets.egress();
    let asking = egress.upgrade(&kubelet, asked(path, headers));
    let answered = answer_of(scope, false, asking).await?;
    let switched = match answered.map_err(|error| failed(&error))? {
        UpgradeAnswer::Switched(switched) => switched,
        UpgradeAnswer::Refused(answer) => return refused(answer),
    };
    let chosen = switched
        .headers
        .get(STREAM_PROTOCOL)
        .map(HeaderValue::to_str);
    let Some(Ok(chosen)) = chosen.filter(|_| is_spdy(&switched.headers)) else {
        let text = "the kubelet has answered with another protocol than SPDY/3.1";
        return Err(Box::new(Status::unknown(text)));
    };
    let answer = web_sockets::accepted(scope.parts, Some(&format!("{TUNNEL}{chosen}")))?;
    let stops = scope.leaving.announced();
    let run = async move |client| {
        let _guards = guards;
        let mut running = Running::new(client, Tunnel::default());
        running.session.connect(switched.stream);
        running.run(pin!(stops)).await;
    };
    sessions::switched(answer, scope.access.clone(), run)
}

/// Makes a request for SPDY.
fn asked(path: String, mut headers: HeaderMap) -> UpgradeRequest {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, SPDY);
    UpgradeRequest {
        method: Method::POST,
        path,
        headers,
        deadline: Some(tokio::time::Instant::now() + ANSWER_WITHIN),
    }
}

fn is_spdy(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).map(HeaderValue::as_bytes);
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(SPDY.as_bytes()))
}

/// Returns the connection to a kubelet that has accepted a command (CN-52).
fn started(answer: Result<UpgradeAnswer, EgressError>) -> Result<Box<dyn ByteStream>, Box<Status>> {
    let answer = answer
        .map_err(|error| Box::new(Status::internal(format!("error sending request: {error}"))))?;
    match answer {
        UpgradeAnswer::Switched(Switched { headers, stream }) if is_spdy(&headers) => Ok(stream),
        UpgradeAnswer::Switched(_) => {
            let why = "unable to upgrade connection: the kubelet has chosen another protocol";
            Err(Box::new(Status::internal(why)))
        }
        UpgradeAnswer::Refused(answer) => {
            let body = String::from_utf8_lossy(&answer.body);
            let why = format!("unable to upgrade connection: {}", body.trim());
            Err(Box::new(Status::internal(why)))
        }
    }
}

/// The connection to a kubelet that is being asked.
type Asking = LocalBoxFuture<'static, Result<Box<dyn ByteStream>, Box<Status>>>;

/// A session, which is counted when it ends for any reason.
struct Running<T: Translation + Unpin> {
    session: Translated<FramesApart<ClientStream>, Box<dyn ByteStream>, T>,
    end: &'static str,
}

impl<T: Translation + Unpin> Running<T> {
    fn new(client: ClientStream, translation: T) -> Running<T> {
        Running {
            session: Translated::new(FramesApart::new(client, true), translation),
            end: "cut",
        }
    }

    /// Runs the session to its end.
    async fn run(&mut self, mut stops: Pin<&mut impl Future<Output = ()>>) {
        tokio::select! {
            end = &mut self.session => self.ended(&end),
            () = &mut stops => self.stopped().await,
        }
    }

    fn ended(&mut self, end: &TranslatedEnd) {
        self.end = match end {
            TranslatedEnd::InOrder => "in-order",
            TranslatedEnd::ClientGone => "cut",
            TranslatedEnd::Stalled => "failed",
        };
    }

    async fn stopped(&mut self) {
        self.end = "stopped";
        self.session.stop();
        (&mut self.session).await;
    }
}

impl Running<Command> {
    /// Runs the session, whose client is served while its kubelet is still being asked.
    async fn run_asking(&mut self, asking: Asking, mut stops: Pin<&mut impl Future<Output = ()>>) {
        tokio::select! {
            asked = asking => match asked {
                Ok(kubelet) => self.session.connect(kubelet),
                Err(why) => {
                    let _ = self.session.translation().refused(&why);
                    self.session.end();
                }
            },
            end = &mut self.session => return self.ended(&end),
            () = &mut stops => return self.stopped().await,
        }
        self.run(stops).await;
    }
}

impl<T: Translation + Unpin> Drop for Running<T> {
    fn drop(&mut self) {
        session_ended(self.end, self.session.relayed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_protocols_are_found_wherever_they_are_listed_cn_50_cn_68() {
        let newer = |protocols: &'static str, subresource: &str| {
            let mut headers = HeaderMap::new();
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocols));
            match Newer::of(&headers, subresource) {
                Some(Newer::Command) => "command".to_owned(),
                Some(Newer::Tunnel(protocols)) => protocols.join(" "),
                None => String::new(),
            }
        };
        assert_eq!(
            newer("v4.channel.k8s.io,  v5.channel.k8s.io", "exec"),
            "command"
        );
        assert_eq!(newer("v4.channel.k8s.io", "attach"), "");
        assert_eq!(newer("v5.channel.k8s.io", "portforward"), "");
        assert_eq!(newer("SPDY/3.1+portforward.k8s.io", "exec"), "");
        let tunnel = newer("x, SPDY/3.1+portforward.k8s.io", "portforward");
        assert_eq!(tunnel, "portforward.k8s.io");
    }
}
