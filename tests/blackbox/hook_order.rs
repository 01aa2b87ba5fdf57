//! Validating hooks come last: they see what will be stored or answered, and nothing that the
//! server refuses by itself (HK-1, HK-2, HK-15, HK-22).

use serde_json::{Value, json};

use crate::harness::hook_server::HookServer;
use crate::harness::{Call, Client, Daemon, body, configmap, deployment, pod_spec};

const SPACE: &str = "/api/v1/namespaces/default";

struct World {
    _daemon: Daemon,
    client: Client,
    hooks: HookServer,
}

impl World {
    /// Starts a daemon with a mutating webhook `m` and a validating webhook `v` for everything in
    /// namespaces, and for reviews.
    async fn start() -> World {
        let (daemon, hooks) = (Daemon::start().await, HookServer::start().await);
        let client = daemon.client();
        let everything = |scope: &str, groups: Value| {
            json!({"apiGroups": groups, "apiVersions": ["*"], "resources": ["*/*"],
                "operations": ["*"], "scope": scope})
        };
        for (name, kind) in [("m", "mutating"), ("v", "validating")] {
            let webhook = json!({
                "name": format!("{name}.example.com"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"caBundle": hooks.ca_bundle,
                    "url": format!("{}/admit/{name}", hooks.url())},
                "rules": [everything("Namespaced", json!(["", "apps"])),
                    everything("*", json!(["authorization.k8s.io", "authentication.k8s.io"]))],
            });
            let body = json!({"metadata": {"name": name}, "webhooks": [webhook]});
            let path = "/apis/admissionregistration.k8s.io/v1";
            let path = format!("{path}/{kind}webhookconfigurations");
            client.call(Call::post(&path, &body)).await.expect(201);
        }
        World {
            _daemon: daemon,
            client,
            hooks,
        }
    }

    /// Sends a request. Returns the status of its answer, and the names and reviews of the webhooks
    /// that were asked.
    async fn ask(&self, call: Call) -> (u16, Vec<(String, Value)>) {
        self.hooks.take();
        let answer = self.client.call(call).await;
        // The daemon writes Leases and EndpointSlices, which are not in these groups.
        (answer.status.as_u16(), self.hooks.take())
    }

    /// Asserts that only the mutating webhook is asked about a request that is refused.
    async fn refuses(&self, call: Call, code: u16) {
        let title = format!("{} {}", call.method, call.path);
        let (found, asked) = self.ask(call).await;
        let names: Vec<&str> = asked.iter().map(|(name, _)| &**name).collect();
        assert_eq!((found, &*names), (code, &["m"][..]), "{title}");
    }
}

#[tokio::test]
async fn validating_webhooks_see_no_invalid_creates_at_any_path_hk_1() {
    let world = World::start().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": pod_spec()});
    let pods = format!("{SPACE}/pods");
    world.client.call(Call::post(&pods, &pod)).await.expect(201);
    let accounts = format!("{SPACE}/serviceaccounts");
    let account = json!({"metadata": {"name": "a"}});
    world
        .client
        .call(Call::post(&accounts, &account))
        .await
        .expect(201);
    let post = |path: String, body: Value| Call::post(&path, &body);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let bind = |name: &str, kind: &str| json!({"metadata": {"name": name}, "target": {"kind": kind, "name": "n"}});
    let review = |kind: &str, spec: Value| {
        let group = match kind {
            "tokenreviews" => "authentication.k8s.io",
            _ => "authorization.k8s.io",
        };
        post(format!("/apis/{group}/v1/{kind}"), json!({"spec": spec}))
    };
    for (call, code) in [
        (post(format!("{pods}/a/binding"), bind("b", "Node")), 400),
        (post(format!("{pods}/a/binding"), bind("a", "Other")), 500),
        (post(format!("{SPACE}/bindings"), bind("a", "Other")), 500),
        (post(format!("{pods}/a/eviction"), named("b")), 400),
        (
            post(
                format!("{accounts}/a/token"),
                json!({"spec": {"expirationSeconds": 1}}),
            ),
            422,
        ),
        (post(format!("{accounts}/a/token"), named("b")), 422),
        (post(format!("{accounts}/none/token"), json!({})), 404),
        (review("tokenreviews", json!({})), 400),
        (review("selfsubjectaccessreviews", json!({})), 422),
        (review("subjectaccessreviews", json!({"user": "u"})), 422),
        (review("selfsubjectrulesreviews", json!({})), 400),
        (post(format!("{SPACE}/configmaps"), named("A")), 422),
    ] {
        world.refuses(call, code).await;
    }
}

#[tokio::test]
async fn validating_webhooks_see_what_is_answered_hk_1_hk_15() {
    let world = World::start().await;
    let accounts = format!("{SPACE}/serviceaccounts");
    let account = json!({"metadata": {"name": "a"}});
    let made = world
        .client
        .call(Call::post(&accounts, &account))
        .await
        .expect(201);
    let token = Call::post(&format!("{accounts}/a/token"), &json!({}));
    let (code, asked) = world.ask(token).await;
    assert_eq!(code, 201);
    let objects: Vec<&Value> = asked
        .iter()
        .map(|(_, review)| &review["request"]["object"])
        .collect();
    assert_eq!(objects[0]["metadata"].get("uid"), None);
    assert_eq!(objects[1]["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(objects[1]["metadata"]["name"], "a");
    assert!(objects[1]["spec"]["audiences"].is_array(), "{}", objects[1]);
}

#[tokio::test]
async fn an_eviction_is_asked_about_once_and_its_deletion_is_not_hk_15() {
    let world = World::start().await;
    let pods = format!("{SPACE}/pods");
    let pod = |name: &str, finalizers: Value| json!({"metadata": {"name": name, "finalizers": finalizers}, "spec": pod_spec()});
    for (name, finalizers) in [("a", json!([])), ("b", json!(["example.com/f"]))] {
        let made = Call::post(&pods, &pod(name, finalizers));
        world.client.call(made).await.expect(201);
        let dry = json!({"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}});
        for query in ["?dryRun=All", ""] {
            let call = Call::post(&format!("{pods}/{name}/eviction{query}"), &dry);
            let (code, asked) = world.ask(call).await;
            let shown: Vec<String> = asked
                .iter()
                .map(|(name, review)| {
                    let request = &review["request"];
                    let options = &request["object"]["deleteOptions"]["dryRun"];
                    format!(
                        "{name} {} {options}",
                        request["operation"].as_str().unwrap()
                    )
                })
                .collect();
            let dry_run = if query.is_empty() {
                "null"
            } else {
                "[\"All\"]"
            };
            let expected = ["m CREATE null".to_owned(), format!("v CREATE {dry_run}")];
            assert_eq!((code, &*shown), (201, &expected[..]));
        }
    }
    // The dry run of the options must be that of the request.
    let made = Call::post(&pods, &pod("c", json!([])));
    world.client.call(made).await.expect(201);
    let other = json!({"metadata": {"name": "c"}, "deleteOptions": {"dryRun": ["All", "All"]}});
    let call = Call::post(&format!("{pods}/c/eviction?dryRun=All"), &other);
    world.refuses(call, 400).await;
}

#[tokio::test]
async fn an_update_without_a_version_is_shown_the_one_that_it_is_based_on_hk_22() {
    let world = World::start().await;
    let at = configmap("a");
    let maps = format!("{SPACE}/configmaps");
    let made = world
        .client
        .call(Call::post(&maps, &body("a", "1")))
        .await
        .expect(201);
    let version = made["metadata"]["resourceVersion"].clone();
    let (code, asked) = world.ask(Call::put(&at, &body("a", "2"))).await;
    assert_eq!(code, 200);
    let versions: Vec<&Value> = asked
        .iter()
        .map(|(_, review)| &review["request"]["object"]["metadata"]["resourceVersion"])
        .collect();
    assert_eq!(versions, [&Value::Null, &version]);
}

#[tokio::test]
async fn a_scale_that_a_webhook_breaks_is_refused_as_a_scale_hk_27() {
    let world = World::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    world
        .client
        .call(Call::post(path, &deployment("a")))
        .await
        .expect(201);
    let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": -1}]);
    world.hooks.tell("m", json!({"patch": patch}));
    let scale = Call::merge_patch(
        &format!("{path}/a/scale"),
        &json!({"spec": {"replicas": 2}}),
    );
    let answer = world.client.call(scale).await;
    let status = answer.refusal(422, "Invalid");
    let text = "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be \
                greater than or equal to 0";
    assert_eq!(status["message"], text);
}
