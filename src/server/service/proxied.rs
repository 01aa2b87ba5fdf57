//! Requests that another server answers, because a remote APIService has their group and version
//! (CN-28 to CN-35).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Version};
use tokio::time::Instant;

use super::refusals::Refused;
use super::{Requester, Service};
use crate::aggregation::proxy::{self, Forwarded};
use crate::aggregation::{ApiService, RemoteServers};
use crate::api::percent;
use crate::api::request_info::RequestInfo;
use crate::api::status::Status;
use crate::auth::Access;
use crate::egress::headers::{add_upgrade, is_upgrade, of_answer};
use crate::egress::{EgressError, Failure, ForwardRequest, Target, UpgradeAnswer, UpgradeRequest};
use crate::server::filters::deadline::Allowed;
use crate::server::filters::in_flight::Counted;
use crate::server::filters::seats::Seat;
use crate::server::leaving::Leaving;
use crate::server::links::LinkRules;
use crate::server::metrics::Running;
use crate::server::passed_on::{answered, awaited, of_request, timed, upload, whole};
use crate::server::request_record::RequestRecord;
use crate::server::respond::{self, Answer, PassedOn, ResponseBody};
use crate::server::sessions::relayed;
use crate::server::web_sockets::WITH_BODY;
use crate::transport::{ConnectionFacts, RequestBody};

/// The time for an extension's list of resources.
const DISCOVERY_TIME: Duration = Duration::from_secs(5);

/// The time for the answer to a request for another protocol that may last.
const UPGRADE_TIME: Duration = Duration::from_secs(60);

const LOOPS: &str = "the request loops: it has passed this server before, or too many others";
const STOPPING: &str = "the server is shutting down";
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

/// A request to pass on.
pub(super) struct Passing<'p> {
    pub(super) parts: &'p Parts,
    pub(super) info: &'p RequestInfo,
    pub(super) record: &'p RequestRecord,
    pub(super) requester: &'p Requester,
    pub(super) apiservice: Arc<ApiService>,
    pub(super) allowed: Option<Allowed>,
    pub(super) counted: Option<Arc<Counted>>,
}

/// The seat of a request until the end of its response.
enum Held {
    /// That of a watch, or of a connection of another protocol.
    OfWatches(#[expect(dead_code, reason = "it is held")] Seat),
    /// That of another request. `None` for an exempt one.
    InFlight(#[expect(dead_code, reason = "it is held")] Option<Arc<Counted>>),
}

impl Service {
    /// Returns the APIService of the server that answers a request, if it is another server.
    pub(super) fn elsewhere(&self, path: &str) -> Option<Arc<ApiService>> {
        let view = self.thread.server.aggregation.as_ref()?.services.current();
        let (group, version) = proxy::group_version(path)?;
        view.remote(group, version).cloned()
    }

    /// Passes a request on.
    pub(super) async fn pass_on(
        &self,
        passing: Passing<'_>,
        body: RequestBody,
        running: &mut Running<'_>,
    ) -> Result<Answer, Refused> {
        let apiservice = &passing.apiservice;
        let labels = running.labels.clone();
        running.labels = labels.elsewhere(&apiservice.group, &apiservice.version);
        let server = &self.thread.server;
        let servers = server.aggregation.as_ref().map(|all| &all.servers);
        let ended = |code: StatusCode, text: &str| {
            running.labels.ended_by_aggregator(code.as_u16());
            refusal(code, text)
        };
        let unavailable = || ended(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        let Some(servers) = servers.filter(|_| apiservice.is_available()) else {
            return Ok(unavailable());
        };
        if proxy::is_circling(&passing.parts.headers) {
            return Ok(ended(StatusCode::LOOP_DETECTED, LOOPS));
        }
        let address = match servers.address(apiservice).await {
            Ok(address) => address,
            Err(why) => {
                tracing::debug!(apiservice = apiservice.name, %why, "it cannot be reached");
                return Ok(unavailable());
            }
        };
        let target = servers.target(apiservice, &address);
        let target = match target.map_err(|why| why.to_string()) {
            Ok(target) => target,
            Err(why) => return Ok(ended(StatusCode::INTERNAL_SERVER_ERROR, &why)),
        };
        let upgrades = passing.asks_for_upgrade();
        let held = match upgrades || passing.info.is_long_running() {
            true => {
                let seat = server.watch_seats.take(&passing.requester.user.name);
                Held::OfWatches(seat.ok_or_else(super::refusals::too_many)?)
            }
            false => Held::InFlight(passing.counted.clone()),
        };
        let outgoing = match Outgoing::of(&passing, &address) {
            Ok(outgoing) => outgoing,
            Err(why) => return Ok(respond::unreachable(&why)),
        };
        let upstream = Upstream {
            servers,
            target,
            address,
            outgoing,
            held,
            deadline: passing.deadline(),
        };
        match upgrades {
            true => self.upgrade(&passing, upstream, &body).await,
            false => self.forward(&passing, upstream, body).await,
        }
    }

    /// Asks for another protocol, and has the connections relayed after it.
    async fn upgrade(
        &self,
        passing: &Passing<'_>,
        upstream: Upstream<'_>,
        body: &RequestBody,
    ) -> Result<Answer, Refused> {
        if !matches!(body, RequestBody::Empty) {
            return Ok(refusal(StatusCode::BAD_REQUEST, WITH_BODY));
        }
        let Upstream { outgoing, .. } = upstream;
        let mut headers = outgoing.headers;
        add_upgrade(&mut headers, &passing.parts.headers);
        let asked = UpgradeRequest {
            method: passing.parts.method.clone(),
            path: outgoing.path,
            headers,
            deadline: Some(upstream.deadline.unwrap_or(Instant::now() + UPGRADE_TIME)),
        };
        let asking = upstream.servers.client.upgrade(&upstream.target, asked);
        let access = &passing.requester.access;
        let asked = self.awaited(asking, false, access, upstream.deadline);
        let Some(answer) = asked.await? else {
            return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, STOPPING));
        };
        let place = (&self.thread.leaving, &*upstream.address);
        upgraded(answer, passing, place, upstream.held)
    }

    /// Sends the request, and passes the answer on.
    async fn forward(
        &self,
        passing: &Passing<'_>,
        upstream: Upstream<'_>,
        body: RequestBody,
    ) -> Result<Answer, Refused> {
        let Upstream { outgoing, .. } = upstream;
        let request = ForwardRequest {
            method: passing.parts.method.clone(),
            path: outgoing.path,
            headers: outgoing.headers,
            body: upload(body, &passing.parts.headers),
            deadline: upstream.deadline,
        };
        let asking = upstream.servers.client.forward(&upstream.target, request);
        let is_write = !passing.parts.method.is_safe();
        let access = &passing.requester.access;
        let asked = self.awaited(asking, is_write, access, upstream.deadline);
        let answer = match asked.await? {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => return Ok(failed(&error.failure, passing)),
            None => return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, STOPPING)),
        };
        let mut headers = match head(answer.status, &answer.headers, &upstream.address) {
            Ok(headers) => headers,
            Err((code, text)) => return Ok(respond::text(code, text)),
        };
        let (method, status) = (&passing.parts.method, answer.status);
        let rules = LinkRules::of_extension(&upstream.address);
        let body = rules.body(method, status, &mut headers, answer.body);
        let pieces = match upstream.deadline {
            Some(deadline) => timed(body, deadline, upstream.held),
            None => {
                let access = passing.requester.access.clone();
                of_request(method, body, &self.thread.leaving, access, upstream.held)?
            }
        };
        let body = ResponseBody::Chunks(pieces);
        Ok(answered(status, headers, body))
    }

    /// Waits for an answer. If it may take any time, the stop of the daemon ends the wait.
    ///
    /// # Errors
    /// 401 if the user loses this access ([`awaited`]).
    async fn awaited<T>(
        &self,
        asking: impl Future<Output = T>,
        is_write: bool,
        access: &Access,
        deadline: Option<Instant>,
    ) -> Result<Option<T>, Refused> {
        let authenticator = &self.thread.server.authenticator;
        let answer = awaited(asking, is_write, access, authenticator);
        let answer = match deadline {
            Some(_) => Some(answer.await),
            None => self.thread.leaving.unless(answer).await,
        };
        Ok(answer.transpose()?)
    }
}

/// An extension, and the request as it gets it.
struct Upstream<'w> {
    servers: &'w RemoteServers,
    target: Target,
    /// Its host and port.
    address: String,
    outgoing: Outgoing,
    held: Held,
    /// When the answer must be complete, unless it may last.
    deadline: Option<Instant>,
}

/// Returns the headers of an answer from the extension at this `host:port`.
///
/// # Errors
/// The client gets another answer, with this status and text.
fn head(
    status: StatusCode,
    headers: &HeaderMap,
    address: &str,
) -> Result<HeaderMap, (StatusCode, String)> {
    if proxy::is_redirect(status, headers) {
        return Err((StatusCode::BAD_GATEWAY, REDIRECTED.to_owned()));
    }
    let mut passed = of_answer(headers);
    LinkRules::of_extension(address)
        .relocate(&mut passed)
        .map_err(|why| {
            let why = format!("error trying to parse Location header: {why}");
            let text = format!("Internal error occurred: {why}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
    Ok(passed)
}

impl Passing<'_> {
    fn asks_for_upgrade(&self) -> bool {
        let parts = self.parts;
        parts.version == Version::HTTP_11 && is_upgrade(&parts.method, &parts.headers)
    }

    fn deadline(&self) -> Option<Instant> {
        let allowed = self.allowed?.elsewhere().within;
        let is_discovery = !self.info.is_resource;
        let within = match is_discovery {
            true => allowed.min(DISCOVERY_TIME),
            false => allowed,
        };
        Some(Instant::now() + within)
    }
}

/// The path and headers of a request as an extension gets them.
struct Outgoing {
    path: String,
    headers: HeaderMap,
}

impl Outgoing {
    fn of(passing: &Passing<'_>, address: &str) -> Result<Outgoing, String> {
        let Passing {
            parts,
            record,
            requester,
            ..
        } = passing;
        let decoded = percent::decoded_bytes(parts.uri.path()).unwrap_or_default();
        let path = percent::encoded_path(&decoded);
        let facts = parts.extensions.get::<ConnectionFacts>();
        let forwarded = Forwarded {
            user: &requester.user,
            peer: facts.map(|facts| facts.peer.ip()),
            host: address,
            uri: &percent::cleaned_path(&path),
            audit_id: &record.audit_id,
        };
        let headers = proxy::outgoing(&parts.headers, &forwarded);
        let headers = headers.map_err(|why| why.to_string())?;
        let query = proxy::rewritten_query(parts.uri.query().unwrap_or_default());
        let path = match query.is_empty() {
            true => path,
            false => format!("{path}?{query}"),
        };
        Ok(Outgoing { path, headers })
    }
}

/// Returns the answer to a request for another protocol (CN-35).
fn upgraded(
    asked: Result<UpgradeAnswer, EgressError>,
    passing: &Passing<'_>,
    place: (&Leaving, &str),
    held: Held,
) -> Result<Answer, Refused> {
    let (leaving, address) = place;
    let switched = match asked {
        Ok(UpgradeAnswer::Switched(switched)) => switched,
        Ok(UpgradeAnswer::Refused(refused)) if refused.status.as_u16() < 400 => {
            let code = refused.status.as_u16();
            let text = format!("invalid upgrade response: status code {code}");
            return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, &text));
        }
        Ok(UpgradeAnswer::Refused(refused)) => {
            let headers = match head(refused.status, &refused.headers, address) {
                Ok(headers) => headers,
                Err((code, text)) => return Ok(respond::text(code, text)),
            };
            return Ok(whole(refused.status, headers, refused.body));
        }
        Err(error) => return Ok(failed(&error.failure, passing)),
    };
    let access = passing.requester.access.clone();
    let mut answer = relayed(switched, leaving, access, held)?;
    answer.extensions_mut().insert(PassedOn);
    Ok(answer)
}

/// Returns a text for a request that no other server has answered.
fn refusal(code: StatusCode, text: &str) -> Answer {
    respond::text(code, format!("{text}\n"))
}

/// Returns the answer if another server has not answered (CN-34).
fn failed(failure: &Failure, passing: &Passing<'_>) -> Answer {
    match failure {
        Failure::Roots | Failure::Identity(_) => {
            refusal(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string())
        }
        Failure::Deadline if passing.info.is_resource => {
            let exceeded = passing
                .allowed
                .map(|allowed| allowed.elsewhere().exceeded());
            let status = exceeded.unwrap_or_else(Status::request_timeout);
            let body = Bytes::from(status.to_json());
            respond::answer(
                StatusCode::GATEWAY_TIMEOUT,
                "text/plain; charset=utf-8",
                body,
            )
        }
        failure => respond::unreachable(&failure.to_string()),
    }
}
