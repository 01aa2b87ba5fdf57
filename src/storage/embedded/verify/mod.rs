//! Damage is looked for while the store serves: a thread of its own reads the file again and
//! again, so many bytes in a second.
//!
//! First the pages as the file has them ([`image`]), and the records in them; then, where all
//! pages are whole, whether the tables agree with each other ([`rows`]). Nobody waits for it: what
//! a commit comes between is looked at again. What is found stays known until a complete pass does
//! not find it any more ([`Damage`]).
//!
//! A file that is served and is not at its path any more will not be there at the next start: that
//! is damage, too.

mod damage;
mod image;
mod page;
mod rows;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use actors::engine::{LeaseId, Revision};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use redb::{Key, StorageBackend};

use super::disk::DataFile;
use super::error::Failure;
use super::ledger::decode;
use super::metrics;
use super::readers::{Alarm, breaks_the_database, panic_text};
use super::record::LeaseRecord;
use super::shared::Shared;
use super::store::Store;
pub use damage::Damage;
use damage::MISPLACED;
use image::{Compare, End, Found, Image, Tree, parse_table};
use page::{Entry, Region};
use rows::Rows;

/// Bytes read at a time: between them the thread can be told to end.
const STEP_BYTES: u64 = 256 * 1024;
/// How often a commit may come between before others have their second.
const MOVED_MAX: u32 = 16;
/// Characters of a key that are shown.
const KEY_CHARACTERS: usize = 200;

/// The thread; it ends when this is dropped, after the step it is at.
pub struct Verifier {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Verifier {
    /// Starts the thread, unless nothing is to be verified.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(shared: Arc<Shared>, alarm: Alarm) -> io::Result<Option<Verifier>> {
        if shared.options.verify_bytes_per_second == 0 {
            return Ok(None);
        }
        let (stop, stopped) = bounded(1);
        let round = Round {
            shared,
            alarm,
            store: Weak::new(),
            region: None,
            stage: Stage::Begin,
        };
        let thread = std::thread::Builder::new()
            .name("storage-verify".to_owned())
            .spawn(move || round.run(&stopped))?;
        Ok(Some(Verifier {
            stop: Some(stop),
            thread: Some(thread),
        }))
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been logged by the runtime.
            let _ = thread.join();
        }
    }
}

/// How far a pass is.
enum Stage {
    /// Header and the database's own tables are next.
    Begin,
    /// The first table that is not before this name is next, after this key.
    Pages(String, Option<Vec<u8>>),
    /// Rows are next.
    Rows(Rows),
    /// Nothing is left.
    End,
}

/// The thread's own state.
struct Round {
    shared: Arc<Shared>,
    alarm: Alarm,
    /// The database that the pass is of.
    store: Weak<Store>,
    /// What its header said first, before which nothing else could be read.
    region: Option<Region>,
    stage: Stage,
}

/// What a step has come to.
enum Step {
    /// So many bytes were read.
    Read(u64),
    /// A commit came between.
    Moved,
    /// The pass has ended.
    Over,
}

impl Round {
    fn run(mut self, stopped: &Receiver<()>) {
        let options = &self.shared.options;
        let (rate, pause) = (options.verify_bytes_per_second, options.verify_pause);
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        // Below zero after a page larger than a second's bytes: the next seconds pay for it.
        let mut credit = 0i64;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            credit = credit.saturating_add(rate).min(rate);
            let mut moved = 0;
            while credit > 0 && moved < MOVED_MAX && stopped.try_recv() == Err(TryRecvError::Empty)
            {
                let Ok(store) = self.shared.store() else {
                    break;
                };
                match self.step(&store, (credit as u64).min(STEP_BYTES)) {
                    Step::Read(bytes) => {
                        metrics::verified(bytes);
                        credit -= bytes as i64;
                    }
                    Step::Moved => moved += 1,
                    // Not more than one pass in a second.
                    Step::Over => break,
                }
            }
        }
    }

    /// Reads on, and says what was found if it is of the store that is in use.
    fn step(&mut self, store: &Arc<Store>, bytes_max: u64) -> Step {
        if !Weak::ptr_eq(&self.store, &Arc::downgrade(store)) {
            self.store = Arc::downgrade(store);
            self.region = None;
            self.stage = Stage::Begin;
        }
        let damage = &self.shared.damage;
        if matches!(self.stage, Stage::Begin) {
            damage.begin_pass();
        }
        let region = &mut self.region;
        let mut found = Vec::new();
        let stage = std::mem::replace(&mut self.stage, Stage::Begin);
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let note = &mut |what| found.push(what);
            match stage {
                Stage::Begin => Ok(look_at_own(store.pages(), region, note)),
                stage => look(store, stage, bytes_max, damage, note),
            }
        }));
        let looked = looked.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(&*panic))));
        match self.shared.disk.which(DataFile::Log) {
            Ok(id) if id == store.id() => {}
            Ok(_) => found.push(MISPLACED.to_owned()),
            Err(error) => found.push(format!("its path can't be looked at: {error}")),
        }
        let is_in_use = || {
            let used = self.shared.store();
            used.is_ok_and(|used| Arc::ptr_eq(&used, store)) && store.fence().is_current()
        };
        if !is_in_use() {
            self.store = Weak::new();
            return Step::Moved;
        }
        let step = match looked {
            Ok((stage, step)) => {
                self.stage = stage;
                step
            }
            Err(failure) => {
                if breaks_the_database(&failure) {
                    (self.alarm)(store, &failure);
                }
                // The pass ends here, and says so.
                found.push(failure.to_string());
                Step::Over
            }
        };
        let file = self.shared.file();
        for what in found {
            damage.note(&file, what);
        }
        if !matches!(self.stage, Stage::End) {
            return step;
        }
        damage.complete_pass(&file);
        self.stage = Stage::Begin;
        Step::Over
    }
}

/// Looks at what is next in a pass; says what is next then.
fn look(
    store: &Store,
    stage: Stage,
    bytes_max: u64,
    damage: &Damage,
    found: &mut dyn FnMut(String),
) -> Result<(Stage, Step), Failure> {
    Ok(match stage {
        Stage::Pages(table, after) => look_at_table(store.pages(), table, after, bytes_max, found),
        // The database might not survive the sight of damaged pages, and what is known to be
        // missing need not be counted.
        Stage::Rows(Rows::Begin | Rows::Counts) if damage.is_in_pass() => {
            (Stage::End, Step::Read(0))
        }
        Stage::Rows(rows) => {
            let stepped = rows::step(store, rows, bytes_max, found)?;
            let next = match stepped.rows {
                Rows::End => Stage::End,
                rows => Stage::Rows(rows),
            };
            (next, Step::Read(stepped.bytes))
        }
        Stage::Begin | Stage::End => (stage, Step::Read(0)),
    })
}

/// The header, and the tables that are the database's own: few and small.
fn look_at_own(
    file: &dyn StorageBackend,
    region: &mut Option<Region>,
    found: &mut dyn FnMut(String),
) -> (Stage, Step) {
    let image = match Image::open(file) {
        Ok(image) => image,
        Err(what) => {
            found(format!("the header: {what}"));
            return (Stage::Begin, Step::Over);
        }
    };
    if *region.get_or_insert(image.region) != image.region {
        found("the header: the size of regions in it has changed".to_owned());
        return (Stage::Begin, Step::Over);
    }
    let [own, _] = image.lists();
    let (tables, mut bytes, mut end) = list(&image, &own, found);
    for table in tables {
        if end != End::Finished {
            break;
        }
        let walked = image.walk(&table, Ord::cmp, None, u64::MAX, &mut |seen| {
            if let Found::Damage(damage) = seen {
                found(format!(
                    "the database's own table {}: {}",
                    table.name, damage.what
                ));
            }
        });
        (bytes, end) = (bytes + walked.bytes, walked.end);
    }
    match end {
        End::Moved => (Stage::Begin, Step::Moved),
        _ => (Stage::Pages(String::new(), None), Step::Read(bytes)),
    }
}

/// A part of one of our tables.
fn look_at_table(
    file: &dyn StorageBackend,
    name: String,
    after: Option<Vec<u8>>,
    bytes_max: u64,
    found: &mut dyn FnMut(String),
) -> (Stage, Step) {
    let Ok(image) = Image::open(file) else {
        // The beginning of the next pass says what is wrong with it.
        return (Stage::Begin, Step::Moved);
    };
    let [_, ours] = image.lists();
    let (mut tables, bytes, end) = list(&image, &ours, found);
    tables.retain(|table| table.name >= name);
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    let Some(table) = tables.first().filter(|_| end == End::Finished) else {
        return match end {
            End::Moved => (Stage::Pages(name, after), Step::Moved),
            _ => (Stage::Rows(Rows::Begin), Step::Read(bytes)),
        };
    };
    let after = after.filter(|_| table.name == name);
    // The order of a table that a later version made is not known: it is read in one piece.
    let (order, bytes_max) = match order_of(&table.name) {
        Some(order) => (order, bytes_max),
        None => (Ord::cmp as Compare, u64::MAX),
    };
    let walked = image.walk(table, order, after, bytes_max, &mut |seen| match seen {
        Found::Entry(entry) => look_at_entry(&table.name, entry, found),
        Found::Damage(damage) => name_damage(&table.name, &damage, found),
    });
    let step = match walked.end {
        End::Moved => Step::Moved,
        End::Finished | End::Paused => Step::Read(bytes + walked.bytes),
    };
    let stage = match walked.end {
        // The least name after this one.
        End::Finished => Stage::Pages(format!("{}\0", table.name), None),
        End::Paused | End::Moved => Stage::Pages(table.name.clone(), walked.after),
    };
    (stage, step)
}

/// The tables of a list.
fn list(image: &Image<'_>, list: &Tree, found: &mut dyn FnMut(String)) -> (Vec<Tree>, u64, End) {
    let mut tables = Vec::new();
    let walked = image.walk(list, Ord::cmp, None, u64::MAX, &mut |seen| match seen {
        Found::Entry(entry) => match parse_table(entry) {
            Some(table) => tables.push(table),
            None => found(format!("{}: a table's entry can't be read", list.name)),
        },
        Found::Damage(damage) => found(format!("{}: {}", list.name, damage.what)),
    });
    (tables, walked.bytes, walked.end)
}

/// The order of a table's keys.
fn order_of(table: &str) -> Option<Compare> {
    Some(match table {
        "events" | "timeline" | "leases" => <u64 as Key>::compare,
        "live" => <&[u8] as Key>::compare,
        "superseded" => <(&[u8], u64) as Key>::compare,
        "attached" => <(u64, u64) as Key>::compare,
        "meta" => <&str as Key>::compare,
        _ => return None,
    })
}

/// Reads what has a checksum of its own.
fn look_at_entry(table: &str, (key, value): Entry<'_>, found: &mut dyn FnMut(String)) {
    let Some(number) = page::u64_at(key, 0) else {
        return;
    };
    match table {
        "events" => {
            if let Err(failure) = decode(Revision(number), value) {
                found(failure.to_string());
            }
        }
        "leases" => {
            if let Err(error) = LeaseRecord::decode(LeaseId(number), value) {
                found(format!("table leases, lease {number}: {error}"));
            }
        }
        _ => {}
    }
}

/// Says which records a damaged page holds: those that can be seen to be damaged, or all that
/// belong there.
fn name_damage(table: &str, damage: &image::Damage<'_>, found: &mut dyn FnMut(String)) {
    let number = |key: Option<&[u8]>| key.and_then(|key| page::u64_at(key, 0));
    let (after, up_to) = (number(damage.after), number(damage.up_to));
    let belongs = |key: &[u8]| {
        number(Some(key)).is_some_and(|number| {
            number > after.unwrap_or_default() && number <= up_to.unwrap_or(u64::MAX)
        })
    };
    let mut is_named = false;
    for entry in damage.page.iter().flat_map(|page| page.entries()) {
        if table == "events" && entry.0.len() == 8 && belongs(entry.0) {
            look_at_entry(table, entry, &mut |what| {
                is_named = true;
                found(what);
            });
        }
    }
    if is_named {
        return;
    }
    let label = |key: &[u8]| match (table, number(Some(key))) {
        ("events" | "timeline", Some(number)) => format!("record {number}"),
        ("leases" | "attached", Some(number)) => format!("lease {number}"),
        _ => format!("key {}", quoted(key)),
    };
    let after = damage.after.map(|key| format!(", after {}", label(key)));
    let up_to = damage.up_to.map(|key| format!(", up to {}", label(key)));
    let (after, up_to) = (after.unwrap_or_default(), up_to.unwrap_or_default());
    found(format!("table {table}{after}{up_to}: {}", damage.what));
}

/// A key as messages show it.
fn quoted(key: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(key)
        .chars()
        .take(KEY_CHARACTERS)
        .collect();
    format!("{text:?}")
}
