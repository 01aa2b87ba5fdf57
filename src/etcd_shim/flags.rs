//! The flags of etcd, and how each is treated.

/// A flag of etcd.
#[derive(Debug)]
pub(super) struct Flag {
    /// Without its dashes.
    pub(super) name: &'static str,
    /// Whether it may stand without a value.
    pub(super) is_switch: bool,
    pub(super) treatment: Treatment,
}

/// How a flag is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It has the effect of this text.
    Obeyed(&'static str),
    /// It changes nothing here, and that harms nobody: one line of the log names it.
    Noted,
    /// Its neglect would weaken protection or hide data, for this reason.
    Refused(&'static str),
}

use Treatment::{Noted, Obeyed, Refused};

const NO_TLS: &str =
    "TLS is not offered, and clients would not be checked; listen at http:// on loopback";
const ALONE: &str = "this program is the only member of its cluster";

/// All flags.
pub(super) const FLAGS: &[Flag] = &[
    value("name", Obeyed("Name of this member")),
    value(
        "data-dir",
        Obeyed("Directory of the store [default: NAME.etcd]"),
    ),
    value(
        "listen-client-urls",
        Obeyed("Where clients connect to, separated by commas [default: http://localhost:2379]"),
    ),
    value(
        "advertise-client-urls",
        Obeyed("Where clients are told to connect to"),
    ),
    value(
        "listen-peer-urls",
        Obeyed("Told to clients; nothing listens there"),
    ),
    value(
        "listen-metrics-urls",
        Obeyed("Further places that serve health and version"),
    ),
    value("initial-cluster", Obeyed("Must have one member at most")),
    switch(
        "unsafe-no-fsync",
        Obeyed("Do not sync files: fast, and a power cut may lose everything"),
    ),
    value(
        "max-request-bytes",
        Obeyed("Largest request [default: 1572864]"),
    ),
    value(
        "max-txn-ops",
        Obeyed("Most operations of a transaction [default: 128]"),
    ),
    value(
        "max-concurrent-streams",
        Obeyed("Most streams of a connection"),
    ),
    value(
        "watch-progress-notify-interval",
        Obeyed("How often idle watches report progress [default: 10m]"),
    ),
    value(
        "experimental-watch-progress-notify-interval",
        Obeyed("As --watch-progress-notify-interval"),
    ),
    value(
        "log-level",
        Obeyed("debug, info, warn or error [default: info]"),
    ),
    switch(
        "outlive-parent",
        Obeyed("Go on when the process that started this one has died (only here)"),
    ),
    value("cert-file", Refused(NO_TLS)),
    value("key-file", Refused(NO_TLS)),
    value("trusted-ca-file", Refused(NO_TLS)),
    switch("client-cert-auth", Refused(NO_TLS)),
    switch("auto-tls", Refused(NO_TLS)),
    value("client-crl-file", Refused(NO_TLS)),
    value("client-cert-allowed-hostname", Refused(NO_TLS)),
    value(
        "host-whitelist",
        Refused("hosts are not checked; listen on loopback"),
    ),
    value(
        "config-file",
        Refused("files of settings are not read; give flags"),
    ),
    value(
        "listen-client-http-urls",
        Refused("HTTP and gRPC share a port here; leave it out"),
    ),
    value("discovery", Refused(ALONE)),
    value("discovery-srv", Refused(ALONE)),
    value("discovery-endpoints", Refused(ALONE)),
    value("discovery-token", Refused(ALONE)),
    switch("enable-v2", Noted),
    switch("force-new-cluster", Noted),
    switch("strict-reconfig-check", Noted),
    switch("pre-vote", Noted),
    switch("initial-election-tick-advance", Noted),
    switch("enable-pprof", Noted),
    switch("enable-grpc-gateway", Noted),
    switch("peer-auto-tls", Noted),
    switch("peer-client-cert-auth", Noted),
    switch("peer-skip-client-san-verification", Noted),
    switch("socket-reuse-port", Noted),
    switch("socket-reuse-address", Noted),
    switch("debug", Noted),
    switch("enable-log-rotation", Noted),
    switch("compact-hash-check-enabled", Noted),
    switch("corrupt-check-enabled", Noted),
    switch("initial-corrupt-check", Noted),
    switch("enable-lease-checkpoint", Noted),
    switch("experimental-initial-corrupt-check", Noted),
    switch("experimental-compact-hash-check-enabled", Noted),
    switch("experimental-enable-lease-checkpoint", Noted),
    switch("experimental-enable-lease-checkpoint-persist", Noted),
    switch("experimental-memory-mlock", Noted),
    switch("memory-mlock", Noted),
    switch("experimental-txn-mode-write-with-shared-buffer", Noted),
    switch("experimental-stop-grpc-service-on-defrag", Noted),
    switch("enable-distributed-tracing", Noted),
    switch("experimental-enable-distributed-tracing", Noted),
    switch("experimental-enable-v2v3", Noted),
    value("snapshot-count", Noted),
    value("heartbeat-interval", Noted),
    value("election-timeout", Noted),
    value("initial-advertise-peer-urls", Noted),
    value("initial-cluster-state", Noted),
    value("initial-cluster-token", Noted),
    value("quota-backend-bytes", Noted),
    value("auto-compaction-mode", Noted),
    value("auto-compaction-retention", Noted),
    value("max-snapshots", Noted),
    value("max-wals", Noted),
    value("wal-dir", Noted),
    value("cors", Noted),
    value("backend-bbolt-freelist-type", Noted),
    value("backend-batch-interval", Noted),
    value("backend-batch-limit", Noted),
    value("grpc-keepalive-min-time", Noted),
    value("grpc-keepalive-interval", Noted),
    value("grpc-keepalive-timeout", Noted),
    value("peer-cert-file", Noted),
    value("peer-key-file", Noted),
    value("peer-trusted-ca-file", Noted),
    value("peer-crl-file", Noted),
    value("peer-cert-allowed-cn", Noted),
    value("peer-cert-allowed-hostname", Noted),
    value("peer-client-cert-file", Noted),
    value("peer-client-key-file", Noted),
    value("client-cert-file", Noted),
    value("client-key-file", Noted),
    value("cipher-suites", Noted),
    value("tls-min-version", Noted),
    value("tls-max-version", Noted),
    value("self-signed-cert-validity", Noted),
    value("auth-token", Noted),
    value("auth-token-ttl", Noted),
    value("bcrypt-cost", Noted),
    value("metrics", Noted),
    value("logger", Noted),
    value("log-outputs", Noted),
    value("log-format", Noted),
    value("log-rotation-config-json", Noted),
    value("log-package-levels", Noted),
    value("v2-deprecation", Noted),
    value("feature-gates", Noted),
    value("bootstrap-defrag-threshold-megabytes", Noted),
    value("experimental-bootstrap-defrag-threshold-megabytes", Noted),
    value("max-learners", Noted),
    value("experimental-max-learners", Noted),
    value("warning-apply-duration", Noted),
    value("experimental-warning-apply-duration", Noted),
    value("warning-unary-request-duration", Noted),
    value("experimental-warning-unary-request-duration", Noted),
    value("compaction-batch-limit", Noted),
    value("experimental-compaction-batch-limit", Noted),
    value("compaction-sleep-interval", Noted),
    value("experimental-compaction-sleep-interval", Noted),
    value("corrupt-check-time", Noted),
    value("experimental-corrupt-check-time", Noted),
    value("compact-hash-check-time", Noted),
    value("experimental-compact-hash-check-time", Noted),
    value("downgrade-check-time", Noted),
    value("experimental-downgrade-check-time", Noted),
    value("snapshot-catchup-entries", Noted),
    value("experimental-snapshot-catchup-entries", Noted),
    value("discovery-fallback", Noted),
    value("discovery-proxy", Noted),
    value("discovery-dial-timeout", Noted),
    value("discovery-request-timeout", Noted),
    value("discovery-keepalive-time", Noted),
    value("discovery-keepalive-timeout", Noted),
    value("distributed-tracing-address", Noted),
    value("distributed-tracing-service-name", Noted),
    value("distributed-tracing-instance-id", Noted),
    value("distributed-tracing-sampling-rate", Noted),
    value("experimental-distributed-tracing-address", Noted),
    value("experimental-distributed-tracing-service-name", Noted),
    value("experimental-distributed-tracing-instance-id", Noted),
    value("experimental-distributed-tracing-sampling-rate", Noted),
];

const fn value(name: &'static str, treatment: Treatment) -> Flag {
    Flag {
        name,
        is_switch: false,
        treatment,
    }
}

const fn switch(name: &'static str, treatment: Treatment) -> Flag {
    Flag {
        name,
        is_switch: true,
        treatment,
    }
}
