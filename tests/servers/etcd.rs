//! Real etcds: a cluster on loopback whose members can be killed, paused and restarted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::not_run::not_run;
use super::ports::free_port;

/// The time limit for a member's first answer.
const START_WITHIN: Duration = Duration::from_secs(20);

/// A member's shell: it holds etcd's process, tells its number, and kills it when the test's end of
/// the pipe closes, however the test ended.
const GUARD: &str = r#""$@" & p=$!; echo $p; cat > /dev/null; kill -9 $p 2> /dev/null; wait $p"#;

/// The versions that `tests/run.sh` fetches; others are tested where the environment names one.
const FETCHED: [&str; 2] = ["3.4", "3.5"];

/// A cluster of one version.
pub struct Cluster {
    pub members: Vec<Member>,
    _directory: TempDir,
}

/// Files of a cluster that speaks TLS and demands certificates of its clients.
#[derive(Clone)]
pub struct Tls {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// One member; its data outlives its process.
pub struct Member {
    binary: PathBuf,
    arguments: Vec<String>,
    data: PathBuf,
    client: SocketAddr,
    /// `http` or `https`.
    scheme: &'static str,
    /// The address of its health checks.
    health: SocketAddr,
    log: PathBuf,
    running: Option<Running>,
}

struct Running {
    guard: Child,
    process: u32,
}

/// Our own program in the place of etcd, as a version.
pub const OURS: &str = "taffrail";

/// The binary under the name of etcd, by which it is that program.
pub fn ours() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_taffrail"));
    let etcd = binary.with_file_name("etcd");
    // Another test may just have made it.
    if let Err(error) = std::os::unix::fs::symlink(binary, &etcd) {
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
    }
    etcd
}

/// The etcd of a version (major.minor). `None` only when the environment says explicitly that there
/// is none.
pub fn find(version: &str) -> Option<PathBuf> {
    if version == OURS {
        return Some(ours());
    }
    let variable = format!("TAFFRAIL_ETCD_{}", version.replace('.', "_"));
    let binary = match std::env::var_os(&variable) {
        Some(none) if none == "none" => {
            not_run(&format!("etcd {version}"));
            return None;
        }
        Some(path) => PathBuf::from(path),
        None if !FETCHED.contains(&version) => {
            not_run(&format!("etcd {version}"));
            return None;
        }
        None => cache().join(format!("taffrail/etcd-{version}/etcd")),
    };
    assert!(
        binary.is_file(),
        "no etcd {version} at {}: tests/run.sh fetches it, or set {variable} to its path",
        binary.display()
    );
    Some(binary)
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from)
}

impl Cluster {
    /// Starts `count` members, each with further arguments.
    pub fn start(version: &str, count: usize, further: &[&str]) -> Cluster {
        Cluster::start_with(version, count, further, None)
    }

    /// One member that speaks TLS.
    pub fn with_tls(version: &str, tls: &Tls) -> Cluster {
        Cluster::start_with(version, 1, &[], Some(tls))
    }

    /// One member with durable, and therefore slow, writes, for benchmarks.
    pub fn durable(version: &str) -> Cluster {
        Cluster::start_with(version, 1, &["--unsafe-no-fsync=false"], None)
    }

    fn start_with(version: &str, count: usize, further: &[&str], tls: Option<&Tls>) -> Cluster {
        let binary = find(version).expect("an etcd of this version");
        // A port that was free a moment ago may be gone: then all begin anew.
        for _ in 0..5 {
            let mut cluster = Cluster::prepare(&binary, count, further, tls);
            for member in &mut cluster.members {
                member.spawn();
            }
            if cluster.members.iter_mut().all(Member::serves) {
                return cluster;
            }
            for member in &cluster.members {
                let log = std::fs::read_to_string(&member.log).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(5).collect();
                eprintln!("etcd at {} did not start: {tail:#?}", member.client);
            }
        }
        panic!("etcd {version} could not be started");
    }

    /// One member.
    pub fn single(version: &str) -> Cluster {
        Cluster::start(version, 1, &[])
    }

    /// The URLs of all members.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(Member::url).collect()
    }

    /// The number of the member that leads.
    pub async fn leader(&self) -> usize {
        loop {
            for (number, member) in self.members.iter().enumerate() {
                if is_leader(&member.url()).await == Some(true) {
                    return number;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn prepare(binary: &Path, count: usize, further: &[&str], tls: Option<&Tls>) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let peers: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(number, (_, peer))| format!("m{number}=http://127.0.0.1:{peer}"))
            .collect();
        let members = ports.iter().enumerate().map(|(number, (client, peer))| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let (client_url, peer_url) = (url(scheme, *client), url("http", *peer));
            let data = directory.path().join(format!("m{number}"));
            let mut arguments: Vec<String> = [
                "--name".to_owned(),
                format!("m{number}"),
                "--data-dir".to_owned(),
                data.display().to_string(),
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster={}", peers.join(",")),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
                "--logger=zap".to_owned(),
            ]
            .into();
            if count == 1 {
                // Nobody to hold an election with.
                arguments.extend(
                    ["--heartbeat-interval=10", "--election-timeout=60"].map(str::to_owned),
                );
            }
            let mut health = *client;
            if let Some(tls) = tls {
                health = free_port();
                arguments.extend([
                    format!("--trusted-ca-file={}", tls.authority.display()),
                    format!("--cert-file={}", tls.certificate.display()),
                    format!("--key-file={}", tls.key.display()),
                    "--client-cert-auth".to_owned(),
                    format!("--listen-metrics-urls={}", url("http", health)),
                ]);
            }
            arguments.extend(further.iter().map(|argument| (*argument).to_owned()));
            Member {
                binary: binary.to_owned(),
                arguments,
                data,
                client: SocketAddr::from(([127, 0, 0, 1], *client)),
                scheme,
                health: SocketAddr::from(([127, 0, 0, 1], health)),
                log: directory.path().join(format!("m{number}.log")),
                running: None,
            }
        });
        Cluster {
            members: members.collect(),
            _directory: directory,
        }
    }
}

impl Member {
    /// Where clients reach it.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.client)
    }

    /// Its client address.
    pub fn address(&self) -> SocketAddr {
        self.client
    }

    /// kill -9.
    pub fn kill(&mut self) {
        // The guard kills it and waits for it.
        if let Some(mut running) = self.running.take() {
            drop(running.guard.stdin.take());
            running.guard.wait().unwrap();
        }
    }

    /// Starts it again on its data, and waits until it serves unless others are missing.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Waits until it answers a linearizable read.
    pub fn wait(&mut self) {
        assert!(self.serves(), "etcd at {} does not serve", self.client);
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Copies its data, as a backup of the disk would; it must not run.
    pub fn back_up(&self, to: &Path) {
        assert!(self.running.is_none(), "it runs");
        copy(&self.data, to);
    }

    /// Puts a backup in the place of its data; it must not run.
    pub fn restore(&self, from: &Path) {
        assert!(self.running.is_none(), "it runs");
        std::fs::remove_dir_all(&self.data).unwrap();
        copy(from, &self.data);
    }

    /// Makes it the first member of a cluster of another name; it must not run.
    pub fn begin_anew(&mut self) {
        assert!(self.running.is_none(), "it runs");
        std::fs::remove_dir_all(&self.data).unwrap();
        self.arguments
            .push("--initial-cluster-token=another".to_owned());
    }

    /// The value of one of its metrics.
    pub fn metric(&self, name: &str) -> String {
        let page = http_get(self.health, "/metrics").unwrap();
        let value = page.lines().find_map(|line| line.strip_prefix(name));
        value.expect("it has this metric").trim().to_owned()
    }

    /// CPU time it has used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let process = self.running.as_ref().expect("it runs").process;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }

    fn signal(&self, name: &str) {
        let process = self.running.as_ref().expect("it runs").process;
        let sent = Command::new("kill")
            .args([format!("-{name}"), process.to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    fn spawn(&mut self) {
        let log = std::fs::File::create(&self.log).unwrap();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "etcd"])
            .arg(&self.binary)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = guard.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let process = line.trim().parse().unwrap();
        self.running = Some(Running { guard, process });
    }

    fn serves(&mut self) -> bool {
        let deadline = Instant::now() + START_WITHIN;
        while Instant::now() < deadline {
            let Some(running) = &mut self.running else {
                return false;
            };
            let gone = !Path::new(&format!("/proc/{}/exe", running.process)).exists();
            if gone {
                self.kill();
                return false;
            }
            if healthy(self.health) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// etcd's own view: whether a linearizable read is answered.
fn healthy(address: SocketAddr) -> bool {
    http_get(address, "/health").is_ok_and(|text| text.contains(r#""health":"true""#))
}

fn http_get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

fn url(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

async fn is_leader(url: &str) -> Option<bool> {
    let mut client = etcd_client::Client::connect([url], None).await.ok()?;
    let status = tokio::time::timeout(Duration::from_secs(1), client.status()).await;
    let status = status.ok()?.ok()?;
    Some(status.leader() == status.header()?.member_id())
}
