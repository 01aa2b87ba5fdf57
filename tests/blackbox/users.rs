//! The permissions of users from a token file, and of impersonated users.

use serde_json::Value;

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
