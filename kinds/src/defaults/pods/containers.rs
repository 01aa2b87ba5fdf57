//! Defaults of containers (API-246, API-247).

use serde_json::Value;

use super::images::set_pull_policy;
use super::resources::{quantity, resource_requirements};
use crate::defaults::{Members, items, member, set_default};

/// Sets the defaults of a container, an init container or an ephemeral container.
pub(super) fn container(members: &mut Members) {
    set_pull_policy(members, "image", "imagePullPolicy");
    set_default(members, "terminationMessagePath", "/dev/termination-log");
    set_default(members, "terminationMessagePolicy", "File");
    for port in items(members, "ports") {
        set_default(port, "protocol", "TCP");
    }
    for variable in items(members, "env") {
        if let Some(source) = member(variable, "valueFrom") {
            value_source(source);
        }
    }
    resource_requirements(members, "resources");
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = member(members, name) {
            self::probe(probe);
        }
    }
    if let Some(lifecycle) = member(members, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = member(lifecycle, name) {
                http_get(handler);
            }
        }
    }
}

/// Sets the defaults of the source of an environment variable or of a file of the downward API.
pub(super) fn value_source(source: &mut Members) {
    if let Some(field) = member(source, "fieldRef") {
        set_default(field, "apiVersion", "v1");
    }
    if let Some(resource) = member(source, "resourceFieldRef") {
        set_default(resource, "divisor", "0");
        quantity(resource, "divisor");
    }
    if let Some(file) = member(source, "fileKeyRef") {
        set_default(file, "optional", false);
    }
}

fn probe(members: &mut Members) {
    let numbers = [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ];
    for (name, number) in numbers {
        if members.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
            members.insert(name.to_owned(), number.into());
        }
    }
    http_get(members);
    if let Some(grpc) = member(members, "grpc") {
        set_default(grpc, "service", "");
    }
}

/// Sets the defaults of the HTTP request of a probe or a lifecycle handler.
fn http_get(handler: &mut Members) {
    if let Some(action) = member(handler, "httpGet") {
        set_default(action, "path", "/");
        set_default(action, "scheme", "HTTP");
    }
}

/// Sets the host ports of a container on the host network to its container ports.
pub(super) fn host_ports(container: &mut Members) {
    for port in items(container, "ports") {
        let number = port.get("containerPort").cloned();
        let is_unset = port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) == 0;
        if let (true, Some(number)) = (is_unset, number) {
            port.insert("hostPort".to_owned(), number);
        }
    }
}
