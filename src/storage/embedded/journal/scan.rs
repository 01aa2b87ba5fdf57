//! Finds the groups of an epoch after a crash.

use actors::engine::Revision;

use super::changes::{Change, decode};
use super::group::{self, BLOCK};
use super::{Epoch, FILES, next_epoch};
use crate::storage::embedded::disk::{DataFile, Disk};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::store_id::StoreId;

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

/// The groups of an epoch and of the next one, in order. A group is written only after the one
/// before is durable. So a group that is not whole is the last one, and was not acknowledged,
/// unless another one follows.
///
/// # Errors
/// When the files can't be read or are missing, and when a group that was durable is damaged.
pub fn recover(disk: &dyn Disk, store: &StoreId, epoch: Epoch) -> Result<Vec<Group>, Failure> {
    let mut files = Vec::new();
    for file in FILES {
        if disk.length(file)?.is_none() {
            return Err(Failure::Corrupt(format!(
                "its journal {} is missing, which holds the newest changes; restore it from the \
                 same backup, or remove the files {} and {} to go on without these changes",
                disk.path(file),
                DataFile::StoreId.name(),
                FILES.map(DataFile::name).join(", "),
            )));
        }
        files.push(File {
            path: disk.path(file),
            bytes: read(disk, file)?,
        });
    }
    let mut groups = groups_of(&files, store, epoch)?;
    let next = groups_of(&files, store, next_epoch(epoch))?;
    let ended = groups.last().map_or(0, |group| group.number);
    if let Some(first) = next.first()
        && first.number != ended + 1
    {
        return Err(Failure::Corrupt(format!(
            "{}: group {} follows group {ended}; the groups between them are damaged",
            first.place, first.number
        )));
    }
    groups.extend(next);
    Ok(groups)
}

/// A file of the journal.
struct File {
    path: String,
    bytes: Vec<u8>,
}

/// The groups of an epoch, which one of the files has.
fn groups_of(files: &[File], store: &StoreId, epoch: Epoch) -> Result<Vec<Group>, Failure> {
    let mut groups = Vec::new();
    for file in files {
        let found = groups_in(file, store, epoch)?;
        if !groups.is_empty() && !found.is_empty() {
            return Err(Failure::Corrupt(format!(
                "both of its journals hold the epoch {epoch:016x}"
            )));
        }
        groups.extend(found);
    }
    Ok(groups)
}

/// Whether neither file is there.
///
/// # Errors
/// When the directory can't be read.
pub fn is_absent(disk: &dyn Disk) -> Result<bool, Failure> {
    let lengths = [disk.length(FILES[0])?, disk.length(FILES[1])?];
    Ok(lengths == [None, None])
}

fn read(disk: &dyn Disk, file: DataFile) -> Result<Vec<u8>, Failure> {
    let backend = disk.open(file)?;
    let length = usize::try_from(backend.len()?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    backend.read(0, &mut bytes)?;
    Ok(bytes)
}

fn groups_in(file: &File, store: &StoreId, epoch: Epoch) -> Result<Vec<Group>, Failure> {
    let File { path, bytes } = file;
    let mut groups: Vec<Group> = Vec::new();
    let mut end = 0;
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
            place: format!("{path}, offset {end}"),
        });
        end += length;
    }
    let mut blocks = (end..bytes.len()).step_by(BLOCK).skip(1);
    let later = blocks.find_map(|at| {
        let (header, ..) = group::decode(store, bytes.get(at..)?)?;
        (header.epoch == epoch).then_some(header)
    });
    let Some(later) = later else {
        return Ok(groups);
    };
    let revision = groups.iter().map(|group| group.last).max();
    let damaged = match groups.last().zip(revision) {
        Some((group, revision)) => format!("group {} after revision {revision}", group.number + 1),
        None => "the first group".to_owned(),
    };
    Err(Failure::Corrupt(format!(
        "its journal {path}, offset {end}: {damaged} is damaged, and group {} up to revision {} \
         follows it",
        later.number, later.last
    )))
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
    /// Answers the first epoch.
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
            let found = recover(&*disk, &STORE, epoch).map_err(|failure| failure.to_string());
            assert_eq!(found.unwrap().len() as u64, groups + 1);
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
        match recover(&*disk, &STORE, epoch) {
            Ok(found) => Ok(found.iter().map(|group| group.number).collect()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn the_groups_of_the_next_epoch_follow_those_of_the_one_that_redb_names() {
        assert_eq!(recovered([3, 0], &[]), Ok(vec![1, 2, 3]));
        assert_eq!(recovered([3, 2], &[]), Ok(vec![1, 2, 3, 4, 5]));
        // A torn tail of either.
        let torn = (DataFile::Journal0, 2 * BLOCK + 50);
        assert_eq!(recovered([3, 0], &[torn]), Ok(vec![1, 2]));
        let torn = (DataFile::Journal1, BLOCK + 50);
        assert_eq!(recovered([3, 2], &[torn]), Ok(vec![1, 2, 3, 4]));
    }

    #[test]
    fn a_damaged_group_before_the_next_epoch_is_no_torn_tail() {
        for (place, what) in [
            (
                (DataFile::Journal0, 2 * BLOCK + 50),
                "group 4 follows group 2",
            ),
            ((DataFile::Journal0, 50), "the first group is damaged"),
            ((DataFile::Journal1, 50), "the first group is damaged"),
        ] {
            let refused = recovered([3, 2], &[place]).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
        let all = [0, 1, 2].map(|block| (DataFile::Journal0, block * BLOCK + 50));
        let refused = recovered([3, 2], &all).unwrap_err();
        assert!(refused.contains("group 4 follows group 0"), "{refused}");
    }
}
