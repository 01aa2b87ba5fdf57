//! Flags that are refused, and values that are wrong. All of one command line are named at once.

use std::process::Stdio;

use crate::harness::daemon::taffrail;

/// Flags whose neglect would weaken protection or lose data, with what is said.
const REFUSED: [(&str, &str); 12] = [
    (
        "--audit-log-format=legacy",
        "events are written as JSON only; use json",
    ),
    (
        "--audit-log-mode=blocking-strict",
        "no request waits for its audit event or fails without it; use batch",
    ),
    (
        "--audit-log-version=audit.k8s.io/v1beta1",
        "not one of audit.k8s.io/v1",
    ),
    (
        "--audit-webhook-config-file=/hook",
        "no webhook gets audit events; let an agent send the file of audit-log-path",
    ),
    (
        "--emulated-version=kube=1.35",
        "only the APIs of 1.36 are served; choose among them with runtime-config",
    ),
    (
        "--emulation-forward-compatible=true",
        "it is for an emulated-version before 1.36; leave it out",
    ),
    (
        "--endpoint-reconciler-type=master-count",
        "master-count is not built; use lease",
    ),
    (
        "--max-connection-bytes-per-sec=1",
        "connections are not throttled; limit their rate in a proxy or in the kernel",
    ),
    (
        "--runtime-config-emulation-forward-compatible=true",
        "it is for an emulated-version before 1.36; leave it out",
    ),
    (
        "--service-account-signing-endpoint=@a",
        "no signer is called; give the key with service-account-signing-key-file",
    ),
    (
        "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_RC4_128_SHA is insecure and not built; leave it out",
    ),
    (
        "--tracing-config-file=/tracing",
        "no traces are sent; leave it out, and see docs/operate.md for logs and metrics",
    ),
];

/// A value that is wrong for each type, by its name in the fixture.
fn wrong(kind: &str, name: &str) -> Option<&'static str> {
    Some(match kind {
        "ip" => "here",
        "int" | "float" | "quantity" => "many",
        "duration" => "soon",
        "portRange" => "9-1",
        "bool" if name == "tls-curve-preferences" || name == "vmodule" => "x",
        "bool" => "maybe",
        _ if name == "oidc-required-claim" => return None,
        "mapStringString" | "stringToString" | "colonSeparatedMultimapStringString" => "x",
        "namedCertKey" => "x",
        _ => match name {
            "audit-log-format" | "audit-log-mode" | "audit-log-version" => "x",
            "audit-webhook-mode" | "audit-webhook-version" | "logging-format" => "x",
            "authorization-mode" | "emulated-version" | "min-compatibility-version" => "x",
            "disable-admission-plugins" | "enable-admission-plugins" => "x",
            "egress-selector-config-file" => "/nonexistent",
            "endpoint-reconciler-type" | "etcd-servers-overrides" => "x",
            "show-hidden-metrics-for-version" | "storage-backend" | "storage-media-type" => "x",
            "peer-advertise-ip" | "service-cluster-ip-range" => "x",
            "tls-cipher-suites" | "tls-min-version" | "watch-cache-sizes" => "x",
            // Any text is possible, or the values are checked together with others.
            _ => return None,
        },
    })
}

/// The lines that are said about a command line, which must be refused.
#[track_caller]
fn lines(arguments: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let output = taffrail()
        .args(arguments)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "files are left behind");
    let text = text.strip_prefix("taffrail: ").unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn what_must_not_be_neglected_is_refused_with_advice_d_118() {
    let all: Vec<String> = REFUSED.iter().map(|(flag, _)| (*flag).to_owned()).collect();
    let wanted: Vec<String> = REFUSED
        .iter()
        .map(|(flag, advice)| format!("{flag}: {advice}"))
        .collect();
    assert_eq!(lines(&all), wanted);
    for (flag, wanted) in all.iter().zip(&wanted) {
        let serve = ["serve".to_owned(), flag.clone()];
        assert_eq!(lines(&serve), std::slice::from_ref(wanted));
    }
}

#[test]
fn every_wrong_value_is_named_in_a_line_of_its_own() {
    let all = include_str!("../../fixtures/kube-apiserver-1.36-flags.tsv");
    let all = all.lines().filter_map(|line| line.split_once('\t'));
    let arguments: Vec<String> = all
        .filter(|(name, _)| !matches!(*name, "help" | "version"))
        .filter_map(|(name, kind)| Some(format!("--{name}={}", wrong(kind, name)?)))
        .collect();
    assert!(arguments.len() > 100, "{}", arguments.len());
    let lines = lines(&arguments);
    for (argument, line) in arguments.iter().zip(&lines) {
        assert!(
            line.starts_with(&format!("{argument}: ")),
            "{argument}: {line}"
        );
    }
    assert_eq!(lines.len(), arguments.len());
}

#[test]
fn values_that_do_not_fit_together_are_named_at_once() {
    let lines = lines(&[
        "--cors-allowed-origins=example.com".to_owned(),
        "--strict-transport-security-directives=always".to_owned(),
        "--kubernetes-service-node-port=7".to_owned(),
        "--coordinated-leadership-lease-duration=1s".to_owned(),
        "--request-timeout=2h".to_owned(),
        "--shutdown-delay-duration=2d".to_owned(),
        "--audit-log-truncate-max-event-size=0".to_owned(),
    ]);
    let names: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split([':', '=']).next())
        .collect();
    assert_eq!(
        names,
        [
            "--coordinated-leadership-lease-duration",
            "--strict-transport-security-directives",
            "--cors-allowed-origins",
            "--kubernetes-service-node-port",
            "--audit-log-truncate-max-event-size",
            "--request-timeout",
            "--shutdown-delay-duration",
        ]
    );
}
