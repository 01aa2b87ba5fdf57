//! Where the encoder writes: into memory, or into a number that only counts.
//!
//! Lengths stand before what they measure in protobuf. Counting a long list first lets it be sent
//! without ever being in memory as a whole.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::schema::push_number;

/// The most bytes of a number.
const NUMBER_BYTES_MAX: usize = 10;

/// A place for the bytes of a message.
pub(super) trait Out {
    /// The number of bytes so far.
    fn len(&self) -> usize;

    /// Appends bytes.
    fn extend(&mut self, bytes: &[u8]);

    /// Appends a byte.
    fn push(&mut self, byte: u8);

    /// Appends a number.
    fn number(&mut self, number: u64);

    /// Appends bytes that stand in it already.
    fn repeat(&mut self, range: Range<usize>);

    /// Replaces what stands behind `to` by what stands behind `from`, which is not before it.
    fn move_end(&mut self, from: usize, to: usize);

    /// Puts a few bytes in front of what stands behind `at`.
    fn insert(&mut self, at: usize, bytes: &[u8]);

    /// Takes what stands behind `at`. `None` if it was only counted.
    fn split_off(&mut self, at: usize) -> Option<Vec<u8>>;

    /// Appends what a function writes.
    fn written<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T;

    /// Appends the bytes that a text in base64 stands for. `None` if it is none.
    fn base64(&mut self, text: &str) -> Option<()>;

    /// Puts a tag and the length in front of what stands behind `start`.
    fn prefix(&mut self, start: usize, tag: u64) {
        let length = self.len() - start;
        let mut header = Header::default();
        header.number(tag);
        header.number(length as u64);
        self.insert(start, header.bytes());
    }
}

/// A tag and a length.
#[derive(Default)]
struct Header {
    bytes: [u8; 2 * NUMBER_BYTES_MAX],
    length: usize,
}

impl Header {
    fn number(&mut self, mut number: u64) {
        loop {
            let is_last = number < 0x80;
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = number as u8 | if is_last { 0 } else { 0x80 };
            }
            self.length += 1;
            number >>= 7;
            if is_last {
                break;
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Out for Vec<u8> {
    fn len(&self) -> usize {
        self.len()
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn push(&mut self, byte: u8) {
        self.push(byte);
    }

    fn number(&mut self, number: u64) {
        push_number(self, number);
    }

    fn repeat(&mut self, range: Range<usize>) {
        self.extend_from_within(range);
    }

    fn move_end(&mut self, from: usize, to: usize) {
        let length = self.len() - from;
        self.copy_within(from.., to);
        self.truncate(to + length);
    }

    fn insert(&mut self, at: usize, bytes: &[u8]) {
        let end = self.len();
        self.extend_from_slice(bytes);
        self.copy_within(at..end, at + bytes.len());
        if let Some(place) = self.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn split_off(&mut self, at: usize) -> Option<Vec<u8>> {
        Some(self.split_off(at))
    }

    fn written<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        write(self)
    }

    fn base64(&mut self, text: &str) -> Option<()> {
        STANDARD.decode_vec(text, self).ok()
    }
}

/// Counts the bytes of a message.
#[derive(Default)]
pub(super) struct Count(pub(super) usize);

impl Out for Count {
    fn len(&self) -> usize {
        self.0
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn push(&mut self, _byte: u8) {
        self.0 += 1;
    }

    fn number(&mut self, number: u64) {
        let bits = u64::BITS - (number | 1).leading_zeros();
        self.0 += bits.div_ceil(7) as usize;
    }

    fn repeat(&mut self, range: Range<usize>) {
        self.0 += range.len();
    }

    fn move_end(&mut self, from: usize, to: usize) {
        self.0 -= from - to;
    }

    fn insert(&mut self, _at: usize, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn split_off(&mut self, _at: usize) -> Option<Vec<u8>> {
        None
    }

    fn written<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut written = Vec::new();
        let done = write(&mut written);
        self.0 += written.len();
        done
    }

    fn base64(&mut self, text: &str) -> Option<()> {
        self.0 += STANDARD.decode(text).ok()?.len();
        Some(())
    }
}
