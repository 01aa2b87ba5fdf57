//! Whether a revision can be read: it has happened and is not compacted. Pure.

use crate::engine::{At, EngineError, Revision};

/// The revision that a read at `at` returns, in a store that is at `current` and is compacted up to
/// `compacted`.
///
/// # Errors
/// Those of [`check_future`] and [`check_after`].
pub fn resolve(at: At, current: Revision, compacted: Revision) -> Result<Revision, EngineError> {
    let At::Revision(revision) = at else {
        return Ok(current);
    };
    check_future(revision, current)?;
    check_after(revision, compacted)?;
    Ok(revision)
}

/// Refuses a revision that has not happened yet.
///
/// # Errors
/// [`EngineError::FutureRevision`].
pub fn check_future(requested: Revision, current: Revision) -> Result<(), EngineError> {
    if requested > current {
        return Err(EngineError::FutureRevision { requested, current });
    }
    Ok(())
}

/// Refuses a revision after which events may have been compacted.
///
/// # Errors
/// [`EngineError::Compacted`].
pub fn check_after(requested: Revision, compacted: Revision) -> Result<(), EngineError> {
    if requested < compacted {
        return Err(EngineError::Compacted {
            requested,
            compacted,
        });
    }
    Ok(())
}
