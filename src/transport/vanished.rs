//! Finds clients whose kernels have stopped acknowledging, because their machine has lost power or
//! its network.
//!
//! On a quiet connection TCP keep-alive finds them. TCP sends no keep-alive while data is in
//! flight, and the kernel retransmits for a quarter of an hour. TCP_USER_TIMEOUT would end that,
//! but it also ends connections whose clients are well and have a full window. The kernel's tables
//! of sockets distinguish the two: they count unanswered packets, and any acknowledgement, even
//! that of a full window, resets the count.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use tokio::sync::watch;

/// An address and a port.
type End = (IpAddr, u16);

/// The two ends of a connection. A client may use the same port to reach several addresses of the
/// daemon's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    local: End,
    peer: End,
}

impl Ends {
    /// Returns the ends of a connection.
    pub(super) fn new(local: SocketAddr, peer: SocketAddr) -> Ends {
        Ends {
            local: (local.ip(), local.port()),
            peer: (peer.ip(), peer.port()),
        }
    }
}

/// The kernel's tables of sockets.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// How often the tables are read.
const PERIOD: Duration = Duration::from_secs(15);

/// The number of looks in a row, over a minute, in which a vanished client has answered nothing.
const LOOKS: u32 = 5;

/// The smallest number of unanswered packets of a vanished client: a minute of silence reaches it,
/// although the pauses between retransmissions double. A client on a bad line that answers now and
/// then never has as many in a row.
const UNANSWERED_MIN: u32 = 5;

/// The states and timers of the tables (proc_net_tcp of Linux).
const ESTABLISHED: &str = "01";
/// The client will send nothing more. It may still read.
const CLOSE_WAIT: &str = "08";
const RETRANSMITS: &str = "01";
const PROBES_WINDOW: &str = "04";

/// Reads the tables periodically, and publishes which clients of a port have vanished.
pub(super) async fn find_vanished(port: u16, vanished: watch::Sender<Arc<HashSet<Ends>>>) {
    let mut silences = Silences::default();
    if let Err(error) = File::open(TABLES[0]) {
        tracing::warn!(
            %error,
            "cannot read {}: clients that vanish while data is in flight to them are noticed late",
            TABLES[0]
        );
    }
    loop {
        tokio::time::sleep(PERIOD).await;
        let read = tasks::spawn_blocking(move || unanswered(port)).await;
        let Ok(unanswered) = read else { return };
        let gone = silences.look(unanswered);
        if !gone.is_empty() {
            vanished.send_replace(Arc::new(gone));
        }
    }
}

/// Returns the connections of a port whose clients have not answered, each with its count of
/// unanswered packets in a row. The result is empty without the tables, as in some sandboxes.
fn unanswered(port: u16) -> HashMap<Ends, u32> {
    let mut found = HashMap::new();
    for table in TABLES
        .into_iter()
        .filter_map(|table| File::open(table).ok())
    {
        let mut table = BufReader::new(table);
        let mut row = String::new();
        while table.read_line(&mut row).is_ok_and(|bytes| bytes > 0) {
            found.extend(parse(&row, port));
            row.clear();
        }
    }
    found
}

/// Parses a row of a table. Returns `None` unless the connection belongs to the port and has
/// unanswered packets.
fn parse(row: &str, port: u16) -> Option<(Ends, u32)> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let peer = address(fields.next()?)?;
    let state = fields.next()?;
    let (timer, _) = fields.nth(1)?.split_once(':')?;
    let retransmits = u32::from_str_radix(fields.next()?, 16).ok()?;
    let probes: u32 = fields.nth(1)?.parse().ok()?;
    if local.1 != port || ![ESTABLISHED, CLOSE_WAIT].contains(&state) {
        return None;
    }
    let count = match timer {
        RETRANSMITS => retransmits,
        PROBES_WINDOW => probes,
        _ => 0,
    };
    (count > 0).then_some((Ends { local, peer }, count))
}

/// Parses an address as the tables show it: 32-bit words in the byte order of the machine, and a
/// port.
fn address(text: &str) -> Option<End> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let word = words.get(8 * index..8 * index + 8)?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    };
    let address = match words.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes = words.as_flattened().try_into().ok();
            IpAddr::V6(bytes.map(|bytes: [u8; 16]| Ipv6Addr::from(bytes))?)
        }
        _ => return None,
    };
    Some((address, port))
}

/// How long clients have not answered. Pure.
#[derive(Default)]
struct Silences(HashMap<Ends, Silence>);

struct Silence {
    /// The number of looks in a row in which something was unanswered.
    looks: u32,
    /// The count of unanswered packets at the last look. A lower count means an answer in between.
    count: u32,
}

impl Silences {
    /// Records what was seen now. Returns the connections whose clients have vanished.
    fn look(&mut self, unanswered: HashMap<Ends, u32>) -> HashSet<Ends> {
        self.0.retain(|ends, silence| {
            let count = unanswered.get(ends);
            count.is_some_and(|count| *count >= silence.count)
        });
        for (ends, count) in unanswered {
            let silence = self.0.entry(ends).or_insert(Silence { looks: 0, count });
            silence.looks += 1;
            silence.count = count;
        }
        let is_over = |silence: &Silence| silence.looks >= LOOKS && silence.count >= UNANSWERED_MIN;
        let gone = self.0.iter().filter(|(_, silence)| is_over(silence));
        gone.map(|(ends, _)| *ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_port_with_something_unanswered_are_read() {
        if cfg!(target_endian = "big") {
            return;
        }
        let row = |state: &str, timer: &str, retransmits: &str, probes: &str| {
            format!(
                "  12: 0100007F:1D13 0200007F:A0F2 {state} 00000040:00000000 {timer}:0000012C \
                 {retransmits}     0        {probes} 31337 2 0000000000000000 20 4 30 10 -1"
            )
        };
        let ends =
            |local: &str, peer: &str| Ends::new(local.parse().unwrap(), peer.parse().unwrap());
        let peer = ends("127.0.0.1:7443", "127.0.0.2:41202");
        let read = |row: &str| parse(row, 0x1d13);
        assert_eq!(read(&row("01", "01", "0000000A", "0")), Some((peer, 10)));
        assert_eq!(read(&row("01", "04", "00000000", "3")), Some((peer, 3)));
        assert_eq!(read(&row("08", "01", "00000002", "0")), Some((peer, 2)));
        for quiet in [
            row("01", "01", "00000000", "0"),
            row("01", "00", "00000005", "0"),
            row("01", "02", "00000005", "5"),
            row("04", "01", "00000005", "0"),
        ] {
            assert_eq!(read(&quiet), None, "{quiet}");
        }
        assert_eq!(parse(&row("01", "01", "00000001", "0"), 443), None);
        for nonsense in ["", "  sl  local_address rem_address   st", "0: x:1 y:2 01"] {
            assert_eq!(read(nonsense), None);
        }
        let six = "0: 00000000000000000000000001000000:1D13 \
                   B80D0120000000000000000001000000:0050 01 00000000:00000000 01:00000000 \
                   00000002 0 0 1";
        let peer = ends("[::1]:7443", "[2001:db8::1]:80");
        assert_eq!(read(six), Some((peer, 2)));
    }

    #[test]
    fn the_kernel_s_own_table_is_understood() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = client.local_addr().unwrap();
        let table = std::fs::read_to_string(TABLES[0]).unwrap();
        let rows = table.lines().skip(1);
        let ends = rows.filter_map(|row| {
            let mut fields = row.split_ascii_whitespace().skip(1);
            Some((address(fields.next()?)?, address(fields.next()?)?))
        });
        let ours = (
            (listener.local_addr().unwrap().ip(), port),
            (peer.ip(), peer.port()),
        );
        assert!(ends.into_iter().any(|ends| ends == ours), "{table}");
        assert!(unanswered(port).is_empty());
    }

    #[test]
    fn who_answers_nothing_for_a_minute_has_vanished_and_an_answer_starts_anew() {
        let ends = |port: u16| {
            let address = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
            Ends::new(address(443), address(port))
        };
        let mut silences = Silences::default();
        let mut look = |seen: &[(u16, u32)]| {
            let seen = seen.iter().map(|(port, count)| (ends(*port), *count));
            silences.look(seen.collect())
        };
        assert!(look(&[(1, 3), (2, 3), (3, 1)]).is_empty());
        assert!(look(&[(1, 5), (2, 5), (3, 1)]).is_empty());
        assert!(look(&[(1, 6), (2, 1), (3, 1)]).is_empty());
        assert!(look(&[(1, 7), (2, 2), (3, 2)]).is_empty());
        assert_eq!(look(&[(1, 7), (2, 3), (3, 2)]), [ends(1)].into());
        assert!(look(&[(2, 4), (3, 3)]).is_empty(), "few for a minute");
        assert_eq!(look(&[(2, 6), (3, 5)]), [ends(2), ends(3)].into());
    }
}
