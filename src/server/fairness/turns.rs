//! Whose turn is next: users one after the other, and the connections of each in order. Pure.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Those who wait, by user.
pub(super) struct Turns<U, W> {
    /// Each user that waits, once.
    users: VecDeque<U>,
    waiting: HashMap<U, VecDeque<W>>,
}

impl<U, W> Default for Turns<U, W> {
    fn default() -> Turns<U, W> {
        Turns {
            users: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }
}

impl<U: Clone + Eq + Hash, W> Turns<U, W> {
    /// Has one more of a user wait.
    pub(super) fn wait(&mut self, user: U, who: W) {
        let waiting = self.waiting.entry(user.clone()).or_default();
        if waiting.is_empty() {
            self.users.push_back(user);
        }
        waiting.push_back(who);
    }

    /// The one whose turn it is, or `None` when nobody waits.
    pub(super) fn next(&mut self) -> Option<W> {
        let user = self.users.pop_front()?;
        let waiting = self.waiting.get_mut(&user)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&user);
        } else {
            self.users.push_back(user);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_turns_one_after_the_other_however_many_each_has_waiting() {
        let mut turns = Turns::default();
        for number in 0..4 {
            turns.wait("ann", number);
        }
        turns.wait("bob", 10);
        assert_eq!(turns.next(), Some(0));
        turns.wait("cid", 20);
        turns.wait("bob", 11);
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [10, 1, 20, 11, 2, 3]);
        turns.wait("ann", 4);
        assert_eq!(turns.next(), Some(4), "who comes again is served again");
        assert_eq!(turns.next(), None);
        assert!(turns.users.is_empty() && turns.waiting.is_empty());
    }
}
