//! Asks the program at `--etcd-servers` whether it is Taffrail in the place of etcd, which lends
//! its data directory. Anything else that answers is an etcd.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread::sleep;
use std::time::{Duration, Instant};

use http::Uri;
use serde::Deserialize;

use super::NAME;
use crate::cli::complain;

/// The path of the question.
const PATH: &str = "/taffrail/v1/data-directory";

/// How long a program that is not there yet is waited for. Both may be started at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long is waited without a word.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a directory is waited for that another process has: the one before may just be ending.
const HANDOVER: Duration = Duration::from_secs(2);

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// The most bytes of an answer.
const BYTES_MAX: u64 = 64 << 10;

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In this directory, which this process opens itself.
    Lent {
        /// The absolute path.
        directory: String,
        /// Whether writes are synced to the disk.
        syncs: bool,
    },
    /// In an etcd, or in a program that serves them as one.
    Etcd,
}

#[derive(Deserialize)]
struct Answer {
    directory: String,
    state: State,
    holder: Option<Holder>,
    syncs: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum State {
    Free,
    Lent,
    Served,
}

#[derive(Deserialize)]
struct Holder {
    pid: u32,
}

/// Finds the store at these URLs. `check` is called once before the first pause.
///
/// # Errors
/// One line, if another process has the directory, or the errors of `check`.
pub(super) fn find(
    servers: &[String],
    check: impl FnOnce() -> Result<(), String>,
) -> Result<Found, String> {
    // A shim is one server. Several are a cluster.
    let [server] = servers else {
        return Ok(Found::Etcd);
    };
    let Some((host, port)) = address(server) else {
        return Ok(Found::Etcd);
    };
    let begun = Instant::now();
    let mut lent_since = None;
    let (mut check, mut is_silent) = (Some(check), true);
    loop {
        match ask(&host, port) {
            Ok(Some(answer)) => match answer.state {
                State::Free => {
                    return Ok(Found::Lent {
                        directory: answer.directory,
                        syncs: answer.syncs,
                    });
                }
                State::Served => return Ok(Found::Etcd),
                State::Lent if lent_since.get_or_insert_with(Instant::now).elapsed() > HANDOVER => {
                    return Err(in_use(server, &answer));
                }
                State::Lent => {}
            },
            Ok(None) => return Ok(Found::Etcd),
            // The daemon over etcd waits longer, and says what it waits for.
            Err(_) if begun.elapsed() > PATIENCE => return Ok(Found::Etcd),
            Err(error) if is_silent && begun.elapsed() > SILENCE => {
                complain(
                    NAME,
                    &format!("waiting for --etcd-servers={server}: {error}"),
                );
                is_silent = false;
            }
            Err(_) => {}
        }
        if let Some(check) = check.take() {
            check()?;
        }
        sleep(PAUSE);
    }
}

fn in_use(server: &str, answer: &Answer) -> String {
    let holder = answer.holder.as_ref();
    let holder = holder.map_or("another process".to_owned(), |holder| {
        format!("the process {}", holder.pid)
    });
    format!(
        "--etcd-servers={server}: {holder} uses its data directory {}; stop that one, or start an \
         etcd of its own for each kube-apiserver",
        answer.directory
    )
}

/// Returns host and port of a URL without TLS.
fn address(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    if uri.scheme_str() != Some("http") {
        return None;
    }
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), uri.port_u16().unwrap_or(2379)))
}

/// Asks once. `None` is the answer of a program that does not know the question.
///
/// # Errors
/// Nothing answers.
fn ask(host: &str, port: u16) -> io::Result<Option<Answer>> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWER) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(ANSWER))?;
                stream.set_write_timeout(Some(ANSWER))?;
                let host = &address;
                write!(
                    stream,
                    "GET {PATH} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
                )?;
                let mut answer = Vec::new();
                stream.take(BYTES_MAX).read_to_end(&mut answer)?;
                return Ok(read(&answer));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads an answer over HTTP.
fn read(answer: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?;
    (code == "200").then(|| serde_json::from_str(body).ok())?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn find(servers: &[String]) -> Result<Found, String> {
        super::find(servers, || Ok(()))
    }

    /// A server that gives these answers, one after the other, and the last one again and again.
    fn serving(answers: &'static [&'static str]) -> Vec<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for number in 0.. {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 1024];
                let _ = stream.read(&mut asked).unwrap();
                let answer = answers[number.min(answers.len() - 1)];
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        vec![url]
    }

    macro_rules! ok {
        ($state:literal) => {
            concat!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
                r#"{"directory":"/d","state":""#,
                $state,
                r#"","holder":{"pid":7,"since":null},"syncs":false}"#
            )
        };
    }

    #[test]
    fn a_shim_lends_its_directory() {
        let lent = Found::Lent {
            directory: "/d".to_owned(),
            syncs: false,
        };
        assert_eq!(find(&serving(&[ok!("free")])), Ok(lent.clone()));
        // The process before has just ended.
        assert_eq!(find(&serving(&[ok!("lent"), ok!("free")])), Ok(lent));
        assert_eq!(find(&serving(&[ok!("served")])), Ok(Found::Etcd));
        let refused = find(&serving(&[ok!("lent")])).unwrap_err();
        assert!(
            refused.contains("the process 7 uses its data directory /d"),
            "{refused}"
        );
    }

    #[test]
    fn anything_else_is_an_etcd() {
        for answer in [
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "",
            "\x15\x03",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert_eq!(
                find(&serving(Box::leak(Box::new([answer])))),
                Ok(Found::Etcd)
            );
        }
        for servers in [
            &[][..],
            &["https://127.0.0.1:1"],
            &["http://a", "http://b"],
            &["unix:///a"],
        ] {
            let servers: Vec<String> = servers.iter().map(|&one| one.to_owned()).collect();
            assert_eq!(find(&servers), Ok(Found::Etcd));
        }
    }

    #[test]
    fn faults_are_reported_before_a_pause() {
        // Nothing listens at the port of a listener that was dropped.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let fault = || Err("the fault".to_owned());
        assert_eq!(super::find(&[url], fault), Err("the fault".to_owned()));
        let lent = serving(&[ok!("lent")]);
        assert_eq!(super::find(&lent, fault), Err("the fault".to_owned()));
        // An answer needs no pause, and the daemon checks the files itself.
        let free = serving(&[ok!("free")]);
        assert!(super::find(&free, fault).is_ok());
    }
}
