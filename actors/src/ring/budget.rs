//! Bounds the memory of rings: of each, and of all together.

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

/// A ring that can be told to shrink.
pub trait Evict: Send + Sync {
    /// Bytes it takes.
    fn ring_bytes(&self) -> usize;
    /// Drops its oldest events until it takes at most so many bytes.
    fn shrink_to(&self, bytes: usize);
}

/// The rings that share [`RingLimits::total_bytes`].
#[derive(Default)]
pub struct RingBudget {
    limits: RingLimits,
    rings: Mutex<Vec<Weak<dyn Evict>>>,
}

impl RingBudget {
    /// A budget with these limits, without rings.
    pub fn new(limits: RingLimits) -> Arc<RingBudget> {
        Arc::new(RingBudget {
            limits,
            rings: Mutex::default(),
        })
    }

    /// The limits.
    pub fn limits(&self) -> RingLimits {
        self.limits
    }

    /// Adds a ring.
    pub fn join(&self, ring: Weak<dyn Evict>) {
        self.rings.lock().push(ring);
    }

    /// Removes a ring.
    pub fn leave(&self, ring: &Arc<dyn Evict>) {
        let left = Arc::as_ptr(ring);
        let mut rings = self.rings.lock();
        rings.retain(|ring| !std::ptr::addr_eq(ring.as_ptr(), left));
    }

    /// The number of rings.
    pub fn rings(&self) -> usize {
        self.rings.lock().len()
    }

    /// Enforces the total after a ring has grown. Only the largest rings shrink, so a busy resource
    /// does not evict events of quiet ones.
    pub fn settle(&self) {
        let mut sizes: Vec<(usize, Arc<dyn Evict>)> = {
            let mut rings = self.rings.lock();
            rings.retain(|ring| ring.strong_count() > 0);
            let alive = rings.iter().filter_map(Weak::upgrade);
            alive.map(|ring| (ring.ring_bytes(), ring)).collect()
        };
        let cap = largest_allowed(
            sizes.iter().map(|(bytes, _)| *bytes).collect(),
            self.limits.total_bytes,
        );
        for (bytes, ring) in sizes.drain(..) {
            if bytes > cap {
                ring.shrink_to(cap);
            }
        }
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

    #[derive(Default)]
    struct Fixed(Mutex<usize>);

    impl Evict for Fixed {
        fn ring_bytes(&self) -> usize {
            *self.0.lock()
        }
        fn shrink_to(&self, bytes: usize) {
            *self.0.lock() = bytes;
        }
    }

    #[test]
    fn all_rings_together_stay_within_the_total() {
        let budget = RingBudget::new(RingLimits {
            per_resource_bytes: 100,
            total_bytes: 100,
        });
        let rings: Vec<Arc<Fixed>> = [80, 15, 60]
            .map(|bytes| Arc::new(Fixed(Mutex::new(bytes))))
            .into();
        for ring in &rings {
            let weak: Weak<Fixed> = Arc::downgrade(ring);
            budget.join(weak);
        }
        budget.settle();
        let sizes: Vec<usize> = rings.iter().map(|ring| ring.ring_bytes()).collect();
        assert_eq!(sizes, [42, 15, 42]);
    }
}
