//! Searches for work that grows faster than what is sent: each list and map of each type is made
//! long, and written by all verbs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cost;
mod items;
mod places;
mod requests;
mod server;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cost::Cost;
use crate::items::items;
use crate::places::{Place, places};
use crate::requests::{Request, STEPS, Step, Stored, Verb};
use crate::server::Server;

/// The numbers of items.
const SIZES: [usize; 5] = [250, 500, 1_000, 2_000, 4_000];

/// No step is tried with more items that may take longer, if it takes a square of their number.
const LIMIT: u64 = 4_000_000_000;

/// What a step costs with each number of items, as far as it was tried.
struct Row {
    place: String,
    step: &'static str,
    outcome: String,
    costs: Vec<Cost>,
    body: usize,
}

/// Stores what a step begins with. Tells the object, or why there is none.
async fn stored(
    server: &Server,
    place: &Place,
    step: &Step,
    n: usize,
) -> Result<Option<serde_json::Value>, String> {
    let Stored::With(kind) = step.stored else {
        return Ok(None);
    };
    let list = items(place, kind, n).ok_or("no such items")?;
    let body = place.with(&place.body, list);
    let request = Request::of(place, Verb::Create, &body);
    if request.name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let applied = Request { verb: Verb::Apply("first"), ..Request::of(place, Verb::Create, &body) };
    let made = match place.before {
        None => server.execute(&applied, false).await.is_ok(),
        Some(_) => false,
    };
    if !made {
        server.put(&request).await?;
    }
    let found = server.get(&request).await;
    found.map(Some).ok_or_else(|| "it is not found".to_owned())
}

fn tried(runtime: &tokio::runtime::Runtime, place: &Place, step: &Step) -> Row {
    let mut row = Row {
        place: place.title(),
        step: step.name,
        outcome: String::new(),
        costs: Vec::new(),
        body: 0,
    };
    for n in SIZES {
        if let [.., before, last] = row.costs.as_slice() {
            let squared = last.cpu.max(1) * 4;
            if squared > LIMIT || last.peak > 600_000_000 || (last.bytes > 3 * before.bytes && last.peak > 200_000_000) {
                break;
            }
        }
        let server = Server::start();
        runtime.block_on(server.namespace());
        let object = match runtime.block_on(stored(&server, place, step, n)) {
            Ok(object) => object,
            Err(why) => {
                row.outcome = format!("not stored: {why}");
                return row;
            }
        };
        let Some(request) = step.request(place, object.as_ref(), n) else {
            row.outcome = "no such items".to_owned();
            return row;
        };
        if request.body.len() > 3 << 20 {
            break;
        }
        row.body = request.body.len();
        let (answer, cost) = cost::of(|| runtime.block_on(server.execute(&request, true)));
        row.outcome = match answer {
            Ok(()) => "ok".to_owned(),
            Err(status) => format!("{} {}", status.code, status.message.chars().take(160).collect::<String>()),
        };
        row.costs.push(cost);
    }
    row
}

#[test]
fn findings() {
    let places = places();
    println!("{} places", places.len());
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    let only = std::env::var("ONLY").unwrap_or_default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                loop {
                    let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    if !place.name.contains(&only) {
                        continue;
                    }
                    for step in STEPS {
                        let review = place.kind.kind.ends_with("Review");
                        if review && step.stored != Stored::Nothing {
                            continue;
                        }
                        let row = tried(&runtime, place, step);
                        let mut line = format!("{}\t{}\t{}\t{}", row.place, row.step, row.outcome, row.body);
                        for cost in &row.costs {
                            let _ = write!(line, "\t{:.1}/{:.2}", cost.cpu as f64 / 1e6, cost.peak as f64 / 1e6);
                        }
                        println!("{line}");
                        rows.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
}
