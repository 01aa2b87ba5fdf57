//! The user of a request, and the warnings for its response.

use std::sync::Arc;

use actors::engine::Origin;

use crate::api::annotations::{self, Annotations};
use crate::api::user_info::{MASTERS, UserInfo};
use crate::api::warnings::Warnings;

/// The manager that owns what the server itself writes.
pub(super) const SERVER: &str = "kube-apiserver";

/// The manager that owns what its controllers write.
const CONTROLLERS: &str = "kube-controller-manager";

/// The facts about a request that a write needs.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The user as whom the request runs.
    pub user: Arc<UserInfo>,
    /// The user who impersonates [`RequestContext::user`], if any (API-284).
    pub impersonator: Option<Arc<UserInfo>>,
    /// The field manager (API-155).
    pub manager: String,
    /// The request's `Audit-ID`.
    pub audit_id: String,
    /// Warnings for the answer's headers.
    pub warnings: Warnings,
    /// The annotations of the request's audit events. `None` if it has no events.
    pub annotations: Option<Annotations>,
    /// The time when the request ends in any case (API-107).
    pub deadline: tokio::time::Instant,
}

impl RequestContext {
    /// A context for work of the daemon itself, named `system:taffrail:<part>`. It owns what it
    /// writes under the name of kube-apiserver, which may share the store (API-262).
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
            deadline,
        }
    }

    /// The same for the work of a kube-controller-manager.
    pub fn controller(part: &str, deadline: tokio::time::Instant) -> RequestContext {
        RequestContext {
            manager: CONTROLLERS.to_owned(),
            ..RequestContext::internal(part, deadline)
        }
    }

    /// Adds warnings for the answer's headers.
    pub fn warn(&self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.warnings.add(text));
    }

    /// Says something of the request in its audit events.
    pub fn annotate(&self, name: &'static str, text: impl FnOnce() -> String) {
        annotations::annotate(self.annotations.as_ref(), name, text);
    }

    /// The user for the event log: the user as whom the request runs.
    pub fn origin(&self) -> Origin {
        Origin {
            user: self.user.name.as_str().into(),
            manager: self.manager.as_str().into(),
            audit_id: self.audit_id.as_str().into(),
        }
    }
}
