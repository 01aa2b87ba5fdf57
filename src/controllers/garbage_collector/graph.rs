//! The owners and dependents of objects, as the caches show them. Pure.
//!
//! A node is an object that names owners, or one that is being deleted and waits for its
//! dependents. An object that is merely an owner has no node: its dependents share a [`Claim`]
//! about it. A change of the graph returns the work that follows from it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::metadata::{Deletion, Metadata, OwnerReference};
use super::slots::Slots;
use super::uid::Uid;
use super::verdict::Dependents;

/// A task for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// Decide about an object, by its owners or by its dependents.
    Judge(Uid),
    /// Release the dependents of an object, and then the object.
    Orphan(Uid),
    /// Find out whether an owner exists.
    Verify(u32),
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The name of the stored resource: `deployments.apps`.
    pub(super) resource: Arc<str>,
    /// Its namespace; empty for cluster-scoped objects.
    pub(super) namespace: Arc<str>,
    pub(super) name: Box<str>,
}

/// An owner as dependents in one namespace name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
    /// The namespace of the dependents; empty for cluster-scoped ones.
    pub(super) namespace: Arc<str>,
}

/// The state of a claim's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not looked up yet.
    Unverified,
    /// It exists, or existed when it was last looked up.
    Found,
    /// No such object exists, and none ever will: uids are never reused.
    Absent,
    /// It can't be looked up, see [`super::verdict::Owner::Unknown`].
    Unknown,
}

#[derive(Debug)]
struct ClaimEntry {
    claim: Claim,
    standing: Standing,
    dependents: HashSet<u32>,
}

#[derive(Debug)]
struct Node {
    uid: Uid,
    place: Place,
    owners: Box<[Edge]>,
    deletion: Deletion,
    /// The listing that last showed it.
    listed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Edge {
    claim: u32,
    blocks: bool,
}

/// The owners and dependents of objects.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Slots<Node>,
    by_uid: HashMap<Uid, u32>,
    claims: Slots<ClaimEntry>,
    claims_by_uid: HashMap<Uid, SmallVec<[u32; 1]>>,
    /// Texts that many nodes share.
    texts: HashSet<Arc<str>>,
    listing: u32,
}

/// The result of a listing.
pub(super) struct Seen<'s> {
    /// The owners among the objects.
    pub(super) owners: HashSet<Uid>,
    /// Whether objects of this `apiVersion` and `kind` are among those that are listed.
    pub(super) is_kind: &'s dyn Fn(&str, &str) -> bool,
}

/// The sizes of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) claims: usize,
}

impl Graph {
    pub(super) fn size(&self) -> Size {
        Size {
            nodes: self.by_uid.len(),
            claims: self.claims.len(),
        }
    }

    /// An object exists, with this metadata.
    pub(super) fn put(
        &mut self,
        place: (&str, &str, &str),
        metadata: &Metadata,
        work: &mut Vec<Task>,
    ) {
        let uid = Uid::of(&metadata.uid);
        let deletion = metadata.deletion();
        let waits = matches!(deletion, Deletion::Foreground | Deletion::Orphan);
        if metadata.owner_references.is_empty() && !waits {
            self.forget(&uid, work);
            return;
        }
        let (resource, namespace, name) = place;
        let known = self.by_uid.get(&uid).copied();
        let is_moved = known.and_then(|id| self.nodes.get(id)).is_some_and(|node| {
            (
                &*node.place.resource,
                &*node.place.namespace,
                &*node.place.name,
            ) != place
        });
        if is_moved {
            self.forget(&uid, work);
        }
        let id = match known.filter(|_| !is_moved) {
            Some(id) => id,
            None => {
                let place = Place {
                    resource: self.shared(resource),
                    namespace: self.shared(namespace),
                    name: name.into(),
                };
                let id = self.nodes.insert(Node {
                    uid: uid.clone(),
                    place,
                    owners: Box::default(),
                    deletion: Deletion::None,
                    listed: self.listing,
                });
                self.by_uid.insert(uid.clone(), id);
                id
            }
        };
        self.set_owners(id, namespace, &metadata.owner_references, work);
        let listing = self.listing;
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        node.listed = listing;
        let before = std::mem::replace(&mut node.deletion, deletion);
        if before != deletion {
            match deletion {
                Deletion::Foreground => {
                    work.extend(self.dependents(&uid).map(Task::Judge));
                    work.push(Task::Judge(uid));
                }
                Deletion::Orphan => work.push(Task::Orphan(uid)),
                Deletion::None | Deletion::Begun => {}
            }
        }
    }

    /// Replaces the references of a node.
    fn set_owners(
        &mut self,
        id: u32,
        namespace: &str,
        references: &[OwnerReference],
        work: &mut Vec<Task>,
    ) {
        let owners: Box<[Edge]> = references
            .iter()
            .map(|reference| Edge {
                claim: self.claim(namespace, reference, work),
                blocks: reference.block_owner_deletion == Some(true),
            })
            .collect();
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        let uid = node.uid.clone();
        let before = std::mem::replace(&mut node.owners, owners.clone());
        let is_same = before == owners;
        for edge in &owners {
            let Some(entry) = self.claims.get_mut(edge.claim) else {
                continue;
            };
            entry.dependents.insert(id);
            if is_same {
                continue;
            }
            if entry.standing == Standing::Absent {
                work.push(Task::Judge(uid.clone()));
            }
            let owner = entry.claim.uid.clone();
            match self.deletion(&owner) {
                Some(Deletion::Foreground) => work.push(Task::Judge(uid.clone())),
                Some(Deletion::Orphan) => work.push(Task::Orphan(owner)),
                _ => {}
            }
        }
        if is_same {
            return;
        }
        let edges: HashSet<Edge> = owners.iter().copied().collect();
        for edge in before.iter().filter(|edge| !edges.contains(edge)) {
            self.unblocked(edge.claim, work);
        }
        let kept: HashSet<u32> = owners.iter().map(|owner| owner.claim).collect();
        for edge in before.iter().filter(|edge| !kept.contains(&edge.claim)) {
            self.leave(edge.claim, id);
        }
    }

    /// Queues the owner of a claim, which may now wait for one dependent fewer.
    fn unblocked(&self, claim: u32, work: &mut Vec<Task>) {
        let owner = self.claims.get(claim).map(|entry| &entry.claim.uid);
        if let Some(owner) = owner
            && self.deletion(owner) == Some(Deletion::Foreground)
        {
            work.push(Task::Judge(owner.clone()));
        }
    }

    /// Removes a claim from a node. A claim without nodes is forgotten.
    fn leave(&mut self, claim: u32, node: u32) {
        let Some(entry) = self.claims.get_mut(claim) else {
            return;
        };
        entry.dependents.remove(&node);
        if !entry.dependents.is_empty() {
            return;
        }
        let uid = entry.claim.uid.clone();
        self.claims.remove(claim);
        if let Some(claims) = self.claims_by_uid.get_mut(&uid) {
            claims.retain(|known| *known != claim);
            if claims.is_empty() {
                self.claims_by_uid.remove(&uid);
            }
        }
    }

    /// Returns the claim of a reference. A new one must be verified.
    fn claim(&mut self, namespace: &str, reference: &OwnerReference, work: &mut Vec<Task>) -> u32 {
        let uid = Uid::of(&reference.uid);
        if let Some((id, _)) = self.find_claim(namespace, reference) {
            return id;
        }
        let claim = Claim {
            api_version: self.shared(&reference.api_version),
            kind: self.shared(&reference.kind),
            name: reference.name.as_str().into(),
            uid: uid.clone(),
            namespace: self.shared(namespace),
        };
        let id = self.claims.insert(ClaimEntry {
            claim,
            standing: Standing::Unverified,
            dependents: HashSet::new(),
        });
        self.claims_by_uid.entry(uid).or_default().push(id);
        work.push(Task::Verify(id));
        id
    }

    /// Records the deletion of an object.
    pub(super) fn deleted(&mut self, uid: &str, work: &mut Vec<Task>) {
        let uid = Uid::of(uid);
        self.forget(&uid, work);
        let claims = self.claims_by_uid.get(&uid).into_iter().flatten();
        work.extend(claims.map(|claim| Task::Verify(*claim)));
    }

    /// Removes a node, whether or not the object exists.
    fn forget(&mut self, uid: &Uid, work: &mut Vec<Task>) {
        let Some(id) = self.by_uid.remove(uid) else {
            return;
        };
        let Some(node) = self.nodes.remove(id) else {
            return;
        };
        for edge in &node.owners {
            self.unblocked(edge.claim, work);
            self.leave(edge.claim, id);
        }
    }

    /// Begins a listing of a resource: all its objects are put before it ends.
    pub(super) fn begin_listing(&mut self) -> u32 {
        self.listing = self.listing.wrapping_add(1);
        self.listing
    }

    /// Ends a listing of a resource, which began with this number. Removes nodes that it did not
    /// show. `seen` has the owners that it showed, if deletions may have been missed since the last
    /// one.
    pub(super) fn end_listing(
        &mut self,
        resource: &str,
        began: u32,
        seen: Option<Seen<'_>>,
        work: &mut Vec<Task>,
    ) {
        let listing = self.listing;
        let nodes = self.nodes.iter();
        let unseen = nodes.filter(|(_, node)| {
            *node.place.resource == *resource
                && listing.wrapping_sub(node.listed) > listing.wrapping_sub(began)
        });
        let unseen: Vec<Uid> = unseen.map(|(_, node)| node.uid.clone()).collect();
        for uid in unseen {
            self.forget(&uid, work);
        }
        let Some(seen) = seen else {
            return;
        };
        for (id, entry) in self.claims.iter_mut() {
            let is_seen = seen.owners.contains(&entry.claim.uid);
            if is_seen != (entry.standing == Standing::Absent)
                || !(seen.is_kind)(&entry.claim.api_version, &entry.claim.kind)
            {
                continue;
            }
            if is_seen {
                // The owner exists again, because the store was restored.
                entry.standing = Standing::Unverified;
            }
            work.push(Task::Verify(id));
        }
    }

    /// Whether some object names an owner with this uid.
    pub(super) fn is_claimed(&self, uid: &Uid) -> bool {
        self.claims_by_uid.contains_key(uid)
    }

    /// Removes a resource that is no longer served. The fate of its objects is unknown.
    pub(super) fn remove_resource(&mut self, resource: &str, work: &mut Vec<Task>) {
        let nodes = self.nodes.iter();
        let gone = nodes.filter(|(_, node)| *node.place.resource == *resource);
        let gone: Vec<Uid> = gone.map(|(_, node)| node.uid.clone()).collect();
        for uid in gone {
            self.forget(&uid, work);
        }
    }

    /// Queues the owners that could not be looked up, because other resources are served now, and
    /// those of kinds that are not served any longer: a definition goes with its last object, and
    /// that deletion may have been missed.
    pub(super) fn resources_changed(
        &mut self,
        is_served: &dyn Fn(&str, &str) -> bool,
        work: &mut Vec<Task>,
    ) {
        let mut served: HashMap<(&str, &str), bool> = HashMap::new();
        for (
            id,
            ClaimEntry {
                claim, standing, ..
            },
        ) in self.claims.iter()
        {
            let kind = (&*claim.api_version, &*claim.kind);
            let mut is_gone = || {
                let is_served = served
                    .entry(kind)
                    .or_insert_with(|| is_served(kind.0, kind.1));
                !*is_served
            };
            if match standing {
                Standing::Unknown => true,
                Standing::Found => is_gone(),
                Standing::Unverified | Standing::Absent => false,
            } {
                work.push(Task::Verify(id));
            }
        }
    }

    /// A claim, if it still exists, and the state of its owner.
    pub(super) fn claimed(&self, id: u32) -> Option<(&Claim, Standing)> {
        let entry = self.claims.get(id)?;
        Some((&entry.claim, entry.standing))
    }

    /// The state of the owner that an object in this namespace names.
    pub(super) fn standing(&self, namespace: &str, reference: &OwnerReference) -> Standing {
        let found = self.find_claim(namespace, reference);
        found.map_or(Standing::Unverified, |(_, entry)| entry.standing)
    }

    fn find_claim(
        &self,
        namespace: &str,
        reference: &OwnerReference,
    ) -> Option<(u32, &ClaimEntry)> {
        let claims = self.claims_by_uid.get(&Uid::of(&reference.uid))?;
        let mut entries = claims
            .iter()
            .filter_map(|id| Some((*id, self.claims.get(*id)?)));
        entries.find(|(_, entry)| {
            let claim = &entry.claim;
            *claim.namespace == *namespace
                && *claim.name == *reference.name
                && *claim.kind == *reference.kind
                && *claim.api_version == *reference.api_version
        })
    }

    /// Records the result of looking for an owner, if the claim is still this one.
    pub(super) fn verified(
        &mut self,
        id: u32,
        claim: &Claim,
        standing: Standing,
        work: &mut Vec<Task>,
    ) {
        let Some(entry) = self.claims.get_mut(id) else {
            return;
        };
        if entry.claim != *claim {
            return;
        }
        let before = std::mem::replace(&mut entry.standing, standing);
        // Objects that were kept because of an unknown owner may have other owners that are absent.
        let is_known_now = before == Standing::Unknown && standing != Standing::Unknown;
        if standing == Standing::Absent || is_known_now {
            let nodes = entry.dependents.iter().filter_map(|id| self.nodes.get(*id));
            work.extend(nodes.map(|node| Task::Judge(node.uid.clone())));
        }
    }

    /// The place of an object that has a node, and how it is being deleted.
    pub(super) fn found(&self, uid: &Uid) -> Option<(Place, Deletion)> {
        let node = self.node(uid)?;
        Some((node.place.clone(), node.deletion))
    }

    /// The dependents of this object, as far as they are known.
    pub(super) fn dependents_of(&self, uid: &Uid) -> Dependents {
        let mut nodes = self.dependent_nodes(uid).peekable();
        Dependents {
            any: nodes.peek().is_some(),
            any_waiting: nodes.any(|(_, node)| node.deletion == Deletion::Foreground),
        }
    }

    /// Whether an object has dependents that block its deletion. It does not block its own.
    pub(super) fn is_blocked(&self, uid: &Uid) -> bool {
        let mut nodes = self.dependent_nodes(uid);
        nodes.any(|(edge, node)| edge.blocks && node.uid != *uid)
    }

    /// Whether an object that waits for its dependents waits for itself in the end, because it is
    /// in a circle of objects that wait for each other.
    pub(super) fn waits_for_itself(&self, uid: &Uid) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![uid.clone()];
        while let Some(current) = next.pop() {
            for (edge, node) in self.dependent_nodes(&current) {
                if !edge.blocks || node.deletion != Deletion::Foreground || node.uid == current {
                    continue;
                }
                if node.uid == *uid {
                    return true;
                }
                if seen.insert(node.uid.clone()) {
                    next.push(node.uid.clone());
                }
            }
        }
        false
    }

    /// The objects that name this one as an owner.
    pub(super) fn dependents<'g>(&'g self, uid: &Uid) -> impl Iterator<Item = Uid> + use<'g> {
        self.dependent_nodes(uid).map(|(_, node)| node.uid.clone())
    }

    /// The places of the objects that name this one as an owner.
    pub(super) fn dependent_places(&self, uid: &Uid) -> Vec<(Uid, Place)> {
        let nodes = self.dependent_nodes(uid);
        nodes
            .map(|(_, node)| (node.uid.clone(), node.place.clone()))
            .collect()
    }

    /// The places of some of the objects that make a claim.
    pub(super) fn claimants(&self, claim: u32, most: usize) -> Vec<(Uid, Place)> {
        let dependents = self.claims.get(claim).map(|entry| &entry.dependents);
        let nodes = dependents.into_iter().flatten();
        let nodes = nodes.filter_map(|id| self.nodes.get(*id)).take(most);
        nodes
            .map(|node| (node.uid.clone(), node.place.clone()))
            .collect()
    }

    fn dependent_nodes<'g>(
        &'g self,
        uid: &Uid,
    ) -> impl Iterator<Item = (Edge, &'g Node)> + use<'g> {
        let claims = self.claims_by_uid.get(uid).into_iter().flatten();
        claims.flat_map(move |claim| {
            let entry = self.claims.get(*claim);
            let dependents = entry.into_iter().flat_map(|entry| &entry.dependents);
            dependents.filter_map(move |id| {
                let node = self.nodes.get(*id)?;
                let mut edges = node.owners.iter();
                let blocks = edges.any(|edge| edge.claim == *claim && edge.blocks);
                Some((
                    Edge {
                        claim: *claim,
                        blocks,
                    },
                    node,
                ))
            })
        })
    }

    fn node(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.get(*self.by_uid.get(uid)?)
    }

    fn deletion(&self, uid: &Uid) -> Option<Deletion> {
        self.node(uid).map(|node| node.deletion)
    }

    /// One copy of a text that many nodes have.
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= TEXTS_MAX {
            self.texts.clear();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }
}

/// The number of texts that are shared.
const TEXTS_MAX: usize = 16_384;
