//! The service of one HTTP thread: it runs the filters in order, then the route, then the handler.
//!
//! This folder owns the path of a request from its headers to its response. It takes a parsed HTTP
//! request and returns a response. It must not know sockets, HTTP versions or the details of a
//! single verb.
//!
//! The order is that of http.md 1.2, because it decides which of two errors a client sees: audit
//! ID, request info, shutdown, deadline, authentication, impersonation, limits, authorization,
//! routing. A panic in a handler becomes a 500; it ends neither the connection nor the thread.

mod labels;
mod metrics_service;
mod proxied;
mod refusals;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use actors::dispatcher::LocalDispatcher;
use futures_util::FutureExt;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use labels::labelled;
pub use metrics_service::MetricsService;
use proxied::Passing;
use refusals::{
    Refused, is_served_to_the_end, not_authorized, not_understood, panicked, preflight,
    refused_by_transport, shutting_down, too_many,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::api_server::ApiServer;
use super::filters::deadline::Allowed;
use super::filters::in_flight::{self, Counted};
use super::filters::{audit_id, warnings};
use super::generation::Generation;
use super::handlers;
use super::issuer_discovery::IssuerDiscovery;
use super::leaving::Leaving;
use super::metrics::{RequestLabels, RequestMeters, Running, WatchMeters};
use super::negotiation::Handler;
use super::request_record::RequestRecord;
use super::request_scope::{self, RequestScope};
use super::respond::{self, Answer, ResponseBody, UNCACHED};
use super::routes::{self, Miss, Route};
use crate::api::options::{self, Query};
use crate::api::request_info::RequestInfo;
use crate::api::status::Status;
use crate::api::text::go_text;
use crate::api::user_info::{MASTERS, UserInfo};
use crate::auth::websocket_token;
use crate::auth::{Access, Attributes, Authenticated, Credentials, Unauthorized};
use crate::clock;
use crate::registry::{GROUPS, RequestContext};
use crate::server::metrics::MeteredWatch;
use crate::transport::{ConnectionFacts, HttpService, Owner, Refusal, RequestBody};

/// The service of one thread. Clones share it.
#[derive(Clone)]
pub struct Service {
    thread: Rc<Thread>,
}

struct Thread {
    server: Arc<ApiServer>,
    /// The generation that answered the last request.
    generation: RefCell<Arc<Generation>>,
    dispatcher: LocalDispatcher,
    requests: RequestMeters,
    watches: Arc<WatchMeters>,
    leaving: Leaving,
}

/// The authenticated user of a request.
struct Requester {
    /// The user as whom the request is carried out.
    user: Arc<UserInfo>,
    /// The user who sent the request, if it impersonates another one.
    impersonator: Option<Arc<UserInfo>>,
    /// The access of the user who sent the request.
    access: Access,
}

impl HttpService for Service {
    type Watch = MeteredWatch;

    async fn call(&self, request: Request<RequestBody>) -> http::Response<ResponseBody> {
        let (mut parts, body) = request.into_parts();
        let server = &self.thread.server;
        websocket_token::place(&mut parts.headers);
        // With APIResponseCompression off, kube-apiserver still compresses OpenAPI v2 and metrics.
        let is_packed = |path: &str| path == "/openapi/v2" || path.starts_with("/metrics");
        if !server.features.response_compression
            && !is_packed(parts.uri.path())
            && self.elsewhere(parts.uri.path()).is_none()
        {
            parts.headers.remove(ACCEPT_ENCODING);
        }
        let record = RequestRecord::begin(audit_id::of(&parts.headers), server);
        let origin = server.response_headers.allowed_origin(&parts.headers);
        let (mut answer, has_panicked) = match origin {
            // A browser asks whether the page may send the request (CORS).
            Some(_) if parts.method == Method::OPTIONS => (preflight(), false),
            _ => {
                let answering = self.answer(&mut parts, body, &record);
                let answered = AssertUnwindSafe(answering).catch_unwind().await;
                survived(answered, &record.audit_id)
            }
        };
        if parts.method == Method::HEAD {
            *answer.body_mut() = ResponseBody::Empty;
        }
        let facts = parts.extensions.get::<ConnectionFacts>();
        let is_http2 = facts.is_some_and(|facts| facts.http2);
        let headers = answer.headers_mut();
        server.response_headers.add(headers, origin, is_http2);
        audit_id::set(headers, &record.audit_id);
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, UNCACHED);
        }
        warnings::add(headers, record.warnings.take());
        record.answered(answer, has_panicked, server)
    }

    fn owner(&self, headers: &HeaderMap, facts: &ConnectionFacts) -> Option<Owner> {
        let headers = websocket_token::placed(headers);
        let credentials = Credentials::of(&headers, facts.certificates.as_deref());
        let user = self.thread.server.authenticator.recognises(&credentials)?;
        Some(Owner(user.name.as_str().into()))
    }

    fn refuse(&self, refusal: Refusal) -> http::Response<ResponseBody> {
        refused_by_transport(refusal)
    }

    fn drain(&self) {
        if let Some(test) = &self.thread.server.test {
            test.faults.end_delays();
        }
        self.thread.dispatcher.drain();
        self.thread.leaving.announce();
    }

    async fn unattended_ended(&self) {
        self.thread.server.unattended.ended().await;
    }

    fn revocations(&self) -> watch::Receiver<u64> {
        self.thread.server.authenticator.revocations()
    }
}

/// Turns a panic of the handler into a response, so that neither the connection nor the thread
/// ends. Also returns whether the handler panicked.
fn survived(answered: std::thread::Result<Answer>, audit_id: &str) -> (Answer, bool) {
    match answered {
        Ok(answer) => (answer, false),
        Err(_) => (panicked(audit_id), true),
    }
}

impl Service {
    /// Creates the service of the calling thread. The Dispatcher serves its watches.
    pub fn new(server: Arc<ApiServer>, dispatcher: LocalDispatcher) -> Service {
        let thread = Thread {
            requests: RequestMeters::default(),
            watches: server.measures.thread(),
            dispatcher,
            leaving: Leaving::default(),
            generation: RefCell::new(server.generations.current()),
            server,
        };
        Service {
            thread: Rc::new(thread),
        }
    }

    async fn answer(&self, parts: &mut Parts, body: RequestBody, record: &RequestRecord) -> Answer {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let selector = query.first("fieldSelector").unwrap_or_default();
        let watch = query.flag("watch");
        let info = match RequestInfo::parse(&parts.method, parts.uri.path(), watch, selector) {
            Ok(info) => record.understood(info),
            Err(error) => return not_understood(parts, &error),
        };
        let labels = RequestLabels::of(info, &parts.method);
        let mut running = self.thread.requests.start(labels);
        let filtered = self.filtered(parts, body, info, query, record, &mut running);
        let answer = filtered.await.unwrap_or_else(|refused| match refused {
            Refused::Answer(answer) => *answer,
            Refused::Status(status) => {
                let query = Query::parse(parts.uri.query().unwrap_or_default());
                respond::refusal(
                    &status,
                    &request_scope::refusal_form(&parts.headers, &query),
                )
            }
        });
        if let Some(bytes) = record.body_bytes.get() {
            self.thread.requests.body(&running.labels, bytes);
        }
        running.finish(answer.status().as_u16());
        answer
    }

    /// Runs the filters that need the request info, and then the handler of the route.
    async fn filtered(
        &self,
        parts: &mut Parts,
        body: RequestBody,
        info: &RequestInfo,
        query: Query,
        record: &RequestRecord,
        running: &mut Running<'_>,
    ) -> Result<Answer, Refused> {
        let server = &self.thread.server;
        if server.health.refuses_requests() && !is_served_to_the_end(info) {
            return Err(shutting_down(parts).into());
        }
        let allowed = Allowed::of(info, &query, server.timeouts.request)?;
        let requester = self.requester(parts, info, &query, record).await?;
        server.authenticator.strip(&mut parts.headers);
        let parts = &*parts;
        let counted = self.admitted(info, &requester.user)?.map(Arc::new);
        let attributes = Attributes::of(&requester.user, info, &query);
        let began = Instant::now();
        let authorized = server.authorizer.authorize(&attributes).await;
        record.authorized(&authorized);
        self.thread
            .requests
            .authorized(&authorized, began.elapsed());
        if !authorized.is_allowed() {
            return Err(not_authorized(parts, &attributes, &authorized));
        }
        if let Some(apiservice) = self.elsewhere(&info.path) {
            let passing = Passing {
                parts,
                info,
                record,
                requester: &requester,
                apiservice,
                allowed,
                counted,
            };
            // Most requests are not passed on, and should not move the memory for it.
            return Box::pin(self.pass_on(passing, body, running)).await;
        }
        let within = allowed.map_or(server.timeouts.request, |allowed| allowed.within);
        let context = RequestContext {
            user: requester.user,
            impersonator: requester.impersonator,
            manager: manager(parts, &query),
            audit_id: record.audit_id.clone(),
            warnings: record.warnings.clone(),
            annotations: record.annotations(),
            is_for_collection: false,
            is_eviction: false,
            deadline: Instant::now() + within,
        };
        let (generation, route) = self.routed(parts, info).await?;
        let scope = RequestScope {
            server,
            generation: &generation,
            dispatcher: &self.thread.dispatcher,
            watches: &self.thread.watches,
            parts,
            headers: &parts.headers,
            leaving: &self.thread.leaving,
            record,
            query,
            context,
            access: requester.access,
            counted: counted.as_ref(),
            reads: request_scope::long_reads(parts),
            handler: handler_of(&route),
        };
        running.labels = labelled(running.labels.clone(), &route, &scope.query);
        let handling = handle(&scope, route, body);
        let answer = match allowed {
            None => handling.await?,
            Some(allowed) => tokio::time::timeout(within, handling)
                .await
                .unwrap_or_else(|_| Err(Refused::Status(Box::new(allowed.exceeded()))))?,
        };
        Ok(self.accounted(answer, &running.labels, info, counted))
    }

    /// Returns the route of a request, and the generation that has it. An unknown path that a
    /// definition may bring is looked for again when all definitions are known (CRD-85).
    async fn routed(
        &self,
        parts: &Parts,
        info: &RequestInfo,
    ) -> Result<(Arc<Generation>, Route), Refused> {
        let generation = self.generation();
        let server = &self.thread.server;
        let is_listed = |group: &str| {
            let aggregation = server.aggregation.as_ref();
            aggregation.is_some_and(|known| known.services.current().group(group).is_some())
        };
        // A group may be one of another server.
        let found = match routes::listed_group(&parts.method, info, is_listed) {
            Some(found) => found,
            None => routes::route(&parts.method, info, &generation.catalog),
        };
        let (Err(miss), Some(paths), Some(group)) =
            (&found, &server.unknown_paths, routes::group_of(info))
        else {
            return Ok((generation, found?));
        };
        if is_built_in(group) {
            return Ok((generation, found?));
        }
        if *miss == Miss::Method {
            return Err(refused_custom(*miss, info, &generation));
        }
        paths.settled(Some(group)).await?;
        let generation = self.generation();
        let found = routes::route(&parts.method, info, &generation.catalog);
        match found {
            Ok(route) => Ok((generation, route)),
            Err(miss) => Err(refused_custom(miss, info, &generation)),
        }
    }

    /// Authenticates the sender and applies impersonation.
    async fn requester(
        &self,
        parts: &Parts,
        info: &RequestInfo,
        query: &Query,
        record: &RequestRecord,
    ) -> Result<Requester, Refused> {
        let authenticated = self.authenticated(parts, record).await;
        let known = authenticated.as_ref().ok();
        record.authenticated(known.map(|known| &known.user), parts);
        let Authenticated { user, access, .. } = authenticated?;
        let attributes = Attributes::of(&user, info, query);
        let server = &self.thread.server;
        let other = server
            .impersonations
            .impersonated(&parts.headers, &attributes, &*server.authorizer)
            .await
            .inspect_err(|status| record.is_refused.set(status.code == 403))?;
        let (user, impersonator) = match other {
            Some(other) => {
                let (audit_id, name) = (&record.audit_id, &other.user.name);
                tracing::debug!(audit_id, user = user.name, %name, "carried out as another user");
                record.impersonates(&other);
                (other.user, Some(user))
            }
            None => (user, None),
        };
        Ok(Requester {
            user,
            impersonator,
            access,
        })
    }

    /// Returns the current generation. Drops this thread's measurements of resources that are no
    /// longer served, or that were removed and added again: those start new series.
    fn generation(&self) -> Arc<Generation> {
        let Thread {
            server,
            generation,
            requests,
            ..
        } = &*self.thread;
        let current = server.generations.current();
        if !Arc::ptr_eq(&current, &generation.borrow()) {
            let before = Arc::clone(&generation.borrow());
            let has_replaced = before.catalog.replacements() != current.catalog.replacements();
            let is_the_same = |group: &str, version: &str, plural: &str| {
                let [before, now] = [&before, &current]
                    .map(|generation| generation.catalog.find(group, version, plural));
                matches!((before, now), (Some(before), Some(now))
                    if Arc::ptr_eq(before.definition(), now.definition())
                        || before.definition().edition == now.definition().edition
                            && now.definition().edition != 0)
            };
            if has_replaced {
                requests.retain(is_the_same);
            }
            *generation.borrow_mut() = Arc::clone(&current);
        }
        current
    }

    async fn authenticated(
        &self,
        parts: &Parts,
        record: &RequestRecord,
    ) -> Result<Authenticated, Refused> {
        let server = &self.thread.server;
        let began = Instant::now();
        let facts = parts.extensions.get::<ConnectionFacts>();
        let certificates = facts.and_then(|facts| facts.certificates.as_deref());
        let credentials = Credentials::of(&parts.headers, certificates).at(parts.uri.path());
        let mut authenticated = server.authenticator.authenticate(&credentials).await;
        record.noted(match &mut authenticated {
            Ok(known) => std::mem::take(&mut known.notes),
            Err(refused) => refused.notes(),
        });
        let name = authenticated.as_ref().map(|known| known.user.name.as_str());
        let name = name.map_err(|refused| *refused != Unauthorized::NoCredentials);
        self.thread.requests.authenticated(name, began.elapsed());
        let known = authenticated.as_ref().ok();
        if let Some(ends) = known.and_then(|known| known.ends) {
            let left = ends - clock::of_machine().as_second();
            self.thread.requests.certificate(left);
        }
        let known = authenticated.map_err(|refused| {
            let peer = facts.map(|facts| facts.peer);
            let log = &server.refused_logins;
            log.log(peer, &parts.headers, &credentials, &refused);
            Box::new(Status::unauthorized())
        })?;
        Ok(known)
    }

    /// Counts the request against the limits. Long-running requests do not count (API-16, API-18).
    fn admitted(&self, info: &RequestInfo, user: &UserInfo) -> Result<Option<Counted>, Refused> {
        if info.is_long_running() {
            return Ok(None);
        }
        let (in_flight, reads_only) = (&self.thread.server.in_flight, info.is_read_only());
        if user.is_in(MASTERS) || in_flight::is_probe(info) {
            return Ok(Some(in_flight.enter_exempt(reads_only)));
        }
        let entered = in_flight.enter(reads_only, &user.name);
        entered.map(Some).ok_or_else(|| too_many().into())
    }

    /// Records the sizes of responses to reads. A list that is sent in pieces occupies its seats
    /// until the last piece is sent.
    fn accounted(
        &self,
        answer: Answer,
        labels: &RequestLabels,
        info: &RequestInfo,
        counted: Option<Arc<Counted>>,
    ) -> Answer {
        if !info.is_resource || !info.is_read_only() || info.is_long_running() {
            return answer;
        }
        let sizes = self.thread.requests.sizes(labels);
        respond::measured(answer, sizes, counted)
    }
}

/// Returns the handler that kube-apiserver has for a route.
fn handler_of(route: &Route) -> Handler {
    match route {
        Route::Resource(target) if target.storage.response_kind().rules().is_unstructured => {
            Handler::Custom
        }
        _ => Handler::BuiltIn,
    }
}

/// Returns whether the paths of a group are known when the server starts.
fn is_built_in(group: &str) -> bool {
    GROUPS.contains(&group)
}

/// Returns the refusal of a path without a route in a group that is not built in. kube-apiserver
/// has one handler for all of them (CRD-80, CRD-83).
fn refused_custom(miss: Miss, info: &RequestInfo, generation: &Generation) -> Refused {
    let catalog = &generation.catalog;
    let resource = catalog.endpoint(&info.group, &info.version, &info.resource, "");
    let Some(resource) = resource.filter(|_| info.is_resource) else {
        return match miss {
            Miss::Resource => Miss::Page.into(),
            miss => miss.into(),
        };
    };
    let definition = resource.resource();
    let is_misplaced = info.is_named != (info.verb != "create");
    let is_everywhere = definition.is_namespaced() && !info.is_below_namespace;
    Refused::Status(Box::new(match miss {
        Miss::Method if is_everywhere => return Miss::Page.into(),
        Miss::Method if info.subresource.is_empty() && is_misplaced => {
            Status::bad_request("name must be provided")
        }
        Miss::Method => Status::method_not_allowed(definition, &info.verb),
        Miss::Resource if !info.subresource.is_empty() => Status::not_found(definition, &info.name),
        miss => return miss.into(),
    }))
}

/// Returns the field manager: the one in the query, or the program name of the client (API-155).
fn manager(parts: &Parts, query: &Query) -> String {
    let agent = parts.headers.get(http::header::USER_AGENT);
    let agent = agent.map(HeaderValue::as_bytes).unwrap_or_default();
    options::field_manager(query, &go_text(agent))
}

async fn handle(
    scope: &RequestScope<'_>,
    route: Route,
    body: RequestBody,
) -> Result<Answer, Refused> {
    let (server, generation) = (scope.server, scope.generation);
    let headers = scope.headers;
    Ok(match route {
        Route::Resource(target) => handlers::resource(scope, target, body).await?,
        Route::Health(root, check) => server.health.answer(root, &check, &scope.query),
        Route::Metrics => handlers::metrics(scope),
        Route::Slis => handlers::slis(scope),
        Route::Statusz if server.features.statusz => handlers::statusz(scope)?,
        Route::Flagz if server.features.flagz => handlers::flagz(scope)?,
        Route::Statusz | Route::Flagz => return Err(Miss::Page.into()),
        Route::Index => handlers::index(scope),
        Route::Version => handlers::version(scope)?,
        Route::LegacyVersions => {
            let form = scope.discovery_form()?;
            generation.discovery.legacy_versions(&form, headers)
        }
        Route::Groups => generation.discovery.groups(&scope.groups_form()?, headers),
        Route::Group(name) => {
            let found = generation.discovery.group(&name, &scope.group_form()?);
            found.ok_or(Miss::Page)?
        }
        Route::Resources { group, version } => {
            let form = scope.plain_form()?;
            let found = generation.discovery.resources(&group, &version, &form);
            found.ok_or(Miss::Resource)?
        }
        Route::OpenApiV2 => handlers::openapi_v2(scope).await?,
        Route::OpenApiV3Index => handlers::openapi_v3_index(scope).await?,
        Route::OpenApiV3(key) => {
            let found = handlers::openapi_v3(scope, key).await?;
            found.ok_or(Miss::Document)?
        }
        Route::IssuerConfiguration => issuer(scope)?.configuration(),
        Route::IssuerKeys => issuer(scope)?.keys(),
        Route::Compact => handlers::compact(scope).await?,
        Route::StorageRewrite => handlers::rewrite(scope).await?,
        Route::Inspect => handlers::inspect(scope).await?,
        Route::History(object) => handlers::history(scope, &object).await?,
        Route::Revision => handlers::revision(scope).await?,
        Route::Backup => handlers::backup(scope)?,
        Route::RotateToken => handlers::rotate_token(scope).await?,
        Route::Test(asked) => {
            let controls = server.test.as_ref().ok_or(Miss::Page)?;
            handlers::test_server(scope, controls, asked, body).await?
        }
    })
}

fn issuer<'s>(scope: &RequestScope<'s>) -> Result<&'s IssuerDiscovery, Miss> {
    scope.server.issuer.as_ref().ok_or(Miss::Page)
}
