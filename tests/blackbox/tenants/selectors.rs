//! Rights to named objects, and the ways to ask for more than those.

use serde_json::{Value, json};

use super::{Cluster, RBAC};
use crate::harness::{Call, Client, body};

const PATH: &str = "/api/v1/namespaces/own/configmaps";

/// Gives the user without rights some verbs on config maps of these names.
async fn granted(cluster: &Cluster, verbs: &[&str], names: &[&str]) {
    let role = json!({
        "metadata": {"name": "named"},
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs, "resourceNames": names,
        }],
    });
    let binding = json!({
        "metadata": {"name": "named"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "named"},
        "subjects": [{"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    for (resource, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("{RBAC}/namespaces/own/{resource}");
        cluster
            .admin
            .call(Call::post(&path, &object))
            .await
            .expect(201);
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

async fn list(client: &Client, query: &str) -> Option<Value> {
    let answer = client.call(Call::get(&format!("{PATH}?{query}"))).await;
    match answer.status.as_u16() {
        200 => Some(answer.json()),
        _ => None,
    }
}

#[tokio::test]
async fn a_right_to_a_name_lists_nothing_but_that_name_ac_32() {
    let cluster = Cluster::start(&[]).await;
    let verbs = [
        "get",
        "list",
        "watch",
        "deletecollection",
        "create",
        "update",
        "patch",
    ];
    granted(&cluster, &verbs, &["c"]).await;
    let call = Call::post(PATH, &body("hidden", "1"));
    cluster.admin.call(call).await.expect(201);
    let nobody = &cluster.nobody;
    for query in [
        "fieldSelector=metadata.name%3Dc",
        "fieldSelector=metadata.name%3D%3Dc",
        "fieldSelector=metadata.name%3Dc,metadata.namespace%3Down",
        "fieldSelector=metadata.name%3Dc&limit=1",
        "fieldSelector=metadata.name%3Dc&labelSelector=%21x",
    ] {
        let shown = list(nobody, query).await;
        let shown = shown.unwrap_or_else(|| panic!("{query} is refused"));
        assert_eq!(names(&shown), ["c"], "{query}");
    }
    for query in [
        "",
        "fieldSelector=",
        "fieldSelector=metadata.name%3Dhidden",
        "fieldSelector=metadata.name%21%3Dc",
        "fieldSelector=metadata.name%3Dc&fieldSelector=",
        "fieldSelector=metadata.name%3Dhidden&fieldSelector=metadata.name%3Dc",
        "fieldSelector=&fieldSelector=metadata.name%3Dc",
        "fieldSelector=metadata.name%3Dc&fieldSelector=metadata.name%3Dhidden",
        "fieldSelector=metadata.name%3Dhidden,metadata.name%3Dc",
        "fieldSelector=metadata.name%3Dc,metadata.name%3Dhidden",
        "fieldSelector=metadata.namespace%3Down",
        "fieldSelector=METADATA.NAME%3Dc",
        "FieldSelector=metadata.name%3Dc",
        "fieldselector=metadata.name%3Dc",
        "labelSelector=metadata.name%3Dc",
        "name=c",
        "fieldSelector=metadata.name%3Dc&limit=x",
        "fieldSelector=metadata.name%3D%2A",
        "fieldSelector=metadata.name%3D",
        "fieldSelector=metadata.name%3Dc%00",
    ] {
        for watch in ["", "&watch=true&timeoutSeconds=1"] {
            let call = Call::get(&format!("{PATH}?{query}{watch}"));
            let answer = nobody.call(call).await;
            let text = answer.text();
            assert!(
                !text.contains("hidden\",\"namespace"),
                "{query}{watch}: {text}"
            );
            assert!(
                !text.contains("\"uid\"") || !text.contains("hidden"),
                "{query}: {text}"
            );
        }
    }
    // A collection has no name, whatever the selector says.
    for query in ["", "?fieldSelector=metadata.name%3Dc", "?dryRun=All"] {
        nobody
            .call(Call::delete(&format!("{PATH}{query}")))
            .await
            .expect(403);
    }
    // A create has no name either.
    for object in [body("c", "1"), json!({"metadata": {"generateName": "c"}})] {
        nobody.call(Call::post(PATH, &object)).await.expect(403);
    }
    let hidden = format!("{PATH}/hidden");
    cluster.admin.call(Call::get(&hidden)).await.expect(200);
}

/// A user who may only change objects creates none.
#[tokio::test]
async fn a_right_to_update_creates_nothing_ac_31() {
    let cluster = Cluster::start(&[]).await;
    granted(&cluster, &["get", "update", "patch"], &[]).await;
    let path = format!("{PATH}/absent");
    let mut object = body("absent", "1");
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    for (call, code) in [
        // A PUT makes no config map, whoever sends it.
        (Call::put(&path, &object), 404),
        (Call::put(&format!("{path}?dryRun=All"), &object), 404),
        (
            Call::new("PATCH", &format!("{path}?fieldManager=m"))
                .body("application/apply-patch+yaml", object.to_string()),
            403,
        ),
        (Call::merge_patch(&path, &object), 404),
        (Call::get(&path), 404),
    ] {
        let answer = cluster.nobody.call(call).await;
        assert_eq!(answer.status.as_u16(), code, "{}", answer.text());
    }
    cluster.admin.call(Call::get(&path)).await.expect(404);
}

/// The rules that a review shows are those of the user who asks, in the namespace and the cluster.
#[tokio::test]
async fn a_review_of_ones_own_rules_shows_nothing_of_others_ac_70() {
    let cluster = Cluster::start(&[]).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let shown = async |client: &Client, namespace: &str| {
        let spec = json!({"spec": {"namespace": namespace}});
        let review = client.call(Call::post(path, &spec)).await.expect(201);
        review["status"]["resourceRules"].to_string()
    };
    let of_everybody = shown(&cluster.nobody, "own").await;
    assert!(!of_everybody.contains("\"secrets\""), "{of_everybody}");
    assert_eq!(shown(&cluster.nobody, "other").await, of_everybody);
    assert_eq!(shown(&cluster.tenant, "other").await, of_everybody);
    assert!(shown(&cluster.tenant, "own").await.contains("\"secrets\""));
}
