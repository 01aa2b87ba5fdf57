//! Computes the resources that quotas count for objects. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::admission::default_classes::storage_class_of;
use crate::admission::pod_resources::{
    Quantities, Side, containers, of_container, of_pod_level, of_running_pod,
};
use crate::admission::{Attributes, Operation};
use crate::api::keyed::distinct;
use crate::api::object::Object;
use crate::api::quantity::Quantity;
use crate::api::resource::ResourceDefinition;
use crate::kinds::resource_names::{
    self, OF_CONTAINERS, in_quota, is_cpu_or_memory, is_of_containers, is_of_pods, requested,
};

const SERVICE_RESOURCES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Follows the name of a device class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// Precedes the name of a device class that containers request.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// The most devices that a claim can get.
const DEVICES_MAX: i64 = 32;
/// Resources whose number has an older name, too.
const WITH_OLD_NAME: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pods,
    Services,
    Claims,
    /// Claims of devices.
    DeviceClaims,
    /// Objects are counted.
    Other,
    /// Nothing is counted.
    Ignored,
}

/// The device classes, and the pod that a claim is for.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// Classes, and the names by which containers request their devices.
    pub(super) extended: BTreeMap<String, String>,
    /// The amounts that the pod is charged already.
    pub(super) of_pod: Quantities,
}

/// The rules for one resource.
pub(super) struct Evaluator {
    kind: Kind,
    devices: Devices,
    /// The names by which containers request devices.
    extended: HashSet<String>,
    /// `count/deployments.apps`
    count: String,
    /// The older name of the count.
    old_count: Option<String>,
}

impl Evaluator {
    /// The rules for a resource.
    pub(super) fn of(definition: &ResourceDefinition) -> Evaluator {
        let (group, plural) = (definition.group.as_ref(), definition.plural.as_str());
        let kind = match (group, plural) {
            ("", "pods") => Kind::Pods,
            ("", "services") => Kind::Services,
            ("", CLAIMS) => Kind::Claims,
            ("resource.k8s.io", "resourceclaims") => Kind::DeviceClaims,
            ("" | "events.k8s.io", "events") => Kind::Ignored,
            _ => Kind::Other,
        };
        let has_old_name = group.is_empty() && WITH_OLD_NAME.contains(&plural);
        Evaluator {
            kind,
            devices: Devices::default(),
            extended: HashSet::new(),
            count: format!("count/{}", definition.qualified()),
            old_count: has_old_name.then(|| plural.to_owned()),
        }
    }

    /// Whether the objects are claims of devices.
    pub(super) fn is_of_devices(&self) -> bool {
        self.kind == Kind::DeviceClaims
    }

    /// The same rules, for a claim with these devices.
    pub(super) fn with_devices(self, devices: Devices) -> Evaluator {
        Evaluator {
            extended: devices.extended.values().cloned().collect(),
            devices,
            ..self
        }
    }

    /// Whether a write of this object may change a usage.
    pub(super) fn handles(&self, attributes: &Attributes<'_>, object: &Object) -> bool {
        let is_new = matches!(attributes.operation, Operation::Create(_));
        match (self.kind, attributes.subresource) {
            (Kind::Pods, None) => {
                let stored = attributes.old_object;
                is_new || stored.is_some_and(|pod| is_terminating(pod) != is_terminating(object))
            }
            (Kind::Pods, part) => part == Some("resize"),
            (Kind::Claims, None | Some("status")) => true,
            (Kind::Services | Kind::DeviceClaims, None) => true,
            (Kind::Other, None) => is_new,
            _ => false,
        }
    }

    /// The limited resources that are counted for such objects.
    pub(super) fn counted(&self, hard: &Quantities) -> Vec<String> {
        let names = hard.keys().filter(|name| self.counts(name));
        names.cloned().collect()
    }

    fn counts(&self, name: &str) -> bool {
        let is_of_kind = match self.kind {
            Kind::Pods => is_of_pods(name) || extended(name).is_some(),
            Kind::Services => SERVICE_RESOURCES.contains(&name),
            Kind::Claims => {
                let of_class = name.split_once(OF_CLASS).map(|(_, what)| what);
                [CLAIMS, STORAGE].contains(&name)
                    || of_class.is_some_and(|what| [CLAIMS, STORAGE].contains(&what))
            }
            Kind::DeviceClaims => {
                name.ends_with(DEVICES)
                    || extended(name).is_some_and(|name| match name.strip_prefix(DEVICE_CLASS) {
                        Some(class) => self.devices.extended.contains_key(class),
                        None => self.extended.contains(name),
                    })
            }
            Kind::Other | Kind::Ignored => false,
        };
        is_of_kind || name == self.count || self.old_count.as_deref() == Some(name)
    }

    /// The usage of an object.
    pub(super) fn usage(&self, object: &Object) -> Quantities {
        let one = || Quantity::whole(1);
        let mut usage = Quantities::from([(self.count.clone(), one())]);
        usage.extend(self.old_count.clone().map(|name| (name, one())));
        match self.kind {
            Kind::Pods => usage.extend(of_pod(object)),
            Kind::Services => usage.extend(of_service(object)),
            Kind::Claims => usage.extend(of_claim(object)),
            Kind::DeviceClaims => usage.extend(of_device_claim(object, &self.devices)),
            Kind::Other | Kind::Ignored => {}
        }
        usage
    }

    /// The resources that containers must set and do not, if these resources are counted.
    pub(super) fn unmet(&self, counted: &[String], pod: &Object) -> Option<String> {
        let is_said_of_pod = || {
            let mut sides = [Side::Requests, Side::Limits].into_iter();
            sides.any(|side| !of_pod_level(pod, side).is_empty())
        };
        if self.kind != Kind::Pods || is_said_of_pod() {
            return None;
        }
        // If a quota counts these, every container must set them.
        let counted = counted.iter().map(String::as_str);
        let required = counted.filter(|name| is_cpu_or_memory(in_quota(name)));
        let required: Vec<&str> = required.collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in ["containers", "initContainers"]
            .iter()
            .flat_map(|list| containers(pod, list))
        {
            let of = |side| of_container(container, side);
            let own = compute(&of(Side::Requests), &of(Side::Limits));
            let name = container["name"].as_str().unwrap_or_default();
            let lacking = required.iter().filter(|name| !own.contains_key(**name));
            for resource in lacking {
                missing.entry(resource).or_default().insert(name);
            }
        }
        let texts = missing.iter().map(|(resource, names)| {
            let names: Vec<&str> = names.iter().copied().collect();
            format!("{resource} for: {}", names.join(","))
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| format!("must specify {}", texts.join("; ")))
    }

    /// Whether a quota applies to such an object, by its scopes.
    pub(super) fn is_in_scope(&self, quota: &Object, object: &Object) -> bool {
        // Each scope may read the whole object, so each distinct one is evaluated once.
        let mut scopes = distinct(scopes(quota));
        scopes.all(|(scope, selector)| self.matches(object, scope, selector))
    }

    /// The names of the scopes of a quota that an object is in.
    pub(super) fn met_scopes(&self, quota: &Object, object: &Object) -> Vec<String> {
        let met = distinct(scopes(quota));
        let met = met.filter(|(scope, selector)| self.matches(object, scope, *selector));
        met.map(|(scope, _)| scope.to_owned()).collect()
    }

    /// Whether an object meets a requirement on a scope.
    pub(super) fn meets(&self, object: &Object, requirement: &Value) -> bool {
        let (scope, selector) = scope_of(requirement);
        self.matches(object, scope, selector)
    }

    fn matches(&self, object: &Object, scope: &str, selector: Option<&Value>) -> bool {
        match (self.kind, scope) {
            (Kind::Pods, "Terminating") => is_terminating(object),
            (Kind::Pods, "NotTerminating") => !is_terminating(object),
            (Kind::Pods, "BestEffort") => is_best_effort(object),
            (Kind::Pods, "NotBestEffort") => !is_best_effort(object),
            (Kind::Pods, "PriorityClass") => {
                selects(object.text(&["spec", "priorityClassName"]), selector)
            }
            (Kind::Pods, "CrossNamespacePodAffinity") => has_cross_namespace_affinity(object),
            (Kind::Claims, "VolumeAttributesClass") => {
                let mut classes = attributes_classes(object).peekable();
                match classes.peek() {
                    None => selects("", selector),
                    Some(_) => classes.any(|class| selects(class, selector)),
                }
            }
            _ => false,
        }
    }
}

/// The scopes of a quota with their selectors, if they have ones that count.
fn scopes(quota: &Object) -> impl Iterator<Item = (&str, Option<&Value>)> {
    let scopes = quota.items(&["spec", "scopes"]).iter();
    let scopes = scopes.map(|scope| (scope.as_str().unwrap_or_default(), None));
    let path = ["spec", "scopeSelector", "matchExpressions"];
    scopes.chain(quota.items(&path).iter().map(scope_of))
}

/// The scope that a requirement names, and the requirement if its operator counts.
fn scope_of(requirement: &Value) -> (&str, Option<&Value>) {
    let scope = requirement["scopeName"].as_str().unwrap_or_default();
    let names_classes = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    (scope, Some(requirement).filter(|_| names_classes))
}

/// Whether the selector of a scope selects the name of a class, which may be empty.
fn selects(class: &str, selector: Option<&Value>) -> bool {
    let operator = selector.and_then(|selector| selector["operator"].as_str());
    let values = selector.and_then(|selector| selector["values"].as_array());
    let is_listed = values.is_some_and(|values| values.iter().any(|value| value == class));
    match operator {
        None | Some("Exists") => !class.is_empty(),
        Some("DoesNotExist") => class.is_empty(),
        Some("In") => !class.is_empty() && is_listed,
        Some("NotIn") => class.is_empty() || !is_listed,
        Some(_) => false,
    }
}

/// The extended resource whose requests are counted by this name.
fn extended(name: &str) -> Option<&str> {
    requested(name).filter(|resource| !is_native(resource))
}

fn is_native(name: &str) -> bool {
    let is_of_devices = name.starts_with(DEVICE_CLASS);
    !is_of_devices && resource_names::is_native(name)
}

/// Whether a pod has terminated, and uses only its place.
fn is_over(pod: &Object) -> bool {
    matches!(pod.text(&["status", "phase"]), "Failed" | "Succeeded")
}

/// The usage of a pod, except for its place.
pub(super) fn of_pod(pod: &Object) -> Quantities {
    if is_over(pod) {
        return Quantities::new();
    }
    let of = |side| of_running_pod(pod, side);
    compute(&of(Side::Requests), &of(Side::Limits))
}

/// The counted amounts of requests and limits.
fn compute(requests: &Quantities, limits: &Quantities) -> Quantities {
    let mut usage = Quantities::from([("pods".to_owned(), Quantity::whole(1))]);
    for (name, quantity) in requests {
        let is_plain = is_of_containers(name);
        if is_plain {
            usage.insert(name.clone(), quantity.clone());
        }
        if is_plain || !is_native(name) {
            usage.insert(format!("requests.{name}"), quantity.clone());
        }
    }
    for (name, quantity) in limits {
        // Quotas do not count limits of huge pages.
        if OF_CONTAINERS.contains(&name.as_str()) {
            usage.insert(format!("limits.{name}"), quantity.clone());
        }
    }
    usage
}

fn of_service(service: &Object) -> Quantities {
    let ports = service.items(&["spec", "ports"]);
    let has_node_port = |port: &&Value| port["nodePort"].as_i64().is_some_and(|number| number != 0);
    let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]);
    let (balancers, node_ports) = match service.text(&["spec", "type"]) {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if allocates == Some(&Value::Bool(false)) => {
            (1, ports.iter().filter(has_node_port).count())
        }
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    let numbers = [1, node_ports, balancers];
    let numbers = SERVICE_RESOURCES.into_iter().zip(numbers);
    let amounts = numbers.map(|(name, number)| {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        (name.to_owned(), Quantity::whole(number))
    });
    amounts.collect()
}

fn of_claim(claim: &Object) -> Quantities {
    let class = storage_class_of(claim);
    let one = || Quantity::whole(1);
    let mut usage = Quantities::from([(CLAIMS.to_owned(), one())]);
    if !class.is_empty() {
        usage.insert(format!("{class}{OF_CLASS}{CLAIMS}"), one());
    }
    let size = |path: &[&str]| claim.text(path).parse::<Quantity>().ok();
    let requested = size(&["spec", "resources", "requests", "storage"]);
    let allocated = size(&["status", "allocatedResources", "storage"]);
    if let Some(requested) = requested {
        let size = allocated.filter(|allocated| *allocated > requested);
        // Fractions of bytes are rounded up.
        let size = size.unwrap_or(requested).rounded();
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_CLASS}{STORAGE}"), size.clone());
        }
        usage.insert(STORAGE.to_owned(), size);
    }
    usage
}

/// The most devices of each class that a claim can get. Of several alternatives it gets one.
/// Devices that containers can request as resources count as such, too, unless their pod is
/// charged.
fn of_device_claim(claim: &Object, devices: &Devices) -> Quantities {
    let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
    for request in claim.items(&["spec", "devices", "requests"]) {
        let alternatives = request["firstAvailable"].as_array();
        let exactly = request.get("exactly").filter(|exactly| exactly.is_object());
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for one in alternatives.into_iter().flatten().chain(exactly) {
            let class = one["deviceClassName"].as_str().unwrap_or_default();
            let count = match one["allocationMode"].as_str() {
                Some("ExactCount") => one["count"].as_i64().unwrap_or_default(),
                Some("All") => DEVICES_MAX,
                _ => 0,
            };
            let before = most.entry(class).or_default();
            *before = count.max(*before);
        }
        for (class, count) in most {
            let sum = wanted.entry(class).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    let mut usage = Quantities::new();
    for (class, count) in wanted {
        let count = Quantity::whole(count);
        usage.insert(format!("{class}{DEVICES}"), count.clone());
        let extended = devices.extended.get(class);
        let names = [Some(format!("{DEVICE_CLASS}{class}")), extended.cloned()];
        for name in names.into_iter().flatten() {
            let name = format!("requests.{name}");
            let charged = devices.of_pod.get(&name);
            let more = match charged {
                Some(charged) => count.minus(charged),
                None => count.clone(),
            };
            if more.sign() > 0 {
                usage.insert(name, more);
            }
        }
    }
    usage
}

/// The VolumeAttributesClasses that a claim wants, has, or is about to get.
fn attributes_classes(claim: &Object) -> impl Iterator<Item = &str> {
    let paths: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &[
            "status",
            "modifyVolumeStatus",
            "targetVolumeAttributesClassName",
        ],
    ];
    let classes = paths.into_iter().map(|path| claim.text(path));
    classes.filter(|class| !class.is_empty())
}

fn is_terminating(pod: &Object) -> bool {
    let deadline = pod.at(&["spec", "activeDeadlineSeconds"]);
    deadline
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds >= 0)
}

/// Whether a pod requests nothing and is not limited.
fn is_best_effort(pod: &Object) -> bool {
    let sides = [Side::Requests, Side::Limits];
    let all = ["containers", "initContainers"];
    let containers = all.iter().flat_map(|list| containers(pod, list));
    let of_containers = containers.flat_map(|one| sides.map(|side| of_container(one, side)));
    let all = of_containers.chain(sides.map(|side| of_pod_level(pod, side)));
    let mut amounts = all.flatten();
    !amounts.any(|(name, quantity)| is_cpu_or_memory(&name) && quantity.sign() > 0)
}

/// Whether a pod has affinity or anti-affinity to pods of other namespaces.
fn has_cross_namespace_affinity(pod: &Object) -> bool {
    let affinity = pod.at(&["spec", "affinity"]);
    let names_others = |term: &Value| {
        let namespaces = term["namespaces"].as_array();
        let selector = term
            .get("namespaceSelector")
            .filter(|value| !value.is_null());
        namespaces.is_some_and(|names| !names.is_empty()) || selector.is_some()
    };
    let list = |value: &Value, member: &str| value[member].as_array().cloned().unwrap_or_default();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = affinity.and_then(|affinity| affinity.get(*kind));
        terms.is_some_and(|terms| {
            let required = list(terms, "requiredDuringSchedulingIgnoredDuringExecution");
            let preferred = list(terms, "preferredDuringSchedulingIgnoredDuringExecution");
            let preferred = preferred.iter().map(|term| &term["podAffinityTerm"]);
            required.iter().chain(preferred).any(names_others)
        })
    })
}
