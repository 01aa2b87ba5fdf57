//! The facts of a request in the forms that policies ask for. Each form is made once.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use crate::admission::Attributes;
use crate::admission::client::ResourceClient;
use crate::admission::hooks::answers::{Answers, resource_question};
use crate::admission::hooks::request::request;
use crate::admission::hooks::scope::Facts;
use crate::admission::hooks::shown::{AskedIn, Form};
use crate::api::cel::values::authorizer::Request;
use crate::api::object::Object;
use crate::api::status::Status;

/// The members of metadata that policies see of a namespace (HK-85).
const NAMESPACE_METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "resourceVersion",
    "finalizers",
];

/// The value of absent objects.
pub(super) static NOTHING: Json = Json::Null;

/// The objects of a request, and the request itself, in one version.
pub(super) struct InForm<'a> {
    pub object: Option<Cow<'a, Map<String, Json>>>,
    pub old_object: Option<Cow<'a, Map<String, Json>>>,
    pub request: Json,
}

impl<'a> InForm<'a> {
    /// Returns the objects of a request in the version that a policy asks for. Managed fields are
    /// shown only if they are wanted, because they are a large part of an object (D-117).
    ///
    /// # Errors
    /// The failure of a conversion.
    pub(super) async fn new(
        attributes: &'a Attributes<'_>,
        object: Option<&'a Object>,
        asked_in: &AskedIn,
        has_managed_fields: bool,
    ) -> Result<InForm<'a>, String> {
        let form = Form::new(attributes, asked_in);
        let Attributes {
            definition,
            kind,
            stored,
            ..
        } = attributes;
        let is_as_stored = matches!(asked_in, AskedIn::Request)
            && definition.kind == kind.kind
            && definition.group == kind.group
            && definition.version == stored.version
            && definition.group == stored.group;
        let shown = async |object: Option<&'a Object>| {
            if is_as_stored && !has_managed_fields {
                return Ok(object.map(|object| Cow::Borrowed(&object.0)));
            }
            let shown = form.show_any(object).await?;
            Ok::<_, String>(shown.map(|shown| Cow::Owned(document(shown, has_managed_fields))))
        };
        Ok(InForm {
            object: shown(object).await?,
            old_object: shown(attributes.old_object).await?,
            request: Json::Object(request(attributes, &form)),
        })
    }
}

/// Returns a document for expressions.
pub(super) fn document(object: Object, has_managed_fields: bool) -> Map<String, Json> {
    match has_managed_fields {
        true => object.into_document(),
        false => object.0,
    }
}

/// The forms of a request that were made so far.
pub(super) struct Forms<'a> {
    attributes: &'a Attributes<'a>,
    object: Option<&'a Object>,
    made: Vec<(Option<Arc<str>>, bool, Arc<InForm<'a>>)>,
}

impl<'a> Forms<'a> {
    pub(super) fn new(attributes: &'a Attributes<'a>, object: Option<&'a Object>) -> Forms<'a> {
        Forms {
            attributes,
            object,
            made: Vec::new(),
        }
    }

    /// Returns the form for a policy.
    ///
    /// # Errors
    /// The failure of a conversion.
    pub(super) async fn of(
        &mut self,
        asked_in: &AskedIn,
        has_managed_fields: bool,
    ) -> Result<Arc<InForm<'a>>, String> {
        let version = match asked_in {
            AskedIn::Request => None,
            AskedIn::Other(version) => Some(Arc::from(version.api_version())),
        };
        // linear: a resource has a few versions.
        let known = self
            .made
            .iter()
            .find(|(known, has_fields, _)| *known == version && *has_fields == has_managed_fields);
        if let Some((.., form)) = known {
            return Ok(Arc::clone(form));
        }
        let form = InForm::new(self.attributes, self.object, asked_in, has_managed_fields);
        let form = Arc::new(form.await?);
        let kept = (version, has_managed_fields, Arc::clone(&form));
        self.made.push(kept);
        Ok(form)
    }
}

/// The parts of a request's facts that are the same in all forms.
pub(super) struct Common {
    answers: Arc<Answers>,
    /// The question about the resource of the request to which only the verb is missing.
    resource: Request,
    namespace: Option<Json>,
}

impl Common {
    pub(super) fn new(attributes: &Attributes<'_>) -> Common {
        Common {
            answers: Arc::default(),
            resource: resource_question(attributes),
            namespace: None,
        }
    }

    /// Reads the namespace of the request, for an expression that names it.
    ///
    /// # Errors
    /// 404 if it is absent, and the error of the read.
    pub(super) async fn read_namespace(
        &mut self,
        attributes: &Attributes<'_>,
        namespaces: &dyn ResourceClient,
    ) -> Result<(), Box<Status>> {
        if let (None, Some(name)) = (&self.namespace, attributes.namespace) {
            let found = namespaces.get(None, name).await?;
            let found = found.ok_or_else(|| Box::new(Status::namespace_not_found(name)))?;
            self.namespace = Some(shown_namespace(&found));
        }
        Ok(())
    }

    /// Returns the facts of a request with this parameter.
    pub(super) fn facts<'k>(
        &'k self,
        object: Option<&'k Map<String, Json>>,
        old_object: Option<&'k Map<String, Json>>,
        request: &'k Json,
        params: &'k Json,
    ) -> Facts<'k> {
        Facts {
            object,
            old_object,
            request,
            namespace: self.namespace.as_ref().unwrap_or(&NOTHING),
            params,
            permissions: Some((Arc::clone(&self.answers), self.resource.clone())),
        }
    }
}

/// Returns a namespace as policies see it (HK-85).
fn shown_namespace(namespace: &Object) -> Json {
    let mut metadata = Map::new();
    if let Some(all) = namespace.metadata() {
        for name in NAMESPACE_METADATA {
            if let Some(value) = all.get(name) {
                metadata.insert(name.to_owned(), value.clone());
            }
        }
    }
    let member = |name: &str| namespace.0.get(name).cloned().unwrap_or_else(|| json!({}));
    json!({"metadata": metadata, "spec": member("spec"), "status": member("status")})
}
