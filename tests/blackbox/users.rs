//! The permissions of users from a token file, and of impersonated users.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Daemon, Kubectl, Protocol, body, configmap};

const DISCOVERY: [&str; 11] = [
    "/api",
    "/api/",
    "/api/v1",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/version",
    "/readyz",
];

/// A daemon with the admin and with bob, who is in no group with rights.
async fn daemon() -> Daemon {
    Daemon::with_users("t-bob,bob,u-bob,crew\n", &[]).await
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn a_user_reads_discovery_and_health_and_nothing_else_api_27_api_38_api_290() {
    let daemon = daemon().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let bob = daemon.target().with_token("t-bob").client_over(protocol);
        let nobody = daemon.target().anonymous().client_over(protocol);
        for path in DISCOVERY {
            let answer = bob.call(Call::get(path)).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            // Users without rights read only health and version.
            let is_public = matches!(path, "/version" | "/readyz");
            let answer = nobody.call(Call::get(path)).await;
            let wanted = if is_public { 200 } else { 403 };
            assert_eq!(answer.status, wanted, "{path}: {}", answer.text());
        }
        let missing = bob.call(Call::get("/apis/none.example.com/v1")).await;
        assert_eq!(missing.status, 404, "{}", missing.text());
        for (call, said) in [
            (Call::get("/"), "cannot get path \"/\""),
            (Call::get("/metrics"), "cannot get path \"/metrics\""),
            (
                Call::get("/readyz/ping"),
                "cannot get path \"/readyz/ping\"",
            ),
            (Call::new("POST", "/apis"), "cannot post path \"/apis\""),
            (
                Call::new("POST", "/taffrail/v1/compact"),
                "cannot post path \"/taffrail/v1/compact\"",
            ),
            (
                Call::get(CONFIGMAPS),
                "cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"",
            ),
            (
                Call::post(CONFIGMAPS, &body("a", "1")),
                "cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"",
            ),
            (
                Call::get("/apis/apps/v1/deployments?watch=true"),
                "cannot watch resource \"deployments\" in API group \"apps\" at the cluster scope",
            ),
        ] {
            let status = bob.call(call).await.refusal(403, "Forbidden");
            let said = format!("forbidden: User \"bob\" {said}");
            assert!(message(&status).ends_with(&said), "{status}");
        }
    }
}

#[tokio::test]
async fn who_may_impersonate_is_served_as_the_other_user_api_284() {
    let daemon = daemon().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        // With the rights of the other user, which may be fewer ...
        let as_ada = |call: Call| call.header("Impersonate-User", "ada");
        for path in DISCOVERY {
            let answer = client.call(as_ada(Call::get(path))).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
        for call in [
            Call::get(CONFIGMAPS),
            Call::get(&format!("{CONFIGMAPS}?watch=true")),
            Call::post(CONFIGMAPS, &body("a", "1")),
            Call::get("/metrics"),
            Call::get(CONFIGMAPS).header("Impersonate-Group", "crew"),
            Call::get(CONFIGMAPS).header("impersonate-uid", "1"),
            Call::get(CONFIGMAPS).header("IMPERSONATE-EXTRA-Scopes", "view"),
        ] {
            let status = client.call(as_ada(call)).await.refusal(403, "Forbidden");
            let said = "forbidden: User \"ada\" cannot ";
            assert!(message(&status).contains(said), "{status}");
        }
        let absent = client.call(Call::get(&configmap("a"))).await;
        absent.refusal(404, "NotFound");

        // ... or more.
        let as_master = |call: Call| as_ada(call).header("Impersonate-Group", "system:masters");
        let created = client
            .call(as_master(Call::post(CONFIGMAPS, &body("a", "1"))))
            .await;
        created.expect(201);
        client
            .call(as_master(Call::delete(&configmap("a"))))
            .await
            .expect(200);

        for (user, path, code) in [
            ("system:anonymous", "/version", 200),
            ("system:anonymous", "/api", 403),
            ("system:serviceaccount:default:sa", "/api", 200),
            ("system:serviceaccount:default:sa", CONFIGMAPS, 403),
            ("system:node:n", "/api", 200),
        ] {
            let answer = client
                .call(Call::get(path).header("Impersonate-User", user))
                .await;
            assert_eq!(answer.status, code, "{user} {path}: {}", answer.text());
        }
        // Headers that name nobody change nothing; nobody is a front proxy here (API-276).
        for name in ["Impersonate-User", "Impersonate-Else", "X-Remote-User"] {
            let value = if name == "Impersonate-User" {
                ""
            } else {
                "ada"
            };
            let call = Call::get(CONFIGMAPS).header(name, value);
            client.call(call).await.expect(200);
        }
        for name in [
            "Impersonate-Group",
            "Impersonate-Uid",
            "Impersonate-Extra-a",
        ] {
            for path in [CONFIGMAPS, "/api"] {
                let answer = client.call(Call::get(path).header(name, "x")).await;
                let status = answer.refusal(400, "BadRequest");
                assert!(
                    message(&status).contains("without impersonating a user"),
                    "{status}"
                );
            }
        }
    }
}

#[tokio::test]
async fn who_may_not_impersonate_is_told_so_api_284_api_285() {
    let daemon = daemon().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let target = daemon.target();
        let bob = target.with_token("t-bob").client_over(protocol);
        for (call, said) in [
            (
                Call::get(CONFIGMAPS),
                "configmaps is forbidden: User \"bob\" cannot impersonate-on:user-info:list \
                 resource \"configmaps\" in API group \"\" in the namespace \"default\"",
            ),
            (
                Call::get("/api"),
                "forbidden: User \"bob\" cannot impersonate-on:user-info:get path \"/api\"",
            ),
            (
                Call::get("/readyz"),
                "forbidden: User \"bob\" cannot impersonate-on:user-info:get path \"/readyz\"",
            ),
        ] {
            for user in ["admin", "ada", "bob"] {
                let call = call.clone().header("Impersonate-User", user);
                let status = bob.call(call).await.refusal(403, "Forbidden");
                assert_eq!(message(&status), said);
            }
        }
        let account = "system:serviceaccount:default:sa";
        let call = Call::get(CONFIGMAPS).header("Impersonate-User", account);
        let call = call.header("Impersonate-Group", "system:masters");
        let status = bob.call(call).await.refusal(403, "Forbidden");
        assert_eq!(
            message(&status),
            "serviceaccounts \"sa\" is forbidden: User \"bob\" cannot impersonate resource \
             \"serviceaccounts\" in API group \"\" in the namespace \"default\""
        );
        // A user without authentication gets that error first.
        let call = || Call::get(CONFIGMAPS).header("Impersonate-User", "admin");
        let stranger = target.with_token("x").client_over(protocol);
        stranger.call(call()).await.refusal(401, "Unauthorized");
        let nobody = target.anonymous().client_over(protocol);
        nobody.call(call()).await.refusal(403, "Forbidden");
    }
    assert!(!daemon.stderr().contains("t-bob"), "the log holds a token");
}

#[tokio::test]
async fn kubectl_works_as_somebody_else_and_says_what_they_may_not_api_284() {
    for version in ["1.20", "1.32"] {
        let daemon = daemon().await;
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        let said = kubectl.fails(&["get", "configmaps", "--as", "ada"]).await;
        let sentence = "Error from server (Forbidden): configmaps is forbidden: User \"ada\" \
                        cannot list resource \"configmaps\" in API group \"\" in the namespace \
                        \"default\"\n";
        assert_eq!(said, sentence);
        let masters = ["--as", "ada", "--as-group", "system:masters"];
        let with = |arguments: &[&'static str]| [arguments, &masters].concat();
        kubectl
            .ok(&with(&["create", "configmap", "a", "--from-literal=k=v"]))
            .await;
        let got = kubectl
            .ok(&with(&["get", "configmap", "a", "-o", "name"]))
            .await;
        assert_eq!(got, "configmap/a\n");
        if version != "1.20" {
            let uid = with(&["get", "configmap", "a", "-o", "name", "--as-uid", "u1"]);
            assert_eq!(kubectl.ok(&uid).await, "configmap/a\n");
        }

        // A user who may read discovery alone is told what is forbidden, not that there is nothing.
        let bob = Kubectl::find(version, &daemon).unwrap();
        let kinds = bob
            .ok(&["api-resources", "-o", "name", "--token", "t-bob"])
            .await;
        assert!(kinds.contains("deployments.apps\n"), "{kinds}");
        let said = bob.fails(&["get", "configmaps", "--token", "t-bob"]).await;
        assert!(
            said.contains("User \"bob\" cannot list resource \"configmaps\""),
            "{said}"
        );
        bob.ok(&["version", "--token", "t-bob"]).await;
        let said = bob
            .fails(&["get", "configmaps", "--token", "t-bob", "--as", "ada"])
            .await;
        let sentence = "Error from server (Forbidden): configmaps is forbidden: User \"bob\" \
                        cannot impersonate-on:user-info:list resource \"configmaps\"";
        assert!(said.contains(sentence), "{said}");
    }
}

/// Each request is an event, and the metrics count what was tried and what was asked.
#[tokio::test]
async fn impersonation_is_audited_and_counted_by_its_mode_ac_75_ac_78() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, text).unwrap();
    let policy = format!("--audit-policy-file={}", policy.display());
    let path = format!("--audit-log-path={}", log.display());
    let users = "t-bob,bob,1\nt-eve,eve,2\n";
    let daemon = Daemon::with_users(users, &[&policy, &path]).await;
    let admin = daemon.client();
    // Bob may act as ada to list config maps; eve may be ada by the old verb.
    let group = "authentication.k8s.io";
    for (name, user, rules) in [
        (
            "constrained",
            "bob",
            json!([
                {"apiGroups": [""], "resources": ["configmaps"],
                 "verbs": ["impersonate-on:user-info:list"]},
                {"apiGroups": [group], "resources": ["users"], "resourceNames": ["ada"],
                 "verbs": ["impersonate:user-info"]},
            ]),
        ),
        (
            "legacy",
            "eve",
            json!([{
                "apiGroups": [""], "resources": ["users"], "resourceNames": ["ada"],
                "verbs": ["impersonate"],
            }]),
        ),
    ] {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
            },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user,
            }],
        });
        let roles = format!("{rbac}/clusterroles");
        admin.call(Call::post(&roles, &role)).await.expect(201);
        let bindings = format!("{rbac}/clusterrolebindings");
        admin
            .call(Call::post(&bindings, &binding))
            .await
            .expect(201);
    }
    let asked = async |user: &str, agent: &str, path: &str| {
        let target = daemon.target().with_token(&format!("t-{user}"));
        let call = Call::get(path).header("impersonate-user", "ada");
        let answer = target.client().call(call.header("user-agent", agent)).await;
        let said = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, 403);
        said
    };
    // Ada may not list them, and is refused as herself.
    for agent in ["bob-one", "bob-two"] {
        let said = asked("bob", agent, CONFIGMAPS).await;
        assert!(said.contains("User \"ada\" cannot list"), "{said}");
    }
    let said = asked("eve", "eve-one", CONFIGMAPS).await;
    assert!(said.contains("User \"ada\" cannot list"), "{said}");
    let said = asked("bob", "bob-three", "/api/v1/secrets").await;
    assert!(
        said.contains("User \"bob\" cannot impersonate-on:user-info:list"),
        "{said}"
    );

    let events = events_of(&log, 4).await;
    for (agent, user, constraint) in [
        ("bob-one", Some("ada"), Some("impersonate:user-info")),
        ("bob-two", Some("ada"), Some("impersonate:user-info")),
        ("eve-one", Some("ada"), None),
        ("bob-three", None, None),
    ] {
        let event = events.iter().find(|event| event["userAgent"] == agent);
        let event = event.unwrap_or_else(|| panic!("no event of {agent}"));
        let impersonated = event["impersonatedUser"]["username"].as_str();
        assert_eq!(impersonated, user, "{event}");
        let shown = &event["authenticationMetadata"]["impersonationConstraint"];
        assert_eq!(shown.as_str(), constraint, "{event}");
        // A refused impersonation was not authorized as a request.
        let decision = &event["annotations"]["authorization.k8s.io/decision"];
        assert_eq!(decision.as_str(), user.map(|_| "forbid"), "{event}");
    }
    let name = "apiserver_impersonation_attempts_total";
    let checks = "apiserver_impersonation_authorization_attempts_total";
    for (series, count) in [
        (
            format!("{name}{{mode=\"user-info\",decision=\"allowed\"}}"),
            2,
        ),
        (format!("{name}{{mode=\"legacy\",decision=\"allowed\"}}"), 1),
        (format!("{name}{{mode=\"\",decision=\"denied\"}}"), 1),
        // The second request of bob was known.
        (
            format!("{checks}{{mode=\"user-info\",decision=\"allowed\"}}"),
            2,
        ),
        (
            format!("{checks}{{mode=\"user-info\",decision=\"denied\"}}"),
            2,
        ),
        (
            format!("{checks}{{mode=\"legacy\",decision=\"allowed\"}}"),
            1,
        ),
        (
            format!("{checks}{{mode=\"legacy\",decision=\"denied\"}}"),
            1,
        ),
    ] {
        assert_eq!(daemon.count(&series).await, count, "{series}");
    }
    let page = admin.call(Call::get("/metrics")).await.text();
    for series in [
        "apiserver_impersonation_attempts_duration_seconds_bucket{mode=\"legacy\",\
         decision=\"allowed\",le=\"0.001\"}",
        "authorization_duration_seconds_count{result=\"no-opinion\"}",
        "authorization_duration_seconds_bucket{result=\"allowed\",le=\"16.384\"}",
        "authentication_duration_seconds_bucket{result=\"success\",le=\"1.024\"}",
    ] {
        assert!(page.contains(series), "{series}");
    }
}

/// The events of finished requests that impersonate, once there are so many.
async fn events_of(log: &Path, count: usize) -> Vec<Value> {
    for _ in 0..1_000 {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines = text
            .lines()
            .filter(|line| line.contains("ResponseComplete"));
        let events = lines.filter_map(|line| serde_json::from_str(line).ok());
        let agents = ["bob-", "eve-"];
        let is_own = |event: &Value| {
            let agent = event["userAgent"].as_str().unwrap_or_default();
            agents.iter().any(|start| agent.starts_with(start))
        };
        let events: Vec<Value> = events.filter(is_own).collect();
        if events.len() >= count {
            return events;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the audit log lacks events");
}
