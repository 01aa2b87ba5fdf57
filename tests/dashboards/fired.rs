//! Alerts fire for daemons in trouble, and stay quiet for a healthy daemon. The board shows the
//! troubles, too.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Daemon;
use crate::process::Running;
use crate::prometheus::{Prometheus, Tools};
use crate::troubles::Troubles;
use crate::{assert_none, dashboards, queries, rules};

/// Longer than all troubles take on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// The window that takes the place of all others.
const WINDOW: &str = "15s";

/// What must fire, and on which daemon. The budget is that of the job.
const EXPECTED: [(&str, &str); 16] = [
    ("TaffrailDown", "gone"),
    ("TaffrailNotReady", "waiting"),
    ("TaffrailCertificateExpiresSoon", "full"),
    ("TaffrailCertificateExpires", "full"),
    ("TaffrailWritesRefused", "full"),
    ("TaffrailDiskReserveNear", "full"),
    ("TaffrailErrors", "full"),
    ("TaffrailCredentialsRefused", "full"),
    ("TaffrailErrorBudgetBurns", ""),
    ("TaffrailUnreadableValues", "locked"),
    ("TaffrailEncryptionFails", "locked"),
    ("TaffrailStalled", "faulty"),
    ("TaffrailStalls", "faulty"),
    ("TaffrailActorRestarts", "faulty"),
    ("TaffrailActorsDegraded", "faulty"),
    ("TaffrailTooManyRequests", "faulty"),
];

/// What a machine that is busy for a second may have fire on any daemon, as nothing waits here.
const OF_BUSY_MACHINES: [&str; 2] = ["TaffrailDown", "TaffrailSlowCommits"];

/// A file of rules for a test that must not take hours: alerts wait for nothing (`for: 0s`), each
/// group is evaluated with each scrape, and windows and offsets are shorter. Thresholds stay.
fn shortened(name: &str) -> Value {
    let mut document = rules::document(&dashboards(name));
    for group in document["groups"].as_array_mut().unwrap() {
        group.as_object_mut().unwrap().remove("interval");
        for rule in group["rules"].as_array_mut().unwrap() {
            let mut text = rule["expr"].as_str().unwrap().to_owned();
            for long in [
                "5m", "10m", "15m", "30m", "1h", "2h", "6h", "1d", "3d", "30d",
            ] {
                text = text
                    .replace(&format!("[{long}]"), &format!("[{WINDOW}]"))
                    .replace(&format!("offset {long}"), &format!("offset {WINDOW}"));
            }
            rule["expr"] = text.into();
            if rule["alert"].is_string() {
                rule["for"] = "0s".into();
            }
        }
    }
    document
}

/// The alerts that have fired so far, with their instances.
async fn fired(prometheus: &Prometheus) -> BTreeSet<(String, String)> {
    let ever = "last_over_time(ALERTS{alertstate=\"firing\"}[10m])";
    let alerts = prometheus.query(ever).await.unwrap().into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    alerts
        .map(|alert| {
            let labels = &alert.labels;
            (text(&labels["alertname"]), text(&labels["instance"]))
        })
        .collect()
}

/// Waits until all that must fire has fired, and until each panel about troubles has shown one.
async fn all_have_fired(prometheus: &Prometheus) {
    let begun = Instant::now();
    let mut unseen = queries::of_trouble();
    loop {
        let asked = queries::ask_ever(prometheus, &unseen).await;
        assert_none("the board", &asked.wrong);
        unseen = asked.empty;
        let fired = fired(prometheus).await;
        let missing = EXPECTED
            .iter()
            .filter(|(alert, on)| !fired.contains(&((*alert).to_owned(), (*on).to_owned())));
        let mut missing: Vec<String> = missing
            .map(|(alert, on)| format!("{alert} did not fire on the daemon {on:?}"))
            .collect();
        missing.extend(unseen.iter().map(queries::line));
        if missing.is_empty() {
            println!("after {:?} these have fired: {fired:#?}", begun.elapsed());
            break;
        }
        if begun.elapsed() > WITHIN {
            println!("these have fired: {fired:#?}");
            missing.extend(prometheus.not_scraped().await);
            assert_none(&format!("after {WITHIN:?} of trouble"), &missing);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn scrape(instance: &str, address: &str) -> Value {
    json!({
        "job_name": instance,
        "static_configs": [{ "targets": [address], "labels": { "instance": instance } }],
        "relabel_configs": [{ "target_label": "job", "replacement": "taffrail" }],
    })
}

#[test]
fn alerts_fire_on_what_is_in_trouble_and_on_nothing_else() {
    let Some(tools) = Tools::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let faulty = Running::start(&["--data-threads=1"]);
    faulty.block_on(async {
        let mut troubles = Troubles::begin(folder.path()).await;
        let plain = |name: &str, daemon: &Daemon| {
            let address = daemon.metrics_address().to_string();
            scrape(name, &address)
        };
        // This one's page is on the secure port, for members of system:masters.
        let mut secure = scrape("faulty", &faulty.target().address.to_string());
        secure["scheme"] = "https".into();
        secure["tls_config"] = json!({ "insecure_skip_verify": true });
        secure["authorization"] = json!({ "credentials": faulty.target().token });
        let scrapes = json!([
            plain("healthy", &troubles.healthy),
            plain("gone", &troubles.gone),
            plain("waiting", &troubles.waiting),
            plain("full", &troubles.full),
            plain("locked", &troubles.locked),
            secure,
        ]);
        let rules = ["recording.yaml", "alerts.yaml"].map(shortened);
        let prometheus = Prometheus::start(&tools, &scrapes, &rules).await;
        troubles.gone.kill().await;
        tokio::select! {
            () = all_have_fired(&prometheus) => {}
            () = troubles.are_felt(&faulty) => {}
        }
        let fired = fired(&prometheus).await;
        let on_healthy = fired.iter().filter(|(alert, instance)| {
            instance == "healthy" && !OF_BUSY_MACHINES.contains(&alert.as_str())
        });
        let on_healthy: Vec<String> = on_healthy.map(|(alert, _)| alert.clone()).collect();
        assert_none("these fired on a daemon in good health", &on_healthy);
    });
    faulty.stop();
}
