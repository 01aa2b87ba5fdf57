//! The flags of kube-apiserver that are not settings: type, default, and what becomes of them.

use super::Fate::{NoEffect, Obeyed, Refused};
use super::Kind::Words;
use super::Kind::{Bool, Duration, Float, Int, Ip, Levels, List, Map, Quantity, Text, Versions};
use super::{ApiserverFlag, Fate, Kind, egress_selector};

const fn flag(name: &'static str, kind: Kind, default: &'static str, fate: Fate) -> ApiserverFlag {
    ApiserverFlag {
        name,
        kind,
        default,
        fate,
    }
}

const QUEUE: Fate = NoEffect("the queue of the audit log has fixed limits, and no pace");
const NO_WEBHOOK: Fate =
    NoEffect("no audit webhook is called, and audit-webhook-config-file is refused");
const PROFILES: Fate = NoEffect("the daemon has no profiles to serve");
const LOG: Fate = NoEffect("the log is one unbuffered stream on stderr");
const METRICS: Fate = NoEffect("all metrics are shown, and their labels are bounded");
const NO_ELECTIONS: Fate = NoEffect("leaders are not elected by the API server");
const NO_PEERS: Fate = NoEffect("requests are not passed on to other API servers");

/// The modes of the backends of audit events.
const MODES: Kind = Words(&["batch", "blocking", "blocking-strict"]);
/// The versions of audit events that kube-apiserver knows.
const AUDIT_VERSIONS: Kind = Words(&["audit.k8s.io/v1"]);

/// All rows, by name.
#[rustfmt::skip]
pub(in crate::config) const FLAGS: &[ApiserverFlag] = &[
    flag("admission-control", List, "", Obeyed("these plugins run and no others; enable-admission-plugins is its successor")),
    flag("aggregator-reject-forwarding-redirect", Bool, "true",
        Refused(&[], "redirects of aggregated API servers are not passed on; leave it out")),
    flag("allow-metric-labels", Map, "", METRICS),
    flag("allow-metric-labels-manifest", Text, "", METRICS),
    flag("audit-log-batch-buffer-size", Int, "10000", QUEUE),
    flag("audit-log-batch-max-size", Int, "1", QUEUE),
    flag("audit-log-batch-max-wait", Duration, "0s", QUEUE),
    flag("audit-log-batch-throttle-burst", Int, "0", QUEUE),
    flag("audit-log-batch-throttle-enable", Bool, "false", QUEUE),
    flag("audit-log-batch-throttle-qps", Float, "0", QUEUE),
    flag("audit-log-compress", Bool, "false", NoEffect("earlier files of the audit log are kept as they are")),
    flag("audit-log-format", Words(&["json", "legacy"]), "json",
        Refused(&[], "events are written as JSON only; use json")),
    flag("audit-log-mode", MODES, "blocking",
        Refused(&["batch"], "no request waits for its audit event or fails without it; use batch")),
    flag("audit-log-truncate-max-batch-size", Int, "10485760", QUEUE),
    flag("audit-log-version", AUDIT_VERSIONS, "audit.k8s.io/v1", Obeyed("it is the only version")),
    flag("audit-webhook-batch-buffer-size", Int, "10000", NO_WEBHOOK),
    flag("audit-webhook-batch-max-size", Int, "400", NO_WEBHOOK),
    flag("audit-webhook-batch-max-wait", Duration, "30s", NO_WEBHOOK),
    flag("audit-webhook-batch-throttle-burst", Int, "15", NO_WEBHOOK),
    flag("audit-webhook-batch-throttle-enable", Bool, "true", NO_WEBHOOK),
    flag("audit-webhook-batch-throttle-qps", Float, "10", NO_WEBHOOK),
    flag("audit-webhook-config-file", Text, "",
        Refused(&[], "no webhook gets audit events; let an agent send the file of audit-log-path")),
    flag("audit-webhook-initial-backoff", Duration, "10s", NO_WEBHOOK),
    flag("audit-webhook-mode", MODES, "batch", NO_WEBHOOK),
    flag("audit-webhook-truncate-enabled", Bool, "false", NO_WEBHOOK),
    flag("audit-webhook-truncate-max-batch-size", Int, "10485760", NO_WEBHOOK),
    flag("audit-webhook-truncate-max-event-size", Int, "102400", NO_WEBHOOK),
    flag("audit-webhook-version", AUDIT_VERSIONS, "audit.k8s.io/v1", NO_WEBHOOK),
    flag("contention-profiling", Bool, "false", PROFILES),
    flag("coordinated-leadership-lease-duration", Duration, "15s", NO_ELECTIONS),
    flag("coordinated-leadership-renew-deadline", Duration, "10s", NO_ELECTIONS),
    flag("coordinated-leadership-retry-period", Duration, "2s", NO_ELECTIONS),
    flag("debug-socket-path", Text, "", PROFILES),
    flag("disabled-metrics", List, "", METRICS),
    flag(egress_selector::FLAG, Text, "", Obeyed("connections are direct; a file that asks for proxies is refused")),
    flag("emulated-version", Versions(33, 36), "",
        Refused(&["1.36", "kube=1.36"], "only the APIs of 1.36 are served; choose among them with runtime-config")),
    flag("emulation-forward-compatible", Bool, "false",
        Refused(&[], "it is for an emulated-version before 1.36; leave it out")),
    flag("enable-logs-handler", Bool, "false", NoEffect("there are no files of logs to serve at /logs")),
    flag("enable-priority-and-fairness", Bool, "true",
        NoEffect("requests have the limits of max-requests-inflight, with shares for each user")),
    flag("log-flush-frequency", Duration, "5s", LOG),
    flag("log-json-info-buffer-size", Quantity, "0", LOG),
    flag("log-json-split-stream", Bool, "false", LOG),
    flag("log-text-info-buffer-size", Quantity, "0", LOG),
    flag("log-text-split-stream", Bool, "false", LOG),
    flag("logging-format", Words(&["json", "text"]), "text", Obeyed("it stands for log-format, which wins over it")),
    flag("max-connection-bytes-per-sec", Int, "0",
        Refused(&[], "connections are not throttled; limit their rate in a proxy or in the kernel")),
    flag("min-compatibility-version", Versions(33, 36), "1.35", NoEffect("the daemon serves the APIs of 1.36 only")),
    flag("peer-advertise-ip", Ip, "", NO_PEERS),
    flag("peer-advertise-port", Text, "", NO_PEERS),
    flag("peer-ca-file", Text, "", NO_PEERS),
    flag("permit-address-sharing", Bool, "false", Obeyed("SO_REUSEADDR is set in any case")),
    flag("profiling", Bool, "true", PROFILES),
    flag("runtime-config-emulation-forward-compatible", Bool, "false",
        Refused(&[], "it is for an emulated-version before 1.36; leave it out")),
    flag("send-retry-after-while-not-ready-once", Bool, "false", NoEffect("requests wait for what they need, or get 429")),
    flag("service-account-signing-endpoint", Text, "",
        Refused(&[], "no signer is called; give the key with service-account-signing-key-file")),
    flag("show-hidden-metrics-for-version", Words(&["", "1.35"]), "", METRICS),
    flag("shutdown-send-retry-after", Bool, "false",
        NoEffect("taffrail answers 429 with Retry-After, kube-apiserver serves open connections")),
    flag("shutdown-watch-termination-grace-period", Duration, "0s",
        NoEffect("watches end with a bookmark at once, so clients can resume")),
    flag("tracing-config-file", Text, "",
        Refused(&[], "no traces are sent; leave it out, and see docs/operate.md for logs and metrics")),
    flag("v", Int, "0", Obeyed("from 4 on it stands for log-level=debug; log-level wins over it")),
    flag("vmodule", Levels, "", NoEffect("log-level selects messages by modules of the daemon")),
];
