//! One request as its handler sees it, with the steps that all handlers share: negotiating the form
//! of the response, and reading the body.

use std::sync::Arc;

use actors::dispatcher::LocalDispatcher;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http::request::Parts;

use super::api_server::ApiServer;
use super::audit::Holds;
use super::encoding::{Conversion, Encoding, IncludeObject};
use super::filters::in_flight::Counted;
use super::generation::Generation;
use super::gzip;
use super::leaving::Leaving;
use super::metrics::WatchMeters;
use super::negotiation::{self, BODIES, BodyForm, Handler, Offer};
use super::request_record::RequestRecord;
use super::respond::Form;
use crate::api::options::Query;
use crate::api::status::Status;
use crate::auth::Access;
use crate::registry::RequestContext;
use crate::transport::{BodyError, ConnectionFacts, LongReads, RequestBody};

/// The longest request body (API-21).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A request as its handler sees it, without its body.
pub struct RequestScope<'r> {
    /// The state that all threads share.
    pub server: &'r Arc<ApiServer>,
    /// The generation that answers this request.
    pub generation: &'r Arc<Generation>,
    /// The Dispatcher of this thread.
    pub dispatcher: &'r LocalDispatcher,
    /// Counts the watches of this thread.
    pub watches: &'r Arc<WatchMeters>,
    /// The request without its body. No header authenticates any more.
    pub parts: &'r Parts,
    /// The request headers.
    pub headers: &'r HeaderMap,
    /// Announces that the daemon stops.
    pub leaving: &'r Leaving,
    /// The facts that the access log and the audit log need.
    pub record: &'r RequestRecord,
    /// The query parameters.
    pub query: Query,
    /// The user, field manager, audit ID and deadline.
    pub context: RequestContext,
    /// The sender's access, for work that outlasts the request.
    pub access: Access,
    /// The seats of the request in the in-flight limits. `None` for long-running requests.
    pub counted: Option<&'r Arc<Counted>>,
    /// The queue of long reads that all requests of the connection share.
    pub reads: LongReads,
    /// The handler that kube-apiserver has for the path.
    pub handler: Handler,
}

/// Returns the queue of long reads that all requests of the connection share.
pub(super) fn long_reads(parts: &Parts) -> LongReads {
    let facts = parts.extensions.get::<ConnectionFacts>();
    facts.map(|facts| facts.reads.clone()).unwrap_or_default()
}

/// Returns the form of an error. If Accept matches no form, the error is indented JSON (API-55).
pub fn refusal_form(headers: &HeaderMap, query: &Query) -> Form {
    let form = form(headers, negotiation::asked_pretty(query), Offer::Unlisted);
    form.unwrap_or_else(|_| indented_json(headers))
}

/// Returns indented JSON for people, which some paths use whatever Accept says.
pub(super) fn indented_json(headers: &HeaderMap) -> Form {
    Form {
        encoding: Encoding {
            pretty: true,
            ..Encoding::default()
        },
        gzip: gzip::is_accepted(headers),
    }
}

fn form(headers: &HeaderMap, pretty: Option<bool>, offer: Offer) -> Result<Form, Box<Status>> {
    form_of(headers, pretty, offer, Handler::BuiltIn)
}

fn form_of(
    headers: &HeaderMap,
    pretty: Option<bool>,
    offer: Offer,
    handler: Handler,
) -> Result<Form, Box<Status>> {
    let accepted = negotiation::accept_of(headers, pretty, offer, handler);
    let encoding = accepted.map_err(|refused| match refused.is_unknown {
        true => Status::not_acceptable_route(&refused.offered),
        false => Status::not_acceptable(&refused.offered),
    })?;
    Ok(Form {
        encoding,
        gzip: gzip::is_accepted(headers),
    })
}

impl RequestScope<'_> {
    pub(super) fn form(&self, offer: Offer) -> Result<Form, Box<Status>> {
        let pretty = negotiation::asked_pretty(&self.query);
        form_of(self.headers, pretty, offer, self.handler)
    }

    /// Negotiates the form of documents without conversions.
    ///
    /// # Errors
    /// 406
    pub fn plain_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Plain)
    }

    /// Negotiates the form of `/api`.
    ///
    /// # Errors
    /// 406
    pub fn discovery_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Discovery)
    }

    /// Negotiates the form of `/apis`.
    ///
    /// # Errors
    /// 406
    pub fn groups_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Groups)
    }

    /// Negotiates the form of `/apis/{group}`.
    ///
    /// # Errors
    /// 406
    pub fn group_form(&self) -> Result<Form, Box<Status>> {
        self.form(Offer::Unlisted)
    }

    /// Negotiates the form of objects and lists. `includeObject` matters only for a Table (API-69).
    pub(super) fn object_form(&self, offer: Offer) -> Result<Form, Box<Status>> {
        let mut form = self.form(offer)?;
        if let Some(Conversion::Table(_)) = form.encoding.conversion {
            let include = self.query.first("includeObject").unwrap_or_default();
            form.encoding.include = IncludeObject::parse(include)?;
        }
        Ok(form)
    }

    /// Returns the format of a body that holds an object or options, from Content-Type.
    pub(super) fn body_form(&self) -> Result<BodyForm, Box<Status>> {
        negotiation::body_form(self.headers)
            .ok_or_else(|| Box::new(Status::unsupported_media_type(&BODIES)))
    }

    /// Reads the whole body, at most [`BODY_BYTES_MAX`] (API-21), and records it for the audit log.
    pub(super) async fn read(&self, body: RequestBody, holds: Holds) -> Result<Bytes, Box<Status>> {
        let read = self.collected(body).await?;
        self.record.has_read(&read, self.headers, holds);
        Ok(read)
    }

    /// Reads the whole body, at most [`BODY_BYTES_MAX`] (API-21).
    pub(super) async fn collected(&self, body: RequestBody) -> Result<Bytes, Box<Status>> {
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

    /// Returns an upper bound of the body length: Content-Length, or the general limit.
    fn announced_bytes(&self) -> usize {
        let announced = self.headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        announced.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX)
    }
}
