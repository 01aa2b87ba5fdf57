//! Reviews of all that a user may do in a namespace (API-293).

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::{Value, json};

use super::Review;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::auth::{Authorizer, NonResourceRule, ResourceRule, aggregate};
use crate::registry::rest::Answering;

/// Reviews which requests a user may make.
pub(super) struct RulesReview {
    pub(super) authorizer: Arc<dyn Authorizer>,
}

impl RulesReview {
    async fn answered(&self, review: &mut Object, asking: &UserInfo) -> Result<(), Box<Status>> {
        let namespace = namespace(review)?;
        let rules = self.authorizer.rules_for(asking, namespace).await;
        let resources = rules.of_resources.iter().map(|rule| {
            let ResourceRule {
                verbs,
                api_groups,
                resources,
                resource_names,
            } = rule;
            let mut shown =
                json!({"verbs": verbs, "apiGroups": api_groups, "resources": resources});
            if !resource_names.is_empty() {
                shown["resourceNames"] = json!(resource_names);
            }
            shown
        });
        let others = rules.of_paths.iter().map(|rule| {
            let NonResourceRule { verbs, paths } = rule;
            json!({"verbs": verbs, "nonResourceURLs": paths})
        });
        let mut status = json!({
            "resourceRules": resources.collect::<Vec<Value>>(),
            "nonResourceRules": others.collect::<Vec<Value>>(),
            "incomplete": rules.is_incomplete,
        });
        if let Some(error) = aggregate(&rules.errors) {
            status["evaluationError"] = error.into();
        }
        // As in kube-apiserver, the response has no metadata and no spec.
        review.set_managed_fields(None);
        for part in ["metadata", "spec"] {
            review.0.insert(part.to_owned(), json!({}));
        }
        review.0.insert("status".to_owned(), status);
        Ok(())
    }
}

/// Returns the namespace of a review.
fn namespace(review: &Object) -> Result<&str, Box<Status>> {
    match review.text(&["spec", "namespace"]) {
        "" => Err(Box::new(Status::bad_request("no namespace on request"))),
        namespace => Ok(namespace),
    }
}

impl Review for RulesReview {
    fn check(&self, review: &Object) -> Result<(), Box<Status>> {
        namespace(review).map(|_| ())
    }

    fn answer<'a>(&'a self, review: &'a mut Object, asking: &'a UserInfo) -> Answering<'a, ()> {
        self.answered(review, asking).boxed()
    }
}
