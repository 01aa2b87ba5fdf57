//! Ingresses of `networking.k8s.io/v1beta1` and `extensions/v1beta1`, NetworkPolicies of the
//! latter, and EndpointSlices of `discovery.k8s.io/v1beta1`.

use api::object::Object;
use serde_json::{Map, Value, json};

use crate::defaults::{Members, items, member, set_absent};
use crate::defaults::{discovery, networking};

/// Labels of nodes by which `topology` locates an endpoint.
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// Converts an Ingress, whose backends name a service and its port.
pub(super) fn ingress(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if let Some(mut backend) = spec.remove("backend") {
        if let Some(backend) = backend.as_object_mut() {
            service_of(backend);
        }
        spec.insert("defaultBackend".to_owned(), backend);
    }
    for rule in items(spec, "rules") {
        let Some(http) = member(rule, "http") else {
            continue;
        };
        for path in items(http, "paths") {
            set_absent(path, "pathType", "ImplementationSpecific");
            if let Some(backend) = member(path, "backend") {
                service_of(backend);
            }
        }
    }
}

/// Moves the service of a backend into a struct. A string port becomes a port name.
fn service_of(backend: &mut Members) {
    let name = backend.remove("serviceName").unwrap_or_default();
    let port = backend.remove("servicePort").unwrap_or_default();
    let has_port = port.is_string() || port.as_i64().is_some_and(|number| number != 0);
    if !has_port && name.as_str().is_none_or(str::is_empty) {
        return;
    }
    let kind = if port.is_string() { "name" } else { "number" };
    let port: Map<String, Value> = [(kind.to_owned(), port)].into_iter().collect();
    backend.insert("service".to_owned(), json!({"name": name, "port": port}));
}

/// Defaults a NetworkPolicy of `extensions/v1beta1`, which does not default the protocol of ports.
pub(super) fn networkpolicy(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        networking::policy_types(spec);
    }
}

/// Converts an EndpointSlice. `topology` becomes `zone` and `deprecatedTopology`; the node name
/// already has a field of its own.
pub(super) fn endpointslice(object: &mut Object) {
    // Runs first because it drops a `deprecatedTopology` of the body.
    discovery::endpointslice(object);
    for endpoint in items(&mut object.0, "endpoints") {
        let Some(Value::Object(mut topology)) = endpoint.remove("topology") else {
            continue;
        };
        if let Some(zone) = topology.remove(ZONE) {
            endpoint.insert("zone".to_owned(), zone);
        }
        if let Some(host) = topology.get(HOST)
            && endpoint.get("nodeName") == Some(host)
        {
            topology.remove(HOST);
        }
        endpoint.insert("deprecatedTopology".to_owned(), topology.into());
    }
}
