//! Authenticators of tokens that have to ask others: issuers, webhooks, stores (AC-5).
//!
//! Accepted tokens are kept for a short time, refused ones are not. Requests with the same unknown
//! token share one look-up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};

use super::authenticator::{Authenticated, Unauthorized};
use crate::clock;

/// How long an accepted token is not looked up again.
const KEPT: Duration = Duration::from_secs(10);

/// The most time of a look-up.
const LOOK_UP: Duration = Duration::from_secs(30);

/// The most accepted tokens that are kept, in each of two generations.
const KEPT_MAX: usize = 4096;

/// The number of look-ups in the table after which those without a waiting request are removed.
const RUNNING: usize = 1024;

const REQUESTS: &str = "authentication_token_cache_request_total";
const REQUEST_SECONDS: &str = "authentication_token_cache_request_duration_seconds";
const FETCHES: &str = "authentication_token_cache_fetch_total";
const ACTIVE: &str = "authentication_token_cache_active_fetch_count";

/// An answer about a token: its user, or `None` if the token is of another kind.
pub type Found = Result<Option<Authenticated>, Unauthorized>;

/// Identifies the users of one kind of tokens, and may wait for others.
pub trait TokenLookup: Send + Sync + 'static {
    /// Returns the user of a token, or `None` if it is of another kind. The token is one of a
    /// header: it has no spaces and is not empty. `audiences` are those that the token should be
    /// for; an empty list stands for those of the API. The groups of the user are complete, as
    /// [`crate::api::user_info::UserInfo::authenticated`] makes them (AC-6).
    ///
    /// # Errors
    /// The token is of this kind and invalid, or nobody could be asked.
    fn look_up<'a>(&'a self, token: &'a [u8], audiences: &'a [String]) -> BoxFuture<'a, Found>;

    /// Whether accepted tokens are kept, because it is expensive to look them up.
    fn keeps(&self) -> bool {
        true
    }
}

type Key = [u8; 32];
type Looking = BoxFuture<'static, Found>;

/// The look-ups, in the order in which they are asked.
pub(super) struct TokenLookups {
    members: Arc<[Arc<dyn TokenLookup>]>,
    /// Makes keys unpredictable for those who send tokens.
    salt: [u8; 32],
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    young: Generation,
    old: Generation,
    running: HashMap<Key, WeakShared<Looking>>,
}

/// Accepted tokens, with the time until which they are kept.
type Generation = HashMap<Key, (Authenticated, Instant)>;

impl State {
    fn kept(&self, key: &Key) -> Option<Authenticated> {
        let (known, until) = self.young.get(key).or_else(|| self.old.get(key))?;
        (clock::moment() < *until).then(|| known.clone())
    }

    fn keep(&mut self, key: Key, known: Authenticated) {
        let now = clock::moment();
        // Tokens that are not kept any more go with the next ones.
        let is_over = |generation: &Generation| {
            let mut ends = generation.values().map(|(_, until)| *until);
            ends.next().is_some_and(|until| until + KEPT < now)
        };
        if self.young.len() >= KEPT_MAX || is_over(&self.young) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (known, now + KEPT));
    }
}

impl Default for TokenLookups {
    fn default() -> TokenLookups {
        TokenLookups::new(Vec::new())
    }
}

impl TokenLookups {
    pub(super) fn new(members: Vec<Arc<dyn TokenLookup>>) -> TokenLookups {
        describe();
        let mut salt = [0; 32];
        // Without random numbers the keys are those of a plain digest.
        let _ = rand::fill(&mut salt);
        TokenLookups {
            members: members.into(),
            salt,
            state: Arc::default(),
        }
    }

    /// Returns the user of a token that was accepted a short time ago.
    pub(super) fn kept(&self, token: &[u8], audiences: &[String]) -> Option<Authenticated> {
        if self.members.is_empty() {
            return None;
        }
        self.state.lock().kept(&self.key(token, audiences))
    }

    /// Asks the members in their order, unless the token was accepted a short time ago. Refusals
    /// are returned only if none of the members knows the user.
    pub(super) async fn look_up(&self, token: &[u8], audiences: &[String]) -> Found {
        if self.members.is_empty() {
            return Ok(None);
        }
        let began = Instant::now();
        let key = self.key(token, audiences);
        let (found, status) = match self.joined(key, token, audiences) {
            Joined::Kept(known) => (Ok(Some(known)), "hit"),
            Joined::Waits(looking, state) => {
                let _active = Active::new(state);
                (looking.await, "miss")
            }
        };
        counter!(REQUESTS, "status" => status).increment(1);
        histogram!(REQUEST_SECONDS, "status" => status).record(began.elapsed());
        found
    }

    fn joined(&self, key: Key, token: &[u8], audiences: &[String]) -> Joined {
        let mut state = self.state.lock();
        if let Some(known) = state.kept(&key) {
            return Joined::Kept(known);
        }
        if let Some(looking) = state.running.get(&key).and_then(WeakShared::upgrade) {
            return Joined::Waits(looking, "blocked");
        }
        let looking = self.begun(key, token, audiences);
        if state.running.len() >= RUNNING {
            state
                .running
                .retain(|_, looking| looking.upgrade().is_some());
        }
        if let Some(weak) = looking.downgrade() {
            state.running.insert(key, weak);
        }
        Joined::Waits(looking, "in_flight")
    }

    /// Returns a look-up that runs while a request waits for it.
    fn begun(&self, key: Key, token: &[u8], audiences: &[String]) -> Shared<Looking> {
        let token = zeroize::Zeroizing::new(token.to_vec());
        let audiences = audiences.to_vec();
        let (members, state) = (Arc::clone(&self.members), Arc::clone(&self.state));
        let looking = async move {
            let asked = timeout(LOOK_UP, asked(&members, &token, &audiences)).await;
            let late = || Unauthorized::Token("it could not be looked up in time".to_owned());
            let found = asked.unwrap_or_else(|_| Err(late()));
            let status = if found.is_ok() { "ok" } else { "error" };
            counter!(FETCHES, "status" => status).increment(1);
            let mut state = state.lock();
            state.running.remove(&key);
            let (known, keeps) =
                found?.map_or((None, false), |(known, keeps)| (Some(known), keeps));
            if let Some(known) = known.as_ref().filter(|_| keeps) {
                state.keep(key, known.clone());
            }
            Ok(known)
        };
        looking.boxed().shared()
    }

    fn key(&self, token: &[u8], audiences: &[String]) -> Key {
        let mut digest = Sha256::new();
        digest.update(self.salt);
        let audiences = audiences.iter().map(String::as_bytes);
        for part in std::iter::once(token).chain(audiences) {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

enum Joined {
    Kept(Authenticated),
    /// A look-up, and its label in the metric of active ones.
    Waits(Shared<Looking>, &'static str),
}

/// Asks the members in their order. Returns also whether the member keeps its users.
async fn asked(
    members: &[Arc<dyn TokenLookup>],
    token: &[u8],
    audiences: &[String],
) -> Result<Option<(Authenticated, bool)>, Unauthorized> {
    let mut refusals = Vec::new();
    for member in members {
        match member.look_up(token, audiences).await {
            Ok(Some(known)) => return Ok(Some((known, member.keeps()))),
            Ok(None) => {}
            Err(refused) => refusals.push(refused),
        }
    }
    Unauthorized::all(refusals).map_or(Ok(None), Err)
}

/// A request that waits for a look-up.
struct Active(&'static str);

impl Active {
    fn new(status: &'static str) -> Active {
        gauge!(ACTIVE, "status" => status).increment(1.0);
        Active(status)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        gauge!(ACTIVE, "status" => self.0).decrement(1.0);
    }
}

fn describe() {
    metrics::describe_counter!(
        REQUESTS,
        "Tokens that had to be looked up, by whether the answer was kept"
    );
    metrics::describe_histogram!(
        REQUEST_SECONDS,
        metrics::Unit::Seconds,
        "Time until the user of a token was known"
    );
    metrics::describe_counter!(FETCHES, "Look-ups of tokens, by result");
    metrics::describe_gauge!(
        ACTIVE,
        "Requests that look up a token, or wait for the look-up of another one"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::api::user_info::UserInfo;

    /// Knows tokens that begin with its name, refuses those that begin with an exclamation mark.
    struct Slow {
        name: &'static str,
        asked: AtomicUsize,
        may_answer: Semaphore,
        keeps: bool,
    }

    impl Slow {
        fn new(name: &'static str, answers: usize, keeps: bool) -> Arc<Slow> {
            Arc::new(Slow {
                name,
                asked: AtomicUsize::new(0),
                may_answer: Semaphore::new(answers),
                keeps,
            })
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    impl TokenLookup for Slow {
        fn look_up<'a>(&'a self, token: &'a [u8], audiences: &'a [String]) -> BoxFuture<'a, Found> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let found = async move {
                self.may_answer.acquire().await.unwrap().forget();
                let token = std::str::from_utf8(token).unwrap();
                if token.starts_with('!') {
                    return Err(Unauthorized::Token(format!("{} refuses", self.name)));
                }
                Ok(token.starts_with(self.name).then(|| Authenticated {
                    user: Arc::new(UserInfo::authenticated(self.name, audiences.to_vec())),
                    ..Authenticated::default()
                }))
            };
            found.boxed()
        }

        fn keeps(&self) -> bool {
            self.keeps
        }
    }

    const MANY: usize = 1000;

    #[tokio::test(start_paused = true)]
    async fn accepted_tokens_are_kept_for_ten_seconds_and_refused_ones_are_not_ac_5() {
        let slow = Slow::new("a", MANY, true);
        let look_ups = TokenLookups::new(vec![slow.clone()]);
        let name = async |token: &str| {
            let found = look_ups.look_up(token.as_bytes(), &[]).await;
            found.map(|found| found.map(|known| known.user.name.clone()))
        };
        let known = Ok(Some("a".to_owned()));
        assert!(look_ups.kept(b"a1", &[]).is_none());
        assert_eq!(name("a1").await, known);
        assert!(look_ups.kept(b"a1", &[]).is_some());
        tokio::time::advance(Duration::from_millis(9_990)).await;
        assert_eq!((name("a1").await, slow.asked()), (known.clone(), 1));
        tokio::time::advance(Duration::from_millis(20)).await;
        assert_eq!((name("a1").await, slow.asked()), (known, 2));
        for token in ["b", "!"] {
            let before = slow.asked();
            for _ in 0..3 {
                assert_ne!(name(token).await, Ok(Some("a".to_owned())));
            }
            assert_eq!(slow.asked() - before, 3, "{token}");
        }
        // The audiences are part of the key.
        let before = slow.asked();
        look_ups.look_up(b"a1", &["x".to_owned()]).await.unwrap();
        assert_eq!(slow.asked() - before, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_that_are_cheap_to_look_up_are_not_kept() {
        let slow = Slow::new("a", MANY, false);
        let look_ups = TokenLookups::new(vec![slow.clone()]);
        for _ in 0..3 {
            assert!(look_ups.look_up(b"a1", &[]).await.unwrap().is_some());
        }
        assert_eq!(slow.asked(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_with_one_token_share_its_look_up_even_if_the_first_ends_ac_5() {
        let slow = Slow::new("a", 0, true);
        let look_ups = TokenLookups::new(vec![slow.clone()]);
        let mut first = Box::pin(look_ups.look_up(b"a1", &[]));
        let (mut second, mut third) = (
            Box::pin(look_ups.look_up(b"a1", &[])),
            Box::pin(look_ups.look_up(b"a1", &[])),
        );
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(first);
        slow.may_answer.add_permits(1);
        assert!(second.await.unwrap().is_some());
        assert!(third.await.unwrap().is_some());
        assert_eq!(slow.asked(), 1);
        // A look-up that nobody waits for any more leaves no trace.
        let mut alone = Box::pin(look_ups.look_up(b"a2", &[]));
        assert!(futures_util::poll!(&mut alone).is_pending());
        drop(alone);
        slow.may_answer.add_permits(1);
        assert!(look_ups.look_up(b"a2", &[]).await.unwrap().is_some());
        assert_eq!(slow.asked(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_takes_thirty_seconds_at_most_ac_5() {
        let slow = Slow::new("a", 0, true);
        let look_ups = TokenLookups::new(vec![slow.clone()]);
        let began = Instant::now();
        look_ups.look_up(b"a1", &[]).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_does_not_end_the_chain_and_all_count_if_nobody_knows_the_user_ac_2() {
        let (one, other) = (Slow::new("a", MANY, true), Slow::new("!b", MANY, true));
        let look_ups = TokenLookups::new(vec![one.clone(), other.clone()]);
        let refused = look_ups.look_up(b"!x", &[]).await.unwrap_err();
        assert_eq!(refused.reasons(), ["a refuses", "!b refuses"]);
        assert!(look_ups.look_up(b"x", &[]).await.unwrap().is_none());
        let found = look_ups.look_up(b"a", &[]).await.unwrap().unwrap();
        assert_eq!((found.user.name.as_str(), other.asked()), ("a", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_kept_tokens_is_bounded() {
        let slow = Slow::new("a", 3 * KEPT_MAX, true);
        let look_ups = TokenLookups::new(vec![slow.clone()]);
        for number in 0..3 * KEPT_MAX {
            let token = format!("a{number}");
            look_ups.look_up(token.as_bytes(), &[]).await.unwrap();
        }
        let state = look_ups.state.lock();
        assert!(state.young.len() + state.old.len() <= 2 * KEPT_MAX);
        assert!(state.running.is_empty());
    }
}
