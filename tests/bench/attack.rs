//! Strangers who ask and don't read: what they make the daemon hold, and what others notice.

use std::time::{Duration, Instant};

use crate::harness::frames::{self, Frames};
use crate::harness::{CONFIGMAPS, Call, Daemon, Target, body};
use crate::meter::Sample;
use crate::report::{Durations, figure, part};

const CONNECTIONS: usize = 60;
const STREAMS: u32 = 1_000;
/// A stream is asked for anew so often, which keeps a connection from being idle.
const RENEWAL: Duration = Duration::from_secs(10);
const LASTS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// A path that answers used to repeat with four bytes for each of its own.
fn path() -> String {
    format!("/{}", "\"".repeat(3_900))
}

/// Asks for a thousand answers on each connection without room for a byte of them. Who is thrown
/// out comes again.
async fn attack(target: Target) {
    loop {
        let Ok(mut connection) = Frames::open(&target, 0).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = ask(&mut connection).await;
    }
}

async fn ask(connection: &mut Frames) -> std::io::Result<()> {
    let path = path();
    let many = (0..STREAMS).flat_map(|number| frames::get(2 * number + 1, &path, None));
    connection.write(&many.collect::<Vec<u8>>()).await?;
    let mut next = STREAMS;
    loop {
        let renewal = tokio::time::timeout(RENEWAL, async {
            while connection.next().await.is_some() {}
        });
        if renewal.await.is_ok() {
            return Ok(());
        }
        connection
            .write(&frames::get(2 * next + 1, &path, None))
            .await?;
        next += 1;
    }
}

/// What a user meets with meanwhile, on a connection that stays and on new ones, and the most
/// memory that was seen.
async fn use_it(daemon: &Daemon, when: &str, lasts: Duration) -> (Durations, f64) {
    let kept = daemon.client();
    let (mut latency, mut most) = (Durations::default(), 0.0_f64);
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < lasts {
        let sent = Instant::now();
        kept.call(Call::get(CONFIGMAPS)).await.expect(200);
        latency.add(sent.elapsed());
        let sent = Instant::now();
        let name = format!("written-{when}-{number}");
        let fresh = daemon.client();
        fresh
            .call(Call::post(CONFIGMAPS, &body(&name, "1")))
            .await
            .expect(201);
        latency.add(sent.elapsed());
        number += 1;
        most = most.max(daemon.resident());
        tokio::time::sleep(PAUSE).await;
    }
    (latency, most)
}

pub async fn measure() {
    part(&format!(
        "{CONNECTIONS} connections that ask {STREAMS} times without credentials and read nothing"
    ));
    let daemon = Daemon::start().await;
    let before = daemon.resident();
    figure("memory before", before, "MiB", "");
    let (mut quiet, _) = use_it(&daemon, "before", Duration::from_secs(3)).await;
    figure("a request before, p99", quiet.percentile(0.99), "ms", "");
    let start = Sample::take(daemon.pid());
    let target = daemon.target().anonymous();
    let attackers: Vec<_> = (0..CONNECTIONS)
        .map(|_| tokio::spawn(attack(target.clone())))
        .collect();
    let (mut latency, most) = use_it(&daemon, "during", LASTS).await;
    let used = start.until(&Sample::take(daemon.pid()));
    figure("memory at most", most, "MiB", "< 150");
    figure("a request, p50", latency.percentile(0.5), "ms", "");
    figure("a request, p99", latency.percentile(0.99), "ms", "");
    figure("a request, longest", latency.percentile(1.0), "ms", "< 300");
    figure(
        "CPU of the daemon",
        used.daemon / LASTS.as_secs_f64(),
        "cores",
        "",
    );
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
    for seconds in [1, 5, 15] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        figure(
            &format!("memory {seconds} s later"),
            daemon.resident(),
            "MiB",
            "as before",
        );
    }
}
