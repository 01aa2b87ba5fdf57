//! The failures of the embedded engine, and the errors they become.

use std::any::Any;
use std::io;
use std::path::PathBuf;

use actors::engine::{EngineError, Revision};

use super::holder::Holder;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another engine has the directory.
    #[error("data directory {} is in use by {holder}: stop that daemon or choose another directory", path.display())]
    Held {
        /// The directory.
        path: PathBuf,
        /// The process that holds it.
        holder: Holder,
    },
    /// Other users may enter the directory, and it holds files that are not the daemon's.
    #[error(
        "data directory {} is open to others (mode {mode:o}) and holds {entry:?}, which no daemon \
         made: choose a directory of its own, or close this one with `chmod 700`",
        path.display()
    )]
    Shared {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// One of these files.
        entry: String,
    },
    /// The directory's file system has no locks.
    #[error(
        "data directory {} can't be used: its file system has no locks ({source}), so nothing would \
         keep a second daemon out; choose a directory on a local file system",
        path.display()
    )]
    NoLocks {
        /// The directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The directory can't be made, entered or locked.
    #[error("data directory {} can't be used: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory holds no store but must.
    #[error(
        "data directory {} holds no store: see that its volume is mounted, or restore `store` and \
         `events.redb` from a backup; a start without --require-existing-data makes an empty one",
        path.display()
    )]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// The file can't be read or written.
    #[error("{file} can't be opened: {source}")]
    Io {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The file holds something that the engine did not write.
    #[error("{file} is damaged: {what}; restore it from a backup")]
    Damaged {
        /// The file.
        file: String,
        /// The table and the record, and what is wrong.
        what: String,
    },
    /// Revisions are missing that were acknowledged, or may have been.
    #[error(
        "the store of {file} lacks {}: {what}; restore the directory from a backup, or start the \
         daemon once with `--accept-loss={from}` to go on without them",
        lost(*from, *up_to)
    )]
    Lost {
        /// The file.
        file: String,
        /// The file, and the fault in it.
        what: String,
        /// The first revision that is missing.
        from: Revision,
        /// The newest one that is known to be missing.
        up_to: Option<Revision>,
    },
    /// The file with the store's ID is damaged.
    #[error(
        "{file} is damaged: it holds {what} instead of a store's name; if {log} next to it is whole, \
         remove this file and start again, otherwise restore the directory from a backup"
    )]
    StoreId {
        /// The file.
        file: String,
        /// The log in the same directory.
        log: String,
        /// A description of the content found.
        what: String,
    },
    /// The file was written by a newer version.
    #[error("{file} has format {found}, this version reads up to {known}: use a newer version")]
    Newer {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// A thread could not be started.
    #[error("can't start a storage thread: {0}")]
    Thread(io::Error),
}

/// The revisions that are missing, in words.
fn lost(from: Revision, up_to: Option<Revision>) -> String {
    match up_to {
        Some(up_to) => format!("the revisions from {from} to {up_to}"),
        None => format!("the revisions from {from} on, if there were any"),
    }
}

/// A failure of the database.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Failure {
    /// The file system failed. Everything fails until the database is reopened.
    #[error("{0}")]
    Io(String),
    /// The file system is full.
    #[error("{0}")]
    NoSpace(String),
    /// A record or a page is damaged.
    #[error("{0}")]
    Corrupt(String),
    /// Revisions are missing that were acknowledged, or may have been.
    #[error("it lacks {}: {what}", lost(*from, *up_to))]
    Lost {
        /// The file, and the fault in it.
        what: String,
        /// The first revision that is missing.
        from: Revision,
        /// The newest one that is known to be missing.
        up_to: Option<Revision>,
    },
    /// The database was written by a newer version.
    #[error("format {found} is newer than {known}")]
    Newer {
        /// The format found.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// The database is closed or is being reopened.
    #[error("the database is closed")]
    Closed,
    /// The database panicked, which damaged pages may cause.
    #[error("the database panicked: {0}")]
    Panic(String),
}

impl Failure {
    /// The failure of a call that panicked.
    pub fn from_panic(panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Failure::Panic(text.unwrap_or_else(|| "no message".to_owned()))
    }

    /// Whether nothing works after a read failed like this. A panic means a page that redb cannot
    /// parse. Reopening would not repair the page, and the next read of it would stop all writes
    /// again. A poisoned lock is different: it stays poisoned until the database is reopened.
    pub fn breaks_database(&self) -> bool {
        match self {
            Failure::Panic(what) => what.contains("PoisonError"),
            other => other.needs_reopening(),
        }
    }

    /// Whether nothing works before the database is reopened.
    pub fn needs_reopening(&self) -> bool {
        !matches!(
            self,
            Failure::Corrupt(_) | Failure::Lost { .. } | Failure::Newer { .. }
        )
    }

    /// The error for the caller of a request that certainly did nothing.
    pub fn to_engine_error(&self, file: &str) -> EngineError {
        match self {
            Failure::Io(why) => EngineError::Unavailable(format!("{file}: {why}")),
            Failure::Panic(_) => EngineError::Corrupt(format!("{file}: {self}")),
            Failure::NoSpace(why) => EngineError::OutOfSpace(format!("{file}: {why}")),
            Failure::Corrupt(what) => EngineError::Corrupt(format!("{file}: {what}")),
            Failure::Lost { .. } | Failure::Newer { .. } => {
                EngineError::Corrupt(format!("{file}: {self}"))
            }
            Failure::Closed => EngineError::Unavailable(format!("{file} is being opened again")),
        }
    }

    /// The error for the caller of a commit that did nothing. A retry may succeed, because the
    /// database is reopened.
    pub fn to_undone_error(&self, file: &str) -> EngineError {
        match self.to_engine_error(file) {
            EngineError::OutOfSpace(why) => EngineError::OutOfSpace(why),
            other => EngineError::Unavailable(format!("nothing was written: {other}")),
        }
    }

    /// The error of opening this file.
    pub fn into_open_error(self, file: String) -> OpenError {
        match self {
            Failure::Io(why) | Failure::NoSpace(why) => OpenError::Io {
                file,
                source: io::Error::other(why),
            },
            Failure::Corrupt(what) => OpenError::Damaged { file, what },
            Failure::Panic(_) => OpenError::Damaged {
                file,
                what: self.to_string(),
            },
            Failure::Lost { what, from, up_to } => OpenError::Lost {
                file,
                what,
                from,
                up_to,
            },
            Failure::Newer { found, known } => OpenError::Newer { file, found, known },
            Failure::Closed => OpenError::Io {
                file,
                source: io::Error::other("closed"),
            },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::StorageFull {
            return Failure::NoSpace(error.to_string());
        }
        Failure::Io(error.to_string())
    }
}

impl From<redb::Error> for Failure {
    fn from(error: redb::Error) -> Failure {
        match error {
            // A page beyond the end of the file, or an invalid header.
            redb::Error::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
                ) =>
            {
                Failure::Corrupt(error.to_string())
            }
            redb::Error::Io(error) => Failure::from(error),
            redb::Error::PreviousIo | redb::Error::DatabaseClosed => Failure::Closed,
            redb::Error::Corrupted(what) => Failure::Corrupt(what),
            other => Failure::Corrupt(other.to_string()),
        }
    }
}

/// All errors of redb, by way of `redb::Error`.
macro_rules! from_redb {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::from(redb::Error::from(error))
            }
        })+
    };
}

from_redb!(
    redb::CommitError,
    redb::CursorError,
    redb::DatabaseError,
    redb::SetDurabilityError,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError
);

/// Why a read failed.
#[derive(Debug)]
pub enum ReadError {
    /// The request cannot be answered.
    Engine(EngineError),
    /// The database failed.
    Failure(Failure),
}

impl From<EngineError> for ReadError {
    fn from(error: EngineError) -> ReadError {
        ReadError::Engine(error)
    }
}

impl<E: Into<Failure>> From<E> for ReadError {
    fn from(error: E) -> ReadError {
        ReadError::Failure(error.into())
    }
}
