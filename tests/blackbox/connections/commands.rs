//! The commands of the stand-in for a kubelet, over SPDY/3.1 as a kubelet speaks it, and over any
//! other [`Streams`]. This side has its own reader of frames, so that a fault of the daemon's is
//! not repeated.

use std::collections::BTreeMap;
use std::io::{Error, Result, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::harness::upgrades::header;

/// The streams of a command.
pub trait Streams {
    /// Waits for bytes of the client.
    async fn next(&mut self) -> Result<Data>;

    /// Sends bytes on a stream, if the client asked for it.
    async fn send(&mut self, kind: &str, bytes: &[u8], is_last: bool) -> Result<()>;
}

/// A connection whose client opens the streams.
struct Connection {
    stream: TlsStream<TcpStream>,
    headers: Decompress,
    /// The kinds of streams in the order in which a client of Go opens them. It compresses their
    /// headers with the dictionary of SPDY, which this side does not have.
    in_order: Vec<&'static str>,
    is_of_go: bool,
    /// All answers are one stream of zlib.
    replies: ZlibEncoder<Vec<u8>>,
    /// Streams by their kinds.
    by_kind: BTreeMap<String, u32>,
}

/// Bytes of a stream, and whether they are the last ones.
pub struct Data {
    pub kind: String,
    pub bytes: Vec<u8>,
    pub is_last: bool,
}

impl Streams for Connection {
    async fn next(&mut self) -> Result<Data> {
        loop {
            if let Some(data) = self.frame().await? {
                return Ok(data);
            }
        }
    }

    async fn send(&mut self, kind: &str, bytes: &[u8], is_last: bool) -> Result<()> {
        let Some(number) = self.by_kind.get(kind) else {
            return Ok(());
        };
        let mut frame = number.to_be_bytes().to_vec();
        frame.extend((u32::from(is_last) << 24 | bytes.len() as u32).to_be_bytes());
        frame.extend(bytes);
        self.stream.write_all(&frame).await
    }
}

impl Connection {
    fn new(stream: TlsStream<TcpStream>, in_order: Vec<&'static str>) -> Connection {
        Connection {
            stream,
            headers: Decompress::new(true),
            in_order,
            is_of_go: false,
            replies: ZlibEncoder::new(Vec::new(), Compression::default()),
            by_kind: BTreeMap::new(),
        }
    }

    /// Reads a frame: bytes of a stream, or something else, which is answered.
    async fn frame(&mut self) -> Result<Option<Data>> {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head).await?;
        let [a, b, c, d, flags, e, f, g] = head;
        let mut content = vec![0; u32::from_be_bytes([0, e, f, g]) as usize];
        self.stream.read_exact(&mut content).await?;
        if a & 0x80 == 0 {
            let number = u32::from_be_bytes([a, b, c, d]);
            let known = self.by_kind.iter().find(|(_, of)| **of == number);
            let (kind, _) = known.expect("the stream is open");
            return Ok(Some(Data {
                kind: kind.clone(),
                bytes: content,
                is_last: flags & 1 != 0,
            }));
        }
        assert_eq!([a, b], [0x80, 3], "SPDY/3");
        match u16::from_be_bytes([c, d]) {
            1 => self.opened(&content).await?,
            6 => {
                self.stream.write_all(&head).await?;
                self.stream.write_all(&content).await?;
            }
            // A client that leaves sends RST_STREAM and GOAWAY.
            3 | 7 if self.is_of_go => {}
            other => panic!("frame of type {other}"),
        }
        Ok(None)
    }

    /// Reads the kind of a new stream, and accepts it.
    async fn opened(&mut self, content: &[u8]) -> Result<()> {
        let number = u32::from_be_bytes(content[..4].try_into().unwrap());
        // The header of zlib says whether there is a dictionary.
        self.is_of_go |= self.by_kind.is_empty() && content[11] & 0x20 != 0;
        let kind = match self.is_of_go {
            true => self.in_order[self.by_kind.len()].to_owned(),
            false => self.kind(&content[10..])?,
        };
        self.by_kind.insert(kind, number);
        self.replies.write_all(&0_u32.to_be_bytes())?;
        self.replies.flush()?;
        let block = std::mem::take(self.replies.get_mut());
        let mut reply = vec![0x80, 3, 0, 2];
        reply.extend((4 + block.len() as u32).to_be_bytes());
        reply.extend(number.to_be_bytes());
        reply.extend(block);
        self.stream.write_all(&reply).await
    }

    /// Reads the kind of a stream from its headers.
    fn kind(&mut self, block: &[u8]) -> Result<String> {
        let mut pairs = Vec::with_capacity(4096);
        self.headers
            .decompress_vec(block, &mut pairs, FlushDecompress::Sync)
            .map_err(Error::other)?;
        let mut texts = Vec::new();
        let mut rest = &pairs[4..];
        while let [a, b, c, d, tail @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            texts.push(String::from_utf8(tail[..length].to_vec()).unwrap());
            rest = &tail[length..];
        }
        assert_eq!(texts[0], "streamtype");
        Ok(texts.remove(1))
    }
}

/// Answers an upgrade, and runs a [`command`] when the client has opened all streams.
pub async fn run(mut stream: TlsStream<TcpStream>, head: &str, wanted: &str) -> Result<()> {
    let offered = header(head, "x-stream-protocol-version").unwrap_or_default();
    assert!(head.starts_with("POST "), "{head}");
    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
    stream.write_all(answer.as_bytes()).await?;
    let query = wanted.split_once('?').map_or("", |(_, query)| query);
    let mut in_order = vec!["error"];
    for (asked, kind) in [
        ("input=1", "stdin"),
        ("output=1", "stdout"),
        ("error=1", "stderr"),
        ("tty=1", "resize"),
    ] {
        in_order.extend(query.contains(asked).then_some(kind));
    }
    let expected = in_order.len();
    let mut connection = Connection::new(stream, in_order);
    while connection.by_kind.len() < expected {
        let early = connection.frame().await?;
        assert!(early.is_none(), "bytes before all streams are open");
    }
    if !connection.is_of_go {
        assert_eq!(offered, "v5.channel.k8s.io");
        // The daemon ends its half of the stream of errors first.
        let first = connection.next().await?;
        assert_eq!(
            (&*first.kind, first.bytes.len(), first.is_last),
            ("error", 0, true)
        );
        assert_eq!(connection.by_kind.len(), expected);
    }
    if query.contains("command=streams") {
        let kinds: Vec<&str> = connection.by_kind.keys().map(String::as_str).collect();
        let line = kinds.join(" ");
        connection.send("stdout", line.as_bytes(), false).await?;
    }
    if !command(&mut connection, query).await? {
        return connection.stream.shutdown().await;
    }
    // The client closes the connection.
    while connection.next().await.is_ok() {}
    Ok(())
}

/// Runs the command that the query names. Returns false if the connection is to break off.
///
/// - `echo` writes its words, `both` something to both outputs.
/// - `cat` writes its input, and `size` the first change of its terminal's size.
/// - `exit N` fails with that code, and `vanish` closes the connection.
/// - `much N` writes so many MiB, and `swallow` reads to the end of its input.
/// - `streams` has written the kinds of streams.
/// - `sizes` writes all changes of its terminal's size, and `keys` each byte of its input as two
///   digits; a `q` ends either, and the end of the input the second one.
/// - `tar cf - PATH` packs a file with that path, `test` fails, and `tar -xmf -` writes the names
///   and contents of what it unpacks.
/// - Without a command it is attached to one that says so, and then writes its input. In a terminal
///   Ctrl-D ends it.
pub async fn command(streams: &mut impl Streams, query: &str) -> Result<bool> {
    let words = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("command="));
    let words: Vec<&str> = words.collect();
    let mut outcome = String::new();
    match words[..] {
        ["echo", ref words @ ..] => {
            let line = format!("{}\n", words.join(" "));
            streams.send("stdout", line.as_bytes(), false).await?;
        }
        ["both"] => {
            streams.send("stdout", b"out", false).await?;
            streams.send("stderr", b"err", false).await?;
        }
        ["streams"] => {}
        ["cat"] => copied(streams, false).await?,
        [] => {
            streams.send("stdout", b"attached\n", false).await?;
            if query.contains("input=1") {
                copied(streams, query.contains("tty=1")).await?;
            }
        }
        ["size"] => {
            let data = streams.next().await?;
            assert_eq!(data.kind, "resize");
            streams.send("stdout", &data.bytes, false).await?;
        }
        ["sizes"] => loop {
            let data = streams.next().await?;
            if data.kind == "resize" {
                streams.send("stdout", &data.bytes, false).await?;
            } else if data.bytes.contains(&b'q') {
                break;
            }
        },
        ["keys"] => keys(streams).await?,
        // kubectl 1.20 asks whether the destination is a folder.
        ["test", ..] => outcome = failure("1"),
        ["tar", "cf", "-", path] => {
            let path = path.replace("%2F", "/");
            streams.send("stdout", &packed(&path)?, false).await?;
        }
        ["tar", "-xmf", "-", ..] => {
            let listed = listed(&input(streams).await?)?;
            streams.send("stdout", listed.as_bytes(), false).await?;
        }
        ["exit", code] => {
            outcome = failure(code);
        }
        ["much", count] => {
            let count: usize = count.parse().unwrap();
            // A kubelet copies in pieces of 32 KiB.
            let piece = vec![b'm'; 32 << 10];
            for _ in 0..count * (1 << 20) / piece.len() {
                streams.send("stdout", &piece, false).await?;
            }
        }
        ["swallow"] => while !streams.next().await?.is_last {},
        _ => return Ok(false),
    }
    for kind in ["stdout", "stderr"] {
        streams.send(kind, b"", true).await?;
    }
    streams.send("error", outcome.as_bytes(), true).await?;
    Ok(true)
}

fn failure(code: &str) -> String {
    format!(
        r#"{{"status":"Failure","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
    )
}

/// An archive with one file, whose content is its path.
fn packed(path: &str) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(path.len() as u64);
    header.set_mode(0o644);
    let name = path.trim_start_matches('/');
    archive.append_data(&mut header, name, path.as_bytes())?;
    archive.into_inner()
}

/// A line for each file of an archive, with its name and content.
fn listed(archive: &[u8]) -> Result<String> {
    let mut listed = String::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let content = std::io::read_to_string(&mut entry)?;
        listed += &format!("{name} {content}\n");
    }
    Ok(listed)
}

/// Reads the input to its end.
async fn input(streams: &mut impl Streams) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let data = streams.next().await?;
        assert_eq!(data.kind, "stdin");
        all.extend(data.bytes);
        if data.is_last {
            return Ok(all);
        }
    }
}

/// Answers an upgrade to SPDY, and sends the bytes of one forwarded connection back in capital
/// letters.
pub async fn forward(mut stream: TlsStream<TcpStream>) -> Result<()> {
    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n";
    stream.write_all(answer.as_bytes()).await?;
    let mut connection = Connection::new(stream, vec!["error", "data"]);
    loop {
        let data = connection.next().await?;
        // kubectl has nothing to say in the stream of errors.
        if data.kind == "data" {
            let bytes = data.bytes.to_ascii_uppercase();
            connection.send("data", &bytes, data.is_last).await?;
            if data.is_last {
                break;
            }
        }
    }
    connection.send("error", b"", true).await?;
    while connection.next().await.is_ok() {}
    Ok(())
}

/// Writes the input to the output, until its end. That of a terminal is a Ctrl-D, and its size is
/// ignored.
async fn copied(streams: &mut impl Streams, is_terminal: bool) -> Result<()> {
    loop {
        let mut data = streams.next().await?;
        if data.kind == "resize" && is_terminal {
            continue;
        }
        assert_eq!(data.kind, "stdin");
        if let Some(end) = data.bytes.iter().position(|byte| *byte == 4)
            && is_terminal
        {
            data.bytes.truncate(end);
            data.is_last = true;
        }
        streams.send("stdout", &data.bytes, false).await?;
        if data.is_last {
            return Ok(());
        }
    }
}

/// Says that it is ready, and then writes each byte of the input as two digits, until a `q`.
async fn keys(streams: &mut impl Streams) -> Result<()> {
    streams.send("stdout", b"ready\n", false).await?;
    loop {
        let data = streams.next().await?;
        if data.kind == "resize" {
            continue;
        }
        assert_eq!(data.kind, "stdin");
        for byte in data.bytes {
            let digits = format!("{byte:02x} ");
            streams.send("stdout", digits.as_bytes(), false).await?;
            if byte == b'q' {
                return Ok(());
            }
        }
        if data.is_last {
            return Ok(());
        }
    }
}
