//! Splits the bytes of a backup into its parts and checks them. Pure. The bytes are untrusted:
//! decoding never takes more memory than one frame needs, whatever lengths they contain.

use actors::engine::Revision;
use bytes::{Buf, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::document::{FailureDocument, Header, Summary};
use super::{CHECKSUM_BYTES, FORMAT, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, MAGIC, kind};

/// The reason why bytes are not a valid backup.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// It does not begin with the magic bytes of a backup.
    #[error("it is not a taffrail backup: it does not begin like one")]
    NoBackup,
    /// A later version wrote it.
    #[error("its format is {0}, this version reads up to {FORMAT}: use a newer version")]
    Newer(u32),
    /// The store could not be read to its end.
    #[error("it is incomplete, the store could not be read: {0}")]
    Failed(String),
    /// It ends before its last frame.
    #[error("it is cut short after {0} bytes")]
    Short(u64),
    /// Data follows its last frame.
    #[error("trailing data after its end, at byte {0}")]
    Long(u64),
    /// A frame can't be what it claims to be.
    #[error("it is damaged at byte {0}: {1}")]
    Damaged(u64, String),
    /// The checksum does not match the bytes.
    #[error("it is damaged: its checksum does not match")]
    Checksum,
}

/// A part of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The header, which comes first.
    Header(Header),
    /// An event.
    Event {
        /// Its revision.
        revision: Revision,
        /// The encoded record. It was not decoded.
        record: Bytes,
    },
}

/// Splits a backup into its parts as the bytes arrive.
pub struct Decoder {
    buffer: BytesMut,
    hasher: Sha256,
    state: State,
    /// Bytes taken from the buffer so far.
    taken: u64,
    events: u64,
    summary: Option<Summary>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Magic,
    Header,
    Frames,
    Checksum,
    Done,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            buffer: BytesMut::new(),
            hasher: Sha256::new(),
            state: State::Magic,
            taken: 0,
            events: 0,
            summary: None,
        }
    }
}

impl Decoder {
    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next part that has arrived completely.
    ///
    /// # Errors
    /// [`DecodeError`]
    pub fn next_item(&mut self) -> Result<Option<Item>, DecodeError> {
        loop {
            match self.state {
                State::Magic => match self.take(MAGIC.len()) {
                    None if MAGIC.starts_with(&self.buffer) => return Ok(None),
                    Some(magic) if magic[..] == MAGIC[..] => self.state = State::Header,
                    _ => return Err(DecodeError::NoBackup),
                },
                State::Header | State::Frames => {
                    let at = self.taken;
                    let Some((kind, content)) = self.frame()? else {
                        return Ok(None);
                    };
                    if let Some(item) = self.understood(kind, content, at)? {
                        return Ok(Some(item));
                    }
                }
                State::Checksum => {
                    if self.buffer.len() < CHECKSUM_BYTES {
                        return Ok(None);
                    }
                    let wanted = self.buffer.split_to(CHECKSUM_BYTES);
                    self.taken += CHECKSUM_BYTES as u64;
                    if wanted[..] != self.hasher.finalize_reset()[..] {
                        return Err(DecodeError::Checksum);
                    }
                    self.state = State::Done;
                }
                State::Done if self.buffer.is_empty() => return Ok(None),
                State::Done => return Err(DecodeError::Long(self.taken)),
            }
        }
    }

    /// Returns the summary, once everything was read.
    ///
    /// # Errors
    /// [`DecodeError::Short`] if the backup has not ended.
    pub fn finish(self) -> Result<Summary, DecodeError> {
        let short = DecodeError::Short(self.taken + self.buffer.len() as u64);
        match (self.state, self.summary) {
            (State::Done, Some(summary)) => Ok(summary),
            _ => Err(short),
        }
    }

    fn take(&mut self, length: usize) -> Option<Bytes> {
        if self.buffer.len() < length {
            return None;
        }
        let taken = self.buffer.split_to(length).freeze();
        self.hasher.update(&taken);
        self.taken += length as u64;
        Some(taken)
    }

    fn frame(&mut self) -> Result<Option<(u8, Bytes)>, DecodeError> {
        let Some(&[kind, a, b, c, d]) = self.buffer.first_chunk::<FRAME_HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > FRAME_BYTES_MAX {
            let what = format!("a frame of {length} bytes");
            return Err(DecodeError::Damaged(self.taken, what));
        }
        let frame = self.take(FRAME_HEAD_BYTES + length);
        Ok(frame.map(|mut frame| {
            frame.advance(FRAME_HEAD_BYTES);
            (kind, frame)
        }))
    }

    fn understood(
        &mut self,
        kind: u8,
        mut content: Bytes,
        at: u64,
    ) -> Result<Option<Item>, DecodeError> {
        let damaged = |what: &str| DecodeError::Damaged(at, what.to_owned());
        match (self.state, kind) {
            (State::Header, kind::HEADER) => {
                let format: Format = document(&content, at)?;
                if format.format == 0 || format.format > FORMAT {
                    return Err(DecodeError::Newer(format.format));
                }
                self.state = State::Frames;
                Ok(Some(Item::Header(document(&content, at)?)))
            }
            (State::Header, _) => Err(damaged("the first frame is not a header")),
            (_, kind::EVENT) => {
                if content.len() < 8 {
                    return Err(damaged("an event without a revision"));
                }
                self.events += 1;
                let revision = Revision(content.get_u64_le());
                let record = content;
                Ok(Some(Item::Event { revision, record }))
            }
            (_, kind::END) => {
                let summary: Summary = document(&content, at)?;
                if summary.events != self.events {
                    let (wanted, found) = (summary.events, self.events);
                    let what = format!("{found} events instead of {wanted}");
                    return Err(DecodeError::Damaged(at, what));
                }
                self.summary = Some(summary);
                self.state = State::Checksum;
                Ok(None)
            }
            (_, kind::FAILURE) => {
                let failure: FailureDocument = document(&content, at)?;
                Err(DecodeError::Failed(failure.message))
            }
            _ => Err(DecodeError::Damaged(at, format!("a frame of kind {kind}"))),
        }
    }
}

/// The member that the header has in every format.
#[derive(serde::Deserialize)]
struct Format {
    format: u32,
}

fn document<T: DeserializeOwned>(bytes: &[u8], at: u64) -> Result<T, DecodeError> {
    serde_json::from_slice(bytes).map_err(|error| DecodeError::Damaged(at, error.to_string()))
}
