//! Checks each page that redb reads from its file.

use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use redb::StorageBackend;
use twox_hash::XxHash3_64;

use super::header::{self, HEADER_BYTES, Header};
use super::page::{Link, PAGE_BYTES, Page, Region, Table, Widths, parse_table};
use crate::storage::embedded::fence::Fenced;

/// The place of the header.
const HEADER_OFFSET: u64 = 0;

/// A database's file. Each page that is read from it must be what its parent says, or what the
/// database has written there. Instead of another page the database gets a [`refusal`], and the
/// damage is noted.
#[derive(Clone, Debug)]
pub struct CheckedPages {
    file: Fenced,
    known: Arc<RwLock<Known>>,
    /// The fault in the first page that was not what it should be.
    damage: Arc<Mutex<Option<String>>>,
}

/// The knowledge about the file's pages.
#[derive(Debug, Default)]
struct Known {
    region: Option<Region>,
    /// Of each place of a page, in the order of the file, what should begin there.
    marks: Vec<Mark>,
    /// The kinds of trees that pages belong to, at most as many as there are tables.
    trees: Vec<Tree>,
}

/// The page that should begin at a place, in 64 bits: how to check it, and 56 bits of a checksum. A
/// file has one for each 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark(u64);

/// Nothing is known of what is there.
const UNKNOWN: u8 = 0;
/// The database has written this page. The checksum is over all of its bytes.
const WRITTEN: u8 = 1;
/// From here on: a parent names the page. The checksum is the parent's, over what it covers in a
/// page of the tree with this number, less this one.
const NAMED: u8 = 2;

impl Mark {
    fn new(kind: u8, checksum: u64) -> Mark {
        Mark(checksum << 8 | u64::from(kind))
    }

    fn kind(self) -> u8 {
        self.0 as u8
    }
}

/// A kind of tree of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tree {
    widths: Widths,
    /// Whether its entries are tables, which name the roots of their own trees.
    is_list: bool,
}

const LIST: Tree = Tree {
    widths: Widths {
        key: None,
        value: None,
    },
    is_list: true,
};

impl CheckedPages {
    /// Stands before a file that is new, or has this header.
    pub fn new(file: Fenced, header: Option<&Header>) -> CheckedPages {
        let mut known = Known::default();
        if let Some(header) = header {
            known.region = Some(header.region);
            for root in [header.tables(), header.own_tables()] {
                known.name(root, LIST);
            }
        }
        CheckedPages {
            file,
            known: Arc::new(RwLock::new(known)),
            damage: Arc::default(),
        }
    }

    /// The fault in the first page that was not what it should be.
    pub fn damage(&self) -> Option<String> {
        self.damage.lock().clone()
    }

    /// Checks a page that was read. Its children are known then.
    fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), &'static str> {
        let (mark, tree) = {
            let known = self.known.read();
            let mark = known.mark(offset);
            let tree = mark.kind().checked_sub(NAMED);
            (
                mark,
                tree.and_then(|tree| known.trees.get(usize::from(tree)).copied()),
            )
        };
        match (mark.kind(), tree) {
            (UNKNOWN, _) => return Err("no page that was read leads to it"),
            // Its children are known: the database has read them, or written them, before.
            (WRITTEN, _) => {
                return match Mark::new(WRITTEN, XxHash3_64::oneshot(bytes)) == mark {
                    true => Ok(()),
                    false => Err("it is not what was written there"),
                };
            }
            _ => {}
        }
        let tree = tree.ok_or("its tree is not known")?;
        let page = Page::new(bytes, tree.widths);
        match page.checksum() {
            Some(found) if Mark::new(mark.kind(), found as u64) == mark => {}
            _ => return Err("it has not the checksum that it should have"),
        }
        let mut known = self.known.write();
        for link in page.links() {
            known.name(Some(link), tree);
        }
        if tree.is_list {
            for Table { root, widths, .. } in page.entries().filter_map(parse_table) {
                let is_list = false;
                known.name(root, Tree { widths, is_list });
            }
        }
        Ok(())
    }
}

impl Known {
    fn mark(&self, offset: u64) -> Mark {
        let at = usize::try_from(offset / PAGE_BYTES).ok();
        let mark = at.and_then(|at| self.marks.get(at));
        mark.copied().unwrap_or_default()
    }

    fn set(&mut self, offset: u64, mark: Mark) {
        let Ok(at) = usize::try_from(offset / PAGE_BYTES) else {
            return;
        };
        if self.marks.len() <= at {
            self.marks.resize(at + 1, Mark::default());
        }
        if let Some(place) = self.marks.get_mut(at) {
            *place = mark;
        }
    }

    /// A parent names a page. A page that the database has written there is newer than any parent.
    fn name(&mut self, link: Option<Link>, tree: Tree) {
        let place = link.zip(self.region).and_then(|(link, region)| {
            let place = link.place(region)?;
            Some((place.start, link.checksum()))
        });
        let Some((offset, checksum)) = place else {
            return;
        };
        if self.mark(offset).kind() == WRITTEN {
            return;
        }
        let found = self.trees.iter().position(|known| *known == tree);
        let number = found.unwrap_or_else(|| {
            self.trees.push(tree);
            self.trees.len() - 1
        });
        // There are a dozen kinds of tables. Pages of one too many would be refused.
        if let Some(kind) = u8::try_from(number).ok().and_then(|n| n.checked_add(NAMED)) {
            self.set(offset, Mark::new(kind, checksum as u64));
        }
    }
}

/// The page that the database reads instead of a damaged one: a branch whose children can't exist.
/// An error would make the database refuse everything from then on, and other bytes might make it
/// panic. So it refuses what needs this page.
fn refusal(bytes: &mut [u8]) {
    /// A branch with one key and two children, whose numbers name pages of an impossible size. The
    /// key ends where the page's head does; if keys have a fixed width, the zeros after the head
    /// are the key.
    const HEAD: [u8; 69] = {
        let mut head = [0; 69];
        head[0] = 2;
        head[2] = 1;
        let mut at = 40;
        while at < 56 {
            head[at] = 0xff;
            at += 1;
        }
        head[56] = 69;
        head
    };
    bytes.fill(0);
    for (place, byte) in bytes.iter_mut().zip(HEAD) {
        *place = byte;
    }
}

impl StorageBackend for CheckedPages {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)?;
        if offset == HEADER_OFFSET {
            return Ok(());
        }
        if let Err(why) = self.check(offset, out) {
            let what = format!("the page at byte {offset} is damaged: {why}");
            self.damage.lock().get_or_insert(what);
            refusal(out);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let pages = usize::try_from(len.div_ceil(PAGE_BYTES)).unwrap_or(usize::MAX);
        self.known.write().marks.truncate(pages);
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut known = self.known.write();
        match data.first_chunk::<HEADER_BYTES>() {
            Some(header) if offset == HEADER_OFFSET => {
                known.region = header::region(header).or(known.region);
            }
            _ => known.set(offset, Mark::new(WRITTEN, XxHash3_64::oneshot(data))),
        }
        drop(known);
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
