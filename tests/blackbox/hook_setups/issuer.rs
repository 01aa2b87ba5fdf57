//! A manager of certificates, which writes the bundle into its own configurations after they exist,
//! and changes it while they are in use.

use serde_json::{Value, json};

use super::{GROUP, NAMESPACES, World, merge, row};
use crate::harness::Call;

const CERTIFICATES: &str = "/apis/issuer.example.com/v1/namespaces/app/certificates";
const REQUESTS: &str = "/apis/issuer.example.com/v1/namespaces/app/requests";
const ORDERS: &str = "/apis/acme.issuer.example.com/v1/namespaces/app/orders";

fn object(kind: &str, name: &str) -> Value {
    let group = match kind {
        "Order" => "acme.issuer.example.com/v1",
        _ => "issuer.example.com/v1",
    };
    json!({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": {"size": 1}})
}

fn certificate(name: &str) -> Call {
    Call::post(CERTIFICATES, &object("Certificate", name))
}

/// The configurations are there, and lack the bundle.
async fn start() -> World {
    let world = World::start().await;
    world
        .make(NAMESPACES, &json!({"metadata": {"name": "app"}}))
        .await;
    let exempted = json!({"name": "free",
        "labels": {"issuer.example.com/disable-validation": "true"}});
    world.make(NAMESPACES, &json!({"metadata": exempted})).await;
    let kinds = [("certificates", "Certificate"), ("requests", "Request")];
    for (plural, kind) in kinds {
        world
            .define("issuer.example.com", plural, kind, &["v1"])
            .await;
    }
    world
        .define("acme.issuer.example.com", "orders", "Order", &["v1"])
        .await;
    let of_users = json!({"matchExpressions": [
        {"key": "issuer.example.com/disable-validation", "operator": "NotIn", "values": ["true"]}]});
    let validated = json!([{"apiGroups": ["issuer.example.com", "acme.issuer.example.com"],
        "apiVersions": ["v1"], "resources": ["*/*"], "operations": ["CREATE", "UPDATE"]}]);
    let validating = json!({"failurePolicy": "Fail", "timeoutSeconds": 30,
        "matchPolicy": "Equivalent", "namespaceSelector": of_users,
        "clientConfig": world.service("validate", None)});
    let webhooks = vec![world.webhook("validate", validated, validating)];
    world.install("validating", "issuer", webhooks).await;
    let mutated = json!([{"apiGroups": ["issuer.example.com"], "apiVersions": ["v1"],
        "resources": ["requests"], "operations": ["CREATE"]}]);
    let mutating = json!({"clientConfig": world.service("mutate", None)});
    let webhooks = vec![world.webhook("mutate", mutated, mutating)];
    world.install("mutating", "issuer", webhooks).await;
    world
}

/// Writes a bundle into a configuration, as an injector does: a PUT of what it has read.
async fn inject(world: &World, kind: &str, bundle: &str) {
    let path = format!("{GROUP}/{kind}webhookconfigurations/issuer");
    let mut found = world.client.call(Call::get(&path)).await.expect(200);
    found["webhooks"][0]["clientConfig"]["caBundle"] = bundle.into();
    world
        .client
        .call(Call::put(&path, &found))
        .await
        .expect(200);
}

#[tokio::test]
async fn an_issuer_is_called_once_its_bundle_is_there_hk_18_hk_44() {
    let world = start().await;
    let (code, body, asked) = world.ask(certificate("a")).await;
    assert_eq!((code, asked), (500, vec![]), "{body}");
    let why = format!(
        "failed calling webhook \\\"validate.example.com\\\": failed to call webhook: Post \
         \\\"https://server.hooks.svc:{}/admit/validate?timeout=30s\\\": tls: failed to verify \
         certificate: x509: certificate signed by unknown authority",
        world.hooks.port
    );
    assert!(body.contains(&why), "{body}");
    for kind in ["validating", "mutating"] {
        inject(&world, kind, &world.hooks.ca_bundle).await;
    }
    let one = format!("{CERTIFICATES}/a");
    world
        .check(vec![
            row(
                "a certificate",
                certificate("a"),
                201,
                &["validate: CREATE issuer.example.com/v1 certificates Certificate app/a"],
            ),
            row(
                "its status",
                merge(&format!("{one}/status"), json!({"status": {"ready": true}})),
                200,
                &["validate: UPDATE issuer.example.com/v1 certificates/status Certificate app/a"],
            ),
            row(
                "its scale",
                merge(&format!("{one}/scale"), json!({"spec": {"replicas": 2}})),
                200,
                &["validate: UPDATE issuer.example.com/v1 certificates/scale Scale app/a"],
            ),
            row(
                "a request",
                Call::post(REQUESTS, &object("Request", "a")),
                201,
                &[
                    "mutate: CREATE issuer.example.com/v1 requests Request app/a",
                    "validate: CREATE issuer.example.com/v1 requests Request app/a",
                ],
            ),
            row(
                "an order",
                Call::post(ORDERS, &object("Order", "a")),
                201,
                &["validate: CREATE acme.issuer.example.com/v1 orders Order app/a"],
            ),
            row(
                "one in an exempt namespace",
                Call::post(
                    &CERTIFICATES.replace("/app/", "/free/"),
                    &object("Certificate", "a"),
                ),
                201,
                &[],
            ),
            row("its end", Call::delete(&one), 200, &[]),
        ])
        .await;
}

/// Each bundle counts with its acknowledgement.
#[tokio::test]
async fn an_issuer_changes_its_bundle_while_it_is_used_hk_18_hk_45() {
    let world = start().await;
    let other = world.hooks.values();
    let other = other.iter().find(|(name, _)| *name == "other_ca");
    let other = other.unwrap().1.clone();
    for round in 0..5 {
        inject(&world, "validating", &other).await;
        let (code, body, _) = world.ask(certificate("bad")).await;
        assert_eq!(code, 500, "{body}");
        assert!(body.contains("signed by unknown authority"), "{body}");
        inject(&world, "validating", &world.hooks.ca_bundle).await;
        let (code, body, _) = world.ask(certificate(&format!("good-{round}"))).await;
        assert_eq!(code, 201, "{body}");
    }
    // Writers see no failure while a configuration changes from one good state to another.
    let writing = async {
        for number in 0..40 {
            let (code, body, asked) = world.ask(certificate(&format!("w{number}"))).await;
            assert_eq!((code, asked.len()), (201, 1), "{body}");
        }
    };
    let injecting = async {
        for number in 0..20 {
            let bundle = match number % 2 {
                0 => &world.hooks.own_bundle,
                _ => &world.hooks.ca_bundle,
            };
            inject(&world, "validating", bundle).await;
        }
    };
    futures_util::join!(writing, injecting);
}

/// Calls with a bundle that is not a certificate fail, and the configuration can be mended.
#[tokio::test]
async fn an_issuer_with_a_broken_bundle_can_be_mended_hk_44() {
    let world = start().await;
    inject(&world, "validating", "bm8gUEVN").await;
    let (code, body, _) = world.ask(certificate("a")).await;
    assert_eq!(code, 500, "{body}");
    assert!(body.contains("unable to load root certificates"), "{body}");
    inject(&world, "validating", &world.hooks.ca_bundle).await;
    assert_eq!(world.ask(certificate("a")).await.0, 201);
}
