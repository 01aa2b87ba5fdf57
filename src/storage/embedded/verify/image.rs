//! The store's file as of the newest durable commit, read past redb's cache. Each page is named by
//! its parent together with its checksum, up to the header.
//!
//! Commits continue meanwhile. redb overwrites a page that the header leads to only after another
//! header is durable. So a wrong page is damage only if the header has not changed since the walk
//! began.

use std::cmp::Ordering;
use std::ops::Range;
use std::time::Duration;

use redb::StorageBackend;

use crate::storage::embedded::pages::Header;
use crate::storage::embedded::pages::page::{Entry, Link, Page, Region, Table, Widths};

/// How often the header is read before it counts as damaged. A header that is being written looks
/// damaged.
const HEADER_READS: u32 = 3;
const HEADER_PAUSE: Duration = Duration::from_millis(2);

/// How redb orders the keys of a table.
pub type Compare = fn(&[u8], &[u8]) -> Ordering;

/// A finding of the walk.
pub enum Found<'p> {
    /// An entry of a whole page.
    Entry(Entry<'p>),
    /// A damaged page.
    Damage(Damage<'p>),
}

/// A damaged page.
pub struct Damage<'p> {
    /// A description of the damage.
    pub what: String,
    /// The page, if it could be read.
    pub page: Option<Page>,
    /// Its keys are greater than this one. `None` for the first page.
    pub after: Option<&'p [u8]>,
    /// Its keys are not greater than this one. `None` for the last page.
    pub up_to: Option<&'p [u8]>,
}

/// The file as of one durable commit.
pub struct Image<'f> {
    file: &'f dyn StorageBackend,
    header: Header,
}

impl<'f> Image<'f> {
    /// Reads the header. Fails with what is wrong with it.
    pub fn open(file: &'f dyn StorageBackend) -> Result<Image<'f>, String> {
        let mut image = Image::read(file);
        for _ in 1..HEADER_READS {
            if image.is_ok() {
                break;
            }
            std::thread::sleep(HEADER_PAUSE);
            image = Image::read(file);
        }
        image
    }

    fn read(file: &'f dyn StorageBackend) -> Result<Image<'f>, String> {
        let header = Header::read(file)?;
        header.check_in_use()?;
        Ok(Image { file, header })
    }

    /// The sizes of the file's regions.
    pub fn region(&self) -> Region {
        self.header.region
    }

    /// Whether the newest durable commit is still the same. If the file cannot be read, the
    /// database is being reopened and will have another one.
    fn is_current(&self) -> bool {
        Image::read(self.file).is_ok_and(|now| now.header.slot() == self.header.slot())
    }

    /// The lists of tables: redb's own, and the engine's.
    pub fn lists(&self) -> [Table; 2] {
        let list = |name: &str, root| Table {
            name: name.to_owned(),
            root,
            widths: Widths::default(),
        };
        [
            list("the database's own tables", self.header.own_tables()),
            list("the list of tables", self.header.tables()),
        ]
    }

    /// Walks over a tree, page by page, from the first key after `after`. Reads at least one page
    /// and about `bytes_max`. Returns how far it came.
    pub fn walk(
        &self,
        tree: &Table,
        compare: Compare,
        after: Option<Vec<u8>>,
        bytes_max: u64,
        found: &mut dyn FnMut(Found<'_>),
    ) -> Walked {
        let mut walk = Walk {
            image: self,
            widths: tree.widths,
            compare,
            bytes_max,
            found,
            walked: Walked {
                bytes: 0,
                after,
                end: End::Finished,
            },
            has_seen_leaf: false,
        };
        if let Some(root) = tree.root {
            walk.walked.end = walk.page(root, None, None);
        }
        walk.walked
    }

    /// Reads a page and checks it. Fails with what is wrong with it.
    fn page(&self, link: Link, widths: Widths) -> Result<Page, (String, Option<Page>)> {
        let place = link.place(self.header.region);
        let place: Range<u64> = place.ok_or(("it has no place in the file".to_owned(), None))?;
        let mut bytes = vec![0; (place.end - place.start) as usize];
        if let Err(error) = self.file.read(place.start, &mut bytes) {
            let what = format!("the page at byte {} can't be read: {error}", place.start);
            return Err((what, None));
        }
        let page = Page::new(bytes, widths);
        if page.is_whole(link) {
            return Ok(page);
        }
        let what = format!(
            "the page at byte {} has not the checksum that it should have",
            place.start
        );
        Err((what, Some(page)))
    }
}

/// How far a walk came.
#[derive(Debug)]
pub struct Walked {
    /// Bytes of pages read.
    pub bytes: u64,
    /// Everything up to this key was read.
    pub after: Option<Vec<u8>>,
    /// Why it ended.
    pub end: End,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The tree ended.
    Finished,
    /// The bytes are used up.
    Paused,
    /// Another commit was made meanwhile. Nothing read after that proves anything.
    Moved,
}

struct Walk<'w, 'f> {
    image: &'w Image<'f>,
    widths: Widths,
    compare: Compare,
    bytes_max: u64,
    found: &'w mut dyn FnMut(Found<'_>),
    walked: Walked,
    has_seen_leaf: bool,
}

impl Walk<'_, '_> {
    /// Walks over a page and its children: keys after the first one and up to the second.
    fn page(&mut self, link: Link, after: Option<&[u8]>, up_to: Option<&[u8]>) -> End {
        if self.has_seen_leaf && self.walked.bytes >= self.bytes_max {
            return End::Paused;
        }
        let page = match self.image.page(link, self.widths) {
            Ok(page) => page,
            Err(_) if !self.image.is_current() => return End::Moved,
            Err((what, page)) => {
                (self.found)(Found::Damage(Damage {
                    what,
                    page,
                    after,
                    up_to,
                }));
                return self.pass(up_to);
            }
        };
        self.walked.bytes += page.len();
        let Some(children) = page.children() else {
            page.entries()
                .for_each(|entry| (self.found)(Found::Entry(entry)));
            return self.pass(up_to);
        };
        let mut before = after;
        for (child, greatest) in children {
            let greatest = greatest.or(up_to);
            if !self.has_passed(greatest) {
                match self.page(child, before, greatest) {
                    End::Finished => {}
                    other => return other,
                }
            }
            before = greatest;
        }
        End::Finished
    }

    fn pass(&mut self, up_to: Option<&[u8]>) -> End {
        self.has_seen_leaf = true;
        if let Some(up_to) = up_to {
            self.walked.after = Some(up_to.to_vec());
        }
        End::Finished
    }

    /// Whether everything up to this key was read.
    fn has_passed(&self, key: Option<&[u8]>) -> bool {
        match (&self.walked.after, key) {
            (Some(after), Some(key)) => (self.compare)(key, after) != Ordering::Greater,
            _ => false,
        }
    }
}
