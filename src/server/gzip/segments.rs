//! Independent parts of a gzip body, which can be kept and used again.
//!
//! Each segment is compressed on its own and ends at a whole byte. Consecutive segments form one
//! deflate stream. The checksum of the stream follows from those of the segments, without reading
//! the text again.

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

use super::LEVEL;

/// Magic, deflate, no flags, no time, fastest, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// An empty last block.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Room for the markers that end a segment.
const FLUSH_BYTES: usize = 16;

/// A compressed piece of text.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    deflated: Box<[u8]>,
    checksum: Hasher,
}

impl Segment {
    /// Compresses a piece.
    pub fn of(text: &[u8]) -> Segment {
        let mut checksum = Hasher::new();
        checksum.update(text);
        let mut compress = Compress::new(Compression::new(LEVEL), false);
        let mut deflated = Vec::with_capacity(text.len() / 2 + FLUSH_BYTES);
        loop {
            let taken = compress.total_in() as usize;
            let rest = text.get(taken..).unwrap_or_default();
            // Compression into memory cannot fail. It stops when the buffer is full, and when all
            // output is written.
            let status = compress.compress_vec(rest, &mut deflated, FlushCompress::Full);
            let is_full = deflated.len() == deflated.capacity();
            let is_taken = compress.total_in() as usize == text.len();
            if status.is_err() || (is_taken && !is_full) {
                break;
            }
            deflated.reserve(deflated.capacity().max(FLUSH_BYTES));
        }
        Segment {
            deflated: deflated.into_boxed_slice(),
            checksum,
        }
    }

    /// The number of bytes that it takes to keep the segment.
    pub fn size(&self) -> usize {
        self.deflated.len() + size_of::<Segment>()
    }

    /// The compressed bytes.
    pub fn deflated(&self) -> &[u8] {
        &self.deflated
    }
}

/// Builds a gzip body from segments: header, segments, trailer.
#[derive(Debug, Default)]
pub struct Assembly {
    checksum: Hasher,
    length: u32,
    has_begun: bool,
}

impl Assembly {
    /// Writes the next segment, which holds `length` bytes of text.
    pub fn push(&mut self, segment: &Segment, length: usize, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(&HEADER);
        }
        out.extend_from_slice(segment.deflated());
        self.checksum.combine(&segment.checksum);
        // Modulo 2^32, as the format requires.
        self.length = self.length.wrapping_add(length as u32);
    }

    /// Writes the end of the body.
    pub fn finish(self, out: &mut Vec<u8>) {
        if !self.has_begun {
            out.extend_from_slice(&HEADER);
        }
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&self.checksum.finalize().to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::unpacked;
    use super::*;

    fn assembled(texts: &[&[u8]]) -> Vec<u8> {
        let mut assembly = Assembly::default();
        let mut out = Vec::new();
        for text in texts {
            assembly.push(&Segment::of(text), text.len(), &mut out);
        }
        assembly.finish(&mut out);
        out
    }

    #[test]
    fn segments_in_a_row_are_one_gzip_body() {
        let noise: Vec<u8> = (0..70_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let even = b"even ".repeat(40_000);
        for texts in [
            &[][..],
            &[b"".as_slice()],
            &[b"a"],
            &[&noise, b"", &even, b"end"],
            &[&even, &even, &noise],
        ] {
            assert_eq!(unpacked(&assembled(texts)), texts.concat());
        }
    }

    #[test]
    fn what_repeats_becomes_small() {
        let even = b"even ".repeat(40_000);
        assert!(Segment::of(&even).size() < even.len() / 50);
    }
}
