//! Ports for servers that need a fixed port before they start and after a restart.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port handed out; below are those of well-known services.
const FIRST: u32 = 12_000;
/// The kernel takes ports of outgoing connections and of port 0 from here on by default
/// (`net.ipv4.ip_local_port_range`): one of those may be gone at any moment.
const END: u32 = 32_768;

static TURN: AtomicU32 = AtomicU32::new(0);

/// A free port of 127.0.0.1 that this process hands out only once.
pub fn free_port() -> u16 {
    // Concurrent test processes start at different ports.
    let begin = std::process::id().wrapping_mul(127);
    for _ in FIRST..END {
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + begin.wrapping_add(turn) % (END - FIRST);
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of 127.0.0.1 between {FIRST} and {END} is free");
}
