//! The chain of a file and its reload (AC-28, AC-33).

use serde_json::json;

use super::super::super::followed_file::Reloaded;
use super::super::super::webhook::tests::{Reply, Webhook};
use super::*;
use crate::auth::{AlwaysDeny, Decision};

/// Allows one user.
struct Only(&'static str);

impl Authorizer for Only {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        let answer = Authorization::allow_if(attributes.user.name == self.0);
        std::future::ready(answer).boxed()
    }
}

fn built_in() -> BuiltIn {
    BuiltIn {
        node: Some(Arc::new(AlwaysDeny)),
        rbac: Some(Arc::new(Only("alice"))),
        abac: None,
        client: Arc::default(),
    }
}

fn write(file: &Path, authorizers: &str) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n\
         authorizers:\n{authorizers}"
    );
    std::fs::write(file, text).unwrap();
}

/// A webhook in YAML, as an entry of a file.
fn hook(webhook: &Webhook, name: &str) -> String {
    format!(
        "- {{type: Webhook, name: {name}, webhook: {{timeout: 30s, subjectAccessReviewVersion: \
         v1, failurePolicy: Deny, cacheAuthorizedRequests: false, cacheUnauthorizedRequests: \
         false, connectionInfo: {{type: KubeConfigFile, kubeConfigFile: '{}'}}}}}}\n",
        webhook.kubeconfig().display()
    )
}

async fn asked(authorizer: &dyn Authorizer, user: &str) -> Decision {
    let user = UserInfo::authenticated(user, Vec::new());
    let attributes = Attributes::on_resource(&user, "get", "", "pods");
    authorizer.authorize(&attributes).await.decision
}

async fn denying(user: &'static str) -> Webhook {
    Webhook::start(&[], move |_| {
        let status = json!({"denied": true, "reason": user});
        Reply::ok(json!({"status": status}).to_string())
    })
    .await
}

const BUILT_IN: &str = "- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n";

#[tokio::test]
async fn webhooks_come_and_go_and_a_wrong_file_changes_nothing_ac_33() {
    use Decision::{Allow, Deny};
    let webhook = denying("bob").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorization.yaml");
    write(&file, BUILT_IN);
    let loaded = Loaded::read(&file).unwrap();
    assert!(loaded.has(AuthorizerType::Rbac) && !loaded.has(AuthorizerType::Abac));
    let configured = ConfiguredAuthorizers::new(loaded, built_in()).unwrap();
    let fault = async || configured.reload().await.unwrap_err();
    assert_eq!(configured.reload().await, Ok(Reloaded::Unchanged));
    assert_eq!(asked(&configured, "alice").await, Allow);

    write(&file, &format!("{}{BUILT_IN}", hook(&webhook, "first")));
    assert_eq!(asked(&configured, "alice").await, Allow, "not read yet");
    assert_eq!(configured.reload().await, Ok(Reloaded::Changed));
    assert_eq!(asked(&configured, "alice").await, Deny);

    write(&file, "- {type: Node, name: node}\n");
    assert_eq!(fault().await, "missing required types: [RBAC]");
    assert_eq!(
        configured.reload().await,
        Ok(Reloaded::Unchanged),
        "counted once"
    );
    assert_eq!(asked(&configured, "alice").await, Deny, "the one before");
    write(&file, &format!("{BUILT_IN}- {{type: ABAC, name: abac}}\n"));
    let text =
        "authorizer type ABAC is not allowed if it was not enabled at initial server startup";
    assert_eq!(fault().await, text);
    std::fs::write(&file, "half writ").unwrap();
    assert!(
        fault()
            .await
            .starts_with("failed to load AuthorizationConfiguration from file: ")
    );
    std::fs::remove_file(&file).unwrap();
    let error = fault().await;
    assert!(error.starts_with("open /"), "{error}");
    assert_eq!(asked(&configured, "alice").await, Deny, "the one before");

    // Order counts: roles and bindings are asked first now.
    write(&file, &format!("{BUILT_IN}{}", hook(&webhook, "last")));
    assert_eq!(configured.reload().await, Ok(Reloaded::Changed));
    assert_eq!(asked(&configured, "alice").await, Allow);
    assert_eq!(asked(&configured, "bob").await, Deny);
}

#[tokio::test]
async fn a_request_keeps_the_chain_that_it_has_begun_with_ac_33() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorization.yaml");
    write(&file, BUILT_IN);
    let loaded = Loaded::read(&file).unwrap();
    let configured = ConfiguredAuthorizers::new(loaded, built_in()).unwrap();
    let user = UserInfo::authenticated("alice", Vec::new());
    let attributes = Attributes::on_resource(&user, "get", "", "pods");
    let begun = configured.authorize(&attributes);
    let webhook = denying("alice").await;
    write(&file, &format!("{}{BUILT_IN}", hook(&webhook, "first")));
    assert_eq!(configured.reload().await, Ok(Reloaded::Changed));
    assert_eq!(begun.await.decision, Decision::Allow);
    assert_eq!(asked(&configured, "alice").await, Decision::Deny);
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_a_fault_of_the_file_ac_33() {
    let webhook = denying("bob").await;
    let entry = hook(&webhook, "w");
    let kubeconfig = webhook.kubeconfig();
    std::fs::write(&kubeconfig, "kind: Pod").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorization.yaml");
    write(&file, &entry);
    let loaded = Loaded::read(&file).unwrap();
    let error = ConfiguredAuthorizers::new(loaded, built_in());
    let expected = format!(
        "{}: it is not of kind Config and apiVersion v1",
        kubeconfig.display()
    );
    assert_eq!(error.err().unwrap().problem, expected);
}
