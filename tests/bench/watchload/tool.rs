//! The load generator, which is an external program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::process::{Child, Command};

use crate::harness::Daemon;

const MISSING: &str = "\
watchload isn't there. These figures are measured with it: build it (cargo build --release in its
folder) and put it on the PATH, or say where it is: WATCHLOAD=/path/to/watchload cargo bench ...";

/// The path of the program.
pub struct Watchload(PathBuf);

/// A running scenario.
pub struct Running {
    child: Child,
    json: NamedTempFile,
}

/// The measurements of a run, by name.
pub struct Report(BTreeMap<String, f64>);

impl Watchload {
    /// Finds the program that WATCHLOAD names, or else the first one on the PATH. The error
    /// describes what to do.
    pub fn find() -> Result<Watchload, &'static str> {
        let named = std::env::var_os("WATCHLOAD").filter(|value| !value.is_empty());
        let places = match named {
            Some(path) => vec![PathBuf::from(path)],
            None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .map(|folder| folder.join("watchload"))
                .collect(),
        };
        let found = places.into_iter().find(|path| path.is_file());
        found.map(Watchload).ok_or(MISSING)
    }

    /// Starts a scenario against a daemon. The arguments are separated by spaces.
    pub fn start(&self, daemon: &Daemon, scenario: &str, arguments: &str) -> Running {
        println!("  watchload {scenario} {arguments}");
        let json = NamedTempFile::new().unwrap();
        let child = Command::new(&self.0)
            .arg(scenario)
            .args(["--server", &format!("https://127.0.0.1:{}", daemon.port())])
            .args(["--pid", &daemon.pid().to_string()])
            .arg("--insecure")
            .arg("--json")
            .arg(json.path())
            .args(arguments.split_whitespace())
            .env("WATCHLOAD_TOKEN", daemon.token())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Running { child, json }
    }

    /// Runs a scenario to its end.
    pub async fn run(&self, daemon: &Daemon, scenario: &str, arguments: &str) -> Report {
        self.start(daemon, scenario, arguments).report().await
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Waits for the end of the scenario.
    pub async fn report(mut self) -> Report {
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "watchload ended with {status}");
        Report::read(self.json.path())
    }
}

impl Report {
    fn read(path: &Path) -> Report {
        let text = std::fs::read(path).unwrap();
        let report: Value = serde_json::from_slice(&text).unwrap();
        let metrics = report["metrics"].as_object().unwrap();
        let pairs = metrics
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        Report(pairs.collect())
    }

    /// Returns a figure that every run of the scenario has.
    #[track_caller]
    pub fn get(&self, name: &str) -> f64 {
        let value = self.0.get(name).copied();
        value.unwrap_or_else(|| panic!("watchload does not report {name}: is it another version?"))
    }

    /// Returns the number of requests that failed.
    pub fn errors(&self, prefix: &str) -> f64 {
        let errors = format!("{prefix}errors.");
        let named = self.0.iter().filter(|(name, _)| name.starts_with(&errors));
        named
            .map(|(name, count)| {
                println!("  {name}: {count}");
                count
            })
            .fold(0.0, |sum, count| sum + count)
    }

    /// Returns the number of events that were not newer than the one before them. A bookmark may
    /// have the version of the event before it, but the tool counts it as repeated.
    pub fn repeated(&self) -> f64 {
        (self.get("rv_reordered") - self.get("bookmarks")).max(0.0)
    }

    /// Returns the number of faults that an informer would notice, and of failed requests.
    pub fn wrong(&self) -> f64 {
        let named = [
            "lost",
            "duplicate",
            "reordered",
            "error_events",
            "watches_closed",
            "watches_given_up",
        ];
        let counts = named.map(|name| (name, self.get(name)));
        let counts = counts.into_iter().chain([("repeated", self.repeated())]);
        let wrong = counts
            .filter(|(_, count)| *count != 0.0)
            .map(|(name, count)| {
                println!("  {name}: {count}");
                count.abs()
            });
        wrong.fold(self.errors(""), |sum, count| sum + count)
    }
}
