//! The unmodified kube-controller-manager and kube-scheduler.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;

use super::programs::named;

/// The two programs.
pub struct Programs {
    manager: PathBuf,
    scheduler: PathBuf,
}

/// Both programs with their logs; killed when this is dropped.
pub struct Controllers {
    children: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Programs {
    /// Those that TAFFRAIL_CONTROLLER_MANAGER and TAFFRAIL_SCHEDULER name. `None`, with a line that
    /// says so, if one is missing.
    pub fn find() -> Option<Programs> {
        Some(Programs {
            manager: named("TAFFRAIL_CONTROLLER_MANAGER")?,
            scheduler: named("TAFFRAIL_SCHEDULER")?,
        })
    }

    /// Starts both against the server of a kubeconfig, which they ask for this media type, and for
    /// at most so much a second if that is not the usual.
    pub fn start(&self, kubeconfig: &Path, media_type: &str, rate: Option<u32>) -> Controllers {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let key = KeyPair::generate().unwrap();
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&key).unwrap();
        std::fs::write(at("ca.crt"), certificate.pem()).unwrap();
        let kubeconfig = kubeconfig.display().to_string();
        let mut configuration = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {"kubeconfig": kubeconfig, "contentType": media_type,
                "acceptContentTypes": media_type},
        });
        if let Some(rate) = rate {
            configuration["clientConnection"]["qps"] = f64::from(rate).into();
            configuration["clientConnection"]["burst"] = (2 * rate).into();
        }
        std::fs::write(at("scheduler.yaml"), configuration.to_string()).unwrap();
        let manager = spawn(
            folder.path(),
            "kube-controller-manager.log",
            Command::new(&self.manager)
                .arg(format!("--kubeconfig={kubeconfig}"))
                .arg("--leader-elect=false")
                .arg(format!(
                    "--service-account-private-key-file={}",
                    at("key.pem")
                ))
                .arg(format!("--root-ca-file={}", at("ca.crt")))
                .arg(format!("--cluster-signing-cert-file={}", at("ca.crt")))
                .arg(format!("--cluster-signing-key-file={}", at("key.pem")))
                // Without kubelets no node renews its lease.
                .arg("--controllers=*,-node-lifecycle-controller,-taint-eviction-controller")
                .arg(format!("--kube-api-content-type={media_type}"))
                .arg("--secure-port=0")
                .args(rate.map(|rate| format!("--kube-api-qps={rate}")))
                .args(rate.map(|rate| format!("--kube-api-burst={}", 2 * rate))),
        );
        let scheduler = spawn(
            folder.path(),
            "kube-scheduler.log",
            Command::new(&self.scheduler)
                .arg(format!("--config={}", at("scheduler.yaml")))
                .arg("--secure-port=0"),
        );
        Controllers {
            children: vec![manager, scheduler],
            folder,
        }
    }
}

impl Controllers {
    /// The lines at error level of both logs.
    pub fn error_lines(&self) -> Vec<String> {
        let logs = ["kube-controller-manager.log", "kube-scheduler.log"];
        let is_error = |line: &&str| {
            line.starts_with('E') && line[1..].starts_with(|letter: char| letter.is_ascii_digit())
        };
        let of = |name: &str| {
            let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap();
            let lines = text.lines().filter(is_error);
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        logs.into_iter().flat_map(of).collect()
    }
}

/// The kinds of such lines: where in the program each comes from, and what it says without names
/// and numbers, which differ from run to run.
pub fn kinds_of_errors(lines: &[String]) -> BTreeSet<String> {
    let kind = |line: &String| {
        // "E0102 15:04:05.000000   123 file.go:45] ..."
        let said = line.split_ascii_whitespace().skip(3);
        let words = said.map(|word| {
            let is_named = |letter: char| letter.is_ascii_digit() || "/\\".contains(letter);
            match word.contains(".go:") {
                true => word,
                false if word.contains(is_named) => "…",
                false => word,
            }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(kind).collect()
}

/// Starts a program that writes into the log of this name.
fn spawn(folder: &Path, name: &str, command: &mut Command) -> Child {
    let log = File::create(folder.join(name)).unwrap();
    let errors = log.try_clone().unwrap();
    let command = command.stdin(Stdio::null()).stdout(log).stderr(errors);
    command.spawn().unwrap()
}
