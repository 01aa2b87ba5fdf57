//! Places in the actors where a test makes them panic or stall.
//!
//! The registry belongs to the process. A point is the name of a part that the watchdog watches:
//! `cacher/configmaps`, `reflector/secrets`, `writer/0`, `storage-write`. It is hit at each turn of
//! the part. Only test builds have the points.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;

use crate::engine::Key;

/// The fault at a point.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It panics as often as this.
    Panic(u32),
    /// The thread sleeps once.
    Stall(Duration),
}

static FAULTS: Mutex<BTreeMap<String, Fault>> = Mutex::new(BTreeMap::new());
static POISON: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// Makes a part panic at its next turns, this often.
pub fn panic_at(part: &str, times: u32) {
    FAULTS.lock().insert(part.to_owned(), Fault::Panic(times));
}

/// Makes a part sleep once, at its next turn, as if it computed.
pub fn stall_at(part: &str, time: Duration) {
    FAULTS.lock().insert(part.to_owned(), Fault::Stall(time));
}

/// Whether a part has not come to its next turn, or is to panic again.
pub fn is_pending(part: &str) -> bool {
    FAULTS.lock().contains_key(part)
}

/// Makes every Cacher panic that is given an object under this key.
pub fn poison(key: &str) {
    POISON.lock().insert(Key::new(key));
}

/// Takes all faults back.
pub fn clear() {
    FAULTS.lock().clear();
    POISON.lock().clear();
}

/// A turn of a part.
pub(crate) fn hit(part: &str) {
    let fault = {
        let mut faults = FAULTS.lock();
        let Some(fault) = faults.get_mut(part) else {
            return;
        };
        let hit = *fault;
        match fault {
            Fault::Panic(times) if *times > 1 => *times -= 1,
            _ => drop(faults.remove(part)),
        }
        hit
    };
    match fault {
        Fault::Panic(_) => panic!("the failpoint {part} was set to panic"),
        Fault::Stall(time) => std::thread::sleep(time),
    }
}

/// A Cacher is given objects under some keys.
pub(crate) fn hit_keys(is_given: impl Fn(&Key) -> bool) {
    let poison = POISON.lock().iter().find(|key| is_given(key)).cloned();
    if let Some(key) = poison {
        panic!("the object {key} is poison");
    }
}
