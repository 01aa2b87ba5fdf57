//! The wire format of protobuf: a sequence of numbered fields.

use super::{ProtobufError, malformed};

/// The content of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'b> {
    /// An integer.
    Number(u64),
    /// The bits of a floating-point number.
    Fixed(u64),
    /// Text, bytes or a message.
    Bytes(&'b [u8]),
    /// Fields between a start and an end mark, which are skipped. Kubernetes uses none.
    Group,
}

/// Reads a message field by field.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// Returns the number and content of the next field.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Piece<'b>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let field =
            u32::try_from(tag >> 3).map_err(|_| malformed("a field number is too large"))?;
        if field == 0 {
            return Err(malformed(format!("illegal tag 0 (wire type {})", tag & 7)));
        }
        let piece = match tag & 7 {
            3 => {
                self.skip_group()?;
                Piece::Group
            }
            4 => return Err(malformed("wiretype end group for non-group")),
            0 => Piece::Number(self.number()?),
            1 => {
                let (bytes, rest) = self
                    .rest
                    .split_first_chunk::<8>()
                    .ok_or_else(|| malformed("it is cut off"))?;
                self.rest = rest;
                Piece::Fixed(u64::from_le_bytes(*bytes))
            }
            5 => {
                let (bytes, rest) = self
                    .rest
                    .split_first_chunk::<4>()
                    .ok_or_else(|| malformed("it is cut off"))?;
                self.rest = rest;
                Piece::Fixed(u32::from_le_bytes(*bytes).into())
            }
            2 => {
                let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                if length > self.rest.len() {
                    return Err(malformed("it is cut off"));
                }
                let (bytes, rest) = self.rest.split_at(length);
                self.rest = rest;
                Piece::Bytes(bytes)
            }
            other => {
                return Err(malformed(format!("unknown wire type {other}")));
            }
        };
        Ok(Some((field, piece)))
    }

    /// Skips the content and the end of a group. Counts nested groups instead of recursing into
    /// them, so their depth takes no stack.
    fn skip_group(&mut self) -> Result<(), ProtobufError> {
        let mut depth = 1_usize;
        while depth > 0 {
            // The end marks need not have the right field numbers.
            match self.number()? & 7 {
                3 => depth += 1,
                4 => depth -= 1,
                0 => {
                    self.number()?;
                }
                1 => self.skip(8)?,
                2 => {
                    let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                    self.skip(length)?;
                }
                5 => self.skip(4)?,
                other => return Err(malformed(format!("illegal wireType {other}"))),
            }
        }
        Ok(())
    }

    fn skip(&mut self, length: usize) -> Result<(), ProtobufError> {
        let rest = self.rest.get(length..);
        self.rest = rest.ok_or_else(|| malformed("it is cut off"))?;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.rest.split_first() else {
                return Err(malformed("it is cut off"));
            };
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(malformed("a number is too long"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u32, Piece<'_>)>, ProtobufError> {
        let mut reader = Reader::new(bytes);
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    /// KV-21: groups of any depth are skipped, and 0 is not a valid field number.
    #[test]
    fn groups_are_skipped() {
        let known = (1, Piece::Number(5));
        let skipped = (5, Piece::Group);
        let deep = [vec![0x2b; 100_000], vec![0x2c; 100_000], vec![0x08, 5]].concat();
        for accepted in [
            &b"\x2b\x2c\x08\x05"[..],
            b"\x2b\x08\x01\x12\x01a\x1d1234\x2112345678\x2c\x08\x05",
            &deep,
        ] {
            assert_eq!(read(accepted), Ok(vec![skipped, known]));
        }
        for bad in [
            &b"\x2b"[..],
            b"\x2b\x12\x05a\x2c",
            b"\x2b\x2f\x2c",
            b"\x2c",
            b"\x2e",
            b"\x00\x00",
            b"\x02\x00",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
