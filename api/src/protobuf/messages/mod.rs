//! Field numbers of the kinds that are read as protobuf.
//!
//! This folder owns the tables of messages: the kinds that `kubectl create` makes, and those that
//! leader election and deletions send. A kind and version enter, the description of its message
//! leaves. This folder must not know the wire format or request bodies.

mod core;
mod workloads;

use Shape::{Bool, Int, Json, MicroTime, Text, TextMap, Time};

/// The fields of a message.
pub(super) struct Message {
    parts: &'static [&'static [Field]],
}

impl Message {
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.parts.iter().copied().flatten()
    }
}

/// A field of a message.
pub(super) struct Field {
    /// Its number on the wire.
    pub number: u32,
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub shape: Shape,
    /// It may be there more than once.
    pub is_list: bool,
    /// Its zero value is kept, because it is a pointer in Go.
    pub keeps_zero: bool,
}

/// The type of a field's content.
pub(super) enum Shape {
    Text,
    Bool,
    Int,
    Message(&'static Message),
    TextMap,
    BytesMap,
    QuantityMap,
    Time,
    MicroTime,
    IntOrText,
    Json,
}

impl Shape {
    pub(super) fn is_map(&self) -> bool {
        matches!(self, Shape::TextMap | Shape::BytesMap | Shape::QuantityMap)
    }
}

const fn field(number: u32, name: &'static str, shape: Shape) -> Field {
    Field {
        number,
        name,
        shape,
        is_list: false,
        keeps_zero: false,
    }
}

const fn list(number: u32, name: &'static str, shape: Shape) -> Field {
    Field {
        is_list: true,
        ..field(number, name, shape)
    }
}

const fn pointer(number: u32, name: &'static str, shape: Shape) -> Field {
    Field {
        keeps_zero: true,
        ..field(number, name, shape)
    }
}

/// The message of a kind.
pub(super) fn of(version: &str, kind: &str) -> Option<&'static Message> {
    Some(match (version, kind) {
        ("v1", "Namespace") => &core::NAMESPACE,
        ("v1", "ConfigMap") => &core::CONFIG_MAP,
        ("v1", "Secret") => &core::SECRET,
        ("v1", "ServiceAccount") => &core::SERVICE_ACCOUNT,
        ("v1", "Service") => &core::SERVICE,
        ("v1", "Pod") => &workloads::POD,
        ("apps/v1", "Deployment") => &workloads::DEPLOYMENT,
        ("coordination.k8s.io/v1", "Lease") => &LEASE,
        (_, "DeleteOptions") => &DELETE_OPTIONS,
        _ => return None,
    })
}

static OWNER_REFERENCE: Message = Message {
    parts: &[&[
        field(1, "kind", Text),
        field(3, "name", Text),
        field(4, "uid", Text),
        field(5, "apiVersion", Text),
        pointer(6, "controller", Bool),
        pointer(7, "blockOwnerDeletion", Bool),
    ]],
};

static MANAGED_FIELDS: Message = Message {
    parts: &[&[
        field(1, "manager", Text),
        field(2, "operation", Text),
        field(3, "apiVersion", Text),
        field(4, "time", Time),
        field(6, "fieldsType", Text),
        field(7, "fieldsV1", Json),
        field(8, "subresource", Text),
    ]],
};

static OBJECT_META: Message = Message {
    parts: &[&[
        field(1, "name", Text),
        field(2, "generateName", Text),
        field(3, "namespace", Text),
        field(4, "selfLink", Text),
        field(5, "uid", Text),
        field(6, "resourceVersion", Text),
        field(7, "generation", Int),
        field(8, "creationTimestamp", Time),
        field(9, "deletionTimestamp", Time),
        pointer(10, "deletionGracePeriodSeconds", Int),
        field(11, "labels", TextMap),
        field(12, "annotations", TextMap),
        list(13, "ownerReferences", Shape::Message(&OWNER_REFERENCE)),
        list(14, "finalizers", Text),
        list(17, "managedFields", Shape::Message(&MANAGED_FIELDS)),
    ]],
};

const METADATA: &[Field] = &[field(1, "metadata", Shape::Message(&OBJECT_META))];

static LEASE_SPEC: Message = Message {
    parts: &[&[
        pointer(1, "holderIdentity", Text),
        pointer(2, "leaseDurationSeconds", Int),
        field(3, "acquireTime", MicroTime),
        field(4, "renewTime", MicroTime),
        pointer(5, "leaseTransitions", Int),
        pointer(6, "strategy", Text),
        pointer(7, "preferredHolder", Text),
    ]],
};

static LEASE: Message = Message {
    parts: &[METADATA, &[field(2, "spec", Shape::Message(&LEASE_SPEC))]],
};

static PRECONDITIONS: Message = Message {
    parts: &[&[pointer(1, "uid", Text), pointer(2, "resourceVersion", Text)]],
};

static DELETE_OPTIONS: Message = Message {
    parts: &[&[
        pointer(1, "gracePeriodSeconds", Int),
        field(2, "preconditions", Shape::Message(&PRECONDITIONS)),
        pointer(3, "orphanDependents", Bool),
        pointer(4, "propagationPolicy", Text),
        list(5, "dryRun", Text),
    ]],
};
