//! What is remembered of a request while it is answered, for the access log and the audit log.

use std::cell::{Cell, OnceCell};
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
use crate::server::access_log::LoggedRequest;
use crate::server::audit::{Afterwards, Holds, Subject, Trail};
use crate::server::auth::Notes;
use crate::server::respond::Answer;

/// One request, from its headers to its answer.
pub struct RequestRecord {
    /// The ID that logs and answer share (API-143).
    pub audit_id: String,
    /// The warnings for the client.
    pub warnings: Warnings,
    /// The object that it writes.
    pub subject: Arc<Subject>,
    /// The bytes of the body, once it was read.
    pub body_bytes: Cell<Option<usize>>,
    began: Instant,
    info: OnceCell<RequestInfo>,
    /// Who has sent it.
    user: OnceCell<Arc<UserInfo>>,
    /// `None` without an audit log.
    trail: Option<Trail>,
}

impl RequestRecord {
    pub(super) fn begin(audit_id: String, server: &ApiServer) -> RequestRecord {
        let subject = Arc::default();
        RequestRecord {
            audit_id,
            warnings: Warnings::default(),
            body_bytes: Cell::new(None),
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

    /// What the request asks for is known.
    pub(super) fn understood(&self, info: RequestInfo) -> &RequestInfo {
        self.info.get_or_init(|| info)
    }

    /// Who asks is known; `None` if the credentials were wrong.
    pub(super) fn authenticated(&self, user: Option<&Arc<UserInfo>>, parts: &Parts) {
        if let Some(user) = user {
            // It is called once for each request.
            let _ = self.user.set(Arc::clone(user));
        }
        if let (Some(trail), Some(info)) = (&self.trail, self.info.get()) {
            trail.authenticated(user, parts, info, &self.audit_id);
        }
    }

    /// What is said of the use of the credentials.
    pub(super) fn noted(&self, notes: Notes) {
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

    /// The annotations of the audit events, if there are any events.
    pub(super) fn annotations(&self) -> Option<Annotations> {
        self.trail.as_ref().map(|trail| trail.annotations.clone())
    }

    pub(super) fn impersonates(&self, user: &Arc<UserInfo>) {
        if let Some(trail) = &self.trail {
            trail.impersonates(user);
        }
    }

    pub(super) fn authorized(&self, is_allowed: bool) {
        if let Some(trail) = &self.trail {
            trail.authorized(is_allowed);
        }
    }

    /// The body of the request was read.
    pub fn has_read(&self, body: &Bytes, headers: &HeaderMap, holds: Holds) {
        if let Some(trail) = &self.trail {
            trail.has_read(body, headers, holds);
        }
    }

    /// What audits an outcome that comes when the client is gone, if there is an audit log.
    pub fn afterwards(&self, request: &Arc<Abandonment>) -> Option<Afterwards> {
        let trail = self.trail.as_ref();
        trail.map(|trail| trail.afterwards(request))
    }

    /// The request was answered.
    pub(super) fn answered(self, answer: Answer, has_panicked: bool, server: &ApiServer) -> Answer {
        let code = answer.status();
        if server.access_log.wants(self.info.get(), code) {
            let request = LoggedRequest {
                audit_id: &self.audit_id,
                user: self.user.get().map(|user| user.name.as_str()),
                info: self.info.get(),
                name: self.subject.name(),
            };
            server.access_log.tell(&request, code, self.began.elapsed());
        }
        match &self.trail {
            Some(trail) => trail.answered(answer, has_panicked),
            None => answer,
        }
    }
}
