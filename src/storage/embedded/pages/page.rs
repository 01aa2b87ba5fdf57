//! One page of redb's file format 3: the places of its parts, and the range of its checksum.
//!
//! Nothing here panics, whatever the bytes are. A part that cannot exist is `None`.

use std::ops::Range;

use twox_hash::XxHash3_128;

/// The smallest page.
pub const PAGE_BYTES: u64 = 4096;
/// The largest page that is read. Records are far smaller.
const ORDER_MAX: u32 = 14;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// The checksum that redb uses.
pub fn checksum(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// A page as its parent names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    number: u64,
    checksum: u128,
}

impl Link {
    /// The checksum of what the page covers.
    pub fn checksum(self) -> u128 {
        self.checksum
    }

    /// Parses the page number and then the checksum.
    pub fn parse(bytes: &[u8]) -> Option<Link> {
        Some(Link {
            number: u64_at(bytes, 0)?,
            checksum: u128_at(bytes, 8)?,
        })
    }

    /// The place of the page in a file with regions of these sizes.
    pub fn place(self, region: Region) -> Option<Range<u64>> {
        let order = (self.number >> 59) as u32;
        if order > ORDER_MAX {
            return None;
        }
        let (index, number) = (
            self.number & (0xF_FFFF >> order),
            (self.number >> 20) & 0xF_FFFF,
        );
        let pages = u64::from(region.header_pages) + u64::from(region.data_pages);
        let before = number.checked_mul(pages)? + u64::from(region.header_pages) + 1;
        let start = before
            .checked_mul(PAGE_BYTES)?
            .checked_add((PAGE_BYTES << order) * index)?;
        Some(start..start.checked_add(PAGE_BYTES << order)?)
    }
}

/// The sizes of a region, in pages. Only the last region is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Pages before the data.
    pub header_pages: u32,
    /// Pages of data.
    pub data_pages: u32,
}

/// The widths of the keys and values of a tree, where all have one width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Widths {
    /// Of keys.
    pub key: Option<usize>,
    /// Of values.
    pub value: Option<usize>,
}

/// A page that was read.
pub struct Page<B = Vec<u8>> {
    bytes: B,
    widths: Widths,
}

/// A child of a branch, and the greatest key below it. The last child has the branch's own greatest
/// key.
pub type Child<'p> = (Link, Option<&'p [u8]>);

/// An entry's key and value.
pub type Entry<'p> = (&'p [u8], &'p [u8]);

impl<B: AsRef<[u8]>> Page<B> {
    /// A page from the bytes at its place.
    pub fn new(bytes: B, widths: Widths) -> Page<B> {
        Page { bytes, widths }
    }

    /// Whether the bytes have the checksum that the parent names.
    pub fn is_whole(&self, link: Link) -> bool {
        self.checksum() == Some(link.checksum)
    }

    /// The checksum of the page's content. `None` if this is not a page.
    pub fn checksum(&self) -> Option<u128> {
        let last = self.count().checked_sub(1)?;
        let end = match self.bytes().first() {
            Some(&LEAF) => {
                let (value_table, start) = self.leaf_tables();
                let first = self.end(last, self.widths.key, 4, start)?;
                self.end(last, self.widths.value, value_table, first)?
            }
            Some(&BRANCH) => {
                let (table, start) = self.branch_tables();
                self.end(last, self.widths.key, table, start)?
            }
            _ => return None,
        };
        Some(checksum(self.bytes().get(..end)?))
    }

    /// The bytes of the page.
    pub fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The pages below a branch; none below a leaf.
    pub fn links(&self) -> impl Iterator<Item = Link> {
        let is_branch = self.bytes().first() == Some(&BRANCH);
        let count = if is_branch { self.count() + 1 } else { 0 };
        (0..count).map_while(|n| self.link(n))
    }

    /// The child of a branch with this index.
    fn link(&self, n: usize) -> Option<Link> {
        let links = 8 + 16 * (self.count() + 1);
        Some(Link {
            number: u64_at(self.bytes(), links + 8 * n)?,
            checksum: u128_at(self.bytes(), 8 + 16 * n)?,
        })
    }

    /// The children of a branch; `None` for a leaf.
    pub fn children(&self) -> Option<Vec<Child<'_>>> {
        if self.bytes().first() != Some(&BRANCH) {
            return None;
        }
        let (table, start) = self.branch_tables();
        let ends = self.ends(self.widths.key, table, start)?;
        let child = |n: usize| {
            let greatest = range_of(start, &ends, n).and_then(|range| self.bytes().get(range));
            Some((self.link(n)?, greatest))
        };
        (0..=self.count()).map(child).collect()
    }

    /// The entries of a leaf, as far as they can be parsed.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let is_leaf = self.bytes().first() == Some(&LEAF);
        let ends = is_leaf.then(|| self.leaf_ends()).flatten();
        ends.into_iter().flat_map(move |(start, keys, values)| {
            let first = keys.last().copied().unwrap_or_default();
            (0..values.len()).filter_map(move |n| {
                let key = self.bytes().get(range_of(start, &keys, n)?)?;
                Some((key, self.bytes().get(range_of(first, &values, n)?)?))
            })
        })
    }

    /// The number of keys.
    fn count(&self) -> usize {
        let count = self.bytes().get(2..4);
        let count = count.and_then(|bytes| bytes.try_into().ok());
        usize::from(u16::from_le_bytes(count.unwrap_or_default()))
    }

    /// The places in a leaf of the table of its values' ends, and of its keys.
    fn leaf_tables(&self) -> (usize, usize) {
        let table = |width: Option<usize>| if width.is_none() { 4 * self.count() } else { 0 };
        let value_table = 4 + table(self.widths.key);
        (value_table, value_table + table(self.widths.value))
    }

    /// The start of a leaf's keys, the end of each key, and the end of each value.
    fn leaf_ends(&self) -> Option<(usize, Vec<usize>, Vec<usize>)> {
        let (value_table, start) = self.leaf_tables();
        let keys = self.ends(self.widths.key, 4, start)?;
        let values = self.ends(self.widths.value, value_table, *keys.last()?)?;
        Some((start, keys, values))
    }

    /// The places in a branch of the table of its keys' ends, and of its keys.
    fn branch_tables(&self) -> (usize, usize) {
        let n = self.count();
        let table = 8 + 24 * (n + 1);
        let ends = if self.widths.key.is_none() { 4 * n } else { 0 };
        (table, table + ends)
    }

    /// The ends of as many parts as there are keys.
    fn ends(&self, width: Option<usize>, table: usize, start: usize) -> Option<Vec<usize>> {
        let ends = (0..self.count()).map(|n| self.end(n, width, table, start));
        ends.collect()
    }

    /// The end of a part. Either all parts have one width or the table of ends has them.
    fn end(&self, n: usize, width: Option<usize>, table: usize, start: usize) -> Option<usize> {
        match width {
            Some(width) => width.checked_mul(n + 1)?.checked_add(start),
            None => u32_at(self.bytes(), table + 4 * n).map(|end| end as usize),
        }
    }
}

/// A table, as the list of tables names it.
pub struct Table {
    /// Its name.
    pub name: String,
    /// The root of its tree; `None` while it is empty.
    pub root: Option<Link>,
    /// The widths of its keys and values.
    pub widths: Widths,
}

/// Parses a table's entry in a list of tables.
pub fn parse_table((name, definition): Entry<'_>) -> Option<Table> {
    let width = |at: usize| match definition.get(at)? {
        0 => Some(None),
        _ => Some(Some(u32_at(definition, at + 1)? as usize)),
    };
    let root = match definition.get(9)? {
        0 => None,
        _ => Some(Link::parse(definition.get(10..)?)?),
    };
    // The number of entries comes before the root.
    u64_at(definition, 1)?;
    Some(Table {
        name: String::from_utf8_lossy(name).into_owned(),
        root,
        widths: Widths {
            key: width(42)?,
            value: width(47)?,
        },
    })
}

/// The part with this index among consecutive parts.
fn range_of(start: usize, ends: &[usize], n: usize) -> Option<Range<usize>> {
    let end = *ends.get(n)?;
    Some(n.checked_sub(1).map_or(start, |before| ends[before])..end)
}

/// A number at a place.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A number at a place.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// A checksum at a place.
pub fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    let bytes = bytes.get(at..at + 16)?;
    Some(u128::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_lies_where_its_number_says() {
        let region = Region {
            header_pages: 1,
            data_pages: 10,
        };
        let place = |number: u64| {
            let link = Link {
                number,
                checksum: 0,
            };
            link.place(region)
        };
        assert_eq!(place(0), Some(8192..12288));
        assert_eq!(place(3), Some(20480..24576));
        // The second of two pages of 8 KiB, in the third region.
        let third = (1 << 59) | (2 << 20) | 1;
        let start = (1 + 2 * 11 + 1 + 2) * 4096;
        assert_eq!(place(third), Some(start..start + 8192));
        assert_eq!(place(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_page_are_not_whole_and_panic_nowhere(
            mut bytes in prop::collection::vec(any::<u8>(), 0..600),
            kind in 0..4u8,
            count in 0..80u16,
            key in prop::option::of(0..20usize),
            value in prop::option::of(0..20usize),
        ) {
            if let Some(begin) = bytes.get_mut(..4) {
                begin[0] = kind;
                begin[2..].copy_from_slice(&count.to_le_bytes());
            }
            let page = Page::new(bytes, Widths { key, value });
            let link = Link { number: 0, checksum: 0 };
            prop_assert!(!page.is_whole(link));
            page.entries().for_each(drop);
            drop(page.children());
        }
    }
}
