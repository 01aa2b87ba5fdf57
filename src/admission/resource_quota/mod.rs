//! ResourceQuota (API-265): counts the resources of a namespace, and refuses to exceed its quotas.
//!
//! A create is charged in the status of each quota that counts it, by a change that fails if the
//! quota has changed meanwhile. So concurrent writers never exceed a quota. The controller of
//! quotas returns the usage of deleted objects, as in Kubernetes.

mod evaluators;
mod usage;

use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::pod_resources::Quantities;
use super::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::status::Status;
use evaluators::{Devices, Evaluator};

/// The plugin.
pub(super) struct ResourceQuota {
    quotas: Arc<dyn ResourceClient>,
    /// DeviceClasses, ResourceClaims and pods, if they are served.
    devices: Option<[Arc<dyn ResourceClient>; 3]>,
}

/// The annotation of claims that a scheduler makes for resources of containers.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

/// A quota that counts the written object, and the amounts to add to its usage.
struct Charge {
    quota: Object,
    usage: Quantities,
}

impl ResourceQuota {
    /// Creates the plugin with this source of ResourceQuotas, and those of DeviceClasses,
    /// ResourceClaims and pods, if they are served.
    pub(super) fn new(
        quotas: Arc<dyn ResourceClient>,
        devices: Option<[Arc<dyn ResourceClient>; 3]>,
    ) -> ResourceQuota {
        ResourceQuota { quotas, devices }
    }

    /// The device classes for this claim, and the amounts that its pod is charged.
    async fn devices(
        &self,
        namespace: Option<&str>,
        claim: &Object,
    ) -> Result<Devices, Box<Status>> {
        let Some([classes, claims, pods]) = &self.devices else {
            return Ok(Devices::default());
        };
        let classes = classes.list(None).await?;
        let named = classes.iter().filter_map(|class| {
            let name = class.text(&["spec", "extendedResourceName"]);
            (!name.is_empty()).then(|| (class.name().to_owned(), name.to_owned()))
        });
        let mut devices = Devices {
            extended: named.collect(),
            of_pod: Quantities::new(),
        };
        let Some((pod, uid)) = pod_of(claim) else {
            return Ok(devices);
        };
        let Some(pod) = pods.get(namespace, pod).await? else {
            return Ok(devices);
        };
        let path = ["status", "extendedResourceClaimStatus", "resourceClaimName"];
        let is_own = pod.uid() == uid
            && match pod.text(&path) {
                "" => !claims.list(namespace).await?.iter().any(|other| {
                    let age = |claim: &Object| claim.meta("creationTimestamp").to_owned();
                    let is_earlier = (age(other), other.name()) < (age(claim), claim.name());
                    is_earlier && pod_of(other).is_some_and(|(_, other)| other == uid)
                }),
                name => name == claim.name(),
            };
        if is_own {
            devices.of_pod = evaluators::of_pod(&pod);
        }
        Ok(devices)
    }

    async fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Box<Status>> {
        let evaluator = Evaluator::of(attributes.definition);
        if !evaluator.handles(attributes, object) {
            return Ok(());
        }
        let quotas = self.quotas.list(attributes.namespace).await?;
        let evaluator = match evaluator.is_of_devices() && !quotas.is_empty() {
            true => evaluator.with_devices(self.devices(attributes.namespace, object).await?),
            false => evaluator,
        };
        let charges = charges(&evaluator, attributes.old_object, object, quotas);
        let charges = charges.map_err(|why| attributes.forbidden(Some(object), &why))?;
        if !attributes.operation.is_dry_run() {
            return self.take(attributes, object, &charges).await;
        }
        for charge in charges.iter().filter(|_| is_enforced(attributes)) {
            let charged = usage::charged(&charge.quota, &charge.usage);
            charged.map_err(|why| attributes.forbidden(Some(object), &why))?;
        }
        Ok(())
    }

    /// Charges all quotas, or none.
    async fn take(
        &self,
        attributes: &Attributes<'_>,
        object: &Object,
        charges: &[Charge],
    ) -> Result<(), Box<Status>> {
        for (index, charge) in charges.iter().enumerate() {
            let mut take = |quota: &mut Object| {
                let used = match is_enforced(attributes) {
                    true => usage::charged(quota, &charge.usage),
                    false => Ok(usage::with(quota, &charge.usage)),
                };
                let used = used.map_err(|why| attributes.forbidden(Some(object), &why))?;
                usage::set_used(quota, &used);
                Ok(())
            };
            let name = charge.quota.name();
            let taking = self
                .quotas
                .change_status(attributes.namespace, name, &mut take);
            match taking.await {
                Ok(()) => {}
                // A quota that no longer exists limits nothing.
                Err(status) if status.code == 404 => {}
                Err(status) => {
                    let taken = charges.get(..index).unwrap_or_default();
                    self.give_back(attributes, taken).await;
                    return Err(status);
                }
            }
        }
        Ok(())
    }

    async fn give_back(&self, attributes: &Attributes<'_>, charges: &[Charge]) {
        for charge in charges {
            let mut give_back = |quota: &mut Object| {
                let used = usage::given_back(quota, &charge.usage);
                usage::set_used(quota, &used);
                Ok(())
            };
            let name = charge.quota.name();
            let giving = self
                .quotas
                .change_status(attributes.namespace, name, &mut give_back);
            if let Err(status) = giving.await {
                tracing::warn!(
                    %status,
                    quota = name,
                    "returning the charge of a refused write failed"
                );
            }
        }
    }
}

/// The name and uid of the pod for which a scheduler has made a claim.
fn pod_of(claim: &Object) -> Option<(&str, &str)> {
    if claim.text(&["metadata", "annotations", EXTENDED]) != "true" {
        return None;
    }
    let mut owners = claim.items(&["metadata", "ownerReferences"]).iter();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    let is_pod = owner["kind"] == "Pod" && owner["apiVersion"] == "v1";
    let text = |name: &str| owner[name].as_str().unwrap_or_default();
    is_pod.then(|| (text("name"), text("uid")))
}

/// Whether a write that exceeds a quota is refused. A status reports existing usage, so it is not.
fn is_enforced(attributes: &Attributes<'_>) -> bool {
    attributes.subresource != Some("status")
}

/// The charges of a write for each quota. An update never returns usage: the controller of quotas
/// does that.
///
/// # Errors
/// Why a quota refuses it, whatever its usage.
fn charges(
    evaluator: &Evaluator,
    stored: Option<&Object>,
    object: &Object,
    quotas: Vec<Object>,
) -> Result<Vec<Charge>, String> {
    let mut interesting = Vec::new();
    for quota in quotas {
        let hard = usage::hard(&quota);
        let counted = evaluator.counted(&hard);
        if counted.is_empty() || !evaluator.is_in_scope(&quota, object) {
            continue;
        }
        if let Some(why) = evaluator.unmet(&counted, object) {
            return Err(format!("failed quota: {}: {why}", quota.name()));
        }
        if let Some(unknown) = usage::unknown(&quota, &counted) {
            return Err(format!(
                "status unknown for quota: {}, resources: {unknown}",
                quota.name()
            ));
        }
        interesting.push(quota);
    }
    if interesting.is_empty() {
        return Ok(Vec::new());
    }
    let usage = evaluator.usage(object);
    if let Some(negative) = usage::negative(&usage) {
        return Err(format!(
            "quota usage is negative for resource(s): {negative}"
        ));
    }
    let more = stored.map(|stored| usage::difference(&usage, &evaluator.usage(stored)));
    let charges = interesting.into_iter().map(|quota| {
        // A quota that did not count the object before counts all of it.
        let stored = stored.filter(|stored| evaluator.is_in_scope(&quota, stored));
        let charged = more.as_ref().filter(|_| stored.is_some()).unwrap_or(&usage);
        let mut charged = usage::masked(charged, &usage::hard(&quota));
        charged.retain(|_, quantity| quantity.sign() > 0);
        Charge {
            usage: charged,
            quota,
        }
    });
    Ok(charges.filter(|charge| !charge.usage.is_empty()).collect())
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_write = matches!(
            attributes.operation,
            Operation::Create(_) | Operation::Update(_)
        );
        let is_whole = match attributes.subresource {
            None => true,
            Some("resize") => attributes.definition.is("", "pods"),
            Some("status") => attributes.definition.is("", "persistentvolumeclaims"),
            Some(_) => false,
        };
        is_write && is_whole && attributes.namespace.is_some()
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for ResourceQuota {
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

#[cfg(test)]
mod tests;
