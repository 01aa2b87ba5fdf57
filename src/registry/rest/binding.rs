//! Bindings of pods to nodes (API-219): POST on `bindings` and on `pods/{name}/binding`.

use std::sync::Arc;

use futures_util::future::FutureExt;

use super::{Answering, Created, Creater, NamedCreater, RestStorage};
use crate::api::error_list::ErrorList;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::clock;
use crate::kinds::strategies::bind;
use crate::kinds::validation::core::validate_binding;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{RegistryStore, reconcile_namespace};
use crate::storage::Preconditions;

/// The storage of bindings. A binding changes its pod and is not stored itself.
pub struct BindingStore {
    pods: Arc<RegistryStore>,
    /// The kind of `bindings`, which both paths accept.
    kind: Arc<ResourceDefinition>,
    is_of_pod: bool,
}

impl BindingStore {
    /// Returns the storages of both paths.
    pub fn paths(pods: &Arc<RegistryStore>, kind: ResourceDefinition) -> [BindingStore; 2] {
        let kind = Arc::new(kind);
        [false, true].map(|is_of_pod| BindingStore {
            pods: Arc::clone(pods),
            kind: Arc::clone(&kind),
            is_of_pod,
        })
    }

    async fn bind(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        mut binding: Object,
        options: &WriteOptions,
    ) -> Result<Created, Box<Status>> {
        reconcile_namespace(&mut binding, &self.kind, at.namespace)?;
        let admitting = self
            .pods
            .admit_unstored(self, context, at, &mut binding, options);
        admitting.await?;
        if binding.name() != at.name {
            let why = "name in URL does not match name in Binding object";
            return Err(Box::new(Status::bad_request(why)));
        }
        let errors = ErrorList::of(|errors| validate_binding(&binding, errors));
        if !errors.is_empty() {
            return Err(Box::new(Status::unknown(aggregate(errors.kept()))));
        }
        let validating = self
            .pods
            .validate_unstored(self, context, at, &binding, options);
        validating.await?;
        if at.name.is_empty() {
            return Err(Box::new(Status::bad_request("Name parameter required.")));
        }
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let preconditions = Preconditions {
            // Only at the path of a pod does the request's uid survive, because a create there does
            // not reset system fields.
            uid: given(binding.uid()).filter(|_| self.is_of_pod),
            resource_version: given(binding.resource_version()),
        };
        let now = clock::now();
        let mut change = |pod: &mut Object| {
            bind(pod, &binding, now).map_err(|why| {
                let resource = ResourceDefinition {
                    plural: "pods/binding".to_owned(),
                    ..(**self.pods.definition()).clone()
                };
                Box::new(Status::conflict(&resource, at.name, &why))
            })
        };
        let changing = self
            .pods
            .change(context, at, preconditions, options.dry_run, &mut change);
        changing.await?;
        Ok(Created::Status(Box::new(Status::created())))
    }
}

/// Formats field errors as Kubernetes' aggregate error, which has no causes.
fn aggregate(faults: &[crate::api::field_error::FieldError]) -> String {
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    match &*texts {
        [single] => single.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

impl RestStorage for BindingStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        if self.is_of_pod {
            return self.pods.definition();
        }
        &self.kind
    }

    fn subresource(&self) -> Option<&str> {
        self.is_of_pod.then_some("binding")
    }

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        self.pods.held_bytes(at)
    }

    fn creater(&self) -> Option<&dyn Creater> {
        (!self.is_of_pod).then_some(self as _)
    }

    fn named_creater(&self) -> Option<&dyn NamedCreater> {
        self.is_of_pod.then_some(self as _)
    }
}

impl Creater for BindingStore {
    fn create<'a>(
        &'a self,
        context: &'a RequestContext,
        namespace: Option<&'a str>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        async move {
            let name = object.name().to_owned();
            let at = NamespacedName {
                namespace,
                name: &name,
            };
            self.bind(context, at, object, options).await
        }
        .boxed()
    }
}

impl NamedCreater for BindingStore {
    fn create_named<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        self.bind(context, at, object, options).boxed()
    }
}
