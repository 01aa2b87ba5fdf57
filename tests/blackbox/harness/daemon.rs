//! A real daemon in a separate folder.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Call, Client, Protocol, Target};

/// The time limit for readiness, in a debug build on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A daemon, which is killed when this is dropped. A panic in the daemon fails the test.
pub struct Daemon {
    folder: Arc<TempDir>,
    arguments: Vec<String>,
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    secure: SocketAddr,
    metrics: SocketAddr,
}

/// The options of a start.
#[derive(Default)]
pub struct Options {
    arguments: Vec<String>,
    folder: Option<Arc<TempDir>>,
    secure_port: u16,
}

impl Options {
    /// Adds flags.
    pub fn arguments(mut self, arguments: &[&str]) -> Options {
        self.arguments
            .extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Uses the data of another daemon, which must have ended.
    pub fn over(mut self, folder: Arc<TempDir>) -> Options {
        self.folder = Some(folder);
        self
    }

    /// Uses this port instead of any free one.
    pub fn port(mut self, port: u16) -> Options {
        self.secure_port = port;
        self
    }

    /// Starts the process and waits until it has announced its addresses.
    pub async fn launch(self) -> Daemon {
        self.attempt().await.unwrap_or_else(|said| panic!("{said}"))
    }

    /// Starts the process and waits until it has announced its addresses. Fails with what it said
    /// if it ends before.
    pub async fn attempt(self) -> Result<Daemon, String> {
        let folder = self
            .folder
            .unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let mut child = command(folder.path(), self.secure_port)
            .args(without_controllers(&self.arguments))
            .stderr(append(&folder.path().join("stderr")))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let writing = said.clone();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| writing.lock().push(line));
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let arguments = self.arguments;
        let mut daemon = Daemon {
            folder,
            arguments,
            child,
            said,
            secure: nowhere,
            metrics: nowhere,
        };
        let start = Instant::now();
        loop {
            let urls = |scheme| {
                daemon
                    .said
                    .lock()
                    .iter()
                    .find_map(|line| address(line, scheme))
            };
            if let (Some(secure), Some(metrics)) = (urls("https://"), urls("http://")) {
                daemon.secure = secure;
                daemon.metrics = metrics;
                return Ok(daemon);
            }
            if let Some(status) = daemon.child.try_wait().unwrap() {
                return Err(format!(
                    "the daemon ended with {status}:\n{}",
                    daemon.stderr()
                ));
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "said only {:?}",
                daemon.said.lock()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Starts the process and waits until it is ready.
    pub async fn start(self) -> Daemon {
        let daemon = self.launch().await;
        daemon.ready().await;
        daemon
    }
}

impl Daemon {
    /// A daemon with default flags.
    pub async fn start() -> Daemon {
        Options::default().start().await
    }

    /// A daemon with more flags.
    pub async fn with(arguments: &[&str]) -> Daemon {
        Options::default().arguments(arguments).start().await
    }

    /// Starts a daemon with these arguments and the users of a token file.
    pub async fn with_users(lines: &str, arguments: &[&str]) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.csv");
        let mut file = std::fs::OpenOptions::new();
        let mut file = file
            .write(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        let users = ["--token-auth-file", path.to_str().unwrap()];
        Daemon::with(&[&users, arguments].concat()).await
    }

    /// Waits until `/readyz` answers 200 to the admin, who may read it in every authorization mode.
    pub async fn ready(&self) {
        let start = Instant::now();
        loop {
            let answer = self.target().client().attempt(Call::get("/readyz")).await;
            match answer {
                Ok(answer) if answer.status == 200 => return,
                other => assert!(
                    start.elapsed() < TIMEOUT,
                    "not ready: {other:?}\n{}",
                    self.stderr()
                ),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The daemon's address, with the administrator's token and the authority from the kubeconfig.
    pub fn target(&self) -> Target {
        let config = self.config();
        let authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
            .as_str()
            .expect("a kubeconfig that holds the authority");
        let authority = base64::prelude::BASE64_STANDARD.decode(authority).unwrap();
        Target::new(self.secure, Some(self.token()), Some(&authority))
    }

    /// The administrator's token.
    pub fn token(&self) -> String {
        let token = &self.config()["users"][0]["user"]["token"];
        token.as_str().expect("a token").to_owned()
    }

    fn config(&self) -> Value {
        let text = std::fs::read_to_string(self.kubeconfig()).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    }

    /// The administrator over HTTP/2.
    pub fn client(&self) -> Client {
        self.target().client()
    }

    /// The administrator over HTTP/1.1.
    pub fn client_http1(&self) -> Client {
        self.target().client_over(Protocol::Http1)
    }

    pub fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.data().join("admin.kubeconfig")
    }

    /// Writes a kubeconfig for somebody else, whose `user` has these members, and returns its path.
    pub fn kubeconfig_of(&self, name: &str, user: &Value) -> PathBuf {
        let mut config = self.config();
        config["users"][0]["user"] = user.clone();
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// The folder, so that it outlives this daemon.
    pub fn folder(&self) -> Arc<TempDir> {
        self.folder.clone()
    }

    pub fn port(&self) -> u16 {
        self.secure.port()
    }

    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The sum of a counter over all its labels.
    pub async fn count(&self, counter: &str) -> u64 {
        let page = self.client().call(Call::get("/metrics")).await.text();
        let samples = page.lines().filter_map(|line| line.strip_prefix(counter));
        let samples = samples.filter(|sample| sample.starts_with([' ', '{']));
        let samples = samples.filter_map(|sample| sample.rsplit(' ').next());
        samples.map(|count| count.parse::<u64>().unwrap()).sum()
    }

    /// Its resident memory in MiB.
    pub fn resident(&self) -> f64 {
        self.memory("VmRSS:")
    }

    /// The most that was resident so far, in MiB.
    pub fn peak(&self) -> f64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib / 1024.0
    }

    /// The text on stdout.
    pub fn stdout(&self) -> String {
        self.said.lock().join("\n")
    }

    /// The log of this daemon and of its predecessors in this folder.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("stderr")).unwrap())
            .into_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Runs `taffrail compact`, which removes data beyond retention and returns its space.
    pub async fn compact(&self) {
        let data = self.data();
        let run = move || {
            taffrail()
                .arg("compact")
                .arg("--data-dir")
                .arg(data)
                .output()
                .unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Waits for its end, which must happen soon.
    pub async fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "it doesn't end:\n{}",
                self.stderr()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends it with SIGKILL.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.ended().await;
        assert_eq!(
            status.signal(),
            Some(Signal::KILL.as_raw()),
            "it ended by itself: {status}"
        );
    }

    /// Ends it with a signal. It must end with 0.
    pub async fn stop(&mut self, signal: Signal) {
        self.signal(signal);
        let status = self.ended().await;
        assert!(status.success(), "{signal:?}: {status}\n{}", self.stderr());
    }

    /// Starts again over the same data, on the same port, after its end; ready when this returns.
    pub async fn restart(&mut self) {
        self.relaunch().await;
        self.ready().await;
    }

    /// Starts again over the same data, on the same port, after its end.
    pub async fn relaunch(&mut self) {
        assert!(self.child.try_wait().unwrap().is_some(), "it runs");
        let options = Options {
            arguments: self.arguments.clone(),
            ..Options::default()
        };
        *self = options.over(self.folder()).port(self.port()).launch().await;
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr = self.stderr();
        if std::thread::panicking() {
            let start = stderr
                .char_indices()
                .rev()
                .nth(8000)
                .map_or(0, |(index, _)| index);
            eprintln!("the daemon's log ends with:\n{}", &stderr[start..]);
        } else {
            assert!(!stderr.contains("panicked"), "it panicked:\n{stderr}");
        }
    }
}

/// The daemon's command over a folder, with ports that are free and logs without colours.
pub fn command(folder: &Path, secure_port: u16) -> Command {
    let mut command = taffrail();
    command
        .arg("--data-dir")
        .arg(data(folder))
        .args(["--secure-port", &secure_port.to_string()])
        .args(["--metrics-bind-address", "127.0.0.1:0"])
        .current_dir(folder);
    command
}

/// Plugins that need controllers, which create and change objects of their own. Most tests compare
/// objects and versions with those of a kube-apiserver without controllers, so these plugins run
/// only in tests that enable them, or that start the daemon [`AS_INSTALLED`]. The same is true of
/// the controller of aggregated roles.
const WITH_CONTROLLERS: [&str; 2] = ["ServiceAccount", "StorageObjectInUseProtection"];

/// A flag without effect, for tests of the daemon as it is installed.
pub const AS_INSTALLED: &str = "--disable-admission-plugins=";

/// The flags of a test, and those that disable plugins with controllers, and the controllers of
/// aggregated roles and of the status of policies.
fn without_controllers(arguments: &[String]) -> Vec<String> {
    const ENABLE: &str = "--enable-admission-plugins=";
    const DISABLE: &str = "--disable-admission-plugins=";
    let mut arguments = arguments.to_vec();
    if arguments.iter().any(|argument| argument == AS_INSTALLED) {
        return arguments;
    }
    if !arguments
        .iter()
        .any(|argument| argument.starts_with("--controllers"))
    {
        let off = "-clusterrole-aggregation,-validatingadmissionpolicy-status-controller";
        arguments.push(format!("--controllers=*,{off}"));
    }
    let is_enabled = |name: &str| {
        let mut enabled = arguments.iter();
        enabled.any(|argument| argument.starts_with(ENABLE) && argument.contains(name))
    };
    let mut disabled: Vec<&str> = WITH_CONTROLLERS.to_vec();
    disabled.retain(|name| !is_enabled(name));
    let disabled = disabled.join(",");
    match arguments
        .iter_mut()
        .find(|argument| argument.starts_with(DISABLE))
    {
        _ if disabled.is_empty() => {}
        Some(known) => *known = format!("{known},{disabled}"),
        None => arguments.push(format!("{DISABLE}{disabled}")),
    }
    arguments
}

/// The binary without arguments and without the environment of the tests.
pub fn taffrail() -> Command {
    program(BINARY)
}

/// The binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_taffrail");

/// A program without arguments and without the environment of the tests.
pub fn program(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TAFFRAIL_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

pub fn append(path: &Path) -> std::fs::File {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap()
}

/// The address behind a scheme in a line that the daemon printed.
fn address(line: &str, scheme: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(scheme)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:[]".contains(c)));
    rest[..end.unwrap_or(rest.len())].parse().ok()
}
