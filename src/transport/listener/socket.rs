//! Listening sockets and their options.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// The backlog of connections. It is large because a whole fleet of clients may reconnect at once.
const BACKLOG: i32 = 4096;

/// The TCP keep-alive times. A quiet connection to a dead host ends within a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// A listening socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: can't listen on {address}: {source}{}", hint(.source))]
pub struct BindError {
    /// The setting that the address comes from.
    pub flag: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// The cause.
    pub source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another process has this port: stop it or choose another port"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// Opens a listening socket, which may share its port with other sockets that do so. Connections
/// inherit its options: no delay of small writes, and keep-alive.
pub(super) fn listen(
    flag: &'static str,
    address: SocketAddr,
    shares_port: bool,
) -> Result<TcpListener, BindError> {
    open(address, shares_port).map_err(|errno| BindError {
        flag,
        address,
        source: errno.into(),
    })
}

fn open(address: SocketAddr, shares_port: bool) -> Result<TcpListener, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // After a restart, connections of the previous process may still be in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if shares_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    fn any() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    #[test]
    fn connections_inherit_the_options_of_the_listener() {
        let listener = listen("secure-port", any(), false).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = loop {
            match listener.accept() {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                accepted => break accepted.unwrap(),
            }
        };
        assert!(sockopt::tcp_nodelay(&accepted).unwrap());
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), KEEPALIVE_IDLE);
    }

    #[test]
    fn a_port_that_is_taken_is_named_in_one_line() {
        let first = listen("secure-port", any(), false).unwrap();
        let address = first.local_addr().unwrap();
        let refusal = listen("secure-port", address, true)
            .unwrap_err()
            .to_string();
        assert!(
            refusal.starts_with(&format!("--secure-port: can't listen on {address}: ")),
            "{refusal}"
        );
        assert!(
            refusal.contains("another process has this port"),
            "{refusal}"
        );
        assert!(!refusal.contains('\n'));
    }

    #[test]
    fn sockets_share_a_port_if_all_of_them_do() {
        let first = listen("secure-port", any(), true).unwrap();
        let address = first.local_addr().unwrap();
        assert!(listen("secure-port", address, true).is_ok());
        assert!(listen("secure-port", address, false).is_err());
    }
}
