//! `taffrail storage rewrite`: the running daemon rewrites the data that old keys have encrypted,
//! or that has old versions.
//!
//! This folder owns the command, its progress display and its report. The rewrite needs a running
//! daemon. It can be interrupted at any point, also with Ctrl-C, and a new run skips finished work.
//! This folder must not know encryption or storage.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::auth::read_kubeconfig;
use crate::cli::access::Access;
use crate::cli::running::{self, Unreached};
use crate::config::Config;
use crate::storage::rewrite::RewriteProgress;

mod report;
use report::report;

const PATH: &str = "/taffrail/v1/storage/rewrite";

/// Longer lines are refused.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The interval between progress lines, where no bar can be drawn.
const TELL_PERIOD: Duration = Duration::from_secs(5);

/// Rewrites and shows the progress.
pub fn run(config: &Config) -> ExitCode {
    match rewrite(config) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => crate::cli::complaint::failed("storage rewrite", &problem),
    }
}

fn rewrite(config: &Config) -> Result<String, String> {
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
    let answered = runtime.block_on(running::post(&access, PATH, &mut hear));
    view.clear();
    match (answered, last) {
        (Ok(()), Some(step @ (RewriteProgress::Done { .. } | RewriteProgress::Failed { .. }))) => {
            report(step)
        }
        (Err(error @ Unreached::NobodyThere(_)), _) => Err(format!(
            "{error}; start the daemon first, rewriting is done online"
        )),
        (Err(error), None) => Err(error.to_string()),
        (Err(error), Some(_)) => Err(format!("{error}; {GOES_ON}")),
        (Ok(()), _) => Err(format!("the daemon ended before it was done; {GOES_ON}")),
    }
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
            rewrite(&config)
                .unwrap_err()
                .contains("no daemon has run there")
        );
    }
}
