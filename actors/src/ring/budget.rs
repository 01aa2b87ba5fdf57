//! Bounds the memory of rings: of each, and of all together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The bounds of rings, in bytes that are in memory only because of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// One resource's ring.
    pub per_resource_bytes: usize,
    /// All rings together.
    pub total_bytes: usize,
}

impl Default for RingLimits {
    /// 8 MiB for one ring hold some seconds of a busy resource. In that time a client that lost its
    /// connection reconnects. 64 MiB for all, because few resources are busy at the same time.
    /// Older events come from the engine's history.
    fn default() -> RingLimits {
        RingLimits {
            per_resource_bytes: 8 << 20,
            total_bytes: 64 << 20,
        }
    }
}

/// A ring that can be asked to shrink.
pub trait Evict: Send + Sync {
    /// Drops its oldest events until it takes at most this many bytes.
    fn shrink_to(&self, bytes: usize);
}

/// When all rings together take too much, they shrink by this share of the total more than they
/// must. So the rings are visited once for many publishes, and not for each.
const SLACK_SHARE: usize = 32;

/// The rings that share [`RingLimits::total_bytes`].
#[derive(Default)]
pub struct RingBudget {
    limits: RingLimits,
    /// The sum of what the rings said they take.
    total: AtomicUsize,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    next: u64,
    /// By the numbers that they were given.
    all: HashMap<u64, Member>,
}

struct Member {
    bytes: Arc<AtomicUsize>,
    ring: Weak<dyn Evict>,
}

/// The part of a budget that one ring uses. The ring leaves the budget when this is dropped.
pub struct RingShare {
    budget: Arc<RingBudget>,
    number: u64,
    bytes: Arc<AtomicUsize>,
}

impl RingBudget {
    /// A budget with these limits, without rings.
    pub fn new(limits: RingLimits) -> Arc<RingBudget> {
        Arc::new(RingBudget {
            limits,
            ..RingBudget::default()
        })
    }

    /// The limits.
    pub fn limits(&self) -> RingLimits {
        self.limits
    }

    /// Adds a ring.
    pub fn join(self: &Arc<RingBudget>, ring: Weak<dyn Evict>) -> RingShare {
        let bytes = Arc::default();
        let member = Member {
            bytes: Arc::clone(&bytes),
            ring,
        };
        let mut members = self.members.lock();
        let number = members.next;
        members.next += 1;
        members.all.insert(number, member);
        RingShare {
            budget: Arc::clone(self),
            number,
            bytes,
        }
    }

    /// The number of rings.
    pub fn rings(&self) -> usize {
        self.members.lock().all.len()
    }

    /// Enforces the total after a ring has grown. Only the largest rings shrink, so a busy resource
    /// does not evict events of quiet ones.
    pub fn settle(&self) {
        let most = self.limits.total_bytes;
        if self.total.load(Ordering::Relaxed) <= most {
            return;
        }
        let sizes: Vec<(usize, Weak<dyn Evict>)> = {
            let members = self.members.lock();
            let sized = members.all.values().map(|member| {
                let bytes = member.bytes.load(Ordering::Relaxed);
                (bytes, Weak::clone(&member.ring))
            });
            sized.filter(|(bytes, _)| *bytes > 0).collect()
        };
        let cap = largest_allowed(
            sizes.iter().map(|(bytes, _)| *bytes).collect(),
            most - most / SLACK_SHARE,
        );
        for (bytes, ring) in sizes {
            if bytes > cap
                && let Some(ring) = ring.upgrade()
            {
                ring.shrink_to(cap);
            }
        }
    }
}

impl RingShare {
    /// The bytes that the ring takes now.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        // The sum wraps as the difference does.
        let more = bytes.wrapping_sub(before);
        self.budget.total.fetch_add(more, Ordering::Relaxed);
    }

    /// The budget.
    pub fn budget(&self) -> &RingBudget {
        &self.budget
    }

    /// Takes nothing of the budget from now on.
    pub fn leave(&self) {
        self.budget.members.lock().all.remove(&self.number);
        self.set(0);
    }
}

impl Drop for RingShare {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The size to which larger rings must shrink so that all take at most `total`; `usize::MAX` if
/// they already do.
fn largest_allowed(mut sizes: Vec<usize>, total: usize) -> usize {
    if sizes.iter().sum::<usize>() <= total {
        return usize::MAX;
    }
    sizes.sort_unstable();
    let mut left = total;
    let mut count = sizes.len();
    for size in sizes {
        let share = left / count;
        if size > share {
            return share;
        }
        left -= size;
        count -= 1;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_that_fit_are_left_alone() {
        assert_eq!(largest_allowed(vec![10, 20, 30], 60), usize::MAX);
        assert_eq!(largest_allowed(Vec::new(), 0), usize::MAX);
    }

    #[test]
    fn the_largest_rings_shrink_and_the_small_ones_stay() {
        // 10 and 20 stay; the other two share the remaining 70.
        assert_eq!(largest_allowed(vec![90, 10, 50, 20], 100), 35);
        assert_eq!(largest_allowed(vec![100], 60), 60);
    }

    /// A ring of any size, which counts the requests to shrink.
    struct Fixed {
        share: RingShare,
        told: AtomicUsize,
    }

    impl Fixed {
        fn within(budget: &Arc<RingBudget>, bytes: usize) -> Arc<Fixed> {
            let ring = Arc::new_cyclic(|ring: &Weak<Fixed>| Fixed {
                share: budget.join(ring.clone()),
                told: AtomicUsize::new(0),
            });
            ring.share.set(bytes);
            ring
        }

        fn bytes(&self) -> usize {
            self.share.bytes.load(Ordering::Relaxed)
        }
    }

    impl Evict for Fixed {
        fn shrink_to(&self, bytes: usize) {
            self.told.fetch_add(1, Ordering::Relaxed);
            self.share.set(bytes);
        }
    }

    fn budget(total_bytes: usize) -> Arc<RingBudget> {
        RingBudget::new(RingLimits {
            per_resource_bytes: total_bytes,
            total_bytes,
        })
    }

    fn total(budget: &RingBudget) -> usize {
        budget.total.load(Ordering::Relaxed)
    }

    #[test]
    fn all_rings_together_stay_within_the_total() {
        let budget = budget(100);
        let rings = [80, 15, 60].map(|bytes| Fixed::within(&budget, bytes));
        budget.settle();
        assert_eq!(rings.each_ref().map(|ring| ring.bytes()), [41, 15, 41]);
        assert_eq!(total(&budget), 97);
        let [first, second, _third] = rings;
        drop(first);
        second.share.leave();
        assert_eq!((total(&budget), budget.rings()), (41, 1));
        drop(second);
        assert_eq!((total(&budget), budget.rings()), (41, 1));
    }

    #[test]
    fn rings_are_told_to_shrink_once_for_many_publishes() {
        const RINGS: usize = 1_000;
        const EVENT: usize = 1 << 10;
        let budget = budget(64 << 20);
        let rings: Vec<Arc<Fixed>> = (0..RINGS).map(|_| Fixed::within(&budget, 65_000)).collect();
        let publishes = 10 * RINGS;
        for number in 0..publishes {
            let ring = &rings[number * 7919 % RINGS];
            ring.share.set(ring.bytes() + EVENT);
            budget.settle();
            assert!(total(&budget) <= 64 << 20);
        }
        let told: usize = rings
            .iter()
            .map(|ring| ring.told.load(Ordering::Relaxed))
            .sum();
        assert!(2 * told < publishes, "{told} times");
    }
}
