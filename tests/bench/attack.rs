//! Clients that send requests and never read: the daemon's memory, and the effect on other clients.

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
const LASTS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// A path that answers used to repeat with four bytes for each of its own.
fn path() -> String {
    format!("/{}", "\"".repeat(3_900))
}

/// A GET whose path goes into the peer's table of headers, for [`get_again`].
fn get_and_keep(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    frames::literal(1, "localhost", &mut block);
    // The literal of a name that has an index, to be kept.
    frames::integer(0x40, 6, 4, &mut block);
    frames::integer(0, 7, path.len(), &mut block);
    block.extend(path.as_bytes());
    frames::frame(frames::HEADERS, 5, stream, &block)
}

/// A GET of the path that was kept last, in a few bytes.
fn get_again(stream: u32) -> Vec<u8> {
    // What is kept is counted from 62 on.
    let mut block = vec![0x82, 0x87, 0x80 | 62];
    frames::literal(1, "localhost", &mut block);
    frames::frame(frames::HEADERS, 5, stream, &block)
}

/// Requests a thousand answers on each connection without window for a byte of them. Reconnects
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
    // The path is sent once: 20 KB ask for a thousand answers of 4 KB and more.
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

/// The experience of an ordinary user.
struct Experience {
    /// Times on a connection that stays open.
    kept: Durations,
    /// Times on connections that are opened for one request.
    fresh: Durations,
    /// The peak memory in MiB.
    memory: f64,
}

/// Uses the daemon from a separate thread, so that the attack delays it only through CPU use.
async fn use_it(daemon: Arc<Daemon>, when: &'static str, lasts: Duration) -> Experience {
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(call_it(&daemon, when, lasts))
    })
    .await
    .unwrap()
}

async fn call_it(daemon: &Daemon, when: &str, lasts: Duration) -> Experience {
    let mut experience = Experience {
        kept: Durations::default(),
        fresh: Durations::default(),
        memory: 0.0,
    };
    let kept = daemon.client();
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < lasts {
        let name = format!("written-{when}-{number}");
        let sent = Instant::now();
        let fresh = daemon.client();
        let answer = fresh.call(Call::post(CONFIGMAPS, &body(&name, "1"))).await;
        experience.fresh.add(sent.elapsed());
        answer.expect(201);
        let sent = Instant::now();
        let answer = kept.call(Call::get(CONFIGMAPS)).await;
        // The first call has opened the connection.
        if number > 0 {
            experience.kept.add(sent.elapsed());
        }
        answer.expect(200);
        number += 1;
        experience.memory = experience.memory.max(daemon.resident());
        tokio::time::sleep(PAUSE).await;
    }
    experience
}

fn durations(when: &str, experience: &mut Experience, limit: &str) {
    let kinds = [
        ("a kept connection", &mut experience.kept),
        ("a fresh connection", &mut experience.fresh),
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
    let mut quiet = use_it(Arc::clone(&daemon), "before", Duration::from_secs(3)).await;
    durations("before", &mut quiet, "");
    let start = Sample::take(daemon.pid());
    let target = daemon.target().anonymous();
    let attackers: Vec<_> = (0..CONNECTIONS)
        .map(|_| tokio::spawn(attack(target.clone())))
        .collect();
    let mut attacked = use_it(Arc::clone(&daemon), "during", LASTS).await;
    let used = start.until(&Sample::take(daemon.pid()));
    figure("memory at most", attacked.memory, "MiB", "< 150");
    durations("during", &mut attacked, "< 300");
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
