//! Clients of kube-rs for custom resources: typed, dynamic and of metadata.

use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::crd::merge_crds;
use kube::core::{CustomResourceExt, Status};
use kube::discovery::Scope;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::super::over_each;
use super::{Bakery, BakeryStatus, Flour, MANAGER, Shelf, bakeries, bakery, install, until};
use crate::harness::Daemon;
use crate::kube_rs::{client, refusal};

/// The same kind in another version: its type has one field more.
mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// The spec of a Bakery in its second version.
    #[derive(CustomResource, JsonSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
    #[kube(
        group = "example.com",
        version = "v2",
        kind = "Bakery",
        plural = "bakeries",
        shortname = "bk",
        category = "shops",
        namespaced,
        derive = "PartialEq"
    )]
    pub struct BakerySpec {
        pub flour: String,
        #[serde(default = "yes")]
        pub open: bool,
    }

    fn yes() -> bool {
        true
    }
}

async fn create(api: &Api<Bakery>, name: &str, flour: Flour) -> Bakery {
    let made = bakery(name, flour, 2);
    api.create(&PostParams::default(), &made).await.unwrap()
}

/// The messages of the causes of a refusal.
fn causes(status: &Status) -> Vec<(String, String)> {
    let details = status.details.as_ref().unwrap();
    let causes = details.causes.iter();
    causes
        .map(|cause| (cause.field.clone(), cause.message.clone()))
        .collect()
}

/// CRD-83, CRD-86, CRD-185, CRD-186, CRD-198: objects, patches, dry runs, status, selectors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_client_works_on_a_derived_kind_crd_83_crd_86_crd_185() {
    over_each(async |daemon: &Daemon| {
        let client = client(daemon).await;
        let api = bakeries(&client).await;
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let made = bakery("a", Flour::Rye, 2);
        let shown = api.create(&dry, &made).await.unwrap();
        assert!(shown.uid().is_some());
        assert!(api.get_opt("a").await.unwrap().is_none());
        let created = create(&api, "a", Flour::Rye).await;
        assert_eq!(created.metadata.generation, Some(1));
        assert_eq!(api.get("a").await.unwrap(), created);
        let mut stale = created.clone();
        stale.spec.loaves = 3;
        let replaced = api.replace("a", &PostParams::default(), &stale).await;
        assert_eq!(replaced.unwrap().metadata.generation, Some(2));
        let lost = refusal(api.replace("a", &PostParams::default(), &stale).await);
        assert!(lost.is_conflict(), "{lost:?}");
        patches(&api).await;
        status(&api).await;
        let wheat = create(&api, "b", Flour::Wheat).await;
        let fields = ListParams::default().fields("spec.flour=Wheat");
        let list = api.list(&fields).await.unwrap();
        assert_eq!(list.items, std::slice::from_ref(&wheat));
        let metadata = api.get_metadata("b").await.unwrap();
        assert_eq!(metadata.metadata, wheat.metadata);
        let metadata = api.list_metadata(&ListParams::default()).await.unwrap();
        assert_eq!(metadata.items.len(), 2);
        let another = DeleteParams::default().preconditions(Preconditions {
            uid: Some("another".to_owned()),
            resource_version: None,
        });
        assert!(refusal(api.delete("b", &another).await).is_conflict());
        let all = ListParams::default();
        let parameters = DeleteParams::default();
        api.delete_collection(&parameters, &all).await.unwrap();
        until("the end of all", async || {
            api.list(&all).await.unwrap().items.is_empty()
        })
        .await;
    })
    .await;
}

/// Merge and JSON patches change custom objects. Strategic ones are refused.
async fn patches(api: &Api<Bakery>) {
    let parameters = PatchParams::default();
    let merge = Patch::Merge(json!({"spec": {"shelves": [{"name": "x"}]}}));
    let patched = api.patch("a", &parameters, &merge).await.unwrap();
    let shelf = |name: &str, width| Shelf {
        name: name.to_owned(),
        width,
    };
    assert_eq!(patched.spec.shelves, [shelf("x", None)]);
    let operations = json!([{"op": "add", "path": "/spec/shelves/0/width", "value": 7}]);
    let operations: Patch<Bakery> = Patch::Json(serde_json::from_value(operations).unwrap());
    let patched = api.patch("a", &parameters, &operations).await.unwrap();
    assert_eq!(patched.spec.shelves, [shelf("x", Some(7))]);
    let strategic = Patch::Strategic(json!({"spec": {"loaves": 1}}));
    let refused = refusal(api.patch("a", &parameters, &strategic).await);
    assert_eq!(refused.code, 415, "{refused:?}");
}

/// The status is written by its subresource alone.
async fn status(api: &Api<Bakery>) {
    let mut held = api.get("a").await.unwrap();
    held.status = Some(BakeryStatus {
        loaves: 9,
        ..BakeryStatus::default()
    });
    let parameters = PostParams::default();
    let ignored = api.replace("a", &parameters, &held).await.unwrap();
    assert_eq!(ignored.status, None);
    held.spec.loaves = 1;
    let written = api.replace_status("a", &parameters, &held).await.unwrap();
    assert_eq!(written.status, held.status);
    assert_eq!(written.spec, ignored.spec);
    assert_eq!(written.metadata.generation, ignored.metadata.generation);
    let merge = Patch::Merge(json!({"status": {"selector": "a=b"}}));
    let parameters = PatchParams::default();
    let patched = api.patch_status("a", &parameters, &merge).await.unwrap();
    assert_eq!(patched.status.unwrap().selector.unwrap(), "a=b");
    let shown = api.get_status("a").await.unwrap();
    assert_eq!(shown.status.unwrap().loaves, 9);
}

/// CRD-152, CRD-156, CRD-170: bounds, enumerations and rules of the derived schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_a_derived_schema_hold_crd_152_crd_156() {
    over_each(async |daemon: &Daemon| {
        let client = client(daemon).await;
        let api = bakeries(&client).await;
        let parameters = PostParams::default();
        let many = bakery("a", Flour::Rye, 21);
        let refused = refusal(api.create(&parameters, &many).await);
        assert_eq!(refused.code, 422);
        let expected = "Invalid value: 21: spec.loaves in body should be less than or equal to 20";
        let found = causes(&refused);
        assert_eq!(found, [("spec.loaves".to_owned(), expected.to_owned())]);
        let brewery = bakery("brewery", Flour::Rye, 1);
        let refused = refusal(api.create(&parameters, &brewery).await);
        let found = causes(&refused);
        assert_eq!(found.len(), 1, "{refused:?}");
        assert!(found[0].1.ends_with("a bakery brews nothing"), "{found:?}");
        create(&api, "a", Flour::Rye).await;
        let other = Patch::Merge(json!({"spec": {"flour": "Wheat"}}));
        let refused = refusal(api.patch("a", &PatchParams::default(), &other).await);
        let found = causes(&refused);
        assert_eq!(found.len(), 1, "{refused:?}");
        assert_eq!(found[0].0, "spec.flour");
        assert!(found[0].1.ends_with("its flour stays"), "{found:?}");
        let unknown = Patch::Merge(json!({"spec": {"flour": "Oat"}}));
        let refused = refusal(api.patch("a", &PatchParams::default(), &unknown).await);
        assert!(
            refused
                .message
                .contains("supported values: \"Rye\", \"Wheat\""),
            "{refused:?}"
        );
        // Unknown fields are refused where a writer wants that, and dropped elsewhere.
        let apply = json!({
            "apiVersion": "example.com/v1", "kind": "Bakery", "spec": {"flour": "Rye", "oven": 1},
        });
        let strict = PatchParams::apply(MANAGER).validation_strict();
        let refused = refusal(api.patch("a", &strict, &Patch::Apply(&apply)).await);
        assert_eq!(refused.code, 500, "{refused:?}");
        assert!(refused.message.contains("oven"), "{refused:?}");
    })
    .await;
}

/// CRD-220, CRD-221: appliers share a list by the keys of its items, conflict, and force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appliers_share_a_derived_kind_crd_220_crd_221() {
    over_each(async |daemon: &Daemon| {
        let client = client(daemon).await;
        let api = bakeries(&client).await;
        let with = |shelf: &str, loaves: i32| {
            Patch::Apply(json!({
                "apiVersion": "example.com/v1", "kind": "Bakery", "metadata": {"name": "a"},
                "spec": {"flour": "Rye", "loaves": loaves, "shelves": [{"name": shelf}]},
            }))
        };
        let one = PatchParams::apply("one");
        api.patch("a", &one, &with("left", 2)).await.unwrap();
        let two = PatchParams::apply("two");
        let shared = api.patch("a", &two, &with("right", 2)).await.unwrap();
        let names = |bakery: &Bakery| -> Vec<String> {
            let shelves = bakery.spec.shelves.iter();
            shelves.map(|shelf| shelf.name.clone()).collect()
        };
        assert_eq!(names(&shared), ["left", "right"]);
        let refused = refusal(api.patch("a", &two, &with("right", 3)).await);
        assert!(refused.is_conflict());
        let expected = "conflict with \"one\"".to_owned();
        assert_eq!(causes(&refused), [(".spec.loaves".to_owned(), expected)]);
        let force = PatchParams::apply("two").force();
        let forced = api.patch("a", &force, &with("right", 3)).await.unwrap();
        assert_eq!(forced.spec.loaves, 3);
        let none = Patch::Apply(json!({
            "apiVersion": "example.com/v1", "kind": "Bakery", "spec": {"flour": "Rye"},
        }));
        let pruned = api.patch("a", &one, &none).await.unwrap();
        assert_eq!(names(&pruned), ["right"]);
        assert_eq!(pruned.spec.loaves, 3);
        // Applied again it writes nothing.
        let again = api.patch("a", &one, &none).await.unwrap();
        assert_eq!(again.resource_version(), pruned.resource_version());
    })
    .await;
}

/// CRD-100, CRD-101, CRD-205: discovery finds a kind, and one object is shown in two versions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_found_and_read_by_types_of_their_own_crd_100_crd_205() {
    over_each(async |daemon: &Daemon| {
        let client = client(daemon).await;
        let definitions = vec![Bakery::crd(), v2::Bakery::crd()];
        install(&client, &merge_crds(definitions, "v1").unwrap()).await;
        let group = kube::discovery::group(&client, "example.com")
            .await
            .unwrap();
        // Two versions of the same kind: the newest comes first.
        assert_eq!(group.preferred_version_or_latest(), "v2");
        let (resource, capabilities) = group
            .versioned_resources("v1")
            .into_iter()
            .find(|(resource, _)| resource.kind == "Bakery")
            .unwrap();
        assert_eq!(capabilities.scope, Scope::Namespaced);
        let subresources: Vec<&str> = capabilities
            .subresources
            .iter()
            .map(|(subresource, _)| subresource.plural.as_str())
            .collect();
        assert_eq!(subresources, ["status", "scale"]);
        let dynamic: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), "default", &resource);
        let mut made = DynamicObject::new("a", &resource);
        made.data = json!({"spec": {"flour": "Rye"}});
        let created = dynamic.create(&PostParams::default(), &made).await.unwrap();
        assert_eq!(created.data["spec"], json!({"flour": "Rye", "loaves": 1}));
        let one: Api<Bakery> = Api::default_namespaced(client.clone());
        assert_eq!(one.get("a").await.unwrap().spec.loaves, 1);
        let two: Api<v2::Bakery> = Api::default_namespaced(client.clone());
        let mut second = two.get("a").await.unwrap();
        assert!(second.spec.open);
        assert_eq!(second.uid(), created.uid());
        second.labels_mut().insert("a".to_owned(), "b".to_owned());
        let parameters = PostParams::default();
        two.replace("a", &parameters, &second).await.unwrap();
        let first = one.get("a").await.unwrap();
        assert_eq!(first.labels()["a"], "b");
    })
    .await;
}
