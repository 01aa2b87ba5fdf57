//! Golden records: every version and tag to the byte. The bytes were assembled by hand from
//! `FORMAT.md`, not by the code under test.

use std::time::{Duration, UNIX_EPOCH};

use actors::engine::{Event, EventKind, Key, LeaseId, Origin, Prepared, Revision};
use bytes::Bytes;
use taffrail::storage::embedded::record::{LeaseRecord, Record, RecordError, VERSION, encode, tag};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn event(revision: u64, kind: EventKind, key: &[u8], value: &[u8]) -> Event {
    Event {
        revision: Revision(revision),
        key: Key::new(key),
        kind,
        value: Bytes::copy_from_slice(value),
        create_revision: Revision(1),
        prev_revision: Revision::ZERO,
        version: 1,
        lease: LeaseId(0),
        time: UNIX_EPOCH + Duration::from_nanos(1),
        origin: Origin::default(),
        previous: None,
        prepared: Prepared::default(),
    }
}

fn origin(user: &str, manager: &str, audit_id: &str) -> Origin {
    Origin {
        user: user.into(),
        manager: manager.into(),
        audit_id: audit_id.into(),
    }
}

/// Events of layout 1 and their bytes.
fn layout_1() -> Vec<(Event, String)> {
    let time = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001);
    let long = Event {
        create_revision: Revision(65_535),
        prev_revision: Revision(u64::from(u32::MAX)),
        version: u64::MAX,
        lease: LeaseId(u64::MAX),
        time: UNIX_EPOCH + Duration::from_nanos(u64::MAX),
        origin: origin("ü", "", ""),
        ..event(u64::MAX, EventKind::Put, &[b'k'; 251], &[b'v'; 300])
    };
    vec![
        (
            event(1, EventKind::Put, b"/k", b""),
            "01 deb37c5f 01 022f6b 01 00 01 00 01 00 00 00 00".to_owned(),
        ),
        (
            // Numbers of one, two, four and eight bytes.
            Event {
                create_revision: Revision(250),
                prev_revision: Revision(251),
                version: 65_536,
                lease: LeaseId(1 << 32),
                time,
                origin: origin("admin", "kubectl", "7f"),
                ..event(
                    70_000,
                    EventKind::Put,
                    b"/registry/pods/ns/a",
                    b"\x00\xff{}",
                )
            },
            "01 b4ad4c51 01 132f72656769737472792f706f64732f6e732f61 fa fbfb00 fc00000100 \
             fd0000000001000000 fd01002a36fe9c9717 0561646d696e 076b75626563746c 023766 0400ff7b7d"
                .to_owned(),
        ),
        (
            long,
            format!(
                "01 270db122 01 fbfb00{} fbffff fcffffffff fdffffffffffffffff fdffffffffffffffff \
                 fdffffffffffffffff 02c3bc 00 00 fb2c01{}",
                "6b".repeat(251),
                "76".repeat(300)
            ),
        ),
        (
            Event {
                create_revision: Revision(3),
                prev_revision: Revision(251),
                version: 0,
                time,
                ..event(252, EventKind::Delete, b"\x00\xff", b"")
            },
            "01 025e4047 02 0200ff 03 fbfb00 00 00 fd01002a36fe9c9717 00 00 00 00".to_owned(),
        ),
        (
            // Deleted because its lease, 7, had ended.
            Event {
                create_revision: Revision(3),
                prev_revision: Revision(251),
                version: 0,
                lease: LeaseId(7),
                time,
                ..event(252, EventKind::Delete, b"/k", b"")
            },
            "01 cac6334a 05 022f6b 03 fbfb00 00 07 fd01002a36fe9c9717 00 00 00 00".to_owned(),
        ),
    ]
}

/// Leases of layout 1 and their bytes.
fn leases_of_layout_1() -> Vec<(u64, LeaseRecord, &'static str)> {
    let record = |revoked, ttl, deadline| LeaseRecord {
        revoked,
        ttl: Duration::from_nanos(ttl),
        deadline: Duration::from_nanos(deadline),
    };
    vec![
        (
            7,
            record(false, 1_000_000_000, 1_700_000_000_000_000_001),
            "01 480d934b 03 fc00ca9a3b fd01002a36fe9c9717",
        ),
        (
            u64::MAX,
            record(false, u64::MAX, u64::MAX),
            "01 488c1aa0 03 fdffffffffffffffff fdffffffffffffffff",
        ),
        (251, record(true, 0, 250), "01 1ae2049b 04 00 fa"),
    ]
}

#[test]
fn leases_of_every_version_read_and_the_newest_is_written_to_the_byte() {
    for (lease, record, hex) in leases_of_layout_1() {
        let (lease, golden) = (LeaseId(lease), bytes(hex));
        assert_eq!(LeaseRecord::decode(lease, &golden), Ok(record));
        assert_eq!(record.encode(lease).unwrap(), golden, "{lease:?}");
        for bit in 0..golden.len() * 8 {
            let mut damaged = golden.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(LeaseRecord::decode(lease, &damaged).is_err(), "bit {bit}");
        }
        for length in 0..golden.len() {
            let cut = LeaseRecord::decode(lease, &golden[..length]);
            assert!(cut.is_err(), "{length} bytes");
        }
        assert!(LeaseRecord::decode(LeaseId(lease.0 ^ 1), &golden).is_err());
    }
    for (hex, number) in [
        ("01 5cfe604c 01 00 fa", tag::PUT),
        ("01 8056694b 05 00 fa", tag::LEASE_EXPIRY),
    ] {
        let refused = LeaseRecord::decode(LeaseId(9), &bytes(hex));
        assert_eq!(refused, Err(RecordError::Tag(number)));
    }
}

#[test]
fn records_of_every_version_read_and_the_newest_is_written_to_the_byte() {
    for (event, hex) in layout_1() {
        let golden = bytes(&hex);
        let read = Record::decode(event.revision, &golden).unwrap();
        assert_eq!(read.to_event(), event);
        assert_eq!(encode(&event).unwrap(), golden, "{}", event.revision);
    }
    assert_eq!(
        VERSION, 1,
        "a new version needs records here, and the old ones stay"
    );
}

/// Tags that only rows of leases have, and an unknown one. Whole records with them are refused by
/// the tag and not misread.
#[test]
fn tags_that_are_no_events_are_refused_by_their_number() {
    assert_eq!((tag::PUT, tag::DELETE, tag::LEASE_EXPIRY), (1, 2, 5));
    let others = [
        (0, "01 94438fcf 00"),
        (tag::LEASE_GRANT, "01 5a2f4572 03"),
        (tag::LEASE_REVOKE, "01 0229360f 04"),
    ];
    for (number, (found, begin)) in [0, 3, 4].into_iter().zip(others) {
        assert_eq!(found, number);
        let record = bytes(&format!("{begin} 022f6b 01 08 00 07 01 00 00 00 00"));
        let refused = Record::decode(Revision(9), &record).err();
        assert_eq!(refused, Some(RecordError::Tag(number)));
    }
}

/// A record with any single bit changed is refused. So is any part of it, and the whole at another
/// revision.
#[test]
fn a_record_that_differs_in_one_bit_or_is_cut_is_none() {
    for (event, hex) in layout_1() {
        let golden = bytes(&hex);
        let readable = |bytes: &[u8], at: Revision| Record::decode(at, bytes).is_ok();
        for bit in 0..golden.len() * 8 {
            let mut damaged = golden.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!readable(&damaged, event.revision), "bit {bit}");
        }
        for length in 0..golden.len() {
            assert!(
                !readable(&golden[..length], event.revision),
                "{length} bytes"
            );
        }
        let longer = [golden.as_slice(), &[0]].concat();
        assert!(!readable(&longer, event.revision));
        assert!(!readable(&golden, Revision(event.revision.0 ^ 1)));
    }
}
