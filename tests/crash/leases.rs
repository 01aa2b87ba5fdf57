//! Leases in a workload: the grants, their durations, and the rules after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{At, DataEngine, Key, LeaseEngine, LeaseId, Prefix, RangeRequest};
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::disk::Dice;

/// The wall clock and the uptime in seconds, both set by the test.
#[derive(Clone)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn at(seconds: u64) -> Clock {
        Clock(Arc::new(AtomicU64::new(seconds)))
    }

    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Makes an engine use this clock, with a wall clock that is `behind` seconds late.
    pub fn set(&self, options: &mut EmbeddedOptions, behind: u64) {
        let (wall, up) = (self.clone(), self.clone());
        options.clock = Arc::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_secs(wall.now().saturating_sub(behind))
        });
        options.uptime = Arc::new(move || Duration::from_secs(up.now()));
    }
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub deadline: u64,
    /// A revocation was requested and may have happened.
    pub ending: bool,
    /// The lease was surely revoked.
    pub ended: bool,
}

/// All that were given, by number.
pub type Leases = BTreeMap<LeaseId, Given>;

/// The keys there are, with their leases.
pub async fn held(engine: &EmbeddedEngine) -> BTreeMap<Key, LeaseId> {
    let mut request = RangeRequest {
        prefix: Prefix::new("/registry/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let mut held = BTreeMap::new();
    loop {
        let part = engine.range(request.clone()).await.unwrap();
        request.start = part.items.last().map(|item| {
            let mut start = item.key.as_bytes().to_vec();
            start.push(0);
            start
        });
        held.extend(part.items.into_iter().map(|item| (item.key, item.lease)));
        if !part.more {
            return held;
        }
    }
}

async fn expire(engine: &EmbeddedEngine) {
    while engine.expire().await.unwrap().more {}
}

/// Compares a reopened store with the granted leases: expired ones go, others stay, and none is
/// lost.
pub async fn examine(engine: &EmbeddedEngine, clock: &Clock, given: &Leases, behind: u64) {
    let before = held(engine).await;
    expire(engine).await;
    let now = clock.now();
    let left = held(engine).await;
    for (key, lease) in &before {
        if *lease == LeaseId(0) {
            assert!(left.contains_key(key), "{key} had no lease");
            continue;
        }
        let of = given.get(lease);
        let of = of.unwrap_or_else(|| panic!("{key} is attached to {lease:?}, which nobody has"));
        let is_there = left.contains_key(key);
        // How late it is may be known no better than from the newest record.
        let is_due = of.ended || (of.deadline <= now && behind == 0);
        assert!(
            !(is_due && is_there),
            "{key} outlived {lease:?}: {of:?} at {now}"
        );
        let is_alive = of.deadline > now && !of.ending;
        assert!(
            !is_alive || is_there,
            "{key} went before {lease:?}: {of:?} at {now}"
        );
    }
    clock.pass(7 * 24 * 3600);
    expire(engine).await;
    let left = held(engine).await;
    let expected = before.iter().filter(|(_, lease)| **lease == LeaseId(0));
    let expected: BTreeMap<Key, LeaseId> =
        expected.map(|(key, none)| (key.clone(), *none)).collect();
    assert_eq!(left, expected, "after a week");
    assert_eq!(engine.expire().await.unwrap().next, None);
    let next = engine.grant(Duration::from_secs(1)).await.unwrap().id;
    assert!(
        before.values().all(|used| *used < next),
        "{next:?} was used"
    );
}

/// A lease for a put: none, or one of the newest.
pub fn choose(dice: &mut Dice, given: &Leases) -> LeaseId {
    if given.is_empty() || dice.roll(2) == 0 {
        return LeaseId(0);
    }
    let back = dice.roll(given.len().min(4) as u64) as usize;
    given.keys().rev().nth(back).copied().unwrap_or_default()
}
