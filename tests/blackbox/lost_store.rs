//! A data directory whose store is gone, and certificates that are not valid at the current time.

use std::fs;
use std::path::Path;
use std::process::Output;

use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;

use crate::harness::daemon::command;
use crate::harness::{CONFIGMAPS, Call, Daemon, Options, body};

const REQUIRED: &str = "--require-existing-data";

/// The error of a start that must fail.
pub fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = command(folder, 0).args(arguments).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[tokio::test]
async fn a_directory_that_lost_its_store_is_complained_of_and_refused_where_data_is_required() {
    let mut daemon = Daemon::start().await;
    let created = Call::post(CONFIGMAPS, &body("a", "1"));
    daemon.client().call(created).await.expect(201);
    assert!(!daemon.stderr().contains("no store"), "{}", daemon.stderr());
    daemon.stop(Signal::TERM).await;
    let (folder, data) = (daemon.folder(), daemon.data());
    let names = ["store", "events.redb"];
    for name in names {
        fs::rename(data.join(name), folder.path().join(name)).unwrap();
    }
    let said = refusal(folder.path(), &[REQUIRED]);
    for words in ["holds no store", "restore `store` and `events.redb`"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(names.iter().all(|name| !data.join(name).exists()));
    // What the making of a store left that was cut off is none, either.
    for left in [&[][..], &[0; 8192]] {
        fs::write(data.join("events.redb"), left).unwrap();
        let said = refusal(folder.path(), &[REQUIRED]);
        assert!(said.contains("holds no store"), "{said}");
        assert_eq!(fs::read(data.join("events.redb")).unwrap(), left);
    }
    fs::remove_file(data.join("events.redb")).unwrap();
    // Put back, they are found; the name of the store may be missing, as a crash leaves it.
    for name in names {
        fs::copy(folder.path().join(name), data.join(name)).unwrap();
    }
    fs::remove_file(data.join("store")).unwrap();
    let required = || {
        Options::default()
            .over(folder.clone())
            .arguments(&[REQUIRED])
    };
    let mut daemon = required().start().await;
    let read = Call::get(&format!("{CONFIGMAPS}/a"));
    daemon.client().call(read).await.expect(200);
    daemon.stop(Signal::TERM).await;
    // A file of no bytes is no store, either.
    for is_emptied in [false, true] {
        for name in names {
            fs::remove_file(data.join(name)).unwrap();
        }
        if is_emptied {
            fs::write(data.join("events.redb"), []).unwrap();
        }
        let mut daemon = Options::default().over(folder.clone()).start().await;
        let log = daemon.stderr();
        let warned = log.lines().any(|line| {
            line.contains("WARN") && line.contains("but no store") && line.contains("backup")
        });
        assert!(warned, "emptied: {is_emptied}: {log}");
        daemon.stop(Signal::TERM).await;
    }
}

#[test]
fn an_empty_directory_is_refused_where_data_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let said = refusal(folder.path(), &[REQUIRED]);
    assert!(
        said.contains("holds no store: see that its volume is mounted"),
        "{said}"
    );
    assert!(!folder.path().join("data/events.redb").exists());
}

#[tokio::test]
async fn an_authority_that_the_clock_is_not_in_is_told_by_its_dates_and_nothing_is_to_be_removed() {
    let mut daemon = Daemon::start().await;
    daemon.stop(Signal::TERM).await;
    let folder = daemon.folder();
    let key_path = daemon.data().join("pki/ca.key");
    let key = KeyPair::from_pem(&fs::read_to_string(key_path).unwrap()).unwrap();
    for (years, words) in [
        (
            [2001, 2011],
            [
                "it expired at 2011-01-01T00:00:00Z",
                "if the clock is ahead",
            ],
        ),
        (
            [2201, 2211],
            [
                "it is not valid yet, but from 2201-01-01T00:00:00Z",
                "is behind",
            ],
        ),
    ] {
        let mut authority = CertificateParams::default();
        let [begin, end] = years.map(|year| rcgen::date_time_ymd(year, 1, 1));
        (authority.not_before, authority.not_after) = (begin, end);
        let authority = authority.self_signed(&key).unwrap().pem();
        fs::write(daemon.data().join("pki/ca.crt"), authority).unwrap();
        let said = refusal(folder.path(), &[]);
        for words in words.iter().chain(&["ca.crt", "clock says 20"]) {
            assert!(said.contains(words), "{said}");
        }
        assert!(!said.contains("remove"), "{said}");
    }
}
