//! The loop that relays are compared with: a process that decrypts what comes on one connection and
//! encrypts it for another, and does nothing else. It moves one record of TLS at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::harness::Target;
use crate::kubelet::Kubelet;

/// The first argument of the process.
pub const BARE: &str = "--relays-bare";

/// The content of a full record.
const RECORD_BYTES: usize = 16 << 10;

/// The process, which is killed when this is dropped.
pub struct Bare {
    child: Child,
    address: SocketAddr,
}

impl Bare {
    /// Starts it for connections to a kubelet.
    pub fn start(kubelet: &Kubelet) -> Bare {
        let files = kubelet.flags();
        let files = files.iter().filter_map(|flag| flag.split_once('='));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([BARE, &kubelet.address.to_string()])
            .args(files.map(|(_, file)| file))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.trim().parse().unwrap();
        Bare { child, address }
    }

    /// Where its clients connect.
    pub fn target(&self) -> Target {
        Target::new(self.address, None, None)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have ended with an error, which it has already printed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the process, with the arguments from [`Bare::start`]. It serves one client after the other.
pub fn run(arguments: &[String]) {
    let [kubelet, roots, certificate, key] = arguments else {
        panic!("{BARE} is for this program itself");
    };
    std::thread::spawn(|| {
        // The end of the parent is that of this process.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let kubelet: SocketAddr = kubelet.parse().unwrap();
    let (server, client) = (server(), client(roots, certificate, key));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    for socket in listener.incoming() {
        let accepted = ServerConnection::new(Arc::clone(&server)).unwrap();
        let from = StreamOwned::new(accepted, connected(socket.unwrap()));
        let name = ServerName::from(kubelet.ip());
        let asked = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let to = StreamOwned::new(asked, connected(TcpStream::connect(kubelet).unwrap()));
        relay(from, to).unwrap();
    }
}

fn connected(socket: TcpStream) -> TcpStream {
    socket.set_nodelay(true).unwrap();
    socket
}

/// The algorithms are those of the daemon.
fn server() -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = own.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![own.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        );
    let mut config = config.unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn client(roots: &str, certificate: &str, key: &str) -> Arc<ClientConfig> {
    let mut authorities = rustls::RootCertStore::empty();
    for one in CertificateDer::pem_file_iter(roots).unwrap() {
        authorities.add(one.unwrap()).unwrap();
    }
    let chain = CertificateDer::pem_file_iter(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authorities)
        .with_client_auth_cert(
            chain.map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_file(key).unwrap(),
        );
    Arc::new(config.unwrap())
}

/// Relays a request and its answer. After an upgrade as many bytes go up as have come down, the
/// number of which is in the path.
fn relay(
    mut client: StreamOwned<ServerConnection, TcpStream>,
    mut kubelet: StreamOwned<ClientConnection, TcpStream>,
) -> io::Result<()> {
    let asked = head(&mut client)?;
    kubelet.write_all(asked.as_bytes())?;
    if asked.contains("Upgrade: ") {
        let (_, rest) = asked.split_once("bytes-").unwrap();
        let count = rest.split(|c: char| !c.is_ascii_digit()).next();
        let count = count.and_then(|text| text.parse().ok()).unwrap();
        let answer = head(&mut kubelet)?;
        client.write_all(answer.as_bytes())?;
        copy(&mut kubelet, &mut client, count)?;
        copy(&mut client, &mut kubelet, count)?;
    }
    copy(&mut kubelet, &mut client, u64::MAX)?;
    client.conn.send_close_notify();
    client.flush()
}

/// Reads up to an empty line.
fn head(from: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        from.read_exact(&mut byte)?;
        head.extend(byte);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

/// Copies this many bytes, or to the end.
fn copy(from: &mut impl Read, to: &mut impl Write, mut count: u64) -> io::Result<()> {
    let mut buffer = vec![0; RECORD_BYTES];
    while count > 0 {
        let most = count.min(buffer.len() as u64) as usize;
        let read = from.read(&mut buffer[..most])?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
        count -= read as u64;
    }
    Ok(())
}
