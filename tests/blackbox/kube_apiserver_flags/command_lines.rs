//! The command lines that kubeadm, kind and k3s write start the daemon, which serves and notes in
//! one line what has no effect.

use serde_json::json;

use super::Pki;
use crate::harness::{Call, Daemon, Options};
use crate::servers::etcd::{Cluster, Tls};

/// kubeadm's, but for the addresses and ports of this machine.
const KUBEADM: &str = "--advertise-address=192.0.2.7 --allow-privileged=true \
    --authorization-mode=Node,RBAC --client-ca-file=PKI/ca.crt \
    --enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true \
    --etcd-cafile=PKI/etcd-ca.crt --etcd-certfile=PKI/apiserver-etcd-client.crt \
    --etcd-keyfile=PKI/apiserver-etcd-client.key \
    --kubelet-client-certificate=PKI/apiserver-kubelet-client.crt \
    --kubelet-client-key=PKI/apiserver-kubelet-client.key \
    --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname \
    --proxy-client-cert-file=PKI/front-proxy-client.crt \
    --proxy-client-key-file=PKI/front-proxy-client.key \
    --requestheader-allowed-names=front-proxy-client \
    --requestheader-client-ca-file=PKI/front-proxy-ca.crt \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --requestheader-group-headers=X-Remote-Group \
    --requestheader-username-headers=X-Remote-User \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file=PKI/sa.pub --service-account-signing-key-file=PKI/sa.key \
    --service-cluster-ip-range=10.96.0.0/16 --tls-cert-file=PKI/apiserver.crt \
    --tls-private-key-file=PKI/apiserver.key";

/// k3s's, with its certificates under the names of kubeadm and connections that are direct.
const K3S: &str = "--advertise-address=192.0.2.7 --advertise-port=6443 --allow-privileged=true \
    --anonymous-auth=false \
    --api-audiences=https://kubernetes.default.svc.cluster.local,k3s \
    --authorization-mode=Node,RBAC --bind-address=127.0.0.1 --cert-dir=PKI/temporary-certs \
    --client-ca-file=PKI/ca.crt --egress-selector-config-file=PKI/egress.yaml \
    --enable-admission-plugins=NodeRestriction --enable-aggregator-routing=true \
    --enable-bootstrap-token-auth=true --kubelet-certificate-authority=PKI/ca.crt \
    --kubelet-client-certificate=PKI/apiserver-kubelet-client.crt \
    --kubelet-client-key=PKI/apiserver-kubelet-client.key \
    --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --profiling=false \
    --proxy-client-cert-file=PKI/front-proxy-client.crt \
    --proxy-client-key-file=PKI/front-proxy-client.key \
    --requestheader-allowed-names=system:auth-proxy \
    --requestheader-client-ca-file=PKI/front-proxy-ca.crt \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --requestheader-group-headers=X-Remote-Group \
    --requestheader-username-headers=X-Remote-User \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file=PKI/sa.pub --service-account-signing-key-file=PKI/sa.key \
    --service-cluster-ip-range=10.43.0.0/16 --service-node-port-range=30000-32767 \
    --storage-backend=etcd3 --tls-cert-file=PKI/apiserver.crt \
    --tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,\
TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,\
TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,\
TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305 --tls-private-key-file=PKI/apiserver.key";

const DIRECT: &str = "apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: Direct}
";

fn etcd(pki: &Pki) -> Cluster {
    Cluster::with_tls(
        "3.5",
        &Tls {
            authority: pki.path("etcd-ca.crt"),
            certificate: pki.path("etcd-server.crt"),
            key: pki.path("etcd-server.key"),
        },
    )
}

/// Starts a daemon with a command line and an etcd.
async fn start(pki: &Pki, cluster: &Cluster, line: &str, further: &[&str]) -> Daemon {
    let servers = format!("--etcd-servers={}", cluster.urls()[0]);
    let arguments = pki.arguments(line);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let all = [&arguments, further, &[servers.as_str()]].concat();
    Options::default().arguments(&all).start().await
}

/// The daemon carries out a write of a client with a certificate of the cluster.
async fn serves(daemon: &Daemon, pki: &Pki) {
    let certificate = pki.text("apiserver-kubelet-client.crt");
    let key = pki.text("apiserver-kubelet-client.key");
    let target = daemon.target().with_certificate(&certificate, &key);
    let body = json!({"metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    target
        .client()
        .call(Call::post(path, &body))
        .await
        .expect(201);
}

/// The notes about flags in the log.
fn notes(daemon: &Daemon) -> Vec<String> {
    let log = daemon.stderr();
    let lines = log
        .lines()
        .filter_map(|line| line.split_once("flags of kube-apiserver "));
    lines.map(|(_, note)| note.to_owned()).collect()
}

#[tokio::test]
async fn kubeadms_and_kinds_lines_start_the_daemon_d_118() {
    let pki = Pki::new();
    let making = tokio::task::spawn_blocking(move || (etcd(&pki), pki));
    let (cluster, pki) = making.await.unwrap();
    let daemon = start(&pki, &cluster, KUBEADM, &[]).await;
    serves(&daemon, &pki).await;
    assert!(notes(&daemon).is_empty());
    drop(daemon);
    // kind adds this one.
    let daemon = start(&pki, &cluster, KUBEADM, &["--runtime-config="]).await;
    assert!(notes(&daemon).is_empty());
}

#[tokio::test]
async fn k3ss_line_starts_the_daemon_d_118() {
    let pki = Pki::new();
    pki.write("egress.yaml", DIRECT);
    let making = tokio::task::spawn_blocking(move || {
        // k3s gives no certificates for its etcd here, so it speaks plain HTTP.
        (Cluster::single("3.5"), pki)
    });
    let (cluster, pki) = making.await.unwrap();
    let daemon = start(&pki, &cluster, K3S, &["-v", "2"]).await;
    serves(&daemon, &pki).await;
    let note = "without effect: profiling; see docs/kube-apiserver-flags.md";
    assert_eq!(notes(&daemon), [note]);
    // The folder is ignored, because a certificate is given.
    assert!(!pki.path("temporary-certs").exists());
    let anonymous = daemon.target().anonymous().client();
    let refused = anonymous.call(Call::get("/api")).await;
    assert_eq!(refused.status, 401);
    let path = "/api/v1/namespaces/default/endpoints/kubernetes";
    let endpoints = daemon.client().call(Call::get(path)).await.expect(200);
    let subset = &endpoints["subsets"][0];
    assert_eq!(subset["addresses"][0]["ip"], "192.0.2.7");
    assert_eq!(subset["ports"][0]["port"], 6443);
}

/// Names with underscores, values in arguments of their own, short flags and repeated lists.
#[tokio::test]
async fn flags_have_the_forms_of_kube_apiservers_parser() {
    let daemon = Daemon::with(&[
        "--feature_gates=ComponentStatusz=false",
        "--feature-gates",
        "ComponentFlagz=false",
        "-v=4",
        "--kubelet_timeout",
        "7s",
        "--runtime-config",
        "--service-cluster-ip-range",
        "10.43.0.0/16",
        "--contention-profiling",
    ])
    .await;
    let client = daemon.client();
    for path in ["/statusz", "/flagz"] {
        let answer = client.call(Call::get(path)).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    assert!(daemon.stderr().contains(" DEBUG "));
    assert_eq!(
        notes(&daemon),
        ["without effect: contention-profiling; see docs/kube-apiserver-flags.md"]
    );
}

/// Flags stand before the command `serve` and after it; other commands do not have them.
#[test]
fn flags_are_those_of_serving() {
    let run = |arguments: &[&str]| {
        let output = crate::harness::daemon::taffrail().args(arguments).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    let wrong = ["--kubelet-timeout=5", "serve", "--profiling=maybe"];
    let (code, text) = run(&wrong);
    assert_eq!(code, Some(2));
    assert_eq!(
        text,
        "taffrail: --kubelet-timeout=5: not a duration such as 250ms, 90s, 10m, 1h30m or 7d\n\
         --profiling=maybe: neither true nor false\n"
    );
    let (code, text) = run(&["config", "--profiling=true"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--profiling is unknown"), "{text}");
    let (code, text) = run(&["--kublet-timeout=5s", "--audit-log-modus=batch"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        text,
        "taffrail: --kublet-timeout is unknown; did you mean --kubelet-timeout?\n\
         --audit-log-modus is unknown; did you mean --audit-log-mode?\n"
    );
}
