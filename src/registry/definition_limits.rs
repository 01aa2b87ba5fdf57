//! Refuses definitions of custom resources beyond a number and a size, for each user and for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::FutureExt;
use parking_lot::Mutex;

use super::definition_ledger::{DefinitionLimits, Ledger, Wanted};
use super::store::RegistryStore;
use crate::admission::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::go_json::json_bytes;
use crate::api::object::Object;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// The plugin. kube-apiserver has no such limits.
pub(super) struct DefinitionLimit {
    /// The store of definitions, without admission.
    store: Arc<RegistryStore>,
    limits: DefinitionLimits,
    ledger: Mutex<Ledger>,
}

impl DefinitionLimit {
    pub(super) fn new(store: Arc<RegistryStore>, limits: DefinitionLimits) -> DefinitionLimit {
        DefinitionLimit {
            store,
            limits,
            ledger: Mutex::default(),
        }
    }

    async fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Box<Status>> {
        let bytes = json_bytes(&object.0);
        if let Some(before) = attributes.old_object
            && json_bytes(&before.0) >= bytes
        {
            return Ok(());
        }
        let any = ListOptions {
            resource_version: "0".to_owned(),
            ..ListOptions::default()
        };
        let everything = Arc::new(Selection::default());
        let listed = self.store.list(None, &any, everything).await?;
        let existing = listed.items.iter().map(|definition| {
            let bytes = definition.item_body().len();
            (definition.attributes().name(), bytes)
        });
        let existing: HashMap<&str, usize> = existing.collect();
        let wanted = Wanted {
            name: object.name(),
            user: &attributes.user.name,
            bytes,
            is_stored: !attributes.operation.is_dry_run(),
        };
        let mut ledger = self.ledger.lock();
        let checked = ledger.check(wanted, self.limits, &existing, Instant::now());
        checked.map_err(|why| attributes.forbidden(Some(object), &why))
    }
}

impl Plugin for DefinitionLimit {
    fn name(&self) -> &'static str {
        "DefinitionLimit"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_write = matches!(
            attributes.operation,
            Operation::Create(_) | Operation::Update(_)
        );
        let is_whole = attributes.subresource.is_none();
        is_write && is_whole && attributes.definition.is(GROUP, PLURAL)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for DefinitionLimit {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(object) => self.check(attributes, object).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}
