//! `taffrail storage rewrite`: the running daemon rewrites the data that old keys have encrypted,
//! or that has old versions.
//!
//! This folder owns the command, its progress display and its report. The rewrite needs a running
//! daemon. It can be interrupted at any point, also with Ctrl-C, and a new run skips finished work.
//! This folder must not know encryption or storage.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::api::deep;
use crate::auth::read_kubeconfig;
use crate::cli::access::Access;
use crate::cli::running::{self, Request, Unreached};
use crate::config::Config;
use crate::storage::rewrite::RewriteProgress;

mod definitions;
mod report;
use definitions::{Definitions, Outdated};
use report::report;

const PATH: &str = "/taffrail/v1/storage/rewrite";

/// The definitions of custom resources.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A longer list of definitions is refused.
const DEFINITIONS_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Longer lines are refused.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The interval between progress lines, where no bar can be drawn.
const TELL_PERIOD: Duration = Duration::from_secs(5);

/// The options of the command.
#[derive(Args, Clone, Debug, Default)]
pub struct RewriteOptions {
    /// Rewrite only the objects that are stored in another version than the storage version of
    /// their resource. Encryption keys and history stay as they are.
    #[arg(long)]
    version: bool,
}

/// Rewrites and shows the progress.
pub fn run(config: &Config, options: &RewriteOptions) -> ExitCode {
    match rewrite(config, options) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => crate::cli::complaint::failed("storage rewrite", &problem),
    }
}

fn rewrite(config: &Config, options: &RewriteOptions) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let data_dir = config.data_dir.as_path();
    let access = read_kubeconfig(data_dir).map_err(|error| error.to_string())?;
    let access = access.ok_or_else(|| {
        let data_dir = data_dir.display();
        format!("--data-dir={data_dir}: no daemon has run there; start one first")
    })?;
    let access = Access::from(access);
    let mut lines = Lines::default();
    let mut view = View::new();
    let mut last = None;
    let mut hear = |piece: &[u8]| {
        lines.add(piece, |line| {
            let step = serde_json::from_slice(line);
            let step = step.map_err(|error| format!("it says what is not understood: {error}"))?;
            view.show(&step);
            last = Some(step);
            Ok(())
        })
    };
    let path = match options.version {
        true => format!("{PATH}?only=version"),
        false => PATH.to_owned(),
    };
    let before = runtime.block_on(definitions(&access));
    let answered = runtime.block_on(running::post(&access, &path, &mut hear));
    view.clear();
    match (answered, last) {
        (Ok(()), Some(step @ RewriteProgress::Failed { .. })) => report(step, &[]),
        (Ok(()), Some(step @ RewriteProgress::Done { .. })) => {
            let after = runtime.block_on(definitions(&access));
            let outdated = outdated(&step, before, after)?;
            report(step, &outdated)
        }
        (Err(error @ Unreached::NobodyThere(_)), _) => Err(format!(
            "{error}; start the daemon first, rewriting is done online"
        )),
        (Err(error), None) => Err(error.to_string()),
        (Err(error), Some(_)) => Err(format!("{error}; {GOES_ON}")),
        (Ok(()), _) => Err(format!("the daemon ended before it was done; {GOES_ON}")),
    }
}

/// The definitions that list versions in which nothing is stored any more.
fn outdated(
    done: &RewriteProgress,
    before: Result<Definitions, String>,
    after: Result<Definitions, String>,
) -> Result<Vec<Outdated>, String> {
    let none = BTreeMap::new();
    let stored_as = match done {
        RewriteProgress::Done { stored_as, .. } => stored_as,
        _ => &none,
    };
    if stored_as.is_empty() {
        return Ok(Vec::new());
    }
    let unread = |error| {
        format!(
            "everything is rewritten, but the definitions of custom resources can't be read, so \
             nobody can say which versions they need not list: {error}"
        )
    };
    let (before, after) = (before.map_err(unread)?, after.map_err(unread)?);
    Ok(before.outdated(&after, stored_as))
}

/// Reads the definitions of custom resources. The list is empty if they are not served.
async fn definitions(access: &Access) -> Result<Definitions, String> {
    let mut answer = Vec::new();
    let mut hear = |piece: &[u8]| match answer.len() + piece.len() > DEFINITIONS_BYTES_MAX {
        true => Err("its answer is too long".to_owned()),
        false => {
            answer.extend_from_slice(piece);
            Ok(())
        }
    };
    match running::request(access, Request::get(DEFINITIONS), &mut hear).await {
        Ok(()) => {}
        Err(Unreached::Refused(code, _)) if code == http::StatusCode::NOT_FOUND => {
            return Ok(Definitions::default());
        }
        Err(error) => return Err(error.to_string()),
    }
    let list = deep::from_json(&answer).map_err(|error| error.to_string())?;
    Ok(Definitions::of(&list))
}

const GOES_ON: &str = "run this again, and it goes on";

/// Joins pieces to lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn add(
        &mut self,
        piece: &[u8],
        mut hear: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.0.extend_from_slice(piece);
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            hear(&line)?;
        }
        match self.0.len() > LINE_BYTES_MAX {
            true => Err("a line of its answer is too long".to_owned()),
            false => Ok(()),
        }
    }
}

/// The progress display: a bar on a terminal, occasional lines elsewhere.
enum View {
    Bar(ProgressBar),
    Lines {
        told: Option<Instant>,
        resource: String,
    },
}

impl View {
    fn new() -> View {
        if !std::io::stderr().is_terminal() {
            return View::Lines {
                told: None,
                resource: String::new(),
            };
        }
        let bar = ProgressBar::new(0);
        let style =
            ProgressStyle::with_template("{msg:30} {bar:40} {pos}/{len} values, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        View::Bar(bar)
    }

    fn show(&mut self, step: &RewriteProgress) {
        match (self, step) {
            (
                View::Bar(bar),
                RewriteProgress::Looking {
                    pass,
                    resource,
                    seen,
                    total,
                    ..
                },
            ) => {
                bar.set_length(*total);
                bar.set_position(*seen);
                bar.set_message(format!("pass {pass}: {resource}"));
            }
            (View::Bar(bar), RewriteProgress::Purging { revision }) => {
                bar.set_message(format!("purging up to {revision}"));
            }
            (View::Lines { told, resource }, step) => {
                if let Some(line) = line_of(step)
                    && is_news(step, resource, *told)
                {
                    eprintln!("{line}");
                    *told = Some(Instant::now());
                }
            }
            (View::Bar(_), RewriteProgress::Done { .. } | RewriteProgress::Failed { .. }) => {}
        }
    }

    fn clear(&self) {
        if let View::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Whether a step gets a line: the first step of a resource, and one in each period.
fn is_news(step: &RewriteProgress, before: &mut String, told: Option<Instant>) -> bool {
    let RewriteProgress::Looking { resource, pass, .. } = step else {
        return true;
    };
    let about = format!("{pass} {resource}");
    let is_due = told.is_none_or(|told| told.elapsed() >= TELL_PERIOD);
    let is_news = is_due || *before != about;
    *before = about;
    is_news
}

fn line_of(step: &RewriteProgress) -> Option<String> {
    match step {
        RewriteProgress::Looking {
            pass,
            resource,
            seen,
            total,
            rewritten,
        } => Some(format!(
            "pass {pass}: {resource}: {seen} of {total} values looked at, {rewritten} rewritten"
        )),
        RewriteProgress::Purging { revision } => {
            Some(format!("purging history up to revision {revision}"))
        }
        RewriteProgress::Done { .. } | RewriteProgress::Failed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looking(pass: u32, resource: &str) -> RewriteProgress {
        RewriteProgress::Looking {
            pass,
            resource: resource.to_owned(),
            seen: 500,
            total: 1000,
            rewritten: 3,
        }
    }

    #[test]
    fn lines_are_heard_however_they_are_cut() {
        let text = b"one\ntwo\n\nthree\n";
        for size in 1..text.len() {
            let (mut lines, mut heard) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                let hear = |line: &[u8]| {
                    heard.push(String::from_utf8(line.to_vec()).unwrap());
                    Ok(())
                };
                lines.add(piece, hear).unwrap();
            }
            assert_eq!(heard, ["one\n", "two\n", "\n", "three\n"], "{size}");
        }
        let endless = vec![b'x'; LINE_BYTES_MAX + 1];
        assert!(Lines::default().add(&endless, |_| Ok(())).is_err());
    }

    #[test]
    fn a_resource_is_told_once_until_time_has_passed() {
        let mut before = String::new();
        let now = Some(Instant::now());
        assert!(is_news(&looking(1, "secrets"), &mut before, None));
        assert!(!is_news(&looking(1, "secrets"), &mut before, now));
        assert!(is_news(&looking(1, "pods"), &mut before, now));
        assert!(is_news(&looking(2, "pods"), &mut before, now));
        let line = line_of(&looking(2, "pods")).unwrap();
        assert_eq!(
            line,
            "pass 2: pods: 500 of 1000 values looked at, 3 rewritten"
        );
        assert!(is_news(
            &RewriteProgress::Purging { revision: 7 },
            &mut before,
            now
        ));
    }

    #[test]
    fn steps_are_read_as_they_are_written() {
        for step in [looking(1, "pods"), RewriteProgress::Purging { revision: 7 }] {
            let line = serde_json::to_string(&step).unwrap();
            assert_eq!(
                serde_json::from_str::<RewriteProgress>(&line).unwrap(),
                step
            );
        }
        let line = serde_json::to_string(&RewriteProgress::Purging { revision: 7 }).unwrap();
        assert_eq!(line, r#"{"step":"purging","revision":7}"#);
    }

    #[test]
    fn without_a_daemon_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            data_dir: crate::config::FilePath::from(folder.path()),
            ..Config::default()
        };
        assert!(
            rewrite(&config, &RewriteOptions::default())
                .unwrap_err()
                .contains("no daemon has run there")
        );
    }
}
