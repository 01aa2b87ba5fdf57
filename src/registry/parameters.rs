//! The objects that bindings of policies refer to (HK-60 to HK-63).

use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::FutureExt;
use tokio::sync::watch;

use super::admission_client::AdmissionClient;
use super::catalog::Catalog;
use super::store::RegistryStore;
use crate::admission::client::{Answering, Change, ResourceClient};
use crate::admission::hooks::policies::{ParamObjects, Parameters};
use crate::api::object::Object;

/// The objects of all kinds that are served, native and custom ones. The plugins of policies are
/// made before the registry, which is attached later.
#[derive(Default)]
pub struct RegistryParameters(OnceLock<Weak<watch::Sender<Arc<Catalog>>>>);

impl RegistryParameters {
    /// Connects the parameters with the served resources.
    pub(super) fn attach(&self, current: &Arc<watch::Sender<Arc<Catalog>>>) {
        self.0.get_or_init(|| Arc::downgrade(current));
    }
}

impl Parameters for RegistryParameters {
    fn find(&self, group: &str, version: &str, kind: &str) -> Option<ParamObjects> {
        let current = self.0.get()?.upgrade()?;
        let store = current.borrow().of_kind(group, version, kind)?;
        Some(ParamObjects {
            plural: store.definition().plural.clone(),
            is_namespaced: store.definition().is_namespaced(),
            objects: Arc::new(InVersion {
                client: AdmissionClient::new(Arc::clone(&store)),
                store,
            }),
        })
    }
}

/// Objects in the version of a store.
struct InVersion {
    client: AdmissionClient,
    store: Arc<RegistryStore>,
}

impl InVersion {
    fn shown(&self, object: Object) -> Object {
        let definition = self.store.definition();
        let mut object = self.store.in_version(&object).into_owned();
        object.set_type(&definition.kind, &definition.api_version());
        object
    }
}

impl ResourceClient for InVersion {
    fn get<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
    ) -> Answering<'c, Option<Object>> {
        async move {
            let found = self.client.get(namespace, name).await?;
            Ok(found.map(|object| self.shown(object)))
        }
        .boxed()
    }

    fn list<'c>(&'c self, namespace: Option<&'c str>) -> Answering<'c, Vec<Object>> {
        async move {
            let all = self.client.list(namespace).await?;
            Ok(all.into_iter().map(|object| self.shown(object)).collect())
        }
        .boxed()
    }

    fn change_status<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
        change: Change<'c>,
    ) -> Answering<'c, ()> {
        self.client.change_status(namespace, name, change)
    }
}
