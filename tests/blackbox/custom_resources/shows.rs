//! Tables, field selectors and collections of custom resources (crd.md 11 and 13).

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{LAMPS, definition, establish, gone, lamp, lamps, over_each, path_of, until, version};
use crate::harness::{Answer, Call, Client, Daemon, Kubectl};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn with(members: &Value) -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": members}}})
}

/// A version with fields for selectors. Versions that share a schema could not have their own.
fn selectable(name: &str, is_storage: bool, paths: &[&str]) -> Value {
    let members = json!({"colour": {"type": "string"}, "watts": {"type": "integer"},
        "on": {"type": "boolean"}, name: {"type": "string"}});
    let mut version = version(name, is_storage, &with(&members));
    let paths = paths.iter().map(|path| json!({"jsonPath": path}));
    version["selectableFields"] = paths.collect();
    version
}

async fn set_versions(client: &Client, versions: &Value) {
    let patch = json!({"spec": {"versions": versions}});
    let patch = Call::merge_patch(&path_of(&lamps()), &patch);
    client.call(patch).await.expect(200);
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let list = client.call(Call::get(path)).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    let names = items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

async fn table(client: &Client, path: &str) -> Answer {
    client.call(Call::get(path).header("accept", TABLE)).await
}

/// CRD-198, CRD-199, CRD-200, CRD-201, CRD-218: selectors by fields, in lists, watches and
/// deletions, each version with its own, and after the definition was changed and deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_select_objects_crd_198_crd_199_crd_200() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let versions = json!([
            selectable("v1", true, &[".spec.colour", ".spec.on"]),
            selectable("v2", false, &[".spec.watts"]),
        ]);
        establish(&client, &definition("lamps", "Lamp", &versions)).await;
        for (name, spec) in [
            ("a", json!({"colour": "red", "watts": 5, "on": true})),
            ("b", json!({"colour": "red", "watts": 6, "on": false})),
            ("c", json!({"colour": "blue", "watts": 5})),
            ("d", json!({})),
        ] {
            client
                .call(Call::post(LAMPS, &lamp(name, spec)))
                .await
                .expect(201);
        }
        let v2 = LAMPS.replace("/v1/", "/v2/");
        for (path, selector, wanted) in [
            (LAMPS, "spec.colour=red", vec!["a", "b"]),
            (LAMPS, "spec.colour=", vec!["d"]),
            (LAMPS, "spec.colour!=red", vec!["c", "d"]),
            (LAMPS, "spec.on=true", vec!["a"]),
            (LAMPS, "spec.on=false,spec.colour=red", vec!["b"]),
            (LAMPS, "spec.colour=red,metadata.name=b", vec!["b"]),
            (LAMPS, "spec.colour=green", vec![]),
            (&v2, "spec.watts=5", vec!["a", "c"]),
            (&v2, "metadata.namespace=default,spec.watts=6", vec!["b"]),
        ] {
            let path = format!("{path}?fieldSelector={selector}");
            assert_eq!(names(&client, &path).await, wanted, "{path}");
        }
        for (path, label) in [(LAMPS, "spec.watts"), (&v2, "spec.colour")] {
            for options in ["", "&watch=true"] {
                let path = format!("{path}?fieldSelector={label}%3D5{options}");
                let refused = client
                    .call(Call::get(&path))
                    .await
                    .refusal(400, "BadRequest");
                let wanted = format!("field label not supported: {label}");
                assert_eq!(refused["message"], wanted);
            }
        }
        let red = format!("{LAMPS}?fieldSelector=spec.colour%3Dred&watch=true");
        let mut watch = client.watch(&red).await;
        let next = async |watch: &mut crate::harness::Lines| {
            let event = watch.event().await;
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let object = &event["object"];
            let version = text(&object["metadata"]["resourceVersion"]);
            let what = format!(
                "{} {}",
                text(&event["type"]),
                text(&object["metadata"]["name"])
            );
            (what, object["spec"].clone(), version)
        };
        assert_eq!(next(&mut watch).await.0, "ADDED a");
        assert_eq!(next(&mut watch).await.0, "ADDED b");
        let colour = |colour: &str| json!({"spec": {"colour": colour}});
        for (name, change, wanted) in [
            ("c", "red", "ADDED c"),
            ("a", "blue", "DELETED a"),
            ("a", "red", "ADDED a"),
        ] {
            let path = format!("{LAMPS}/{name}");
            let patched = client
                .call(Call::merge_patch(&path, &colour(change)))
                .await
                .expect(200);
            let (what, spec, version) = next(&mut watch).await;
            assert_eq!(
                (what.as_str(), version.as_str()),
                (
                    wanted,
                    patched["metadata"]["resourceVersion"].as_str().unwrap()
                )
            );
            // One that leaves is shown as it was when it was selected (CRD-218).
            assert_eq!(spec["colour"], "red");
        }
        let deleted = format!("{LAMPS}?fieldSelector=spec.on%3Dfalse");
        client.call(Call::delete(&deleted)).await.expect(200);
        assert_eq!(next(&mut watch).await.0, "DELETED b");
        // Without the field the watch ends, and the selector is unknown.
        set_versions(&client, &json!([selectable("v1", true, &[".spec.watts"])])).await;
        assert_eq!(watch.rest().await, [Value::Null; 0]);
        let is_unknown = |answer: &Answer| answer.status == 400;
        let list = || Call::get(&format!("{LAMPS}?fieldSelector=spec.colour%3Dred"));
        until(&client, list, is_unknown).await;
        let path = format!("{LAMPS}?fieldSelector=spec.watts%3D5");
        assert_eq!(names(&client, &path).await, ["a", "c"]);
        // The end of the definition deletes what the selector selects.
        let mut watch = client.watch(&format!("{path}&watch=true")).await;
        for wanted in ["ADDED a", "ADDED c"] {
            assert_eq!(next(&mut watch).await.0, wanted);
        }
        client
            .call(Call::delete(&path_of(&lamps())))
            .await
            .expect(200);
        gone(&client, &path_of(&lamps())).await;
        let events = watch.rest().await;
        let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
        assert_eq!(kinds.collect::<Vec<_>>(), ["DELETED", "DELETED"]);
    })
    .await;
}

/// CRD-195, CRD-196, CRD-197: columns of each type, of paths that find nothing or too much, and
/// after they were changed and removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_show_what_their_paths_find_crd_195_crd_196_crd_197() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut v1 = version("v1", true, &with(&json!({"free": free})));
        let column = |name: &str, kind: &str, path: &str| {
            json!({"name": name, "type": kind, "jsonPath": format!(".spec.free{path}")})
        };
        v1["additionalPrinterColumns"] = json!([
            column("whole", "integer", ".float"),
            column("text", "integer", ".text"),
            column("number", "number", ".whole"),
            column("truth", "boolean", ".truth"),
            column("a truth", "boolean", ".text"),
            column("long ago", "date", ".then"),
            column("later", "date", ".later"),
            column("no date", "date", ".text"),
            column("a list", "string", ".list"),
            column("an object", "string", ".object"),
            column("a number", "string", ".float"),
            column("null", "string", ".null"),
            column("nothing", "string", ".absent.at.all"),
            column("first", "string", ".list[*].a"),
            column("last", "integer", ".list[-1].a"),
            column("chosen", "integer", ".list[?(@.b==\"y\")].a"),
            column("beyond", "string", ".list[9].a"),
            column("escaped", "string", ".object.a\\.b"),
        ]);
        establish(&client, &definition("lamps", "Lamp", &json!([v1]))).await;
        let free = json!({"float": 2.9, "text": "t", "whole": 3, "truth": true,
            "then": "2000-01-01T00:00:00Z", "later": "2999-01-01T00:00:00Z", "null": null,
            "list": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "object": {"a.b": "dotted"}});
        let made = lamp("a", json!({"free": free}));
        client.call(Call::post(LAMPS, &made)).await.expect(201);
        let shown = table(&client, LAMPS).await.expect(200);
        let cells = shown["rows"][0]["cells"].as_array().unwrap();
        let wanted = [
            json!("a"),
            json!(2),
            Value::Null,
            json!(3),
            json!(true),
            Value::Null,
            cells[6].clone(),
            json!("<invalid>"),
            json!("<invalid>"),
            json!("[{\"a\":1,\"b\":\"x\"},{\"a\":2,\"b\":\"y\"}]"),
            json!("{\"a.b\":\"dotted\"}"),
            json!("2.9"),
            json!("<no value>"),
            Value::Null,
            json!("1"),
            json!(2),
            json!(2),
            Value::Null,
            json!("dotted"),
        ];
        assert!(cells[6].as_str().unwrap().ends_with('y'), "{}", cells[6]);
        let of_columns = shown["columnDefinitions"].as_array().unwrap();
        for (at, of) in of_columns.iter().enumerate() {
            assert_eq!(cells.get(at), wanted.get(at), "{of}");
        }
        let description = "Custom resource definition column (in JSONPath format): .spec.free.float";
        assert_eq!(of_columns[1]["description"], description);
        // Changed, and then removed: the usual column.
        let mut one = version("v1", true, &with(&json!({})));
        one["additionalPrinterColumns"] = json!([
            {"name": "Only", "type": "string", "jsonPath": ".metadata.name", "priority": 1,
                "description": "d", "format": "byte"}]);
        set_versions(&client, &json!([one])).await;
        let has = |name: &'static str| {
            move |answer: &Answer| answer.json()["columnDefinitions"][1]["name"] == name
        };
        let call = || Call::get(LAMPS).header("accept", TABLE);
        let shown = until(&client, call, has("Only")).await.json();
        assert_eq!(
            shown["columnDefinitions"][1],
            json!({"name": "Only", "type": "string", "format": "byte", "description": "d",
                "priority": 1})
        );
        set_versions(&client, &json!([version("v1", true, &with(&json!({})))])).await;
        let shown = until(&client, call, has("Age")).await.json();
        assert_eq!(shown["columnDefinitions"].as_array().unwrap().len(), 2);
    })
    .await;
}

/// CRD-195: kubectl shows columns with a priority only when it is asked for more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_columns_by_priority_crd_195() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let members = json!({"colour": {"type": "string"}, "watts": {"type": "integer"}});
    let mut v1 = version("v1", true, &with(&members));
    v1["additionalPrinterColumns"] = json!([
        {"name": "Watts", "type": "integer", "jsonPath": ".spec.watts"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1}]);
    establish(&client, &definition("lamps", "Lamp", &json!([v1]))).await;
    for (name, spec) in [
        ("a", json!({"colour": "red", "watts": 5})),
        ("b", json!({})),
    ] {
        client
            .call(Call::post(LAMPS, &lamp(name, spec)))
            .await
            .expect(201);
    }
    for version in ["1.20", "1.32", "1.36"] {
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        let words = |text: &str| -> Vec<Vec<String>> {
            let lines = text.lines();
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            lines.map(words).collect()
        };
        let shown = kubectl.ok(&["get", "lamps"]).await;
        assert_eq!(
            words(&shown),
            [vec!["NAME", "WATTS"], vec!["a", "5"], vec!["b"]]
        );
        let wide = kubectl.ok(&["get", "lamps", "-o", "wide"]).await;
        assert_eq!(
            words(&wide),
            [
                vec!["NAME", "WATTS", "COLOUR"],
                vec!["a", "5", "red"],
                vec!["b"]
            ]
        );
    }
}

/// CRD-202: pages, kinds and versions of lists are those of built-in resources, and a list of mixed
/// stored versions is shown in one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_pages_and_one_version_crd_202() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let form = with(&json!({"n": {"type": "integer"}}));
        let versions = |stored: &str| {
            json!([
                version("v1", stored == "v1", &form),
                version("v2", stored == "v2", &form)
            ])
        };
        let mut lamps = definition("lamps", "Lamp", &versions("v1"));
        lamps["spec"]["names"]["listKind"] = json!("Lampery");
        establish(&client, &lamps).await;
        client
            .call(Call::post(LAMPS, &lamp("a", json!({"n": 1}))))
            .await
            .expect(201);
        set_versions(&client, &versions("v2")).await;
        client
            .call(Call::post(LAMPS, &lamp("b", json!({"n": 2}))))
            .await
            .expect(201);
        for version in ["v1", "v2"] {
            let path = LAMPS.replace("/v1/", &format!("/{version}/"));
            let path = format!("{path}?limit=1");
            let page = client.call(Call::get(&path)).await.expect(200);
            assert_eq!(page["kind"], "Lampery");
            assert_eq!(page["metadata"]["remainingItemCount"], 1);
            let token = page["metadata"]["continue"].as_str().unwrap();
            let rest = format!("{path}&continue={token}");
            let rest = client.call(Call::get(&rest)).await.expect(200);
            for item in [&page["items"][0], &rest["items"][0]] {
                assert_eq!(item["apiVersion"], format!("example.com/{version}"));
            }
            let initial = "&watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                           &resourceVersionMatch=NotOlderThan";
            let path = LAMPS.replace("/v1/", &format!("/{version}/"));
            let mut watch = client.watch(&format!("{path}?{}", &initial[1..])).await;
            for wanted in ["ADDED", "ADDED", "BOOKMARK"] {
                let event = watch.event().await;
                assert_eq!(event["type"], wanted);
                let of = format!("example.com/{version}");
                assert_eq!(event["object"]["apiVersion"], of);
            }
        }
    })
    .await;
}

/// Returns the text of a list that was sent compressed.
async fn unpacked(client: &Client, path: &str, accept: &str) -> String {
    let call = Call::get(path).header("accept-encoding", "gzip");
    let packed = client.call(call.header("accept", accept)).await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
    let mut text = String::new();
    let mut reader = GzDecoder::new(&*packed.body);
    reader.read_to_string(&mut text).unwrap();
    text
}

/// A list without its version, which is the first one in the text. Writes of the daemon to other
/// resources move it between two lists.
fn undated(list: &str) -> String {
    const MEMBER: &str = "\"resourceVersion\":\"";
    let (before, version) = list.split_once(MEMBER).expect("a list has a version");
    let (_, rest) = version.split_once('"').unwrap();
    format!("{before}{MEMBER}\"{rest}")
}

/// API-65: a compressed list is the same list, in each version and form, again and after
/// a change. Versions share the compressed parts of no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_lists_are_the_same_lists_in_each_version_api_65() {
    const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let same = with(&json!({"colour": {"type": "string"}, "watts": {"type": "integer"}}));
        let other = with(&json!({"watts": {"type": "integer"}}));
        let versions = json!([
            version("v1", true, &same),
            version("v2", false, &same),
            version("v3", false, &other),
        ]);
        establish(&client, &definition("lamps", "Lamp", &versions)).await;
        for number in 0..300 {
            let spec = json!({"colour": "c".repeat(1000), "watts": number});
            let made = lamp(&format!("lamp-{number:03}"), spec);
            client.call(Call::post(LAMPS, &made)).await.expect(201);
        }
        for round in 0..3 {
            for version in ["v1", "v2", "v3", "v2", "v1"] {
                let path = LAMPS.replace("v1", version);
                for accept in ["application/json", METADATA] {
                    let plain = client.call(Call::get(&path).header("accept", accept)).await;
                    let packed = unpacked(&client, &path, accept).await;
                    let (plain, packed) = (undated(&plain.text()), undated(&packed));
                    assert_eq!(plain, packed, "{round} {version} {accept}");
                }
                let list = unpacked(&client, &path, "application/json").await;
                let list: Value = serde_json::from_str(&list).unwrap();
                let items = list["items"].as_array().unwrap();
                let of_version = format!("example.com/{version}");
                assert_eq!(items.len(), 300);
                assert!(items.iter().all(|item| item["apiVersion"] == *of_version));
            }
            let patch = json!({"spec": {"watts": 1000 + round}});
            let one = format!("{LAMPS}/lamp-150");
            client
                .call(Call::merge_patch(&one, &patch))
                .await
                .expect(200);
        }
    })
    .await;
}
