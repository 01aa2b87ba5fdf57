//! The review that a webhook is sent (HK-19 to HK-22). Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value as Json;

use super::answer::form;
use crate::admission::hooks::answers::Answers;
use crate::admission::hooks::client::ReviewVersion;
use crate::admission::hooks::request::request;
use crate::admission::hooks::scope;
use crate::admission::hooks::shown::Form;
use crate::api::cel::values::authorizer::Request;
use crate::api::go_json::json_bytes;
use crate::api::object::Object;

/// The objects of a request in the form in which webhooks see them. Webhooks that ask for the same
/// form share them.
pub struct Documents {
    object: Json,
    old_object: Json,
}

impl Documents {
    /// Makes the documents of a request. `shown` is its object in this form.
    ///
    /// # Errors
    /// The failure of a conversion.
    pub async fn new(form: &Form<'_>, shown: Option<&Object>) -> Result<Arc<Documents>, String> {
        let document = |object: Object| Json::Object(object.into_document());
        let old_object = form.show_any(form.attributes().old_object).await?;
        Ok(Arc::new(Documents {
            object: shown.cloned().map_or(Json::Null, document),
            old_object: old_object.map_or(Json::Null, document),
        }))
    }
}

/// The facts of a request in the form in which a webhook sees them.
pub struct Facts {
    request: Json,
    documents: Arc<Documents>,
}

impl Facts {
    /// Collects the facts of a request.
    pub fn new(form: &Form<'_>, documents: Arc<Documents>) -> Facts {
        Facts {
            request: Json::Object(request(form.attributes(), form)),
            documents,
        }
    }

    /// Returns the facts for conditions.
    pub(super) fn of_conditions(
        &self,
        answers: &Arc<Answers>,
        resource: Request,
    ) -> scope::Facts<'_> {
        scope::Facts {
            object: self.documents.object.as_object(),
            old_object: self.documents.old_object.as_object(),
            request: &self.request,
            namespace: &Json::Null,
            params: &Json::Null,
            permissions: Some((Arc::clone(answers), resource)),
        }
    }

    /// Returns the bytes that the objects take in a review.
    pub(super) fn object_bytes(&self) -> usize {
        let Documents { object, old_object } = &*self.documents;
        json_bytes(object) + json_bytes(old_object)
    }

    /// Writes the review with this uid.
    pub fn review(self, version: ReviewVersion, uid: &str) -> Bytes {
        let form = form(version);
        let uid = Json::from(uid);
        let members = self.request.as_object().into_iter().flatten();
        let mut request: BTreeMap<&str, &Json> =
            members.map(|(name, value)| (&**name, value)).collect();
        request.insert("uid", &uid);
        request.insert("object", &self.documents.object);
        request.insert("oldObject", &self.documents.old_object);
        let review = Review {
            kind: form.kind,
            api_version: form.api_version(),
            request,
        };
        // JSON values can always be written.
        serde_json::to_vec(&review).unwrap_or_default().into()
    }
}

/// A review as it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'r> {
    kind: &'static str,
    api_version: String,
    request: BTreeMap<&'r str, &'r Json>,
}
