//! The columns of the core group, `v1`, except those in [`super::events`], [`super::nodes`],
//! [`super::pods`] and [`super::volumes`].

use std::collections::BTreeSet;

use api::object::Object;
use api::resource::{Cell, Column, FieldPath, OfField};
use serde_json::Value;

use super::{
    NONE, UNKNOWN, computed, container_images, container_names, integer, items, joined, labels,
    list, member, number, plain, selector_column, template_columns, text, text_or, texts,
    with_more,
};

/// Returns the columns of ComponentStatuses.
pub fn componentstatuses() -> Vec<Column> {
    let status = computed(
        |status, _| match health(status).map(|of| member(of, "status")) {
            None => "Unknown".into(),
            Some("True") => "Healthy".into(),
            Some(_) => "Unhealthy".into(),
        },
    );
    let message = computed(|status, _| of_health(status, "message"));
    let error = computed(|status, _| of_health(status, "error"));
    vec![
        Column::name(),
        Column::text("Status", "Whether the component is healthy.", status),
        Column::text("Message", "Answer of the health check.", message),
        Column::text("Error", "Error of the health check.", error),
    ]
}

/// Returns the columns of ConfigMaps.
pub fn configmaps() -> Vec<Column> {
    let entries = Cell::Count(FieldPath::list(&["data", "binaryData"]));
    vec![
        Column::name(),
        Column::text("Data", OfField("core.v1.ConfigMap.data"), entries),
        Column::age(),
    ]
}

/// Returns the columns of Endpoints.
pub fn endpoints() -> Vec<Column> {
    let addresses = computed(|endpoints, _| addresses(endpoints).into());
    vec![
        Column::name(),
        Column::text("Endpoints", OfField("core.v1.Endpoints.subsets"), addresses),
        Column::age(),
    ]
}

/// Returns the columns of LimitRanges.
pub fn limitranges() -> Vec<Column> {
    plain()
}

/// Returns the columns of Namespaces.
pub fn namespaces() -> Vec<Column> {
    let description = "Active, or Terminating while its contents are deleted.";
    vec![
        Column::name(),
        Column::text("Status", description, text("status.phase")),
        Column::age(),
    ]
}

/// Returns the columns of PodTemplates.
pub fn podtemplates() -> Vec<Column> {
    let names = computed(|object, _| container_names(object, &["template", "spec", "containers"]));
    let images =
        computed(|object, _| container_images(object, &["template", "spec", "containers"]));
    let labels = computed(|object, _| labels(object.at(&["template", "metadata", "labels"])));
    vec![
        Column::name(),
        Column::text("Containers", "Names of its containers.", names),
        Column::text("Images", "Images of its containers.", images),
        Column::text(
            "Pod Labels",
            "Labels of pods made from the template.",
            labels,
        ),
    ]
}

/// Returns the columns of ReplicationControllers.
pub fn replicationcontrollers() -> Vec<Column> {
    let of = OfField("core.v1.ReplicationControllerSpec.selector");
    let selector = selector_column(of, |object, _| labels(object.at(&["spec", "selector"])));
    let described = [
        "core.v1.ReplicationControllerSpec.replicas",
        "core.v1.ReplicationControllerStatus.replicas",
        "core.v1.ReplicationControllerStatus.readyReplicas",
    ];
    replicated(described, selector)
}

/// Returns the columns of kinds with replicas. `described` names the fields that describe the
/// desired, current and ready counts.
pub(super) fn replicated(described: [&'static str; 3], selector: Column) -> Vec<Column> {
    let described = described.map(OfField);
    let desired = computed(|object, _| integer(object, &["spec", "replicas"]));
    let current = computed(|object, _| integer(object, &["status", "replicas"]));
    let ready = computed(|object, _| integer(object, &["status", "readyReplicas"]));
    let [containers, images] = template_columns();
    vec![
        Column::name(),
        Column::integer("Desired", described[0], desired),
        Column::integer("Current", described[1], current),
        Column::integer("Ready", described[2], ready),
        Column::age(),
        containers,
        images,
        selector,
    ]
}

/// Returns the columns of ResourceQuotas.
pub fn resourcequotas() -> Vec<Column> {
    let requests = computed(|quota, _| quota_of(quota, false).into());
    let limits = computed(|quota, _| quota_of(quota, true).into());
    vec![
        Column::name(),
        Column::text(
            "Request",
            "Used and hard amounts of requests and counts.",
            requests,
        ),
        Column::text("Limit", "Used and hard amounts of limits.", limits),
        Column::age(),
    ]
}

/// Returns the columns of Secrets.
pub fn secrets() -> Vec<Column> {
    let entries = Cell::Count(FieldPath::list(&["data"]));
    vec![
        Column::name(),
        Column::text("Type", OfField("core.v1.Secret.type"), text("type")),
        Column::text("Data", OfField("core.v1.Secret.data"), entries),
        Column::age(),
    ]
}

/// Returns the columns of Services.
pub fn services() -> Vec<Column> {
    let cluster = computed(|service, _| cluster_address(service).into());
    let external = computed(|service, _| external_address(service).into());
    let ports = computed(|service, _| text_or(&ports(service), NONE).into());
    let of = OfField("core.v1.ServiceSpec.selector");
    let selector = selector_column(of, |object, _| labels(object.at(&["spec", "selector"])));
    vec![
        Column::name(),
        Column::text(
            "Type",
            OfField("core.v1.ServiceSpec.type"),
            text("spec.type"),
        ),
        Column::text(
            "Cluster-IP",
            OfField("core.v1.ServiceSpec.clusterIP"),
            cluster,
        ),
        Column::text(
            "External-IP",
            OfField("core.v1.ServiceSpec.externalIPs"),
            external,
        ),
        Column::text("Port(s)", OfField("core.v1.ServiceSpec.ports"), ports),
        Column::age(),
        selector,
    ]
}

/// Returns the condition that reports the health of a component.
fn health(status: &Object) -> Option<&Value> {
    let mut conditions = list(status, &["conditions"]).iter();
    conditions.find(|condition| member(condition, "type") == "Healthy")
}

fn of_health(status: &Object, name: &str) -> Value {
    health(status).map_or("", |of| member(of, name)).into()
}

/// Returns the first ready addresses, each with its ports.
fn addresses(endpoints: &Object) -> String {
    const SHOWN: usize = 3;
    let subsets = list(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let (mut shown, mut total) = (Vec::new(), 0);
    for subset in subsets {
        let addresses = items(subset, "addresses");
        let ports: Vec<Option<i64>> = match items(subset, "ports") {
            [] => vec![None],
            ports => ports.iter().map(|one| Some(number(one, "port"))).collect(),
        };
        for port in ports {
            total += addresses.len();
            let free = SHOWN.saturating_sub(shown.len());
            let more = addresses.iter().take(free);
            shown.extend(more.map(|address| at_port(member(address, "ip"), port)));
        }
    }
    with_more(&shown, total)
}

fn at_port(address: &str, port: Option<i64>) -> String {
    match port {
        None => address.to_owned(),
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
    }
}

/// Formats the used and the hard amount of each resource: limits, or requests and counts.
fn quota_of(quota: &Object, of_limits: bool) -> String {
    let used = quota.at(&["status", "used"]);
    let hard = quota.at(&["status", "hard"]).and_then(Value::as_object);
    let resources = hard.into_iter().flatten();
    let resources = resources.filter(|(name, _)| name.starts_with("limits.") == of_limits);
    let texts: Vec<String> = resources
        .map(|(name, hard)| {
            let used = used.map_or("", |used| member(used, name));
            let hard = hard.as_str().unwrap_or_default();
            format!("{name}: {}/{hard}", text_or(used, "0"))
        })
        .collect();
    texts.join(", ")
}

fn cluster_address(service: &Object) -> &str {
    let first = list(service, &["spec", "clusterIPs"]).first();
    let first = first.and_then(Value::as_str).unwrap_or_default();
    text_or(first, text_or(service.text(&["spec", "clusterIP"]), NONE))
}

fn external_address(service: &Object) -> String {
    let external = texts(list(service, &["spec", "externalIPs"]));
    match service.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => text_or(&external, NONE).to_owned(),
        "LoadBalancer" => {
            let balanced = load_balancer(service);
            let all = [balanced.as_str(), external.as_str()];
            let all = joined(all.into_iter().filter(|text| !text.is_empty()), ",");
            text_or(&all, "<pending>").to_owned()
        }
        "ExternalName" => service.text(&["spec", "externalName"]).to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// Returns the IP addresses of a load balancer, sorted; its host names where it has no addresses.
pub(super) fn load_balancer(object: &Object) -> String {
    let ingress = list(object, &["status", "loadBalancer", "ingress"]).iter();
    let points = ingress.map(|point| text_or(member(point, "ip"), member(point, "hostname")));
    let points: BTreeSet<&str> = points.filter(|point| !point.is_empty()).collect();
    joined(points, ",")
}

fn ports(service: &Object) -> String {
    let ports = list(service, &["spec", "ports"]).iter();
    let ports: Vec<String> = ports
        .map(|port| {
            let (own, protocol) = (number(port, "port"), member(port, "protocol"));
            match number(port, "nodePort") {
                ..=0 => format!("{own}/{protocol}"),
                node => format!("{own}:{node}/{protocol}"),
            }
        })
        .collect();
    ports.join(",")
}
