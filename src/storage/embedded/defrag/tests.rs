//! Copies of the database during writes.

use std::time::SystemTime;

use actors::engine::local::{LeaseQueue, LeaseTime};
use actors::engine::{Change, Expect, Key, LeaseId, Mutation, Origin, Prepared};
use bytes::Bytes;

use super::catch_up::REFUSALS_MAX;
use super::*;
use crate::storage::embedded::disk::Directory;
use crate::storage::embedded::write_txn::Moment;

const BATCH: u64 = 100;

fn write(log: &Store, events: u64) {
    let newest = read_meta(&log.read().unwrap()).unwrap().totals.revision.0;
    let transaction = log.write().unwrap();
    let mut txn = WriteTxn::open(&transaction).unwrap();
    for revision in newest..newest + events {
        let put = Mutation {
            key: Key::new(format!("/registry/{revision}")),
            expect: Expect::Absent,
            change: Change::Put {
                value: Bytes::from_static(b"value"),
                lease: LeaseId(0),
            },
            origin: Origin::default(),
            prepared: Prepared::default(),
        };
        let moment = Moment {
            time: SystemTime::UNIX_EPOCH,
            leases: &LeaseQueue::default(),
            lease_time: LeaseTime::ZERO,
        };
        txn.apply(&put, moment, &mut Vec::new()).unwrap();
    }
    txn.finish().unwrap();
    log.commit(transaction).unwrap();
}

fn begin(directory: &std::path::Path) -> (Store, Defrag) {
    let disk = Arc::new(Directory::open(directory).unwrap());
    let mut options = EmbeddedOptions::new(directory);
    options.batch_count_max = BATCH as usize;
    let (log, _) = Store::open(&*disk, DataFile::Log, &options, None, None).unwrap();
    write(&log, 3 * BATCH);
    let defrag = Defrag::start(disk, &options, &log).unwrap();
    (log, defrag)
}

fn catch_up(defrag: &mut Defrag, log: &Store) -> Progress {
    loop {
        match defrag.step(log).unwrap() {
            Progress::Copying => {}
            other => return other,
        }
    }
}

#[test]
fn a_full_batch_on_top_of_a_step_does_not_keep_a_copy_from_being_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let (log, mut defrag) = begin(directory.path());
    assert_eq!(catch_up(&mut defrag, &log), Progress::CaughtUp);
    write(&log, BATCH);
    assert_eq!(defrag.seal(&log), Ok(Seal::Whole(LeaseRows::new())));
}

#[test]
fn a_copy_that_is_always_too_late_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let (log, mut defrag) = begin(directory.path());
    let mut refusals = 0;
    while catch_up(&mut defrag, &log) == Progress::CaughtUp {
        write(&log, 2 * BATCH);
        assert_eq!(defrag.seal(&log), Ok(Seal::Behind));
        refusals += 1;
    }
    assert_eq!(refusals, REFUSALS_MAX);
}

#[test]
fn a_copy_whose_leases_can_not_be_read_does_not_take_the_logs_place() {
    let directory = tempfile::tempdir().unwrap();
    let (log, mut defrag) = begin(directory.path());
    assert_eq!(catch_up(&mut defrag, &log), Progress::CaughtUp);
    let transaction = log.write().unwrap();
    let mut txn = WriteTxn::open(&transaction).unwrap();
    txn.put_lease_bytes(LeaseId(7), b"rotten").unwrap();
    txn.finish().unwrap();
    log.commit(transaction).unwrap();
    let refused = defrag.seal(&log);
    let expected = "table leases, lease 7";
    assert!(
        matches!(&refused, Err(Failure::Corrupt(what)) if what.starts_with(expected)),
        "{refused:?}"
    );
}
