//! The reach of tenants in other namespaces and in the cluster, by every path and every encoding.

use serde_json::{Value, json};

use super::{Cluster, SECRET};
use crate::harness::{Call, Client, Protocol};

/// The resources that every authenticated user may create: they say who asks and what one may do.
const OF_EVERYBODY: [&str; 3] = [
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
];

const ENCODINGS: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
];

/// Returns the paths of all resources and subresources outside the tenant's namespace.
async fn paths(client: &Client) -> Vec<(String, bool)> {
    let groups = client.call(Call::get("/apis")).await.expect(200);
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.flat_map(|group| group["versions"].as_array().unwrap());
    let versions =
        versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
    let mut paths = Vec::new();
    for version in std::iter::once("/api/v1".to_owned()).chain(versions) {
        let list = client.call(Call::get(&version)).await.expect(200);
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if OF_EVERYBODY.contains(&name) {
                continue;
            }
            let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
            let (subresource, is_whole) = match subresource {
                "" => (String::new(), true),
                subresource => (format!("/{subresource}"), false),
            };
            let collection = match resource["namespaced"] == true {
                true => format!("{version}/namespaces/other/{plural}"),
                false => format!("{version}/{plural}"),
            };
            if is_whole {
                paths.push((format!("{version}/{plural}"), true));
                paths.push((collection.clone(), true));
            }
            paths.push((format!("{collection}/c{subresource}"), false));
        }
    }
    paths.sort();
    paths.dedup();
    paths
}

/// Every verb on every resource, with and without a dry run.
#[tokio::test]
async fn tenants_reach_nothing_of_others_by_any_verb_ac_30() {
    let cluster = Cluster::start(&[]).await;
    let before = cluster.stored().await;
    let paths = paths(&cluster.admin).await;
    assert!(paths.len() > 200, "{}", paths.len());
    for client in [&cluster.tenant, &cluster.nobody] {
        for (path, is_collection) in &paths {
            let body = json!({"metadata": {"name": "c"}});
            let calls = [
                Call::get(path),
                Call::get(&format!("{path}?watch=true&timeoutSeconds=1")),
                Call::post(path, &body),
                Call::post(&format!("{path}?dryRun=All"), &body),
                Call::put(&format!("{path}?fieldManager=m"), &body),
                Call::merge_patch(&format!("{path}?dryRun=All"), &body),
                Call::new("PATCH", &format!("{path}?fieldManager=m&force=true"))
                    .body("application/apply-patch+yaml", body.to_string()),
                Call::delete(&format!("{path}?labelSelector=a%3Db")),
            ];
            for (number, call) in calls.into_iter().enumerate() {
                let answer = client.call(call).await;
                let text = answer.text();
                assert!(
                    answer.status == 403,
                    "{path} {number} {is_collection}: {} {text}",
                    answer.status
                );
                assert!(!text.contains(SECRET));
            }
        }
    }
    assert_eq!(cluster.stored().await, before);
}

/// Returns paths that might be taken for a path of the tenant's by some code, and for the one of
/// the other namespace by other code.
fn tricks() -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api/v1/namespaces/own/secrets/../../other/secrets/s",
        "/api/v1/namespaces/own/../other/secrets/s",
        "/api/v1/namespaces/own/%2e%2e/other/secrets/s",
        "/api/v1/namespaces/own%2f..%2fother/secrets/s",
        "/api/v1/namespaces/own%2fsecrets%2f..%2f..%2fother%2fsecrets/s",
        "/api/v1/namespaces/other%2fsecrets/s",
        "/api/v1/namespaces/other%2fsecrets%2fs",
        "/api/v1/namespaces/%6fther/secrets/s",
        "/api/v1/namespaces/own/secrets/%2e%2e%2f%2e%2e%2fother%2fsecrets%2fs",
        "/api/v1/namespaces/own/secrets/s%00/../../../other/secrets/s",
        "/api/v1/namespaces/own//secrets/..//../other/secrets/s",
        "/api/v1/namespaces//other/secrets/s",
        "//api/v1/namespaces/other/secrets/s",
        "/api//v1/namespaces/other/secrets/s",
        "/./api/v1/namespaces/other/secrets/s",
        "/api/v1/./namespaces/other/secrets/s",
        "/api/v1/namespaces/other/secrets/s/",
        "/api/v1/namespaces/other/secrets/s/.",
        "/api/v1/namespaces/other/secrets//s",
        "/api/v1/namespaces/other/secrets/s?namespace=own",
        "/api/v1/namespaces/other/secrets?fieldSelector=metadata.namespace%3Down",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Down",
        "/api/v1/secrets?fieldSelector=metadata.name%3Ds",
        "/api/v1/secrets/s",
        "/api/v1/secrets?namespace=own",
        "/api/v1/watch/secrets",
        "/api/v1/watch/namespaces/other/secrets",
        "/api/v1/watch/namespaces/other/secrets/s",
        "/api/v1/watch/namespaces/own/../other/secrets",
        "/api/v1/namespaces/other/secrets/s/status",
        "/API/v1/namespaces/other/secrets/s",
        "/api/V1/namespaces/other/secrets/s",
        "/api/v1/Namespaces/other/secrets/s",
        "/api/v1/namespaces/OTHER/secrets/s",
        "/api/v1/namespaces/other/SECRETS/s",
        "/api/v1/namespaces/other/secret/s",
        "/apis//v1/namespaces/other/secrets/s",
        "/apis/v1/namespaces/other/secrets/s",
        "/apis/core/v1/namespaces/other/secrets/s",
        "/api/v1/namespaces/own%00/secrets/s",
        "/api/v1/namespaces/other%20/secrets/s",
        "/api/v1/proxy/namespaces/other/secrets/s",
        "/taffrail/v1/history/api/v1/namespaces/other/secrets/s",
        "/taffrail/v1/history/api/v1/namespaces/own/secrets/s",
        "/taffrail/v1/history/../../api/v1/namespaces/other/secrets/s",
        "/taffrail/v1/backup",
        "/taffrail/v1/inspect",
        "/taffrail/v1/revision",
        "/taffrail/v1/storage/rewrite",
        "/metrics",
        "/statusz",
        "/flagz",
        "/readyz/storage-integrity",
        "/healthz/../metrics",
        "/version/../metrics",
        "/openapi/v2/../../metrics",
        "/healthz/%2e%2e/metrics",
        "/healthz%2f..%2fmetrics",
        "/debug/pprof/",
        "/logs/",
    ]
    .map(ToOwned::to_owned)
    .into();
    paths.push(format!(
        "/api/v1/namespaces/other/secrets/s?{}",
        "a=b&".repeat(8_000)
    ));
    paths.push(format!(
        "/api/v1/namespaces/own/secrets/{}/other/secrets/s",
        "../".repeat(8_000)
    ));
    paths.push(format!(
        "/{}api/v1/namespaces/other/secrets/s",
        "/".repeat(8_000)
    ));
    paths
}

#[tokio::test]
async fn no_odd_path_shows_an_object_of_others_ac_30() {
    let cluster = Cluster::start(&[]).await;
    let before = cluster.stored().await;
    let target = cluster.daemon.target();
    let tenant = cluster.tenant_target();
    let nobody = target.with_token("t-nobody");
    for target in [&tenant, &nobody] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let client = target.client_over(protocol);
            for path in tricks() {
                let shown: String = path.chars().take(80).collect();
                for method in ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "SECRETS"] {
                    let Ok(answer) = client.attempt(Call::new(method, &path)).await else {
                        continue;
                    };
                    let code = answer.status.as_u16();
                    assert!(
                        (400..500).contains(&code) || is_unknown(&path, code),
                        "{method} {shown}: {code} {}",
                        answer.text()
                    );
                    assert!(!answer.text().contains(SECRET), "{method} {shown}");
                }
            }
        }
    }
    assert_eq!(cluster.stored().await, before);
}

/// Whether kube-apiserver too answers a path with 500 because it names no resource (API-3).
fn is_unknown(path: &str, code: u16) -> bool {
    code == 500 && (path.contains("/watch/") || path.contains("/proxy/"))
}

#[tokio::test]
async fn no_encoding_shows_an_object_of_others_ac_30() {
    let cluster = Cluster::start(&[]).await;
    for client in [&cluster.tenant, &cluster.nobody] {
        for accept in ENCODINGS {
            for path in [
                "/api/v1/namespaces/other/secrets",
                "/api/v1/namespaces/other/secrets/s",
                "/api/v1/secrets",
                "/api/v1/secrets?watch=1&timeoutSeconds=1",
                "/api/v1/secrets?limit=1",
                "/api/v1/secrets?resourceVersion=1&resourceVersionMatch=Exact",
                "/api/v1/namespaces/other/secrets?includeObject=Object",
            ] {
                let call = Call::get(path).header("accept", accept);
                let answer = client.call(call).await;
                assert_eq!(answer.status, 403, "{path} {accept}");
                let text = answer.text();
                assert!(!text.contains(SECRET) && !text.contains("top-secret"));
            }
        }
    }
}

/// The namespace of an object in a body is that of the path, or it is refused.
#[tokio::test]
async fn an_object_lands_in_the_namespace_of_its_path_alone_api_7() {
    let cluster = Cluster::start(&[]).await;
    let before = cluster.stored().await;
    let path = "/api/v1/namespaces/own/configmaps";
    let other = json!({"metadata": {"name": "x", "namespace": "other"}});
    let named = format!("{path}/x");
    for call in [
        Call::post(path, &other),
        Call::put(&named, &other),
        Call::new("PATCH", &format!("{named}?fieldManager=m"))
            .body("application/apply-patch+yaml", other.to_string()),
        Call::post(
            path,
            &json!({"metadata": {"name": "../../other/configmaps/x"}}),
        ),
        Call::post(
            path,
            &json!({"metadata": {"name": "x", "namespace": "own/../other"}}),
        ),
        Call::merge_patch(
            "/api/v1/namespaces/own/configmaps/c",
            &json!({"metadata": {"namespace": "other"}}),
        ),
    ] {
        let answer = cluster.tenant.call(call).await;
        let code = answer.status.as_u16();
        assert!(matches!(code, 400 | 422), "{code}: {}", answer.text());
    }
    // An event about an object is in the namespace of that object.
    let event = json!({
        "metadata": {"name": "e"}, "reason": "r",
        "involvedObject": {"kind": "Pod", "namespace": "other", "name": "p"},
    });
    let events = "/api/v1/namespaces/own/events";
    let answer = cluster.tenant.call(Call::post(events, &event)).await;
    assert!(
        matches!(answer.status.as_u16(), 403 | 422),
        "{}",
        answer.text()
    );
    assert_eq!(cluster.stored().await, before);
}

/// A continue token of another collection shows only objects that the reader may list.
#[tokio::test]
async fn a_continue_token_of_somebody_else_opens_nothing_api_87() {
    let cluster = Cluster::start(&[]).await;
    let secrets = "/api/v1/namespaces/own/secrets";
    let call = Call::get("/api/v1/secrets?limit=1");
    let page = cluster.admin.call(call).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let call = Call::get(&format!("{secrets}?limit=500&continue={token}"));
    let answer = cluster.tenant.call(call).await;
    assert!(!answer.text().contains(SECRET), "{}", answer.text());
    if answer.status == 200 {
        let items = answer.json()["items"].take();
        let of_others = |item: &Value| item["metadata"]["namespace"] != "own";
        assert!(!items.as_array().unwrap().iter().any(of_others), "{items}");
    }
}
