//! Finds the revision of a backup to go back to. Pure.

use std::time::{Duration, SystemTime};

use actors::engine::Revision;

use super::document::Summary;
use crate::storage::embedded::record::{Record, RecordError};

/// The state of a backup to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The newest.
    Newest,
    /// The state at a revision.
    Revision(Revision),
    /// The state at a time, by the times that events have.
    Time(SystemTime),
}

/// The reason why a backup cannot be restored to a point.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PointError {
    /// A record is damaged. Its backup is damaged, or was made of a damaged store.
    #[error("its record {0} is damaged: {1}")]
    Damaged(Revision, RecordError),
    /// A record is missing or out of order.
    #[error("record {found} is in the place of record {expected}")]
    Order {
        /// The revision found.
        found: Revision,
        /// The revision that should be there.
        expected: Revision,
    },
    /// The backup's records do not match its summary.
    #[error("its history ends at revision {found} and should reach {expected}")]
    Short {
        /// The newest revision found.
        found: Revision,
        /// The newest revision that should be there.
        expected: Revision,
    },
    /// A revision outside of the backup.
    #[error("revision {wanted} is not in it: it holds revisions {oldest} to {newest}")]
    NoRevision {
        /// The requested revision.
        wanted: Revision,
        /// The oldest.
        oldest: Revision,
        /// The newest.
        newest: Revision,
    },
    /// A time before all history.
    #[error("that time is not in it: its history begins at {0}")]
    TooEarly(String),
    /// It holds a single state.
    #[error("it holds no history, only the state of revision {0}")]
    NoHistory(Revision),
}

/// The revisions and times that the records of a backup show.
#[derive(Debug)]
pub struct Points {
    compacted: Revision,
    newest: Revision,
    /// The newest event of history so far.
    reached: Revision,
    /// The time of the event at `compacted`, or of the first one of history.
    begin: Option<(Revision, SystemTime)>,
    /// The last event up to the requested time.
    found: Option<Revision>,
    wanted: Point,
}

impl Points {
    /// Looks for a point in a backup with this summary.
    ///
    /// # Errors
    /// [`PointError`] if the backup can't hold it.
    pub fn new(summary: &Summary, wanted: Point) -> Result<Points, PointError> {
        let (compacted, newest) = (Revision(summary.compacted), summary.revision());
        match wanted {
            Point::Revision(wanted) if wanted < compacted || wanted > newest => {
                return Err(PointError::NoRevision {
                    wanted,
                    oldest: compacted,
                    newest,
                });
            }
            Point::Time(_) if compacted == newest => return Err(PointError::NoHistory(newest)),
            _ => {}
        }
        Ok(Points {
            compacted,
            newest,
            reached: compacted,
            begin: None,
            found: None,
            wanted,
        })
    }

    /// Looks at a record.
    ///
    /// # Errors
    /// [`PointError::Damaged`] and [`PointError::Order`]
    pub fn see(&mut self, revision: Revision, record: &[u8]) -> Result<(), PointError> {
        let decoded = Record::decode(revision, record)
            .map_err(|error| PointError::Damaged(revision, error))?;
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(decoded.time_nanos());
        if revision == self.compacted {
            self.begin = Some((revision, time));
        }
        if revision <= self.compacted {
            return Ok(());
        }
        let expected = self.reached.next();
        if revision != expected || revision > self.newest {
            return Err(PointError::Order {
                found: revision,
                expected,
            });
        }
        self.reached = revision;
        self.begin.get_or_insert((revision, time));
        if matches!(self.wanted, Point::Time(wanted) if time <= wanted) {
            self.found = Some(revision);
        }
        Ok(())
    }

    /// The revision of the point, after all records were seen.
    ///
    /// # Errors
    /// [`PointError`]
    pub fn finish(self) -> Result<Revision, PointError> {
        if self.reached != self.newest {
            return Err(PointError::Short {
                found: self.reached,
                expected: self.newest,
            });
        }
        match self.wanted {
            Point::Newest => Ok(self.newest),
            Point::Revision(revision) => Ok(revision),
            Point::Time(wanted) => match (self.found, self.begin) {
                (Some(found), _) => Ok(found),
                (None, Some((revision, time))) if revision == self.compacted && time <= wanted => {
                    Ok(revision)
                }
                (None, Some((_, time))) => Err(PointError::TooEarly(text(time))),
                (None, None) => Err(PointError::NoHistory(self.newest)),
            },
        }
    }
}

/// A time in text, for messages.
fn text(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| format!("{time:?}"), |time| time.to_string())
}
