//! Compaction of a store that no daemon has open.

use std::sync::Arc;
use std::time::SystemTime;

use actors::engine::{Engine, Retention};

use super::Report;
use crate::config::Config;

pub(super) async fn compact(engine: Arc<dyn Engine>, config: &Config) -> Result<Report, String> {
    let retention = Retention {
        age: config.retention_age.0,
        bytes: config.retention_bytes.0,
    };
    let report = forget(engine.as_ref(), retention).await;
    // After an error too, because closing releases the lock properly.
    engine.close().await;
    report.map_err(|error| error.to_string())
}

async fn forget(
    engine: &dyn Engine,
    retention: Retention,
) -> Result<Report, actors::engine::EngineError> {
    let horizon = engine.horizon(retention, SystemTime::now()).await?;
    if horizon > engine.compacted() {
        engine.compact(horizon).await?;
    }
    let mut report = Report::default();
    loop {
        let step = engine.maintain(true).await?;
        report.removed_records += step.removed;
        report.reclaimed_bytes += step.reclaimed_bytes;
        if !step.more {
            report.compacted_revision = engine.compacted().0;
            return Ok(report);
        }
    }
}
