//! Settings, files and commands with wrong, missing, unreadable and hostile content. A start or a
//! command reports the problem in one line and leaves nothing behind. A running daemon that reads
//! such a file again keeps its earlier state.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};

use crate::harness::daemon::{command, taffrail};

mod commands;
mod reload;

const AT_ONCE: Duration = Duration::from_secs(10);

/// What no message for an operator holds: output for programmers, and texts of libraries.
const UGLY: [&str; 10] = [
    "panicked",
    "Os {",
    "Error(",
    "Err(",
    "Some(",
    "None",
    "Mismatch",
    "Encoding,",
    ": [",
    "found in string",
];

/// What stands in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bad {
    Missing,
    Empty,
    Garbage,
    Huge,
    Directory,
    Pipe,
    DanglingLink,
    WrittenByOthers,
    /// The beginning of a section of PEM.
    Cut,
    /// Sections of PEM with nonsense in them.
    Nonsense,
    /// A key where a certificate is expected, and the other way round.
    OtherKind,
    /// A certificate or a key of somebody else.
    Foreign,
    Expired,
    Text(&'static str),
}

/// Certificates of one authority, with their key.
struct Certificates {
    authority: String,
    chain: String,
    expired: String,
    key: String,
}

fn certificates() -> Certificates {
    let key = KeyPair::generate().unwrap();
    let mut of_authority = CertificateParams::default();
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = of_authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(of_authority, key);
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "eve");
    name.push(DnType::OrganizationName, "system:masters");
    parameters.distinguished_name = name;
    let chain = parameters.signed_by(&key, &issuer).unwrap().pem();
    parameters.not_after = rcgen::date_time_ymd(2021, 1, 1);
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    let expired = parameters.signed_by(&key, &issuer).unwrap().pem();
    Certificates {
        chain: chain + &authority,
        authority,
        expired,
        key: key.serialize_pem(),
    }
}

const ENCRYPTION: &str = "kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources:
- resources: [secrets]
  providers: [aesgcm: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}]
";
const POLICY: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";

/// A folder with a good file for each setting that names one.
struct Files {
    folder: tempfile::TempDir,
    certificates: Certificates,
    foreign: Certificates,
}

impl Files {
    fn new() -> Files {
        let files = Files {
            folder: tempfile::tempdir().unwrap(),
            certificates: certificates(),
            foreign: certificates(),
        };
        for name in [
            "client-ca-file",
            "tls-cert-file",
            "tls-private-key-file",
            "token-auth-file",
            "audit-policy-file",
            "encryption-provider-config",
        ] {
            files.put_good(name);
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn flag(&self, name: &str) -> String {
        format!("--{name}={}", self.path(name).display())
    }

    fn good(&self, name: &str) -> &str {
        match name {
            "client-ca-file" => &self.certificates.authority,
            "tls-cert-file" => &self.certificates.chain,
            "tls-private-key-file" => &self.certificates.key,
            "token-auth-file" => "t-ada,ada,1,system:masters\n",
            "audit-policy-file" => POLICY,
            "encryption-provider-config" => ENCRYPTION,
            _ => "",
        }
    }

    fn clear(&self, name: &str) {
        let path = self.path(name);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
    }

    fn put_good(&self, name: &str) {
        self.clear(name);
        write(&self.path(name), self.good(name), 0o600);
    }

    fn put(&self, name: &str, bad: Bad) {
        self.clear(name);
        let path = self.path(name);
        let is_key = name == "tls-private-key-file";
        let what = if is_key { "PRIVATE KEY" } else { "CERTIFICATE" };
        match bad {
            Bad::Missing => {}
            Bad::Empty => write(&path, "", 0o600),
            Bad::Garbage => write(&path, [0xff, 0, 0x1b, 0x80, 7, b'\n'].repeat(500), 0o600),
            Bad::Huge => {
                let file = fs::File::create(&path).unwrap();
                file.set_len(3 << 30).unwrap();
            }
            Bad::Directory => fs::create_dir(&path).unwrap(),
            Bad::Pipe => rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap(),
            Bad::DanglingLink => symlink("/nosuch/file", &path).unwrap(),
            Bad::WrittenByOthers => write(&path, self.good(name), 0o666),
            Bad::Cut => write(&path, format!("-----BEGIN {what}-----\nMIIB\n"), 0o600),
            Bad::Nonsense => {
                let text = format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n");
                write(&path, text, 0o600);
            }
            Bad::OtherKind if is_key => write(&path, &self.certificates.chain, 0o600),
            Bad::OtherKind => write(&path, &self.certificates.key, 0o600),
            Bad::Foreign if is_key => write(&path, &self.foreign.key, 0o600),
            Bad::Foreign => write(&path, &self.foreign.chain, 0o600),
            Bad::Expired => write(&path, &self.certificates.expired, 0o600),
            Bad::Text(text) => write(&path, text, 0o644),
        }
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Everything below a folder.
fn listed(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            all.extend(listed(&path));
        }
        all.insert(path);
    }
    all
}

fn is_clear(line: &str, words: &[&str], of: &str) {
    for word in words {
        assert!(line.contains(word), "{of}: no {word:?} in {line}");
    }
    for word in UGLY {
        assert!(!line.contains(word), "{of}: {word:?} in {line}");
    }
    assert!(!line.trim_end().contains(char::is_control), "{of}: {line}");
}

/// Runs a command that must fail at once, with one line, and leave a folder as it was.
#[track_caller]
fn fails(command: &mut Command, folder: &Path, words: &[&str]) {
    let before = listed(folder);
    let of = format!("{:?}", command.get_args().collect::<Vec<_>>());
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > AT_ONCE {
            child.kill().unwrap();
            panic!("{of}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(
        matches!(status.code(), Some(1 | 2)),
        "{of}: {status} {said}"
    );
    assert_eq!(said.lines().count(), 1, "{of}: {said}");
    is_clear(&said, words, &of);
    assert_eq!(listed(folder), before, "{of}: something is left behind");
}

/// What every file is refused for, whatever it should hold.
const ANY_FILE: &[(Bad, &str)] = &[
    (Bad::Missing, "No such file"),
    (Bad::DanglingLink, "No such file"),
    (Bad::Directory, "it is a directory and not a regular file"),
    (Bad::Pipe, "it is a named pipe and not a regular file"),
    (Bad::Huge, "it is longer than "),
];

/// What is wrong with the content of files.
const CONTENTS: &[(&str, &[(Bad, &str)])] = &[
    (
        "client-ca-file",
        &[
            (Bad::Empty, "it holds no certificate (PEM)"),
            (Bad::Garbage, "it holds no certificate (PEM)"),
            (Bad::OtherKind, "it holds no certificate (PEM)"),
            (Bad::Cut, "it is cut short"),
            (Bad::Nonsense, "its certificate 1 can't be used"),
            (Bad::WrittenByOthers, "then chmod go-w it"),
        ],
    ),
    (
        "tls-cert-file",
        &[
            (Bad::Empty, "it holds no certificate (PEM)"),
            (Bad::Garbage, "it is not valid UTF-8"),
            (Bad::OtherKind, "it holds no certificate (PEM)"),
            (Bad::Cut, "it is cut short"),
            (Bad::Nonsense, "its first certificate can't be used"),
            (Bad::Foreign, "tls-private-key-file does not fit"),
        ],
    ),
    (
        "tls-private-key-file",
        &[
            (Bad::Empty, "it holds no private key (PEM)"),
            (Bad::Garbage, "it is not valid UTF-8"),
            (Bad::OtherKind, "it holds no private key (PEM)"),
            (Bad::Cut, "it is cut short"),
            (Bad::Nonsense, "its key can't be used"),
            (Bad::Foreign, "tls-private-key-file does not fit"),
        ],
    ),
    (
        "token-auth-file",
        &[
            (Bad::Garbage, "it is not valid UTF-8"),
            (
                Bad::Text("secret\n"),
                "must have at least 3 columns (token, user name, user uid), found 1",
            ),
            (Bad::WrittenByOthers, "then chmod go-w it"),
        ],
    ),
    (
        "encryption-provider-config",
        &[
            (Bad::Empty, "it is empty"),
            (Bad::Garbage, "it is not valid UTF-8"),
        ],
    ),
    (
        "audit-policy-file",
        &[
            (Bad::Empty, "must have audit.k8s.io/v1 and Policy"),
            (Bad::Garbage, "it is not valid UTF-8"),
            (
                Bad::Text(concat!(
                    "apiVersion: audit.k8s.io/v1\nkind: Policy\n",
                    "rules:\n- level: None\n  user: [a]\n"
                )),
                "unknown field \"rules[0].user\"",
            ),
            (
                Bad::Text(
                    "- a
",
                ),
                "it is not a valid audit policy: it is not an object",
            ),
        ],
    ),
    (
        "config",
        &[
            (Bad::Garbage, "it is not valid UTF-8"),
            (Bad::Text("- a\n"), "not a mapping of settings to values"),
        ],
    ),
];

#[test]
fn files_of_a_start_are_refused_before_anything_is_made() {
    let files = Files::new();
    let audit_log = files.flag("audit.log");
    let audit_log = audit_log.replace("--audit.log", "--audit-log-path");
    for (name, contents) in CONTENTS {
        let further = match *name {
            "tls-cert-file" => files.flag("tls-private-key-file"),
            "tls-private-key-file" => files.flag("tls-cert-file"),
            "audit-policy-file" => audit_log.clone(),
            _ => "--access-log=off".to_owned(),
        };
        for (bad, problem) in contents.iter().chain(ANY_FILE) {
            files.put(name, *bad);
            let mut start = command(files.folder.path(), 0);
            start.arg(files.flag(name)).arg(&further);
            // Which of the two files is at fault nobody can know.
            let named = match (*name, bad) {
                ("tls-private-key-file", Bad::Foreign) => files.flag("tls-cert-file"),
                _ => files.flag(name),
            };
            fails(&mut start, files.folder.path(), &[&named, problem]);
        }
        files.put_good(name);
    }
    for (path, problem) in [
        ("/dev/full", "it is a device and not a regular file"),
        ("/nosuch/audit.log", "its directory does not exist; make it"),
        ("token-auth-file/audit.log", "Not a directory"),
        ("directory", "it is a directory and not a regular file"),
        ("pipe", "it is a named pipe and not a regular file"),
        ("a\nb", "a control character"),
        ("\u{1b}[2J", "a control character"),
    ] {
        files.put("directory", Bad::Directory);
        files.put("pipe", Bad::Pipe);
        let mut start = command(files.folder.path(), 0);
        start.arg(files.flag("audit-policy-file"));
        start.arg(format!("--audit-log-path={path}"));
        fails(
            &mut start,
            files.folder.path(),
            &["--audit-log-path", problem],
        );
    }
    // Nobody can listen there, and nothing is said of who could read it.
    let mut start = taffrail();
    start.args(["--secure-port=0", "--metrics-bind-address=192.0.2.1:1"]);
    start.current_dir(files.folder.path());
    let words = ["--metrics-bind-address: can't listen on 192.0.2.1:1"];
    fails(&mut start, files.folder.path(), &words);
}
