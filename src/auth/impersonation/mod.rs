//! Requests that are carried out as another user (API-284, API-285).
//!
//! Each part of the user in the headers is checked. The verbs of constrained impersonation come
//! first; they also check the action that is done as the other user. The older verb `impersonate`
//! comes last. Nothing after this filter reads the headers.

mod check;
mod digest;
mod headers;
mod metrics;
mod mode;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::check::{Check, completed, of_associate};
use self::mode::Mode;
use super::kept::Kept;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::auth::{Attributes, Authorizer};

/// How long a yes of a constrained mode counts (AC-78).
const KEPT: Duration = Duration::from_secs(10);

/// The most answers that are kept.
const KEPT_MAX: usize = 8192;

/// The user as whom a request is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub user: Arc<UserInfo>,
    /// The verb of the constrained mode that allowed it, which the audit log shows.
    pub constraint: Option<&'static str>,
}

/// Decides who may be whom, and remembers for a short time what was allowed.
pub struct Impersonations {
    /// Whether the verbs of constrained impersonation are enabled.
    is_constrained: bool,
    /// Digests of the allowances by constrained modes.
    allowed: Mutex<Kept<()>>,
}

impl Impersonations {
    /// Remembers nothing yet. `is_constrained` is whether the verbs of constrained impersonation
    /// are enabled.
    pub fn new(is_constrained: bool) -> Impersonations {
        metrics::describe();
        Impersonations {
            is_constrained,
            allowed: Mutex::new(Kept::new(KEPT_MAX)),
        }
    }

    /// Returns the user whom a request impersonates, or `None` if it impersonates nobody.
    /// `attributes` are those of the request with the requesting user.
    ///
    /// # Errors
    /// 400 for headers without a user name. 403 for a user whom the requesting user may not
    /// impersonate.
    pub async fn impersonated(
        &self,
        headers: &HeaderMap,
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<Option<Impersonation>, Box<Status>> {
        match headers::wanted(headers)? {
            // Boxed, because few requests do this, and each request moves the memory that is not.
            Some(wanted) => {
                let deciding = self.decided(wanted, attributes, authorizer);
                Box::pin(deciding).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn decided(
        &self,
        wanted: UserInfo,
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<Impersonation, Box<Status>> {
        let mode = match self.is_constrained {
            true => {
                let begin = Instant::now();
                let tried = self.tried(&wanted, attributes, authorizer).await;
                let mode = tried.as_ref().map_or("", |mode| mode.name());
                metrics::attempted(mode, tried.is_ok(), begin.elapsed());
                tried?
            }
            false => {
                let check = Check::new(Mode::Legacy, attributes.user, authorizer);
                check.user(&wanted).await?;
                Mode::Legacy
            }
        };
        Ok(Impersonation {
            user: Arc::new(completed(mode, wanted)),
            constraint: mode.constraint(),
        })
    }

    /// Returns the first mode that allows it. Of several refusals, the first is returned.
    async fn tried(
        &self,
        wanted: &UserInfo,
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<Mode, Box<Status>> {
        let mut first = None;
        for mode in Mode::ALL {
            if !mode.applies(wanted, attributes.user) {
                continue;
            }
            match self.allowed(mode, wanted, attributes, authorizer).await {
                Ok(()) => return Ok(mode),
                Err(refusal) => first = first.or(Some(refusal)),
            }
        }
        // The last mode applies to all, so there is a refusal.
        Err(first.unwrap_or_else(|| Box::new(Status::internal("all impersonation modes failed"))))
    }

    /// Checks one mode. Answers of the old verb are not kept.
    async fn allowed(
        &self,
        mode: Mode,
        wanted: &UserInfo,
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<(), Box<Status>> {
        if mode == Mode::AssociatedNode {
            // All pods of an account share the answer, because their nodes do not matter.
            let user = of_associate(attributes.user);
            let attributes = Attributes {
                user: &user,
                ..*attributes
            };
            let any = UserInfo {
                name: "system:node:*".to_owned(),
                ..UserInfo::default()
            };
            let asking = self.constrained(mode, (&any, wanted), &attributes, authorizer);
            return asking.await;
        }
        if mode.is_constrained() {
            let asking = self.constrained(mode, (wanted, wanted), attributes, authorizer);
            return asking.await;
        }
        let check = Check::new(mode, attributes.user, authorizer);
        check.user(wanted).await
    }

    /// Checks that the requesting user may be another user, and may do this action as one. `whom`
    /// is the user by whom the answer is kept, and the wanted one.
    async fn constrained(
        &self,
        mode: Mode,
        whom: (&UserInfo, &UserInfo),
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<(), Box<Status>> {
        let (kept_for, wanted) = whom;
        let on_action = digest::of(mode, kept_for, attributes.user, Some(attributes));
        let is_kept = |key| self.allowed.lock().get(key, Instant::now()).is_some();
        if is_kept(&on_action) {
            return Ok(());
        }
        let check = Check::new(mode, attributes.user, authorizer);
        check.action(attributes).await?;
        let on_user = digest::of(mode, kept_for, attributes.user, None);
        if !is_kept(&on_user) {
            check.user(wanted).await?;
            self.allowed.lock().keep(on_user, (), KEPT, Instant::now());
        }
        let mut allowed = self.allowed.lock();
        allowed.keep(on_action, (), KEPT, Instant::now());
        Ok(())
    }
}
