//! The writer of the log, which notices when nobody takes the lines.

use std::io::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a line may take until the log counts as blocked.
const PATIENCE: Duration = Duration::from_secs(10);

/// The log of the process.
pub(super) static LOG: LazyLock<LogProgress> = LazyLock::new(LogProgress::default);

/// The lines that are being written.
#[derive(Default)]
pub(super) struct LogProgress(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    lines: usize,
    /// When the first of them began, or the last one before them ended.
    since: Option<Instant>,
}

/// Whether lines of the log are written.
///
/// # Errors
/// A line waits for ten seconds: nobody reads the pipe that stderr is, or its disk hangs. A line
/// that was refused, such as by a full disk, is lost, and holds nothing up.
pub fn log_health() -> Result<(), String> {
    LOG.health(Instant::now())
}

impl LogProgress {
    fn health(&self, now: Instant) -> Result<(), String> {
        let waiting = self.0.lock();
        let since = waiting.since.filter(|_| waiting.lines > 0);
        let waits = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if waits < PATIENCE {
            return Ok(());
        }
        Err(format!(
            "logging blocked: nothing has taken a line from stderr for {} s",
            waits.as_secs()
        ))
    }

    /// Returns a writer to this one.
    pub(super) fn writer<W: Write>(&self, inner: W) -> LogWriter<'_, W> {
        LogWriter {
            progress: self,
            inner,
        }
    }

    fn begin(&self, now: Instant) {
        let mut waiting = self.0.lock();
        if waiting.lines == 0 {
            waiting.since = Some(now);
        }
        waiting.lines += 1;
    }

    fn end(&self, now: Instant) {
        let mut waiting = self.0.lock();
        waiting.lines = waiting.lines.saturating_sub(1);
        waiting.since = Some(now);
    }
}

/// Writes lines of the log.
pub(super) struct LogWriter<'p, W> {
    progress: &'p LogProgress,
    inner: W,
}

impl<W: Write> Write for LogWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.progress.begin(Instant::now());
        let written = self.inner.write(bytes);
        self.progress.end(Instant::now());
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::PipeWriter;
    use std::thread;

    use super::*;

    fn write_line(progress: &LogProgress, pipe: &PipeWriter) {
        let mut writer = progress.writer(pipe);
        writer.write_all(&[b'x'; 1 << 20]).unwrap();
    }

    #[test]
    fn a_log_that_nobody_reads_is_blocked_until_somebody_does_api_51() {
        let progress = LogProgress::default();
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let later = || Instant::now() + PATIENCE;
        assert_eq!(progress.health(later()), Ok(()));
        thread::scope(|scope| {
            scope.spawn(|| write_line(&progress, &pipe));
            // A full pipe takes no more bytes, so the line stays.
            while progress.0.lock().lines == 0 {
                thread::yield_now();
            }
            assert_eq!(progress.health(Instant::now()), Ok(()));
            let blocked = progress.health(later() + PATIENCE).unwrap_err();
            assert!(blocked.starts_with("logging blocked: "), "{blocked}");
            let mut bytes = vec![0; 1 << 20];
            std::io::Read::read_exact(&mut reader, &mut bytes).unwrap();
        });
        assert_eq!(progress.health(later() + PATIENCE), Ok(()));
    }

    #[test]
    fn a_line_that_is_refused_holds_nothing_up() {
        let progress = LogProgress::default();
        let (reader, pipe) = std::io::pipe().unwrap();
        drop(reader);
        let refused = progress.writer(pipe).write(b"line");
        assert!(refused.is_err());
        assert_eq!(progress.health(Instant::now() + PATIENCE), Ok(()));
    }
}
