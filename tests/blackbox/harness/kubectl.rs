//! The real kubectls that `tests/run.sh` fetches.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::daemon::Daemon;
use super::not_run::not_run;
use super::terminal::Terminal;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A kubectl of one version, with a home of its own.
pub struct Kubectl {
    pub version: &'static str,
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: TempDir,
    editor: String,
    is_over_spdy: bool,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Printed {
    pub stdout: String,
    pub stderr: String,
    pub success: bool,
}

/// A kubectl that goes on printing, `get -w`.
pub struct Following {
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Kubectl {
    /// The kubectl of a version (major.minor); `None` only where the environment says in so many
    /// words that there is none.
    pub fn find(version: &'static str, daemon: &Daemon) -> Option<Kubectl> {
        Kubectl::of(version, daemon.kubeconfig())
    }

    /// As [`Kubectl::find`], with a kubeconfig.
    pub fn of(version: &'static str, kubeconfig: PathBuf) -> Option<Kubectl> {
        let variable = format!("TAFFRAIL_KUBECTL_{}", version.replace('.', "_"));
        let binary = match std::env::var_os(&variable) {
            Some(none) if none == "none" => {
                not_run(&format!("kubectl {version}"));
                return None;
            }
            Some(path) => PathBuf::from(path),
            None => cache().join(format!("taffrail/kubectl-{version}/kubectl")),
        };
        assert!(
            binary.is_file(),
            "no kubectl {version} at {}: tests/run.sh fetches it, or set {variable} to its path",
            binary.display()
        );
        Some(Kubectl {
            version,
            binary,
            kubeconfig,
            home: tempfile::tempdir().unwrap(),
            editor: String::new(),
            is_over_spdy: false,
        })
    }

    /// The program.
    pub fn binary(&self) -> &std::path::Path {
        &self.binary
    }

    /// The same kubectl with another kubeconfig.
    pub fn with_kubeconfig(mut self, kubeconfig: PathBuf) -> Kubectl {
        self.kubeconfig = kubeconfig;
        self
    }

    /// The same kubectl with a command as its editor, to which it adds the name of a file.
    pub fn with_editor(mut self, command: &str) -> Kubectl {
        command.clone_into(&mut self.editor);
        self
    }

    /// The same kubectl, which speaks SPDY in commands, as all did before 1.29.
    pub fn over_spdy(mut self) -> Kubectl {
        self.is_over_spdy = true;
        self
    }

    /// Runs a command that reads its standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> Printed {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let write = async move {
            // A command that ends early doesn't read it.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let wait = tokio::time::timeout(TIMEOUT, child.wait_with_output());
        let ((), output) = tokio::join!(write, wait);
        let output = output
            .unwrap_or_else(|_| panic!("kubectl {arguments:?} hangs"))
            .unwrap();
        Printed {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            success: output.status.success(),
        }
    }

    /// What a command prints that must succeed.
    pub async fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, "").await
    }

    /// What a command prints that reads its standard input and must succeed.
    pub async fn ok_with(&self, arguments: &[&str], input: &str) -> String {
        let printed = self.run_with(arguments, input).await;
        assert!(
            printed.success,
            "kubectl {} {arguments:?}: {printed:?}",
            self.version
        );
        printed.stdout
    }

    /// What a command prints on stderr that must fail.
    pub async fn fails(&self, arguments: &[&str]) -> String {
        self.fails_with(arguments, "").await
    }

    /// What a command prints on stderr that reads its standard input and must fail.
    pub async fn fails_with(&self, arguments: &[&str], input: &str) -> String {
        let printed = self.run_with(arguments, input).await;
        assert!(
            !printed.success,
            "kubectl {} {arguments:?}: {printed:?}",
            self.version
        );
        printed.stderr
    }

    /// What `diff` prints that must find differences.
    pub async fn differs(&self, arguments: &[&str], input: &str) -> String {
        let printed = self.run_with(arguments, input).await;
        assert!(
            !printed.success && !printed.stdout.is_empty(),
            "kubectl {} {arguments:?}: {printed:?}",
            self.version
        );
        printed.stdout
    }

    /// Starts a command that goes on printing.
    pub fn follow(&self, arguments: &[&str]) -> Following {
        let mut child = self.command(arguments).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        Following {
            lines: BufReader::new(stdout).lines(),
            _child: child,
        }
    }

    /// Starts a command in a terminal of its own, with a number of columns and rows.
    pub fn in_terminal(&self, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        // `--ctty` makes it the controlling terminal of the command.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(&self.binary);
        self.at_home(command.args(arguments));
        Terminal::start(command, columns, rows)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        self.at_home(command.args(arguments));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Gives a command nothing of the environment of the tests.
    fn at_home(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBE_EDITOR", &self.editor)
            // It allows `--applyset`, and changes nothing without that.
            .env("KUBECTL_APPLYSET", "true")
            .env("KUBECTL_EXTERNAL_DIFF", "/usr/bin/diff -u -N");
        if self.is_over_spdy {
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
        }
    }
}

impl Following {
    /// The next line, which must come soon.
    pub async fn line(&mut self) -> String {
        tokio::time::timeout(TIMEOUT, self.lines.next_line())
            .await
            .expect("a line in time")
            .unwrap()
            .expect("another line before the end")
    }
}

/// Where `tests/run.sh` keeps what it fetched and built.
pub fn cache() -> PathBuf {
    match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    }
}
