//! Field numbers of the kinds that are read as protobuf: those that `kubectl create` makes, and
//! what leader election and deletions send.

/// A message: its fields.
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
    /// Its zero value says something and stays (pointers in Go).
    pub keeps_zero: bool,
}

/// What a field holds.
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

use Shape::{Bool, BytesMap, Int, IntOrText, Json, MicroTime, QuantityMap, Text, TextMap, Time};

/// The message of a kind.
pub(super) fn of(version: &str, kind: &str) -> Option<&'static Message> {
    Some(match (version, kind) {
        ("v1", "Namespace") => &NAMESPACE,
        ("v1", "ConfigMap") => &CONFIG_MAP,
        ("v1", "Secret") => &SECRET,
        ("v1", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("v1", "Service") => &SERVICE,
        ("v1", "Pod") => &POD,
        ("apps/v1", "Deployment") => &DEPLOYMENT,
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

static NAMESPACE_SPEC: Message = Message {
    parts: &[&[list(1, "finalizers", Text)]],
};

static NAMESPACE_STATUS: Message = Message {
    parts: &[&[field(1, "phase", Text)]],
};

static NAMESPACE: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&NAMESPACE_SPEC)),
            field(3, "status", Shape::Message(&NAMESPACE_STATUS)),
        ],
    ],
};

static CONFIG_MAP: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "data", TextMap),
            field(3, "binaryData", BytesMap),
            pointer(4, "immutable", Bool),
        ],
    ],
};

static SECRET: Message = Message {
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

static LOCAL_REFERENCE: Message = Message {
    parts: &[&[field(1, "name", Text)]],
};

static SERVICE_ACCOUNT: Message = Message {
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

static NOTHING: Message = Message { parts: &[] };

static SERVICE_STATUS: Message = Message {
    parts: &[&[field(1, "loadBalancer", Shape::Message(&NOTHING))]],
};

static SERVICE: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&SERVICE_SPEC)),
            field(3, "status", Shape::Message(&SERVICE_STATUS)),
        ],
    ],
};

static CONTAINER_PORT: Message = Message {
    parts: &[&[
        field(1, "name", Text),
        field(2, "hostPort", Int),
        pointer(3, "containerPort", Int),
        field(4, "protocol", Text),
        field(5, "hostIP", Text),
    ]],
};

static ENVIRONMENT: Message = Message {
    parts: &[&[field(1, "name", Text), field(2, "value", Text)]],
};

static RESOURCES: Message = Message {
    parts: &[&[
        field(1, "limits", QuantityMap),
        field(2, "requests", QuantityMap),
    ]],
};

static CONTAINER: Message = Message {
    parts: &[&[
        field(1, "name", Text),
        field(2, "image", Text),
        list(3, "command", Text),
        list(4, "args", Text),
        field(5, "workingDir", Text),
        list(6, "ports", Shape::Message(&CONTAINER_PORT)),
        list(7, "env", Shape::Message(&ENVIRONMENT)),
        field(8, "resources", Shape::Message(&RESOURCES)),
        field(13, "terminationMessagePath", Text),
        field(14, "imagePullPolicy", Text),
        field(16, "stdin", Bool),
        field(17, "stdinOnce", Bool),
        field(18, "tty", Bool),
        field(20, "terminationMessagePolicy", Text),
    ]],
};

static POD_SPEC: Message = Message {
    parts: &[&[
        list(2, "containers", Shape::Message(&CONTAINER)),
        field(3, "restartPolicy", Text),
        pointer(4, "terminationGracePeriodSeconds", Int),
        pointer(5, "activeDeadlineSeconds", Int),
        field(6, "dnsPolicy", Text),
        field(7, "nodeSelector", TextMap),
        field(8, "serviceAccountName", Text),
        field(9, "serviceAccount", Text),
        field(10, "nodeName", Text),
        field(11, "hostNetwork", Bool),
        field(12, "hostPID", Bool),
        field(13, "hostIPC", Bool),
        field(14, "securityContext", Shape::Message(&NOTHING)),
        list(15, "imagePullSecrets", Shape::Message(&LOCAL_REFERENCE)),
        field(16, "hostname", Text),
        field(17, "subdomain", Text),
        field(19, "schedulerName", Text),
        pointer(21, "automountServiceAccountToken", Bool),
        field(24, "priorityClassName", Text),
        pointer(25, "priority", Int),
        pointer(27, "shareProcessNamespace", Bool),
        pointer(29, "runtimeClassName", Text),
        pointer(30, "enableServiceLinks", Bool),
        pointer(31, "preemptionPolicy", Text),
    ]],
};

static POD_STATUS: Message = Message {
    parts: &[&[field(1, "phase", Text)]],
};

static POD: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&POD_SPEC)),
            field(3, "status", Shape::Message(&POD_STATUS)),
        ],
    ],
};

static REQUIREMENT: Message = Message {
    parts: &[&[
        field(1, "key", Text),
        field(2, "operator", Text),
        list(3, "values", Text),
    ]],
};

static LABEL_SELECTOR: Message = Message {
    parts: &[&[
        field(1, "matchLabels", TextMap),
        list(2, "matchExpressions", Shape::Message(&REQUIREMENT)),
    ]],
};

static POD_TEMPLATE: Message = Message {
    parts: &[METADATA, &[field(2, "spec", Shape::Message(&POD_SPEC))]],
};

static ROLLING_UPDATE: Message = Message {
    parts: &[&[
        field(1, "maxUnavailable", IntOrText),
        field(2, "maxSurge", IntOrText),
    ]],
};

static STRATEGY: Message = Message {
    parts: &[&[
        field(1, "type", Text),
        field(2, "rollingUpdate", Shape::Message(&ROLLING_UPDATE)),
    ]],
};

static DEPLOYMENT_SPEC: Message = Message {
    parts: &[&[
        pointer(1, "replicas", Int),
        field(2, "selector", Shape::Message(&LABEL_SELECTOR)),
        field(3, "template", Shape::Message(&POD_TEMPLATE)),
        field(4, "strategy", Shape::Message(&STRATEGY)),
        field(5, "minReadySeconds", Int),
        pointer(6, "revisionHistoryLimit", Int),
        field(7, "paused", Bool),
        pointer(9, "progressDeadlineSeconds", Int),
    ]],
};

static DEPLOYMENT_STATUS: Message = Message {
    parts: &[&[
        field(1, "observedGeneration", Int),
        field(2, "replicas", Int),
        field(3, "updatedReplicas", Int),
        field(4, "availableReplicas", Int),
        field(5, "unavailableReplicas", Int),
        field(7, "readyReplicas", Int),
        pointer(8, "collisionCount", Int),
    ]],
};

static DEPLOYMENT: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&DEPLOYMENT_SPEC)),
            field(3, "status", Shape::Message(&DEPLOYMENT_STATUS)),
        ],
    ],
};

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
