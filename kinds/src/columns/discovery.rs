//! The columns of `discovery.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};
use serde_json::Value;

use super::{UNSET, computed, items, list, text, text_or, with_more};

const SHOWN: usize = 3;

/// Returns the columns of EndpointSlices.
pub fn endpointslices() -> Vec<Column> {
    let ports = computed(|slice, _| ports(slice).into());
    let endpoints = computed(|slice, _| endpoints(slice).into());
    vec![
        Column::name(),
        Column::text(
            "AddressType",
            OfField("discovery.v1.EndpointSlice.addressType"),
            text("addressType"),
        ),
        Column::text("Ports", OfField("discovery.v1.EndpointSlice.ports"), ports),
        Column::text(
            "Endpoints",
            OfField("discovery.v1.EndpointSlice.endpoints"),
            endpoints,
        ),
        Column::age(),
    ]
}

fn ports(slice: &Object) -> String {
    let ports = list(slice, &["ports"]);
    let shown = ports.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|port| match (port.get("port"), port.get("name")) {
            (Some(Value::Number(port)), _) => port.to_string(),
            (_, Some(Value::String(name))) => name.clone(),
            _ => "*".to_owned(),
        })
        .collect();
    text_or(&with_more(&shown, ports.len()), UNSET).to_owned()
}

fn endpoints(slice: &Object) -> String {
    let endpoints = list(slice, &["endpoints"]).iter();
    let addresses = endpoints.flat_map(|endpoint| items(endpoint, "addresses"));
    let (mut shown, mut total) = (Vec::new(), 0);
    for address in addresses {
        total += 1;
        if shown.len() < SHOWN {
            shown.push(address.as_str().unwrap_or_default().to_owned());
        }
    }
    text_or(&with_more(&shown, total), UNSET).to_owned()
}
