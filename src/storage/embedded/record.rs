//! The encoding of an event, a row of table `events`, and of a lease, a row of table `leases`.
//! `FORMAT.md` specifies both to the byte.
//!
//! This is the only file that knows how a body is encoded.

use std::time::{Duration, SystemTime};

use actors::engine::{Event, EventKind, Key, KeyValue, LeaseId, Origin, Prepared, Revision};
use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// The version of the record's layout, its first byte.
pub const VERSION: u8 = 1;

/// The kind of a record. Numbers are never reused.
pub mod tag {
    /// The key has a new value.
    pub const PUT: u8 = 1;
    /// The key was deleted by a request.
    pub const DELETE: u8 = 2;
    /// A lease was granted.
    pub const LEASE_GRANT: u8 = 3;
    /// A lease was revoked. Some of its keys may still exist.
    pub const LEASE_REVOKE: u8 = 4;
    /// The key was deleted because its lease expired or was revoked.
    pub const LEASE_EXPIRY: u8 = 5;
}

/// Version and checksum.
const HEADER_BYTES: usize = 5;

/// The most memory that decoding may use, whatever lengths damaged bytes claim.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

type Codec = Configuration<LittleEndian, Varint, Limit<BODY_BYTES_MAX>>;

fn codec() -> Codec {
    bincode::config::standard().with_limit::<BODY_BYTES_MAX>()
}

/// Why bytes are not a record.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// Too short to hold even a header.
    #[error("it is cut short at {0} bytes")]
    Short(usize),
    /// Written by a later version of this program.
    #[error("its version is {0}, this program reads {VERSION}")]
    Version(u8),
    /// The bytes have changed, or the record is at another revision than it was written for.
    #[error("its checksum is {found:08x} and should be {expected:08x}")]
    Checksum {
        /// The checksum of what is there.
        found: u32,
        /// The checksum stored.
        expected: u32,
    },
    /// The checksum is right and the content is not. Something else wrote it.
    #[error("its body can't be read: {0}")]
    Body(String),
    /// A tag of a later version.
    #[error("its tag is {0}, which this program does not know")]
    Tag(u8),
}

/// A record's body. The fields are encoded in this order.
#[derive(serde::Serialize, serde::Deserialize)]
struct Body<'a> {
    tag: u8,
    #[serde(borrow)]
    key: Raw<'a>,
    create_revision: u64,
    prev_revision: u64,
    version: u64,
    lease: u64,
    time_nanos: u64,
    user: &'a str,
    manager: &'a str,
    audit_id: &'a str,
    #[serde(borrow)]
    value: Raw<'a>,
}

/// Encodes bytes as bytes, not as a list of numbers.
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw<'a>, D::Error> {
        struct Borrowed;
        impl<'de> Visitor<'de> for Borrowed {
            type Value = Raw<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Raw<'de>, E> {
                Ok(Raw(bytes))
            }
        }
        deserializer.deserialize_bytes(Borrowed)
    }
}

/// Encodes an event, except its revision, which is the row's key, and its previous value, which has
/// a row of its own.
///
/// # Errors
/// When an event is too large for the format.
pub fn encode(event: &Event) -> Result<Vec<u8>, RecordError> {
    let body = Body {
        tag: match event.kind {
            EventKind::Put => tag::PUT,
            EventKind::Delete if event.lease == LeaseId::default() => tag::DELETE,
            EventKind::Delete => tag::LEASE_EXPIRY,
        },
        key: Raw(event.key.as_bytes()),
        create_revision: event.create_revision.0,
        prev_revision: event.prev_revision.0,
        version: event.version,
        lease: event.lease.0,
        time_nanos: nanos(event.time),
        user: &event.origin.user,
        manager: &event.origin.manager,
        audit_id: &event.origin.audit_id,
        value: Raw(&event.value),
    };
    let room = 128 + event.key.as_bytes().len() + event.value.len();
    seal(event.revision.0, &body, room)
}

/// Adds the header to a body. `place` is the key of the record's row.
fn seal(place: u64, body: &impl Serialize, room: usize) -> Result<Vec<u8>, RecordError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + room);
    bytes.push(VERSION);
    bytes.extend_from_slice(&[0; HEADER_BYTES - 1]);
    bincode::serde::encode_into_std_write(body, &mut bytes, codec())
        .map_err(|error| RecordError::Body(error.to_string()))?;
    let sum = checksum(place, bytes.get(HEADER_BYTES..).unwrap_or_default());
    if let Some(header) = bytes.get_mut(1..HEADER_BYTES) {
        header.copy_from_slice(&sum.to_le_bytes());
    }
    Ok(bytes)
}

/// Checks the header and returns the body. `place` is the key of the record's row.
fn unseal<'a, B: Deserialize<'a>>(place: u64, bytes: &'a [u8]) -> Result<B, RecordError> {
    let Some((&[version, a, b, c, d], body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(RecordError::Short(bytes.len()));
    };
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let expected = u32::from_le_bytes([a, b, c, d]);
    let found = checksum(place, body);
    if found != expected {
        return Err(RecordError::Checksum { found, expected });
    }
    let (decoded, read) = bincode::serde::borrow_decode_from_slice::<B, _>(body, codec())
        .map_err(|error| RecordError::Body(error.to_string()))?;
    match body.len() - read {
        0 => Ok(decoded),
        more => Err(RecordError::Body(format!("{more} bytes too many"))),
    }
}

/// The checksum. It covers the row's key too, so that no record passes for another.
fn checksum(place: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    nanos_of(since.unwrap_or_default())
}

/// The nanoseconds, up to what a `u64` holds: some centuries.
pub fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A lease, as stored in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Whether it was revoked.
    pub revoked: bool,
    /// The time to live as granted.
    pub ttl: Duration,
    /// When it expires or was revoked, by the wall clock, since 1970.
    pub deadline: Duration,
}

/// A lease record's body. The fields are encoded in this order.
#[derive(serde::Serialize, serde::Deserialize)]
struct LeaseBody {
    tag: u8,
    ttl_nanos: u64,
    deadline_nanos: u64,
}

impl LeaseRecord {
    /// Encodes the lease's row.
    ///
    /// # Errors
    /// None that a lease could cause.
    pub fn encode(&self, lease: LeaseId) -> Result<Vec<u8>, RecordError> {
        let body = LeaseBody {
            tag: match self.revoked {
                false => tag::LEASE_GRANT,
                true => tag::LEASE_REVOKE,
            },
            ttl_nanos: nanos_of(self.ttl),
            deadline_nanos: nanos_of(self.deadline),
        };
        seal(lease.0, &body, 24)
    }

    /// Decodes the row of this lease.
    ///
    /// # Errors
    /// When the bytes are not exactly what was written for this lease.
    pub fn decode(lease: LeaseId, bytes: &[u8]) -> Result<LeaseRecord, RecordError> {
        let body: LeaseBody = unseal(lease.0, bytes)?;
        let revoked = match body.tag {
            tag::LEASE_GRANT => false,
            tag::LEASE_REVOKE => true,
            other => return Err(RecordError::Tag(other)),
        };
        Ok(LeaseRecord {
            revoked,
            ttl: Duration::from_nanos(body.ttl_nanos),
            deadline: Duration::from_nanos(body.deadline_nanos),
        })
    }
}

/// A decoded record that borrows the bytes it was read from.
pub struct Record<'a> {
    revision: Revision,
    kind: EventKind,
    body: Body<'a>,
}

impl<'a> Record<'a> {
    /// Decodes the record of this revision.
    ///
    /// # Errors
    /// When the bytes are not exactly what was written for this revision.
    pub fn decode(revision: Revision, bytes: &'a [u8]) -> Result<Record<'a>, RecordError> {
        let decoded: Body<'a> = unseal(revision.0, bytes)?;
        let kind = match decoded.tag {
            tag::PUT => EventKind::Put,
            tag::DELETE | tag::LEASE_EXPIRY => EventKind::Delete,
            other => return Err(RecordError::Tag(other)),
        };
        Ok(Record {
            revision,
            kind,
            body: decoded,
        })
    }

    /// The revision of the event.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Put or delete.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The key's bytes.
    pub fn key(&self) -> &'a [u8] {
        self.body.key.0
    }

    /// The value's bytes.
    pub fn value(&self) -> &'a [u8] {
        self.body.value.0
    }

    /// The revision that created the key.
    pub fn create_revision(&self) -> Revision {
        Revision(self.body.create_revision)
    }

    /// The revision of the key's previous value; 0 for none.
    pub fn prev_revision(&self) -> Revision {
        Revision(self.body.prev_revision)
    }

    /// The number of puts since the key was created.
    pub fn version(&self) -> u64 {
        self.body.version
    }

    /// The lease that the put attached its key to, or that deleted the key; 0 for none.
    pub fn lease(&self) -> LeaseId {
        LeaseId(self.body.lease)
    }

    /// When it was committed, in nanoseconds since 1970.
    pub fn time_nanos(&self) -> u64 {
        self.body.time_nanos
    }

    /// The event, without the previous value.
    pub fn to_event(&self) -> Event {
        Event {
            revision: self.revision,
            key: Key::new(self.key()),
            kind: self.kind,
            value: Bytes::copy_from_slice(self.value()),
            create_revision: self.create_revision(),
            prev_revision: self.prev_revision(),
            version: self.version(),
            lease: self.lease(),
            time: SystemTime::UNIX_EPOCH + Duration::from_nanos(self.body.time_nanos),
            origin: Origin {
                user: self.body.user.into(),
                manager: self.body.manager.into(),
                audit_id: self.body.audit_id.into(),
            },
            previous: None,
            prepared: Prepared::default(),
        }
    }

    /// The key's value, of a put.
    pub fn to_key_value(&self) -> KeyValue {
        self.to_key_value_by(Bytes::copy_from_slice)
    }

    /// As [`Record::to_key_value`], with the value copied by `copy`.
    pub fn to_key_value_by(&self, copy: impl FnOnce(&[u8]) -> Bytes) -> KeyValue {
        KeyValue {
            key: Key::new(self.key()),
            value: copy(self.value()),
            create_revision: self.create_revision(),
            revision: self.revision,
            version: self.version(),
            lease: self.lease(),
        }
    }
}
