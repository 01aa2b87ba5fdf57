//! The layout of a file of the journal: its head, groups of changes, and their end. Pure.

use actors::engine::Revision;

use crate::storage::embedded::error::Failure;
use crate::storage::embedded::store_id::StoreId;

/// Groups begin at multiples of this. So no write touches a block of an earlier group.
pub const BLOCK: usize = 4096;

const MAGIC: [u8; 4] = *b"tfjg";
const HEAD_MAGIC: [u8; 4] = *b"tfjh";
const END_MAGIC: [u8; 4] = *b"tfje";
const HEADER_BYTES: usize = 44;

/// The beginning of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The epoch that it belongs to.
    pub epoch: u64,
    /// 1 for the first group of a random epoch. Numbers continue in the epochs that follow from it.
    pub number: u64,
    /// The revision of its first event, 0 if it has none.
    pub first: Revision,
    /// The revision of its last event, 0 if it has none.
    pub last: Revision,
}

/// A group of a store, padded with zeros to whole blocks.
///
/// # Errors
/// When the body is larger than a group can be.
pub fn encode(store: &StoreId, header: GroupHeader, body: &[&[u8]]) -> Result<Vec<u8>, Failure> {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length)
        .map_err(|_| Failure::Corrupt(format!("a group of {length} bytes is too large")))?;
    let bytes = HEADER_BYTES + length as usize;
    let mut group = Vec::with_capacity(bytes.next_multiple_of(BLOCK));
    group.extend_from_slice(&MAGIC);
    group.extend_from_slice(&[0; 4]);
    for number in [header.epoch, header.number, header.first.0, header.last.0] {
        group.extend_from_slice(&number.to_le_bytes());
    }
    group.extend_from_slice(&length.to_le_bytes());
    for part in body {
        group.extend_from_slice(part);
    }
    let checksum = checksum(store, header.epoch, group.get(8..).unwrap_or_default());
    if let Some(place) = group.get_mut(4..8) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
    group.resize(bytes.next_multiple_of(BLOCK), 0);
    Ok(group)
}

/// A whole group of a store at the beginning of these bytes: its header, its body, and its length
/// in whole blocks.
pub fn decode<'b>(store: &StoreId, bytes: &'b [u8]) -> Option<(GroupHeader, &'b [u8], usize)> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (expected, rest) = rest.split_first_chunk::<4>()?;
    let (numbers, rest) = rest.split_first_chunk::<32>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let [epoch, number, first, last] =
        [0, 8, 16, 24].map(|at| numbers.get(at..at + 8).map_or(0, read_u64));
    let length = u32::from_le_bytes(*length) as usize;
    let body = rest.get(..length)?;
    let checked = bytes.get(8..HEADER_BYTES + length)?;
    if checksum(store, epoch, checked) != u32::from_le_bytes(*expected) {
        return None;
    }
    let header = GroupHeader {
        epoch,
        number,
        first: Revision(first),
        last: Revision(last),
    };
    Some((
        header,
        body,
        (HEADER_BYTES + length).next_multiple_of(BLOCK),
    ))
}

/// The first block of a file: whose changes follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The store.
    pub store: StoreId,
    /// The epoch of the groups in this file.
    pub epoch: u64,
    /// The epoch that these groups continue. 0 if there is a checkpoint before them.
    pub predecessor: u64,
    /// The number of the last group of that epoch.
    pub after: u64,
}

impl Head {
    const BYTES: usize = 48;

    /// The block.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        block.extend_from_slice(&HEAD_MAGIC);
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&self.store);
        for number in [self.epoch, self.predecessor, self.after] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(block.get(8..).unwrap_or_default());
        if let Some(place) = block.get_mut(4..8) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        block.resize(BLOCK, 0);
        block
    }

    /// The head at the beginning of a file.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let rest = bytes.strip_prefix(&HEAD_MAGIC)?;
        let (expected, rest) = rest.split_first_chunk::<4>()?;
        let (store, rest) = rest.split_first_chunk::<16>()?;
        let (numbers, _) = rest.split_first_chunk::<24>()?;
        if crc32c::crc32c(bytes.get(8..Head::BYTES)?) != u32::from_le_bytes(*expected) {
            return None;
        }
        let [epoch, predecessor, after] =
            [0, 8, 16].map(|at| numbers.get(at..at + 8).map_or(0, read_u64));
        Some(Head {
            store: *store,
            epoch,
            predecessor,
            after,
        })
    }
}

/// The block after the last group of an epoch: the groups of the next one are in the other file.
pub fn encode_end(store: &StoreId, epoch: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    for (place, byte) in block.iter_mut().zip(end(store, epoch)) {
        *place = byte;
    }
    block
}

/// Whether an epoch ends here.
pub fn is_end(store: &StoreId, epoch: u64, bytes: &[u8]) -> bool {
    bytes.starts_with(&end(store, epoch))
}

fn end(store: &StoreId, epoch: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&END_MAGIC);
    bytes[4..8].copy_from_slice(&checksum(store, epoch, &END_MAGIC).to_le_bytes());
    bytes[8..].copy_from_slice(&epoch.to_le_bytes());
    bytes
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// CRC-32C, salted with store and epoch, so that a group of another store or epoch is not accepted.
fn checksum(store: &StoreId, epoch: u64, bytes: &[u8]) -> u32 {
    let salt = crc32c::crc32c_append(crc32c::crc32c(store), &epoch.to_le_bytes());
    crc32c::crc32c_append(salt, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = [7; 16];
    const HEADER: GroupHeader = GroupHeader {
        epoch: 0x0102,
        number: 3,
        first: Revision(4),
        last: Revision(5),
    };

    #[test]
    fn a_group_is_laid_out_as_format_md_says() {
        let group = encode(&STORE, HEADER, &[b"ab", b"c"]).unwrap();
        assert_eq!(group.len(), BLOCK);
        assert_eq!(group[..4], *b"tfjg");
        assert_eq!(group[8..18], [2, 1, 0, 0, 0, 0, 0, 0, 3, 0]);
        assert_eq!(group[24], 4);
        assert_eq!(group[32], 5);
        assert_eq!(group[40..47], [3, 0, 0, 0, b'a', b'b', b'c']);
        assert!(group[47..].iter().all(|byte| *byte == 0));
        assert_eq!(decode(&STORE, &group), Some((HEADER, &b"abc"[..], BLOCK)));
    }

    #[test]
    fn every_flipped_bit_of_a_group_makes_it_no_group() {
        let group = encode(&STORE, HEADER, &[b"abc"]).unwrap();
        for bit in 0..47 * 8 {
            let mut flipped = group.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&STORE, &flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_head_makes_it_no_head() {
        let head = Head {
            store: STORE,
            epoch: 0x0102,
            predecessor: 3,
            after: 4,
        };
        let block = head.encode();
        assert_eq!(block.len(), BLOCK);
        assert_eq!(block[8..24], STORE);
        assert_eq!(block[24..26], [2, 1]);
        assert_eq!((block[32], block[40]), (3, 4));
        assert_eq!(Head::decode(&block), Some(head));
        for bit in 0..Head::BYTES * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(Head::decode(&block[..40]), None);
    }

    #[test]
    fn an_epoch_ends_where_its_end_is() {
        let block = encode_end(&STORE, 5);
        assert_eq!(block.len(), BLOCK);
        assert!(is_end(&STORE, 5, &block));
        assert!(!is_end(&STORE, 6, &block) && !is_end(&[8; 16], 5, &block));
        assert!(!is_end(&STORE, 5, &[0; BLOCK]) && !is_end(&STORE, 5, b""));
    }

    #[test]
    fn a_group_of_another_store_is_no_group() {
        let group = encode(&STORE, HEADER, &[b"abc"]).unwrap();
        assert_eq!(decode(&[8; 16], &group), None);
        assert_eq!(decode(&STORE, &group[..45]), None);
    }
}
