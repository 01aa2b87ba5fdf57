//! Pure. The frames of SPDY/3.1 that the client of a kubelet needs (CN-62 to CN-64).
//!
//! Streams have no flow control, and the headers of answers have no meaning, so their compressed
//! blocks are skipped. Headers that are sent are in blocks of deflate without compression, which
//! need neither a window nor the dictionary of SPDY.

use bytes::{BufMut, BytesMut};

/// The frame is the last one of its half of the stream.
const FIN: u8 = 1;

/// The first bit of control frames, and the version.
const CONTROL: u16 = 0x8003;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// The most bytes of a data frame, and of a block of deflate.
const PIECE_BYTES: usize = 0xffff;

/// The header of zlib: a window of 32 KiB, and no dictionary.
const ZLIB: [u8; 2] = [0x78, 0x01];

/// The bytes of a frame before its content.
const HEAD: usize = 8;

/// The beginning of a control frame's content that is read. The rest is skipped.
const READ: usize = 8;

/// Why a stream was reset: the peer may not open streams.
const REFUSED: u32 = 3;

/// An event on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// Bytes of a stream, which may be a part of a frame.
    Data {
        /// The stream.
        stream: u32,
        /// The bytes.
        bytes: &'b [u8],
        /// Whether the peer sends no more on it.
        is_last: bool,
    },
    /// The peer has accepted a stream, or sent headers on it.
    Headers {
        /// The stream.
        stream: u32,
        /// Whether the peer sends no more on it.
        is_last: bool,
    },
    /// The peer has ended both halves of a stream.
    Reset(u32),
    /// The peer has opened a stream.
    Opened(u32),
    /// A ping, which is sent back if the peer has begun it: its number is even then.
    Ping(u32),
    /// The peer ends the connection.
    GoAway,
}

/// A control frame of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer does not speak SPDY/3.1")]
pub struct WrongVersion;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the head of a frame.
    Head,
    /// In a data frame, of which so many bytes are left.
    Data {
        stream: u32,
        left: usize,
        is_last: bool,
    },
    /// In a control frame, of which so many bytes are left.
    Control { kind: u16, flags: u8, left: usize },
}

/// Reads the frames of a peer.
#[derive(Debug)]
pub struct Reader {
    place: Place,
    /// The head of the frame, or the beginning of the content of a control frame.
    kept: [u8; HEAD],
    have: usize,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            place: Place::Head,
            kept: [0; HEAD],
            have: 0,
        }
    }
}

impl Reader {
    /// Takes the next event from the front of some bytes, or `None` when all are read.
    ///
    /// # Errors
    /// [`WrongVersion`]. The connection can't be read further.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<Event<'b>>, WrongVersion> {
        loop {
            match self.place {
                Place::Head => {
                    if !self.fill(bytes, HEAD) {
                        return Ok(None);
                    }
                    self.begin()?;
                    if let Place::Data {
                        stream,
                        left: 0,
                        is_last,
                    } = self.place
                    {
                        self.place = Place::Head;
                        let bytes = &[];
                        return Ok(Some(Event::Data {
                            stream,
                            bytes,
                            is_last,
                        }));
                    }
                }
                Place::Data {
                    stream,
                    left,
                    is_last,
                } => {
                    let taken = take(bytes, left);
                    if taken.is_empty() {
                        return Ok(None);
                    }
                    let left = left - taken.len();
                    self.place = match left {
                        0 => Place::Head,
                        left => Place::Data {
                            stream,
                            left,
                            is_last,
                        },
                    };
                    return Ok(Some(Event::Data {
                        stream,
                        bytes: taken,
                        is_last: is_last && left == 0,
                    }));
                }
                Place::Control { kind, flags, left } => {
                    let missing = READ.min(self.have + left) - self.have;
                    let begin = take(bytes, missing);
                    self.keep(begin);
                    let skipped = match begin.len() == missing {
                        true => take(bytes, left - missing),
                        false => &[],
                    };
                    let left = left - begin.len() - skipped.len();
                    if left > 0 {
                        self.place = Place::Control { kind, flags, left };
                        return Ok(None);
                    }
                    self.place = Place::Head;
                    let event = self.control(kind, flags);
                    self.have = 0;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Reads the head of a frame, which is complete.
    fn begin(&mut self) -> Result<(), WrongVersion> {
        let [a, b, c, d, flags, e, f, g] = self.kept;
        let left = u32::from_be_bytes([0, e, f, g]) as usize;
        self.have = 0;
        self.place = match a & 0x80 {
            0 => Place::Data {
                stream: u32::from_be_bytes([a, b, c, d]),
                left,
                is_last: flags & FIN != 0,
            },
            _ if u16::from_be_bytes([a, b]) != CONTROL => return Err(WrongVersion),
            _ => Place::Control {
                kind: u16::from_be_bytes([c, d]),
                flags,
                left,
            },
        };
        Ok(())
    }

    /// The meaning of a control frame. One that is too short has none.
    fn control<'b>(&self, kind: u16, flags: u8) -> Option<Event<'b>> {
        let [a, b, c, d, ..] = self.kept;
        let number = u32::from_be_bytes([a, b, c, d]);
        let stream = number & 0x7fff_ffff;
        let is_last = flags & FIN != 0;
        match kind {
            _ if self.have < 4 => None,
            SYN_STREAM => Some(Event::Opened(stream)),
            SYN_REPLY | HEADERS => Some(Event::Headers { stream, is_last }),
            RST_STREAM => Some(Event::Reset(stream)),
            PING => Some(Event::Ping(number)),
            GOAWAY => Some(Event::GoAway),
            _ => None,
        }
    }

    /// Keeps bytes until so many are there. Returns whether they are.
    fn fill(&mut self, bytes: &mut &[u8], wanted: usize) -> bool {
        let taken = take(bytes, wanted - self.have);
        self.keep(taken);
        self.have == wanted
    }

    fn keep(&mut self, bytes: &[u8]) {
        let end = self.have + bytes.len();
        if let Some(place) = self.kept.get_mut(self.have..end) {
            place.copy_from_slice(bytes);
            self.have = end;
        }
    }
}

/// Takes at most so many bytes from the front.
fn take<'b>(bytes: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    taken
}

/// Writes the frames of a client.
#[derive(Debug, Default)]
pub struct Writer {
    /// Whether the header of zlib was written, which all header blocks share.
    has_begun: bool,
}

impl Writer {
    /// Opens a stream. Names of headers are in lower case; together they are far shorter than a
    /// frame.
    pub fn open(&mut self, to: &mut BytesMut, stream: u32, headers: &[(&str, &str)]) {
        let mut block = BytesMut::new();
        block.put_u32(headers.len() as u32);
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.put_u32(text.len() as u32);
            block.put_slice(text.as_bytes());
        }
        let mut packed = BytesMut::new();
        if !self.has_begun {
            packed.put_slice(&ZLIB);
            self.has_begun = true;
        }
        for piece in block.chunks(PIECE_BYTES) {
            let length = piece.len() as u16;
            packed.put_u8(0);
            packed.put_u16_le(length);
            packed.put_u16_le(!length);
            packed.put_slice(piece);
        }
        control(to, SYN_STREAM, 10 + packed.len());
        to.put_u32(stream);
        // No associated stream, and no priority.
        to.put_u32(0);
        to.put_u16(0);
        to.put_slice(&packed);
    }
}

/// Writes bytes of a stream. `is_last` ends this half of it.
pub fn data(to: &mut BytesMut, stream: u32, bytes: &[u8], is_last: bool) {
    let mut pieces = bytes.chunks(PIECE_BYTES).peekable();
    let mut piece = pieces.next().unwrap_or_default();
    loop {
        let is_end = pieces.peek().is_none();
        to.put_u32(stream);
        to.put_u32((u32::from(is_last && is_end) << 24) | piece.len() as u32);
        to.put_slice(piece);
        match pieces.next() {
            Some(next) => piece = next,
            None => return,
        }
    }
}

/// Writes a ping, or the answer to one.
pub fn ping(to: &mut BytesMut, number: u32) {
    control(to, PING, 4);
    to.put_u32(number);
}

/// Refuses a stream that the peer has opened.
pub fn refuse(to: &mut BytesMut, stream: u32) {
    control(to, RST_STREAM, 8);
    to.put_u32(stream);
    to.put_u32(REFUSED);
}

fn control(to: &mut BytesMut, kind: u16, length: usize) {
    to.put_u16(CONTROL);
    to.put_u16(kind);
    to.put_u32(length as u32);
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;

    /// All events, with the bytes of neighbouring pieces of a stream joined, when the bytes arrive
    /// in pieces of this size.
    fn events(bytes: &[u8], size: usize) -> Result<Vec<String>, WrongVersion> {
        let mut reader = Reader::default();
        let (mut all, mut joins) = (Vec::<String>::new(), None);
        for mut piece in bytes.chunks(size) {
            while let Some(event) = reader.next(&mut piece)? {
                let Event::Data {
                    stream,
                    bytes,
                    is_last,
                } = event
                else {
                    joins = None;
                    all.push(format!("{event:?}"));
                    continue;
                };
                let text = std::str::from_utf8(bytes).unwrap();
                match all.last_mut() {
                    Some(last) if joins == Some(stream) => last.push_str(text),
                    _ => all.push(format!("{stream}: {text}")),
                }
                joins = Some(stream);
                if is_last {
                    joins = None;
                    all.push(format!("the end of {stream}"));
                }
            }
            assert!(piece.is_empty());
        }
        Ok(all)
    }

    #[test]
    fn frames_are_read_however_they_are_split_cn_62_cn_63() {
        let mut bytes = BytesMut::new();
        control(&mut bytes, SYN_REPLY, 4 + 300);
        bytes.put_u32(1);
        bytes.put_bytes(7, 300);
        // Settings, and a window update.
        control(&mut bytes, 4, 12);
        bytes.put_bytes(0, 12);
        control(&mut bytes, 9, 8);
        bytes.put_bytes(0, 8);
        data(&mut bytes, 5, b"hello", false);
        data(&mut bytes, 5, b"", false);
        data(&mut bytes, 7, b"world", true);
        ping(&mut bytes, 2);
        refuse(&mut bytes, 3);
        data(&mut bytes, 5, b"", true);
        control(&mut bytes, GOAWAY, 8);
        bytes.put_bytes(0, 8);
        // Too short to mean anything.
        control(&mut bytes, PING, 0);
        data(&mut bytes, 1, b"x", true);
        let expected = [
            "Headers { stream: 1, is_last: false }",
            "5: hello",
            "7: world",
            "the end of 7",
            "Ping(2)",
            "Reset(3)",
            "5: ",
            "the end of 5",
            "GoAway",
            "1: x",
            "the end of 1",
        ];
        for size in 1..=bytes.len() {
            assert_eq!(
                events(&bytes, size).unwrap(),
                expected,
                "in pieces of {size}"
            );
        }
    }

    #[test]
    fn another_protocol_is_refused() {
        assert_eq!(events(&[0x80, 2, 0, 1, 0, 0, 0, 0], 8), Err(WrongVersion));
        assert_eq!(events(&[0xff; 100], 3), Err(WrongVersion));
    }

    #[test]
    fn headers_are_a_stream_of_zlib_cn_63() {
        let (mut writer, mut packed, mut frames) = (Writer::default(), Vec::new(), BytesMut::new());
        for (stream, kind) in [(1, "error"), (3, "stdin")] {
            let mut frame = BytesMut::new();
            writer.open(&mut frame, stream, &[("streamtype", kind)]);
            assert_eq!(events(&frame, 9).unwrap(), [format!("Opened({stream})")]);
            packed.extend_from_slice(&frame[HEAD + 10..]);
            frames.unsplit(frame);
        }
        assert_eq!(frames[..8], [0x80, 3, 0, 1, 0, 0, 0, frames[7]]);
        let mut read = vec![0; 2 * 27];
        ZlibDecoder::new(&packed[..]).read_exact(&mut read).unwrap();
        let block = |kind: &str| {
            let mut block = b"\0\0\0\x01\0\0\0\x0astreamtype\0\0\0\x05".to_vec();
            block.extend(kind.as_bytes());
            block
        };
        assert_eq!(read, [block("error"), block("stdin")].concat());
    }

    #[test]
    fn long_data_are_written_in_frames() {
        let bytes = vec![b'a'; 2 * PIECE_BYTES + 1];
        let mut frames = BytesMut::new();
        data(&mut frames, 9, &bytes, true);
        assert_eq!(frames.len(), bytes.len() + 3 * HEAD);
        let text = String::from_utf8(bytes).unwrap();
        let expected = [format!("9: {text}"), "the end of 9".to_owned()];
        assert_eq!(events(&frames, 70_000).unwrap(), expected);
    }
}
