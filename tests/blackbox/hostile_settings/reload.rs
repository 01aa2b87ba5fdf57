//! Files that a running daemon reads again.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;

use super::{ANY_FILE, AT_ONCE, Bad, CONTENTS, Files, is_clear};
use crate::harness::{CONFIGMAPS, Call, Daemon, Target};

/// What is wrong with a file only because it takes the place of a good one.
const OF_RELOADS: &[(&str, Bad, &str)] = &[
    (
        "tls-cert-file",
        Bad::Expired,
        "its first certificate expired at 2021-01-01T00:00:00Z; renew it",
    ),
    ("token-auth-file", Bad::Empty, "it no longer holds any user"),
    (
        "token-auth-file",
        Bad::Text("\n\n"),
        "it no longer holds any user",
    ),
];

/// The line of the log by which a signal to read the files again has been carried out.
const DONE: &str = "the token files were read again because=\"SIGHUP\"";

/// Has a daemon read its files again. Answers what it logs of that.
async fn read_again(daemon: &Daemon) -> Vec<String> {
    let before = daemon.stderr().len();
    daemon.signal(Signal::HUP);
    let start = Instant::now();
    loop {
        let log = daemon.stderr();
        let new = &log[before..];
        if new.contains(DONE) && new.ends_with('\n') {
            // It also looks at the files now and then, and says so in lines of its own.
            let of_signal = new.lines().filter(|line| line.contains("SIGHUP"));
            return of_signal.map(ToOwned::to_owned).collect();
        }
        assert!(start.elapsed() < AT_ONCE, "it is not done: {new}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Sees that everything is served as before, over new connections.
async fn serves(daemon: &Daemon, files: &Files, number: usize) {
    let trusted = files.certificates.authority.as_bytes();
    let address = daemon.target().address;
    let ada = Target::new(address, Some("t-ada".to_owned()), Some(trusted));
    let eve = ada.with_certificate(&files.certificates.chain, &files.certificates.key);
    eve.client().call(Call::get(CONFIGMAPS)).await.expect(200);
    let secret =
        json!({ "metadata": { "name": format!("s{number}") }, "data": { "k": "dGV4dA==" } });
    let secrets = "/api/v1/namespaces/default/secrets";
    let client = ada.client();
    client.call(Call::post(secrets, &secret)).await.expect(201);
}

#[tokio::test]
async fn a_file_that_can_not_be_used_any_more_changes_nothing_and_is_told_of_in_one_line() {
    let files = Files::new();
    let names = [
        "client-ca-file",
        "tls-cert-file",
        "tls-private-key-file",
        "token-auth-file",
        "encryption-provider-config",
    ];
    let flags = names.map(|name| files.flag(name));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = Daemon::with(&flags).await;
    let mut number = 0;
    serves(&daemon, &files, number).await;
    for name in names {
        let contents = CONTENTS.iter().filter(|(of, _)| *of == name);
        let contents = contents.flat_map(|(_, contents)| contents.iter().copied());
        let of_reloads = OF_RELOADS.iter().filter(|(of, ..)| *of == name);
        let of_reloads = of_reloads.map(|(_, bad, problem)| (*bad, *problem));
        for (bad, problem) in contents.chain(of_reloads).chain(ANY_FILE.iter().copied()) {
            number += 1;
            files.put(name, bad);
            let lines = read_again(&daemon).await;
            let of = format!("{name} {bad:?}: {lines:#?}");
            let errors = lines.iter().filter(|line| !line.contains(" INFO "));
            let errors: Vec<&String> = errors.collect();
            let [error] = errors.as_slice() else {
                panic!("one line is wanted: {of}");
            };
            let kept = ["keeping the previous", name, problem];
            is_clear(error, &kept, &of);
            let changed = [
                "was replaced",
                "were reloaded",
                "has been reloaded",
                "watches_ended=1",
            ];
            for word in changed {
                assert!(!lines.iter().any(|line| line.contains(word)), "{of}");
            }
            serves(&daemon, &files, number).await;
        }
        files.put_good(name);
        let lines = read_again(&daemon).await;
        assert!(
            lines.iter().all(|line| line.contains(" INFO ")),
            "{lines:#?}"
        );
    }
}
