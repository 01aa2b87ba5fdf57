//! Decides what to do with an object that has owners, as Kubernetes' garbage collector does. Pure.

use super::uid::Uid;
use crate::api::options::Propagation;

/// An owner that an object names, as a read found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It exists and keeps the object.
    Solid,
    /// It exists, is being deleted in the foreground, and waits for its dependents.
    Waiting,
    /// No object with this kind, name, namespace and uid exists.
    Absent,
    /// It is unknown whether it exists: its kind is not served, or it is namespaced and the object
    /// is not.
    Unknown,
}

/// The objects that name the object as their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependents {
    /// There are some.
    pub(super) any: bool,
    /// One of them waits for its own dependents, so there may be a circle.
    pub(super) any_waiting: bool,
}

/// The action to take on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Leave it as it is.
    Keep,
    /// Remove the references to these owners. Another owner keeps the object.
    Unreference(Vec<Uid>),
    /// Delete it. If `unblock` is set, first make its references no longer block their owners,
    /// because owners and dependents wait for each other in a circle.
    Delete {
        /// The propagation policy.
        policy: Propagation,
        /// Whether it is in a circle.
        unblock: bool,
    },
}

/// Decides about an object that is not being deleted. `own` is the policy that its finalizers
/// require.
pub(super) fn decide(owners: &[(Uid, Owner)], dependents: Dependents, own: Propagation) -> Verdict {
    let having = |wanted: Owner| owners.iter().filter(move |(_, owner)| *owner == wanted);
    if owners.is_empty() || having(Owner::Unknown).next().is_some() {
        return Verdict::Keep;
    }
    let is_waited_for = having(Owner::Waiting).next().is_some();
    if having(Owner::Solid).next().is_some() {
        let dangling = having(Owner::Absent).chain(having(Owner::Waiting));
        let dangling: Vec<Uid> = dangling.map(|(uid, _)| uid.clone()).collect();
        return match dangling.is_empty() {
            true => Verdict::Keep,
            false => Verdict::Unreference(dangling),
        };
    }
    match is_waited_for && dependents.any {
        true => Verdict::Delete {
            policy: Propagation::Foreground,
            unblock: dependents.any_waiting,
        },
        false => Verdict::Delete {
            policy: own,
            unblock: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Dependents = Dependents {
        any: false,
        any_waiting: false,
    };
    const SOME: Dependents = Dependents {
        any: true,
        any_waiting: false,
    };
    const CIRCLE: Dependents = Dependents {
        any: true,
        any_waiting: true,
    };

    fn decided(owners: &[Owner], dependents: Dependents) -> Verdict {
        let owners = owners.iter().enumerate();
        let owners: Vec<_> = owners
            .map(|(at, owner)| (Uid::of(&at.to_string()), *owner))
            .collect();
        decide(&owners, dependents, Propagation::Background)
    }

    fn deleted(policy: Propagation, unblock: bool) -> Verdict {
        Verdict::Delete { policy, unblock }
    }

    #[test]
    fn an_object_stays_while_one_owner_is_solid() {
        use Owner::{Absent, Solid, Waiting};
        assert_eq!(decided(&[], NONE), Verdict::Keep);
        assert_eq!(decided(&[Solid, Solid], SOME), Verdict::Keep);
        let dangling = vec![Uid::of("2"), Uid::of("0")];
        assert_eq!(
            decided(&[Waiting, Solid, Absent], CIRCLE),
            Verdict::Unreference(dangling)
        );
    }

    #[test]
    fn an_owner_that_can_not_be_judged_keeps_the_object_and_its_references() {
        use Owner::{Absent, Solid, Unknown, Waiting};
        for others in [&[Absent][..], &[Solid, Absent], &[Waiting], &[]] {
            let owners = [others, &[Unknown]].concat();
            assert_eq!(decided(&owners, SOME), Verdict::Keep);
        }
    }

    #[test]
    fn an_object_without_owners_is_deleted_in_its_own_way() {
        use Owner::{Absent, Waiting};
        let background = deleted(Propagation::Background, false);
        assert_eq!(decided(&[Absent, Absent], CIRCLE), background);
        assert_eq!(decided(&[Absent, Waiting], NONE), background);
        let own = decide(&[(Uid::of("a"), Absent)], NONE, Propagation::Orphan);
        assert_eq!(own, deleted(Propagation::Orphan, false));
    }

    #[test]
    fn a_waiting_owner_makes_its_dependents_wait_for_theirs() {
        use Owner::{Absent, Waiting};
        assert_eq!(
            decided(&[Absent, Waiting], SOME),
            deleted(Propagation::Foreground, false)
        );
        assert_eq!(
            decided(&[Waiting], CIRCLE),
            deleted(Propagation::Foreground, true)
        );
    }
}
