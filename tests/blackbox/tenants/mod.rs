//! Ordinary tenants who try to get beyond their rights: a service account that is admin of one
//! namespace, and a user without any rights. Nothing that they try shows them an object of others,
//! and nothing changes the store.

mod cost;
mod escalation;
mod reach;
mod selectors;
mod tokens;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{AS_INSTALLED, Call, Client, Daemon, Target, body};

/// The value that only the owners of the other namespace may see.
const SECRET: &str = "dG9wLXNlY3JldA==";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Longer than a controller takes.
const SOON: Duration = Duration::from_secs(20);

/// Two namespaces, of which the tenant is admin of `own`.
struct Cluster {
    daemon: Daemon,
    admin: Client,
    token: String,
    /// A service account with the role admin in `own`.
    tenant: Client,
    /// A user without any rights.
    nobody: Client,
}

impl Cluster {
    async fn start(flags: &[&str]) -> Cluster {
        let flags = [&[AS_INSTALLED], flags].concat();
        let daemon = Daemon::with_users("t-nobody,nobody,u-nobody\n", &flags).await;
        let admin = daemon.client();
        for namespace in ["own", "other"] {
            let object = json!({"metadata": {"name": namespace}});
            let call = Call::post("/api/v1/namespaces", &object);
            admin.call(call).await.expect(201);
            let data = match namespace {
                "other" => json!({"k": SECRET}),
                _ => json!({}),
            };
            let secret = json!({"metadata": {"name": "s"}, "data": data});
            for (resource, object) in [
                ("secrets", secret),
                ("configmaps", body("c", "1")),
                ("serviceaccounts", json!({"metadata": {"name": "builder"}})),
            ] {
                let path = format!("/api/v1/namespaces/{namespace}/{resource}");
                admin.call(Call::post(&path, &object)).await.expect(201);
            }
        }
        let account = json!({"metadata": {"name": "tenant"}});
        let accounts = "/api/v1/namespaces/own/serviceaccounts";
        admin.call(Call::post(accounts, &account)).await.expect(201);
        let binding = json!({
            "metadata": {"name": "tenant"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "own"}],
        });
        let bindings = format!("{RBAC}/namespaces/own/rolebindings");
        admin
            .call(Call::post(&bindings, &binding))
            .await
            .expect(201);
        let token = format!("{accounts}/tenant/token");
        let token = admin.call(Call::post(&token, &json!({}))).await.expect(201);
        let token = token["status"]["token"].as_str().unwrap();
        let cluster = Cluster {
            tenant: daemon.target().with_token(token).client(),
            nobody: daemon.target().with_token("t-nobody").client(),
            token: token.to_owned(),
            admin,
            daemon,
        };
        cluster.until_rights_are_there().await;
        cluster
    }

    /// Waits until the controller has filled the role admin.
    async fn until_rights_are_there(&self) {
        let begun = Instant::now();
        for path in [
            "/api/v1/namespaces/own/secrets",
            "/api/v1/namespaces/own/pods",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/own/roles",
        ] {
            while self.tenant.call(Call::get(path)).await.status != 200 {
                assert!(begun.elapsed() < SOON, "{path} stays forbidden");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    fn tenant_target(&self) -> Target {
        self.daemon.target().with_token(&self.token)
    }

    /// The stored objects, except those that the server itself writes again and again.
    async fn stored(&self) -> Vec<(String, Value)> {
        let mut stored = Vec::new();
        for path in [
            "/api/v1/namespaces",
            "/api/v1/secrets",
            "/api/v1/configmaps",
            "/api/v1/serviceaccounts",
            "/api/v1/pods",
            "/api/v1/nodes",
            "/apis/rbac.authorization.k8s.io/v1/roles",
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        ] {
            let list = self.admin.call(Call::get(path)).await.expect(200);
            stored.push((path.to_owned(), list["items"].clone()));
        }
        stored
    }
}
