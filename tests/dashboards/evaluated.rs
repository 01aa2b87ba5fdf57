//! A real Prometheus evaluates all rules and the whole board over a daemon under load.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Daemon;
use crate::prometheus::{Prometheus, Tools};
use crate::{assert_none, load, queries, rules};

/// Longer than some scrapes and rounds of the load take on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// The rules of a file, evaluated as often as Prometheus scrapes. Their windows stay as they are: a
/// window of 30 days finds the samples of some seconds, too.
fn often(path: &PathBuf) -> Value {
    let mut document = rules::document(path);
    for group in document["groups"].as_array_mut().unwrap() {
        group.as_object_mut().unwrap().remove("interval");
    }
    document
}

/// What is wrong with the rules now, and what they have not recorded yet.
async fn wrong_with_rules(prometheus: &Prometheus, recorded: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let states = prometheus.rules().await;
    assert!(states.len() > recorded.len(), "rules are not loaded");
    for state in states {
        let said = state["lastError"].as_str().unwrap_or_default();
        if state["health"] != "ok" || !said.is_empty() {
            wrong.push(format!(
                "the rule {} is {}: {said}",
                state["name"], state["health"]
            ));
        }
    }
    for name in recorded {
        let samples = prometheus.query(name).await.unwrap();
        if samples.is_empty() {
            wrong.push(format!("{name} is recorded and has no sample"));
        }
        if samples.iter().any(|sample| sample.value == "NaN") {
            wrong.push(format!("{name} has a sample that is not a number"));
        }
    }
    wrong
}

/// What is wrong with the queries of the board now.
async fn wrong_with_board(prometheus: &Prometheus) -> Vec<String> {
    let asked = queries::ask(prometheus).await;
    let mut wrong = asked.wrong;
    let of_trouble = queries::of_trouble();
    let missing = asked.empty.difference(&of_trouble);
    wrong.extend(missing.map(queries::line));
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_and_board_evaluate_to_data() {
    let Some(tools) = Tools::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let encryption = load::encryption(folder.path(), 1);
    let flags = [&load::FLAGS[..], &[&encryption]].concat();
    let daemon = Daemon::with(&flags).await;
    let mut files = rules::files();
    files.push(rules::apiserver_file());
    let recorded = files
        .iter()
        .flat_map(|path| rules::recorded(&rules::of(path)));
    let recorded: Vec<String> = recorded.collect();
    assert!(recorded.len() > 40, "only {} records", recorded.len());
    let documents: Vec<Value> = files.iter().map(often).collect();
    let scrapes = json!([{
        "job_name": "taffrail",
        "static_configs": [{ "targets": [daemon.metrics_address().to_string()] }],
    }]);
    let prometheus = Prometheus::start(&tools, &scrapes, &documents).await;
    let target = daemon.target();
    let loading = tokio::spawn(async move {
        for number in 0.. {
            load::round(&target, number).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let begun = Instant::now();
    loop {
        let mut wrong = wrong_with_rules(&prometheus, &recorded).await;
        wrong.extend(wrong_with_board(&prometheus).await);
        assert!(
            !loading.is_finished(),
            "a request of the load has failed, see above"
        );
        if wrong.is_empty() {
            break;
        }
        if begun.elapsed() > WITHIN {
            wrong.extend(prometheus.not_scraped().await);
            assert_none(&format!("after {WITHIN:?} of load"), &wrong);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("all is there after {:?}", begun.elapsed());
    loading.abort();
}
