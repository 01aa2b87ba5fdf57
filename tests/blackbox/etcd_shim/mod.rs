//! The program `etcd`: this binary under that name, as test environments and clients of etcd use
//! it.

mod daemons;
mod model;
mod program;
mod same_as_etcd;
mod watches;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::servers::etcd::ours;
use crate::servers::ports::free_port;

/// The time limit for whatever a test waits for, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// The program, which is killed when this is dropped.
struct Etcd {
    child: Child,
    folder: Arc<TempDir>,
    address: SocketAddr,
}

impl Etcd {
    /// Starts it as envtest does, with further flags, and waits until it is healthy.
    fn start(further: &[&str]) -> Etcd {
        Etcd::over(Arc::new(tempfile::tempdir().unwrap()), further)
    }

    /// As [`Etcd::start`], on the data of another one.
    fn over(folder: Arc<TempDir>, further: &[&str]) -> Etcd {
        let port = free_port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let child = command(&folder, port).args(further).spawn().unwrap();
        let mut etcd = Etcd {
            child,
            folder,
            address,
        };
        let began = Instant::now();
        while get(address, "/health", "127.0.0.1").is_none() {
            assert_eq!(etcd.child.try_wait().unwrap(), None, "{}", etcd.stderr());
            assert!(began.elapsed() < WITHIN, "it does not serve");
            std::thread::sleep(Duration::from_millis(2));
        }
        etcd
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn client(&self) -> Client {
        Client::connect([self.url()], None).await.unwrap()
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    /// The answer to a program that would open the directory.
    fn data_directory(&self) -> Value {
        let (status, body) = get(self.address, DATA_DIRECTORY, "127.0.0.1").unwrap();
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Memory that it has, in KiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let mut words = line.unwrap().split_whitespace();
        words.nth(1).unwrap().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        ended(&mut self.child)
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        ended(&mut self.child);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const DATA_DIRECTORY: &str = "/taffrail/v1/data-directory";

/// The command line of envtest.
fn command(folder: &TempDir, port: u16) -> Command {
    let url = format!("http://127.0.0.1:{port}");
    let mut command = Command::new(ours());
    command
        .arg(format!("--advertise-client-urls={url}"))
        .arg(format!(
            "--data-dir={}",
            folder.path().join("data").display()
        ))
        .arg(format!("--listen-client-urls={url}"))
        .arg(format!(
            "--listen-peer-urls=http://127.0.0.1:{}",
            free_port()
        ))
        .arg("--unsafe-no-fsync=true")
        .current_dir(folder.path())
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(append(&folder.path().join("stderr")));
    command
}

fn append(path: &Path) -> std::fs::File {
    let mut options = std::fs::File::options();
    options.create(true).append(true).open(path).unwrap()
}

/// Status and body of an answer; `None` if nobody answers.
fn get(address: SocketAddr, path: &str, host: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

fn ended(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < WITHIN, "it does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}
