//! TLS towards etcd: files that may be replaced while the daemon runs, and connections that the
//! server has accepted.
//!
//! A server of TLS 1.3 refuses a client's certificate after the client has finished its handshake.
//! A call that was sent by then would have an unknown outcome, though the server never saw it. So a
//! connection counts only once the server has sent something on it, and until then no call is sent.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connect_error::ConnectError;
use super::tls_files::{Pem, TlsFiles};

/// How a client of HTTP/2 begins (RFC 9113, 3.4). Servers send their settings when they have read
/// it, or before.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The time for the handshake and the server's first bytes.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(3);

/// The TLS of connections to etcd. Each new connection takes what was read last.
pub struct ClientTls {
    files: TlsFiles,
    config: ArcSwap<ClientConfig>,
    read: Mutex<Pem>,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ConnectError`] names the file, or the server's URL if there is no authority.
    pub fn read(files: &TlsFiles, url: &str) -> Result<Arc<ClientTls>, ConnectError> {
        let read = files.read(url)?;
        Ok(Arc::new(ClientTls {
            config: ArcSwap::from_pointee(config(files, &read)?),
            files: files.clone(),
            read: Mutex::new(read),
        }))
    }

    /// Reads the files again. Returns whether they have changed. Connections go on with what they
    /// began with.
    ///
    /// # Errors
    /// [`ConnectError`] names the file. The credentials read before stay.
    pub fn reload(&self) -> Result<bool, ConnectError> {
        let mut before = self.read.lock();
        let read = self.files.read("")?;
        if read == *before {
            return Ok(false);
        }
        self.config.store(Arc::new(config(&self.files, &read)?));
        *before = read;
        Ok(true)
    }

    /// The files.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// A connection that the server of this name has accepted.
    ///
    /// # Errors
    /// The server is not trusted, or does not trust this client. No request was sent.
    pub(super) async fn connect<S>(&self, server: &str, socket: S) -> io::Result<Accepted<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = server.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let connector = TlsConnector::from(self.config.load_full());
        let accepted = async move {
            let mut stream = connector.connect(name, socket).await?;
            if stream.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
                return Err(io::Error::other("the server does not speak HTTP/2"));
            }
            stream.write_all(PREFACE).await?;
            stream.flush().await?;
            let mut first = [0; 64];
            match stream.read(&mut first).await? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                count => Ok(Accepted {
                    stream,
                    first: first.into_iter().take(count).collect(),
                    sent: PREFACE.len(),
                }),
            }
        };
        let late = |_| io::Error::new(ErrorKind::TimedOut, "the server did not answer in time");
        let accepted = tokio::time::timeout(ACCEPT_TIMEOUT, accepted).await;
        accepted.map_err(late)?
    }
}

/// HTTP/2 as ALPN names it.
const ALPN_HTTP2: &[u8] = b"h2";

fn config(files: &TlsFiles, read: &Pem) -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    let authorities = certificates(&read.authority).ok_or_else(|| files.useless("cafile"))?;
    roots.add_parsable_certificates(authorities);
    if roots.is_empty() {
        return Err(files.useless("cafile"));
    }
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| files.useless("cafile"))?
        .with_root_certificates(roots);
    let mut config = match &read.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| files.useless("keyfile"))?;
            let chain = certificates(certificate).filter(|chain| !chain.is_empty());
            let chain = chain.ok_or_else(|| files.useless("certfile"))?;
            let both = builder.with_client_auth_cert(chain, key);
            both.map_err(|_| files.useless("certfile"))?
        }
    };
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
    Ok(config)
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .ok()
}

/// A connection on which the server has sent its first bytes.
pub(super) struct Accepted<S> {
    stream: TlsStream<S>,
    /// The bytes it has sent, for the next reader.
    first: std::collections::VecDeque<u8>,
    /// How much of what is written next was sent already.
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Accepted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        let first: Vec<u8> = self.first.drain(..count).collect();
        buffer.put_slice(&first);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Accepted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.sent == 0 {
            return Pin::new(&mut self.stream).poll_write(context, bytes);
        }
        let count = self.sent.min(bytes.len());
        self.sent -= count;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
