//! Who asks, and what the answer's headers shall say.

use std::sync::Arc;

use actors::engine::Origin;

use crate::api::user_info::{MASTERS, UserInfo};
use crate::api::warnings::Warnings;

/// What a write knows of its request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// Whom the request is carried out as.
    pub user: Arc<UserInfo>,
    /// Who asks, where that is another user, who may impersonate this one (API-284).
    pub impersonator: Option<Arc<UserInfo>>,
    /// The field manager (API-155).
    pub manager: String,
    /// The request's `Audit-ID`.
    pub audit_id: String,
    /// Warnings for the answer's headers.
    pub warnings: Warnings,
    /// When the request ends, whatever it does (API-107).
    pub deadline: tokio::time::Instant,
}

impl RequestContext {
    /// A context for the daemon's own work, named `system:taffrail:<part>`.
    pub fn internal(part: &str, deadline: tokio::time::Instant) -> RequestContext {
        let user = UserInfo {
            name: format!("system:taffrail:{part}"),
            groups: vec![MASTERS.to_owned()],
            ..UserInfo::default()
        };
        RequestContext {
            user: Arc::new(user),
            impersonator: None,
            manager: "taffrail".to_owned(),
            audit_id: String::new(),
            warnings: Warnings::default(),
            deadline,
        }
    }

    /// Who is noted down in the log of events: the user that the request is carried out as.
    pub fn origin(&self) -> Origin {
        Origin {
            user: self.user.name.clone(),
            manager: self.manager.clone(),
            audit_id: self.audit_id.clone(),
        }
    }
}
