//! Responses of paths without objects to each `Accept` header (API-38, API-39, API-54, API-55),
//! which are those of kube-apiserver 1.36.

use crate::harness::{Call, Client, Daemon};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The values of `Accept`. The first is none at all.
const ACCEPTED: [&str; 13] = [
    "",
    "*/*",
    "application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/yaml",
    "application/json;q=0.5,application/yaml",
    PROTOBUF,
    "application/vnd.kubernetes.protobuf,application/json",
    "application/*",
    "text/plain",
    V2,
    V3,
    "garbage",
];

/// What an answer is, short: J(SON), Y(AML), P(rotobuf), T(ext), V(2 or v3 in protobuf). Small
/// letters are refusals with 406 in that form, indented for i, and a dash is one without a body.
fn short(status: u16, media_type: &str, body: &[u8]) -> char {
    let form = match media_type {
        "" if body.is_empty() => '-',
        "application/json" => 'J',
        "application/yaml" => 'Y',
        PROTOBUF => 'P',
        V2 | V3 => 'V',
        text if text.starts_with("text/plain;") => 'T',
        other => panic!("{other}"),
    };
    match (status, form) {
        (200, form) => form,
        (406, 'J') if body.starts_with(b"{\n  ") => 'i',
        (406, form) => form.to_ascii_lowercase(),
        other => panic!("{other:?}"),
    }
}

async fn answers(client: &Client, path: &str) -> String {
    let mut shown = String::new();
    for accept in ACCEPTED {
        let call = match accept {
            "" => Call::get(path),
            accept => Call::get(path).header("accept", accept),
        };
        let answer = client.call(call).await;
        let media_type = answer.header("content-type").unwrap_or_default();
        shown.push(short(answer.status.as_u16(), media_type, &answer.body));
    }
    shown
}

#[tokio::test]
async fn each_path_answers_in_what_it_has_api_38_api_54_api_55() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (path, expected) in [
        ("/version", "JJJJyJpJjiiii"),
        ("/version/", "JJJJyJpJjiiii"),
        ("/", "JJJJJJJJJJJJJ"),
        ("/healthz", "TTTTTTTTTTTTT"),
        ("/livez", "TTTTTTTTTTTTT"),
        ("/readyz?verbose", "TTTTTTTTTTTTT"),
        ("/metrics", "TTTTTTTTTTTTT"),
        ("/api", "JJJiYYPPjiiii"),
        ("/api/v1", "JJJiYYPPjiiii"),
        ("/apis", "JJJiYYPPJiiii"),
        ("/apis/apps", "JJJiYYPPJiiii"),
        ("/apis/apps/v1", "JJJiYYPPjiiii"),
        ("/openapi/v2", "JJJJ-J-JJ-V--"),
        // D-7: there it is called text.
        ("/openapi/v3", "JJJJJJJJJJJJJ"),
        ("/openapi/v3/apis/apps/v1", "JJJJ-J-JJ--V-"),
        ("/openapi/v3/version", "JJJJ-J-JJ--V-"),
    ] {
        assert_eq!(answers(&client, path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn refusals_say_what_a_path_has_api_38_api_55() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let route = "406: Not Acceptable\n\nAvailable representations: ";
    let form = "only the following media types are accepted: ";
    for (path, accept, text, has_details) in [
        (
            "/version",
            "garbage",
            format!("{route}application/json"),
            true,
        ),
        ("/api", "garbage", format!("{route}{all}"), true),
        ("/apis", "garbage", format!("{form}{all}"), false),
        ("/apis/apps", "garbage", format!("{form}{all}"), false),
        ("/apis/apps", AGGREGATED, format!("{form}{all}"), false),
    ] {
        let call = Call::get(path).header("accept", accept);
        let status = client.call(call).await.refusal(406, "NotAcceptable");
        assert_eq!(status["message"], text, "{path}");
        assert_eq!(status.get("details").is_some(), has_details, "{path}");
    }
    // A form of objects is none of refusals.
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    for (accept, opening) in [
        (metadata.clone(), "{\n  \"kind\": \"Status\""),
        (
            format!("{metadata},application/json"),
            "{\"kind\":\"Status\"",
        ),
    ] {
        let call = Call::get("/api/v1/namespaces/nothing").header("accept", &accept);
        let answer = client.call(call).await;
        assert!(answer.text().starts_with(opening), "{}", answer.text());
        answer.refusal(404, "NotFound");
    }
}

/// D-86: kube-apiserver ends the stream at the first event and says nothing.
#[tokio::test]
async fn a_watch_in_the_form_of_lists_is_refused_api_75() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let why = "you requested PartialObjectMetadataList, but events carry single objects";
    for media_type in ["application/json", PROTOBUF] {
        for version in ["v1", "v1beta1"] {
            let form = format!("as=PartialObjectMetadataList;g=meta.k8s.io;v={version}");
            let call = Call::get("/api/v1/namespaces?watch=true");
            let call = call.header("accept", &format!("{media_type};{form}"));
            let status = client.call(call).await.refusal(406, "NotAcceptable");
            assert_eq!(status["message"], why, "{media_type};{form}");
        }
    }
}
