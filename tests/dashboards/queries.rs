//! The queries of the board, sent to a Prometheus as Grafana would.

use std::collections::BTreeSet;

use crate::board::{self, Target};
use crate::prometheus::Prometheus;

/// Queries that find nothing on a daemon in good health: the title of the panel and the refId. The
/// test in `fired` has daemons in trouble, on which each of them finds something.
const OF_TROUBLE: [(&str, &str); 12] = [
    ("Errors", "A"),
    ("Watches that begin, fall behind or end", "C"),
    ("Faults of the store", "B"),
    ("Faults of the store", "F"),
    ("Faults of the store", "G"),
    ("Parts out of order", "A"),
    ("Parts out of order", "B"),
    ("Parts out of order", "C"),
    ("Failures and restarts", "A"),
    ("Failures and restarts", "B"),
    ("Failures and restarts", "C"),
    ("Waiting for actors", "A"),
];

/// A query by the title of its panel and its refId.
type Name = (String, String);

/// What came of asking everything.
#[derive(Default)]
pub struct Asked {
    /// Queries that are refused, and series without the labels that their legend shows.
    pub wrong: Vec<String>,
    /// Queries that found nothing.
    pub empty: BTreeSet<Name>,
}

/// What Grafana puts in for the variables of a board, if all daemons are chosen.
fn filled_in(expression: &str) -> String {
    expression
        .replace("$job", "taffrail")
        .replace("$instance", ".+")
        .replace("$__rate_interval", "20s")
}

/// The names in a legend such as `{{verb}} {{scope}}`.
fn labels_of(legend: &str) -> Vec<&str> {
    let parts = legend.split("{{").skip(1);
    parts
        .filter_map(|part| Some(part.split_once("}}")?.0.trim()))
        .collect()
}

/// Asks all queries of the board for what they find now.
pub async fn ask(prometheus: &Prometheus) -> Asked {
    let targets = board::targets();
    ask_each(prometheus, &targets, str::to_owned).await
}

/// Asks some queries for what they have found in the last minutes.
pub async fn ask_ever(prometheus: &Prometheus, names: &BTreeSet<Name>) -> Asked {
    let mut targets = board::targets();
    targets.retain(|target| names.contains(&name(target)));
    let ever = |query: &str| format!("last_over_time(({query})[5m:1s])");
    ask_each(prometheus, &targets, ever).await
}

fn name(target: &Target) -> Name {
    (target.panel.clone(), target.ref_id.clone())
}

async fn ask_each(
    prometheus: &Prometheus,
    targets: &[Target],
    form: impl Fn(&str) -> String,
) -> Asked {
    let mut asked = Asked::default();
    for target in targets {
        let (place, text) = (&target.expression.place, &target.expression.text);
        let samples = match prometheus.query(&form(&filled_in(text))).await {
            Ok(samples) => samples,
            Err(error) => {
                asked.wrong.push(format!("{place} is refused: {error}"));
                continue;
            }
        };
        if samples.is_empty() {
            asked.empty.insert(name(target));
            continue;
        }
        for label in labels_of(&target.legend) {
            // Some may be empty, as the scope of what is no resource. A debug build has no commit.
            let all_lack = samples.iter().all(|sample| sample.labels[label].is_null());
            if all_lack && label != "commit" {
                let wrong = format!("{place}: no series has the label {label}: {text}");
                asked.wrong.push(wrong);
            }
        }
    }
    asked
}

/// A line for each query that finds no series with this label now.
pub async fn without(
    prometheus: &Prometheus,
    targets: &[Target],
    label: &str,
    value: &str,
) -> Vec<String> {
    let mut missing = Vec::new();
    for target in targets {
        let (place, text) = (&target.expression.place, &target.expression.text);
        let samples = prometheus.query(&filled_in(text)).await.unwrap();
        // linear: a query finds ten series
        if !samples.iter().any(|sample| sample.labels[label] == value) {
            missing.push(format!("{place}: no series of {value}: {text}"));
        }
    }
    missing
}

/// The queries that find something on a daemon in trouble alone.
pub fn of_trouble() -> BTreeSet<Name> {
    let names = OF_TROUBLE.iter();
    names
        .map(|(panel, ref_id)| ((*panel).to_owned(), (*ref_id).to_owned()))
        .collect()
}

/// A line for a query that found nothing.
pub fn line(empty: &Name) -> String {
    let targets = board::targets();
    let found = targets.iter().find(|target| name(target) == *empty);
    let asks = found.map_or("it is not on the board", |target| &target.expression.text);
    let (panel, ref_id) = empty;
    format!("the panel {panel:?}, query {ref_id}, finds nothing: {asks}")
}
