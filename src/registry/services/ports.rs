//! Allocation of node ports. One stored object, a RangeAllocation, has the allocated ones.

use std::collections::HashSet;
use std::sync::Arc;

use actors::backoff::random_unit;
use actors::engine::Revision;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::bitmap::Bitmap;
use super::context;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::registry::errors::{FailedOperation, decoded, interpret};
use crate::registry::stored_version::StoredVersion;
use crate::storage::{
    Current, NewObject, Preconditions, Storage, UpdateFunction, UpdateRequest, VersionUse,
    WriteDecision,
};

/// The key of the RangeAllocation, below the store's prefix, as in kube-apiserver.
const KEY: &str = "/ranges/servicenodeports";

/// A range of ports, inclusive at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.first, self.last)
    }
}

impl PortRange {
    fn size(&self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    /// Returns the bit of a port.
    fn bit(&self, port: u16) -> Option<usize> {
        (self.first..=self.last)
            .contains(&port)
            .then(|| usize::from(port - self.first))
    }

    fn port(&self, bit: usize) -> u16 {
        let offset = u16::try_from(bit).unwrap_or(u16::MAX);
        self.first.saturating_add(offset)
    }

    /// Returns the size of the lower band of the range. It is used last, so that requested ports
    /// are likely free there.
    fn kept_for_choice(&self) -> usize {
        let size = self.size();
        match size < 16 {
            true => 0,
            false => (size / 32).clamp(16, 128).min(size),
        }
    }
}

/// The reason why a port cannot be allocated. The texts are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortRefusal {
    /// The port is taken.
    #[error("provided port is already allocated")]
    Allocated,
    /// The port is outside the range.
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    NotInRange(PortRange),
    /// No port is free.
    #[error("range is full")]
    Full,
}

/// Returns the Status for the refused demand at an index.
pub(super) type Refused<'r> =
    &'r (dyn Fn(usize, &PortRefusal) -> Option<Box<Status>> + Send + Sync);

/// The allocator of node ports.
pub struct PortAllocator {
    /// The RangeAllocation resource.
    kind: Arc<ResourceDefinition>,
    storage: Arc<dyn Storage>,
    range: PortRange,
}

impl PortAllocator {
    /// Creates an allocator of this range, over the storage of RangeAllocations.
    pub fn new((kind, storages): StoredVersion, range: PortRange) -> PortAllocator {
        PortAllocator {
            kind,
            storage: storages.storage,
            range,
        }
    }

    /// Allocates the wanted ports, and any free port for each `None`. Allocates all of them or
    /// none.
    pub(super) async fn take(
        &self,
        wanted: &[Option<u16>],
        dry_run: bool,
        refused: Refused<'_>,
    ) -> Result<Vec<u16>, Box<Status>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let change = |bits: &mut Bitmap, _: Revision| {
            found.clear();
            for (at, wanted) in wanted.iter().enumerate() {
                match take_one(self.range, bits, *wanted) {
                    Ok(port) => found.push(port),
                    Err(refusal) => {
                        return Err(refused(at, &refusal)
                            .unwrap_or_else(|| Box::new(Status::internal(refusal))));
                    }
                }
            }
            Ok(!dry_run)
        };
        self.update(VersionUse::Ignores, Box::new(change)).await?;
        Ok(found)
    }

    /// Releases ports.
    pub(super) async fn give_back(&self, ports: &[u16]) -> Result<(), Box<Status>> {
        let bits: Vec<usize> = ports
            .iter()
            .filter_map(|port| self.range.bit(*port))
            .collect();
        if bits.is_empty() {
            return Ok(());
        }
        let change = |map: &mut Bitmap, _: Revision| {
            bits.iter().for_each(|bit| map.set(*bit, false));
            Ok(true)
        };
        self.update(VersionUse::Ignores, Box::new(change)).await
    }

    /// Returns the allocated ports.
    pub(super) async fn taken(&self) -> Result<TakenPorts, Box<Status>> {
        let mut taken = TakenPorts::default();
        let change = |map: &mut Bitmap, revision: Revision| {
            taken = TakenPorts {
                bits: map.clone(),
                revision,
            };
            Ok(false)
        };
        self.update(VersionUse::Reads, Box::new(change)).await?;
        Ok(taken)
    }

    /// Compares the allocated ports with `held`, the ports of the Services that were listed after
    /// `before` was read. Allocates a held port that was free then and still is. Releases a port
    /// that no Service holds if it is among `suspects`, the ports without a Service at the last
    /// repair, and if nothing was allocated or released since `before`: another repair may have
    /// released the port, and a Service missing from `held` may have allocated it again. Returns
    /// the next suspects and the repaired ports.
    pub(super) async fn repair(
        &self,
        before: &TakenPorts,
        held: &HashSet<u16>,
        suspects: &HashSet<u16>,
    ) -> Result<(HashSet<u16>, Vec<u16>), Box<Status>> {
        let mut answer = (HashSet::new(), Vec::new());
        let range = self.range;
        let change = |map: &mut Bitmap, revision: Revision| {
            let (leaked, fixed) = &mut answer;
            leaked.clear();
            fixed.clear();
            for bit in 0..range.size() {
                let port = range.port(bit);
                match (map.has(bit), held.contains(&port)) {
                    (false, true) if !before.bits.has(bit) => map.set(bit, true),
                    (true, false) if suspects.contains(&port) && revision == before.revision => {
                        map.set(bit, false);
                    }
                    (true, false) => {
                        leaked.insert(port);
                        continue;
                    }
                    _ => continue,
                }
                fixed.push(port);
            }
            Ok(!fixed.is_empty())
        };
        self.update(VersionUse::Reads, Box::new(change)).await?;
        Ok(answer)
    }

    async fn update(&self, version: VersionUse, change: Change<'_>) -> Result<(), Box<Status>> {
        let request = UpdateRequest {
            key: KEY.to_owned(),
            ignore_not_found: true,
            preconditions: Preconditions::default(),
            suggestion: None,
            version,
            origin: context().origin(),
        };
        let mut changing = Changing {
            range: self.range,
            change,
        };
        let outcome = self.storage.guaranteed_update(request, &mut changing).await;
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => {
                let name = "servicenodeports";
                Err(interpret(error, FailedOperation::Update, &self.kind, name))
            }
        }
    }
}

/// The allocated ports, with the revision of their last change.
#[derive(Debug, Default)]
pub(super) struct TakenPorts {
    pub(super) bits: Bitmap,
    revision: Revision,
}

/// A change of the allocated ports. It gets the revision of the last change, and returns whether to
/// write.
type Change<'c> = Box<dyn FnMut(&mut Bitmap, Revision) -> Result<bool, Box<Status>> + Send + 'c>;

struct Changing<'c> {
    range: PortRange,
    change: Change<'c>,
}

impl UpdateFunction for Changing<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        let changed = (|| {
            let revision = current.object.as_ref().map(|cached| cached.revision);
            let mut object = match current.object {
                Some(cached) => decoded(&cached)?,
                None => Object::default(),
            };
            object.set_type("RangeAllocation", "v1");
            object.0.entry("metadata").or_insert_with(|| json!({}));
            // The object may belong to a range that was configured before. The repair then
            // allocates the ports of all Services again.
            let range = self.range.to_string();
            let is_same = object.0.get("range").and_then(Value::as_str) == Some(&range);
            let data = object
                .0
                .get("data")
                .and_then(Value::as_str)
                .filter(|_| is_same);
            let data = STANDARD.decode(data.unwrap_or_default());
            let mut bits = Bitmap::read(&data.unwrap_or_default());
            if !(self.change)(&mut bits, revision.unwrap_or_default())? {
                return Ok(WriteDecision::Leave);
            }
            object.0.insert("range".to_owned(), range.into());
            let data = STANDARD.encode(bits.stored());
            object.0.insert("data".to_owned(), data.into());
            Ok(WriteDecision::Write(NewObject::from(object)))
        })();
        std::future::ready(changed).boxed()
    }
}

/// Allocates this port, or any.
fn take_one(range: PortRange, bits: &mut Bitmap, wanted: Option<u16>) -> Result<u16, PortRefusal> {
    let bit = match wanted {
        Some(port) => {
            let bit = range.bit(port).ok_or(PortRefusal::NotInRange(range))?;
            if bits.has(bit) {
                return Err(PortRefusal::Allocated);
            }
            bit
        }
        None => free(range, bits, random_unit()).ok_or(PortRefusal::Full)?,
    };
    bits.set(bit, true);
    Ok(range.port(bit))
}

/// Returns a free bit, searching from a random one. The lower band comes last.
fn free(range: PortRange, bits: &Bitmap, random: f64) -> Option<usize> {
    let (kept, size) = (range.kept_for_choice(), range.size());
    let part = |from: usize, to: usize| {
        let count = to - from;
        let begin = ((count as f64 * random) as usize).min(count.saturating_sub(1));
        (0..count)
            .map(|step| from + (begin + step) % count)
            .find(|bit| !bits.has(*bit))
    };
    part(kept, size).or_else(|| part(0, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-228.
    #[test]
    fn ports_are_taken_once_and_those_kept_for_choice_last() {
        let range = PortRange {
            first: 30000,
            last: 30099,
        };
        let mut bits = Bitmap::default();
        let mut taken = Vec::new();
        for _ in 0..range.size() {
            taken.push(take_one(range, &mut bits, None).unwrap());
        }
        assert_eq!(take_one(range, &mut bits, None), Err(PortRefusal::Full));
        let (first, last) = taken.split_at(84);
        assert!(first.iter().all(|port| *port >= 30016), "{first:?}");
        assert!(last.iter().all(|port| *port < 30016), "{last:?}");
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 100);
    }

    /// API-228: the refusals have kube-apiserver's texts.
    #[test]
    fn a_port_is_refused_in_the_words_of_kubernetes() {
        let range = PortRange {
            first: 30000,
            last: 32767,
        };
        let mut bits = Bitmap::default();
        let mut taken =
            |port| take_one(range, &mut bits, Some(port)).map_err(|why| why.to_string());
        assert_eq!(taken(30000), Ok(30000));
        let said = "provided port is already allocated";
        assert_eq!(taken(30000), Err(said.to_owned()));
        let said = "provided port is not in the valid range. The range of valid ports is \
                    30000-32767";
        assert_eq!(taken(29999), Err(said.to_owned()));
        assert_eq!(taken(32767), Ok(32767));
    }
}
