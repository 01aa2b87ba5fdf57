//! `taffrail test`, as a test suite in any language starts it.

mod clock;
mod commands;
mod faults;
mod life;
mod load;
mod pods;
mod snapshots;
mod workloads;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::daemon::taffrail;
use crate::harness::{Call, Client, Target};

/// The time limit for what must happen, in a debug build on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
struct Server {
    child: Child,
    ready: Value,
    /// The folder of its temporary files.
    temporary: TempDir,
}

/// `taffrail test` with a folder of its own for temporary files.
fn command(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = taffrail();
    command.arg("test").args(arguments).env("TMPDIR", temporary);
    command
}

/// Runs a command to its end.
fn output(temporary: &Path, arguments: &[&str]) -> Output {
    command(temporary, arguments).output().unwrap()
}

/// The refusal of a command line, which must be on one line of stderr and leave nothing.
fn refused(arguments: &[&str]) -> (i32, String) {
    let temporary = tempfile::tempdir().unwrap();
    let output = output(temporary.path(), arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty());
    assert_eq!(names(temporary.path()), Vec::<String>::new());
    (output.status.code().unwrap(), stderr)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

impl Server {
    /// Starts a server and waits for its ready line.
    fn start(arguments: &[&str]) -> Server {
        Server::start_logging(arguments, Stdio::piped())
    }

    /// Starts a server whose log goes somewhere else.
    fn start_logging(arguments: &[&str], log: impl Into<Stdio>) -> Server {
        let temporary = tempfile::tempdir().unwrap();
        let mut child = command(temporary.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            let mut log = child.stderr.take();
            let _ = log.as_mut().map(|log| log.read_to_string(&mut said));
            panic!("no ready line, but {line:?}: {said}")
        });
        Server {
            child,
            ready,
            temporary,
        }
    }

    fn text(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap()
    }

    fn kubeconfig(&self) -> PathBuf {
        self.text("kubeconfig").into()
    }

    /// The admin, by nothing but the ready line.
    fn client(&self) -> Client {
        self.target().client()
    }

    fn anonymous(&self) -> Client {
        self.target().anonymous().client()
    }

    fn target(&self) -> Target {
        let address = self.text("url").strip_prefix("https://").unwrap();
        let token = Some(self.text("token").to_owned());
        let ca = self.text("ca").as_bytes();
        Target::new(address.parse().unwrap(), token, Some(ca))
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child), signal).unwrap();
    }

    /// Waits for the end.
    fn ended(&mut self) -> ExitStatus {
        end_of(&mut self.child)
    }

    /// Stops the server, which must leave nothing.
    fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ended().code(), Some(0));
        self.left_nothing();
    }

    fn left_nothing(&self) {
        assert_eq!(names(self.temporary.path()), Vec::<String>::new());
    }

    /// Reads an object until it is as it should be.
    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        let client = self.client();
        loop {
            let value = client.call(Call::get(path)).await.json();
            if is_so(&value) {
                return value;
            }
            assert!(start.elapsed() < TIMEOUT, "{path} stays {value:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).unwrap()
}

fn end_of(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < TIMEOUT, "it doesn't end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until something is so.
fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn killed_by(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}
