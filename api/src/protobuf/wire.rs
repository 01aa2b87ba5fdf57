//! The wire format of protobuf: a sequence of numbered fields.

use super::{ProtobufError, malformed};

/// The content of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'b> {
    /// A number.
    Number(u64),
    /// The bits of a number with a fraction.
    Fixed(u64),
    /// Text, bytes or a message.
    Bytes(&'b [u8]),
}

/// Reads a message field by field.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// The next field's number and content.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Piece<'b>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let field =
            u32::try_from(tag >> 3).map_err(|_| malformed("a field number is too large"))?;
        let piece = match tag & 7 {
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
                return Err(malformed(format!(
                    "wire type {other} stands for nothing known"
                )));
            }
        };
        Ok(Some((field, piece)))
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
