//! Refused requests and their messages: the table of http.md 3.10 and the rules around it. Each
//! case is compared with the whole Status that kube-apiserver returned. `tools/facts/errors.py`
//! records them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, configmap};
use crate::replay::difference;

const TABLE: &str = include_str!("../fixtures/errors.json");

/// Cases with another answer than kube-apiserver's, each below a line with the reason. One that
/// agrees has to go.
const GAPS: &str = include_str!("../fixtures/errors-gaps.txt");

fn title(case: &Value) -> String {
    let text = |name: &str| case[name].as_str().unwrap();
    format!("{} {}", text("rule"), text("name"))
}

/// The request of a case.
fn call(case: &Value) -> Call {
    let (method, path) = case["request"].as_str().unwrap().split_once(' ').unwrap();
    let mut call = Call::new(method, path).header("user-agent", "errors/1");
    for (name, value) in case["headers"].as_object().into_iter().flatten() {
        call = call.header(name, value.as_str().unwrap());
    }
    let mut body = match &case["body"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    if let Some(part) = case["repeat"][0].as_str() {
        let times = case["repeat"][1].as_u64().unwrap() as usize;
        body = body.replace("{long}", &part.repeat(times));
    }
    let pad = case["pad"].as_u64().unwrap_or(0) as usize;
    body += &" ".repeat(pad.saturating_sub(body.len()));
    call.body = body.into();
    call
}

/// A text without what differs from run to run: what follows some words, and whole objects.
fn without_changing(text: &str) -> String {
    let mut kept = text.to_owned();
    for mark in ["in record (", "UID in object meta: ", "current: "] {
        if let Some((before, after)) = kept.split_once(mark) {
            let is_changing = |c: char| c.is_ascii_hexdigit() || c == '-';
            let rest = after.trim_start_matches(is_changing);
            let shown = if rest == after { "" } else { "..." };
            kept = format!("{before}{mark}{shown}{rest}");
        }
    }
    let (object, end) = ("Invalid value: \"{\\\"apiVersion", "}\": ");
    if let (Some(from), Some(to)) = (kept.find(object), kept.rfind(end)) {
        kept.replace_range(from..to + end.len(), "Invalid value: ...: ");
    }
    kept
}

fn compared(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_changing(text),
        Value::Array(items) => items.iter_mut().for_each(compared),
        Value::Object(members) => members.values_mut().for_each(compared),
        _ => {}
    }
}

/// The answer to a case, in the form in which the others were recorded.
async fn answer(client: &Client, case: &Value) -> Value {
    let (code, text) = if case.get("event").is_some() {
        let mut lines = client.lines(call(case)).await.unwrap();
        let line = lines.next().await.unwrap().unwrap_or_default();
        (lines.status, String::from_utf8(line.to_vec()).unwrap())
    } else {
        let answer = client.call(call(case)).await;
        (answer.status, answer.text())
    };
    let mut answer = match serde_json::from_str::<Value>(&text) {
        Ok(status) => json!({ "code": code.as_u16(), "status": status }),
        Err(_) => json!({ "code": code.as_u16(), "text": text }),
    };
    compared(&mut answer);
    answer
}

/// Makes the daemon forget what was at the first versions.
async fn compact(daemon: &Daemon, client: &Client) {
    let begun = Instant::now();
    let first = Call::get("/api/v1/events?resourceVersion=2&resourceVersionMatch=Exact");
    while client.call(first.clone()).await.status != 410 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        let data = json!({ "data": { "at": begun.elapsed().as_nanos().to_string() } });
        let write = Call::merge_patch(&configmap("clock"), &data);
        client.call(write).await.expect(200);
        daemon.compact().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn requests_are_refused_in_the_words_of_kube_apiserver() {
    let daemon = Daemon::with(&["--retention-age", "1s"]).await;
    let client = daemon.client();
    let table: Value = serde_json::from_str(TABLE).unwrap();
    let clock = json!({ "metadata": { "name": "clock" } });
    client
        .call(Call::post(CONFIGMAPS, &clock))
        .await
        .expect(201);
    for step in table["before"].as_array().unwrap() {
        let answer = client.call(call(step)).await;
        assert!(answer.status.is_success(), "{step}: {}", answer.text());
    }
    let (late, early): (Vec<&Value>, Vec<&Value>) = table["cases"]
        .as_array()
        .unwrap()
        .iter()
        .partition(|case| case.get("compacted").is_some());
    assert!(early.len() > 400 && late.len() > 2);

    let mut differing = BTreeSet::new();
    let mut report = String::new();
    let gaps: BTreeSet<&str> = GAPS.lines().filter(|line| !line.starts_with('#')).collect();
    let mut compare = async |case: &Value| {
        let (ours, title) = (answer(&client, case).await, title(case));
        if ours != case["answer"] {
            if !gaps.contains(&*title) {
                report += &format!("\n{title}\n{}", difference(&case["answer"], &ours));
            }
            differing.insert(title);
        }
    };
    for case in early {
        compare(case).await;
    }
    compact(&daemon, &client).await;
    for case in late {
        compare(case).await;
    }
    let closed: Vec<&&str> = gaps
        .iter()
        .filter(|gap| !differing.contains(**gap))
        .collect();
    assert!(
        report.is_empty(),
        "{} differ (- wanted, + got):\n{report}",
        differing.len()
    );
    assert!(
        closed.is_empty(),
        "listed gaps that no longer exist: {closed:#?}"
    );
}
