//! Updates in turn. A turn ends when its mutation is queued, so that the next update can build on
//! it and share its commit (docs/design.md 6).

use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{Change, Key, LeaseId, Mutation, Origin, Outcome, Revision, ticket};
use actors::writer::{LastOutcome, QueuedObject, QueuedTurn, Turn, WriterHandle};

use super::outstanding::Outstanding;
use super::{ObjectState, PutRequest, Underlying};
use crate::storage::{StorageError, UpdateRequest, VersionUse};

/// How long a retry waits for its turn at a hot key before it continues without one.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// A turn of a key, as far as an update still has it.
pub(super) enum HeldTurn {
    /// It is held.
    Held(Turn),
    /// Its mutation was queued.
    Queued(QueuedTurn),
}

impl HeldTurn {
    /// Whether the next update may build on this one before it is durable.
    pub(super) fn may_chain(&self) -> bool {
        matches!(self, HeldTurn::Held(turn) if turn.may_chain())
    }
}

impl Underlying {
    /// Returns the turn of a key and the state that it begins with, before the first attempt.
    /// `None` without rivals, and for an update of one version.
    pub(super) async fn first_turn(
        &self,
        key: &Key,
        request: &UpdateRequest,
        state: ObjectState,
    ) -> (Option<HeldTurn>, ObjectState) {
        match self.writers_for(request) {
            Some(writers) if writers.is_contended(key) => {
                self.in_turn(key, request, None, state).await
            }
            _ => (None, state),
        }
    }

    fn writers_for(&self, request: &UpdateRequest) -> Option<&WriterHandle> {
        let writers = self.writers.as_ref();
        let takes_turns = !matches!(request.version, VersionUse::Names | VersionUse::Awaits);
        writers.filter(|_| takes_turns)
    }

    /// Waits for the key's turn, and starts from the state of the previous turn, if that is newer.
    /// A turn that was beaten waits once more. Without a Writer, or if it does not answer in time,
    /// the caller continues without a turn. Turns affect only speed.
    pub(super) async fn in_turn(
        &self,
        key: &Key,
        request: &UpdateRequest,
        held: Option<HeldTurn>,
        state: ObjectState,
    ) -> (Option<HeldTurn>, ObjectState) {
        let granted = match (held, self.writers_for(request)) {
            (Some(HeldTurn::Held(turn)), _) => turn.again().await,
            (Some(HeldTurn::Queued(turn)), _) => turn.again().await,
            (None, Some(writers)) => {
                let deadline = tokio::time::Instant::now() + TURN_WAIT;
                writers.turn(key, deadline).await
            }
            (None, None) => return (None, state),
        };
        let Ok(turn) = granted else {
            return (None, state);
        };
        let newest = match turn.last_outcome() {
            // Compared with the store's revision, not with the object's. For a key that was deleted
            // since, an older outcome would be tried and refused forever.
            Some(LastOutcome::Durable(item)) if item.revision > state.seen => {
                self.state_of(item, item.revision).ok()
            }
            Some(LastOutcome::Queued(queued)) => {
                let may_chain = request.version == VersionUse::Ignores && turn.may_chain();
                queued_state(queued, may_chain, state.seen).await
            }
            _ => None,
        };
        let state = newest.map_or(state, |newest| ObjectState {
            current: false,
            ..newest
        });
        (Some(HeldTurn::Held(turn)), state)
    }

    /// Queues a put in a turn, and gives the turn to the next update.
    pub(super) async fn put_in_turn(
        &self,
        key: &Key,
        put: &PutRequest,
        origin: &Origin,
        turn: &mut Option<HeldTurn>,
    ) -> Result<Outcome, StorageError> {
        let hold = self.decoder.transformer.hold();
        let mutation = Mutation {
            key: key.clone(),
            expect: put.expect.clone(),
            change: Change::Put {
                value: self.stored(key, put.plain.to_vec())?,
                lease: LeaseId::default(),
            },
            origin: origin.clone(),
            prepared: put.prepared.prepared(),
        };
        let object = put.prepared.object();
        self.begin_write(key)?;
        let started = Instant::now();
        let outstanding = Outstanding::new(hold);
        let (mut issuer, ticket) = ticket();
        if let Some(HeldTurn::Held(turn)) = turn
            && turn.has_followers()
        {
            issuer = issuer.with_followers();
        }
        let pending = self.engine.queue(mutation, issuer).await;
        // An engine without a queue has settled the ticket already. Then the turn is still needed:
        // to retry, or to report the commit.
        if !ticket.is_settled() {
            *turn = turn.take().map(|held| match held {
                HeldTurn::Held(turn) => HeldTurn::Queued(turn.queued(QueuedObject {
                    ticket,
                    object,
                    plain: put.plain.clone(),
                })),
                queued => queued,
            });
        }
        let answer = pending.await;
        self.answered("update", started, &answer).await;
        outstanding.answered(&answer);
        answer.map_err(|error| self.engine_fault(&key.to_text(), error))
    }

    /// The newest durable state of a key. A state that is not durable yet may be part of it, so
    /// this waits until that is decided.
    pub(super) async fn durable(
        &self,
        key: &Key,
        state: &ObjectState,
    ) -> Result<ObjectState, StorageError> {
        if let Some(ticket) = &state.ticket {
            ticket.settled().await;
        }
        self.read(key).await
    }
}

/// Returns the state that a queued mutation results in. `None` if it has failed, or is older than
/// the store was at `seen`. Unless the caller may chain, this waits until the state is durable.
async fn queued_state(
    queued: &QueuedObject,
    may_chain: bool,
    seen: Revision,
) -> Option<ObjectState> {
    let QueuedObject {
        ticket,
        object,
        plain,
    } = queued;
    let state = ObjectState {
        object: Some(object.clone()),
        plain: Some(plain.clone()),
        stale: false,
        current: false,
        ticket: Some(ticket.clone()),
        seen,
    };
    if may_chain && !ticket.is_settled() {
        return Some(state);
    }
    let revision = ticket.settled().await.filter(|left| *left > seen)?;
    Some(ObjectState {
        object: Some(Arc::new(object.at(revision))),
        ticket: None,
        seen: revision,
        ..state
    })
}
