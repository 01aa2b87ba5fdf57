//! Tries the requests of a field, and checks their cost.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::cost::{self, Cost};
use crate::items::{Items, items};
use crate::places::Place;
use crate::requests::{Request, STEPS, Step, Stored, Verb};
use crate::server::Server;

/// The number of items that every request is tried with, and with an eighth of it. It is halved
/// for large items.
const MANY: usize = 4_000;
const DOUBLINGS: u32 = 3;

/// The bytes of a list above which its items are large.
const LARGE: usize = 256 << 10;

/// How often each number of items is tried, for the least time.
const ROUNDS: usize = 4;

/// By what the time of a doubling is a square's, and by what it may be that of neither. A square
/// comes to four times, what is in proportion to two times, and a little more for memory that is
/// farther away.
const SQUARE: f64 = 2.8;
const NEITHER: f64 = 2.4;

/// A square that takes so long, in nanoseconds, is not tried with more items.
const LONG_CPU: u64 = 1_000_000_000;

/// A doubling may cost so much more, of what can be counted.
const DOUBLING: f64 = 2.5;

/// Less time than this, in nanoseconds, tells nothing.
const LEAST_CPU: u64 = 60_000_000;

/// A request that takes so long or so much with few items isn't tried with many.
const GROSS_CPU: u64 = 2_000_000_000;
const GROSS_PEAK: u64 = 12 << 20;

/// The longest body.
pub const LONGEST: usize = 3 << 20;

/// The memory that a request may take, and so much more for each byte of it.
pub const MEMORY: u64 = 64 << 20;
pub const MEMORY_PER_BYTE: u64 = 16;

/// What was found of a request.
pub enum Outcome {
    /// It costs as much as it is long.
    Linear,
    LeftOut(String),
    /// Its time is neither that of a square nor in proportion, or its memory is close to the limit.
    Unsure,
    TooMuch(String),
}

/// A request with a number of items, carried out.
pub struct Tried {
    pub cost: Cost,
    /// The bytes of the body and of what is stored.
    pub bytes: usize,
}

/// Servers with the objects that requests begin with.
pub struct Trial<'p> {
    place: &'p Place,
    n: usize,
    runtime: &'p Runtime,
    servers: BTreeMap<String, Result<(Server, Option<Value>), String>>,
}

impl<'p> Trial<'p> {
    pub fn new(runtime: &'p Runtime, place: &'p Place, n: usize) -> Trial<'p> {
        Trial {
            place,
            n,
            runtime,
            servers: BTreeMap::new(),
        }
    }

    fn server(&mut self, stored: Stored) -> &Result<(Server, Option<Value>), String> {
        let Trial {
            place,
            n,
            runtime,
            servers,
        } = self;
        // Requests without an object come first and store nothing: others go on with their server.
        let spare = match stored {
            Stored::Nothing => None,
            Stored::With(_) => servers.remove(&format!("{:?}", Stored::Nothing)),
        };
        servers.entry(format!("{stored:?}")).or_insert_with(|| {
            let spare = spare.and_then(Result::ok).map(|(server, _)| server);
            let is_new = spare.is_none();
            let server = spare.unwrap_or_else(Server::start);
            runtime.block_on(async {
                if is_new {
                    server.namespace().await;
                }
                let object = match stored {
                    Stored::Nothing => None,
                    Stored::With(kind) => Some(store(&server, place, kind, *n).await?),
                };
                Ok((server, object))
            })
        })
    }

    pub fn carry_out(&mut self, step: &Step) -> Result<Tried, String> {
        let (place, n, runtime) = (self.place, self.n, self.runtime);
        let (server, object) = match self.server(step.stored) {
            Ok((server, object)) => (server, object),
            Err(why) => return Err(why.clone()),
        };
        let request = step.request(place, object.as_ref(), n);
        let request = request.ok_or("a map has neither equal items nor an order")?;
        if request.body.len() > LONGEST {
            return Err("the body is too long".to_owned());
        }
        let stored = object.as_ref().map_or(0, |object| object.to_string().len());
        let (_, cost) = cost::of(|| runtime.block_on(server.execute(&request, true)));
        let bytes = request.body.len() + stored;
        Ok(Tried { cost, bytes })
    }
}

/// Stores the object of a place with these items: as its first applier, or as it is if it is not
/// valid or has parts that only controllers write.
async fn store(server: &Server, place: &Place, kind: Items, n: usize) -> Result<Value, String> {
    let list = items(place, kind, n).ok_or("a map has neither equal items nor an order")?;
    let body = place.with(&place.body, list, n);
    let request = Request::of(place, Verb::Apply("first"), &body);
    if place.before.is_some() || server.execute(&request, false).await.is_err() {
        let stored = server.put(&request).await;
        stored.map_err(|_| "such an object can't be stored")?;
    }
    server
        .get(&request)
        .await
        .ok_or_else(|| "it can't be read".to_owned())
}

/// What a request costs that is too much, of what can be counted.
fn counted(few: &Cost, many: &Cost, doublings: i32) -> Option<String> {
    let most = DOUBLING.powi(doublings);
    let mut counts = few.counts().into_iter().zip(many.counts());
    counts.find_map(|((name, few), (_, many))| {
        let ratio = many as f64 / few.max(1) as f64;
        (ratio > most).then(|| format!("{name}: {few} and {many} after {doublings} doublings"))
    })
}

/// Whether the time of a request is that of a square: with as many items as it takes to be sure.
fn timed(runtime: &Runtime, place: &Place, step: &Step, first: usize) -> Outcome {
    let time = |n| {
        Trial::new(runtime, place, n)
            .carry_out(step)
            .map(|tried| tried.cost.cpu)
    };
    let (mut half, mut whole) = (u64::MAX, u64::MAX);
    let mut n = first;
    for _ in 0..ROUNDS {
        // The body is too long.
        let (Ok(of_half), Ok(of_whole)) = (time(n / 2), time(n)) else {
            return Outcome::Linear;
        };
        (half, whole) = (half.min(of_half), whole.min(of_whole));
        let ratio = whole as f64 / half as f64;
        if ratio < NEITHER {
            return Outcome::Linear;
        }
        if ratio > SQUARE && (whole > LONG_CPU || n > first) {
            let [half, whole] = [half, whole].map(|time| time / 1_000_000);
            let what = format!("{half} ms for {} items, {whole} ms for {n}", n / 2);
            return Outcome::TooMuch(what);
        }
        if n == first {
            (half, whole, n) = (u64::MAX, u64::MAX, 2 * first);
        }
    }
    Outcome::Unsure
}

/// All requests of a place.
pub fn search(place: &Place) -> Vec<(&'static str, Outcome)> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let list = items(place, Items::Distinct(0), 100).unwrap();
    let bytes = list.to_string().len() / 100;
    let mut most = MANY;
    while most * bytes > LARGE && most > MANY / 8 {
        most /= 2;
    }
    let mut few = Trial::new(&runtime, place, most >> DOUBLINGS);
    let mut many = Trial::new(&runtime, place, most);
    let is_stored = !place.kind.kind.ends_with("Review");
    let steps = STEPS.iter();
    let steps = steps.filter(|step| is_stored || step.stored == Stored::Nothing);
    let tried = steps.map(|step| {
        let outcome = judged(&runtime, (&mut few, &mut many), step);
        (step.name, outcome.unwrap_or_else(Outcome::LeftOut))
    });
    tried.collect()
}

fn judged(
    runtime: &Runtime,
    (few, many): (&mut Trial<'_>, &mut Trial<'_>),
    step: &Step,
) -> Result<Outcome, String> {
    let place = few.place;
    if !step.suits(place) {
        return Err("the place gets another patch or update".to_owned());
    }
    let small = few.carry_out(step)?.cost;
    if small.cpu > GROSS_CPU || small.peak > GROSS_PEAK {
        let double = Trial::new(runtime, place, 2 * few.n).carry_out(step)?.cost;
        if let Some(what) = counted(&small, &double, 1) {
            return Ok(Outcome::TooMuch(what));
        }
        if double.cpu > 2 * GROSS_CPU {
            return Ok(timed(runtime, place, step, 2 * few.n));
        }
    }
    let large = many.carry_out(step)?;
    let doublings = DOUBLINGS.cast_signed();
    if let Some(what) = counted(&small, &large.cost, doublings) {
        return Ok(Outcome::TooMuch(what));
    }
    let most = MEMORY + MEMORY_PER_BYTE * large.bytes as u64;
    if large.cost.peak > most {
        let what = format!("{} bytes of memory for {}", large.cost.peak, large.bytes);
        return Ok(Outcome::TooMuch(what));
    }
    // A gap in the memory has closed when it is well below.
    if large.cost.peak > most / 10 * 9 {
        return Ok(Outcome::Unsure);
    }
    let ratio = large.cost.cpu as f64 / small.cpu as f64;
    if large.cost.cpu > LEAST_CPU && ratio > DOUBLING.powi(doublings) {
        return Ok(timed(runtime, place, step, many.n));
    }
    Ok(Outcome::Linear)
}
