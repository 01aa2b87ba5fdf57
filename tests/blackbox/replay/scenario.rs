//! The scenarios in the files of `tests/reference`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// One file: steps in order, in a namespace of their own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is about.
    #[allow(dead_code)]
    about: String,
    /// Members left out of every answer, wherever they are.
    #[serde(default)]
    pub drop: Vec<String>,
    /// Paths left out of every answer.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Paths of lists whose order is not compared.
    #[serde(default)]
    pub unordered: Vec<String>,
    /// Texts for `{name}`, each of which may hold those before it.
    #[serde(default)]
    pub values: Vec<(String, String)>,
    pub steps: Vec<Step>,
}

/// One request, or one for each of several texts; or the end of a watch in the background.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub name: String,
    pub request: Option<String>,
    /// The request goes to the server of webhooks.
    pub to: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub body: Option<String>,
    /// Fill the body up with blanks to so many bytes.
    #[serde(default)]
    pub pad: usize,
    /// Once for each of these, as `{each}`.
    pub each: Option<Vec<String>>,
    /// A watch: read for so many seconds ...
    pub seconds: Option<f64>,
    /// ... or until so many events came.
    pub events: Option<usize>,
    /// Send the request again until it is answered with this status, for some seconds at most.
    pub until: Option<u16>,
    /// ... until its body has this text ...
    pub has: Option<String>,
    /// ... or until it lacks this one.
    pub lacks: Option<String>,
    /// Wait for so many seconds instead of sending a request.
    pub wait: Option<f64>,
    /// In the background, under this name.
    pub start: Option<String>,
    /// Wait for the watch of this name instead of sending a request.
    pub collect: Option<String>,
    /// Names for parts of the answer, for later steps.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// Compare this part of the body alone: a path, or its keys.
    pub part: Option<Part>,
    /// Headers to compare beside the usual ones.
    #[serde(default)]
    pub also: Vec<String>,
    /// Paths left out of this answer.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Paths of lists whose order is not compared.
    #[serde(default)]
    pub unordered: Vec<String>,
    /// Relations; whether they hold is compared too.
    #[serde(default)]
    pub holds: Vec<String>,
    #[serde(default = "yes")]
    compare: bool,
    /// What kube-apiserver answered, one for each of `each`.
    #[serde(default)]
    pub answers: Vec<Value>,
    /// Where ours is meant to differ.
    #[serde(default)]
    pub deviates: Vec<Deviation>,
}

/// A part of a body.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Part {
    Path(String),
    /// Keys that may have dots.
    Keys(Vec<String>),
}

/// An answer of ours that is meant to differ.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The index of the recorded answer it stands for.
    pub at: usize,
    /// Its heading in `tests/deviations.md`.
    pub by: String,
    /// Our answer.
    pub answer: Value,
}

impl Scenario {
    pub fn read(name: &str) -> Scenario {
        let path = folder().join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario: Scenario = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for step in &scenario.steps {
            let each = step.each.as_ref().map_or(1, Vec::len);
            let wanted = if step.is_compared() { each } else { 0 };
            assert_eq!(
                step.answers.len(),
                wanted,
                "{name}: answers of {}",
                step.name
            );
            for deviation in &step.deviates {
                assert!(
                    deviation.at < wanted,
                    "{name}: {}: no such answer",
                    step.name
                );
            }
        }
        scenario
    }

    /// The names of all scenarios.
    pub fn all() -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder())
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".json").map(str::to_owned)
            })
            .collect();
        names.sort();
        names
    }
}

impl Step {
    pub fn is_compared(&self) -> bool {
        self.compare && self.start.is_none() && self.wait.is_none()
    }

    /// What ours has to answer, and the deviation that says so.
    pub fn wanted(&self, index: usize) -> (&Value, Option<&str>) {
        match self.deviates.iter().find(|deviation| deviation.at == index) {
            Some(deviation) => (&deviation.answer, Some(&deviation.by)),
            None => (&self.answers[index], None),
        }
    }
}

fn yes() -> bool {
    true
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference")
}
