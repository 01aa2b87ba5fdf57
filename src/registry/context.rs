//! The user of a request, and the warnings for its response.

use std::borrow::Cow;
use std::sync::Arc;

use actors::engine::Origin;

use crate::api::annotations::{self, Annotations};
use crate::api::user_info::{MASTERS, UserInfo};
use crate::api::warnings::Warnings;

/// The field manager of objects that the server itself writes.
pub(super) const SERVER: &str = "kube-apiserver";

/// The field manager of objects that its controllers write.
const CONTROLLERS: &str = "kube-controller-manager";

/// The facts about a request that a write needs.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The user that the request runs as.
    pub user: Arc<UserInfo>,
    /// The user who impersonates [`RequestContext::user`], if any (API-284).
    pub impersonator: Option<Arc<UserInfo>>,
    /// The field manager (API-155).
    pub manager: String,
    /// The request's `Audit-ID`.
    pub audit_id: String,
    /// Warnings for the headers of the response.
    pub warnings: Warnings,
    /// Annotations of the request's audit events. `None` if it has no audit events.
    pub annotations: Option<Annotations>,
    /// Whether the request deletes a collection. Admission then sees its objects without their
    /// names (HK-17).
    pub is_for_collection: bool,
    /// Whether the request is an eviction. Admission has decided about it, and is not asked about
    /// the deletion (HK-15).
    pub is_eviction: bool,
    /// The time by which the request ends, however often it retries (API-107).
    pub deadline: tokio::time::Instant,
}

impl RequestContext {
    /// Returns a context for work of the daemon itself, as the user `system:taffrail:<part>`. Its
    /// field manager is kube-apiserver, which may share the store and writes the same objects
    /// (API-262).
    pub fn internal(part: &str, deadline: tokio::time::Instant) -> RequestContext {
        let user = UserInfo {
            name: format!("system:taffrail:{part}"),
            groups: vec![MASTERS.to_owned()],
            ..UserInfo::default()
        };
        RequestContext {
            user: Arc::new(user),
            impersonator: None,
            manager: SERVER.to_owned(),
            audit_id: String::new(),
            warnings: Warnings::default(),
            annotations: None,
            is_for_collection: false,
            is_eviction: false,
            deadline,
        }
    }

    /// Returns a context for work that kube-controller-manager does in other clusters.
    pub fn controller(part: &str, deadline: tokio::time::Instant) -> RequestContext {
        RequestContext {
            manager: CONTROLLERS.to_owned(),
            ..RequestContext::internal(part, deadline)
        }
    }

    /// Adds warnings for the headers of the response.
    pub fn warn(&self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.warnings.add(text));
    }

    /// Adds an annotation to the request's audit events.
    pub fn annotate(&self, name: impl Into<Cow<'static, str>>, text: impl FnOnce() -> String) {
        annotations::annotate(self.annotations.as_ref(), name, text);
    }

    /// Returns the origin for the event log. Its user is the one that the request runs as.
    pub fn origin(&self) -> Origin {
        Origin {
            user: self.user.name.as_str().into(),
            manager: self.manager.as_str().into(),
            audit_id: self.audit_id.as_str().into(),
        }
    }
}
