//! Tickets: what lets a mutation follow another one that is not durable yet.

use tokio::sync::watch;

use super::key::Revision;

/// The state of a queued mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It waits for its decision.
    Queued,
    /// It will leave its key at this revision, if its commit succeeds.
    Decided(Revision),
    /// It has left its key at this revision, durably.
    Durable(Revision),
    /// It was refused or has failed, or nobody knows.
    Void,
}

/// Stands for the state in which a queued mutation leaves its key. The next mutation can expect
/// that state before it is durable ([`Expect::LeftBy`](super::Expect::LeftBy)).
#[derive(Clone, Debug)]
pub struct Ticket(watch::Receiver<Fate>);

/// The engine's end of a [`Ticket`]. Dropping it makes the ticket void.
#[derive(Debug)]
pub struct TicketIssuer {
    fate: watch::Sender<Fate>,
    has_followers: bool,
}

/// A ticket for a mutation that is about to be queued.
pub fn ticket() -> (TicketIssuer, Ticket) {
    let (issuer, ticket) = watch::channel(Fate::Queued);
    let issuer = TicketIssuer {
        fate: issuer,
        has_followers: false,
    };
    (issuer, Ticket(ticket))
}

impl TicketIssuer {
    /// The same issuer, for a mutation that others wait to follow.
    pub fn with_followers(mut self) -> TicketIssuer {
        self.has_followers = true;
        self
    }

    /// Whether others wait to follow the mutation. An engine may wait a moment for them, so that
    /// they share its commit.
    pub fn has_followers(&self) -> bool {
        self.has_followers
    }

    /// The mutation leaves its key at this revision, if its commit succeeds.
    pub fn decide(&self, revision: Revision) {
        self.fate.send_replace(Fate::Decided(revision));
    }

    /// The mutation has left its key at this revision, durably.
    pub fn settle(self, revision: Revision) {
        self.fate.send_replace(Fate::Durable(revision));
    }
}

impl Drop for TicketIssuer {
    fn drop(&mut self) {
        self.fate.send_if_modified(|fate| {
            let is_open = !matches!(fate, Fate::Durable(_));
            if is_open {
                *fate = Fate::Void;
            }
            is_open
        });
    }
}

impl Ticket {
    /// The revision at which the mutation leaves its key. Only the engine may act on it, because it
    /// may not be durable yet. `None` if the mutation waits or the ticket is void.
    pub fn decided(&self) -> Option<Revision> {
        match *self.0.borrow() {
            Fate::Decided(revision) | Fate::Durable(revision) => Some(revision),
            Fate::Queued | Fate::Void => None,
        }
    }

    /// Whether it is known what became of the mutation.
    pub fn is_settled(&self) -> bool {
        is_settled(&self.0.borrow())
    }

    /// Waits until it is known what became of the mutation. Returns the revision at which it has
    /// left its key, durably. `None` if the ticket is void.
    pub async fn settled(&self) -> Option<Revision> {
        let mut ticket = self.0.clone();
        let fate = ticket.wait_for(is_settled).await.map(|fate| *fate);
        match fate {
            Ok(Fate::Durable(revision)) => Some(revision),
            _ => None,
        }
    }
}

fn is_settled(fate: &Fate) -> bool {
    matches!(fate, Fate::Durable(_) | Fate::Void)
}

/// Tickets are equal if they are of the same mutation.
impl PartialEq for Ticket {
    fn eq(&self, other: &Ticket) -> bool {
        self.0.same_channel(&other.0)
    }
}

impl Eq for Ticket {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ticket_is_durable_or_void_in_the_end() {
        let (issuer, durable) = ticket();
        assert_eq!((durable.decided(), durable.is_settled()), (None, false));
        issuer.decide(Revision(7));
        assert_eq!(durable.decided(), Some(Revision(7)));
        assert!(!durable.is_settled());
        issuer.settle(Revision(7));
        assert_eq!(durable.settled().await, Some(Revision(7)));
        assert_eq!(durable.decided(), Some(Revision(7)));

        let (issuer, void) = ticket();
        issuer.decide(Revision(7));
        drop(issuer);
        assert_eq!((void.decided(), void.is_settled()), (None, true));
        assert_eq!(void.settled().await, None);
        assert!(void == void.clone() && void != durable);
    }
}
