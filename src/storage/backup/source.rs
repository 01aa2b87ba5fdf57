//! Turns a store into the stream of a backup.
//!
//! Encoding and the checksum take a few milliseconds for each piece. They are done on a thread of
//! their own, so that the caller's thread only passes pieces on.

use std::sync::Arc;

use actors::engine::{EngineError, ExportItem, MaintenanceEngine};
use actors::tasks;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::FORMAT;
use super::document::Header;
use super::encoder::Encoder;
use crate::clock;

/// The bytes of a frame and a record that the store's count of retained bytes lacks.
const OVERHEAD_BYTES: u64 = 13;
/// The most pieces that wait for the reader of the stream.
const PIECES_MAX: usize = 2;
/// The most concurrent backups. Each takes some megabytes and a thread.
const BACKUPS_MAX: usize = 2;

/// A store to back up.
#[derive(Clone)]
pub struct BackupSource {
    engine: Arc<dyn MaintenanceEngine>,
    prefix: String,
    writer: String,
    permits: Arc<Semaphore>,
}

impl BackupSource {
    /// Creates a source from a store whose keys have this prefix. `writer` is the program that
    /// makes the backup, and its version.
    pub fn new(engine: Arc<dyn MaintenanceEngine>, prefix: String, writer: String) -> BackupSource {
        BackupSource {
            engine,
            prefix,
            writer,
            permits: Arc::new(Semaphore::new(BACKUPS_MAX)),
        }
    }

    /// Begins a backup. If the store cannot be read to its end, the last piece has the error.
    /// Returns `None` while too many backups run. Call it in a runtime.
    pub fn begin(&self) -> Option<mpsc::Receiver<Bytes>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let (pieces, received) = mpsc::channel(PIECES_MAX);
        let (engine, header) = (Arc::clone(&self.engine), self.header());
        let runtime = tokio::runtime::Handle::current();
        tasks::spawn_blocking(move || {
            runtime.block_on(write(&*engine, &header, &pieces, permit));
        });
        Some(received)
    }

    fn header(&self) -> Header {
        let stats = self.engine.stats();
        let estimated_bytes = match stats.retained_bytes {
            0 => 0,
            bytes => bytes + stats.live_keys * OVERHEAD_BYTES,
        };
        Header {
            format: FORMAT,
            written_by: self.writer.clone(),
            time: now(),
            prefix: self.prefix.clone(),
            estimated_bytes,
        }
    }
}

/// Writes a backup until the receiver is gone.
async fn write(
    engine: &dyn MaintenanceEngine,
    header: &Header,
    pieces: &mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let (mut encoder, beginning) = Encoder::begin(header);
    let mut export = engine.export();
    let mut piece = beginning;
    while pieces.send(piece).await.is_ok() {
        piece = match export.next().await {
            Ok(ExportItem::Events(events)) => match encoder.events(&events) {
                Ok(bytes) => bytes,
                Err(error) => return fail(pieces, &EngineError::Corrupt(error.to_string())).await,
            },
            Ok(ExportItem::End(end)) => {
                // The reader may have gone.
                let _ = pieces.send(encoder.end(&end)).await;
                break;
            }
            Err(error) => return fail(pieces, &error).await,
        };
    }
}

async fn fail(pieces: &mpsc::Sender<Bytes>, error: &EngineError) {
    tracing::warn!(%error, "a backup ended because the store could not be read");
    let _ = pieces.send(Encoder::failure(error.to_string())).await;
}

/// The time as RFC 3339, to the second.
fn now() -> String {
    clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
