//! Measures lists in pages: the cost of a page apart from its objects, with and without a watch
//! cache.

use serde_json::Value;

use crate::harness::{Call, Daemon, Options};
use crate::load::{self, Until, Verb};
use crate::meter::Sample;
use crate::report::{figure, noise, part};

/// The number of pages of one object, after the first one.
const SMALL_PAGES: usize = 200;

/// Lists in pages of `limit` to the end, at most `pages_max`. Checks the count of remaining items.
/// Returns the milliseconds of the daemon's CPU per page, and the cores that other processes used.
async fn walk(daemon: &Daemon, objects: u64, limit: u64, pages_max: usize) -> (f64, f64) {
    let client = daemon.client();
    let (mut token, mut seen, mut pages) = (String::new(), 0, 0);
    let start = Sample::take(daemon.pid());
    while pages < pages_max {
        let path = format!("{}?limit={limit}&continue={token}", load::collection());
        let page = client.call(Call::get(&path)).await.expect(200);
        pages += 1;
        seen += page["items"].as_array().unwrap().len() as u64;
        let metadata = &page["metadata"];
        let left = Some(objects - seen).filter(|left| *left > 0);
        assert_eq!(metadata["remainingItemCount"].as_u64(), left);
        match metadata.get("continue").and_then(Value::as_str) {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    let used = start.until(&Sample::take(daemon.pid()));
    (used.daemon * 1e3 / pages as f64, used.other_cores)
}

async fn walks(daemon: &Daemon, objects: u64, how: &str) {
    let (each, busy) = walk(daemon, objects, 500, usize::MAX).await;
    figure(&format!("{how}: a page of 500"), each, "ms", "");
    let (each, _) = walk(daemon, objects, 1, SMALL_PAGES).await;
    figure(&format!("{how}: a page of 1"), each, "ms", "");
    noise(busy);
}

pub async fn measure(objects: u64) {
    part(&format!("CPU of pages of {objects} ConfigMaps of 1 KiB"));
    let mut daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 64, 0, Until::Count(objects)).await;
    walks(&daemon, objects, "cached").await;
    let folder = daemon.folder();
    daemon.kill().await;
    let options = Options::default().over(folder);
    let daemon = options.arguments(&["--watch-cache=false"]).start().await;
    walks(&daemon, objects, "not cached").await;
}
