//! Measures how a daemon with very many watches stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::daemons;
use crate::harness::client::Lines;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body};
use crate::meter::Sample;
use crate::report::{figure, noise, part};

/// The watches of one connection.
const STREAMS: usize = 100;
/// The time until the watches are quiet.
const SETTLE: Duration = Duration::from_secs(3);
/// The time limit for a process to end.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The end of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With a bookmark, and then the end of the stream.
    Bookmark,
    /// With the end of the stream.
    Bare,
    /// The stream was reset, or its connection broke.
    Reset,
}

/// Stops a daemon with this many watches.
pub async fn measure(watches: usize) {
    part(&format!(
        "SIGTERM while {watches} watches over HTTP/2 are open, {STREAMS} on each connection"
    ));
    let mut daemon = daemons::daemon().await;
    let object = Call::post(CONFIGMAPS, &body("a", "1"));
    daemon.client().call(object).await.expect(201);
    let watching = open(&daemon, watches).await;
    tokio::time::sleep(SETTLE).await;
    let pid = daemon.pid();
    let waiting = tokio::task::spawn_blocking(move || wait_for_end(pid));
    let (start, begun) = (Sample::take(pid), Instant::now());
    daemon.signal(Signal::TERM);
    let (end, ended) = waiting.await.unwrap();
    let used = start.until(&end);
    let took = ended - begun;
    let status = daemon.ended().await;
    assert!(status.success(), "{status}\n{}", daemon.stderr());
    let ends: Vec<End> = join_all(watching)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let count = |wanted: End| ends.iter().filter(|end| **end == wanted).count() as f64;
    figure("SIGTERM to the end of it", took.as_secs_f64(), "s", "< 1");
    figure("CPU of the daemon for that", used.daemon, "s", "");
    figure("CPU of the clients meanwhile", used.own, "s", "");
    let wanted = watches.to_string();
    figure("ended with a bookmark", count(End::Bookmark), "", &wanted);
    figure("ended without one", count(End::Bare), "", "0");
    figure("reset", count(End::Reset), "", "0");
    noise(used.other_cores);
}

async fn open(daemon: &Daemon, watches: usize) -> Vec<JoinHandle<End>> {
    let path = format!("{CONFIGMAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600");
    let mut all = Vec::with_capacity(watches);
    while all.len() < watches {
        let client = Arc::new(daemon.client());
        let streams = STREAMS.min(watches - all.len());
        for lines in join_all((0..streams).map(|_| client.watch(&path))).await {
            all.push(tokio::spawn(follow(lines, Arc::clone(&client))));
        }
    }
    all
}

/// Reads to the end of the stream.
async fn follow(mut lines: Lines, client: Arc<Client>) -> End {
    let mut end = End::Bare;
    loop {
        match lines.next().await {
            Ok(Some(line)) if line.starts_with(br#"{"type":"BOOKMARK""#) => end = End::Bookmark,
            Ok(Some(_)) => end = End::Bare,
            Ok(None) => break,
            Err(_) => {
                end = End::Reset;
                break;
            }
        }
    }
    drop(client);
    end
}

/// Waits until a child process has ended that nobody has waited for yet. Returns its resource use
/// and the time. It needs a thread of its own, because the clients keep those of the runtime busy.
pub fn wait_for_end(pid: u32) -> (Sample, Instant) {
    let begun = Instant::now();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        if rest.trim_start().starts_with('Z') {
            return (Sample::take(pid), Instant::now());
        }
        assert!(begun.elapsed() < TIMEOUT, "the process does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}
