//! Pods and what makes them.

use super::Shape::{Bool, Int, IntOrText, QuantityMap, Text, TextMap};
use super::core::{LOCAL_REFERENCE, NOTHING};
use super::{METADATA, Message, Shape, field, list, pointer};

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

pub(super) static POD: Message = Message {
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

pub(super) static DEPLOYMENT: Message = Message {
    parts: &[
        METADATA,
        &[
            field(2, "spec", Shape::Message(&DEPLOYMENT_SPEC)),
            field(3, "status", Shape::Message(&DEPLOYMENT_STATUS)),
        ],
    ],
};
