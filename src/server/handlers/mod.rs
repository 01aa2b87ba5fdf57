//! What is done about a request once its route is known: a file for each verb.
//!
//! A handler asks the [`RestStorage`](crate::registry::RestStorage) behind the path for the
//! capability it needs, and knows nothing else of the registry. The order of steps within a verb is that of http.md 3.2 to 3.7, as it decides which of two
//! errors a client sees.

mod compact;
mod connect;
mod create;
mod delete;
mod delete_collection;
mod document;
mod get;
mod list;
mod patch;
mod rewrite;
mod service_paths;
mod update;
mod watch;

use std::sync::Arc;

use actors::dispatcher::LocalDispatcher;
use bytes::Bytes;
use document::Document;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use super::auth::Access;
use super::body::{BodyError, RequestBody};
use super::encoding::{Conversion, IncludeObject};
use super::generation::Generation;
use super::gzip;
use super::metrics::WatchMeters;
use super::negotiation::{self, BODIES, BodyForm, Offer};
use super::respond::{Answer, Form};
use super::routes::Target;
use super::service::ApiServer;
use crate::api::options::Query;
use crate::api::resource::Verb;
use crate::api::status::{Status, StatusDetails};
use crate::registry::RequestContext;

pub use compact::compact;
pub use rewrite::rewrite;
pub use service_paths::{index, metrics, version};

/// No body is longer (API-21).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A request in the hands of its handler, but for its body.
pub struct RequestScope<'r> {
    /// What all threads share.
    pub server: &'r Arc<ApiServer>,
    /// What is served while this request is answered.
    pub generation: &'r Generation,
    /// The thread's Dispatcher.
    pub dispatcher: &'r LocalDispatcher,
    /// Where the thread's watches count.
    pub watches: &'r Arc<WatchMeters>,
    /// Headers.
    pub headers: &'r HeaderMap,
    /// Query parameters.
    pub query: Query,
    /// Who asks, and until when.
    pub context: RequestContext,
    /// For what goes on after the request.
    pub access: Access,
}

type Answered = Result<Answer, Box<Status>>;

/// Does what the target says.
///
/// # Errors
/// The refusal that the client gets.
pub async fn resource(scope: &RequestScope<'_>, target: Target, body: RequestBody) -> Answered {
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

/// The form of an answer that has no conversions; `None` for `pretty` when it is not asked.
///
/// # Errors
/// 406 (API-55).
pub fn plain_form(headers: &HeaderMap, pretty: Option<bool>) -> Result<Form, Box<Status>> {
    form(headers, pretty, Offer::Plain)
}

fn form(headers: &HeaderMap, pretty: Option<bool>, offer: Offer) -> Result<Form, Box<Status>> {
    let encoding = negotiation::accept(headers, pretty, offer)
        .map_err(|refused| Status::not_acceptable(&refused.offered))
        .map_err(|status| status.with_details(StatusDetails::default()))?;
    Ok(Form {
        encoding,
        gzip: gzip::is_accepted(headers),
    })
}

impl RequestScope<'_> {
    fn form(&self, offer: Offer) -> Result<Form, Box<Status>> {
        let asked = self.query.first("pretty").is_some();
        let pretty = asked.then(|| self.query.flag("pretty"));
        form(self.headers, pretty, offer)
    }

    /// The form of documents without conversions.
    ///
    /// # Errors
    /// 406
    pub fn plain_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Plain)
    }

    /// The form of `/api` and `/apis`.
    ///
    /// # Errors
    /// 406
    pub fn discovery_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Discovery)
    }

    /// The form of objects and lists; `includeObject` counts where a Table is asked for (API-69).
    fn object_form(&self, offer: Offer) -> Result<Form, Box<Status>> {
        let mut form = self.form(offer)?;
        if let Some(Conversion::Table(_)) = form.encoding.conversion {
            let include = self.query.first("includeObject").unwrap_or_default();
            form.encoding.include = IncludeObject::parse(include)?;
        }
        Ok(form)
    }

    /// What a body that holds an object or options is written in.
    fn body_form(&self) -> Result<BodyForm, Box<Status>> {
        negotiation::body_form(self.headers)
            .ok_or_else(|| Box::new(Status::unsupported_media_type(&BODIES)))
    }

    /// Reads the whole body (API-21).
    async fn read(&self, body: RequestBody) -> Result<Bytes, Box<Status>> {
        let left = self
            .context
            .deadline
            .saturating_duration_since(tokio::time::Instant::now());
        let _reserved = match body.is_here() {
            true => None,
            false => Some(self.server.bodies.reserve(self.announced_bytes())?),
        };
        let read = body.collect(BODY_BYTES_MAX, left).await;
        read.map_err(|error| {
            Box::new(match error {
                BodyError::TooLarge { limit } => Status::request_too_large(limit),
                BodyError::TimedOut { .. } => Status::timeout(error),
                BodyError::Broken(_) => Status::bad_request(error.to_string()),
            })
        })
    }

    /// How long the body may be: as long as it says, or as long as any may be.
    fn announced_bytes(&self) -> usize {
        let announced = self.headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        announced.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX)
    }

    /// Reads the whole body of an object or options.
    async fn document(&self, body: RequestBody) -> Result<Document, Box<Status>> {
        let form = self.body_form()?;
        let body = self.read(body).await?;
        Ok(Document { body, form })
    }

    /// Does work here, or, if it is large, where it holds up no other request.
    ///
    /// # Errors
    /// What the work ends with; 429 when too much large work is being done.
    async fn carry_out<T: Send + 'static>(
        &self,
        is_large: bool,
        work: impl Future<Output = Result<T, Box<Status>>> + Send + 'static,
    ) -> Result<T, Box<Status>> {
        if is_large {
            self.server.large_requests.run(work).await
        } else {
            work.await
        }
    }
}

/// A capability of what stands behind a path, which routes have found to be there.
fn capability<T: ?Sized>(found: Option<&T>) -> Result<&T, Box<Status>> {
    found.ok_or_else(|| Box::new(Status::method_not_allowed_route()))
}

/// The code of a write.
fn written(created: bool) -> StatusCode {
    if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
