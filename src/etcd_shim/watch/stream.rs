//! One stream: its watches, and the requests about them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{DataEngine, Feed, Prefix, Revision};
use etcd_client::proto::{PbWatchRequest, PbWatchResponse};
use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tonic::Streaming;

use super::follower::{Begun, Follower, Queue};
use super::request::{self, Wanted, WatchRequest};
use crate::etcd_shim::store::{Count, Counted, Store, number};

/// The number of answers that are about no watch.
const NO_WATCH: i64 = -1;

/// A stream of watches.
pub(super) struct WatchStream {
    store: Arc<Store>,
    queue: Queue,
    interval: Duration,
    watches: HashMap<i64, Running>,
    tasks: JoinSet<i64>,
    next: i64,
    /// A report of progress that waits for the watches.
    progress: Option<BoxFuture<'static, ()>>,
    /// Whether another report was asked for since that one began.
    progress_again: bool,
    _counted: Counted,
    count: Count,
}

/// A watch that runs.
struct Running {
    task: AbortHandle,
    reached: watch::Receiver<Revision>,
    directory: Prefix,
}

/// The client has gone away.
struct Gone;

impl WatchStream {
    /// A stream without watches.
    pub(super) fn new(
        store: Arc<Store>,
        queue: Queue,
        interval: Duration,
        counts: (Counted, Count),
    ) -> WatchStream {
        WatchStream {
            store,
            queue,
            interval,
            watches: HashMap::new(),
            tasks: JoinSet::new(),
            next: 0,
            progress: None,
            progress_again: false,
            _counted: counts.0,
            count: counts.1,
        }
    }

    /// Serves until the client goes away. Its watches end with it.
    pub(super) async fn run(mut self, mut requests: Streaming<PbWatchRequest>) {
        let queue = self.queue.clone();
        loop {
            let progress = OptionFuture::from(self.progress.as_mut());
            let outcome = tokio::select! {
                () = queue.closed() => Err(Gone),
                request = requests.message() => match request {
                    Ok(Some(request)) => self.carry_out(request::read(request)).await,
                    Ok(None) | Err(_) => Err(Gone),
                },
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Ok(id) = ended {
                        self.watches.remove(&id);
                    }
                    Ok(())
                }
                Some(()) = progress => {
                    self.progress = None;
                    if std::mem::take(&mut self.progress_again) {
                        self.report_progress();
                    }
                    Ok(())
                }
            };
            if outcome.is_err() {
                return;
            }
        }
    }

    async fn carry_out(&mut self, request: WatchRequest) -> Result<(), Gone> {
        match request {
            WatchRequest::Create(id, wanted) => self.create(id, wanted).await,
            WatchRequest::Refuse(why) => self.refuse(why).await,
            WatchRequest::Cancel(id) => self.cancel(id).await,
            WatchRequest::Progress => {
                match self.progress {
                    Some(_) => self.progress_again = true,
                    None => self.report_progress(),
                }
                Ok(())
            }
            WatchRequest::Nothing => Ok(()),
        }
    }

    async fn create(&mut self, id: i64, wanted: Wanted) -> Result<(), Gone> {
        if id != 0 && self.watches.contains_key(&id) {
            let why = "mvcc: duplicate watch ID provided on the WatchStream";
            return self.refuse(why).await;
        }
        let id = match id {
            0 => self.free_number(),
            id => id,
        };
        // A report that waits knows nothing of this watch. A client that got it after the watch
        // would take it for that of the watch, too.
        let report_again = self.progress.take().is_some() || self.progress_again;
        // From here on the engine follows the position of the directory.
        let directory = wanted.range.directory();
        let position = match self.store.engine.current(&directory).await {
            Ok(position) => position.revision,
            Err(_) => return Err(Gone),
        };
        let after = match wanted.start {
            Some(start) => Revision(start.0.saturating_sub(1)).min(position),
            None => position,
        };
        let (begun, from) = self.begin(&wanted, after).await;
        let created = PbWatchResponse {
            header: self.store.header(position),
            watch_id: id,
            created: true,
            ..PbWatchResponse::default()
        };
        self.send(created).await?;
        let (reached, receiver) = watch::channel(from);
        let follower = Follower {
            store: Arc::clone(&self.store),
            queue: self.queue.clone(),
            id,
            wanted,
            reached,
            interval: self.interval,
            _counted: self.count.one(),
        };
        let task = self.tasks.spawn(follower.run(begun));
        let running = Running {
            task,
            reached: receiver,
            directory,
        };
        self.watches.insert(id, running);
        self.progress_again = false;
        if report_again {
            self.report_progress();
        }
        Ok(())
    }

    /// Opens the feed of a watch. Also returns the revision that it begins after.
    async fn begin(&mut self, wanted: &Wanted, after: Revision) -> (Begun, Revision) {
        let compacted = self.store.engine.compacted();
        let prefix = wanted.range.directory();
        // The newest compacted revision itself can still be watched from, as in etcd. The event of
        // it is not in the log any more.
        let is_edge = after.next() == compacted && compacted > Revision::ZERO;
        let from = if is_edge { compacted } else { after };
        let feed: Result<Box<dyn Feed>, _> = self.store.engine.feed(prefix, from).await;
        let begun = match feed {
            Ok(feed) => Begun::Follows {
                feed,
                first: is_edge.then_some(compacted),
            },
            Err(error) => Begun::Refused(error),
        };
        (begun, from)
    }

    fn free_number(&mut self) -> i64 {
        while self.watches.contains_key(&self.next) {
            self.next += 1;
        }
        let free = self.next;
        self.next += 1;
        free
    }

    async fn cancel(&mut self, id: i64) -> Result<(), Gone> {
        let Some(running) = self.watches.remove(&id) else {
            return Ok(());
        };
        running.task.abort();
        let canceled = PbWatchResponse {
            header: self.store.header(self.known()),
            watch_id: id,
            canceled: true,
            ..PbWatchResponse::default()
        };
        self.send(canceled).await
    }

    async fn refuse(&mut self, why: &str) -> Result<(), Gone> {
        let refusal = PbWatchResponse {
            header: self.store.header(self.known()),
            watch_id: NO_WATCH,
            created: true,
            canceled: true,
            cancel_reason: why.to_owned(),
            ..PbWatchResponse::default()
        };
        self.send(refusal).await
    }

    fn known(&self) -> Revision {
        self.store.engine.known(&Prefix::new([])).revision
    }

    async fn send(&mut self, response: PbWatchResponse) -> Result<(), Gone> {
        self.queue.send(Ok(response)).await.map_err(|_| Gone)
    }

    /// Begins a report: all watches must have delivered everything up to the revision of now. A
    /// watch has if it has delivered the last event of its directory.
    fn report_progress(&mut self) {
        let watches = self.watches.values();
        let watches: Vec<(Prefix, watch::Receiver<Revision>)> = watches
            .map(|running| (running.directory.clone(), running.reached.clone()))
            .collect();
        let (store, queue) = (Arc::clone(&self.store), self.queue.clone());
        let report = async move {
            let Ok(revision) = store.revision().await else {
                return;
            };
            for (directory, mut reached) in watches {
                let last = store.engine.known(&directory).prefix_revision;
                // A watch that has ended needs no progress.
                let _ = reached.wait_for(|reached| *reached >= last).await;
            }
            let progress = PbWatchResponse {
                header: store.header(revision),
                watch_id: NO_WATCH,
                ..PbWatchResponse::default()
            };
            debug_assert!(
                number(revision) > 0,
                "a client would not take it for progress"
            );
            // The place comes first, so that a report that is given up is not sent in part.
            if let Ok(place) = queue.reserve().await {
                place.send(Ok(progress));
            }
        };
        self.progress = Some(report.boxed());
    }
}
