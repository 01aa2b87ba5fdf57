//! The service of one HTTP thread: it runs the filters in order, then the route, then the handler.
//!
//! This folder owns the path of a request from its headers to its response. A parsed HTTP request
//! enters and a response leaves. It must not know sockets, HTTP versions or what a single verb
//! does.
//!
//! The order is that of http.md 1.2, because it decides which of two errors a client sees: audit
//! id, request info, shutdown, deadline, authentication, impersonation, limits, authorization,
//! routing. A panic in a handler becomes a 500. It ends neither the connection nor the thread.

mod api_server;
mod record;
mod refusals;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use actors::dispatcher::LocalDispatcher;
pub use api_server::{ApiServer, ApiServerConfig, OwnStore, RotateToken};
use futures_util::FutureExt;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
pub use record::RequestRecord;
use refusals::{Refused, is_served_to_the_end, not_understood, panicked, shutting_down, too_many};
use tokio::sync::watch;
use tokio::time::Instant;

use super::auth::{Access, Attributes, Authenticated, Credentials};
use super::body::{ConnectionFacts, HttpService, LongReads, RequestBody, ResponseBody};
use super::filters::deadline::{self, Allowed};
use super::filters::in_flight::{self, Counted};
use super::filters::{audit_id, authorization, impersonation, warnings};
use super::generation::Generation;
use super::handlers::{self, RequestScope};
use super::health::Root;
use super::metrics::{RequestLabels, RequestMeters, Running, WatchMeters};
use super::respond::{self, Answer};
use super::routes::{self, Miss, Route};
use super::service_accounts::IssuerDiscovery;
use crate::api::decode::go_text;
use crate::api::options::{self, Query};
use crate::api::request_info::RequestInfo;
use crate::api::status::Status;
use crate::api::user_info::{MASTERS, UserInfo};
use crate::clock;
use crate::registry::RequestContext;

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
}

/// The user who sent a request.
struct Requester {
    /// The user whom the request is carried out as.
    user: Arc<UserInfo>,
    /// The user who sent the request, if that is a different one.
    impersonator: Option<Arc<UserInfo>>,
    /// The access of the user who sent the request.
    access: Access,
}

impl HttpService for Service {
    async fn call(&self, request: Request<RequestBody>) -> http::Response<ResponseBody> {
        let (mut parts, body) = request.into_parts();
        let server = &self.thread.server;
        // kube-apiserver compresses the one document of OpenAPI v2, and metrics, all the same.
        let is_packed = |path: &str| path == "/openapi/v2" || path.starts_with("/metrics");
        if !server.features.response_compression && !is_packed(parts.uri.path()) {
            parts.headers.remove(ACCEPT_ENCODING);
        }
        let record = RequestRecord::begin(audit_id::of(&parts.headers), server);
        let answering = self.answer(&parts, body, &record);
        let (mut answer, has_panicked) = survived(answering, &record.audit_id).await;
        if parts.method == Method::HEAD {
            *answer.body_mut() = ResponseBody::Empty;
        }
        let headers = answer.headers_mut();
        audit_id::set(headers, &record.audit_id);
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-cache, private"));
        warnings::add(headers, record.warnings.take());
        record.answered(answer, has_panicked, server)
    }

    fn user(&self, headers: &HeaderMap, facts: &ConnectionFacts) -> Option<Arc<UserInfo>> {
        let credentials = Credentials::of(headers, facts.certificates.as_deref());
        self.thread.server.authenticator.recognises(&credentials)
    }

    fn drain(&self) {
        self.thread.dispatcher.drain();
    }

    async fn unattended_ended(&self) {
        self.thread.server.unattended.ended().await;
    }

    fn revocations(&self) -> watch::Receiver<u64> {
        self.thread.server.authenticator.revocations()
    }
}

/// Runs the handler and turns a panic into a response, so that neither connection nor thread ends.
/// Tells whether it panicked.
async fn survived(answering: impl Future<Output = Answer>, audit_id: &str) -> (Answer, bool) {
    let answered = AssertUnwindSafe(answering).catch_unwind().await;
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
            generation: RefCell::new(server.generations.current()),
            server,
        };
        Service {
            thread: Rc::new(thread),
        }
    }

    async fn answer(&self, parts: &Parts, body: RequestBody, record: &RequestRecord) -> Answer {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let selector = query.first("fieldSelector").unwrap_or_default();
        let watch = query.flag("watch");
        let info = match RequestInfo::parse(&parts.method, parts.uri.path(), watch, selector) {
            Ok(info) => record.understood(info),
            Err(error) => return not_understood(parts, &error),
        };
        let labels = RequestLabels::of(info, &parts.method);
        let mut running = self.thread.requests.start(labels);
        let filtered = self.filtered(parts, body, (info, query), record, &mut running);
        let answer = filtered.await.unwrap_or_else(|refused| match refused {
            Refused::Answer(answer) => *answer,
            Refused::Status(status) => {
                let query = Query::parse(parts.uri.query().unwrap_or_default());
                respond::refusal(&status, &handlers::refusal_form(&parts.headers, &query))
            }
        });
        if let Some(bytes) = record.body_bytes.get() {
            self.thread.requests.body(&running.labels, bytes);
        }
        running.finish(answer.status().as_u16());
        answer
    }

    /// Runs the filters that need to know what the request is about, and then the route.
    async fn filtered(
        &self,
        parts: &Parts,
        body: RequestBody,
        (info, query): (&RequestInfo, Query),
        record: &RequestRecord,
        running: &mut Running<'_>,
    ) -> Result<Answer, Refused> {
        let server = &self.thread.server;
        if server.health.is_shutting_down() && !is_served_to_the_end(info) {
            return Err(shutting_down(parts).into());
        }
        let allowed = Allowed::of(info, &query)?;
        let requester = self.requester(parts, (info, &query), record).await?;
        let counted = self.admitted(info, &requester.user)?.map(Arc::new);
        let attributes = Attributes::of(&requester.user, info, &query);
        let began = Instant::now();
        let authorized = authorization::authorize(&*server.authorizer, &attributes);
        record.authorized(authorized.is_ok());
        let is_granted = authorized.is_ok() && !requester.user.is_in(MASTERS);
        self.thread
            .requests
            .authorized(authorized.is_ok(), is_granted, began.elapsed());
        authorized?;
        let within = allowed.map_or(deadline::REQUEST, |allowed| allowed.within);
        let context = RequestContext {
            user: requester.user,
            impersonator: requester.impersonator,
            manager: manager(parts, &query),
            audit_id: record.audit_id.clone(),
            warnings: record.warnings.clone(),
            annotations: record.annotations(),
            deadline: Instant::now() + within,
        };
        let generation = self.generation();
        let scope = RequestScope {
            server,
            generation: &generation,
            dispatcher: &self.thread.dispatcher,
            watches: &self.thread.watches,
            headers: &parts.headers,
            record,
            query,
            context,
            access: requester.access,
            counted: counted.as_ref(),
            reads: long_reads(parts),
        };
        let route = routes::route(&parts.method, info, &generation.catalog)?;
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

    /// Determines who sent the request, and as whom it is carried out.
    async fn requester(
        &self,
        parts: &Parts,
        (info, query): (&RequestInfo, &Query),
        record: &RequestRecord,
    ) -> Result<Requester, Refused> {
        let authenticated = self.authenticated(parts, record).await;
        let known = authenticated.as_ref().ok();
        record.authenticated(known.map(|known| &known.user), parts);
        let Authenticated { user, access, .. } = authenticated?;
        let attributes = Attributes::of(&user, info, query);
        let authorizer = &self.thread.server.authorizer;
        let is_constrained = self.thread.server.features.constrained_impersonation;
        let other = impersonation::impersonated(
            &parts.headers,
            is_constrained,
            &attributes,
            &**authorizer,
        )?;
        if let Some(UserInfo { name, .. }) = &other {
            let audit_id = &record.audit_id;
            tracing::debug!(audit_id, user = user.name, %name, "carried out as another user");
        }
        let (user, impersonator) = match other.map(Arc::new) {
            Some(other) => {
                record.impersonates(&other);
                (other, Some(user))
            }
            None => (user, None),
        };
        Ok(Requester {
            user,
            impersonator,
            access,
        })
    }

    /// What is served now. Measurements of this thread for resources that are no longer served are
    /// dropped, and for those that were removed and added again: their series are new.
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
            let is_the_same = |group: &str, version: &str, plural: &str| {
                let [before, now] = [&before, &current]
                    .map(|generation| generation.catalog.find(group, version, plural));
                matches!((before, now), (Some(before), Some(now))
                    if Arc::ptr_eq(before.definition(), now.definition()))
            };
            requests.retain(is_the_same);
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
        let credentials = Credentials::of(&parts.headers, certificates);
        let mut authenticated = server.authenticator.authenticate(&credentials).await;
        record.noted(match &mut authenticated {
            Ok(known) => std::mem::take(&mut known.notes),
            Err(refused) => refused.notes(),
        });
        let known = authenticated.as_ref().ok();
        let name = known.map(|known| known.user.name.as_str());
        self.thread.requests.authenticated(name, began.elapsed());
        if let Some(ends) = known.and_then(|known| known.ends) {
            let left = ends - clock::now().as_second();
            self.thread.requests.certificate(left);
        }
        let known = authenticated.map_err(|refused| {
            server.refused_logins.tell(parts, &refused);
            Box::new(Status::unauthorized())
        })?;
        Ok(known)
    }

    /// Counts the request against the limits. Watches do not count (API-16, API-18).
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

    /// Records the size of responses to reads. A list that is sent in pieces counts as being
    /// answered until its last piece.
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

/// The long reads of the connection of a request.
fn long_reads(parts: &Parts) -> LongReads {
    let facts = parts.extensions.get::<ConnectionFacts>();
    facts.map(|facts| facts.reads.clone()).unwrap_or_default()
}

/// The field manager: the given name, or the program name of the client (API-155).
fn manager(parts: &Parts, query: &Query) -> String {
    let agent = parts.headers.get(http::header::USER_AGENT);
    let agent = agent.map(HeaderValue::as_bytes).unwrap_or_default();
    options::field_manager(query, &go_text(agent))
}

/// Labels for the server's own paths and for resources. Clients cannot invent label values.
fn labelled(labels: RequestLabels, route: &Route, query: &Query) -> RequestLabels {
    match route {
        Route::Resource(target) => {
            let dry_run = query.first("dryRun") == Some("All");
            let storage = &target.storage;
            labels.about(storage.resource(), storage.subresource(), dry_run)
        }
        Route::Index => labels.at("/"),
        Route::Version => labels.at("/version"),
        Route::Health(Root::Healthz, _) => labels.at("/healthz"),
        Route::Health(Root::Livez, _) => labels.at("/livez"),
        Route::Health(Root::Readyz, _) => labels.at("/readyz"),
        Route::Metrics => labels.at("/metrics"),
        Route::Slis => labels.at("/metrics/slis"),
        Route::Statusz => labels.at("/statusz"),
        Route::Flagz => labels.at("/flagz"),
        Route::LegacyVersions => labels.at("/api"),
        Route::Groups | Route::Group(_) | Route::Resources { .. } => labels.at("/apis"),
        Route::OpenApiV2 => labels.at("/openapi/v2"),
        Route::OpenApiV3Index | Route::OpenApiV3(_) => labels.at("/openapi/v3"),
        Route::Compact => labels.at("/taffrail/v1/compact"),
        Route::StorageRewrite => labels.at("/taffrail/v1/storage/rewrite"),
        Route::Inspect => labels.at("/taffrail/v1/inspect"),
        Route::History(_) => labels.at("/taffrail/v1/history"),
        Route::Revision => labels.at("/taffrail/v1/revision"),
        Route::Backup => labels.at("/taffrail/v1/backup"),
        Route::RotateToken => labels.at("/taffrail/v1/token/rotate"),
        Route::IssuerConfiguration => labels.at("/.well-known/openid-configuration"),
        Route::IssuerKeys => labels.at("/openid/v1/jwks"),
    }
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
        Route::OpenApiV2 => generation.openapi.v2(headers),
        Route::OpenApiV3Index => generation.openapi.v3_index(headers),
        Route::OpenApiV3(key) => {
            let found = generation.openapi.v3(&key, &scope.query, headers);
            found.ok_or(Miss::Document)?
        }
        Route::IssuerConfiguration => issuer(scope)?.configuration(),
        Route::IssuerKeys => issuer(scope)?.keys(),
        Route::Compact => handlers::compact(scope).await?,
        Route::StorageRewrite => handlers::rewrite(scope),
        Route::Inspect => handlers::inspect(scope).await?,
        Route::History(object) => handlers::history(scope, &object).await?,
        Route::Revision => handlers::revision(scope).await?,
        Route::Backup => handlers::backup(scope)?,
        Route::RotateToken => handlers::rotate_token(scope).await?,
    })
}

fn issuer<'s>(scope: &RequestScope<'s>) -> Result<&'s IssuerDiscovery, Miss> {
    scope.server.issuer.as_ref().ok_or(Miss::Page)
}
