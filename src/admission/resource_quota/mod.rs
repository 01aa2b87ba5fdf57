//! ResourceQuota (API-265): counts the resources of a namespace, and refuses to exceed its quotas.
//!
//! A create is charged in the status of each quota that counts it, by a change that fails if the
//! quota has changed meanwhile. So concurrent writers never exceed a quota. The controller of
//! quotas returns the usage of deleted objects, as in Kubernetes. Some resources may be used only
//! where a quota limits them ([`limited`]).

mod evaluators;
mod limited;
mod usage;

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::FutureExt;

use super::client::ResourceClient;
use super::pod_resources::Quantities;
use super::{Admitted, Attributes, Operation, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use evaluators::{Devices, Evaluator};
pub use limited::LimitedResource;
use limited::{Demand, Uncovered};

/// The plugin.
pub(super) struct ResourceQuota {
    quotas: Arc<dyn ResourceClient>,
    /// DeviceClasses, ResourceClaims and pods, if they are served.
    devices: Option<[Arc<dyn ResourceClient>; 3]>,
    limited: Arc<[LimitedResource]>,
}

/// The annotation of claims that a scheduler makes for resources of containers.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

/// A quota that counts the written object, and the amounts to add to its usage.
struct Charge {
    quota: Object,
    usage: Quantities,
}

/// Why a write is refused whatever the usage of quotas is.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// As all refusals of plugins.
    Forbidden(String),
    /// With a plain text.
    Unknown(String),
}

impl Refused {
    fn status(self, attributes: &Attributes<'_>, object: &Object) -> Box<Status> {
        match self {
            Refused::Forbidden(why) => attributes.forbidden(Some(object), &why),
            Refused::Unknown(why) => Box::new(Status::unknown(why)),
        }
    }
}

impl ResourceQuota {
    /// Creates the plugin with this source of ResourceQuotas, those of DeviceClasses,
    /// ResourceClaims and pods, if they are served, and the resources that are limited by default.
    pub(super) fn new(
        quotas: Arc<dyn ResourceClient>,
        devices: Option<[Arc<dyn ResourceClient>; 3]>,
        limited: Arc<[LimitedResource]>,
    ) -> ResourceQuota {
        ResourceQuota {
            quotas,
            devices,
            limited,
        }
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
        if quotas.is_empty() && self.limited.is_empty() {
            return Ok(());
        }
        let evaluator = match evaluator.is_of_devices() {
            true => evaluator.with_devices(self.devices(attributes.namespace, object).await?),
            false => evaluator,
        };
        let write = Write {
            evaluator: &evaluator,
            definition: attributes.definition,
            stored: attributes.old_object,
            object,
        };
        let charges = write.charges(quotas, &self.limited);
        let charges = charges.map_err(|refused| refused.status(attributes, object))?;
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

/// A write that quotas may count.
struct Write<'w> {
    evaluator: &'w Evaluator,
    definition: &'w ResourceDefinition,
    stored: Option<&'w Object>,
    object: &'w Object,
}

impl Write<'_> {
    /// The charges for each quota. An update never returns usage: the controller of quotas does
    /// that.
    ///
    /// # Errors
    /// Why a quota refuses it, whatever its usage, or why it needs another quota.
    fn charges(
        &self,
        quotas: Vec<Object>,
        limited: &[LimitedResource],
    ) -> Result<Vec<Charge>, Refused> {
        let Write {
            evaluator,
            stored,
            object,
            ..
        } = *self;
        let mut interesting = Vec::new();
        let (mut all_counted, mut met) = (HashSet::new(), HashSet::new());
        for quota in quotas {
            if !limited.is_empty() {
                met.extend(evaluator.met_scopes(&quota, object));
            }
            let hard = usage::hard(&quota);
            let counted = evaluator.counted(&hard);
            if counted.is_empty() || !evaluator.is_in_scope(&quota, object) {
                continue;
            }
            if let Some(why) = evaluator.unmet(&counted, object) {
                let why = format!("failed quota: {}: {why}", quota.name());
                return Err(Refused::Forbidden(why));
            }
            if let Some(unknown) = usage::unknown(&quota, &counted) {
                return Err(Refused::Forbidden(format!(
                    "status unknown for quota: {}, resources: {unknown}",
                    quota.name()
                )));
            }
            all_counted.extend(counted);
            interesting.push(quota);
        }
        if interesting.is_empty() && limited.is_empty() {
            return Ok(Vec::new());
        }
        let usage = evaluator.usage(object);
        if let Some(negative) = usage::negative(&usage) {
            return Err(Refused::Forbidden(format!(
                "quota usage is negative for resource(s): {negative}"
            )));
        }
        let more = stored.map(|stored| usage::difference(&usage, &evaluator.usage(stored)));
        let charged = |quota: &Object| {
            // A quota that did not count the object before counts all of it.
            let stored = stored.filter(|stored| evaluator.is_in_scope(quota, stored));
            more.as_ref().filter(|_| stored.is_some()).unwrap_or(&usage)
        };
        if !limited.is_empty() {
            let uses_more = match &*interesting {
                [] => usage::has_positive(more.as_ref().unwrap_or(&usage)),
                some => some.iter().any(|quota| usage::has_positive(charged(quota))),
            };
            let demand = Demand::of(limited, self.definition, evaluator, object, &usage);
            let uncovered = demand.uncovered(&all_counted, &met).filter(|_| uses_more);
            if let Some(uncovered) = uncovered {
                return Err(refused(uncovered));
            }
        }
        let charges = interesting.into_iter().map(|quota| {
            let mut charged = usage::masked(charged(&quota), &usage::hard(&quota));
            charged.retain(|_, quantity| quantity.sign() > 0);
            Charge {
                usage: charged,
                quota,
            }
        });
        Ok(charges.filter(|charge| !charge.usage.is_empty()).collect())
    }
}

fn refused(uncovered: Uncovered) -> Refused {
    match uncovered {
        Uncovered::Names(names) => {
            Refused::Forbidden(format!("insufficient quota to consume: {names}"))
        }
        Uncovered::Scopes(scopes) => Refused::Unknown(format!(
            "insufficient quota to match these scopes: {scopes}"
        )),
    }
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
