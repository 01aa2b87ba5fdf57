//! Decides whose turn is next: users take turns, and the work of each user runs in order. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// The smallest number of users at which users without waiting work are looked for and removed.
const USERS_MIN: usize = 64;

/// A queue of waiting work, grouped by user. The user with the smallest charge comes first; without
/// charges users take turns in a circle. When the queue becomes empty all charges are forgotten,
/// because a user who was alone has taken nothing from anybody.
pub(super) struct Turns<U, W> {
    /// The users with waiting work, each once.
    order: BTreeMap<Rank, U>,
    users: HashMap<U, User<W>>,
    /// The number of users at which those without waiting work are removed.
    users_max: usize,
    /// The number of ranks so far. It makes every rank unique.
    ranks: u64,
    /// The charge of the last user who had a turn. It is the minimum for everyone, so that a user
    /// who was away has saved up nothing.
    level: u64,
}

/// A user's charge and the unique number of the rank.
type Rank = (u64, u64);

struct User<W> {
    charge: u64,
    /// `None` if nothing of the user waits.
    rank: Option<Rank>,
    waiting: VecDeque<W>,
}

impl<U, W> Default for Turns<U, W> {
    fn default() -> Turns<U, W> {
        Turns {
            order: BTreeMap::new(),
            users: HashMap::new(),
            users_max: USERS_MIN,
            ranks: 0,
            level: 0,
        }
    }
}

impl<U: Clone + Eq + Hash, W> Turns<U, W> {
    /// Queues `who` after the other waiting work of the user.
    pub(super) fn wait(&mut self, user: &U, who: W) {
        self.change(user, |of| of.waiting.push_back(who));
    }

    /// Queues `who` before the other waiting work of the user.
    pub(super) fn wait_first(&mut self, user: &U, who: W) {
        self.change(user, |of| of.waiting.push_front(who));
    }

    /// Removes and returns the work whose turn it is, or `None` if nothing waits.
    pub(super) fn next(&mut self) -> Option<W> {
        let ((charge, _), user) = self.order.pop_first()?;
        self.level = charge;
        let next = self.change(&user, |of| {
            of.rank = None;
            of.waiting.pop_front()
        });
        self.forget_if_nobody_waits();
        next
    }

    fn forget_if_nobody_waits(&mut self) {
        if self.order.is_empty() {
            self.users.clear();
            self.level = 0;
        }
    }

    /// Charges `amount` to a user, if anybody waits.
    pub(super) fn charge(&mut self, user: &U, amount: u64) {
        if self.order.is_empty() {
            return;
        }
        self.change(user, |of| of.charge = of.charge.saturating_add(amount));
    }

    /// Removes waiting work for which `is_leaving` returns true.
    pub(super) fn leave(&mut self, user: &U, is_leaving: impl Fn(&W) -> bool) {
        self.change(user, |of| of.waiting.retain(|who| !is_leaving(who)));
        self.forget_if_nobody_waits();
    }

    /// Changes the state of a user and updates the user's rank.
    fn change<T>(&mut self, name: &U, change: impl FnOnce(&mut User<W>) -> T) -> T {
        if self.users.len() >= self.users_max {
            let level = self.level;
            self.users
                .retain(|_, user| user.rank.is_some() || user.charge > level);
            self.users_max = (2 * self.users.len()).max(USERS_MIN);
        }
        let user = self.users.entry(name.clone()).or_insert_with(|| User {
            charge: 0,
            rank: None,
            waiting: VecDeque::new(),
        });
        user.charge = user.charge.max(self.level);
        let changed = change(user);
        let rank = match (user.waiting.is_empty(), user.rank) {
            (true, _) => None,
            (false, Some((_, number))) => Some((user.charge, number)),
            (false, None) => {
                self.ranks += 1;
                Some((user.charge, self.ranks))
            }
        };
        if rank != user.rank {
            if let Some(before) = std::mem::replace(&mut user.rank, rank) {
                self.order.remove(&before);
            }
            if let Some(rank) = rank {
                self.order.insert(rank, name.clone());
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(turns: &mut Turns<&str, i32>) -> Vec<i32> {
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn users_have_turns_one_after_the_other_however_many_each_has_waiting() {
        let mut turns = Turns::default();
        for number in 0..4 {
            turns.wait(&"ann", number);
        }
        turns.wait(&"bob", 10);
        assert_eq!(turns.next(), Some(0));
        turns.wait(&"cid", 20);
        turns.wait(&"bob", 11);
        assert_eq!(rest(&mut turns), [10, 1, 20, 11, 2, 3]);
        turns.wait(&"ann", 4);
        assert_eq!(turns.next(), Some(4), "a returning user is served again");
        assert_eq!(turns.next(), None);
    }

    #[test]
    fn who_was_charged_less_comes_first_and_saves_nothing_up() {
        let mut turns = Turns::default();
        for number in 0..64 {
            turns.wait(&"ann", number);
        }
        assert_eq!(turns.next(), Some(0));
        turns.wait(&"bob", 100);
        turns.charge(&"ann", 1000);
        assert_eq!(turns.next(), Some(100), "ann has had her turn");
        turns.charge(&"bob", 10);
        for number in 101..104 {
            turns.wait(&"bob", number);
        }
        assert_eq!((turns.next(), turns.next()), (Some(101), Some(102)));
        turns.charge(&"bob", 2000);
        assert_eq!(turns.next(), Some(1), "now bob has had more");
        // The level is now 1000. Cid was never charged, and has no thousand turns to catch up.
        turns.wait(&"cid", 200);
        turns.wait(&"cid", 201);
        turns.charge(&"ann", 500);
        assert_eq!(turns.next(), Some(200));
        turns.charge(&"cid", 600);
        assert_eq!(turns.next(), Some(2));
    }

    #[test]
    fn what_goes_on_comes_first_of_its_user_and_who_leaves_is_not_called() {
        let mut turns = Turns::default();
        turns.wait(&"ann", 1);
        turns.wait(&"ann", 2);
        turns.wait(&"bob", 10);
        turns.wait_first(&"bob", 9);
        turns.leave(&"ann", |number| *number == 1);
        assert_eq!(rest(&mut turns), [2, 9, 10]);
        turns.wait(&"ann", 3);
        turns.leave(&"ann", |number| *number == 3);
        assert_eq!(turns.next(), None);
    }

    #[test]
    fn users_who_have_nothing_left_are_forgotten() {
        let mut turns = Turns::default();
        turns.wait(&1, ());
        turns.charge(&0, 5);
        for user in 2..10_000 {
            turns.wait(&user, ());
            turns.leave(&user, |()| true);
        }
        assert!(turns.users.len() <= USERS_MIN);
        assert!(turns.users[&0].charge == 5 && turns.users.contains_key(&1));
        assert_eq!(turns.order.len(), 1);
        assert_eq!(turns.next(), Some(()));
        assert!(turns.users.is_empty());
    }

    #[test]
    fn who_was_alone_owes_nothing_to_newcomers() {
        let mut turns = Turns::default();
        for hour in 0..1000 {
            turns.charge(&"ann", 3_600_000);
            assert!(turns.users.is_empty(), "hour {hour}");
        }
        for number in 10..20 {
            turns.wait(&"bob", number);
        }
        turns.wait(&"ann", 1);
        assert_eq!((turns.next(), turns.next()), (Some(10), Some(1)));
    }
}
