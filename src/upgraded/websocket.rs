//! Pure. The frames of WebSocket, on the side of the server (RFC 6455; CN-55 to CN-60).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, BytesMut};

/// The frame is the last one of its message.
const FIN: u8 = 0x80;
/// The bits that only extensions use.
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The most bytes that a control frame may have.
const CONTROL_MAX: usize = 125;

const MASK_BYTES: usize = 4;

/// The longest head of a frame: 2 bytes, the length, the mask.
const HEAD_MAX: usize = 14;

/// A server appends this to a client's key before it hashes it.
const ACCEPTED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCode {
    /// Its purpose is fulfilled.
    Normal,
    /// The server stops.
    GoingAway,
    /// The client violates the protocol.
    ProtocolError,
    /// A message of the client is too long.
    TooLong,
    /// The messages break off, and are not complete.
    BrokenOff,
}

impl CloseCode {
    fn number(self) -> u16 {
        match self {
            CloseCode::Normal => 1000,
            CloseCode::GoingAway => 1001,
            CloseCode::ProtocolError => 1002,
            CloseCode::TooLong => 1009,
            CloseCode::BrokenOff => 1011,
        }
    }
}

/// An event on the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// Bytes of a message, which may be a part of it.
    Data {
        /// Whether they are its first ones.
        is_first: bool,
        /// The bytes.
        bytes: &'b [u8],
        /// Whether they are its last ones.
        is_last: bool,
    },
    /// The client asks for an answer with these bytes, at most 125.
    Ping(Vec<u8>),
    /// The client closes the connection.
    Close,
}

/// Why a client can't be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// RFC 6455, 5.1.
    #[error("a frame of the client is not masked")]
    Unmasked,
    /// No extension was agreed on.
    #[error("a frame has reserved bits")]
    Reserved,
    /// An unknown kind of frame.
    #[error("a frame has an unknown opcode")]
    Opcode,
    /// A control frame that is long, or in parts.
    #[error("a control frame is longer than 125 bytes, or has several parts")]
    Control,
    /// A continuation without a beginning, or a beginning within a message.
    #[error("the parts of a message are in disorder")]
    Order,
    /// More than 2^63 bytes.
    #[error("a frame is too long")]
    Length,
}

/// Returns the value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`.
pub fn accept(key: &str) -> String {
    let joined = format!("{key}{ACCEPTED}");
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, joined.as_bytes()))
}

/// The number of bytes for the length that follow the first two of a head.
fn extension(second: u8) -> usize {
    match second & !MASKED {
        126 => 2,
        127 => 8,
        _ => 0,
    }
}

/// The length of a frame's content. `rest` is the complete head without its first two bytes.
fn content_length(second: u8, rest: &[u8; HEAD_MAX - 2]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *rest;
    match second & !MASKED {
        126 => u16::from_be_bytes([a, b]).into(),
        127 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        short => short.into(),
    }
}

/// The place in the bytes of a peer that are only copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// The bytes of the content that are still to come.
    left: u64,
    /// The head of the next frame as far as it is known.
    head: [u8; HEAD_MAX],
    filled: usize,
}

impl Passed {
    /// Follows further bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let passed = self.pass_frame(bytes);
            bytes = bytes.get(passed..).unwrap_or_default();
        }
    }

    /// Follows further bytes to the end of the frame. Returns how many these are.
    pub(super) fn pass_frame(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        while let Some(byte) = bytes.get(passed) {
            if self.left > 0 {
                let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                let content = left.min(bytes.len() - passed);
                self.left -= content as u64;
                passed += content;
            } else {
                if let Some(place) = self.head.get_mut(self.filled) {
                    *place = *byte;
                }
                self.filled += 1;
                passed += 1;
                let Some(left) = self.content() else {
                    continue;
                };
                *self = Passed {
                    left,
                    ..Passed::default()
                };
            }
            if self.left == 0 {
                break;
            }
        }
        passed
    }

    /// Whether the bytes so far end with the end of a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        *self == Passed::default()
    }

    /// The length of the content, if the head is complete.
    fn content(&self) -> Option<u64> {
        let [_, second, rest @ ..] = self.head;
        let mask = match second & MASKED {
            0 => 0,
            _ => MASK_BYTES,
        };
        let is_complete = self.filled >= 2 + extension(second) + mask;
        is_complete.then(|| content_length(second, &rest))
    }
}

/// A frame whose content is being read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_final: bool,
    /// Whether it begins a message, and none of its bytes has been read.
    is_first: bool,
    left: u64,
    mask: [u8; 4],
}

/// Reads the frames of a client.
#[derive(Debug, Default)]
pub struct Reader {
    head: [u8; HEAD_MAX],
    have: usize,
    frame: Option<Frame>,
    /// Whether a message has begun whose last frame has not come.
    in_message: bool,
    /// The content of a control frame. It takes no memory between such frames.
    control: Vec<u8>,
}

impl Reader {
    /// Takes the next event from the front of some bytes, which are unmasked in place, or `None`
    /// when all are read.
    ///
    /// # Errors
    /// [`Fault`]. The connection can't be read further.
    pub fn next<'b>(&mut self, bytes: &mut &'b mut [u8]) -> Result<Option<Event<'b>>, Fault> {
        loop {
            let Some(mut frame) = self.frame else {
                if !self.read_head(bytes)? {
                    return Ok(None);
                }
                continue;
            };
            let most = usize::try_from(frame.left).unwrap_or(usize::MAX);
            let taken = take(bytes, most);
            if taken.is_empty() && frame.left > 0 {
                return Ok(None);
            }
            unmask(taken, &mut frame.mask);
            frame.left -= taken.len() as u64;
            let is_complete = frame.left == 0;
            let is_first = std::mem::take(&mut frame.is_first);
            self.frame = (!is_complete).then_some(frame);
            if frame.opcode >= CLOSE {
                self.control.extend_from_slice(taken);
                if !is_complete {
                    continue;
                }
                let content = std::mem::take(&mut self.control);
                match frame.opcode {
                    PING => return Ok(Some(Event::Ping(content))),
                    CLOSE => return Ok(Some(Event::Close)),
                    _ => continue,
                }
            }
            let is_last = is_complete && frame.is_final;
            // An empty frame within a message says nothing.
            if taken.is_empty() && !is_first && !is_last {
                continue;
            }
            return Ok(Some(Event::Data {
                is_first,
                bytes: taken,
                is_last,
            }));
        }
    }

    /// Reads the head of a frame. Returns whether it is complete.
    fn read_head(&mut self, bytes: &mut &mut [u8]) -> Result<bool, Fault> {
        loop {
            let wanted = match self.have {
                0 | 1 => 2,
                _ => 2 + extension(self.head[1]) + MASK_BYTES,
            };
            if self.have == wanted {
                break;
            }
            let taken = take(bytes, wanted - self.have);
            if taken.is_empty() {
                return Ok(false);
            }
            let end = self.have + taken.len();
            if let Some(place) = self.head.get_mut(self.have..end) {
                place.copy_from_slice(taken);
            }
            self.have = end;
            if self.have >= 2 && wanted == 2 {
                self.check()?;
            }
        }
        let [_, second, rest @ ..] = self.head;
        let left = content_length(second, &rest);
        if left >> 63 != 0 {
            return Err(Fault::Length);
        }
        let mask = rest.get(extension(second)..).unwrap_or_default();
        let mask = mask.first_chunk().copied().unwrap_or_default();
        self.have = 0;
        let opcode = self.head[0] & 0x0f;
        let is_final = self.head[0] & FIN != 0;
        if opcode < CLOSE {
            self.in_message = !is_final;
        }
        self.frame = Some(Frame {
            opcode,
            is_final,
            is_first: matches!(opcode, TEXT | BINARY),
            left,
            mask,
        });
        Ok(true)
    }

    /// Checks the first two bytes of a head.
    fn check(&self) -> Result<(), Fault> {
        let [first, second, ..] = self.head;
        let is_final = first & FIN != 0;
        let length = usize::from(second & !MASKED);
        match first & 0x0f {
            _ if first & RESERVED != 0 => Err(Fault::Reserved),
            _ if second & MASKED == 0 => Err(Fault::Unmasked),
            CLOSE | PING | PONG if length > CONTROL_MAX || !is_final => Err(Fault::Control),
            CLOSE | PING | PONG => Ok(()),
            CONTINUATION if self.in_message => Ok(()),
            TEXT | BINARY if !self.in_message => Ok(()),
            CONTINUATION | TEXT | BINARY => Err(Fault::Order),
            _ => Err(Fault::Opcode),
        }
    }
}

/// Takes at most so many bytes from the front.
fn take<'b>(bytes: &mut &'b mut [u8], most: usize) -> &'b mut [u8] {
    let all = std::mem::take(bytes);
    let (taken, rest) = all.split_at_mut(most.min(all.len()));
    *bytes = rest;
    taken
}

/// Removes the mask from bytes, and turns it to the place after them.
fn unmask(bytes: &mut [u8], mask: &mut [u8; 4]) {
    // Words of eight, because a relayed byte costs little else.
    let word = u64::from_ne_bytes([
        mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3],
    ]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    mask.rotate_left(rest.len() % 4);
}

/// Writes the head of a frame. Frames of a server have no mask.
fn head(to: &mut BytesMut, opcode: u8, length: usize) {
    to.put_u8(FIN | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => to.put_u8(short),
        (_, Ok(length)) => {
            to.put_u8(126);
            to.put_u16(length);
        }
        _ => {
            to.put_u8(127);
            to.put_u64(length as u64);
        }
    }
}

/// How a message is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// As text in UTF-8.
    Text,
    /// As bytes.
    Binary,
}

/// Writes the head of a message, whose content follows it.
pub fn message_head(to: &mut BytesMut, kind: MessageKind, length: usize) {
    let opcode = match kind {
        MessageKind::Text => TEXT,
        MessageKind::Binary => BINARY,
    };
    head(to, opcode, length);
}

/// Writes a binary message of a channel (CN-55).
pub fn message(to: &mut BytesMut, channel: u8, bytes: &[u8]) {
    head(to, BINARY, 1 + bytes.len());
    to.put_u8(channel);
    to.put_slice(bytes);
}

/// Writes a binary message.
pub fn binary(to: &mut BytesMut, bytes: &[u8]) {
    head(to, BINARY, bytes.len());
    to.put_slice(bytes);
}

/// Writes the answer to a ping.
pub fn pong(to: &mut BytesMut, content: &[u8]) {
    head(to, PONG, content.len());
    to.put_slice(content);
}

/// Writes the last frame.
pub fn close(to: &mut BytesMut, code: CloseCode) {
    head(to, CLOSE, 2);
    to.put_u16(code.number());
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    /// A frame of a client.
    fn frame(first: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = BytesMut::new();
        head(&mut frame, first & 0x0f, content.len());
        let mut frame = frame.to_vec();
        frame[0] = first;
        frame[1] |= MASKED;
        frame.extend(MASK);
        let masked = content.iter().zip(MASK.iter().cycle());
        frame.extend(masked.map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// The events when the bytes arrive in pieces of this size: messages with their parts joined.
    fn events(bytes: &[u8], size: usize) -> Result<Vec<String>, Fault> {
        let mut bytes = bytes.to_vec();
        let (mut reader, mut all, mut joined) = (Reader::default(), Vec::new(), Vec::new());
        for mut piece in bytes.chunks_mut(size) {
            while let Some(event) = reader.next(&mut piece)? {
                match event {
                    Event::Data {
                        is_first,
                        bytes,
                        is_last,
                    } => {
                        assert!(!is_first || joined.is_empty());
                        joined.extend_from_slice(bytes);
                        if is_last {
                            let message = std::mem::take(&mut joined);
                            all.push(String::from_utf8(message).unwrap());
                        }
                    }
                    other => all.push(format!("{other:?}")),
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn messages_are_read_however_they_are_split_cn_59() {
        let long = "x".repeat(300);
        let longer = "y".repeat(70_000);
        let bytes = [
            frame(FIN | BINARY, b"one"),
            frame(FIN | TEXT, b""),
            frame(BINARY, b"in "),
            frame(FIN | PING, b"are you there"),
            frame(CONTINUATION, b""),
            frame(CONTINUATION, b"three "),
            frame(FIN | PONG, b""),
            frame(FIN | CONTINUATION, b"parts"),
            frame(FIN | TEXT, long.as_bytes()),
            frame(FIN | BINARY, longer.as_bytes()),
            frame(FIN | PING, b""),
            frame(FIN | CLOSE, b"\x03\xe8bye"),
        ]
        .concat();
        let ping = |text: &str| format!("{:?}", Event::Ping(text.as_bytes().to_vec()));
        let expected = [
            "one",
            "",
            &ping("are you there"),
            "in three parts",
            &long,
            &longer,
            &ping(""),
            "Close",
        ];
        for size in (1..400).chain([1_000, 69_999, bytes.len()]) {
            assert_eq!(
                events(&bytes, size).unwrap(),
                expected,
                "in pieces of {size}"
            );
        }
    }

    #[test]
    fn faults_are_found_in_the_first_two_bytes() {
        let long = [0; 126];
        for (bytes, fault) in [
            (vec![FIN | BINARY, 3], Fault::Unmasked),
            (frame(FIN | 0x40 | BINARY, b""), Fault::Reserved),
            (frame(FIN | 3, b""), Fault::Opcode),
            (frame(FIN | 11, b""), Fault::Opcode),
            (frame(PING, b""), Fault::Control),
            (frame(FIN | CLOSE, &long), Fault::Control),
            (frame(FIN | CONTINUATION, b""), Fault::Order),
            (
                [frame(TEXT, b"a"), frame(FIN | TEXT, b"")].concat(),
                Fault::Order,
            ),
            (
                [&[FIN | BINARY, MASKED | 127, 0x80][..], &[0; 11]].concat(),
                Fault::Length,
            ),
        ] {
            for size in 1..=bytes.len() {
                assert_eq!(
                    events(&bytes, size),
                    Err(fault),
                    "{bytes:?} in pieces of {size}"
                );
            }
        }
    }

    #[test]
    fn the_ends_of_frames_are_found_wherever_the_bytes_are_cut() {
        let server = |length| {
            let mut to = BytesMut::new();
            binary(&mut to, &vec![1; length]);
            to.to_vec()
        };
        let frames = [
            server(1),
            server(0),
            server(256),
            frame(FIN | TEXT, b"abc"),
            server(65_536),
        ];
        for size in [1, 3, 70_000] {
            let mut passed = Passed::default();
            for frame in &frames {
                for (number, part) in frame.chunks(size).enumerate() {
                    assert_eq!(passed.is_between_frames(), number == 0);
                    passed.pass(part);
                }
                assert!(passed.is_between_frames(), "{frame:?}");
            }
        }
    }

    #[test]
    fn the_key_of_rfc_6455_is_accepted_as_there() {
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn frames_of_the_server_have_no_mask_and_the_shortest_length() {
        let written = |write: &dyn Fn(&mut BytesMut)| {
            let mut to = BytesMut::new();
            write(&mut to);
            to.to_vec()
        };
        assert_eq!(written(&|to| message(to, 1, b"")), [0x82, 1, 1]);
        let text = written(&|to| message_head(to, MessageKind::Text, 2));
        assert_eq!(text, [0x81, 2]);
        assert_eq!(written(&|to| pong(to, b"p")), [0x8a, 1, b'p']);
        let close = written(&|to| close(to, CloseCode::GoingAway));
        assert_eq!(close, [0x88, 2, 0x03, 0xe9]);
        for (length, head) in [
            (125, &[0x82, 125][..]),
            (126, &[0x82, 126, 0, 126]),
            (65_535, &[0x82, 126, 0xff, 0xff]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let frame = written(&|to| binary(to, &vec![0; length]));
            assert_eq!(frame[..head.len()], *head);
            assert_eq!(frame.len(), head.len() + length);
        }
    }

    #[test]
    fn bytes_are_unmasked_at_any_place() {
        for begin in 0..20 {
            let plain: Vec<u8> = (0..40).collect();
            let masked = plain.iter().zip(MASK.iter().cycle());
            let mut bytes: Vec<u8> = masked.map(|(byte, mask)| byte ^ mask).collect();
            let (one, other) = bytes.split_at_mut(begin);
            let mut mask = MASK;
            unmask(one, &mut mask);
            unmask(other, &mut mask);
            assert_eq!(bytes, plain, "{begin}");
        }
    }
}
