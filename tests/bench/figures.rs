//! Measures the figures of this repository again: `cargo bench`, or `cargo bench -- PART...`.
//!
//! Each part starts release builds of the daemon in separate temporary folders. TMPDIR must be on a
//! disk, not in memory, or durability costs nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod abuser;
mod accounts;
mod additions;
mod attack;
mod backup;
#[allow(dead_code)]
#[path = "../blackbox/connections/commands.rs"]
mod commands;
mod controllers;
mod controllers_soak;
mod custom;
mod daemons;
mod decisions;
mod deletions;
mod deployments;
mod drain;
mod etcd;
mod expiry;
mod fanout;
#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
mod hooks;
mod hostile;
#[allow(dead_code)]
#[path = "../blackbox/connections/kubelet.rs"]
mod kubelet;
mod lists;
mod load;
mod lone;
mod memory;
mod meter;
mod pages;
#[allow(dead_code)]
#[path = "../resources/process.rs"]
mod process;
mod protobuf;
#[path = "../blackbox/load/random.rs"]
mod random;
mod reading;
mod relays;
mod report;
mod resources;
mod resume;
mod roles;
mod selectors;
#[path = "../servers/mod.rs"]
mod servers;
mod sizing;
#[path = "../soak/soak.rs"]
mod soak;
mod soaking;
#[allow(dead_code)]
#[path = "../blackbox/connections/sockets.rs"]
mod sockets;
mod startup;
mod watchload;
mod write;

use std::time::Duration;

use report::{figure, part};

const PARTS: [&str; 36] = [
    "size",
    "startup",
    "startup-full",
    "startup-history",
    "memory",
    "write",
    "deployments",
    "deletions",
    "lone",
    "latency",
    "fanout",
    "transcoding",
    "reading",
    "decisions",
    "accounts",
    "roles",
    "hooks",
    "protobuf",
    "resume",
    "drain",
    "backup",
    "expiry",
    "attack",
    "abuser",
    "large-bodies",
    "soak",
    "lists",
    "pages",
    "selectors",
    "resources",
    "additions",
    "custom",
    "etcd",
    "relays",
    "relays-idle",
    "relays-watches",
];

const HELP: &str = "\
cargo bench [-- PART...]      all parts, or these:
  size             bytes of the binary
  startup          exec to ready, empty
  startup-full     the same with 100,000 objects of 1 KiB
  startup-history  the same with 1 GiB of history
  memory           resident memory, empty and with 100,000 ConfigMaps of 1 KiB
  write            durable creates and updates with 64 clients, also while retention deletes
  deployments      writes of Deployments and of ConfigMaps, one client
  deletions        10,000 ConfigMaps deleted by one request, and as dependents of one owner
  lone             durable updates one after the other, over stores of 0 and 1.4 GiB (or BENCH_GIB):
                   bytes that reach the disk, CPU and time of each
  latency          write to delivery, one watcher
  fanout           5,000 watchers over HTTP/2
  transcoding      a pod of 2 KiB from JSON to protobuf and back
  reading          20,000 values of an etcd decoded, with their defaults and without
  decisions        RBAC among 10,000 bindings: first and repeated decisions of service accounts
  accounts         reads and 50,000 watches (or BENCH_WATCHES) of service accounts and of the admin
  roles            starts with and without the roles and bindings of Kubernetes
  hooks            creates with webhooks and admission policies, and without
  protobuf         5,000 watchers of protobuf and 5,000 of JSON, in turns
  resume           5,000 watches of quiet resources resumed after kill -9, with writes to another
  drain            20,000 watches over HTTP/2 when the daemon stops
  backup           backups of a store of 1 GiB (or BENCH_GIB) with 1,000 watchers of one object
  etcd             writes, lists and filling over an etcd that tests/run.sh fetches
  expiry           100,000 events (or BENCH_EVENTS) that expire during writes and watches, also at a
                   start after they were due
  lists            10,000 ConfigMaps listed with and without gzip
  pages            100,000 ConfigMaps listed in pages, with and without a watch cache
  selectors        50 of 200,000 pods listed by node and by label
  resources        1,000 unused resources, and one that is used
  additions        1,000 resources added to a running daemon, also with 5,000 watches
  custom           338 custom resources, a restart with them, their objects beside ConfigMaps, a
                   change and the end of 100,000 objects (or BENCH_OBJECTS); BENCH_DEFINITIONS
                   names a folder of definitions in YAML
  relays           CPU of logs, commands and port forwarding of 256 MiB (or BENCH_GIB), compared
                   with a bare loop, and with kube-apiserver if TAFFRAIL_KUBE_APISERVER names one
  relays-idle      memory of 5,000 idle sessions (or BENCH_SESSIONS), raw and translated
  relays-watches   deliveries to 5,000 watches (or BENCH_WATCHES) beside 100 slow and 8 fast relays
  attack           60 connections that send requests without credentials and read nothing
  soak             20,000 watches and 200 writers for ten minutes (or BENCH_MINUTES)
  abuser           50 ordinary users, and one who lists and watches everything
  large-bodies     creates of 100 kB, alone and with another user's bodies of 3 MB

BENCH_ETCD=3.5 measures latency, fanout and watchload's parts over an etcd of that version on
this machine. BENCH_RATES=500,1000 are the writes a second at which `etcd` measures added latency.

Only if named:
  controllers      1,000 deployments (or BENCH_DEPLOYMENTS) of 3 replicas until the unmodified
                   kube-controller-manager and kube-scheduler have bound their pods, on a
                   kube-apiserver over an etcd and on the daemon: TAFFRAIL_CONTROLLER_MANAGER,
                   TAFFRAIL_SCHEDULER and TAFFRAIL_KUBE_APISERVER name the programs
  controllers-soak the two on the daemon under random changes for an hour (or BENCH_MINUTES)
  hostile          bodies that are expensive to read or to check, each alone: its CPU and memory
  hostile-turns    all of them in turns for ten minutes (or BENCH_SECONDS): the memory that remains
  sizing           the constants of this machine, over an etcd on it, and the tables of
                   docs/sizing.md that they result in; BENCH_WRITE=docs/sizing.md writes both
                   into that page; needs a limit of 12,000 open files (ulimit -n 12000)

Only if named, with a table at the end. They need the load generator watchload, which WATCHLOAD
names or the PATH has (see docs/measurements.md):
  watchload        all of these, for about an hour
";

/// A part for docs/sizing.md, which runs only if named.
const SIZING: &str = "sizing";

/// Parts in which a daemon may end. They run only if named.
const HOSTILE: &str = "hostile";
const HOSTILE_TURNS: &str = "hostile-turns";

/// Parts that need programs of Kubernetes. They run only if named.
const CONTROLLERS: &str = "controllers";
const CONTROLLERS_SOAK: &str = "controllers-soak";

/// All parts that need watchload.
const SET: &str = "watchload";

/// Parts that measure only the embedded store: opening its file, its history.
const EMBEDDED: [&str; 13] = [
    "startup",
    "startup-full",
    "startup-history",
    "memory",
    "write",
    "lone",
    "resume",
    "backup",
    "expiry",
    "pages",
    "cache-fill",
    "etcd",
    "sizing",
];

#[tokio::main]
async fn main() {
    // Cargo adds flags of its own.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [first, rest @ ..] = asked.as_slice()
        && first == abuser::ABUSER
    {
        return abuser::abuse(rest).await;
    }
    match asked.split_first() {
        Some((first, rest)) if first == relays::bare::BARE => return relays::bare::run(rest),
        Some((first, rest)) if first == additions::WATCHERS => return additions::watch(rest).await,
        Some((first, rest)) if first == additions::ALONE => {
            return additions::measure_alone(rest).await;
        }
        _ => {}
    }
    let named = |word: &str| watchload::PARTS.iter().any(|(name, _)| word == *name);
    let known = |word: &str| {
        [
            SET,
            SIZING,
            CONTROLLERS,
            CONTROLLERS_SOAK,
            HOSTILE,
            HOSTILE_TURNS,
        ]
        .contains(&word)
            || PARTS.contains(&word)
            || named(word)
    };
    if asked.iter().any(|word| !known(word)) {
        print!("{HELP}");
        for (name, what) in watchload::PARTS {
            println!("  {name:<17}{what}");
        }
        let help = asked.iter().any(|word| word == "--help" || word == "-h");
        std::process::exit(if help { 0 } else { 2 });
    }
    let over_etcd = daemons::version().is_some();
    let embedded = |name: &str| over_etcd && EMBEDDED.contains(&name);
    if let Some(name) = asked.iter().find(|word| embedded(word)) {
        println!("{name} chooses the store itself, which BENCH_ETCD can't replace: unset it");
        std::process::exit(2);
    }
    let wants =
        |name: &str| (asked.is_empty() && !embedded(name)) || asked.iter().any(|word| word == name);
    let cores = std::thread::available_parallelism().unwrap();
    println!("{cores} cores, shared by the daemon and the load");
    measure(wants).await;
    if asked.iter().any(|word| word == HOSTILE) {
        hostile::each().await;
    }
    if asked.iter().any(|word| word == HOSTILE_TURNS) {
        let seconds = std::env::var("BENCH_SECONDS").ok();
        let seconds = seconds.and_then(|text| text.parse().ok());
        hostile::in_turns(Duration::from_secs(seconds.unwrap_or(600))).await;
    }
    if asked.iter().any(|word| word == SIZING) {
        sizing::measure().await;
    }
    if asked.iter().any(|word| word == CONTROLLERS) {
        controllers::measure().await;
    }
    if asked.iter().any(|word| word == CONTROLLERS_SOAK) {
        controllers_soak::measure().await;
    }
    let whole = asked.iter().any(|word| word == SET);
    let parts: Vec<_> = watchload::PARTS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| (whole && !embedded(name)) || asked.iter().any(|word| word == name))
        .collect();
    if !parts.is_empty() && !watchload::measure(&parts).await {
        std::process::exit(1);
    }
}

/// The size that BENCH_GIB names, for parts that use one. `lone` accepts several sizes, and this is
/// the last one.
fn gib(default: &str) -> f64 {
    let sizes = std::env::var("BENCH_GIB").unwrap_or_else(|_| default.to_owned());
    let gib = sizes.rsplit(',').next().unwrap_or_default();
    gib.trim().parse().expect("BENCH_GIB is numbers")
}

/// Measures the parts of [`PARTS`] that are requested.
async fn measure(wants: impl Fn(&str) -> bool) {
    if wants("size") {
        part("release binary");
        let bytes = std::fs::metadata(env!("CARGO_BIN_EXE_taffrail"))
            .unwrap()
            .len();
        figure("size", bytes as f64 / 1e6, "MB", "< 30");
    }
    if wants("startup") {
        startup::empty().await;
    }
    if wants("startup-full") {
        startup::full(100_000).await;
    }
    if wants("startup-history") {
        startup::history(1024).await;
    }
    if wants("memory") {
        memory::measure(100_000).await;
    }
    if wants("write") {
        write::measure(64, Duration::from_secs(15)).await;
        write::under_retention(64, Duration::from_secs(15)).await;
    }
    if wants("deployments") {
        deployments::measure(1_000).await;
    }
    if wants("deletions") {
        deletions::measure(10_000).await;
    }
    if wants("lone") {
        let sizes = std::env::var("BENCH_GIB").unwrap_or_else(|_| "0,1.4".to_owned());
        for gib in sizes.split(',') {
            lone::measure(gib.trim().parse().expect("BENCH_GIB is numbers")).await;
        }
    }
    if wants("latency") {
        fanout::measure(1, 50.0, Duration::from_secs(15)).await;
    }
    if wants("fanout") {
        fanout::measure(5_000, 4.0, Duration::from_secs(15)).await;
        fanout::measure(5_000, 20.0, Duration::from_secs(15)).await;
    }
    if wants("reading") {
        reading::values();
    }
    if wants("decisions") {
        decisions::measure();
    }
    if wants("accounts") {
        let watches = std::env::var("BENCH_WATCHES").ok();
        let watches = watches.and_then(|text| text.parse().ok());
        accounts::measure(watches.unwrap_or(50_000)).await;
    }
    if wants("roles") {
        roles::measure().await;
    }
    if wants("hooks") {
        hooks::measure().await;
    }
    if wants("transcoding") {
        protobuf::transcoding().await;
    }
    if wants("protobuf") {
        protobuf::watchers(5_000, 5, Duration::from_secs(15)).await;
    }
    if wants("resume") {
        resume::measure(5_000, 1, Duration::from_secs(8), "< 2").await;
        resume::measure(5_000, 9, Duration::from_secs(60), "< 3").await;
    }
    if wants("drain") {
        drain::measure(20_000).await;
    }
    if wants("backup") {
        backup::measure(gib("1")).await;
    }
    if wants("attack") {
        attack::measure().await;
    }
    if wants("soak") {
        let minutes = std::env::var("BENCH_MINUTES").ok();
        let minutes = minutes.and_then(|text| text.parse().ok());
        soaking::measure(minutes.unwrap_or(10.0)).await;
    }
    if wants("abuser") {
        abuser::measure().await;
    }
    if wants("large-bodies") {
        abuser::measure_large_bodies().await;
    }
    if wants("lists") {
        lists::measure().await;
    }
    if wants("pages") {
        pages::measure(100_000).await;
    }
    if wants("selectors") {
        selectors::measure(200_000).await;
    }
    if wants("resources") {
        resources::measure().await;
    }
    if wants("additions") {
        additions::measure().await;
    }
    if wants("custom") {
        custom::measure().await;
    }
    if wants("relays") {
        relays::measure(gib("0.25")).await;
    }
    if wants("relays-idle") {
        let sessions = std::env::var("BENCH_SESSIONS").ok();
        let sessions = sessions.and_then(|text| text.parse().ok());
        relays::idle(sessions.unwrap_or(5_000)).await;
    }
    if wants("relays-watches") {
        relays::beside().await;
    }
    if wants("expiry") {
        let events = std::env::var("BENCH_EVENTS").ok();
        let events = events.and_then(|text| text.parse().ok());
        let events = events.unwrap_or(100_000);
        expiry::measure(events).await;
        expiry::after_down_time(events).await;
    }
    if wants("etcd") {
        etcd::measure(Duration::from_secs(20)).await;
    }
}
