//! Documents that nest as deeply as kube-apiserver accepts, and one level deeper (API-63).

use crate::harness::client::Answer;
use crate::harness::daemon::taffrail;
use crate::harness::{Call, Client, Daemon};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The levels of a value in the data of an object that has 10,000.
const MOST: usize = 9_998;

/// The opening and the closing of a level.
const CONSTRUCTS: [(&str, &str, &str); 6] = [
    (JSON, "[", "]"),
    (JSON, "{\"a\":", "}"),
    (YAML, "[", "]"),
    (YAML, "{a: ", "}"),
    (YAML, "- ", ""),
    (YAML, "{? a : ", "}"),
];

fn nested(open: &str, close: &str, levels: usize) -> String {
    format!("{}1{}", open.repeat(levels), close.repeat(levels))
}

/// A ControllerRevision with this value in its data.
fn revision(form: &str, name: &str, value: &str) -> String {
    let types = r#""apiVersion":"apps/v1","kind":"ControllerRevision""#;
    let metadata = format!(r#""metadata":{{"name":"{name}","labels":{{"of":"a"}}}}"#);
    match form {
        JSON => format!("{{{types},{metadata},\"data\":{{\"x\":{value}}},\"revision\":1}}"),
        // Each on its line, as a value of a block.
        _ => format!(
            "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {{name: {name}}}\n\
             revision: 1\ndata:\n  x:\n    {value}\n"
        ),
    }
}

async fn send(client: &Client, method: &str, path: &str, (form, body): (&str, &str)) -> Answer {
    let call = Call::new(method, path).body(form, body.to_owned());
    client.call(call).await
}

/// Whether the text of an answer has the value.
fn shows(answer: &Answer, code: u16, value: &str) {
    let text = answer.text();
    let beginning: String = text.chars().take(300).collect();
    assert_eq!(answer.status, code, "{beginning}");
    assert!(text.contains(value), "{beginning}");
}

fn refuses(answer: &Answer, code: u16, why: &str) {
    let text = answer.text();
    let beginning: String = text.chars().take(600).collect();
    assert_eq!(answer.status, code, "{beginning}");
    assert!(text.contains(why), "{beginning}");
}

#[tokio::test]
async fn what_is_kept_is_as_deep_as_go_reads_it() {
    for (stored, constructs) in [
        (JSON, &CONSTRUCTS[..]),
        (PROTOBUF, &CONSTRUCTS[1..2]),
        (YAML, &CONSTRUCTS[..1]),
    ] {
        let mut daemon = Daemon::with(&[&format!("--storage-media-type={stored}")]).await;
        for (place, (form, open, close)) in constructs.iter().copied().enumerate() {
            let client = daemon.client();
            let name = format!("a{place}");
            let body = |levels| revision(form, &name, &nested(open, close, levels));
            let shown = shown(open);
            let deep = send(&client, "POST", REVISIONS, (form, &body(MOST + 1))).await;
            refuses(&deep, 400, "exceeded max depth");
            let made = send(&client, "POST", REVISIONS, (form, &body(MOST))).await;
            shows(&made, 201, &shown);
            let one = format!("{REVISIONS}/{name}");
            shows(&client.call(Call::get(&one)).await, 200, &shown);
            let put = send(&client, "PUT", &one, (form, &body(MOST))).await;
            shows(&put, 200, &shown);
        }
        daemon.kill().await;
        daemon.restart().await;
        let client = daemon.client();
        for (place, (_, open, _)) in constructs.iter().enumerate() {
            let one = format!("{REVISIONS}/a{place}");
            let shown = shown(open);
            reads(&client, &one, &shown).await;
            patches(&client, &one, &shown).await;
            deletes(&client, &one).await;
        }
        let left = client.call(Call::get(REVISIONS)).await.expect(200);
        assert_eq!(left["items"].as_array().map(Vec::len), Some(0));
    }
}

/// The value of most levels as it is shown.
fn shown(open: &str) -> String {
    match open.starts_with('{') {
        true => nested("{\"a\":", "}", MOST),
        false => nested("[", "]", MOST),
    }
}

/// Every form and verb that reads.
async fn reads(client: &Client, one: &str, shown: &str) {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    for path in [one, REVISIONS] {
        shows(&client.call(Call::get(path)).await, 200, shown);
        for accept in [YAML, PROTOBUF] {
            let answer = client.call(Call::get(path).header("accept", accept)).await;
            shows(&answer, 200, shown);
        }
        let answer = client.call(Call::get(&format!("{path}?pretty=true"))).await;
        assert_eq!(answer.status, 200);
        let call = Call::get(path).header("accept", table);
        assert_eq!(client.call(call).await.expect(200)["kind"], "Table");
        let call = Call::get(&format!("{path}?includeObject=Object")).header("accept", table);
        shows(&client.call(call).await, 200, shown);
    }
    let call = Call::get(one).header("accept", metadata);
    client.call(call).await.expect(200);
    let history = format!("/taffrail/v1/history{one}");
    shows(&client.call(Call::get(&history)).await, 200, shown);
    for accept in [JSON, table, &format!("{PROTOBUF};stream=watch")] {
        let path = format!("{REVISIONS}?watch=true&timeoutSeconds=1&includeObject=Object");
        let answer = client.call(Call::get(&path).header("accept", accept)).await;
        shows(&answer, 200, shown);
    }
}

/// Every way to change an object.
async fn patches(client: &Client, one: &str, shown: &str) {
    let label = |value: &str| format!(r#"{{"metadata":{{"labels":{{"of":"{value}"}}}}}}"#);
    let operation = r#"[{"op":"add","path":"/metadata/labels","value":{"of":"d"}}]"#;
    let head = format!(
        r#""apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"{}"}}"#,
        one.rsplit('/').next().unwrap()
    );
    let apply = format!("{{{head},\"revision\":1}}");
    let forced = format!("{one}?fieldManager=b&force=true");
    for (path, form, body) in [
        (one, MERGE, &*label("b")),
        (one, STRATEGIC, &label("c")),
        (one, OPERATIONS, operation),
        (&forced, APPLY, &apply),
    ] {
        let answer = send(client, "PATCH", path, (form, body)).await;
        shows(&answer, 200, shown);
    }
    // Patches bring values as deep as the stored ones.
    let fresh = format!("{REVISIONS}/patched");
    let body = revision(JSON, "patched", "{}");
    send(client, "POST", REVISIONS, (JSON, &body))
        .await
        .expect(201);
    let forced = format!("{fresh}?fieldManager=b&force=true&dryRun=All");
    let dry = format!("{fresh}?dryRun=All");
    let head = head.replace(one.rsplit('/').next().unwrap(), "patched");
    for (levels, code) in [(MOST, 422), (MOST + 1, 400)] {
        // The data of a revision may not change.
        let why = match code {
            422 => "data: Invalid value",
            _ => "exceeded max depth",
        };
        let value = nested("[", "]", levels);
        let plain = format!("{{\"data\":{{\"x\":{value}}}}}");
        let apply = format!("{{{head},\"data\":{{\"x\":{value}}},\"revision\":1}}");
        for (path, form, body) in [
            (&dry, MERGE, &plain),
            (&dry, STRATEGIC, &plain),
            (&forced, APPLY, &apply),
        ] {
            let answer = send(client, "PATCH", path, (form, body)).await;
            refuses(&answer, code, why);
        }
    }
    client.call(Call::delete(&fresh)).await.expect(200);
}

/// Deletion by way of a finalizer.
async fn deletes(client: &Client, one: &str) {
    let keep = r#"{"metadata":{"finalizers":["example.com/keep"]}}"#;
    let kept = send(client, "PATCH", one, (MERGE, keep)).await;
    assert_eq!(kept.status, 200);
    assert!(client.call(Call::delete(one)).await.status.is_success());
    let free = r#"[{"op":"remove","path":"/metadata/finalizers"}]"#;
    let freed = send(client, "PATCH", one, (OPERATIONS, free)).await;
    assert_eq!(freed.status, 200);
    client.call(Call::get(one)).await.refusal(404, "NotFound");
}

/// The commands about objects read what the daemon shows, however deep it is.
#[tokio::test]
async fn commands_read_what_is_as_deep() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let value = nested("[", "]", MOST);
    let made = send(
        &client,
        "POST",
        REVISIONS,
        (JSON, &revision(JSON, "a", &value)),
    )
    .await;
    shows(&made, 201, &value);
    let made = made.text();
    let (_, version) = made.split_once(r#""resourceVersion":""#).unwrap();
    let first = version.split('"').next().unwrap().to_owned();
    let one = format!("{REVISIONS}/a");
    let label = r#"{"metadata":{"labels":{"of":"b"}}}"#;
    let labelled = send(&client, "PATCH", &one, (MERGE, label)).await;
    shows(&labelled, 200, r#""of":"b""#);
    let data = daemon.data().display().to_string();
    let run = move |arguments: &[&str]| {
        let output = taffrail()
            .args(arguments)
            .args(["--data-dir", &data])
            .output()
            .unwrap();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {problem}");
        String::from_utf8(output.stdout).unwrap()
    };
    let object = ["controllerrevision", "a"];
    let outputs = tokio::task::spawn_blocking(move || {
        let get = ["get", "controllerrevision", "a"];
        let outputs = [
            run(&[&get[..], &["-o", "yaml"]].concat()),
            run(&[&get[..], &["-o", "json"]].concat()),
            run(&[&["history"], &object[..]].concat()),
            run(&[&["history"], &object[..], &["-o", "json"]].concat()),
        ];
        assert!(run(&get).contains("AGE"));
        let undone = run(&[&["undo"], &object[..], &["--to", &first]].concat());
        assert!(undone.contains("as it was"), "{undone}");
        outputs
    });
    for text in outputs.await.unwrap() {
        assert!(text.contains(&value), "{}", &text[..text.len().min(300)]);
    }
    let found = client.call(Call::get(&one)).await;
    shows(&found, 200, &value);
    assert!(found.text().contains(r#""of":"a""#));
}

/// A schema as deep as its object may be is read, checked and stored, or refused for what it says.
#[tokio::test]
async fn schemas_are_as_deep_as_any_json() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    for (place, (open, close, levels)) in [
        (r#"{"type":"array","items":"#, "}", 9_992),
        (r#"{"type":"object","properties":{"a":"#, "}}", 4_996),
        (r#"{"type":"object","additionalProperties":"#, "}", 9_992),
        (r#"{"type":"object","not":"#, "}", 9_992),
        (r#"{"type":"object","allOf":["#, "]}", 4_996),
        (r#"{"type":"object","default":{"a":"#, "}}", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let inside = match open.contains("default") {
            true => nested("[", "]", 9_990),
            false => r#"{"type":"object"}"#.to_owned(),
        };
        let levels = levels - 1;
        let schema = format!(
            "{}{inside}{}",
            open.repeat(levels.max(1)),
            close.repeat(levels.max(1))
        );
        let name = format!("as{place}");
        let body = format!(
            r#"{{"metadata":{{"name":"{name}.example.com"}},"spec":{{"group":"example.com",
            "scope":"Cluster","names":{{"plural":"{name}","kind":"A{place}"}},"versions":[{{
            "name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":
            {{"type":"object","properties":{{"x":{schema}}}}}}}}}]}}}}"#
        );
        let answer = send(&client, "POST", DEFINITIONS, (JSON, &body)).await;
        let text: String = answer.text().chars().take(300).collect();
        assert!(
            matches!(answer.status.as_u16(), 201 | 422),
            "{open}: {text}"
        );
    }
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    for accept in [JSON, PROTOBUF, YAML] {
        let call = Call::get(DEFINITIONS).header("accept", accept);
        assert!(client.call(call).await.status.is_success());
    }
}
