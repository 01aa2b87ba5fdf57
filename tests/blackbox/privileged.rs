//! Privileged containers (D-37).

use serde_json::{Value, json};

use crate::harness::{Call, Daemon};

const POLICY: &str = "disallowed by cluster policy";

fn container(name: &str) -> Value {
    json!({"name": name, "image": "a", "securityContext": {"privileged": true}})
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [container("c")], "restartPolicy": "Always"},
    })
}

fn job() -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({ "template": template })
}

/// Each kind with containers, and where a privileged one stands in it.
fn kinds() -> Vec<(&'static str, Value, &'static str)> {
    let selector = json!({"matchLabels": {"a": "b"}});
    let of = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let workload = |more: &[(&str, Value)]| {
        let mut spec = json!({"selector": selector, "template": template()});
        for (name, value) in more {
            spec[*name] = value.clone();
        }
        of(spec)
    };
    let at = "spec.template.spec.containers[0].securityContext.privileged";
    let plain = json!([{"name": "p", "image": "a"}]);
    vec![
        (
            "/api/v1/namespaces/default/pods",
            of(json!({"containers": [container("c")]})),
            "spec.containers[0].securityContext.privileged",
        ),
        (
            "/api/v1/namespaces/default/pods",
            of(json!({"containers": plain, "initContainers": [container("c")]})),
            "spec.initContainers[0].securityContext.privileged",
        ),
        (
            "/api/v1/namespaces/default/podtemplates",
            json!({"metadata": {"name": "a"}, "template": template()}),
            "template.spec.containers[0].securityContext.privileged",
        ),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            of(json!({"selector": {"a": "b"}, "template": template()})),
            at,
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            workload(&[]),
            at,
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            workload(&[]),
            at,
        ),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            workload(&[]),
            at,
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            workload(&[("serviceName", json!("s"))]),
            at,
        ),
        ("/apis/batch/v1/namespaces/default/jobs", of(job()), at),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            of(json!({"schedule": "* * * * *", "jobTemplate": {"spec": job()}})),
            "spec.jobTemplate.spec.template.spec.containers[0].securityContext.privileged",
        ),
    ]
}

#[tokio::test]
async fn containers_are_refused_in_every_kind_that_has_them_if_the_flag_says_so() {
    for (flags, is_allowed) in [
        (&[][..], true),
        (&["--allow-privileged"], true),
        (&["--allow-privileged=false"], false),
    ] {
        let daemon = Daemon::with(flags).await;
        daemon.ready().await;
        let client = daemon.client();
        for (path, object, field) in kinds() {
            let dry = format!("{path}?dryRun=All");
            let answer = client.call(Call::post(&dry, &object)).await;
            if is_allowed {
                answer.expect(201);
                continue;
            }
            let refused = answer.refusal(422, "Invalid");
            let causes = refused["details"]["causes"].as_array().unwrap();
            let expected = json!({
                "reason": "FieldValueForbidden",
                "message": format!("Forbidden: {POLICY}"),
                "field": field,
            });
            assert!(causes.contains(&expected), "{path}: {refused}");
        }
        // A container that is added to a running pod.
        let pods = "/api/v1/namespaces/default/pods";
        let pod = json!({
            "metadata": {"name": "running"},
            "spec": {"containers": [{"name": "c", "image": "a"}]},
        });
        client.call(Call::post(pods, &pod)).await.expect(201);
        let added = json!({"spec": {"ephemeralContainers": [container("e")]}});
        let path = format!("{pods}/running/ephemeralcontainers");
        let merge = "application/strategic-merge-patch+json";
        let patch = Call::new("PATCH", &path).body(merge, added.to_string());
        let answer = client.call(patch).await;
        match is_allowed {
            true => {
                answer.expect(200);
            }
            false => {
                let refused = answer.refusal(422, "Invalid");
                let message = refused["message"].as_str().unwrap();
                let at = "spec.ephemeralContainers[0].securityContext.privileged: Forbidden";
                assert!(
                    message.contains(at) && message.contains(POLICY),
                    "{refused}"
                );
            }
        }
    }
}
