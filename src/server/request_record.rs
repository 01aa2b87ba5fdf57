//! The facts about a request that the access log and the audit log need.

use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use tokio::time::Instant;

use super::api_server::ApiServer;
use crate::api::abandoned::Abandonment;
use crate::api::annotations::Annotations;
use crate::api::request_info::RequestInfo;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;
use crate::auth::impersonation::Impersonation;
use crate::auth::{Authorization, Notes};
use crate::server::access_log::LoggedRequest;
use crate::server::audit::{Afterwards, Holds, Subject, Trail};
use crate::server::respond::Answer;
use crate::transport::ConnectionFacts;

/// One request, from its headers to its response.
pub struct RequestRecord {
    /// The ID that logs and response share (API-143).
    pub audit_id: String,
    /// The warnings for the client.
    pub warnings: Warnings,
    /// The object that the request writes.
    pub subject: Arc<Subject>,
    /// The length of the body in bytes, once it was read.
    pub body_bytes: Cell<Option<usize>>,
    /// Whether an authorizer has refused the request.
    pub(in crate::server) is_refused: Cell<bool>,
    began: Instant,
    info: OnceCell<RequestInfo>,
    /// The address of the client.
    peer: Cell<Option<IpAddr>>,
    /// The authenticated user.
    user: OnceCell<Arc<UserInfo>>,
    /// `None` without an audit log.
    trail: Option<Trail>,
}

impl RequestRecord {
    pub(in crate::server) fn begin(audit_id: String, server: &ApiServer) -> RequestRecord {
        let subject = Arc::default();
        RequestRecord {
            audit_id,
            warnings: Warnings::default(),
            body_bytes: Cell::new(None),
            is_refused: Cell::new(false),
            peer: Cell::new(None),
            began: Instant::now(),
            info: OnceCell::new(),
            user: OnceCell::new(),
            trail: server
                .audit
                .as_ref()
                .map(|audit| Trail::begin(audit, &subject)),
            subject,
        }
    }

    /// Records the request info.
    pub(in crate::server) fn understood(&self, info: RequestInfo) -> &RequestInfo {
        self.info.get_or_init(|| info)
    }

    /// Records the authenticated user; `None` if authentication failed.
    pub(in crate::server) fn authenticated(&self, user: Option<&Arc<UserInfo>>, parts: &Parts) {
        let facts = parts.extensions.get::<ConnectionFacts>();
        self.peer.set(facts.map(|facts| facts.peer.ip()));
        if let Some(user) = user {
            // This is called once for each request, so the cell is empty.
            let _ = self.user.set(Arc::clone(user));
        }
        if let (Some(trail), Some(info)) = (&self.trail, self.info.get()) {
            trail.authenticated(user, parts, info, &self.audit_id);
        }
    }

    /// Records the warnings and audit annotations of authentication.
    pub(in crate::server) fn noted(&self, notes: Notes) {
        notes
            .warnings
            .into_iter()
            .for_each(|text| self.warnings.add(text));
        if let Some(annotations) = self.annotations() {
            for (name, text) in notes.annotations {
                annotations.add(name, text);
            }
        }
    }

    /// Returns the annotations of the audit events, if there is an audit log.
    pub(in crate::server) fn annotations(&self) -> Option<Annotations> {
        self.trail.as_ref().map(|trail| trail.annotations.clone())
    }

    pub(in crate::server) fn impersonates(&self, other: &Impersonation) {
        if let Some(trail) = &self.trail {
            trail.impersonates(other);
        }
    }

    pub(in crate::server) fn authorized(&self, answer: &Authorization) {
        self.is_refused.set(!answer.is_allowed());
        if let Some(trail) = &self.trail {
            trail.authorized(answer);
        }
    }

    /// Records the body of the request.
    pub fn has_read(&self, body: &Bytes, headers: &HeaderMap, holds: Holds) {
        if let Some(trail) = &self.trail {
            trail.has_read(body, headers, holds);
        }
    }

    /// Returns the handle that audits an outcome after the client is gone, if there is an audit
    /// log.
    pub fn afterwards(&self, request: &Arc<Abandonment>) -> Option<Afterwards> {
        let trail = self.trail.as_ref();
        trail.map(|trail| trail.afterwards(request))
    }

    /// Logs and audits the response.
    pub(in crate::server) fn answered(
        self,
        answer: Answer,
        has_panicked: bool,
        server: &ApiServer,
    ) -> Answer {
        let code = answer.status();
        if server.access_log.wants(self.info.get(), code) {
            let request = LoggedRequest {
                audit_id: &self.audit_id,
                user: self.user.get().map(|user| user.name.as_str()),
                info: self.info.get(),
                name: self.subject.name(),
                peer: self.peer.get(),
                is_refused: self.is_refused.get(),
            };
            server
                .access_log
                .write(&request, code, self.began.elapsed());
        }
        match &self.trail {
            Some(trail) => trail.answered(answer, has_panicked),
            None => answer,
        }
    }
}
