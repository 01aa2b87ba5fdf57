//! The review that a webhook is sent (HK-19 to HK-22). Pure.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};

use super::answer::form;
use crate::admission::hooks::answers::Answers;
use crate::admission::hooks::client::ReviewVersion;
use crate::admission::hooks::request::request;
use crate::admission::hooks::scope;
use crate::admission::hooks::shown::Form;
use crate::api::cel::values::authorizer::Request;
use crate::api::object::Object;

/// The facts of a request in the form in which a webhook sees them.
pub struct Facts {
    request: Json,
    object: Json,
    old_object: Json,
}

impl Facts {
    /// Collects the facts of a request. `shown` is its object in this form.
    ///
    /// # Errors
    /// The failure of a conversion.
    pub async fn new(form: &Form<'_>, shown: Option<&Object>) -> Result<Facts, String> {
        let document = |object: Object| Json::Object(object.into_document());
        let attributes = form.attributes();
        let old_object = form.show_any(attributes.old_object).await?;
        Ok(Facts {
            request: Json::Object(request(attributes, form)),
            object: shown.cloned().map_or(Json::Null, document),
            old_object: old_object.map_or(Json::Null, document),
        })
    }

    /// Returns the facts for conditions.
    pub(super) fn of_conditions(
        &self,
        answers: &Arc<Answers>,
        resource: Request,
    ) -> scope::Facts<'_> {
        scope::Facts {
            object: self.object.as_object(),
            old_object: self.old_object.as_object(),
            request: &self.request,
            namespace: &Json::Null,
            params: &Json::Null,
            permissions: Some((Arc::clone(answers), resource)),
        }
    }

    /// Writes the review with this uid.
    pub fn review(self, version: ReviewVersion, uid: &str) -> Bytes {
        let form = form(version);
        let mut request = Map::new();
        request.insert("uid".to_owned(), uid.into());
        if let Json::Object(members) = self.request {
            request.extend(members);
        }
        request.insert("object".to_owned(), self.object);
        request.insert("oldObject".to_owned(), self.old_object);
        let review = json!({
            "kind": form.kind,
            "apiVersion": form.api_version(),
            "request": request,
        });
        // JSON values can always be written.
        serde_json::to_vec(&review).unwrap_or_default().into()
    }
}
