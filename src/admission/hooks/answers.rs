//! The answers to questions about permissions that expressions ask (HK-89). Equal questions of a
//! request are asked once. An evaluation can't wait, so an unanswered question ends it.

use std::collections::HashMap;

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;

use super::namespace_of;
use crate::admission::Attributes;
use crate::api::cel::values::authorizer::{Authorizer, Decision, Request};
use crate::api::user_info::{SERVICE_ACCOUNTS, UserInfo};
use crate::auth;

/// Answers questions about permissions.
pub(in crate::admission::hooks) trait Asker: Send + Sync {
    /// Asks whether the user of the request may make this request.
    fn ask<'a>(&'a self, question: &'a Request) -> BoxFuture<'a, Decision>;
}

/// The answers that are known so far in one request.
#[derive(Debug, Default)]
pub(in crate::admission::hooks) struct Answers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: HashMap<Request, Decision>,
    /// The question that ended the last evaluation.
    open: Option<Request>,
}

impl Authorizer for Answers {
    fn authorize(&self, request: &Request) -> Option<Decision> {
        let mut state = self.0.lock();
        let known = state.known.get(request).cloned();
        if known.is_none() {
            state.open = Some(request.clone());
        }
        known
    }
}

impl Answers {
    /// Has the question answered that ended the last evaluation. Returns false without one.
    pub(in crate::admission::hooks) async fn answer(&self, asker: &dyn Asker) -> bool {
        let open = self.0.lock().open.take();
        let Some(question) = open else {
            return false;
        };
        let answer = asker.ask(&question).await;
        self.0.lock().known.insert(question, answer);
        true
    }
}

/// Asks the authorizer of the daemon about the user of a request.
pub(in crate::admission::hooks) struct OfUser<'u> {
    pub authorizer: &'u dyn auth::Authorizer,
    pub user: &'u UserInfo,
}

impl Asker for OfUser<'_> {
    fn ask<'a>(&'a self, question: &'a Request) -> BoxFuture<'a, Decision> {
        async move {
            let account = question.service_account.as_ref();
            let account = account.map(|(namespace, name)| service_account(namespace, name));
            let user = account.as_ref().unwrap_or(self.user);
            let attributes = auth::Attributes {
                is_resource_request: question.path.is_none(),
                path: question.path.as_deref().unwrap_or_default(),
                api_version: if question.path.is_none() { "*" } else { "" },
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
                field_selector: question.field_selector.as_deref().unwrap_or_default(),
                label_selector: question.label_selector.as_deref().unwrap_or_default(),
                ..auth::Attributes::on_resource(
                    user,
                    &question.verb,
                    &question.group,
                    &question.resource,
                )
            };
            let answer = self.authorizer.authorize(&attributes).await;
            Decision {
                is_allowed: answer.is_allowed(),
                reason: answer.reason.to_string(),
                error: answer.error,
            }
        }
        .boxed()
    }
}

/// Returns the question about the resource of a request to which only the verb is missing.
pub(in crate::admission::hooks) fn resource_question(attributes: &Attributes<'_>) -> Request {
    Request {
        group: attributes.definition.group.clone(),
        resource: attributes.definition.plural.clone(),
        subresource: attributes.subresource.unwrap_or_default().to_owned(),
        namespace: namespace_of(attributes).to_owned(),
        name: attributes.name.to_owned(),
        ..Request::default()
    }
}

/// Returns a service account as a user. It has no groups but those of service accounts.
fn service_account(namespace: &str, name: &str) -> UserInfo {
    UserInfo {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            SERVICE_ACCOUNTS.to_owned(),
            format!("{SERVICE_ACCOUNTS}:{namespace}"),
        ],
        ..UserInfo::default()
    }
}
