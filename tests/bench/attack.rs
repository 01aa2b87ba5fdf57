//! Measures the daemon's memory, and the effect on other clients, while clients send requests and
//! never read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::harness::frames::{self, Frames};
use crate::harness::{CONFIGMAPS, Call, Daemon, Target, body};
use crate::meter::Sample;
use crate::report::{Durations, figure, part};

const CONNECTIONS: usize = 60;
const STREAMS: u32 = 1_000;
/// The interval at which a stream is requested again, so that the connection is not idle.
const RENEWAL: Duration = Duration::from_secs(10);
const DURATION: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// A path that the server's answers used to repeat, with four bytes for each of its bytes.
fn path() -> String {
    format!("/{}", "\"".repeat(3_900))
}

/// A GET whose path the peer adds to its HPACK table, for [`get_again`].
fn get_and_keep(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    frames::literal(1, "localhost", &mut block);
    // A literal with an indexed name and incremental indexing.
    frames::integer(0x40, 6, 4, &mut block);
    frames::integer(0, 7, path.len(), &mut block);
    block.extend(path.as_bytes());
    frames::frame(frames::HEADERS, 5, stream, &block)
}

/// A GET of the path that was last added to the HPACK table, in a few bytes.
fn get_again(stream: u32) -> Vec<u8> {
    // The dynamic table begins at index 62.
    let mut block = vec![0x82, 0x87, 0x80 | 62];
    frames::literal(1, "localhost", &mut block);
    frames::frame(frames::HEADERS, 5, stream, &block)
}

/// Requests a thousand responses on each connection, without window for a byte of them. Reconnects
/// after a disconnect.
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
    // The path is sent once. 20 KB request a thousand responses of more than 4 KB.
    let mut many = get_and_keep(1, &path());
    many.extend((1..STREAMS).flat_map(|number| get_again(2 * number + 1)));
    connection.write(&many).await?;
    let mut next = STREAMS;
    loop {
        let renewal = tokio::time::timeout(RENEWAL, async {
            while connection.next().await.is_some() {}
        });
        if renewal.await.is_ok() {
            return Ok(());
        }
        connection.write(&get_again(2 * next + 1)).await?;
        next += 1;
    }
}

/// The measurements of an ordinary client.
struct ClientMeasurements {
    /// Times on a connection that stays open.
    kept: Durations,
    /// Times on connections that are opened for one request.
    fresh: Durations,
    /// The peak memory in MiB.
    memory: f64,
}

/// Uses the daemon from a separate thread, so that the attack delays it only through CPU use.
async fn measure_client(
    daemon: Arc<Daemon>,
    when: &'static str,
    duration: Duration,
) -> ClientMeasurements {
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .unwrap()
            .block_on(call_repeatedly(&daemon, when, duration))
    })
    .await
    .unwrap()
}

async fn call_repeatedly(daemon: &Daemon, when: &str, duration: Duration) -> ClientMeasurements {
    let mut measurements = ClientMeasurements {
        kept: Durations::default(),
        fresh: Durations::default(),
        memory: 0.0,
    };
    let kept = daemon.client();
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < duration {
        let name = format!("written-{when}-{number}");
        let sent = Instant::now();
        let fresh = daemon.client();
        let answer = fresh.call(Call::post(CONFIGMAPS, &body(&name, "1"))).await;
        measurements.fresh.add(sent.elapsed());
        answer.expect(201);
        let sent = Instant::now();
        let answer = kept.call(Call::get(CONFIGMAPS)).await;
        // The first call has opened the connection.
        if number > 0 {
            measurements.kept.add(sent.elapsed());
        }
        answer.expect(200);
        number += 1;
        measurements.memory = measurements.memory.max(daemon.resident());
        tokio::time::sleep(PAUSE).await;
    }
    measurements
}

fn durations(when: &str, measurements: &mut ClientMeasurements, limit: &str) {
    let kinds = [
        ("a kept connection", &mut measurements.kept),
        ("a fresh connection", &mut measurements.fresh),
    ];
    for (kind, durations) in kinds {
        for (name, share, limit) in [("p50", 0.5, ""), ("p99", 0.99, ""), ("longest", 1.0, limit)] {
            let name = format!("a request {when}, on {kind}, {name}");
            figure(&name, durations.percentile(share), "ms", limit);
        }
    }
}

pub async fn measure() {
    part(&format!(
        "{CONNECTIONS} connections that ask {STREAMS} times without credentials and read nothing"
    ));
    let daemon = Arc::new(Daemon::start().await);
    let before = daemon.resident();
    figure("memory before", before, "MiB", "");
    let mut quiet = measure_client(Arc::clone(&daemon), "before", Duration::from_secs(3)).await;
    durations("before", &mut quiet, "");
    let start = Sample::take(daemon.pid());
    let target = daemon.target().anonymous();
    let attackers: Vec<_> = (0..CONNECTIONS)
        .map(|_| tokio::spawn(attack(target.clone())))
        .collect();
    let mut attacked = measure_client(Arc::clone(&daemon), "during", DURATION).await;
    let used = start.until(&Sample::take(daemon.pid()));
    figure("memory at most", attacked.memory, "MiB", "< 150");
    durations("during", &mut attacked, "< 300");
    figure(
        "CPU of the daemon",
        used.daemon / DURATION.as_secs_f64(),
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
