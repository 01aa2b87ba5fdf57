//! Random schedules, compared with a plain event log. Every stream has the events of the log from
//! its start on, once and in order, over all watches that its client resumes it with, in spite of
//! any change of the ring, the cache and the clients. No bookmark covers an event that was not
//! sent, and no stream ends without a reason.
//!
//! The Cacher has a thread of its own. Therefore it also acts at any point where a Dispatcher uses
//! what they share ([`Interleaving`]).
//!
//! A schedule is computed from its seed. A failure prints the seed, `TAFFRAIL_SEED` runs it again,
//! and `TAFFRAIL_SCHEDULES` is the number of schedules.

mod background;
mod client;

use std::rc::Rc;
use std::task::Waker;

use self::background::{Background, RandomNumbers};
use self::client::{Client, Start};
use super::*;
use crate::engine::{DataEngine, Prefix};
use crate::testing::{ColorField, Interleaving, LinesWithHeader, YIELDS_MAX, interest, key};

const SCHEDULES: u64 = 3_000;
const STEPS: usize = 120;
const COLORS: [&str; 3] = ["red", "blue", "green"];
/// More polls than all clients of a schedule need to receive everything.
const POLLS_MAX: usize = 50_000;
const CLIENTS_MAX: usize = 12;

/// A thread: its ThreadDispatcher, without the actor, and the list of its one connection.
#[derive(Clone)]
struct Thread {
    thread_dispatcher: Rc<ThreadDispatcher>,
    list: Rc<ReadyList>,
}

impl Thread {
    fn new(config: DispatcherConfig) -> Thread {
        Thread {
            thread_dispatcher: Rc::new(ThreadDispatcher::new(config)),
            list: ReadyList::new(Waker::noop().clone()),
        }
    }
}

/// The clients of a schedule, the threads that serve them, and the background below.
struct Simulation {
    random: RandomNumbers,
    background: Rc<Background>,
    config: DispatcherConfig,
    threads: Vec<Thread>,
    opened: u32,
    clients: Vec<Client>,
    _interleaving: Interleaving,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let random = RandomNumbers::new(seed);
        // From a few events to more than a schedule writes.
        let ring_bytes = [1_500, 6_000, 1 << 20][random.below(3)];
        let config = DispatcherConfig {
            history: HistoryPool::new(1 + random.below(2)),
            history_chunk_bytes: 1 + random.below(100),
            ..DispatcherConfig::default()
        };
        let threads = 0..=random.below(2);
        let background = Rc::new(Background::new(ring_bytes, &random));
        let acting = Rc::clone(&background);
        Simulation {
            // There are no Dispatchers. The schedule takes hints and lets time pass.
            threads: threads.map(|_| Thread::new(config.clone())).collect(),
            config,
            opened: 0,
            clients: Vec::new(),
            _interleaving: Interleaving::with(move || acting.interrupt()),
            background,
            random,
        }
    }

    async fn step(&mut self) {
        match self.random.below(100) {
            0..30 => self.background.write(),
            30..38 => self.background.publish(),
            38..52 => self.some_thread().thread_dispatcher.read_due_rings(),
            52..62 => self.watch(),
            62..80 => self.listen().await,
            80..83 => self.leave(),
            83..87 => self.resume(),
            87..90 => self.some_thread().thread_dispatcher.age_logs(),
            90..94 => self.pass().await,
            94 => self.end_all(),
            95..97 => self.background.compact(),
            97 => self.background.restart(),
            98 => self.background.break_or_mend(),
            _ => self.drain().await,
        }
    }

    fn some_thread(&self) -> Thread {
        self.threads[self.random.below(self.threads.len())].clone()
    }

    fn some_client(&mut self) -> Option<&mut Client> {
        let count = self.clients.len();
        (count > 0).then(|| &mut self.clients[self.random.below(count)])
    }

    fn watch(&mut self) {
        if self.clients.len() > CLIENTS_MAX || !self.background.is_ready() {
            return;
        }
        let interest = self.some_interest();
        let newest = self.background.fake.engine.revision();
        let snapshot = (self.random.below(3) == 0).then(|| self.background.fake.cacher.snapshot());
        // A snapshot with unreadable values in the scope is refused to clients.
        let snapshot = snapshot.flatten().filter(|snapshot| {
            let mut unreadable = snapshot.unreadable.keys();
            !unreadable.any(|key| interest.scope.covers(key.as_bytes()))
        });
        let start = match snapshot {
            Some(snapshot) => {
                let known = self.background.fake.engine.known(&crate::testing::prefix());
                // As a streamed list does: the newest revision that the snapshot shows.
                let end = match known.prefix_revision <= snapshot.revision {
                    true => snapshot.revision.max(known.revision),
                    false => snapshot.revision,
                };
                let end_bookmark = (self.random.below(2) == 0).then_some(end);
                Start::Initial(snapshot, end_bookmark)
            }
            None => {
                // Also a few revisions that have not happened yet.
                let after = Revision(self.random.below(newest.0 as usize + 4) as u64);
                Start::After(after.max(self.background.compacted()))
            }
        };
        let wants_bookmarks = self.random.below(3) > 0;
        self.opened += 1;
        let is_listed = self.random.below(2) == 0;
        let number = if is_listed { self.opened } else { 0 };
        let mut client = Client::new(start, interest, wants_bookmarks, number);
        let seconds = [3, 30, 100, 3_600][self.random.below(4)];
        client.open(&self.some_thread(), &self.background, seconds);
        self.clients.push(client);
    }

    fn some_interest(&self) -> WatchInterest {
        let scope = match self.random.below(4) {
            0 => Scope::Namespace(Prefix::new("/registry/things/ns/")),
            1 => Scope::Object(key("other/a")),
            _ => Scope::All,
        };
        let interest = match self.random.below(3) {
            0 => interest(scope),
            1 => WatchInterest {
                predicate: Arc::new(ColorField::new(COLORS[self.random.below(2)])),
                ..interest(scope)
            },
            _ => selecting(scope, COLORS[self.random.below(2)]),
        };
        match self.random.below(3) {
            0 => WatchInterest {
                projection: Arc::new(LinesWithHeader),
                ..interest
            },
            _ => interest,
        }
    }

    /// Marks the clients that were woken.
    fn take_woken(&mut self) {
        let mut woken = Vec::new();
        for thread in &self.threads {
            thread.list.take(&mut woken);
        }
        for client in &mut self.clients {
            client.has_turn |= woken.contains(&client.number);
            client.receive();
        }
    }

    /// One client that was woken takes some frames, or all. Sometimes it polls without a wake, as a
    /// client does that was woken for something else.
    async fn listen(&mut self) {
        self.take_woken();
        let (frames, asks) = (self.random.below(8), self.random.below(4) == 0);
        let background = Rc::clone(&self.background);
        let Some(client) = self.some_client() else {
            return;
        };
        if client.has_turn || asks {
            let frames = if frames == 0 { usize::MAX } else { frames };
            client.poll(frames, &background);
        }
        if frames == 0 {
            // Sometimes the background is quiet: then polling must come to an end.
            self.background.set_quiet(self.random.below(2) == 0);
            self.listen_all().await;
            self.background.set_quiet(false);
        }
    }

    /// Each woken client takes all its frames, until no client is woken any more.
    async fn listen_all(&mut self) {
        let background = Rc::clone(&self.background);
        let (mut turns, mut polls) = (0, 0);
        while turns < YIELDS_MAX {
            polls += 1;
            assert!(polls < POLLS_MAX, "a client is woken again and again");
            self.take_woken();
            let mut waiting = self.clients.iter_mut().filter(|client| client.has_turn);
            match waiting.next() {
                Some(client) => {
                    client.poll(usize::MAX, &background);
                    turns = 0;
                }
                None => turns += 1,
            }
            tokio::task::yield_now().await;
        }
    }

    /// A client leaves, for good or to resume later.
    fn leave(&mut self) {
        let is_for_good = self.random.below(3) == 0;
        if let Some(client) = self.some_client() {
            client.watcher = None;
            client.has_turn = false;
            if is_for_good {
                client.is_over = true;
            }
        }
        self.forget_finished();
    }

    /// A client whose stream has ended resumes where it was, maybe on another thread.
    fn resume(&mut self) {
        if !self.background.is_ready() {
            return;
        }
        let (thread, background) = (self.some_thread(), Rc::clone(&self.background));
        let seconds = [3, 100][self.random.below(2)];
        if let Some(client) = self.some_client()
            && client.watcher.is_none()
        {
            client.resume(&thread, &background, seconds);
        }
        self.forget_finished();
    }

    /// A Dispatcher ends, and its streams with it.
    fn end_all(&mut self) {
        let thread = self.some_thread();
        thread.thread_dispatcher.close_all();
        for client in &mut self.clients {
            client.is_ended_by_thread |= client.is_of(&thread);
        }
    }

    /// A thread ends its streams politely, as when the daemon stops. Another one takes its place.
    async fn drain(&mut self) {
        let drained = self.some_thread();
        drained.thread_dispatcher.drain();
        for thread in &mut self.threads {
            if Rc::ptr_eq(&thread.thread_dispatcher, &drained.thread_dispatcher) {
                let config = self.config.clone();
                thread.thread_dispatcher = Rc::new(ThreadDispatcher::new(config));
            }
        }
        for client in &mut self.clients {
            client.is_ended_by_thread |= client.is_of(&drained);
        }
        tokio::task::yield_now().await;
    }

    fn forget_finished(&mut self) {
        let log = self.background.log();
        self.clients.retain(|client| {
            if client.is_over {
                client.check(&log, false);
            }
            !client.is_over
        });
    }

    /// Time passes. Not every thread gets its tick.
    async fn pass(&mut self) {
        let millis = [250, 1_300, 2_000, 61_000][self.random.below(4)];
        tokio::time::advance(Duration::from_millis(millis)).await;
        for thread in &self.threads {
            if self.random.below(2) == 0 {
                thread.thread_dispatcher.tick(Instant::now());
            }
        }
    }

    /// Each client receives everything, half of the time after a restart of the daemon.
    async fn finish(mut self) {
        let background = Rc::clone(&self.background);
        background.settle();
        // Reads of history that failed are repeated after this time.
        tokio::time::advance(Duration::from_secs(1)).await;
        for thread in &self.threads {
            thread.thread_dispatcher.read_due_rings();
        }
        let drains = self.random.below(2) == 0;
        if drains {
            self.threads
                .iter()
                .for_each(|thread| thread.thread_dispatcher.drain());
        }
        for client in &mut self.clients {
            client.is_ended_by_thread |= drains;
        }
        self.listen_all().await;
        self.threads = vec![Thread::new(DispatcherConfig::default())];
        for client in &mut self.clients {
            if client.watcher.is_none() {
                client.resume(&self.threads[0], &background, 3_600);
            } else {
                assert!(!drains, "a drain ends all");
            }
        }
        self.listen_all().await;
        let log = background.log();
        for client in &self.clients {
            client.check(&log, !client.is_over);
        }
    }
}

async fn run_schedule(seed: u64) {
    let mut simulation = Simulation::new(seed);
    for _ in 0..STEPS {
        simulation.step().await;
    }
    simulation.finish().await;
}

#[test]
fn every_stream_is_the_log_s_from_its_start_on_once_and_in_order_wa_25_ts_82_ts_83() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("TAFFRAIL_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("TAFFRAIL_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, run_schedule(seed));
        });
        assert!(outcome.is_ok(), "run again with TAFFRAIL_SEED={seed}");
    }
}
