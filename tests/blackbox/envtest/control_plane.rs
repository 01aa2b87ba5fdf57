//! A control plane as controller-runtime's envtest starts it: `etcd` and `kube-apiserver`, with the
//! flags and files of envtest. Either program may be another one.

use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::harness::daemon::append;
use crate::harness::{Call, Client, Target};
use crate::servers::ports::free_port;

/// The time until a program answers, in a debug build on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The folder of a control plane, its programs, and those that run. They are killed when this is
/// dropped.
pub struct Envtest {
    folder: TempDir,
    programs: PathBuf,
    etcd_port: u16,
    port: u16,
    etcd: Option<Child>,
    server: Option<Child>,
    admin: (String, String),
}

impl Drop for Envtest {
    fn drop(&mut self) {
        for mut child in [self.server.take(), self.etcd.take()].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Default for Envtest {
    fn default() -> Envtest {
        Envtest::new()
    }
}

impl Envtest {
    /// Makes the files of a control plane with this binary in both places. Nothing runs yet.
    pub fn new() -> Envtest {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "certificates", "etcd", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["etcd", "kube-apiserver"] {
            let place = folder.path().join("bin").join(name);
            symlink(env!("CARGO_BIN_EXE_taffrail"), place).unwrap();
        }
        let admin = certificates(&folder.path().join("certificates"));
        Envtest {
            programs: folder.path().join("bin"),
            folder,
            etcd_port: free_port(),
            port: free_port(),
            etcd: None,
            server: None,
            admin,
        }
    }

    /// Puts another program into the place of one of this name.
    pub fn with_program(self, name: &str, program: &Path) -> Envtest {
        let place = self.programs.join(name);
        std::fs::remove_file(&place).unwrap();
        symlink(program, place).unwrap();
        self
    }

    /// Takes the programs from this folder.
    pub fn with_assets(mut self, folder: &Path) -> Envtest {
        folder.clone_into(&mut self.programs);
        self
    }

    /// Starts both programs, and waits for their health as envtest does.
    pub async fn start(mut self) -> Envtest {
        self.start_etcd().await;
        self.start_server(&[]).await;
        self
    }

    /// Starts `etcd`, and waits until it is healthy.
    pub async fn start_etcd(&mut self) {
        let (client, peer) = (self.etcd_url(), format!("http://127.0.0.1:{}", free_port()));
        let child = self
            .command("etcd")
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--data-dir={}", self.data().display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg("--unsafe-no-fsync=true")
            .spawn()
            .unwrap();
        self.etcd = Some(child);
        let address = SocketAddr::from(([127, 0, 0, 1], self.etcd_port));
        let asked = async || {
            let Ok(stream) = tokio::net::TcpStream::connect(address).await else {
                return false;
            };
            healthy(stream).await
        };
        self.until("etcd", asked).await;
    }

    /// Starts `kube-apiserver` with further flags, and waits until it is healthy.
    pub async fn start_server(&mut self, further: &[&str]) {
        let child = self.server_command(further).spawn().unwrap();
        self.server = Some(child);
        let client = self.target().anonymous().client();
        let asked = async || {
            let answer = client.attempt(Call::get("/healthz")).await;
            answer.is_ok_and(|answer| answer.status == 200)
        };
        self.until("kube-apiserver", asked).await;
    }

    /// The command of `kube-apiserver`.
    pub fn server_command(&self, further: &[&str]) -> Command {
        let certificates = self.certificates();
        let at = |name: &str| certificates.join(name).display().to_string();
        let mut command = self.command("kube-apiserver");
        command
            .arg("--authorization-mode=RBAC")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--cert-dir={}", certificates.display()))
            .arg(format!(
                "--client-ca-file={}",
                at("client-cert-auth-ca.crt")
            ))
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg(format!("--etcd-servers={}", self.etcd_url()))
            .arg(format!("--secure-port={}", self.port))
            .arg(format!(
                "--service-account-issuer=https://127.0.0.1:{}/",
                self.port
            ))
            .arg(format!(
                "--service-account-key-file={}",
                at("sa-signer.crt")
            ))
            .arg(format!(
                "--service-account-signing-key-file={}",
                at("sa-signer.key")
            ))
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .args(further);
        command
    }

    /// A command of one of the programs, in an empty folder. Its outputs go to a file.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        let said = self.folder.path().join(name).with_extension("log");
        command
            .current_dir(self.folder.path().join("work"))
            .env("TMPDIR", self.temporary())
            .stdin(Stdio::null())
            .stdout(append(&said))
            .stderr(append(&said));
        command
    }

    async fn until(&mut self, name: &str, is_healthy: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !is_healthy().await {
            let child = match name {
                "etcd" => &mut self.etcd,
                _ => &mut self.server,
            };
            let ended = child.as_mut().unwrap().try_wait().unwrap();
            assert_eq!(ended, None, "{name} ended: {}", self.said(name));
            assert!(begun.elapsed() < TIMEOUT, "{name}: {}", self.said(name));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills both programs.
    pub fn kill(&mut self) {
        for mut child in [self.server.take(), self.etcd.take()].into_iter().flatten() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The process of the server.
    pub fn server_pid(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// Stops `kube-apiserver` as envtest does.
    pub fn stop_server(&mut self) -> ExitStatus {
        stop(self.server.take().unwrap())
    }

    /// Stops `etcd` as envtest does.
    pub fn stop_etcd(&mut self) -> ExitStatus {
        stop(self.etcd.take().unwrap())
    }

    /// Everything that a program has said.
    pub fn said(&self, name: &str) -> String {
        let path = self.folder.path().join(name).with_extension("log");
        std::fs::read_to_string(path).unwrap()
    }

    /// The server, as its administrator sees it.
    pub fn target(&self) -> Target {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let (certificate, key) = &self.admin;
        Target::new(address, None, None).with_certificate(certificate, key)
    }

    /// A client with a token and no certificate.
    pub fn bearer(&self, token: &str) -> Client {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        Target::new(address, Some(token.to_owned()), None).client()
    }

    /// The administrator.
    pub fn client(&self) -> Client {
        self.target().client()
    }

    /// The URL of the etcd.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// The folder of etcd's data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }

    /// The folder of certificates.
    pub fn certificates(&self) -> PathBuf {
        self.folder.path().join("certificates")
    }

    /// The folder for temporary files of both programs.
    pub fn temporary(&self) -> PathBuf {
        let path = self.folder.path().join("tmp");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// The names of the files in the working folder, which should have none, and in that of
    /// certificates.
    pub fn files(&self) -> [Vec<String>; 2] {
        [self.folder.path().join("work"), self.certificates()].map(|folder| {
            let entries = std::fs::read_dir(folder).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        })
    }
}

fn stop(mut child: Child) -> ExitStatus {
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).unwrap();
    child.wait().unwrap()
}

async fn healthy(mut stream: tokio::net::TcpStream) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request).await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && answer.starts_with("HTTP/1.1 200 ")
}

/// Makes the files that envtest makes, and returns the certificate and key of an administrator.
fn certificates(folder: &Path) -> (String, String) {
    let write = |name: &str, mode: u32, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = parameters.self_signed(&authority_key).unwrap();
    write("client-cert-auth-ca.crt", 0o600, authority.pem());
    let authority = Issuer::new(parameters, authority_key);

    let mut admin = CertificateParams::default();
    admin.distinguished_name.push(DnType::CommonName, "admin");
    admin
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let admin_key = KeyPair::generate().unwrap();
    let admin = admin.signed_by(&admin_key, &authority).unwrap();

    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    for (name, names) in [("apiserver", names), ("sa-signer", Vec::new())] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        write(&format!("{name}.crt"), 0o640, certificate.pem());
        write(&format!("{name}.key"), 0o640, key.serialize_pem());
    }
    (admin.pem(), admin_key.serialize_pem())
}
