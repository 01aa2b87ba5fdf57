//! One pass over the store after another, in small steps that a budget of bytes in a second
//! allows.
//!
//! A pass reads the pages of every table as the file has them ([`image`]) and checks the records
//! in them. If all pages are whole, it then checks that the tables agree ([`rows`]). A step that
//! a commit interrupts is repeated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use actors::engine::{LeaseId, Revision};
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use redb::{Key, StorageBackend};

use crate::storage::embedded::damage::{Damage, MISPLACED};
use crate::storage::embedded::disk::DataFile;
use crate::storage::embedded::engine_state::EngineState;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::metrics;
use crate::storage::embedded::pages::page::{self, Entry, Region, Table, parse_table};
use crate::storage::embedded::record::LeaseRecord;
use crate::storage::embedded::schema::decode_event;
use crate::storage::embedded::store::{Alarm, Store};

use super::image::{self, Compare, End, Found, Image};
use super::rows::{self, Rows, quoted};

/// The bytes of one step. Between two steps the thread can be stopped.
const STEP_BYTES: u64 = 256 * 1024;
/// How often commits may interrupt a second's work before the rest of it is skipped.
const MOVED_MAX: u32 = 16;

/// The progress of a pass.
enum Stage {
    /// The header and redb's own tables are next.
    Begin,
    /// The first table whose name is not less than this one is next, after this key.
    Pages(String, Option<Vec<u8>>),
    /// The comparison of the tables is next.
    Rows(Rows),
    /// Nothing is left.
    End,
}

/// The passes over the store, one after another.
pub(super) struct Pass {
    state: Arc<EngineState>,
    alarm: Alarm,
    /// The database that the current pass reads.
    store: Weak<Store>,
    /// The region sizes that its header named first. Nothing else can be read without them.
    region: Option<Region>,
    stage: Stage,
}

/// The outcome of a step.
enum StepOutcome {
    /// This many bytes were read.
    Read(u64),
    /// A commit interrupted it.
    Moved,
    /// The pass has ended.
    Over,
}

impl Pass {
    pub(super) fn new(state: Arc<EngineState>, alarm: Alarm) -> Pass {
        Pass {
            state,
            alarm,
            store: Weak::new(),
            region: None,
            stage: Stage::Begin,
        }
    }

    /// Verifies until the channel is closed.
    pub(super) fn run(mut self, stopped: &Receiver<()>) {
        let options = &self.state.options;
        let (rate, pause) = (options.verify_bytes_per_second, options.verify_pause);
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        // Negative after a page larger than a second's bytes. The next seconds compensate.
        let mut credit = 0i64;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            credit = credit.saturating_add(rate).min(rate);
            let mut moved = 0;
            while credit > 0 && moved < MOVED_MAX && stopped.try_recv() == Err(TryRecvError::Empty)
            {
                let Ok(store) = self.state.store() else {
                    break;
                };
                match self.step(&store, (credit as u64).min(STEP_BYTES)) {
                    StepOutcome::Read(bytes) => {
                        metrics::verified(bytes);
                        credit -= bytes as i64;
                    }
                    StepOutcome::Moved => moved += 1,
                    // At most one pass a second.
                    StepOutcome::Over => break,
                }
            }
        }
    }

    /// Does one step. Reports what it has found if the store is still in use.
    fn step(&mut self, store: &Arc<Store>, bytes_max: u64) -> StepOutcome {
        if !Weak::ptr_eq(&self.store, &Arc::downgrade(store)) {
            self.store = Arc::downgrade(store);
            self.region = None;
            self.stage = Stage::Begin;
        }
        let damage = &self.state.damage;
        if matches!(self.stage, Stage::Begin) {
            damage.begin_pass();
        }
        let region = &mut self.region;
        let mut found = Vec::new();
        let stage = std::mem::replace(&mut self.stage, Stage::Begin);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let note = &mut |what| found.push(what);
            match stage {
                Stage::Begin => Ok(check_own_tables(store.pages(), region, note)),
                stage => check_next(store, stage, bytes_max, damage, note),
            }
        }));
        let result = result.unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
        let looked = self.state.disk.which(DataFile::Log);
        if looked.as_ref().is_ok_and(|id| *id != store.id()) {
            found.push(MISPLACED.to_owned());
        }
        let is_in_use = || {
            let used = self.state.store();
            used.is_ok_and(|used| Arc::ptr_eq(&used, store)) && store.fence().is_current()
        };
        if !is_in_use() {
            self.store = Weak::new();
            return StepOutcome::Moved;
        }
        let step = match result {
            Ok((stage, step)) => {
                self.stage = stage;
                step
            }
            Err(failure) => {
                if failure.breaks_database() {
                    (self.alarm)(store, &failure);
                }
                // The pass ends here and reports why.
                found.push(failure.to_string());
                StepOutcome::Over
            }
        };
        let file = self.state.file();
        let looked = looked.map(|_| ()).map_err(|error| error.to_string());
        damage.looked(&file, looked);
        for what in found {
            damage.note(&file, what);
        }
        if !matches!(self.stage, Stage::End) {
            return step;
        }
        damage.complete_pass(&file);
        self.stage = Stage::Begin;
        StepOutcome::Over
    }
}

/// Does the next step of a pass. Returns what comes after it.
fn check_next(
    store: &Store,
    stage: Stage,
    bytes_max: u64,
    damage: &Damage,
    found: &mut dyn FnMut(String),
) -> Result<(Stage, StepOutcome), Failure> {
    Ok(match stage {
        Stage::Pages(table, after) => check_table(store.pages(), table, after, bytes_max, found),
        // redb may panic on damaged pages, and rows that are known to be missing need not be
        // counted.
        Stage::Rows(Rows::Begin | Rows::Counts) if damage.is_in_pass() => {
            (Stage::End, StepOutcome::Read(0))
        }
        Stage::Rows(rows) => {
            let stepped = rows::step(store, rows, bytes_max, found)?;
            let next = match stepped.rows {
                Rows::End => Stage::End,
                rows => Stage::Rows(rows),
            };
            (next, StepOutcome::Read(stepped.bytes))
        }
        Stage::Begin | Stage::End => (stage, StepOutcome::Read(0)),
    })
}

/// Reads the header and redb's own tables, which are few and small.
fn check_own_tables(
    file: &dyn StorageBackend,
    region: &mut Option<Region>,
    found: &mut dyn FnMut(String),
) -> (Stage, StepOutcome) {
    let image = match Image::open(file) {
        Ok(image) => image,
        Err(what) => {
            found(format!("the header: {what}"));
            return (Stage::Begin, StepOutcome::Over);
        }
    };
    if *region.get_or_insert(image.region()) != image.region() {
        found("the header: the size of regions in it has changed".to_owned());
        return (Stage::Begin, StepOutcome::Over);
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
        End::Moved => (Stage::Begin, StepOutcome::Moved),
        _ => (Stage::Pages(String::new(), None), StepOutcome::Read(bytes)),
    }
}

/// Reads a part of one of the engine's tables.
fn check_table(
    file: &dyn StorageBackend,
    name: String,
    after: Option<Vec<u8>>,
    bytes_max: u64,
    found: &mut dyn FnMut(String),
) -> (Stage, StepOutcome) {
    let Ok(image) = Image::open(file) else {
        // The next pass begins with the header and reports what is wrong with it.
        return (Stage::Begin, StepOutcome::Moved);
    };
    let [_, ours] = image.lists();
    let (mut tables, bytes, end) = list(&image, &ours, found);
    tables.retain(|table| table.name >= name);
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    let Some(table) = tables.first().filter(|_| end == End::Finished) else {
        return match end {
            End::Moved => (Stage::Pages(name, after), StepOutcome::Moved),
            _ => (Stage::Rows(Rows::Begin), StepOutcome::Read(bytes)),
        };
    };
    let after = after.filter(|_| table.name == name);
    // The key order of a table from a later version is unknown. Such a table is read in one piece.
    let (order, bytes_max) = match order_of(&table.name) {
        Some(order) => (order, bytes_max),
        None => (Ord::cmp as Compare, u64::MAX),
    };
    let walked = image.walk(table, order, after, bytes_max, &mut |seen| match seen {
        Found::Entry(entry) => check_entry(&table.name, entry, found),
        Found::Damage(damage) => report_damage(&table.name, &damage, found),
    });
    let step = match walked.end {
        End::Moved => StepOutcome::Moved,
        End::Finished | End::Paused => StepOutcome::Read(bytes + walked.bytes),
    };
    let stage = match walked.end {
        // The least name that is greater than this one.
        End::Finished => Stage::Pages(format!("{}\0", table.name), None),
        End::Paused | End::Moved => Stage::Pages(table.name.clone(), walked.after),
    };
    (stage, step)
}

/// The tables in a list of tables.
fn list(image: &Image<'_>, list: &Table, found: &mut dyn FnMut(String)) -> (Vec<Table>, u64, End) {
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

/// The key order of a table.
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

/// Checks a record that has a checksum of its own.
fn check_entry(table: &str, (key, value): Entry<'_>, found: &mut dyn FnMut(String)) {
    let Some(number) = page::u64_at(key, 0) else {
        return;
    };
    match table {
        "events" => {
            if let Err(failure) = decode_event(Revision(number), value) {
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

/// Reports the records of a damaged page: those that are visibly damaged, otherwise the range of
/// keys that belongs there.
fn report_damage(table: &str, damage: &image::Damage<'_>, found: &mut dyn FnMut(String)) {
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
            check_entry(table, entry, &mut |what| {
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
