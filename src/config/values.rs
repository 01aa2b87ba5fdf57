//! The values of settings. Each has one text form, which `FromStr` reads and `Display` writes.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

use crate::api::text::go_duration;

/// A number of bytes: `1GiB`, `64Mi`, `500MB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const BINARY_UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let factor: Option<u64> = match unit.trim() {
            "" | "B" => Some(1),
            "kB" | "KB" => Some(1_000),
            "MB" => Some(1_000_000),
            "GB" => Some(1_000_000_000),
            "TB" => Some(1_000_000_000_000),
            unit => BINARY_UNITS
                .iter()
                .find(|(name, _)| *name == unit || name.trim_end_matches('B') == unit)
                .map(|(_, factor)| *factor),
        };
        let bytes = number.parse::<u64>().ok().zip(factor);
        bytes
            .and_then(|(number, factor)| number.checked_mul(factor))
            .map(ByteSize)
            .ok_or_else(|| "not a size such as 512KiB, 64MiB, 1GiB or 4096".to_owned())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact =
            |(_, factor): &&(&str, u64)| self.0 >= *factor && self.0.is_multiple_of(*factor);
        match BINARY_UNITS.iter().find(exact) {
            Some((unit, factor)) => write!(formatter, "{}{unit}", self.0 / factor),
            None => write!(formatter, "{}", self.0),
        }
    }
}

/// A duration: `1h`, `1h30m`, `90s`, `250ms`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

const PERIOD_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
];

impl Period {
    fn milliseconds(text: &str) -> Option<u64> {
        let mut total: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, tail) = rest.split_at(digits);
            let (unit, factor) = PERIOD_UNITS
                .iter()
                .find(|(unit, _)| tail.starts_with(unit))?;
            let part = number.parse::<u64>().ok()?.checked_mul(*factor)?;
            total = total.checked_add(part)?;
            rest = tail.get(unit.len()..)?;
        }
        Some(total)
    }
}

impl Period {
    /// The milliseconds of a duration in Go's notation, such as `1.5h`.
    fn as_go_reads(text: &str) -> Option<u64> {
        let nanos = u64::try_from(go_duration::parse(text).ok()?).ok()?;
        let milliseconds = nanos / 1_000_000;
        (milliseconds * 1_000_000 == nanos).then_some(milliseconds)
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Period, String> {
        let milliseconds = match text {
            "0" => Some(0),
            "" => None,
            text => Period::milliseconds(text).or_else(|| Period::as_go_reads(text)),
        };
        milliseconds
            .map(|milliseconds| Period(Duration::from_millis(milliseconds)))
            .ok_or_else(|| "not a duration such as 250ms, 90s, 10m, 1h30m or 7d".to_owned())
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return formatter.write_str("0s");
        }
        let (milliseconds, larger) = (PERIOD_UNITS[0], &PERIOD_UNITS[1..]);
        for (unit, factor) in larger.iter().chain([&milliseconds]) {
            if rest >= *factor {
                write!(formatter, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

/// A duration of whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WholeSeconds(pub Duration);

impl FromStr for WholeSeconds {
    type Err = String;

    fn from_str(text: &str) -> Result<WholeSeconds, String> {
        let Period(period) = text.parse()?;
        match period.subsec_nanos() {
            0 => Ok(WholeSeconds(period)),
            _ => Err("not a whole number of seconds".to_owned()),
        }
    }
}

impl fmt::Display for WholeSeconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Period(self.0).fmt(formatter)
    }
}

/// An IP address to listen on. `localhost` is 127.0.0.1; no name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress(pub IpAddr);

/// `localhost`, alone or before a port, as 127.0.0.1.
fn with_ip(text: &str) -> Cow<'_, str> {
    match text.strip_prefix("localhost") {
        Some(rest) if rest.is_empty() || rest.starts_with(':') => {
            format!("{}{rest}", Ipv4Addr::LOCALHOST).into()
        }
        _ => text.into(),
    }
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<BindAddress, String> {
        with_ip(text).parse().map(BindAddress).map_err(|_| {
            "not an IP address such as 127.0.0.1, 0.0.0.0 or ::, nor localhost".to_owned()
        })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub u16);

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        text.parse()
            .map(Port)
            .map_err(|_| "not a port from 0 to 65535".to_owned())
    }
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A path, or none when it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(PathBuf);

impl FilePath {
    /// No path.
    pub fn unset() -> FilePath {
        FilePath(PathBuf::new())
    }

    /// Whether a path is set.
    pub fn is_set(&self) -> bool {
        !self.0.as_os_str().is_empty()
    }

    /// The path; empty when none is set.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl<P: Into<PathBuf>> From<P> for FilePath {
    fn from(path: P) -> FilePath {
        FilePath(path.into())
    }
}

impl FromStr for FilePath {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<FilePath, Self::Err> {
        Ok(FilePath(PathBuf::from(text)))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

/// Names, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl FromStr for Names {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Names, Self::Err> {
        let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
        Ok(Names(names.map(str::to_owned).collect()))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}

/// Ranges of addresses of Services: one, or one of each family (API-228). Each is its first address
/// and the number of bits that all its addresses have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRanges(pub Vec<(IpAddr, u32)>);

impl Default for AddressRanges {
    fn default() -> AddressRanges {
        AddressRanges(vec![(Ipv4Addr::new(10, 0, 0, 0).into(), 24)])
    }
}

impl FromStr for AddressRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<AddressRanges, String> {
        let ranges: Result<Vec<_>, String> = text.split(',').map(address_range).collect();
        let ranges = ranges?;
        match &*ranges {
            [_] => Ok(AddressRanges(ranges)),
            [one, other] if one.0.is_ipv4() != other.0.is_ipv4() => Ok(AddressRanges(ranges)),
            _ => Err("give one range, or one of IPv4 and one of IPv6".to_owned()),
        }
    }
}

impl AddressRanges {
    /// The first address of each range that a Service can have. The first one is that of the API.
    pub fn first_usable(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().map(|(first, _)| match first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(*first).saturating_add(1)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(*first).saturating_add(1)).into(),
        })
    }
}

/// The range of a text. It must have some addresses, and no more than kube-apiserver allows.
fn address_range(text: &str) -> Result<(IpAddr, u32), String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is not a range of addresses; write it as 10.0.0.0/24");
    let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u32 = bits.parse().map_err(|_| wrong())?;
    let (least, most) = if address.is_ipv4() {
        (8, 30)
    } else {
        (64, 126)
    };
    if !(least..=most).contains(&bits) {
        return Err(format!(
            "`{text}`: a range of this family has /{least} to /{most}"
        ));
    }
    let first: IpAddr = match address {
        IpAddr::V4(address) => {
            Ipv4Addr::from(u32::from(address) >> (32 - bits) << (32 - bits)).into()
        }
        IpAddr::V6(address) => {
            Ipv6Addr::from(u128::from(address) >> (128 - bits) << (128 - bits)).into()
        }
    };
    Ok((first, bits))
}

impl fmt::Display for AddressRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.iter();
        let texts = ranges.map(|(first, bits)| format!("{first}/{bits}"));
        formatter.write_str(&texts.collect::<Vec<String>>().join(","))
    }
}

/// The address of this daemon for others, if it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertiseAddress(pub Option<IpAddr>);

impl FromStr for AdvertiseAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<AdvertiseAddress, String> {
        if text.is_empty() {
            return Ok(AdvertiseAddress(None));
        }
        let address: Option<IpAddr> = text.parse().ok();
        let usable = address.filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
        match usable {
            Some(_) => Ok(AdvertiseAddress(usable)),
            None => Err(format!(
                "`{text}` is not an address at which others reach this machine"
            )),
        }
    }
}

impl fmt::Display for AdvertiseAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |address| address.fmt(formatter))
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first one.
    pub first: u16,
    /// The last one.
    pub last: u16,
}

impl Default for PortRange {
    fn default() -> PortRange {
        PortRange {
            first: 30000,
            last: 32767,
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = String;

    /// `30000-32767`, or `30000+100` for that many more.
    fn from_str(text: &str) -> Result<PortRange, String> {
        let wrong = || format!("`{text}` is not a range of ports; write it as 30000-32767");
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let (first, last) = match (text.split_once('-'), text.split_once('+')) {
            (Some((first, last)), _) => (number(first)?, number(last)?),
            (None, Some((first, count))) => {
                let first = number(first)?;
                (first, first.saturating_add(number(count)?))
            }
            (None, None) => (number(text)?, number(text)?),
        };
        match first >= 1 && first <= last {
            true => Ok(PortRange { first, last }),
            false => Err(wrong()),
        }
    }
}

/// The address of the plain metrics listener, if it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress(pub Option<SocketAddr>);

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsAddress, String> {
        match text {
            "" | "0" => Ok(MetricsAddress(None)),
            text => with_ip(text)
                .parse()
                .map(|address| MetricsAddress(Some(address)))
                .map_err(|_| "not an address and port such as 127.0.0.1:9464, nor 0".to_owned()),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(formatter),
            None => formatter.write_str("0"),
        }
    }
}

/// The log filter. It is checked when it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// The directives.
    pub fn directives(&self) -> &str {
        &self.0
    }
}

impl LogFilter {
    /// The filter of everything that helps to find faults.
    pub(super) fn debug() -> LogFilter {
        LogFilter("debug".to_owned())
    }
}

impl Default for LogFilter {
    fn default() -> LogFilter {
        LogFilter("info".to_owned())
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFilter, String> {
        let levels = built_in_levels();
        for directive in text.split(',') {
            let level = directive
                .rsplit_once('=')
                .map_or(directive, |(_, level)| level);
            // Otherwise a misspelt level would be taken for the name of a module, and all its
            // messages be logged.
            if !levels
                .iter()
                .any(|known| known.eq_ignore_ascii_case(level.trim()))
            {
                let which = match level == text {
                    true => "not a level".to_owned(),
                    false => format!("{level:?} is not a level"),
                };
                return Err(format!("{which}: {}", levels.join(", ")));
            }
        }
        let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
        let filter = parsed.map(|_| LogFilter(text.to_owned()));
        filter.map_err(|error| error.to_string())
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The levels that this build can log.
fn built_in_levels() -> &'static [&'static str] {
    let has_trace = LevelFilter::TRACE <= STATIC_MAX_LEVEL;
    let (_, but_trace) = LEVELS.split_last().unwrap_or((&"", &[]));
    if has_trace { &LEVELS } else { but_trace }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $( $(#[doc = $variant_doc:literal])+ $variant:ident = $word:literal, )+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $variant_doc])+ $variant, )+ }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $( $word => Ok($name::$variant), )+
                    _ => Err(format!("not one of {}", [$($word),+].join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $( $name::$variant => $word, )+ })
            }
        }
    };
}

/// The storage engine (SF-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageBackend {
    /// Depends on other settings: etcd when servers are named, else the embedded engine.
    Unset,
    /// The event log in the data directory.
    Embedded,
    /// An etcd cluster.
    Etcd3,
    /// Memory only, for tests.
    Memory,
}

impl FromStr for StorageBackend {
    type Err = String;

    fn from_str(text: &str) -> Result<StorageBackend, String> {
        match text {
            "" => Ok(StorageBackend::Unset),
            "embedded" => Ok(StorageBackend::Embedded),
            "etcd3" => Ok(StorageBackend::Etcd3),
            "memory" => Ok(StorageBackend::Memory),
            "etcd2" => Err("etcd2 is no longer supported as a storage backend; use etcd3".into()),
            other => Err(format!(
                "unknown storage type: {other}; there are embedded, etcd3 and memory"
            )),
        }
    }
}

impl fmt::Display for StorageBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StorageBackend::Unset => "",
            StorageBackend::Embedded => "embedded",
            StorageBackend::Etcd3 => "etcd3",
            StorageBackend::Memory => "memory",
        })
    }
}

words! {
    /// How log lines look.
    LogFormat {
        /// Text; coloured on a terminal.
        Auto = "auto",
        /// Text without colour.
        Text = "text",
        /// One JSON object to a line.
        Json = "json",
    }
}

words! {
    /// Which requests have a line in the log.
    AccessLogMode {
        /// None.
        Off = "off",
        /// Requests that failed for reasons that clients don't expect in daily use.
        Failures = "failures",
        /// All.
        All = "all",
    }
}

/// How the endpoints of the API are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// By the leases of the daemons.
    Lease,
    /// By somebody else.
    None,
}

impl FromStr for EndpointReconciler {
    type Err = String;

    fn from_str(text: &str) -> Result<EndpointReconciler, String> {
        match text {
            "lease" => Ok(EndpointReconciler::Lease),
            "none" => Ok(EndpointReconciler::None),
            "master-count" => Err("master-count is not built; use lease".to_owned()),
            _ => Err("not one of lease, none".to_owned()),
        }
    }
}

impl fmt::Display for EndpointReconciler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            EndpointReconciler::Lease => "lease",
            EndpointReconciler::None => "none",
        })
    }
}
