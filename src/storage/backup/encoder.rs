//! Makes the bytes of a backup.

use actors::engine::{Event, ExportEnd};
use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::document::{FailureDocument, Header, Summary};
use super::{FRAME_HEAD_BYTES, MAGIC, kind};
use crate::storage::embedded::record::{self, RecordError};

/// Writes a backup.
pub(super) struct Encoder {
    hasher: Sha256,
    events: u64,
}

impl Encoder {
    /// Begins a backup. Returns its first bytes, too.
    pub(super) fn begin(header: &Header) -> (Encoder, Bytes) {
        let mut encoder = Encoder {
            hasher: Sha256::new(),
            events: 0,
        };
        let mut bytes = BytesMut::from(&MAGIC[..]);
        document(&mut bytes, kind::HEADER, header);
        let bytes = encoder.hashed(bytes);
        (encoder, bytes)
    }

    /// The frames of these events.
    ///
    /// # Errors
    /// When an event is too large for the format.
    pub(super) fn events(&mut self, events: &[Event]) -> Result<Bytes, RecordError> {
        let values: usize = events.iter().map(|event| event.value.len() + 256).sum();
        let mut bytes = BytesMut::with_capacity(values);
        for event in events {
            let record = record::encode(event)?;
            head(&mut bytes, kind::EVENT, 8 + record.len());
            bytes.put_u64_le(event.revision.0);
            bytes.put_slice(&record);
        }
        self.events += events.len() as u64;
        Ok(self.hashed(bytes))
    }

    /// The end, with the checksum.
    pub(super) fn end(mut self, end: &ExportEnd) -> Bytes {
        let mut bytes = BytesMut::new();
        document(&mut bytes, kind::END, &Summary::new(end, self.events));
        self.hasher.update(&bytes);
        bytes.put_slice(&self.hasher.finalize());
        bytes.freeze()
    }

    /// The end of a backup that failed.
    pub(super) fn failure(message: String) -> Bytes {
        let mut bytes = BytesMut::new();
        document(&mut bytes, kind::FAILURE, &FailureDocument { message });
        bytes.freeze()
    }

    fn hashed(&mut self, bytes: BytesMut) -> Bytes {
        self.hasher.update(&bytes);
        bytes.freeze()
    }
}

fn document(bytes: &mut BytesMut, kind: u8, document: &impl Serialize) {
    // Texts and numbers can always be written as JSON.
    let text = serde_json::to_vec(document).unwrap_or_default();
    head(bytes, kind, text.len());
    bytes.put_slice(&text);
}

fn head(bytes: &mut BytesMut, kind: u8, length: usize) {
    bytes.reserve(FRAME_HEAD_BYTES + length);
    bytes.put_u8(kind);
    // A record takes at most 64 MiB.
    bytes.put_u32_le(u32::try_from(length).unwrap_or(u32::MAX));
}
