//! Measures hostile requests: the cost of each for the daemon, and the memory that remains after
//! many of them.

mod bodies;

use std::time::{Duration, Instant};

use crate::harness::{Call, Client, Daemon};
use crate::meter;
use crate::report::{figure, part};
use bodies::Request;

/// The limit: this much memory above rest, and this much more for each MB that is sent.
const MEMORY_MIB: f64 = 64.0;
const MEMORY_MIB_PER_MB: f64 = 16e6 / (1 << 20) as f64;
/// No request may need more than this.
const MOST_MEMORY_MIB: f64 = 256.0;
/// The seconds of CPU for each MB that is sent, and for a request of less than 64 KiB.
const CPU_PER_MB: f64 = 0.3;
const LEAST_CPU: f64 = 0.02;

/// The clocks of processes tick every 10 ms, so short requests are repeated until this much is
/// used.
const ENOUGH_CPU: f64 = 0.3;
const MOST_REPEATS: usize = 10;

/// A daemon frees memory while it uses less CPU than this in a pause.
const PAUSE: Duration = Duration::from_secs(6);
const QUIET_CPU: f64 = 0.2;
const MOST_PAUSES: usize = 20;

/// How long after the last request its memory must be freed.
const REST: Duration = Duration::from_secs(30);

/// A daemon, and how often it had to be restarted.
struct Subject {
    daemon: Daemon,
    ended: usize,
}

/// Whether a process runs. A process that has ended may still wait for its parent.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}

impl Subject {
    async fn start() -> Subject {
        let daemon = Daemon::start().await;
        Subject { daemon, ended: 0 }
    }

    /// Sends a request. Returns `None` if the daemon ended because of it and was restarted.
    async fn send(&mut self, client: &Client, request: &Request) -> Option<u16> {
        let calling = client.attempt(request.call.clone());
        let answer = match request.given_up {
            None => calling.await,
            Some(after) => {
                let answer = tokio::time::timeout(Duration::from_millis(after), calling).await;
                answer.unwrap_or_else(|given_up| Err(given_up.into()))
            }
        };
        if let Ok(answer) = answer {
            return Some(answer.status.as_u16());
        }
        // The work of an aborted request may continue. The figures include it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        if runs(self.daemon.pid()) {
            return Some(0);
        }
        self.ended += 1;
        self.daemon.ended().await;
        self.daemon.restart().await;
        None
    }

    /// Waits until no work continues, and the daemon had time to free memory.
    async fn settle(&self) {
        let pid = self.daemon.pid();
        for _ in 0..MOST_PAUSES {
            let before = meter::cpu(pid);
            tokio::time::sleep(PAUSE).await;
            if meter::cpu(pid) - before < QUIET_CPU {
                break;
            }
        }
    }

    async fn prepare(&self, request: &Request) {
        let client = self.daemon.client();
        for call in &request.before {
            let answer = client.call(call.clone()).await;
            let status = answer.status.as_u16();
            let text: String = answer.text().chars().take(300).collect();
            assert!(
                [200, 201, 409].contains(&status),
                "{}: {text}",
                request.name
            );
        }
    }
}

fn megabytes(calls: &[&Call]) -> f64 {
    let bytes: usize = calls.iter().map(|call| call.body.len()).sum();
    bytes as f64 / 1e6
}

/// Measures one request alone.
async fn measure_one(subject: &mut Subject, request: &Request) {
    subject.prepare(request).await;
    let client = subject.daemon.client();
    client.call(Call::get("/version")).await.expect(200);
    subject.settle().await;
    // Objects that the request reads from the store count, too.
    let sent = megabytes(&[&request.call]);
    let read = request.before.last().map_or(0.0, |call| megabytes(&[call]));
    let mut most = 0_f64;
    let mut repeats = 0;
    let mut code = 0;
    let pid = subject.daemon.pid();
    let begun = meter::cpu(pid);
    let rest = subject.daemon.resident();
    meter::reset_peak(pid);
    while repeats < MOST_REPEATS && (repeats == 0 || meter::cpu(pid) - begun < ENOUGH_CPU) {
        match subject.send(&client, request).await {
            Some(answered) => code = answered,
            None => {
                return figure(
                    &format!("{}: THE DAEMON ENDED", request.name),
                    sent,
                    "MB",
                    "never",
                );
            }
        }
        most = most.max(meter::peak(pid) - rest);
        repeats += 1;
    }
    if code == 0 || code == 504 {
        // This shows how long work continues that no client waits for.
        subject.settle().await;
        most = most.max(meter::peak(pid) - rest);
    }
    let cpu = (meter::cpu(pid) - begun) / repeats as f64;
    let n = sent + read;
    let memory_bar = (MEMORY_MIB + MEMORY_MIB_PER_MB * n).min(MOST_MEMORY_MIB);
    let cpu_bar = (CPU_PER_MB * n).max(LEAST_CPU);
    let name = request.name;
    let (of_cpu, of_memory) = (cpu / cpu_bar, most / memory_bar);
    println!(
        "  {name:<34} {code:>3} {sent:>6.3} MB  {cpu:>7.3} s {of_cpu:>6.2}  \
         {most:>7.1} MiB {of_memory:>6.2}"
    );
}

/// Measures each request by itself.
pub async fn each() {
    part(
        "hostile requests, each alone: body, CPU and peak memory above rest; more than 1.00 fails",
    );
    let mut subject = Subject::start().await;
    for request in bodies::all() {
        measure_one(&mut subject, &request).await;
    }
    figure("times that the daemon ended", subject.ended as f64, "", "0");
}

/// Sends all requests in turns for `duration`.
pub async fn in_turns(duration: Duration) {
    part(&format!(
        "hostile requests in turns, for {} s",
        duration.as_secs()
    ));
    let mut subject = Subject::start().await;
    let requests = bodies::all();
    for request in &requests {
        subject.prepare(request).await;
    }
    tokio::time::sleep(REST).await;
    let before = subject.daemon.resident();
    let begun = Instant::now();
    let mut client = subject.daemon.client();
    let (mut sent, mut most) = (0, 0_f64);
    for request in requests.iter().cycle() {
        if begun.elapsed() > duration {
            break;
        }
        if subject.send(&client, request).await.is_none() {
            client = subject.daemon.client();
        }
        most = most.max(subject.daemon.peak());
        sent += 1;
    }
    tokio::time::sleep(REST).await;
    let after = subject.daemon.resident();
    figure("requests", f64::from(sent), "", "");
    figure("memory before", before, "MiB", "");
    figure("memory at most", most, "MiB", "");
    figure(
        "memory 30 s later, above before",
        after - before,
        "MiB",
        "<= 20",
    );
    figure("times that the daemon ended", subject.ended as f64, "", "0");
}
