//! Finds the groups of an epoch after a crash.

use actors::engine::Revision;

use super::changes::{Change, decode};
use super::group::{self, BLOCK};
use super::{Epoch, FILES};
use crate::storage::embedded::disk::{DataFile, Disk};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::store_id::StoreId;

/// A group of changes that was found.
pub struct Group {
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

/// The groups of an epoch, in order. A group is written only after the one before is durable. So a
/// group that is not whole is the last one, and was not acknowledged, unless another one follows.
///
/// # Errors
/// When the files can't be read or are missing, and when a group that was durable is damaged.
pub fn recover(disk: &dyn Disk, store: &StoreId, epoch: Epoch) -> Result<Vec<Group>, Failure> {
    let mut groups = Vec::new();
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
        let bytes = read(disk, file)?;
        let found = groups_of(disk, file, store, epoch, &bytes)?;
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

fn groups_of(
    disk: &dyn Disk,
    file: DataFile,
    store: &StoreId,
    epoch: Epoch,
    bytes: &[u8],
) -> Result<Vec<Group>, Failure> {
    let mut groups: Vec<Group> = Vec::new();
    let mut end = 0;
    while let Some((header, body, length)) =
        group::decode(store, bytes.get(end..).unwrap_or_default())
        && header.epoch == epoch
        && header.number == groups.len() as u64 + 1
    {
        groups.push(Group {
            last: header.last,
            body: body.to_vec(),
            place: format!("{}, offset {end}", disk.path(file)),
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
    Err(Failure::Corrupt(format!(
        "its journal {}, offset {end}: group {} after revision {} is damaged, and group {} up to \
         revision {} follows it",
        disk.path(file),
        groups.len() + 1,
        revision.unwrap_or_default(),
        later.number,
        later.last
    )))
}
