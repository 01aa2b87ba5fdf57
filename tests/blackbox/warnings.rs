//! The warnings that writers get in `Warning` headers (http.md 3.2, 3.3, 8).

use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::{Call, Daemon, lacks_effect};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";

const HIDES: &str = "299 - \"spec.template.spec.containers[0].env[1]: hides previous definition of \
                     \\\"A\\\", which may be dropped when using apply\"";

fn deployment(replicas: u32) -> Value {
    let env = json!([{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "a" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": "i", "env": env }] },
            },
        },
    })
}

fn warnings(answer: &Answer) -> Vec<&str> {
    let headers = answer.headers.get_all("warning").iter();
    headers.map(|value| value.to_str().unwrap()).collect()
}

fn apply(path: &str, object: &Value) -> Call {
    let path = format!("{path}?fieldManager=m&force=true");
    Call::new("PATCH", &path).body("application/apply-patch+yaml", object.to_string())
}

/// API-94, API-103: every way to write the template warns, once, and what leaves the spec as it is
/// does not.
#[tokio::test]
async fn writers_of_templates_are_warned_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let dry = format!("{DEPLOYMENTS}?dryRun=All");
    let scale = format!("{DEPLOYMENT}/scale");
    let replicas = |number: u32| json!({ "spec": { "replicas": number } });
    for (call, status) in [
        (Call::post(&dry, &deployment(1)), 201),
        (Call::post(DEPLOYMENTS, &deployment(1)), 201),
        (Call::put(DEPLOYMENT, &deployment(2)), 200),
        (Call::merge_patch(DEPLOYMENT, &replicas(3)), 200),
        (Call::merge_patch(&scale, &replicas(4)), 200),
    ] {
        let answer = client.call(call).await;
        assert_eq!(warnings(&answer), [HIDES], "{}", answer.text());
        answer.expect(status);
    }

    let labels = json!({ "metadata": { "labels": { "x": "y" } } });
    let same = client.call(Call::merge_patch(DEPLOYMENT, &labels)).await;
    assert_eq!(warnings(&same), [""; 0]);
    same.expect(200);
    let status = json!({ "status": { "replicas": 1 } });
    let path = format!("{DEPLOYMENT}/status");
    let status = client.call(Call::merge_patch(&path, &status)).await;
    assert_eq!(warnings(&status), [""; 0]);
    status.expect(200);
    let refused = client.call(Call::merge_patch(
        &scale,
        &json!({ "spec": { "replicas": -1 } }),
    ));
    let refused = refused.await;
    assert_eq!(warnings(&refused), [""; 0]);
    refused.refusal(422, "Invalid");
}

/// API-94, API-103: an apply warns when it creates and when it changes.
#[tokio::test]
async fn who_applies_is_warned_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    // No list that is applied has two items with one key.
    let mut applied = deployment(1);
    applied["metadata"]["name"] = "a.b".into();
    let container = &mut applied["spec"]["template"]["spec"]["containers"][0];
    container["env"] = json!([]);
    container["resources"] = json!({ "limits": { "memory": "1500m" } });
    let name = "299 - \"metadata.name: this is used in Pod names and hostnames, which can result \
                in surprising behavior; a DNS label is recommended: [must not contain dots]\"";
    let fraction = "299 - \"spec.template.spec.containers[0].resources.limits[memory]: fractional \
                    byte value \\\"1500m\\\" is invalid, must be an integer\"";
    let path = format!("{DEPLOYMENTS}/a.b");
    let first = client.call(apply(&path, &applied)).await;
    assert_eq!(warnings(&first), [name, fraction], "{}", first.text());
    first.expect(201);
    applied["spec"]["replicas"] = 2.into();
    let second = client.call(apply(&path, &applied)).await;
    assert_eq!(warnings(&second), [fraction], "{}", second.text());
    second.expect(200);
}

/// Of a pod's profiles in annotations, who is refused is told too.
#[tokio::test]
async fn profiles_in_annotations_are_named_even_if_the_pod_is_refused_api_94() {
    let daemon = Daemon::start().await;
    let key = "container.apparmor.security.beta.kubernetes.io/c";
    let pod = json!({
        "metadata": { "name": "a.b", "annotations": { key: "unconfined" } },
        "spec": { "containers": [{ "name": "c" }] },
    });
    let pods = "/api/v1/namespaces/default/pods";
    let refused = daemon.client().call(Call::post(pods, &pod)).await;
    let expected = format!(
        "299 - \"metadata.annotations[{key}]: deprecated since v1.30; use the \
         \\\"appArmorProfile\\\" field instead\""
    );
    assert_eq!(warnings(&refused), [expected]);
    refused.refusal(422, "Invalid");
}

/// A1: who relies on a protection that is not there is told, by every way to create.
#[tokio::test]
async fn objects_that_have_no_effect_yet_are_warned_of_and_logged_once_for_each_kind() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let kinds = [
        (
            flow,
            "flowschemas",
            "FlowSchema",
            json!({ "spec": {
            "priorityLevelConfiguration": { "name": "exempt" } } }),
        ),
        (
            flow,
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            json!({ "spec": {
            "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } } }),
        ),
    ];
    let told = |answer: &Answer| {
        let all = warnings(answer);
        all.into_iter().filter(|text| lacks_effect(text)).count()
    };
    for (path, plural, kind, rest) in &kinds {
        let mut object = json!({
            "apiVersion": path.trim_start_matches("/apis/"), "kind": kind, "metadata": { "name": "a" },
        });
        object
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        let collection = format!("{path}/{plural}");
        let created = client.call(Call::post(&collection, &object)).await;
        assert_eq!(told(&created), 1, "{kind}: {}", created.text());
        let created = created.expect(201);
        assert!(
            created["status"]["conditions"]
                .as_array()
                .is_none_or(Vec::is_empty),
            "{created}"
        );
        // A change of one that is there says nothing new.
        let name = created["metadata"]["name"].as_str().unwrap();
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let at = format!("{collection}/{name}");
        let changed = client.call(Call::merge_patch(&at, &label)).await;
        assert_eq!(told(&changed), 0, "{kind}");
        changed.expect(200);
        client.call(Call::delete(&at)).await;
        let applied = client.call(apply(&at, &object)).await;
        assert_eq!(told(&applied), 1, "{kind}: {}", applied.text());
    }
    let log = daemon.stderr();
    let lines = log
        .lines()
        .filter(|line| line.contains("have no effect yet"));
    assert_eq!(lines.count(), kinds.len(), "{log}");
    // An APIService has its effect, local or not, and so has everything else.
    let mut service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": "v2.example.com" }, "spec": { "group": "example.com", "version": "v2",
            "groupPriorityMinimum": 1, "versionPriority": 1 },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    for of in [json!(null), json!({ "namespace": "default", "name": "a" })] {
        service["spec"]["service"] = of;
        let created = client.call(Call::post(path, &service)).await;
        assert_eq!(told(&created), 0, "{}", created.text());
        created.expect(201);
        let at = format!("{path}/v2.example.com");
        client.call(Call::delete(&at)).await.expect(200);
    }
}

/// A selector of a port by its name gets the first one, so each later one of that name is told of,
/// behind what is said of the ports themselves: in pods and templates, init containers first.
#[tokio::test]
async fn ports_of_the_same_name_are_told_of_in_pods_and_templates() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let port = |number: u32| json!([{ "containerPort": number, "name": "web" }]);
    let spec = json!({
        "restartPolicy": "Always",
        "initContainers": [{ "name": "i", "image": "i", "ports": port(80) }],
        "containers": [
            { "name": "a", "image": "i", "ports": port(80) },
            { "name": "b", "image": "i", "ports": port(81) },
        ],
    });
    let labels = json!({ "a": "b" });
    let template = json!({ "metadata": { "labels": labels }, "spec": spec });
    let mut of_job = template.clone();
    of_job["spec"]["restartPolicy"] = "Never".into();
    let selecting = json!({ "selector": { "matchLabels": labels }, "template": template });
    let jobs =
        json!({ "schedule": "* * * * *", "jobTemplate": { "spec": { "template": of_job } } });
    let metadata = json!({ "name": "a" });
    for (path, body, prefix) in [
        (
            "/api/v1/namespaces/default/pods",
            json!({ "metadata": metadata, "spec": spec }),
            "spec",
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({ "metadata": metadata, "spec": selecting }),
            "spec.template.spec",
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({ "metadata": metadata, "spec": jobs }),
            "spec.jobTemplate.spec.template.spec",
        ),
        (
            "/api/v1/namespaces/default/podtemplates",
            json!({ "metadata": metadata, "template": template }),
            "template.spec",
        ),
    ] {
        let answer = client.call(Call::post(path, &body)).await;
        let first = format!("{prefix}.initContainers[0].ports[0]");
        let name = |place: u32| {
            format!(
                "299 - \"{prefix}.containers[{place}].ports[0]: duplicate port name \\\"web\\\" with \
                 {first}, services and probes that select ports by name will use {first}\""
            )
        };
        let definition = format!(
            "299 - \"{prefix}.containers[0].ports[0]: duplicate port definition with {first}\""
        );
        assert_eq!(
            warnings(&answer),
            [definition, name(0), name(1)],
            "{path}: {}",
            answer.text()
        );
        answer.expect(201);
    }
}
