//! The process that holds a data directory.

use std::fmt;

use crate::clock;

/// The process that holds a directory, as recorded in the lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process ID.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
    /// Since when it holds the directory, RFC 3339.
    pub since: String,
}

impl Holder {
    pub(super) fn this_process() -> Holder {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Holder {
            pid: std::process::id(),
            host: host.trim().to_owned(),
            since: clock::of_machine().strftime("%FT%TZ").to_string(),
        }
    }

    pub(super) fn to_text(&self) -> String {
        format!(
            "pid {}\nhost {}\nsince {}\n",
            self.pid, self.host, self.since
        )
    }

    /// Parses the text of [`Holder::to_text`]. Missing parts stay empty.
    pub(super) fn parse(text: &str) -> Holder {
        let mut holder = Holder::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("pid", pid)) => holder.pid = pid.parse().unwrap_or_default(),
                Some(("host", host)) => holder.host = host.to_owned(),
                Some(("since", since)) => holder.since = since.to_owned(),
                _ => {}
            }
        }
        holder
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return write!(f, "another process");
        }
        let or_unknown = |text: &str| if text.is_empty() { "unknown" } else { text }.to_owned();
        write!(
            f,
            "process {} on host {} since {}",
            self.pid,
            or_unknown(&self.host),
            or_unknown(&self.since)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_reads_back_as_written_and_rubbish_reads_as_nobody() {
        let holder = Holder {
            pid: 7,
            host: "ship".to_owned(),
            since: "2026-01-02T03:04:05Z".to_owned(),
        };
        assert_eq!(Holder::parse(&holder.to_text()), holder);
        assert_eq!(Holder::parse("\0\0nonsense"), Holder::default());
        assert_eq!(Holder::default().to_string(), "another process");
    }
}
