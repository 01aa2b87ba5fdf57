//! The same searches over HTTP, to a daemon: every path of every kind, with up to 16,000 items.
//!
//! It takes hours, and so runs only in `tests/run.sh --long`. The CPU time of all threads of the
//! daemon decides. If valgrind is installed, a case that seems to exceed the limit is decided by
//! instructions, whose number is the same in each run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Call, Client, Daemon, Target};
use crate::items::items;
use crate::places::{Place, paths};
use crate::requests::{Request, STEPS, Step, Stored, Verb};

/// The numbers of items: each is twice the one before.
const SIZES: [usize; 4] = [2_000, 4_000, 8_000, 16_000];

/// The daemon refuses longer bodies.
const LONGEST: usize = 3 << 20;

/// A doubling may cost so much more.
const DOUBLING: f64 = 2.5;

/// Less time than this, in nanoseconds, tells nothing.
const LEAST: u64 = 100_000_000;

/// The requests that are sent.
const SENT: [&str; 3] = ["create, distinct", "update, reversed", "apply, reversed"];

/// The time of all threads of a process so far, in nanoseconds.
fn cpu(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let times = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    times.sum()
}

async fn send(client: &Client, request: &Request, dry_run: bool) -> Option<(u16, Value)> {
    let call = Call::new(request.method(), &request.path(dry_run));
    let call = call.body(request.content_type(), request.body.clone());
    let answer = client.attempt(call).await.ok()?;
    let object = serde_json::from_slice(&answer.body).unwrap_or_default();
    Some((answer.status.as_u16(), object))
}

/// A request of a step with so many items. What it begins with is stored. The reason if there is no
/// such request.
async fn prepared(
    client: &Client,
    (place, step): (&Place, &Step),
    n: usize,
) -> Result<Request, &'static str> {
    let mut stored = None;
    if let Stored::With(kind) = step.stored {
        let list = items(place, kind, n).ok_or("a map has no order")?;
        let body = place.with(&place.body, list, n);
        let create = Request::of(place, Verb::Create, &body);
        let mut update = Request::of(place, Verb::Update, &body);
        let mut delete = Call::delete(&update.path(false));
        delete.path += "&gracePeriodSeconds=0";
        // What is there of other sizes.
        let _ = client.attempt(delete).await;
        let made = send(client, &create, false).await;
        let made = made.filter(|(code, _)| *code == 201);
        let (_, mut object) = made.ok_or("such an object is refused")?;
        if !place.subresource.is_empty() {
            update.subresource.clone_from(&place.subresource);
            let put = send(client, &update, false).await;
            let put = put.filter(|(code, _)| *code == 200);
            object = put.ok_or("such a status is refused")?.1;
        }
        stored = Some(object);
    }
    let request = step.request(place, stored.as_ref(), n);
    let request = request.ok_or("a map has no order")?;
    match request.body.len() > LONGEST {
        true => Err("the body is too long"),
        false => Ok(request),
    }
}

/// The time that a request takes.
async fn timed(daemon: &Daemon, client: &Client, request: &Request) -> u64 {
    let before = cpu(daemon.pid());
    send(client, request, true).await;
    cpu(daemon.pid()) - before
}

/// A daemon whose instructions are counted.
struct Counted {
    process: Child,
    folder: TempDir,
    client: Client,
}

impl Counted {
    /// `None` where valgrind is not installed, or has not enough memory.
    fn start() -> Option<Counted> {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut command = Command::new("valgrind");
        let out = folder.path().join("callgrind");
        command.args(["--tool=callgrind", "--quiet"]);
        command.arg(format!("--callgrind-out-file={}", out.display()));
        command
            .arg(env!("CARGO_BIN_EXE_taffrail"))
            .arg("--data-dir")
            .arg(&data);
        command.args([
            "--secure-port",
            "0",
            "--metrics-bind-address",
            "127.0.0.1:0",
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("https://")?.1.parse()));
        // It says more, and somebody has to read it.
        std::thread::spawn(move || lines.for_each(drop));
        let token = std::fs::read_to_string(data.join("admin.token")).ok()?;
        let token = Some(token.trim().to_owned());
        let client = Target::new(address?.unwrap(), token, None).client();
        Some(Counted {
            process,
            folder,
            client,
        })
    }

    fn control(&self, what: &str) {
        let pid = self.process.id().to_string();
        let done = Command::new("callgrind_control")
            .args([what, &pid])
            .output();
        assert!(done.unwrap().status.success());
    }

    /// The instructions of a request.
    async fn instructions(&self, place: &Place, step: &Step, n: usize) -> Option<u64> {
        let request = prepared(&self.client, (place, step), n).await.ok()?;
        self.control("--zero");
        send(&self.client, &request, true).await;
        self.control("--dump");
        newest_count(self.folder.path())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The count in the dump that was written last.
fn newest_count(folder: &Path) -> Option<u64> {
    let dumps = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let dumps = dumps.filter(|dump| dump.file_name().to_string_lossy().starts_with("callgrind."));
    let newest = dumps.max_by_key(|dump| dump.metadata().and_then(|of| of.modified()).ok())?;
    let text = std::fs::read_to_string(newest.path()).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok()
}

/// Whether one of the doublings costs too much.
fn is_too_much(costs: &[u64]) -> bool {
    let mut pairs = costs.windows(2);
    pairs.any(|pair| pair[1] > LEAST && pair[1] as f64 > DOUBLING * pair[0] as f64)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_costs_as_much_as_it_is_long_over_http() {
    if std::env::var_os("TAFFRAIL_LONG").is_none() {
        println!("tests/run.sh --long runs it");
        return;
    }
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let counted = Counted::start();
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut too_much, mut tried) = (Vec::new(), 0);
    let only = std::env::var("TAFFRAIL_PLACES").unwrap_or_default();
    let paths: Vec<Place> = paths()
        .into_iter()
        .filter(|of| of.title().contains(&only))
        .collect();
    for place in &paths {
        for step in STEPS.iter().filter(|step| SENT.contains(&step.name)) {
            let mut costs = Vec::new();
            for n in SIZES {
                match prepared(&client, (place, step), n).await {
                    Ok(request) => costs.push(timed(&daemon, &client, &request).await),
                    Err(why) => {
                        *left_out.entry(why).or_default() += 1;
                        break;
                    }
                }
                // A square would take minutes.
                if costs.last().is_some_and(|last| *last > 100 * LEAST) {
                    break;
                }
            }
            tried += 1;
            if !is_too_much(&costs) {
                continue;
            }
            let mut what = format!("{}: {}: {costs:?} ns", place.title(), step.name);
            if let Some(counted) = &counted {
                let mut counts = Vec::new();
                for n in &SIZES[..3] {
                    counts.extend(counted.instructions(place, step, *n).await);
                }
                what += &format!(", {counts:?} instructions");
                if !is_too_much(&counts) {
                    continue;
                }
            }
            println!("{what}");
            too_much.push(what);
        }
    }
    println!(
        "{} paths, {tried} requests with {SIZES:?} items each",
        paths.len()
    );
    for (why, count) in &left_out {
        println!("{count} left out from some size on: {why}");
    }
    println!("left out: the other requests of the test in process, and forms other than JSON");
    if counted.is_none() {
        println!("left out: instructions, for valgrind can't be run");
    }
    assert!(too_much.is_empty(), "{} grow too fast", too_much.len());
}

#[test]
fn what_doubles_with_the_items_is_in_proportion() {
    let in_proportion = [100, 200, 410, 830].map(|ms: u64| ms * 1_000_000);
    assert!(!is_too_much(&in_proportion));
    assert!(is_too_much(
        &in_proportion.map(|time| time * time / 100_000_000)
    ));
    // Too short to be told.
    assert!(!is_too_much(&[1, 1000]));
}
