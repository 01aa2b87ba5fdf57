//! OpenAPI documents with those of extensions (CN-26, CN-27).

use serde_json::{Value, json};

use super::extension::{APISERVICES, Extension};
use super::{api_service, until_has};
use crate::custom_resources::{gone, until};
use crate::harness::{Call, Client, Daemon};

const GROUP: &str = "wardle.example.com";
const KEY: &str = "apis/wardle.example.com/v1";
const FLUNDER: &str = "com.example.wardle.v1.Flunder";
const FLUNDERS: &str = "/apis/wardle.example.com/v1/namespaces/{namespace}/flunders";
const SHARED: &str = "io.example.shared.Thing";

fn v2() -> Call {
    Call::get("/openapi/v2")
}

async fn until_merged(client: &Client) -> Value {
    let is_merged = |document: &Value| document["definitions"].get(FLUNDER).is_some();
    until_has(client, v2, is_merged).await
}

#[tokio::test]
async fn the_paths_and_definitions_of_extensions_are_merged_cn_26() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let before = client.call(v2()).await.expect(200);
    let extension = Extension::start(GROUP).await;
    extension.install(&client, GROUP).await;
    let merged = until_merged(&client).await;
    let get = &merged["paths"][FLUNDERS]["get"];
    let schema = &get["responses"]["200"]["schema"]["$ref"];
    assert_eq!(*schema, format!("#/definitions/{FLUNDER}"));
    assert!(merged["definitions"].get(SHARED).is_some());
    // Only paths of the group version are taken, and nothing that only other paths need.
    assert_eq!(merged["paths"]["/version/"], before["paths"]["/version/"]);
    assert!(merged["paths"].get("/version").is_none());
    assert!(merged["definitions"].get("io.example.Unrelated").is_none());
    let pod = "io.k8s.api.core.v1.Pod";
    assert_eq!(merged["definitions"][pod], before["definitions"][pod]);
    let asked = extension.asked("/openapi/v2");
    assert_eq!(asked[0].header("x-remote-user"), "system:aggregator");
    assert_eq!(asked[0].header("x-remote-group"), "system:masters");
    // Older clients take it as protobuf.
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let packed = client.call(v2().header("accept", protobuf)).await;
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|at| at == text.as_bytes());
    assert!(has(&packed.body, FLUNDER) && has(&packed.body, FLUNDERS));

    client
        .call(Call::delete(&api_service(&format!("v1.{GROUP}"))))
        .await
        .expect(200);
    let is_out = |document: &Value| document["definitions"].get(FLUNDER).is_none();
    let after = until_has(&client, v2, is_out).await;
    assert_eq!(after, before);
}

#[tokio::test]
async fn definitions_of_one_name_are_shared_if_equal_and_renamed_if_not_cn_26() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let (one, other) = (
        Extension::start(GROUP).await,
        Extension::start("b.example.com").await,
    );
    one.install(&client, GROUP).await;
    let mut body = other.api_service("b.example.com", "v1");
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    let has_both = |document: &Value| {
        let definitions = &document["definitions"];
        definitions.get(FLUNDER).is_some() && definitions.get("com.example.b.v1.Flunder").is_some()
    };
    let merged = until_has(&client, v2, has_both).await;
    assert!(merged["definitions"].get(format!("{SHARED}_v2")).is_none());
    // Now they differ.
    other.tell(|told| told.description = "Otherwise.".to_owned());
    let at = api_service("v1.b.example.com");
    client.call(Call::delete(&at)).await.expect(200);
    body["spec"]["insecureSkipTLSVerify"] = true.into();
    body["spec"].as_object_mut().unwrap().remove("caBundle");
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    let renamed = format!("{SHARED}_v2");
    let is_renamed = |document: &Value| document["definitions"].get(&renamed).is_some();
    let merged = until_has(&client, v2, is_renamed).await;
    let definitions = &merged["definitions"];
    let texts = [&definitions[SHARED], &definitions[&renamed]].map(|one| &one["description"]);
    assert_ne!(texts[0], texts[1]);
}

#[tokio::test]
async fn v3_documents_are_those_of_the_extension_cn_27() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.install(&client, GROUP).await;
    let index = || Call::get("/openapi/v3");
    let found = until_has(&client, index, |index| index["paths"].get(KEY).is_some()).await;
    let url = found["paths"][KEY]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(url, format!("/openapi/v3/{KEY}?hash=27"));
    assert!(found["paths"].get("apis/apps/v1").is_some());
    let document = client.call(Call::get(&url)).await.expect(200);
    let schemas = &document["components"]["schemas"];
    assert!(schemas.get(FLUNDER).is_some(), "{document}");
    let asked = extension.asked("/openapi/v3/");
    assert_eq!(asked[0].query, "hash=27");
    for unknown in [
        "apis/wardle.example.com/v9",
        "apis/wardle.example.com",
        "apis/none/v1",
    ] {
        let answer = client
            .call(Call::get(&format!("/openapi/v3/{unknown}")))
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.body.len()),
            (404, 0),
            "{unknown}"
        );
    }
    extension.tell(|told| told.drops = true);
    let refused = client.call(Call::get(&url)).await;
    assert_eq!(refused.status, 503);
    client
        .call(Call::delete(&api_service(&format!("v1.{GROUP}"))))
        .await
        .expect(200);
    until_has(&client, index, |index| index["paths"].get(KEY).is_none()).await;
    gone(&client, &url).await;
}

#[tokio::test]
async fn an_extension_with_v2_alone_gets_a_v3_document_cn_27() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let extension = Extension::start(GROUP).await;
    extension.tell(|told| told.has_v3 = false);
    extension.install(&client, GROUP).await;
    let index = || Call::get("/openapi/v3");
    let found = until_has(&client, index, |index| index["paths"].get(KEY).is_some()).await;
    let url = found["paths"][KEY]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let document = client.call(Call::get(&url)).await.expect(200);
    assert_eq!(document["openapi"], "3.0.0");
    let schema = json!({"$ref": format!("#/components/schemas/{FLUNDER}")});
    let content = json!({"application/json": {"schema": schema}});
    let answer = &document["paths"][FLUNDERS]["get"]["responses"]["200"];
    assert_eq!(answer["content"], content);
    assert!(document["components"]["schemas"].get(FLUNDER).is_some());
}

/// The daemon leaves out a document that is too long or unreadable, and serves the rest.
#[tokio::test]
async fn documents_are_bounded_cn_26() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let before = client.call(v2()).await.expect(200);
    let extension = Extension::start(GROUP).await;
    extension.tell(|told| told.padding = 17 << 10);
    extension.install(&client, GROUP).await;
    // The list of v3 documents comes with the same questions.
    let index = || Call::get("/openapi/v3");
    until_has(&client, index, |index| index["paths"].get(KEY).is_some()).await;
    assert_eq!(client.call(v2()).await.expect(200), before);
    extension.tell(|told| told.padding = 100);
    // It is asked again some seconds after a failure, or at once when it changes.
    let at = api_service(&format!("v1.{GROUP}"));
    let patch = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    client
        .call(Call::merge_patch(&at, &patch))
        .await
        .expect(200);
    let merged = until_merged(&client).await;
    assert!(merged["definitions"].get("io.example.Padding99").is_some());
    let is_gone = |answer: &crate::harness::Answer| answer.json() == before;
    client.call(Call::delete(&at)).await.expect(200);
    until(&client, v2, is_gone).await;
}
