//! The handlers of resource requests and of the server's own paths, one file per verb.
//!
//! This folder owns the steps of each verb. A routed request with an unread body enters, and a
//! response or a Status leaves. It must not know connections, filters or how the registry stores
//! objects.
//!
//! A handler asks the [`RestStorage`](crate::registry::RestStorage) behind the path for the
//! capability it needs, and knows nothing else about the registry. The order of steps within a verb
//! is that of http.md 3.2 to 3.7, because it decides which of two errors a client sees.

mod applied;
mod backup;
mod carry_out;
mod compact;
mod connect;
mod create;
mod delete;
mod delete_collection;
mod document;
mod get;
mod history;
mod inspect;
mod list;
mod patch;
mod rewrite;
mod rotate_token;
mod service_paths;
mod update;
mod watch;
mod zpages;

use std::sync::Arc;

use actors::dispatcher::LocalDispatcher;
use bytes::Bytes;
use document::Document;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use super::audit::{DEPRECATED, Holds};
use super::auth::Access;
use super::body::{BodyError, LongReads, RequestBody};
use super::encoding::{Conversion, Encoding, IncludeObject};
use super::filters::in_flight::Counted;
use super::generation::Generation;
use super::gzip;
use super::metrics::{WatchMeters, mark_deprecated};
use super::negotiation::{self, BODIES, BodyForm, Offer};
use super::respond::{Answer, Form};
use super::routes::Target;
use super::service::{ApiServer, RequestRecord};
use crate::api::options::Query;
use crate::api::resource::{ResourceDefinition, Verb};
use crate::api::status::Status;
use crate::registry::RequestContext;

pub use backup::backup;
pub use carry_out::Unattended;
pub use compact::compact;
pub use history::{history, revision};
pub use inspect::inspect;
pub use rewrite::rewrite;
pub use rotate_token::rotate_token;
pub use service_paths::{index, metrics, slis, version};
pub use zpages::{Process, flagz, statusz};

/// The longest request body (API-21).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A request as its handler sees it, without its body.
pub struct RequestScope<'r> {
    /// The state that all threads share.
    pub server: &'r Arc<ApiServer>,
    /// The generation that answers this request.
    pub generation: &'r Generation,
    /// The Dispatcher of the thread.
    pub dispatcher: &'r LocalDispatcher,
    /// Counts the watches of the thread.
    pub watches: &'r Arc<WatchMeters>,
    /// Headers.
    pub headers: &'r HeaderMap,
    /// What logs remember of the request.
    pub record: &'r RequestRecord,
    /// Query parameters.
    pub query: Query,
    /// The user who asks, and the deadline.
    pub context: RequestContext,
    /// The access for work that continues after the request.
    pub access: Access,
    /// What the request takes of the limits. `None` for watches.
    pub counted: Option<&'r Arc<Counted>>,
    /// The long reads of its connection.
    pub reads: LongReads,
}

type Answered = Result<Answer, Box<Status>>;

/// Carries out the verb of the target.
///
/// # Errors
/// The refusal for the client.
pub async fn resource(scope: &RequestScope<'_>, target: Target, body: RequestBody) -> Answered {
    if let Some(warning) = target.storage.resource().deprecation_warning() {
        scope.context.warnings.add(warning);
        mark_deprecated(target.storage.resource());
        scope.context.annotate(DEPRECATED, || "true".to_owned());
    }
    match target.verb {
        Verb::Connect => connect::connect(scope, &target).await,
        Verb::Get => get::get(scope, &target).await,
        Verb::List => list::list(scope, &target).await,
        Verb::Watch => watch::watch(scope, &target).await,
        Verb::Create => create::create(scope, &target, body).await,
        Verb::Update => update::update(scope, &target, body).await,
        Verb::Patch => patch::patch(scope, &target, body).await,
        Verb::Delete => delete::delete(scope, &target, body).await,
        Verb::DeleteCollection => delete_collection::delete_collection(scope, &target, body).await,
    }
}

/// The form of a refusal. Whoever accepts no form of it gets indented JSON (API-55).
pub fn refusal_form(headers: &HeaderMap, query: &Query) -> Form {
    let form = form(headers, negotiation::asked_pretty(query), Offer::Unlisted);
    form.unwrap_or_else(|_| indented_json(headers))
}

/// JSON for people, which is what some paths are in any case.
fn indented_json(headers: &HeaderMap) -> Form {
    Form {
        encoding: Encoding {
            pretty: true,
            ..Encoding::default()
        },
        gzip: gzip::is_accepted(headers),
    }
}

fn form(headers: &HeaderMap, pretty: Option<bool>, offer: Offer) -> Result<Form, Box<Status>> {
    let encoding = negotiation::accept(headers, pretty, offer).map_err(|refused| match refused
        .is_unknown
    {
        true => Status::not_acceptable_route(&refused.offered),
        false => Status::not_acceptable(&refused.offered),
    })?;
    Ok(Form {
        encoding,
        gzip: gzip::is_accepted(headers),
    })
}

impl Offer {
    /// What is offered of the objects of a target.
    fn of(target: &Target) -> Offer {
        match target.storage.has_tables() {
            true => Offer::Objects,
            false => Offer::WithoutTables,
        }
    }
}

impl RequestScope<'_> {
    fn form(&self, offer: Offer) -> Result<Form, Box<Status>> {
        form(self.headers, negotiation::asked_pretty(&self.query), offer)
    }

    /// The form of documents without conversions.
    ///
    /// # Errors
    /// 406
    pub fn plain_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Plain)
    }

    /// The form of `/api`.
    ///
    /// # Errors
    /// 406
    pub fn discovery_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Discovery)
    }

    /// The form of `/apis`.
    ///
    /// # Errors
    /// 406
    pub fn groups_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Groups)
    }

    /// The form of `/apis/{group}`.
    ///
    /// # Errors
    /// 406
    pub fn group_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Unlisted)
    }

    /// The form of objects and lists. `includeObject` matters only for a Table (API-69).
    fn object_form(&self, offer: Offer) -> Result<Form, Box<Status>> {
        let mut form = self.form(offer)?;
        if let Some(Conversion::Table(_)) = form.encoding.conversion {
            let include = self.query.first("includeObject").unwrap_or_default();
            form.encoding.include = IncludeObject::parse(include)?;
        }
        Ok(form)
    }

    /// The format of a body that holds an object or options.
    fn body_form(&self) -> Result<BodyForm, Box<Status>> {
        negotiation::body_form(self.headers)
            .ok_or_else(|| Box::new(Status::unsupported_media_type(&BODIES)))
    }

    /// Reads the whole body (API-21).
    async fn read(&self, body: RequestBody, holds: Holds) -> Result<Bytes, Box<Status>> {
        let left = self
            .context
            .deadline
            .saturating_duration_since(tokio::time::Instant::now());
        let _reserved = match body.is_here() {
            true => None,
            false => {
                let (user, bytes) = (&self.context.user.name, self.announced_bytes());
                Some(self.server.bodies.reserve(user, bytes)?)
            }
        };
        let read = body.collect(BODY_BYTES_MAX, left).await;
        if let Ok(body) = &read {
            self.record.has_read(body, self.headers, holds);
            self.record.body_bytes.set(Some(body.len()));
        }
        read.map_err(|error| {
            Box::new(match error {
                BodyError::TooLarge { limit } => Status::request_too_large(limit),
                BodyError::TimedOut { .. } => Status::timeout(error),
                BodyError::Broken(_) => Status::bad_request(error.to_string()),
            })
        })
    }

    /// The upper bound for the body: the announced length, or the general limit.
    fn announced_bytes(&self) -> usize {
        let announced = self.headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        announced.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX)
    }

    /// Reads the whole body of an object of this kind.
    async fn document(
        &self,
        body: RequestBody,
        kind: &Arc<ResourceDefinition>,
    ) -> Result<Document, Box<Status>> {
        let form = self.body_form()?;
        let body = self.read(body, Holds::Object(Arc::clone(kind))).await?;
        Ok(Document { body, form })
    }
}

/// A capability of the storage behind the path. Routing has already checked that it exists.
fn capability<T: ?Sized>(found: Option<&T>) -> Result<&T, Box<Status>> {
    found.ok_or_else(|| Box::new(Status::method_not_allowed_route()))
}

/// The status code of a write.
fn written(created: bool) -> StatusCode {
    if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
