//! The informers of the real client-go and of kube-rs, interrupted and resumed during writes. In
//! the end their stores equal a list.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::harness::{CONFIGMAPS, Call, Daemon};
use crate::load::churn::{Versions, churn, versions};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The program of `tests/informers`.
pub fn binary() -> PathBuf {
    let binary = match std::env::var_os("TAFFRAIL_INFORMERS") {
        Some(path) => PathBuf::from(path),
        None => crate::harness::cache().join("taffrail/informers/informers"),
    };
    assert!(
        binary.is_file(),
        "no build of tests/informers at {}: tests/run.sh makes one, or set TAFFRAIL_INFORMERS",
        binary.display()
    );
    binary
}

/// An informer of client-go.
pub struct Informers {
    pub mode: String,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Informers {
    /// Starts one of JSON, protobuf or metadata, with or without the streaming list
    /// (`sendInitialEvents`).
    pub fn start(kubeconfig: &Path, over: &str, watch_list: &str) -> Informers {
        let mut child = Command::new(binary())
            .arg("-kubeconfig")
            .arg(kubeconfig)
            .args(["-over", over])
            .env("KUBE_FEATURE_WatchListClient", watch_list)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        Informers {
            mode: format!("{over}, WatchListClient={watch_list}"),
            lines: BufReader::new(stdout).lines(),
            _child: child,
        }
    }

    /// Starts all of them, and waits until they have synced.
    pub async fn start_all(kubeconfig: &Path) -> Vec<Informers> {
        let mut informers = Vec::new();
        for over in ["json", "protobuf", "metadata"] {
            for watch_list in ["true", "false"] {
                informers.push(Informers::start(kubeconfig, over, watch_list));
            }
        }
        for informer in &mut informers {
            let line = informer.line().await;
            assert_eq!(line.as_deref(), Some("synced"), "{}", informer.mode);
        }
        informers
    }

    pub async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
        line.unwrap_or_else(|_| panic!("{}: it hangs", self.mode))
            .unwrap()
    }

    /// The final content of its store, and the events of its handlers. It ends with the ConfigMap
    /// `end`.
    pub async fn end(mut self) -> (Versions, Versions) {
        let (mut store, mut told) = (Versions::new(), Versions::new());
        while let Some(line) = self.line().await {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["store", name, version] => store.insert(name.to_owned(), version.parse().unwrap()),
                ["told", name, version] => told.insert(name.to_owned(), version.parse().unwrap()),
                _ => panic!("{}: {line}", self.mode),
            };
        }
        (store, told)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_client_go_end_equal_to_a_list_whatever_cuts_them_off() {
    informers_end_equal_to_a_list(Daemon::start().await, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_client_go_end_equal_to_a_list_without_a_watch_cache_too() {
    let daemon = Daemon::with(&["--watch-cache=false"]).await;
    informers_end_equal_to_a_list(daemon, 2).await;
}

/// Informers over JSON, over protobuf and of metadata, each with and without the streaming list,
/// while others write and the daemon is killed (API-58, API-319).
async fn informers_end_equal_to_a_list(mut daemon: Daemon, kills: usize) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(churn(daemon.client(), writer, stopped.clone())))
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let informers = Informers::start_all(&daemon.kubeconfig()).await;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(700)).await;
        daemon.kill().await;
        daemon.relaunch().await;
        daemon.ready().await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop.send(true).unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    let end = json!({ "metadata": { "name": "end" } });
    let client = daemon.client();
    client.call(Call::post(CONFIGMAPS, &end)).await.expect(201);
    let listed = versions(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    assert!(listed.len() > 20, "hardly anything was written: {listed:?}");
    for informer in informers {
        let mode = informer.mode.clone();
        let (store, told) = informer.end().await;
        assert_eq!(store, listed, "{mode}");
        assert_eq!(told, listed, "{mode}");
    }
}
