//! Finds the groups of an epoch after a crash.

use actors::engine::Revision;

use super::changes::{Change, decode};
use super::group::{self, BLOCK, Head};
use super::{Epoch, FILES, next_epoch};
use crate::storage::embedded::disk::{DataFile, Disk};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::store_id::{StoreId, to_hex};

/// A group of changes that was found.
pub struct Group {
    number: u64,
    /// The revision of its last event, 0 if it has none.
    pub last: Revision,
    body: Vec<u8>,
    /// Where it was found, for messages.
    place: String,
}

impl Group {
    /// Its changes, in order.
    ///
    /// # Errors
    /// An item is a failure when the group holds something that this version does not write.
    pub fn changes(&self) -> impl Iterator<Item = Result<Change<'_>, Failure>> {
        decode(&self.body).map(|change| {
            change.map_err(|failure| Failure::Corrupt(format!("{}: {failure}", self.place)))
        })
    }
}

/// The changes that a store's journal has.
pub struct Found {
    /// The groups, in order.
    pub groups: Vec<Group>,
    /// The groups that are missing after them.
    pub loss: Option<Loss>,
}

/// Groups that were durable, or may have been, and that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file, and the fault in it.
    pub what: String,
    /// A revision that is missing and the newest one known. Zero if none is known.
    pub up_to: Revision,
}

/// The groups of an epoch and of the next one. A group is written only after the one before is
/// durable. So a group that is not whole is the last one, and was not acknowledged, unless another
/// one follows. Up to format 3 files had no heads.
///
/// # Errors
/// When the files can't be read.
pub fn recover(
    disk: &dyn Disk,
    store: &StoreId,
    epoch: Epoch,
    has_heads: bool,
) -> Result<Found, Failure> {
    let mut files = Vec::new();
    for file in FILES {
        let bytes = match disk.length(file)? {
            None => None,
            Some(_) => Some(read(disk, file)?),
        };
        files.push(File {
            path: disk.path(file),
            bytes,
        });
    }
    Ok(Scan {
        files: &files,
        store,
        has_heads,
    }
    .run(epoch))
}

/// A file of the journal.
struct File {
    path: String,
    /// `None` when it is absent.
    bytes: Option<Vec<u8>>,
}

/// The files of a store's journal.
struct Scan<'f> {
    files: &'f [File],
    store: &'f StoreId,
    has_heads: bool,
}

/// The groups of one epoch.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    /// Whether the epoch ended, and the next one has begun.
    has_ended: bool,
    loss: Option<Loss>,
}

impl Scan<'_> {
    fn run(&self, epoch: Epoch) -> Found {
        let first = self.groups_of(epoch);
        let Groups {
            mut groups,
            has_ended,
            mut loss,
        } = first;
        if loss.is_none() {
            let next = next_epoch(epoch);
            let last = groups.last().map_or(0, |group| group.number);
            let begun = self.head(next);
            let follows = self.groups_of_if(next, has_ended || begun.is_some() || !self.has_heads);
            let after = follows.groups.first().map(|group| group.number - 1);
            let expected = after.or(begun.map(|head| head.after));
            loss = match expected {
                // The next epoch had begun, or may have, after groups that are not there.
                Some(expected) if expected > last || (after.is_some() && expected < last) => {
                    Some(Loss {
                        what: format!(
                            "group {} follows group {last}: the groups between them are missing or \
                             damaged",
                            expected + 1
                        ),
                        up_to: newest(&follows.groups),
                    })
                }
                _ => follows.loss,
            };
            if loss.is_none() {
                groups.extend(follows.groups);
            }
        }
        Found { groups, loss }
    }

    fn groups_of_if(&self, epoch: Epoch, is_expected: bool) -> Groups {
        match is_expected {
            true => self.groups_of(epoch),
            false => Groups::default(),
        }
    }

    /// The head of the file of an epoch.
    fn head(&self, epoch: Epoch) -> Option<Head> {
        self.files.iter().find_map(|file| {
            let head = Head::decode(file.bytes.as_deref()?)?;
            (head.store == *self.store && head.epoch == epoch).then_some(head)
        })
    }

    /// The groups of an epoch that has begun.
    fn groups_of(&self, epoch: Epoch) -> Groups {
        if self.has_heads && self.head(epoch).is_none() {
            return self.lost(self.files.iter().map(|file| self.state(file)).collect());
        }
        if !self.has_heads
            && let Some(file) = self.files.iter().find(|file| file.bytes.is_none())
        {
            return self.lost(vec![format!("{} is missing", file.path)]);
        }
        let mut all = Groups::default();
        for file in self.files {
            let found = self.groups_in(file, epoch);
            if !all.groups.is_empty() && !found.groups.is_empty() {
                let what = format!("both of its journals hold the epoch {epoch:016x}");
                return self.lost(vec![what]);
            }
            all.groups.extend(found.groups);
            all.has_ended |= found.has_ended;
            all.loss = all.loss.or(found.loss);
        }
        all
    }

    fn lost(&self, states: Vec<String>) -> Groups {
        let loss = Some(Loss {
            what: states.join(", and "),
            up_to: Revision::ZERO,
        });
        Groups {
            loss,
            ..Groups::default()
        }
    }

    /// The content of a file that lacks the epoch that is needed.
    fn state(&self, file: &File) -> String {
        let path = &file.path;
        let Some(bytes) = &file.bytes else {
            return format!("{path} is missing");
        };
        match Head::decode(bytes) {
            Some(head) if head.store != *self.store => {
                format!("{path} is of store {}", to_hex(&head.store))
            }
            Some(_) => format!("{path} holds changes of another time"),
            None if bytes.iter().all(|byte| *byte == 0) => format!("{path} is empty"),
            None => format!("{path} is damaged"),
        }
    }

    fn groups_in(&self, file: &File, epoch: Epoch) -> Groups {
        let store = self.store;
        let bytes = file.bytes.as_deref().unwrap_or_default();
        let mut groups: Vec<Group> = Vec::new();
        let mut end = 0;
        if self.has_heads {
            match Head::decode(bytes) {
                Some(head) if head.store == *store && head.epoch == epoch => end = BLOCK,
                _ => return Groups::default(),
            }
        }
        while let Some((header, body, length)) =
            group::decode(store, bytes.get(end..).unwrap_or_default())
            && header.epoch == epoch
            && groups
                .last()
                .is_none_or(|group| header.number == group.number + 1)
        {
            groups.push(Group {
                number: header.number,
                last: header.last,
                body: body.to_vec(),
                place: format!("{}, offset {end}", file.path),
            });
            end += length;
        }
        let has_ended =
            self.has_heads && group::is_end(store, epoch, bytes.get(end..).unwrap_or_default());
        let mut loss = None;
        let mut blocks = (end..bytes.len()).step_by(BLOCK).skip(1);
        while let Some(at) = blocks.next().filter(|_| !has_ended) {
            let rest = bytes.get(at..).unwrap_or_default();
            let later = group::decode(store, rest).filter(|(header, ..)| header.epoch == epoch);
            let is_end = self.has_heads && group::is_end(store, epoch, rest);
            if later.is_none() && !is_end {
                continue;
            }
            let what = match groups.last() {
                Some(group) => format!(
                    "group {} after revision {}",
                    group.number + 1,
                    newest(&groups)
                ),
                None => "the first group".to_owned(),
            };
            let follows = match &later {
                Some((header, ..)) => {
                    format!("group {} up to revision {}", header.number, header.last)
                }
                None => "the end of its epoch".to_owned(),
            };
            loss = Some(Loss {
                what: format!(
                    "{}, offset {end}: {what} is damaged, and {follows} follows it",
                    file.path
                ),
                up_to: later.map_or(Revision::ZERO, |(header, ..)| header.last),
            });
            break;
        }
        Groups {
            groups,
            has_ended,
            loss,
        }
    }
}

/// The newest revision of groups.
fn newest(groups: &[Group]) -> Revision {
    groups
        .iter()
        .map(|group| group.last)
        .max()
        .unwrap_or_default()
}

fn read(disk: &dyn Disk, file: DataFile) -> Result<Vec<u8>, Failure> {
    let backend = disk.open(file)?;
    let length = usize::try_from(backend.len()?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    backend.read(0, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use redb::StorageBackend;

    use super::*;
    use crate::storage::embedded::disk::Directory;
    use crate::storage::embedded::journal::{Appended, Changes, Journal, JournalLimits, TableId};

    const STORE: StoreId = [7; 16];
    const LIMITS: JournalLimits = JournalLimits {
        file_bytes: 1 << 20,
        changed_bytes: 1 << 20,
    };

    /// A journal with these many groups, each as long as a block, and as many in the next epoch.
    /// Returns the first epoch.
    fn journal(disk: &Arc<dyn Disk>, groups: [u64; 2]) -> Epoch {
        let mut journal = Journal::new(Arc::clone(disk), STORE, LIMITS);
        let prepared = journal.prepare().unwrap();
        let epoch = prepared.epoch();
        journal.begin(prepared);
        let mut revision = 0;
        let mut append = |journal: &mut Journal| {
            revision += 1;
            let appended = journal.append(&record(revision));
            assert_eq!(appended.unwrap(), Appended::Durably);
        };
        (0..groups[0]).for_each(|_| append(&mut journal));
        assert_eq!(journal.switch().unwrap(), Some(next_epoch(epoch)));
        (0..groups[1]).for_each(|_| append(&mut journal));
        epoch
    }

    /// A file that has room for the first block of a write.
    #[derive(Debug)]
    struct FullFile(Arc<dyn StorageBackend>);

    impl StorageBackend for FullFile {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.0.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, &data[..BLOCK])?;
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    fn record(revision: u64) -> Changes {
        let mut changes = Changes::default();
        changes.push(Change {
            table: TableId::Events,
            key: &[1],
            value: Some(b"record"),
        });
        changes.note_revision(Revision(revision));
        changes
    }

    #[test]
    fn no_epoch_follows_one_that_may_end_with_the_remains_of_a_group() {
        for groups in [0, 2] {
            let directory = tempfile::tempdir().unwrap();
            let disk: Arc<dyn Disk> = Arc::new(Directory::open(directory.path()).unwrap());
            // The open epoch follows from another one.
            let mut journal = Journal::new(Arc::clone(&disk), STORE, LIMITS);
            let prepared = journal.prepare().unwrap();
            let epoch = next_epoch(prepared.epoch());
            journal.begin(prepared);
            journal.append(&record(1)).unwrap();
            assert_eq!(journal.switch().unwrap(), Some(epoch));
            for number in 0..groups {
                journal.append(&record(2 + number)).unwrap();
            }
            let open = journal.open.as_mut().unwrap();
            open.file = Arc::new(FullFile(Arc::clone(&open.file)));
            open.file_bytes = open.end;
            assert_eq!(journal.append(&record(9)).unwrap(), Appended::Full);
            if journal.switch().unwrap().is_some() {
                journal.append(&record(9)).unwrap();
            }
            let found = recover(&*disk, &STORE, epoch, true).unwrap();
            assert_eq!((found.groups.len() as u64, found.loss), (groups + 1, None));
        }
    }

    fn flip(directory: &Path, file: DataFile, at: usize) {
        let path = directory.join(file.name());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }

    /// Group numbers, or why the journal is refused, after one bit at each of these places flipped.
    fn recovered(groups: [u64; 2], flips: &[(DataFile, usize)]) -> Result<Vec<u64>, String> {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(Directory::open(directory.path()).unwrap());
        let epoch = journal(&disk, groups);
        for (file, at) in flips {
            flip(directory.path(), *file, *at);
        }
        let found = recover(&*disk, &STORE, epoch, true).unwrap();
        match found.loss {
            None => Ok(found.groups.iter().map(|group| group.number).collect()),
            Some(loss) => Err(loss.what),
        }
    }

    #[test]
    fn the_groups_of_the_next_epoch_follow_those_of_the_one_that_redb_names() {
        assert_eq!(recovered([3, 0], &[]), Ok(vec![1, 2, 3]));
        assert_eq!(recovered([3, 2], &[]), Ok(vec![1, 2, 3, 4, 5]));
        // A torn tail of either.
        let torn = (DataFile::Journal1, 2 * BLOCK + 50);
        assert_eq!(recovered([3, 2], &[torn]), Ok(vec![1, 2, 3, 4]));
    }

    #[test]
    fn a_damaged_group_before_the_next_epoch_is_no_torn_tail() {
        for (place, what) in [
            (
                (DataFile::Journal0, 3 * BLOCK + 50),
                "group 3 after revision 2 is damaged, and the end of its epoch follows it",
            ),
            (
                (DataFile::Journal0, BLOCK + 50),
                "the first group is damaged",
            ),
            (
                (DataFile::Journal1, BLOCK + 50),
                "the first group is damaged",
            ),
            ((DataFile::Journal0, 9), "journal-0 is damaged"),
            ((DataFile::Journal1, 9), "journal-1 is damaged"),
        ] {
            let refused = recovered([3, 2], &[place]).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
        let end = (DataFile::Journal0, 4 * BLOCK + 9);
        let last = (DataFile::Journal0, 3 * BLOCK + 50);
        let refused = recovered([3, 2], &[last, end]).unwrap_err();
        assert!(refused.contains("group 4 follows group 2"), "{refused}");
        // The end alone proves nothing, and neither does its absence.
        assert_eq!(recovered([3, 2], &[end]), Ok(vec![1, 2, 3, 4, 5]));
    }
}
