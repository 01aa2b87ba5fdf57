//! Bodies of all built-in kinds, generated from their types, and kube-apiserver's responses to
//! their creates. `tools/facts/sweep.py` records them.

use futures_util::future::join_all;
use serde_json::Value;

use crate::harness::client::Answer;
use crate::harness::{Call, Client, Daemon, HELD, PROTECTED, Protocol};

use super::{
    CONNECTIONS, Difference, cases, compared, difference, only_gaps, text, without_random_names,
};

const CASES: &[u8] = include_bytes!("../../fixtures/sweep.json.gz");

const GAPS: &str = include_str!("../../fixtures/sweep-gaps.txt");

async fn answer(client: &Client, case: &Value) -> Answer {
    if case.get("before").is_some() {
        return replaced(client, case).await;
    }
    let body = match case.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => case["body"].to_string(),
    };
    let call = Call::new("POST", text(case, "path")).body("application/json", body);
    client.call(call).await
}

/// The answer to a body that replaces an object of the same name, or a part of it.
async fn replaced(client: &Client, case: &Value) -> Answer {
    let at = text(case, "at");
    let (collection, _) = at.rsplit_once('/').unwrap();
    let made = client.call(Call::post(collection, &case["before"])).await;
    let answer = put_over(client, case, &made.expect(201)).await;
    // A Service has taken any port and address, which another case may ask for (API-228).
    client.call(Call::delete(at)).await;
    answer
}

/// Sends the body with the version of the object until the server's own controllers, which write
/// the status of a new CustomResourceDefinition, do not change the object in between.
async fn put_over(client: &Client, case: &Value, made: &Value) -> Answer {
    let mut body = case["body"].clone();
    let mut version = made["metadata"]["resourceVersion"].clone();
    loop {
        body["metadata"]["resourceVersion"] = version.clone();
        let answer = client.call(Call::put(text(case, "path"), &body)).await;
        if answer.status != 409 {
            return answer;
        }
        let now = client.call(Call::get(text(case, "at"))).await.expect(200);
        if now["metadata"]["resourceVersion"] == version {
            return answer;
        }
        version = now["metadata"]["resourceVersion"].clone();
    }
}

async fn compare(client: &Client, case: &Value) -> Option<Difference> {
    let found = answer(client, case).await;
    let ours = compared(
        found.status.as_u16(),
        without_random_names(&found.text()),
        "UID",
    );
    difference(case, ours, case["answer"].clone())
}

/// All differences, in the order of the cases.
async fn differences(daemon: &Daemon, cases: &[Value]) -> Vec<Difference> {
    let share = cases.len().div_ceil(CONNECTIONS);
    let shares = cases.chunks(share).map(|share| async move {
        let client = daemon.target().client_over(Protocol::Http2);
        let mut found = Vec::new();
        for case in share {
            found.extend(compare(&client, case).await);
        }
        found
    });
    join_all(shares).await.into_iter().flatten().collect()
}

#[tokio::test]
async fn generated_bodies_of_all_kinds_are_answered_as_by_kube_apiserver() {
    let daemon = Daemon::with(&[PROTECTED, HELD]).await;
    let cases = cases(CASES);
    assert!(cases.len() > 5000, "{} cases", cases.len());
    only_gaps(&differences(&daemon, &cases).await, GAPS, "sweep.txt");
}
