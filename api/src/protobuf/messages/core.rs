//! The small kinds of the core group.

use super::Shape::{Bool, BytesMap, Int, IntOrText, Text, TextMap};
use super::{METADATA, Message, Shape, field, list, pointer};

static NAMESPACE_SPEC: Message = Message {
    parts: &[&[list(1, "finalizers", Text)]],
};

static NAMESPACE_STATUS: Message = Message {
    parts: &[&[field(1, "phase", Text)]],
};

pub(super) static NAMESPACE: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&NAMESPACE_SPEC)),
            field(3, "status", Shape::Message(&NAMESPACE_STATUS)),
        ],
    ],
};

pub(super) static CONFIG_MAP: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "data", TextMap),
            field(3, "binaryData", BytesMap),
            pointer(4, "immutable", Bool),
        ],
    ],
};

pub(super) static SECRET: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "data", BytesMap),
            field(3, "type", Text),
            field(4, "stringData", TextMap),
            pointer(5, "immutable", Bool),
        ],
    ],
};

static OBJECT_REFERENCE: Message = Message {
    parts: &[&[
        field(1, "kind", Text),
        field(2, "namespace", Text),
        field(3, "name", Text),
        field(4, "uid", Text),
        field(5, "apiVersion", Text),
        field(6, "resourceVersion", Text),
        field(7, "fieldPath", Text),
    ]],
};

pub(super) static LOCAL_REFERENCE: Message = Message {
    parts: &[&[field(1, "name", Text)]],
};

pub(super) static SERVICE_ACCOUNT: Message = Message {
    parts: &[
        METADATA,
        &[
            list(2, "secrets", Shape::Message(&OBJECT_REFERENCE)),
            list(3, "imagePullSecrets", Shape::Message(&LOCAL_REFERENCE)),
            pointer(4, "automountServiceAccountToken", Bool),
        ],
    ],
};

static SERVICE_PORT: Message = Message {
    parts: &[&[
        field(1, "name", Text),
        field(2, "protocol", Text),
        pointer(3, "port", Int),
        field(4, "targetPort", IntOrText),
        field(5, "nodePort", Int),
        pointer(6, "appProtocol", Text),
    ]],
};

static SERVICE_SPEC: Message = Message {
    parts: &[&[
        list(1, "ports", Shape::Message(&SERVICE_PORT)),
        field(2, "selector", TextMap),
        field(3, "clusterIP", Text),
        field(4, "type", Text),
        list(5, "externalIPs", Text),
        field(7, "sessionAffinity", Text),
        field(8, "loadBalancerIP", Text),
        list(9, "loadBalancerSourceRanges", Text),
        field(10, "externalName", Text),
        field(11, "externalTrafficPolicy", Text),
        field(12, "healthCheckNodePort", Int),
        field(13, "publishNotReadyAddresses", Bool),
        pointer(17, "ipFamilyPolicy", Text),
        list(18, "clusterIPs", Text),
        list(19, "ipFamilies", Text),
        pointer(20, "allocateLoadBalancerNodePorts", Bool),
        pointer(21, "loadBalancerClass", Text),
        pointer(22, "internalTrafficPolicy", Text),
        pointer(23, "trafficDistribution", Text),
    ]],
};

pub(super) static NOTHING: Message = Message { parts: &[] };

static SERVICE_STATUS: Message = Message {
    parts: &[&[field(1, "loadBalancer", Shape::Message(&NOTHING))]],
};

pub(super) static SERVICE: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&SERVICE_SPEC)),
            field(3, "status", Shape::Message(&SERVICE_STATUS)),
        ],
    ],
};
