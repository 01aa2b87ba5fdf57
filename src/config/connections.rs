//! The maximum number of connections: a number, or automatic from the limits of the system.

use std::fmt;
use std::str::FromStr;

/// The automatic maximum, because each connection costs memory.
const AUTOMATIC_MAX: usize = 32_768;

/// A number of connections, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionLimit {
    /// As many as the limit of open files allows, up to 32768.
    Automatic,
    /// Exactly this number.
    Exactly(usize),
}

impl ConnectionLimit {
    /// The maximum, whatever the limit of open files.
    pub fn most(self) -> usize {
        match self {
            ConnectionLimit::Automatic => AUTOMATIC_MAX,
            ConnectionLimit::Exactly(count) => count,
        }
    }
}

impl FromStr for ConnectionLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<ConnectionLimit, String> {
        match text {
            "auto" => Ok(ConnectionLimit::Automatic),
            text => text
                .parse()
                .map(ConnectionLimit::Exactly)
                .map_err(|_| "not a number of connections, nor auto".to_owned()),
        }
    }
}

impl fmt::Display for ConnectionLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionLimit::Automatic => formatter.write_str("auto"),
            ConnectionLimit::Exactly(count) => write!(formatter, "{count}"),
        }
    }
}
