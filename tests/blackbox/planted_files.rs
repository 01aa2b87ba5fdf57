//! Files and folders that another user owns, can write, or has replaced. A start refuses them at
//! once, follows no link and changes nothing.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::harness::daemon::{command, taffrail};
use crate::harness::{Call, Daemon, Options};

/// The time limit for a refusal, in a debug build on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

/// A user other than the one who runs the tests.
const SOMEBODY: u32 = 12_345;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn this_user() -> String {
    format!("user {}", rustix::process::geteuid().as_raw())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn pipe(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
}

fn end_of(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > AT_ONCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The error of a command that must fail.
fn refusal(command: &mut Command) -> String {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = end_of(&mut child);
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(!status.success() && status.code().is_some(), "{status}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
}

/// A folder with a data directory that has been used.
async fn used() -> Arc<TempDir> {
    let mut daemon = Daemon::start().await;
    daemon.stop(Signal::TERM).await;
    daemon.folder()
}

#[tokio::test]
async fn whatever_stands_in_the_place_of_a_file_is_refused_at_once_and_never_followed() {
    let folder = used().await;
    let data = folder.path().join("data");
    let target = folder.path().join("target");
    fs::write(&target, "kept").unwrap();
    let names = [
        "lock",
        "store",
        "store.new",
        "events.redb",
        "events.redb.rebuilt",
        "ballast",
        "admin.token",
        "admin.token.new",
        "admin.kubeconfig",
        "admin.kubeconfig.new",
        "service-account.key",
        "pki/ca.crt",
        "pki/ca.key",
        "pki/apiserver.crt",
        "pki/apiserver.key",
        "pki/apiserver.key.new",
    ];
    for (number, name) in names.into_iter().enumerate() {
        let path = data.join(name);
        let aside = folder.path().join("aside");
        let was_there = fs::rename(&path, &aside).is_ok();
        // Each path once, with one kind of fault each, because a start takes time.
        let what = match number % 3 {
            0 => {
                symlink(&target, &path).unwrap();
                "symbolic link"
            }
            1 => {
                fs::hard_link(&target, &path).unwrap();
                "2 names"
            }
            _ => {
                pipe(&path);
                "named pipe"
            }
        };
        says(&refusal(&mut command(folder.path(), 0)), &[name, what]);
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept", "{name}");
        if was_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    let pki = data.join("pki");
    fs::rename(&pki, folder.path().join("pki")).unwrap();
    symlink(folder.path().join("pki"), &pki).unwrap();
    let said = refusal(&mut command(folder.path(), 0));
    says(&said, &["pki", "it is not a directory"]);
    // All of this has damaged nothing.
    fs::remove_file(&pki).unwrap();
    fs::rename(folder.path().join("pki"), &pki).unwrap();
    Options::default().over(folder).start().await;
}

#[tokio::test]
async fn commands_do_not_wait_for_what_stands_in_the_place_of_a_file() {
    let folder = used().await;
    let data = folder.path().join("data");
    let kubeconfig = data.join("admin.kubeconfig");
    fs::remove_file(&kubeconfig).unwrap();
    pipe(&kubeconfig);
    for arguments in [&["compact"][..], &["storage", "rewrite"]] {
        let said = refusal(taffrail().args(arguments).arg("--data-dir").arg(&data));
        says(&said, &["admin.kubeconfig", "named pipe"]);
    }
    fs::remove_file(&kubeconfig).unwrap();
    fs::remove_file(data.join("store")).unwrap();
    fs::remove_file(data.join("events.redb")).unwrap();
    let said = refusal(taffrail().arg("compact").arg("--data-dir").arg(&data));
    says(&said, &["holds no store"]);
    assert!(!data.join("events.redb").exists());
}

#[test]
fn files_of_flags_are_read_by_way_of_links_but_no_pipes_folders_or_devices() {
    let folder = tempfile::tempdir().unwrap();
    let named_pipe = folder.path().join("pipe");
    pipe(&named_pipe);
    let link = folder.path().join("link");
    symlink(&named_pipe, &link).unwrap();
    let whole = folder.path().join("whole");
    fs::write(&whole, "").unwrap();
    let whole = format!("{}", whole.display());
    let places: [(&Path, &str); 4] = [
        (&named_pipe, "named pipe"),
        (&link, "named pipe"),
        (folder.path(), "directory"),
        (Path::new("/dev/zero"), "device"),
    ];
    let etcd = [
        "--etcd-servers=https://127.0.0.1:1",
        "--etcd-cafile",
        whole.as_str(),
    ];
    let issuer = ["--oidc-issuer-url=https://a", "--oidc-client-id=a"];
    let flags: [(&str, &[&str]); 11] = [
        ("authentication-config", &[]),
        ("requestheader-client-ca-file", &[]),
        ("oidc-ca-file", &issuer),
        ("config", &[]),
        ("token-auth-file", &[]),
        ("tls-cert-file", &["--tls-private-key-file", &whole]),
        ("tls-private-key-file", &["--tls-cert-file", &whole]),
        ("encryption-provider-config", &[]),
        ("etcd-cafile", &etcd[..1]),
        (
            "etcd-certfile",
            &[etcd[0], etcd[1], etcd[2], "--etcd-keyfile", &whole],
        ),
        (
            "etcd-keyfile",
            &[etcd[0], etcd[1], etcd[2], "--etcd-certfile", &whole],
        ),
    ];
    for (number, (flag, others)) in flags.into_iter().enumerate() {
        for (path, what) in [places[number % 2], places[2 + number % 2]] {
            let mut command = command(folder.path(), 0);
            let said = refusal(command.arg(format!("--{flag}")).arg(path).args(others));
            let place = path.display().to_string();
            says(&said, &[what, place.as_str()]);
        }
    }
}

#[tokio::test]
async fn a_file_that_is_mounted_by_links_serves() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    // As Kubernetes mounts a Secret.
    let secret = folder.path().join("..2026");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("tokens.csv"), "t1,ada,1,system:masters\n").unwrap();
    set_mode(&secret.join("tokens.csv"), 0o640);
    symlink("..2026", folder.path().join("..data")).unwrap();
    let tokens = folder.path().join("tokens.csv");
    symlink("..data/tokens.csv", &tokens).unwrap();
    let flag = format!("--token-auth-file={}", tokens.display());
    let daemon = Options::default()
        .over(folder)
        .arguments(&[&flag])
        .start()
        .await;
    let ada = daemon.target().with_token("t1").client();
    ada.call(Call::get("/api")).await.expect(200);
}

#[tokio::test]
async fn a_data_directory_of_another_user_is_refused_with_its_owner_and_mode() {
    // Who is not root can't give a directory away, and takes one of root's.
    if !is_root() {
        let said = refusal(taffrail().args(["--data-dir", "/usr", "--secure-port", "0"]));
        says(
            &said,
            &["/usr", "belongs to user 0 (mode 755)", &this_user()],
        );
        return;
    }
    let folder = used().await;
    let data = folder.path().join("data");
    let before = fs::read_dir(&data).unwrap().count();
    let reuid = format!("setpriv --reuid={SOMEBODY} --clear-groups");
    for bits in [0o700, 0o755] {
        set_mode(&data, bits);
        chown(&data, Some(SOMEBODY), None).unwrap();
        let belongs = format!("belongs to user {SOMEBODY} (mode {bits:o})");
        let said = refusal(&mut command(folder.path(), 0));
        says(
            &said,
            &["data directory", &belongs, "runs as user 0", &reuid],
        );
        let said = refusal(taffrail().arg("compact").arg("--data-dir").arg(&data));
        says(&said, &[&belongs, &reuid, "if it was meant for user 0"]);
        assert_eq!(mode(&data), bits, "it is not tightened");
    }
    assert_eq!(fs::read_dir(&data).unwrap().count(), before);
    chown(&data, Some(0), None).unwrap();
    for name in ["lock", "events.redb", "admin.token", "pki/ca.key"] {
        let path = data.join(name);
        chown(&path, Some(SOMEBODY), None).unwrap();
        let said = refusal(&mut command(folder.path(), 0));
        says(
            &said,
            &[name, &format!("belongs to user {SOMEBODY} (mode 600)")],
        );
        chown(&path, Some(0), None).unwrap();
    }
    chown(data.join("pki"), Some(SOMEBODY), None).unwrap();
    let said = refusal(&mut command(folder.path(), 0));
    says(
        &said,
        &["pki", &format!("belongs to user {SOMEBODY} (mode 700)")],
    );
    chown(data.join("pki"), Some(0), None).unwrap();
    let tokens = folder.path().join("tokens.csv");
    fs::write(&tokens, "t1,ada,1\n").unwrap();
    chown(&tokens, Some(SOMEBODY), None).unwrap();
    let said = refusal(
        command(folder.path(), 0)
            .arg("--token-auth-file")
            .arg(&tokens),
    );
    says(
        &said,
        &["tokens.csv", &format!("belongs to user {SOMEBODY}")],
    );
    Options::default().over(folder).start().await;
}

#[tokio::test]
async fn a_token_that_others_can_have_planted_is_refused_with_owner_and_mode() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let data: PathBuf = folder.path().join("data");
    let token = data.join("admin.token");
    fs::create_dir(&data).unwrap();
    fs::write(&token, "planted\n").unwrap();
    set_mode(&token, 0o600);
    for bits in [0o777, 0o1777, 0o770] {
        set_mode(&data, bits);
        let said = refusal(&mut command(folder.path(), 0));
        let mode_said = format!("mode {bits:o}");
        says(
            &said,
            &["admin.token", &this_user(), &mode_said, "chmod 700"],
        );
        assert_eq!(mode(&data), bits, "it is not tightened");
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    }
    set_mode(&data, 0o700);
    set_mode(&token, 0o666);
    let said = refusal(&mut command(folder.path(), 0));
    says(
        &said,
        &["admin.token", &this_user(), "mode 666", "chmod 600"],
    );
    set_mode(&token, 0o600);
    for text in ["two words", "", "t\u{e4}g"] {
        fs::write(&token, text).unwrap();
        let said = refusal(&mut command(folder.path(), 0));
        says(&said, &["admin.token: it holds no token"]);
        assert!(text.is_empty() || !said.contains(text), "{said}");
    }
    fs::write(&token, "x".repeat(70_000)).unwrap();
    let said = refusal(&mut command(folder.path(), 0));
    says(&said, &["admin.token: it is longer than 65536 bytes"]);
    fs::write(&token, "mine\n").unwrap();
    let daemon = Options::default().over(folder).start().await;
    assert_eq!(daemon.token(), "mine");
}

/// A pipe that takes no more, as of a reader that has stopped.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    for size in [4096, 1] {
        while rustix::io::write(&writer, &vec![b'\n'; size]).is_ok() {}
    }
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Whether a process has a handler for a signal.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & (1 << (signal.as_raw() - 1)) != 0
}

#[test]
fn a_start_that_hangs_is_ended_by_a_signal() {
    // The log or the announcement can't be written: the one hangs before the store is open, the
    // other behind all else.
    for of_log in [true, false] {
        for signal in [Signal::TERM, Signal::INT] {
            let folder = tempfile::tempdir().unwrap();
            let (_reader, writer) = full_pipe();
            let mut command = command(folder.path(), 0);
            command.arg("--default-watch-cache-size=1");
            match of_log {
                true => command.stderr(writer).stdout(Stdio::null()),
                false => command.stdout(writer).stderr(Stdio::null()),
            };
            let mut child = command.spawn().unwrap();
            let start = Instant::now();
            while !catches(child.id(), Signal::TERM) {
                assert!(start.elapsed() < AT_ONCE, "it does not start");
                std::thread::sleep(Duration::from_millis(2));
            }
            // Where it hangs comes a moment later.
            std::thread::sleep(Duration::from_secs(1));
            let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            assert_eq!(end_of(&mut child).code(), Some(0));
        }
    }
}
