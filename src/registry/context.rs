//! Who asks, and what the answer's headers shall say.

use std::sync::Arc;

use actors::engine::Origin;
use parking_lot::Mutex;

use crate::api::user_info::{MASTERS, UserInfo};

/// All warnings of an answer together have so many characters; where they have more, each is cut
/// to [`SHORT_WARNING_CHARACTERS`] (API-140).
pub const WARNING_CHARACTERS: usize = 4096;
/// See [`WARNING_CHARACTERS`].
pub const SHORT_WARNING_CHARACTERS: usize = 256;

/// Warnings of one request, in order and without repetition (API-140). What an answer has no room
/// for isn't kept.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a warning unless it was given before.
    pub fn add(&self, text: impl Into<String>) {
        let mut text = text.into();
        if let Some((end, _)) = text.char_indices().nth(WARNING_CHARACTERS) {
            // One character more than there is room for tells that it was cut.
            text.truncate(text.ceil_char_boundary(end + 1));
            text.shrink_to_fit();
        }
        let mut list = self.0.lock();
        let shortest = |text: &String| text.chars().take(SHORT_WARNING_CHARACTERS).count();
        let has_room = list.iter().map(shortest).sum::<usize>() < WARNING_CHARACTERS;
        if has_room && !list.contains(&text) {
            list.push(text);
        }
    }

    /// The warnings so far; none are left.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

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
