//! Replaces bare LFs in HTTP/1.1 lines, which must end with CRLF, and fragments in request targets,
//! so that the parser refuses them.
//!
//! hyper's parser, like many others, accepts a bare LF as the end of a line. Some proxies do not,
//! so a proxy and the daemon would see different requests in the same bytes. This module follows
//! the bytes as they arrive through headers, bodies and the lines between chunks. In headers it
//! replaces a bare LF with a byte that the parser refuses with 400. Between chunks the parser
//! refuses a bare LF itself. In a trailer the connection breaks off.
//!
//! No request target may have a fragment. The parser would drop it, so that a request to delete
//! `secrets/#a` would delete all secrets. So a `#` in the request line is replaced, too.
//!
//! This module determines the length of a body as the parser does: `Transfer-Encoding` takes
//! precedence over `Content-Length`. A line that states a length and is longer than necessary is
//! treated like one with a bare LF. The parser refuses all other malformed headers, so the bytes
//! after those do not matter.

use std::io;

/// Replaces a bare LF and the `#` of a fragment. No line may contain it.
const UNREADABLE: u8 = 0;

/// How many bytes of a line are kept, enough to recognise it. A line that states the length of a
/// body or a chunk must not be longer.
const LINE_KEPT: usize = 64;

/// The headers that state the length of a body.
const LENGTH_HEADERS: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];

/// The position of the next byte within the stream of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the lines of the headers.
    Head,
    /// In a body. The number is that of the remaining bytes.
    Body(u64),
    /// In the line before a chunk.
    ChunkSize,
    /// In a chunk. The number is that of the remaining bytes, including the CRLF after the chunk.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailers,
    /// In a session, which is not HTTP.
    Session,
}

/// The parser state for the bytes of one connection.
#[derive(Debug)]
pub(super) struct Lines {
    place: Place,
    /// The start of the current line, in lower case.
    line: Vec<u8>,
    /// The number of bytes in the current line.
    length: u64,
    is_after_cr: bool,
    /// Whether the current headers have had their request line.
    has_request_line: bool,
    content_length: u64,
    is_chunked: bool,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines {
            place: Place::Head,
            line: Vec::new(),
            length: 0,
            is_after_cr: false,
            has_request_line: false,
            content_length: 0,
            is_chunked: false,
        }
    }
}

impl Lines {
    /// Reads bytes as they arrive and makes bare LFs in headers unreadable.
    ///
    /// # Errors
    /// A line of a trailer does not end with CRLF.
    pub(super) fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let passed = match self.place {
                Place::Session => return Ok(()),
                Place::Body(left) | Place::Chunk(left) => {
                    let passed = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    self.pass(left - passed as u64);
                    passed
                }
                Place::Head | Place::ChunkSize | Place::Trailers => {
                    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
                    let (text, rest) = bytes.split_at_mut(end);
                    if self.place == Place::Head
                        && !self.has_request_line
                        && let Some(fragment) = text.iter_mut().find(|byte| **byte == b'#')
                    {
                        *fragment = UNREADABLE;
                    }
                    self.read_text(text);
                    match rest.first_mut() {
                        Some(byte) => {
                            self.end_line(byte)?;
                            end + 1
                        }
                        None => end,
                    }
                }
            };
            bytes = bytes.get_mut(passed..).unwrap_or_default();
        }
        Ok(())
    }

    /// Lets all further bytes pass.
    pub(super) fn leave_http(&mut self) {
        self.place = Place::Session;
        self.line = Vec::new();
    }

    /// Sets the state after some bytes of a body or chunk, of which `left` are still to come.
    fn pass(&mut self, left: u64) {
        self.place = match (self.place, left) {
            (Place::Body(_), 0) => Place::Head,
            (Place::Chunk(_), 0) => Place::ChunkSize,
            (Place::Body(_), left) => Place::Body(left),
            (_, left) => Place::Chunk(left),
        };
    }

    /// Reads a part of a line.
    fn read_text(&mut self, text: &[u8]) {
        let Some(last) = text.last() else { return };
        self.is_after_cr = *last == b'\r';
        self.length += text.len() as u64;
        let kept = text.len().min(LINE_KEPT - self.line.len());
        let kept = text.get(..kept).unwrap_or_default();
        self.line.extend(kept.iter().map(u8::to_ascii_lowercase));
    }

    /// Reads the LF at the end of a line.
    fn end_line(&mut self, byte: &mut u8) -> io::Result<()> {
        let is_empty = self.length <= 1;
        let mut kept = std::mem::take(&mut self.line);
        let line = kept.trim_ascii_end();
        let is_cut = self.length > LINE_KEPT as u64 && self.says_length(line);
        match self.place {
            // The parser itself refuses a bare LF here.
            Place::ChunkSize if !self.is_after_cr => {}
            Place::Trailers if !self.is_after_cr => {
                let what = "a line of a trailer does not end with CRLF";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            _ if !self.is_after_cr || is_cut => *byte = UNREADABLE,
            _ => {}
        }
        match self.place {
            Place::Head if is_empty => self.end_head(),
            Place::Head => {
                self.has_request_line = true;
                self.read_header(line);
            }
            Place::ChunkSize => self.place = chunk(line),
            _ if is_empty => self.place = Place::Head,
            _ => {}
        }
        self.length = 0;
        self.is_after_cr = false;
        kept.clear();
        self.line = kept;
        Ok(())
    }

    /// Whether the line states the length of a body or a chunk.
    fn says_length(&self, line: &[u8]) -> bool {
        match self.place {
            Place::Head => LENGTH_HEADERS.iter().any(|name| line.starts_with(name)),
            Place::ChunkSize => true,
            _ => false,
        }
    }

    fn end_head(&mut self) {
        self.place = match (self.is_chunked, self.content_length) {
            (true, _) => Place::ChunkSize,
            (false, 0) => Place::Head,
            (false, length) => Place::Body(length),
        };
        self.has_request_line = false;
        self.is_chunked = false;
        self.content_length = 0;
    }

    fn read_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        match name {
            b"content-length" => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                self.content_length = text.parse().unwrap_or_default();
            }
            b"transfer-encoding" => self.is_chunked = true,
            _ => {}
        }
    }
}

/// The state after the line before a chunk.
fn chunk(line: &[u8]) -> Place {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let text: String = digits.map(|byte| char::from(*byte)).collect();
    match u64::from_str_radix(&text, 16) {
        Ok(0) | Err(_) => Place::Trailers,
        Ok(length) => Place::Chunk(length.saturating_add(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of bare LFs in headers, and whether the connection breaks off after the headers.
    fn refused(bytes: &[u8]) -> (Vec<usize>, bool) {
        let mut whole = bytes.to_vec();
        let breaks_off = Lines::default().read(&mut whole).is_err();
        for size in 1..bytes.len() {
            let mut lines = Lines::default();
            let mut parts = bytes.to_vec();
            let broken = parts.chunks_mut(size).any(|part| lines.read(part).is_err());
            assert_eq!((&parts, broken), (&whole, breaks_off), "in parts of {size}");
        }
        let changed = whole.iter().zip(bytes).enumerate();
        let changed = changed.filter(|(_, (read, sent))| read != sent);
        (changed.map(|(at, _)| at).collect(), breaks_off)
    }

    #[test]
    fn good_requests_pass_whatever_their_bodies_hold() {
        for good in [
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n\n\n\n\n\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\n\n\n\n\r\nA;x=y\r\n0123456\n89\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(refused(good.as_bytes()), (vec![], false), "{good:?}");
        }
    }

    #[test]
    fn bare_line_feeds_are_refused_wherever_a_line_ends() {
        for (bad, expected) in [
            ("GET / HTTP/1.1\nhost: a\r\n\r\n", 14),
            ("GET / HTTP/1.1\r\nhost: a\n\r\n", 23),
            ("GET / HTTP/1.1\r\nhost: a\r\n\n", 25),
            ("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\n\r\n", 32),
            (
                "P / HTTP/1.1\r\ncontent-length: 2\r\n\r\n\n\nP / HTTP/1.1\n\r\n",
                49,
            ),
        ] {
            assert_eq!(refused(bad.as_bytes()), (vec![expected], false), "{bad:?}");
        }
        let trailer = "P / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\n\r\n";
        assert_eq!(refused(trailer.as_bytes()), (vec![], true));
        // The parser must see these unchanged.
        for line in ["1\n", "1;a\nXX\r\n"] {
            let bad = format!("P / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{line}");
            assert_eq!(refused(bad.as_bytes()), (vec![], false), "{bad:?}");
        }
    }

    #[test]
    fn fragments_are_refused_in_request_lines_alone() {
        for (bad, expected) in [
            ("GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n", 6),
            ("\r\nGET /a/?b#c HTTP/1.1\r\n\r\n", 11),
            ("GET / HTTP/1.1\r\n\r\nGET /# HTTP/1.1\r\n\r\n", 23),
        ] {
            assert_eq!(refused(bad.as_bytes()), (vec![expected], false), "{bad:?}");
        }
        let good = "P /%23 HTTP/1.1\r\nx: #\r\ncontent-length: 2\r\n\r\n##P / HTTP/1.1\r\n\r\n";
        assert_eq!(refused(good.as_bytes()), (vec![], false));
    }

    #[test]
    fn lengths_that_are_hidden_in_long_lines_are_refused() {
        for padding in [" ", "0"] {
            let padding = padding.repeat(LINE_KEPT);
            let bad = format!("P / HTTP/1.1\r\ncontent-length:{padding}9\r\n\r\nx");
            assert_eq!(refused(bad.as_bytes()).0.len(), 1, "{bad:?}");
        }
        let zeros = "0".repeat(LINE_KEPT);
        let bad = format!("P / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{zeros}1\r\n\n\r\n");
        assert_eq!(refused(bad.as_bytes()).0.len(), 1);
        let long = format!("P / HTTP/1.1\r\nx: {zeros}{zeros}\r\n\r\n");
        assert_eq!(refused(long.as_bytes()), (vec![], false));
    }

    #[test]
    fn long_lines_keep_little() {
        let mut lines = Lines::default();
        let mut line = vec![b'a'; 100_000];
        lines.read(&mut line).unwrap();
        assert!(lines.line.capacity() <= 2 * LINE_KEPT);
    }
}
