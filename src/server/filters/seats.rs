//! Seats that users share: a limited number, part of which is reserved for users with few seats.
//! Pure, except for the lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The reserved part of the seats: one in this many.
const KEPT: usize = 8;

/// The part of the seats that one request can take: one in this many.
const WIDEST: usize = 10;

/// The users who keep their entries without a seat, so that not every request makes and removes
/// one.
const IDLE_MAX: usize = 1024;
/// The bytes of the names of such users.
const IDLE_NAME_MAX: usize = 512;

/// Seats. A user can have up to seven eighths of them. The rest is reserved for users with less
/// than an eighth, so no single user can lock others out.
#[derive(Debug)]
pub struct Seats {
    limit: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_user: HashMap<Arc<str>, Own>,
}

/// The seats of a user.
#[derive(Debug)]
struct Own {
    name: Arc<str>,
    seats: usize,
}

impl Taken {
    /// Takes seats for a user, and returns the name. `None` if that user can't have them.
    fn take(&mut self, limit: usize, user: &str, seats: usize) -> Option<Arc<str>> {
        let kept = limit / KEPT;
        let own = self.by_user.get_mut(user);
        let held = own.as_ref().map_or(0, |own| own.seats);
        let usable = match held + seats <= kept {
            true => limit,
            false => limit - kept,
        };
        if self.all.saturating_add(seats) > usable {
            return None;
        }
        self.all += seats;
        if let Some(own) = own {
            own.seats += seats;
            return Some(Arc::clone(&own.name));
        }
        let name: Arc<str> = Arc::from(user);
        let own = Own {
            name: Arc::clone(&name),
            seats,
        };
        self.by_user.insert(Arc::clone(&name), own);
        Some(name)
    }

    fn give_back(&mut self, user: &str, seats: usize) {
        self.all -= seats;
        let is_kept = self.by_user.len() <= IDLE_MAX && user.len() <= IDLE_NAME_MAX;
        if let Some(own) = self.by_user.get_mut(user) {
            own.seats -= seats;
            if own.seats == 0 && !is_kept {
                self.by_user.remove(user);
            }
        }
    }
}

/// The seats of one request. Dropping it returns them.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    user: Arc<str>,
    count: AtomicUsize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        taken.give_back(&self.user, *self.count.get_mut());
    }
}

impl Seats {
    /// Creates this many seats.
    pub fn new(limit: usize) -> Arc<Seats> {
        Arc::new(Seats {
            limit,
            taken: Mutex::default(),
        })
    }

    /// Returns the number of seats.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes a seat for a user. Returns `None` if none is available to that user.
    pub fn take(self: &Arc<Self>, user: &str) -> Option<Seat> {
        let user = self.taken.lock().take(self.limit, user, 1)?;
        Some(Seat {
            seats: Arc::clone(self),
            user,
            count: AtomicUsize::new(1),
        })
    }
}

impl Seat {
    /// Widens this to `count` seats, but at most a tenth of all. Returns false, and changes
    /// nothing, if the user cannot have them.
    pub fn widen(&self, count: usize) -> bool {
        let count = count.min(self.seats.limit / WIDEST).max(1);
        let mut taken = self.seats.taken.lock();
        // The count changes only under the lock.
        let further = count.saturating_sub(self.count.load(Ordering::Relaxed));
        if further == 0 {
            return true;
        }
        let is_taken = taken.take(self.seats.limit, &self.user, further).is_some();
        if is_taken {
            self.count.fetch_add(further, Ordering::Relaxed);
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_all_leaves_an_eighth_to_who_has_few() {
        let seats = Seats::new(80);
        let greedy: Vec<Seat> = std::iter::from_fn(|| seats.take("ann")).collect();
        assert_eq!(greedy.len(), 70);
        let modest: Vec<Seat> = std::iter::from_fn(|| seats.take("bob")).collect();
        assert_eq!(modest.len(), 10);
        assert!(seats.take("cid").is_none(), "all are taken");
        drop(modest);
        assert!(seats.take("ann").is_none() && seats.take("cid").is_some());
        drop(greedy);
        assert!(seats.take("ann").is_some());
        let taken = seats.taken.lock();
        assert_eq!(taken.all, 0);
        assert!(taken.by_user.values().all(|own| own.seats == 0));
    }

    #[test]
    fn the_names_of_many_users_are_not_kept() {
        let seats = Seats::new(80);
        drop(seats.take(&"n".repeat(IDLE_NAME_MAX + 1)).unwrap());
        assert!(seats.taken.lock().by_user.is_empty());
        for number in 0..2 * IDLE_MAX {
            drop(seats.take(&number.to_string()).unwrap());
        }
        assert_eq!(seats.taken.lock().by_user.len(), IDLE_MAX);
    }

    #[test]
    fn few_seats_are_for_whoever_comes_first() {
        let seats = Seats::new(1);
        let only = seats.take("ann");
        assert!(only.is_some() && seats.take("bob").is_none());
        drop(only);
        assert!(seats.take("bob").is_some());
    }

    #[test]
    fn a_wide_request_takes_up_to_a_tenth_and_gives_all_of_it_back() {
        let seats = Seats::new(80);
        let list = seats.take("ann").unwrap();
        assert!(list.widen(3) && list.widen(2));
        assert_eq!(seats.taken.lock().all, 3, "it never becomes narrower");
        assert!(list.widen(1000));
        assert_eq!(seats.taken.lock().all, 8);
        let others: Vec<Seat> = std::iter::from_fn(|| seats.take("ann")).collect();
        let late = seats.take("bob").unwrap();
        assert!(late.widen(8), "bob has few");
        assert!(!others[0].widen(2), "ann has much");
        assert!(others[0].widen(1), "nothing more is wanted");
        drop((list, others, late));
        assert_eq!(seats.taken.lock().all, 0);
        let narrow = Seats::new(3).take("ann").unwrap();
        assert!(narrow.widen(100), "where a tenth is less than one");
    }
}
