//! Limits on the memory, storage and response of a request, beyond the limit on its length.

use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The limit on a Status and on warnings.
const ANSWER_BYTES: usize = 100 * 1024;

/// The limit on a Status that shows what a refused patch made of an object.
const PATCHED_BYTES: usize = 600 * 1024;

/// The size of an answer: its body and its headers.
fn bytes(answer: &Answer) -> usize {
    let headers = answer.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
    answer.body.len() + headers.sum::<usize>()
}

/// A body of 2.8 MB: two long names, one inside the other, above 200 members that are given twice.
fn duplicates_below_long_names() -> String {
    let (outer, inner) = ("o".repeat(1_400_000), "i".repeat(1_400_000));
    let members: String = (0..200).map(|n| format!(r#""{n}":1,"{n}":1,"#)).collect();
    format!(r#"{{"metadata":{{"name":"a"}},"{outer}":{{"{inner}":{{{members}"z":1}}}}}}"#)
}

#[tokio::test]
async fn duplicates_below_long_names_cost_little_and_are_told_shortly() {
    // API-88, API-90.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let before = daemon.peak();
    for _ in 0..3 {
        let path = format!("{CONFIGMAPS}?fieldValidation=Strict");
        let post = Call::new("POST", &path).body("application/json", duplicates_below_long_names());
        let answer = client.call(post).await;
        assert!(bytes(&answer) < ANSWER_BYTES, "{} bytes", bytes(&answer));
        let status = answer.refusal(400, "BadRequest");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("strict decoding error: unknown field \"ooo"));
    }
    let warned = Call::new("POST", &format!("{CONFIGMAPS}?dryRun=All"))
        .body("application/json", duplicates_below_long_names());
    let answer = client.call(warned).await;
    assert!(answer.headers.get_all("warning").iter().count() > 0);
    let headers: usize = answer.headers.values().map(|value| value.len()).sum();
    assert!(headers < 16 * 1024, "{headers} bytes of headers");
    answer.expect(201);
    let existing = body("a", "1");
    client
        .call(Call::post(CONFIGMAPS, &existing))
        .await
        .expect(201);
    let patch = Call::new(
        "PATCH",
        &format!("{}?fieldValidation=Strict", configmap("a")),
    )
    .body(
        "application/merge-patch+json",
        duplicates_below_long_names(),
    );
    let answer = client.call(patch).await;
    assert!(bytes(&answer) < PATCHED_BYTES, "{} bytes", bytes(&answer));
    answer.refusal(422, "Invalid");
    let grown = daemon.peak() - before;
    assert!(grown < 100.0, "{grown} MiB for bodies of 2.8 MB");
}

#[tokio::test]
async fn no_answer_repeats_much_of_its_request() {
    // API-148.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let existing = body("a", "1");
    client
        .call(Call::post(CONFIGMAPS, &existing))
        .await
        .expect(201);
    let before = daemon.peak();
    let mut calls = Vec::new();
    for text in ["x", "\"", "\u{1}"] {
        let long = text.repeat(1 << 20);
        let short = |bytes: usize| text.repeat(bytes);
        let metadata = |metadata: Value| json!({ "metadata": metadata });
        let owner = |name: &str| json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true });
        calls.extend([
            Call::post(CONFIGMAPS, &metadata(json!({ "name": long }))),
            Call::post(CONFIGMAPS, &metadata(json!({ "generateName": long }))),
            Call::post(
                CONFIGMAPS,
                &metadata(json!({ "name": "b", "namespace": long })),
            ),
            Call::post(
                CONFIGMAPS,
                &metadata(json!({ "name": "b", "labels": { "a": long } })),
            ),
            Call::post(
                CONFIGMAPS,
                &metadata(json!({ "name": "b", "creationTimestamp": long })),
            ),
            Call::post(CONFIGMAPS, &json!({ "kind": long })),
            Call::post(CONFIGMAPS, &json!({ "apiVersion": long })),
            Call::put(&configmap("a"), &metadata(json!({ "name": long }))),
            Call::put(
                &configmap("a"),
                &metadata(json!({ "name": "a", "resourceVersion": long })),
            ),
            Call::put(
                &configmap("a"),
                &metadata(json!({ "name": "a", "uid": long })),
            ),
            Call::merge_patch(&configmap("a"), &json!({ "metadata": long })),
            Call::merge_patch(
                &format!("{}?fieldValidation=Strict", configmap("a")),
                &metadata(json!({ "colour": long })),
            ),
            Call::json("DELETE", &configmap("a"), &json!({ "kind": long })),
            Call::json("DELETE", &configmap("a"), &json!({ "dryRun": [long] })),
            Call::json(
                "DELETE",
                &configmap("a"),
                &json!({ "propagationPolicy": long }),
            ),
            Call::json(
                "DELETE",
                &configmap("a"),
                &json!({ "preconditions": { "uid": long } }),
            ),
            Call::json(
                "DELETE",
                &configmap("a"),
                &json!({ "preconditions": { "resourceVersion": long } }),
            ),
            // The whole text is shown once for each of its parts.
            Call::post(
                CONFIGMAPS,
                &metadata(json!({
                    "name": "b", "ownerReferences": vec![owner("n"); 2_000],
                })),
            ),
            Call::post(
                CONFIGMAPS,
                &metadata(json!({
                    "name": "b", "ownerReferences": [owner(&long), owner(&long), owner("n")],
                })),
            ),
            Call::post(
                CONFIGMAPS,
                &metadata(json!({
                    "name": "b", "finalizers": (0..2_000).map(&short).collect::<Vec<_>>(),
                })),
            ),
            Call::new("POST", CONFIGMAPS).body("application/yaml", format!("a: *{long}")),
            Call::new("POST", CONFIGMAPS).body("application/yaml", format!("!<{long}> a: b")),
        ]);
        let escaped: String = short(6_000)
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        for parameter in [
            "fieldManager",
            "dryRun",
            "fieldValidation",
            "labelSelector",
            "fieldSelector",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "limit",
            "timeout",
            "timeoutSeconds",
            "gracePeriodSeconds",
            "propagationPolicy",
            "includeObject",
        ] {
            let path = |path: &str| format!("{path}?{parameter}={escaped}");
            calls.push(Call::get(&path(CONFIGMAPS)));
            calls.push(
                Call::get(&format!("{}&watch=1", path(CONFIGMAPS)))
                    .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1"),
            );
            calls.push(Call::post(&path(CONFIGMAPS), &body("b", "1")));
            calls.push(Call::delete(&path(&configmap("none"))));
        }
    }
    let mut refused = 0;
    for call in calls {
        let what: String = format!("{} {}", call.method, call.path)
            .chars()
            .take(120)
            .collect();
        // An accepted watch does not end.
        let is_watch = call.path.contains("watch=1");
        let limit = match call.method.as_str() {
            "PATCH" => PATCHED_BYTES,
            _ => ANSWER_BYTES,
        };
        let answer = match is_watch {
            true => match client.lines(call).await.unwrap() {
                lines if lines.status.is_success() => continue,
                lines => lines.whole().await.unwrap().len(),
            },
            false => {
                let answer = client.call(call).await;
                refused += usize::from(answer.status.is_client_error());
                bytes(&answer)
            }
        };
        assert!(answer < limit, "{what}: {answer} bytes");
    }
    assert!(refused > 100, "{refused} refusals");
    let grown = daemon.peak() - before;
    assert!(grown < 100.0, "{grown} MiB");
}

#[tokio::test]
async fn a_body_that_stands_for_hundreds_of_megabytes_is_refused() {
    // API-88, API-159.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    // Their data is any JSON, which is kept.
    let all = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let one = format!("{all}/a");
    let small = json!({"metadata": {"name": "a"}, "revision": 1, "data": {}});
    client.call(Call::post(all, &small)).await.expect(201);
    let before = daemon.peak();
    let objects = format!("[{}0]", r#"{"":0},"#.repeat(400_000));
    let document = format!(r#"{{"metadata":{{"name":"b"}},"revision":1,"data":{objects}}}"#);
    let patch = format!(r#"[{{"op":"add","path":"/data/x","value":{objects}}}]"#);
    let small = format!("[{}0]", r#"{"":0},"#.repeat(20_000));
    let copies =
        (0..20).map(|n| format!(r#",{{"op":"copy","from":"/data/x","path":"/data/x{n}"}}"#));
    let copied = format!(
        r#"[{{"op":"add","path":"/data/x","value":{small}}}{}]"#,
        copies.collect::<String>()
    );
    let json_patch = "application/json-patch+json";
    for (call, code) in [
        (
            Call::new("POST", all).body("application/json", document.clone()),
            400,
        ),
        (
            Call::new("POST", all).body("application/yaml", document.clone()),
            400,
        ),
        (
            Call::new("PUT", &one).body("application/json", document),
            400,
        ),
        (Call::new("PATCH", &one).body(json_patch, patch), 400),
        (Call::new("PATCH", &one).body(json_patch, copied), 422),
    ] {
        let what = format!("{} {:?}", call.method, call.headers);
        let answer = client.call(call).await;
        assert!(
            bytes(&answer) < ANSWER_BYTES,
            "{what}: {} bytes",
            bytes(&answer)
        );
        assert_eq!(answer.status.as_u16(), code, "{what}: {}", answer.text());
    }
    let grown = daemon.peak() - before;
    assert!(grown < 160.0, "{grown} MiB");
}

#[tokio::test]
async fn only_what_can_be_a_field_manager_is_written_down() {
    // API-81, API-155.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let long = "manager".repeat(5_000);
    let path = format!("{}?fieldManager={long}", configmap("a"));
    client.call(Call::delete(&path)).await.expect(200);
    let mut read = 0;
    for entry in std::fs::read_dir(daemon.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let file = std::fs::read(&path).unwrap();
            read += file.len();
            let found = file
                .windows(140)
                .any(|part| part == &long.as_bytes()[..140]);
            assert!(!found, "{} holds it", path.display());
        }
    }
    assert!(read > 0);
}

#[tokio::test]
async fn a_watch_keeps_a_few_times_its_selector() {
    // API-87.
    const WATCHES: usize = 50;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let keys: Vec<String> = (0..17_576_u32)
        .map(|n| {
            [n / 676, n / 26 % 26, n % 26]
                .map(|at| char::from(b'a' + at as u8))
                .iter()
                .collect()
        })
        .collect();
    let selector = keys[..14_000].join(",");
    let path = |n: usize| format!("{CONFIGMAPS}?watch=1&labelSelector={selector},x{n}");
    let first = client.watch(&path(WATCHES)).await;
    let before = daemon.resident();
    let mut watches = Vec::new();
    for n in 0..WATCHES {
        watches.push(client.watch(&path(n)).await);
    }
    let grown = daemon.resident() - before;
    let given = (path(0).len() * WATCHES) as f64 / f64::from(1 << 20);
    assert!(
        grown < 10.0 * given,
        "{given} MiB of selectors take {grown}"
    );
    drop((first, watches));
}

#[tokio::test]
async fn names_hold_no_control_characters() {
    // API-200.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let event = |name: &str| {
        json!({
            "metadata": { "name": name },
            "involvedObject": { "namespace": "default", "kind": "Pod", "name": "p" },
        })
    };
    for name in [
        "a\u{1b}[2Jb",
        "a\nb",
        "a\tb",
        "a\u{0}",
        "a\u{7f}",
        "a\u{9b}31m",
    ] {
        let status = client
            .call(Call::post(EVENTS, &event(name)))
            .await
            .refusal(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], "metadata.name", "{status}");
        let message = cause["message"].as_str().unwrap();
        assert!(
            message.ends_with("may not contain control characters"),
            "{message}"
        );
        assert!(!message.contains(char::is_control), "{message}");
        // A PUT that would create it, and a name that is to be generated.
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let put = Call::put(&format!("{EVENTS}/{escaped}"), &event(name));
        client.call(put).await.refusal(422, "Invalid");
        let generated = json!({ "metadata": { "generateName": name } });
        client
            .call(Call::post(EVENTS, &generated))
            .await
            .refusal(422, "Invalid");
    }
    for name in ["a.17f3e2d4c5b6a798", "A_b:c d", "ä"] {
        client
            .call(Call::post(EVENTS, &event(name)))
            .await
            .expect(201);
    }
    let listed = client.call(Call::get(EVENTS)).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_document_far_inside_is_not_indented() {
    const DEPTH: usize = 90;
    const GROWTH_MAX_MIB: f64 = 60.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let inside = format!(
        "{}{}{}",
        "[".repeat(DEPTH),
        vec!["0"; 500_000].join(","),
        "]".repeat(DEPTH)
    );
    let body = format!(r#"{{"metadata":{{"name":"deep"}},"z":{inside}}}"#);
    let length = body.len();
    let post = Call::new("POST", CONFIGMAPS).body("application/json", body);
    client.call(post).await.expect(201);
    let before = daemon.peak();
    let path = configmap("deep");
    for (path, accept) in [
        (path.clone(), "application/yaml"),
        (format!("{path}?pretty=true"), "application/json"),
        (CONFIGMAPS.to_owned(), "application/yaml"),
        (format!("{CONFIGMAPS}?pretty=true"), "application/json"),
    ] {
        let answer = client.call(Call::get(&path).header("accept", accept)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some(accept));
        assert!(answer.body.len() < 2 * length, "{}", answer.body.len());
    }
    let grown = daemon.peak() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");
}
