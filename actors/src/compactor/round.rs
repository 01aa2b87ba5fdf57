//! One round of forgetting.

use std::sync::Arc;
use std::time::SystemTime;

use super::handle::CompactReport;
use crate::engine::{Engine, EngineError, Retention};

/// Moves the horizon, removes what lies behind it in small steps and, with `reclaim`, gives the
/// space back. Between steps the engine serves clients.
pub(super) async fn round(
    engine: Arc<dyn Engine>,
    retention: Retention,
    now: SystemTime,
    reclaim: bool,
) -> Result<CompactReport, EngineError> {
    let horizon = engine.horizon(retention, now).await?;
    if horizon > engine.compacted() {
        engine.compact(horizon).await?;
    }
    let mut report = CompactReport {
        compacted: engine.compacted(),
        ..CompactReport::default()
    };
    // First everything that can be removed, then the space of it all at once.
    let phases = [false, true];
    for reclaim in phases.into_iter().take(1 + usize::from(reclaim)) {
        loop {
            let step = engine.maintain(reclaim).await?;
            report.removed += step.removed;
            report.reclaimed_bytes += step.reclaimed_bytes;
            if !step.more {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(report)
}
