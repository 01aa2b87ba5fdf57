//! The limit of open files, which also limits connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files reserved for everything that is not a connection: the store, epoll, the log.
const KEPT_FOR_OTHERS: u64 = 256;

/// The limit of open files of this process.
#[derive(Clone, Copy, Debug)]
pub struct OpenFileLimit {
    before: Rlimit,
    after: Rlimit,
}

/// Raises the soft limit of the process to the hard limit. Only a program that owns its process may
/// do that.
pub fn raise_open_file_limit() -> OpenFileLimit {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    if before.current != before.maximum
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!(%error, "cannot raise the soft limit of open files");
    }
    let after = getrlimit(Resource::Nofile);
    OpenFileLimit { before, after }
}

impl OpenFileLimit {
    /// Returns the current limit.
    pub fn current() -> OpenFileLimit {
        let limit = getrlimit(Resource::Nofile);
        OpenFileLimit {
            before: limit,
            after: limit,
        }
    }

    /// Returns how many connections the limit leaves room for.
    pub fn connections(&self) -> usize {
        let usable = self.after.current.unwrap_or(u64::MAX);
        usize::try_from(usable.saturating_sub(KEPT_FOR_OTHERS).max(1)).unwrap_or(usize::MAX)
    }

    /// Logs the limit before and after.
    pub fn log(&self) {
        tracing::info!(
            soft = describe(self.after.current),
            before = describe(self.before.current),
            hard = describe(self.after.maximum),
            "limit of open files"
        );
    }
}

fn describe(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        let room = raise_open_file_limit().connections();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert!(room > 0);
    }
}
