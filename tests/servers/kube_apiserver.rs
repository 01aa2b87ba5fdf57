//! A real kube-apiserver, with its default storage settings and one more feature.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::KeyPair;

use super::etcd::Cluster;
use super::ports::free_port;

/// The token of an administrator.
pub const TOKEN: &str = "the-token-of-the-test";

/// It needs some ten seconds to start on a free core.
const START_WITHIN: Duration = Duration::from_secs(150);

/// A kube-apiserver, which is killed when this is dropped.
pub struct KubeApiserver {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Drop for KubeApiserver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl KubeApiserver {
    /// Starts it over an etcd. It does not serve yet.
    pub fn spawn(program: &Path, cluster: &Cluster) -> KubeApiserver {
        KubeApiserver::spawn_with(program, cluster, &[])
    }

    /// Starts it over an etcd with more flags. It does not serve yet.
    pub fn spawn_with(program: &Path, cluster: &Cluster, flags: &[String]) -> KubeApiserver {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("tokens.csv"), format!("{TOKEN},ada,1,system:masters\n")).unwrap();
        let key = KeyPair::generate().unwrap();
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(at("public.pem"), key.public_key_pem()).unwrap();
        let port = free_port();
        let child = Command::new(program)
            .arg(format!("--etcd-servers={}", cluster.urls().join(",")))
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", at("certificates")))
            .arg(format!("--token-auth-file={}", at("tokens.csv")))
            .arg(format!("--service-account-key-file={}", at("public.pem")))
            .arg(format!(
                "--service-account-signing-key-file={}",
                at("key.pem")
            ))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.0.0.0/16")
            .arg("--bind-address=127.0.0.1")
            .arg("--advertise-address=127.0.0.1")
            .arg("--endpoint-reconciler-type=none")
            .arg("--authorization-mode=RBAC")
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg("--feature-gates=ContainerStopSignals=true")
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        KubeApiserver {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            folder,
        }
    }

    /// Waits until it serves. `is_ready` asks it.
    pub async fn until(&mut self, is_ready: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !is_ready().await {
            assert_eq!(self.child.try_wait().unwrap(), None, "kube-apiserver ended");
            assert!(
                begun.elapsed() < START_WITHIN,
                "kube-apiserver is not ready"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Where it listens, with TLS.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A kubeconfig of an administrator, who trusts any certificate.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let configuration = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://{}", self.address),
                "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
        });
        std::fs::write(&path, configuration.to_string()).unwrap();
        path
    }
}
