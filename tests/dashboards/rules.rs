//! The files of Prometheus rules, and the required parts of each alert.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::expressions::Expression;
use crate::prometheus::Tools;
use crate::{assert_none, dashboards};

/// Rules that mean what those of the kubernetes-mixin mean.
const APISERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/dashboards/apiserver-rules.yaml"
);

/// A rule and where it stands.
pub struct Rule {
    pub place: String,
    pub content: Value,
}

impl Rule {
    /// A member that is a text, empty if it is missing.
    pub fn text(&self, member: &str) -> &str {
        self.content[member].as_str().unwrap_or_default()
    }
}

/// A document of YAML.
pub fn document(path: &PathBuf) -> Value {
    let text = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
    serde_saphyr::from_str(&text)
        .unwrap_or_else(|error| panic!("{} is no YAML: {error}", path.display()))
}

/// The files of `dashboards/` that have rules, and those that test them.
fn yaml_files(are_tests: bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dashboards("")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .filter(|path| path.to_string_lossy().ends_with("_test.yaml") == are_tests)
        .collect();
    paths.sort();
    paths
}

/// The files of rules in `dashboards/`.
pub fn files() -> Vec<PathBuf> {
    let files = yaml_files(false);
    for name in ["alerts.yaml", "recording.yaml"] {
        assert!(
            files.contains(&dashboards(name)),
            "dashboards/{name} is gone"
        );
    }
    files
}

/// The file of the rules that mean what those of the kubernetes-mixin mean.
pub fn apiserver_file() -> PathBuf {
    PathBuf::from(APISERVER)
}

/// The rules of a file.
pub fn of(path: &PathBuf) -> Vec<Rule> {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let document = document(path);
    let groups = document["groups"].as_array().cloned().unwrap_or_default();
    let rules = groups.iter().flat_map(|group| {
        let rules = group["rules"].as_array().cloned().unwrap_or_default();
        rules.into_iter().map(|content| {
            let name = content["alert"].as_str().or(content["record"].as_str());
            let place = format!("{file}: {}", name.unwrap_or("a rule without a name"));
            Rule { place, content }
        })
    });
    let rules: Vec<Rule> = rules.collect();
    assert!(!rules.is_empty(), "{file} has no rules");
    rules
}

/// The rules of all files in `dashboards/`.
pub fn all() -> Vec<Rule> {
    files().iter().flat_map(of).collect()
}

/// Their expressions.
pub fn expressions() -> Vec<Expression> {
    let all = all().into_iter();
    all.map(|rule| Expression {
        text: rule.text("expr").to_owned(),
        place: rule.place,
    })
    .collect()
}

/// The names that rules record.
pub fn recorded(rules: &[Rule]) -> BTreeSet<String> {
    let names = rules.iter().map(|rule| rule.text("record").to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn alerts() -> Vec<Rule> {
    let mut alerts = all();
    alerts.retain(|rule| !rule.text("alert").is_empty());
    alerts
}

/// The anchor that Markdown gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_alert_says_when_how_bad_what_and_where_to_read_on() {
    let page = "docs/troubleshooting.md";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchors: BTreeSet<String> = headings.map(anchor).collect();
    let mut wrong = Vec::new();
    for rule in alerts() {
        let place = &rule.place;
        let for_ = rule.text("for");
        if !for_.ends_with(['s', 'm', 'h', 'd']) {
            wrong.push(format!(
                "{place}: `for` is {for_:?}; an alert that waits for nothing has for: 0m"
            ));
        }
        let severity = rule.content["labels"]["severity"]
            .as_str()
            .unwrap_or("none");
        if !matches!(severity, "critical" | "warning") {
            wrong.push(format!(
                "{place}: its severity is {severity}, not critical or warning"
            ));
        }
        let note = |name: &str| {
            rule.content["annotations"][name]
                .as_str()
                .unwrap_or_default()
        };
        for name in ["summary", "description", "runbook_url"] {
            if note(name).trim().is_empty() {
                wrong.push(format!("{place}: no annotation {name}"));
            }
        }
        let leads = note("runbook_url").strip_prefix(page);
        let leads = leads.and_then(|rest| rest.strip_prefix('#'));
        if !leads.is_some_and(|anchor| anchors.contains(anchor)) {
            let url = note("runbook_url");
            wrong.push(format!("{place}: {url} is no section of {page}"));
        }
    }
    assert_none("alerts in dashboards/alerts.yaml lack something", &wrong);
}

#[test]
fn every_alert_fires_in_a_test_of_promtool() {
    let mut fires = BTreeSet::new();
    for path in yaml_files(true) {
        let document = document(&path);
        for test in document["tests"].as_array().unwrap() {
            for case in test["alert_rule_test"].as_array().into_iter().flatten() {
                let fired = case["exp_alerts"].as_array();
                if fired.is_some_and(|alerts| !alerts.is_empty()) {
                    fires.extend(case["alertname"].as_str().map(str::to_owned));
                }
            }
            let cases = test["promql_expr_test"].as_array().into_iter().flatten();
            let samples = cases.flat_map(|case| case["exp_samples"].as_array());
            for sample in samples.flatten() {
                let labels = sample["labels"].as_str().unwrap_or_default();
                let name = labels.split("alertname=\"").nth(1);
                let name = name.and_then(|rest| rest.split('"').next());
                fires.extend(name.map(str::to_owned));
            }
        }
    }
    let alerts = alerts();
    assert!(alerts.len() > 10 && fires.len() > 10);
    let untested = alerts.iter().filter(|rule| {
        let name = rule.text("alert");
        !fires.contains(name)
    });
    let untested: Vec<String> = untested.map(|rule| rule.place.clone()).collect();
    assert_none(
        "no test in dashboards/alerts_test.yaml has these alerts fire",
        &untested,
    );
}

#[test]
fn promtool_accepts_the_rules_and_passes_their_tests() {
    let Some(tools) = Tools::find() else { return };
    let mut checked = files();
    checked.push(apiserver_file());
    tools.promtool(&["check", "rules", "--lint-fatal"], &checked);
    let tests = yaml_files(true);
    assert!(tests.len() >= 2, "dashboards/ has only the tests {tests:?}");
    tools.promtool(&["test", "rules"], &tests);
}
