//! A simulated disk that loses, reorders and tears unsynced data, and fails on request.
//!
//! Each file has a content that reads see, a content that a power failure would leave, and the
//! operations between the two. The names have the same. An [`Image`] is the result of one power
//! failure: for every operation since the last sync, random numbers decide whether it survives
//! whole, in part, or not at all.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;
use taffrail::storage::embedded::disk::{DataFile, Disk, FileId};

/// The smallest unit that is written atomically.
const SECTOR: usize = 512;
/// The unit of allocation.
const BLOCK: u64 = 4096;

/// Small pseudorandom numbers, which repeat with the same seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(mix(seed).max(1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        (self.next() >> 11) % below.max(1)
    }
}

fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// An operation that is not durable yet.
#[derive(Clone, Debug)]
enum Pending {
    Write { offset: u64, data: Arc<[u8]> },
    SetLen(u64),
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
}

impl Content {
    fn apply(&mut self, operation: &Pending) {
        match operation {
            Pending::Write { offset, data } => {
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
                self.bytes[start..end].copy_from_slice(data);
            }
            Pending::SetLen(len) => self.bytes.resize(*len as usize, 0),
        }
    }

    /// Applies the part of an operation that survives a power failure. The part of a write depends
    /// on its place, not on the order in which pages are written.
    fn apply_in_part(&mut self, operation: &Pending, fate: u64) {
        let mut dice = match operation {
            Pending::Write { offset, data } => Dice::new(fate ^ mix(*offset) ^ data.len() as u64),
            Pending::SetLen(len) => Dice::new(fate ^ mix(!len)),
        };
        match (operation, dice.roll(8)) {
            (_, 0..=2) => {}
            (Pending::Write { offset, data }, 3) => {
                // Only a prefix.
                let sectors = data.len().div_ceil(SECTOR) as u64;
                let kept = dice.roll(sectors + 1) as usize * SECTOR;
                self.write_inside(*offset, &data[..kept.min(data.len())]);
            }
            (Pending::Write { offset, data }, 4) => {
                // Only some sectors.
                for (number, sector) in data.chunks(SECTOR).enumerate() {
                    if dice.roll(2) == 0 {
                        self.write_inside(*offset + (number * SECTOR) as u64, sector);
                    }
                }
            }
            (Pending::Write { offset, data }, _) => self.write_inside(*offset, data),
            (Pending::SetLen(_), _) => self.apply(operation),
        }
    }

    /// Writes what lies inside the file: a length that did not survive cuts writes behind it off.
    fn write_inside(&mut self, offset: u64, data: &[u8]) {
        let len = self.bytes.len();
        let start = (offset as usize).min(len);
        let end = (offset as usize + data.len()).min(len);
        self.bytes[start..end].copy_from_slice(&data[..end - start]);
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    current: Content,
    durable: Content,
    pending: Vec<Pending>,
    /// Blocks that take room.
    blocks: std::collections::BTreeSet<u64>,
    /// How many times the file was opened.
    openings: u64,
}

impl File {
    fn of(content: Content) -> File {
        let blocks = 0..content.bytes.len() as u64 / BLOCK;
        File {
            current: content.clone(),
            durable: content,
            pending: Vec::new(),
            blocks: blocks.collect(),
            openings: 0,
        }
    }

    fn sync(&mut self) {
        for operation in self.pending.drain(..) {
            self.durable.apply(&operation);
        }
    }

    /// A failed sync: some data is durable, some is not yet written, and some is lost although
    /// reads see it until the cache is dropped.
    fn fail_to_sync(&mut self, dice: &mut Dice) {
        let mut pending = Vec::new();
        for operation in self.pending.drain(..) {
            match dice.roll(3) {
                0 => self.durable.apply(&operation),
                1 => pending.push(operation),
                _ => {}
            }
        }
        self.pending = pending;
    }

    fn after_power_cut(&self, fate: u64) -> Content {
        let mut content = self.durable.clone();
        for (number, operation) in self.pending.iter().enumerate() {
            // A page that was written twice since the sync can survive in two ways.
            let again = self.pending[..number]
                .iter()
                .filter(|o| same_place(o, operation))
                .count();
            content.apply_in_part(operation, fate ^ mix(again as u64));
        }
        content
    }
}

fn same_place(one: &Pending, other: &Pending) -> bool {
    match (one, other) {
        (Pending::Write { offset: a, .. }, Pending::Write { offset: b, .. }) => a == b,
        (Pending::SetLen(_), Pending::SetLen(_)) => true,
        _ => false,
    }
}

/// The result of a power failure.
#[derive(Clone, Debug, Default)]
pub struct Image {
    files: BTreeMap<DataFile, Content>,
}

impl Image {
    /// Writes the files to a directory for inspection.
    pub fn save(&self, directory: &std::path::Path) {
        std::fs::create_dir_all(directory).unwrap();
        for (file, content) in &self.files {
            std::fs::write(directory.join(file.name()), &content.bytes).unwrap();
        }
    }
}

/// The faults and their times.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Operations until the next error; each error draws the next distance from `every`.
    pub error_in: Option<u64>,
    /// The approximate number of operations between errors. 0 means only one error.
    pub every: u64,
    /// How many operations in a row fail.
    pub burst: u64,
    /// The disk's size; beyond it there is no space.
    pub capacity: Option<u64>,
    /// Whether `free_bytes` hides how full the disk is.
    pub lies_about_room: bool,
    /// Says that the log is full of holes, so that it is rebuilt.
    pub bloated: bool,
    /// The next promotion changes the names, and the sync of them fails.
    pub unsynced_promotion: bool,
    failing: u64,
}

/// A file whatever its name.
type Inode = u64;

/// Called before each change, with the state of the disk.
pub type Observer = Box<dyn FnMut(&World) + Send>;

/// The state of the disk.
#[derive(Default)]
pub struct World {
    names: BTreeMap<DataFile, Inode>,
    /// The names as of their last sync.
    durable_names: BTreeMap<DataFile, Inode>,
    /// Removed files stay here while they are open.
    files: BTreeMap<Inode, File>,
    next_inode: Inode,
    ballast: u64,
    pub operations: u64,
    pub faults: Faults,
    dice: Option<Dice>,
    observer: Option<Observer>,
    /// While the gate is closed, changes wait.
    gate_closed: bool,
    waiting: bool,
    /// The power is off, and every operation fails.
    dead: bool,
    /// Changes to files by an opening that another one has followed. They destroy what the later
    /// one relies on.
    pub overtaken: u64,
}

impl World {
    /// The result of a power failure at this moment, for this seed.
    pub fn power_cut(&self, fate: u64) -> Image {
        let left = |(name, inode): (&DataFile, &Inode)| {
            let file = self.files.get(inode)?;
            Some((*name, file.after_power_cut(mix(fate ^ *name as u64))))
        };
        // Unsynced changes of names have happened or not, but never half.
        let names = match fate.is_multiple_of(2) {
            true => &self.names,
            false => &self.durable_names,
        };
        Image {
            files: names.iter().filter_map(left).collect(),
        }
    }

    fn allocated(&self) -> u64 {
        let named = self
            .names
            .values()
            .filter_map(|inode| self.files.get(inode));
        let blocks: usize = named.map(|file| file.blocks.len()).sum();
        blocks as u64 * BLOCK + self.ballast
    }

    fn observe(&mut self) {
        self.operations += 1;
        if let Some(mut observer) = self.observer.take() {
            observer(self);
            self.observer = Some(observer);
        }
    }

    fn fault(&mut self) -> bool {
        if self.faults.failing > 0 {
            self.faults.failing -= 1;
            return true;
        }
        let Some(left) = self.faults.error_in else {
            return false;
        };
        if left > 0 {
            self.faults.error_in = Some(left - 1);
            return false;
        }
        let every = self.faults.every;
        self.faults.failing = self.faults.burst.saturating_sub(1);
        self.faults.error_in = (every > 0).then(|| {
            self.dice
                .as_mut()
                .map_or(every, |dice| dice.roll(2 * every))
        });
        true
    }

    fn check(&mut self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the power is off"));
        }
        if self.fault() {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn file(&mut self, inode: Inode) -> &mut File {
        self.files.entry(inode).or_default()
    }

    fn inode(&mut self, name: DataFile) -> Inode {
        *self.names.entry(name).or_insert_with(|| {
            self.next_inode += 1;
            self.next_inode
        })
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.check()?;
        self.durable_names = self.names.clone();
        Ok(())
    }
}

/// The simulated disk. Clones share the same state.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    world: Arc<(Mutex<World>, Condvar)>,
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedDisk")
    }
}

impl SimulatedDisk {
    pub fn new(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::default();
        disk.world().dice = Some(Dice::new(seed));
        disk
    }

    /// A disk with the content after a power failure.
    pub fn from_image(image: &Image, seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::new(seed);
        for (name, content) in &image.files {
            let mut world = disk.world();
            let inode = world.inode(*name);
            world.files.insert(inode, File::of(content.clone()));
            world.durable_names = world.names.clone();
        }
        disk
    }

    pub fn world(&self) -> parking_lot::MutexGuard<'_, World> {
        self.world.0.lock()
    }

    pub fn observe(&self, observer: Observer) {
        self.world().observer = Some(observer);
    }

    pub fn stop_observing(&self) {
        self.world().observer = None;
    }

    /// Lets changes wait.
    pub fn close_gate(&self) {
        self.world().gate_closed = true;
    }

    /// Waits until a change waits.
    pub fn wait_at_gate(&self) {
        let mut world = self.world();
        while !world.waiting {
            self.world.1.wait(&mut world);
        }
    }

    pub fn open_gate(&self) {
        let mut world = self.world();
        world.gate_closed = false;
        world.waiting = false;
        self.world.1.notify_all();
    }

    /// Makes every later operation fail.
    pub fn cut_power(&self) {
        self.world().dead = true;
        self.open_gate();
    }

    /// The world for an operation that changes something; waits at the gate.
    fn change(&self) -> parking_lot::MutexGuard<'_, World> {
        let mut world = self.world();
        while world.gate_closed {
            world.waiting = true;
            self.world.1.notify_all();
            self.world.1.wait(&mut world);
        }
        world.observe();
        world
    }
}

#[derive(Debug)]
struct Handle {
    disk: SimulatedDisk,
    file: Inode,
    /// Which opening of the file this is.
    opening: u64,
}

impl Handle {
    /// The world for a change of the file.
    fn change(&self) -> parking_lot::MutexGuard<'_, World> {
        let mut world = self.disk.change();
        if world.file(self.file).openings != self.opening {
            world.overtaken += 1;
        }
        world
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        let mut world = self.disk.world();
        if world.dead {
            return world.check().map(|()| 0);
        }
        Ok(world.file(self.file).current.bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut world = self.disk.world();
        world.check()?;
        let bytes = &world.file(self.file).current.bytes;
        let (start, end) = (offset as usize, offset as usize + out.len());
        let found = bytes.get(start..end);
        out.copy_from_slice(found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.change();
        world.check()?;
        let file = world.file(self.file);
        file.current.apply(&Pending::SetLen(len));
        file.pending.push(Pending::SetLen(len));
        file.blocks = file.blocks.range(..len.div_ceil(BLOCK)).copied().collect();
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.change();
        let checked = world.check();
        let mut dice = world.dice.clone().unwrap_or(Dice::new(1));
        let file = world.file(self.file);
        match checked {
            Ok(()) => file.sync(),
            Err(_) => file.fail_to_sync(&mut dice),
        }
        world.dice = Some(dice);
        checked
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut world = self.change();
        world.check()?;
        let capacity = world.faults.capacity;
        let new: Vec<u64> = {
            let file = world.file(self.file);
            let touched = offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK);
            touched
                .filter(|block| !file.blocks.contains(block))
                .collect()
        };
        let room = capacity.map(|capacity| capacity.saturating_sub(world.allocated()) / BLOCK);
        let lacking = new.get(room.map_or(new.len(), |room| room as usize));
        // What has room is written, as by any file system.
        let written = lacking.map_or(data.len(), |block| {
            (block * BLOCK).saturating_sub(offset) as usize
        });
        let operation = Pending::Write {
            offset,
            data: data[..written].into(),
        };
        let file = world.file(self.file);
        file.blocks
            .extend(new.iter().take_while(|block| Some(*block) != lacking));
        file.current.apply(&operation);
        file.pending.push(operation);
        match lacking {
            Some(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            None => Ok(()),
        }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, file: DataFile) -> io::Result<Box<dyn StorageBackend>> {
        let mut world = self.world();
        world.check()?;
        let inode = world.inode(file);
        let opened = world.file(inode);
        // As the real one: what is dirty is synced, what only the cache holds is dropped.
        opened.sync();
        opened.current = opened.durable.clone();
        opened.openings += 1;
        let opening = opened.openings;
        Ok(Box::new(Handle {
            disk: self.clone(),
            file: inode,
            opening,
        }))
    }

    fn length(&self, file: DataFile) -> io::Result<Option<u64>> {
        let mut world = self.world();
        world.check()?;
        let inode = world.names.get(&file);
        let file = inode.and_then(|inode| world.files.get(inode));
        Ok(file.map(|file| file.current.bytes.len() as u64))
    }

    fn which(&self, file: DataFile) -> io::Result<Option<FileId>> {
        let inode = self.world().names.get(&file).copied();
        Ok(inode.map(|inode| (0, inode)))
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut world = self.change();
        world.sync_names()
    }

    fn store_id(&self) -> io::Result<Option<Vec<u8>>> {
        let mut world = self.world();
        world.check()?;
        let inode = world.names.get(&DataFile::StoreId);
        let file = inode.and_then(|inode| world.files.get(inode));
        Ok(file.map(|file| file.current.bytes.clone()))
    }

    fn set_store_id(&self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.change();
        world.check()?;
        let file = File::of(Content {
            bytes: bytes.to_vec(),
        });
        world.names.remove(&DataFile::StoreId);
        let inode = world.inode(DataFile::StoreId);
        world.files.insert(inode, file);
        world.observe();
        world.sync_names()
    }

    fn remove(&self, file: DataFile) -> io::Result<()> {
        let mut world = self.change();
        world.check()?;
        world.names.remove(&file);
        Ok(())
    }

    fn promote(&self) -> io::Result<()> {
        let mut world = self.change();
        world.check()?;
        let rebuilt = world.names.remove(&DataFile::DefragCopy);
        let rebuilt = rebuilt.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        world.names.insert(DataFile::Log, rebuilt);
        world.observe();
        // An error after the change: the name was changed and the sync of it failed.
        if std::mem::take(&mut world.faults.unsynced_promotion) {
            return Err(io::Error::from_raw_os_error(5));
        }
        world.sync_names()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let world = self.world();
        match world.faults.capacity {
            Some(capacity) if !world.faults.lies_about_room => {
                Ok(capacity.saturating_sub(world.allocated()))
            }
            _ => Ok(1 << 40),
        }
    }

    fn allocated_bytes(&self, file: DataFile) -> io::Result<u64> {
        let world = self.world();
        if world.faults.bloated && file == DataFile::Log {
            return Ok(1 << 40);
        }
        let inode = world.names.get(&file);
        let file = inode.and_then(|inode| world.files.get(inode));
        Ok(file.map_or(0, |file| file.blocks.len() as u64 * BLOCK))
    }

    fn set_ballast(&self, bytes: u64) -> io::Result<()> {
        let mut world = self.world();
        let others = world.allocated() - world.ballast;
        world.ballast = 0;
        if world
            .faults
            .capacity
            .is_some_and(|capacity| others + bytes > capacity)
        {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        world.ballast = bytes;
        Ok(())
    }

    fn release(&self) {}

    fn path(&self, file: DataFile) -> String {
        format!("simulated/{}", file.name())
    }
}
