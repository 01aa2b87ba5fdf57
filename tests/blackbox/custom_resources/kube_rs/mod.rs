//! Custom resources of kube-rs: types that derive their definition, clients, watchers and
//! controllers of them.

mod clients;
mod controller;
mod watchers;

use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::core::CustomResourceExt;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PATIENCE;

const NAME: &str = "bakeries.example.com";
const MANAGER: &str = "controller-of-the-test";

/// The spec of a Bakery. Rules, bounds, defaults and merge strategies become parts of its schema.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Bakery",
    plural = "bakeries",
    shortname = "bk",
    category = "shops",
    namespaced,
    status = "BakeryStatus",
    derive = "PartialEq",
    selectable = ".spec.flour",
    scale(
        spec_replicas_path = ".spec.loaves",
        status_replicas_path = ".status.loaves",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Flour", type_ = "string", json_path = ".spec.flour"),
    printcolumn(name = "Loaves", type_ = "integer", json_path = ".status.loaves"),
    validation = Rule::new("self.metadata.name != 'brewery'").message("a bakery brews nothing")
)]
#[serde(rename_all = "camelCase")]
pub struct BakerySpec {
    #[x_kube(validation = Rule::new("self == oldSelf").message("its flour stays"))]
    flour: Flour,
    #[schemars(range(min = 0, max = 20))]
    #[serde(default = "one")]
    loaves: i32,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shelves: Vec<Shelf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
enum Flour {
    Rye,
    Wheat,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
struct Shelf {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
}

/// The status of a Bakery, which its controller writes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BakeryStatus {
    loaves: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<BakeryCondition>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
struct BakeryCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn one() -> i32 {
    1
}

fn bakery(name: &str, flour: Flour, loaves: i32) -> Bakery {
    let spec = BakerySpec {
        flour,
        loaves,
        shelves: Vec::new(),
    };
    Bakery::new(name, spec)
}

/// Applies a definition as controllers do when they start, and waits until it is established.
async fn install(client: &Client, definition: &CustomResourceDefinition) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply(MANAGER).force();
    definitions
        .patch(NAME, &parameters, &Patch::Apply(definition))
        .await
        .unwrap();
    let established = await_condition(definitions, NAME, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established)
        .await
        .expect("it is established in time")
        .unwrap();
}

/// Installs the definition that the types derive. Returns a client of its objects.
async fn bakeries(client: &Client) -> Api<Bakery> {
    install(client, &Bakery::crd()).await;
    Api::namespaced(client.clone(), "default")
}

/// Waits until something is the case.
async fn until(description: &str, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < PATIENCE, "{description} does not come");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
