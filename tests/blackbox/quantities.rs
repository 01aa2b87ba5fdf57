//! Quantities beyond the range of machine numbers, and in each notation of bodies (API-254).

use serde_json::json;

use crate::harness::{Call, Daemon};

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const GREAT: &str = "123456789012345678901234567890";

fn volume(name: &str, size: &str) -> Call {
    let body = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":{size}}},
            "accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/tmp"}}}}}}"#
    );
    Call::new("POST", VOLUMES).body("application/json", body)
}

/// A6: what is beyond 10^29 is stored, shown and compared as it is, from texts and from numbers.
#[tokio::test]
async fn great_quantities_are_kept_digit_by_digit() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (name, size, shown) in [
        ("text", format!("\"{GREAT}\""), GREAT),
        ("number", GREAT.to_owned(), GREAT),
        ("exponent", "1e31".to_owned(), "10e30"),
        ("small", "1048576000".to_owned(), "1048576k"),
    ] {
        let created = client.call(volume(name, &size)).await.expect(201);
        assert_eq!(created["spec"]["capacity"]["storage"], shown, "{name}");
        let read = client.call(Call::get(&format!("{VOLUMES}/{name}"))).await;
        assert_eq!(read.expect(200)["spec"]["capacity"]["storage"], shown);
    }
    let negative = client.call(volume("negative", &format!("-{GREAT}"))).await;
    let refused = negative.refusal(422, "Invalid");
    assert!(
        refused.to_string().contains(&format!("-{GREAT}")),
        "{refused}"
    );
}

#[tokio::test]
async fn great_quantities_are_compared_and_may_be_no_integers() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let quota =
        |count: &str| json!({ "metadata": { "name": "a" }, "spec": { "hard": { "pods": count } } });
    let refused = client
        .call(Call::post(QUOTAS, &quota(&format!("{GREAT}.5"))))
        .await;
    let refused = refused.refusal(422, "Invalid");
    assert!(
        refused.to_string().contains("must be an integer"),
        "{refused}"
    );
    let pod = |request: &str, limit: &str| {
        let resources = json!({ "requests": { "memory": request }, "limits": { "memory": limit } });
        json!({ "metadata": { "name": "a" }, "spec": { "containers": [
            { "name": "c", "image": "i", "resources": resources },
        ] } })
    };
    let more = "123456789012345678901234567891";
    let refused = client.call(Call::post(PODS, &pod(more, GREAT))).await;
    let refused = refused.refusal(422, "Invalid");
    let said = format!("must be less than or equal to memory limit of {GREAT}");
    assert!(refused.to_string().contains(&said), "{refused}");
    let created = client
        .call(Call::post(PODS, &pod(GREAT, more)))
        .await
        .expect(201);
    let kept = &created["spec"]["containers"][0]["resources"];
    assert_eq!(
        (&kept["requests"]["memory"], &kept["limits"]["memory"]),
        (&json!(GREAT), &json!(more))
    );
}

/// Go reads a number as it is written, not as a binary fraction prints it.
#[tokio::test]
async fn numbers_are_read_as_they_are_written() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (place, (number, shown)) in [
        ("0.000001", "1m"),
        ("0.00000001", "1m"),
        ("0.25", "250m"),
        ("1e3", "1e3"),
        ("1.0", "1"),
    ]
    .into_iter()
    .enumerate()
    {
        for format in ["application/json", "application/yaml"] {
            let name = format!("p{place}-{}", &format[12..]);
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[
                    {{"name":"c","image":"i","resources":{{"limits":{{"cpu":{number}}}}}}}]}}}}"#
            );
            let call = Call::new("POST", PODS).body(format, body);
            let created = client.call(call).await.expect(201);
            let cpu = &created["spec"]["containers"][0]["resources"]["limits"]["cpu"];
            // YAML becomes JSON first, which writes the number in its own way.
            let shown = match (number, format.ends_with("yaml")) {
                ("1e3", true) => "1k",
                ("0.00000001", true) => "1e-3",
                _ => shown,
            };
            assert_eq!(cpu, shown, "{number} as {format}");
        }
    }
}
