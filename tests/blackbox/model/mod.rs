//! The running daemon compared with a simple model of the event log.
//!
//! Random writers write, watches of every kind begin at every start, clients disconnect, resume and
//! stop reading, history is compacted, rings are small, and the daemon restarts.
//! `TAFFRAIL_MODEL_SECONDS` sets the duration, `TAFFRAIL_SEED` repeats the random choices of a run.
//! The model does not know the daemon's code.

mod check;
mod objects;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use self::check::check_session;
use self::objects::{Kind, ModelCollection, NAMESPACES, read};
use self::session::{Common, Session, WatchClient};
use crate::harness::{Call, Daemon, Protocol, version};
use crate::load::{
    Collection, Random, WatchEvent, Watcher, WriteLog, Writer, fold, from_environment, seed,
};

/// The number of writers for each kind.
const WRITERS: usize = 6;
/// The number of watching clients for each kind.
const WATCH_CLIENTS: usize = 14;
/// Longer than the interruptions of the watches that record the log.
const RETENTION: Duration = Duration::from_secs(8);
/// Room for about twenty events.
const RING: &str = "64KiB";

fn protocol(random: &mut Random) -> Protocol {
    random.of(&[Protocol::Http1, Protocol::Http2])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stream_of_the_daemon_is_the_log_s_whatever_happens_wa_10_wa_20_wa_25_wa_37() {
    let seconds = from_environment("TAFFRAIL_MODEL_SECONDS").unwrap_or(20);
    let seed = seed();
    println!("TAFFRAIL_SEED={seed} TAFFRAIL_MODEL_SECONDS={seconds}");
    let mut random = Random::new(seed);
    let retention = format!("{}s", RETENTION.as_secs());
    // Without an issuer the daemon makes no objects of its own beside those of the writers.
    let issuer = "--service-account-issuer=";
    let arguments = [
        "--retention-age",
        &retention,
        "--watch-ring-bytes",
        RING,
        issuer,
    ];
    let mut daemon = Daemon::with(&arguments).await;
    let from = namespaces(&daemon).await;
    let common = Arc::new(Common {
        target: daemon.target(),
        write_log: Arc::new(WriteLog::default()),
        retention: RETENTION,
        restarts: AtomicU64::new(0),
        until: Default::default(),
    });
    let write_log = common.write_log.clone();
    let mut logs = Vec::new();
    let (mut writers, mut watch_clients) = (Vec::new(), Vec::new());
    let recorded: [Arc<AtomicU64>; 3] = Default::default();
    for kind in Kind::ALL {
        let recorder = Watcher {
            client: common.target.client_over(protocol(&mut random)),
            path: kind.path(None),
            read,
            selector: kind.own().to_owned(),
            from,
            until: recorded[kind as usize].clone(),
        };
        logs.push(tokio::spawn(recorder.run()));
        for number in 0..WRITERS {
            let client = common.target.client_over(protocol(&mut random));
            let namespace = NAMESPACES[number % NAMESPACES.len()];
            let collection = Arc::new(ModelCollection { kind, namespace });
            let name = format!("w{number}");
            let writer = Writer::new(client, write_log.clone(), collection, name, random.next());
            writers.push(tokio::spawn(writer.run()));
        }
        for _ in 0..WATCH_CLIENTS {
            let watch_client = WatchClient {
                common: common.clone(),
                random: Random::new(random.next()),
                kind,
            };
            watch_clients.push((kind, tokio::spawn(watch_client.run())));
        }
    }

    let mut history_reads = 0;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let wait = Duration::from_millis(500 + random.below(4_000));
        tokio::time::sleep(wait).await;
        history_reads += daemon.count("taffrail_watch_history_reads_total").await;
        common.restarts.fetch_add(1, Ordering::SeqCst);
        let newest = write_log.newest();
        if random.below(2) == 0 {
            daemon.kill().await;
        } else {
            daemon.stop(Signal::TERM).await;
        }
        daemon.relaunch().await;
        daemon.ready().await;
        common.restarts.fetch_add(1, Ordering::SeqCst);
        let call = Call::get(&Kind::Pods.path(None));
        let list = version(&daemon.client().call(call).await.expect(200));
        assert!(list >= newest, "back to {list} from {newest}");
    }

    write_log.stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    for kind in Kind::ALL {
        let end = end(&daemon, kind).await;
        recorded[kind as usize].store(end, Ordering::SeqCst);
        common.until[kind as usize].store(end, Ordering::SeqCst);
    }
    let mut history = Vec::new();
    for (kind, log) in Kind::ALL.into_iter().zip(logs) {
        let log = log.await.unwrap().events;
        check_state(&log, kind, &daemon).await;
        history.push(log);
    }
    let mut all = history.concat();
    all.sort_by_key(|event| event.version);
    write_log.check(&all);
    let mut sessions = Vec::new();
    for (kind, watch_client) in watch_clients {
        for session in watch_client.await.unwrap() {
            if let Err(difference) = check_session(&history[kind as usize], &session) {
                panic!("{difference}");
            }
            sessions.push(session);
        }
    }
    report(&all, &sessions);
    println!("{history_reads} chunks of history were read for them");
    assert!(history_reads > 0, "the ring was never too short");
}

async fn namespaces(daemon: &Daemon) -> u64 {
    let mut newest = 0;
    for name in NAMESPACES {
        let namespace = json!({ "metadata": { "name": name } });
        let call = Call::post("/api/v1/namespaces", &namespace);
        newest = version(&daemon.client().call(call).await.expect(201));
    }
    newest
}

/// The last write of a kind.
async fn end(daemon: &Daemon, kind: Kind) -> u64 {
    let namespace = NAMESPACES[0];
    let end = ModelCollection { kind, namespace }.object("end", "end red n0 0");
    let call = Call::post(&kind.path(Some(namespace)), &end);
    version(&daemon.client().call(call).await.expect(201))
}

/// Checks that the log is consistent and ends in the current state.
async fn check_state(log: &[WatchEvent], kind: Kind, daemon: &Daemon) {
    let path = format!("{}?limit=0{}", kind.path(None), kind.own());
    let list = daemon.client().call(Call::get(&path)).await;
    let list: Value = list.expect(200);
    let items = list["items"].as_array().unwrap();
    let listed: BTreeMap<String, String> = items.iter().map(read).collect();
    assert_eq!(
        fold(log).unwrap(),
        listed,
        "the log doesn't end in the state"
    );
}

fn report(all: &[WatchEvent], sessions: &[Session]) {
    let count = |of: fn(&Session) -> usize| sessions.iter().map(of).sum::<usize>();
    let received = count(|session| session.received.len());
    println!(
        "{} events; {} streams over {} watches received {received} events and {} bookmarks, \
         {} were gone",
        all.len(),
        sessions.len(),
        count(|session| session.watches as usize),
        count(|session| session.bookmarks.len()),
        count(|session| usize::from(session.is_gone)),
    );
    assert!(
        all.len() > 100 && received > all.len(),
        "hardly anything happened"
    );
}
