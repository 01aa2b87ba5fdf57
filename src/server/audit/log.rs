//! The thread that writes events.
//!
//! Requests do not wait for it. Events wait in a queue that is bounded in number and bytes. An
//! event that does not fit is dropped, counted, and reported in the daemon's log.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actors::threads;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::event::Event;
use crate::api::deep;
use crate::files::{RollingLimits, RollingLog};

/// The limit on queued events.
const EVENTS_MAX: usize = 10_000;

/// The limit on bytes that queued events hold.
const BYTES_MAX: usize = 32 << 20;

/// The approximate number of bytes per write.
const WRITE_BYTES: usize = 256 << 10;

/// The pause after the queue was emptied. Events that arrive during it wake no thread, and share
/// the next write.
const PAUSE: Duration = Duration::from_millis(10);

/// The minimum time between two lines in the daemon's log about lost events.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// Writes whole lines.
type Sink = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// The queue and its thread.
pub(super) struct EventLog {
    events: Mutex<Option<Sender<Event>>>,
    waiting: Arc<Waiting>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// Events that were dropped or could not be written.
    lost: AtomicU64,
}

impl EventLog {
    /// Opens the log and starts the thread. Events of more bytes lose their bodies.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub(super) fn open(
        path: &Path,
        limits: RollingLimits,
        event_bytes: usize,
    ) -> io::Result<EventLog> {
        let sink: Sink = if path.as_os_str() == "-" {
            Box::new(|lines| io::stdout().lock().write_all(lines))
        } else {
            let mut file = RollingLog::open(path, limits)?;
            Box::new(move |lines| file.append(lines))
        };
        EventLog::start(sink, event_bytes)
    }

    fn start(sink: Sink, event_bytes: usize) -> io::Result<EventLog> {
        let (sender, receiver) = bounded(EVENTS_MAX);
        let waiting = Arc::<Waiting>::default();
        let writer = Writer {
            sink,
            event_bytes,
            waiting: Arc::clone(&waiting),
            reported: None,
        };
        let thread = threads::spawn("audit", move || writer.run(&receiver))?;
        Ok(EventLog {
            events: Mutex::new(Some(sender)),
            waiting,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues an event, or drops it.
    pub(super) fn add(&self, event: Event) {
        let bytes = event.bytes();
        let before = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_queued = before + bytes <= BYTES_MAX
            && self
                .events
                .lock()
                .as_ref()
                .is_some_and(|events| events.try_send(event).is_ok());
        if !is_queued {
            self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.waiting.lose(1);
        }
    }

    /// Writes the queued events, and ends the thread.
    pub(super) fn close(&self) {
        drop(self.events.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            // The panic hook has logged a panic of that thread.
            let _ = thread.join();
        }
    }
}

impl Waiting {
    fn lose(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
        metrics::counter!("apiserver_audit_error_total", "plugin" => "log").increment(events);
    }
}

struct Writer {
    sink: Sink,
    event_bytes: usize,
    waiting: Arc<Waiting>,
    /// When lost events were last reported.
    reported: Option<Instant>,
}

impl Writer {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv_timeout(REPORT_PERIOD) {
                Ok(first) => {
                    self.write(first, events);
                    if events.is_empty() {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.report_lost(None);
        }
    }

    /// Writes an event, and further queued ones as far as they fit into one write.
    fn write(&mut self, first: Event, events: &Receiver<Event>) {
        let (mut lines, mut count) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(event) = next {
            // Bodies may nest deeply.
            let line = deep::retry_with_room(|| event.line_within(self.event_bytes));
            match line {
                Some(mut line) => {
                    lines.append(&mut line);
                    count += 1;
                }
                None => self.waiting.lose(1),
            }
            self.waiting
                .bytes
                .fetch_sub(event.bytes(), Ordering::Relaxed);
            next = match lines.len() < WRITE_BYTES {
                true => events.try_recv().ok(),
                false => None,
            };
        }
        if let Err(error) = (self.sink)(&lines) {
            self.waiting.lose(count);
            self.report_lost(Some(&error));
        }
    }

    fn report_lost(&mut self, error: Option<&io::Error>) {
        let is_due = self.reported.is_none_or(|at| at.elapsed() >= REPORT_PERIOD);
        if !is_due {
            return;
        }
        let lost = self.waiting.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.reported = Some(Instant::now());
            let error = error.map(tracing::field::display);
            tracing::error!(
                lost,
                error,
                "audit events were lost: the audit log cannot be written fast enough"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::event::tests::event_of;
    use super::*;

    #[test]
    fn nobody_waits_for_a_sink_that_is_stuck_and_what_is_lost_is_counted() {
        let (go_on, wait) = mpsc::channel::<()>();
        let (written, lines) = mpsc::channel();
        let log = EventLog::start(
            Box::new(move |text| {
                let _ = wait.recv();
                written.send(text.len()).map_err(io::Error::other)
            }),
            usize::MAX,
        );
        let log = log.unwrap();
        for _ in 0..2 * EVENTS_MAX {
            log.add(event_of("/api/v1/nodes/a"));
        }
        let lost = log.waiting.lost.load(Ordering::Relaxed);
        assert!(lost >= EVENTS_MAX as u64 / 2, "{lost}");
        assert!(log.waiting.bytes.load(Ordering::Relaxed) <= BYTES_MAX);
        drop(go_on);
        log.close();
        assert!(lines.iter().sum::<usize>() > 1_000_000);
        assert_eq!(log.waiting.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn events_that_can_not_be_written_are_lost_and_counted() {
        let log = EventLog::start(Box::new(|_| Err(io::Error::other("no space"))), usize::MAX);
        let log = log.unwrap();
        log.add(event_of("/api/v1/nodes/a"));
        let begun = Instant::now();
        while log.waiting.bytes.load(Ordering::Relaxed) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        log.close();
        // The log has reported the event, which resets the count.
        assert_eq!(log.waiting.lost.load(Ordering::Relaxed), 0);
        log.add(event_of("/too/late"));
        assert_eq!(log.waiting.lost.load(Ordering::Relaxed), 1);
    }
}
