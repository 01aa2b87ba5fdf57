//! Command lines of kube-apiserver 1.36 start the daemon (D-118, D-119). The files of this
//! folder test the effects of the flags, and `src/config/apiserver_flags` tests that all are known.

mod command_lines;
mod http;
mod refused;
mod tls;

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};

/// The folder of a cluster's certificates, as kubeadm fills it.
struct Pki {
    folder: tempfile::TempDir,
}

impl Pki {
    fn new() -> Pki {
        let pki = Pki {
            folder: tempfile::tempdir().unwrap(),
        };
        let authority = pki.authority("ca", "kubernetes");
        pki.sign(&authority, "apiserver", &[]);
        // The authority is in the chain, because the clients of these tests trust the chain.
        let chain = pki.text("apiserver.crt") + &pki.text("ca.crt");
        pki.write("apiserver.crt", &chain);
        pki.sign(&authority, "apiserver-kubelet-client", &["system:masters"]);
        let proxies = pki.authority("front-proxy-ca", "front-proxy-ca");
        pki.sign(&proxies, "front-proxy-client", &[]);
        let etcd = pki.authority("etcd-ca", "etcd-ca");
        pki.sign(&etcd, "etcd-server", &[]);
        pki.sign(&etcd, "apiserver-etcd-client", &[]);
        let accounts = KeyPair::generate().unwrap();
        pki.write("sa.key", &accounts.serialize_pem());
        pki.write("sa.pub", &accounts.public_key_pem());
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn authority(&self, file: &str, name: &str) -> Issuer<'static, KeyPair> {
        let key = KeyPair::generate().unwrap();
        let mut parameters = named(Vec::new(), name, &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        self.write(&format!("{file}.crt"), &certificate.pem());
        Issuer::new(parameters, key)
    }

    /// A certificate of this machine and its key.
    fn sign(&self, authority: &Issuer<'static, KeyPair>, name: &str, groups: &[&str]) {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned).to_vec();
        let certificate = named(names, name, groups);
        let key = KeyPair::generate().unwrap();
        let certificate = certificate.signed_by(&key, authority).unwrap();
        self.write(&format!("{name}.crt"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    /// The command line with `PKI` in the place of this folder.
    fn arguments(&self, line: &str) -> Vec<String> {
        let folder = self.folder.path().to_str().unwrap();
        let words = line.split_whitespace();
        words.map(|word| word.replace("PKI", folder)).collect()
    }
}

fn named(names: Vec<String>, name: &str, groups: &[&str]) -> CertificateParams {
    let mut parameters = CertificateParams::new(names).unwrap();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    for group in groups {
        subject.push(DnType::OrganizationName, *group);
    }
    parameters.distinguished_name = subject;
    parameters.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    parameters
}

/// A certificate for a host name, signed by its own key, in the files of a name.
fn self_signed(folder: &Path, file: &str, host: &str) -> [String; 2] {
    let key = KeyPair::generate().unwrap();
    let parameters = named(vec![host.to_owned()], host, &[]);
    let certificate = parameters.self_signed(&key).unwrap();
    let write = |ending: &str, text: String| {
        let path = folder.join(format!("{file}.{ending}"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    [
        write("crt", certificate.pem()),
        write("key", key.serialize_pem()),
    ]
}
