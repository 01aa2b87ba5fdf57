//! Measures a long list for clients that accept gzip, and the savings from keeping compressed
//! parts.

use crate::harness::{Call, Daemon};
use crate::load::{self, Until, Verb};
use crate::meter::Sample;
use crate::report::{figure, part};

const OBJECTS: u64 = 10_000;
/// How often each list is repeated, except the first one.
const REPEATS: usize = 10;
const CHANGES: u64 = 100;

/// Lists everything `repeats` times. Returns the milliseconds of the daemon's CPU per list.
async fn list(daemon: &Daemon, repeats: usize, encoding: &str) -> f64 {
    let client = daemon.client();
    let start = Sample::take(daemon.pid());
    for _ in 0..repeats {
        let call = Call::get(&load::collection()).header("accept-encoding", encoding);
        let answer = client.call(call).await;
        assert_eq!(answer.status, 200);
        let compressed = Some("gzip").filter(|gzip| *gzip == encoding);
        assert_eq!(answer.header("content-encoding"), compressed);
    }
    let used = start.until(&Sample::take(daemon.pid()));
    used.daemon * 1e3 / repeats as f64
}

pub async fn measure() {
    part(&format!("CPU of a list of {OBJECTS} ConfigMaps of 1 KiB"));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 64, 0, Until::Count(OBJECTS)).await;
    let plain = list(&daemon, REPEATS, "identity").await;
    figure("not compressed", plain, "ms", "");
    let before = daemon.resident();
    let first = list(&daemon, 1, "gzip").await;
    figure("gzip, nothing of it kept", first, "ms", "");
    let kept = list(&daemon, REPEATS, "gzip").await;
    figure("gzip, all of it kept", kept, "ms", "");
    figure("memory grew by", daemon.resident() - before, "MiB", "");
    load::write(&daemon, Verb::Update, 64, OBJECTS, Until::Count(CHANGES)).await;
    let changed = list(&daemon, 1, "gzip").await;
    let name = format!("gzip, after {CHANGES} objects have changed");
    figure(&name, changed, "ms", "");
}
