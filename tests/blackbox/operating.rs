//! The daemon under a service manager: systemd's notifications and watchdog, the unit, and the
//! duration of a stop.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use serde_json::{Value, json};

use crate::harness::daemon::taffrail;
use crate::harness::{CONFIGMAPS, Call, Daemon, body, version};

const SOON: Duration = Duration::from_secs(20);

/// The next message that satisfies this.
fn heard(socket: &UnixDatagram, wanted: &str) {
    let begun = Instant::now();
    let mut buffer = [0; 512];
    loop {
        assert!(begun.elapsed() < SOON, "no {wanted}");
        let Ok(count) = socket.recv(&mut buffer) else {
            continue;
        };
        if String::from_utf8_lossy(&buffer[..count])
            .lines()
            .any(|line| line == wanted)
        {
            return;
        }
    }
}

#[test]
fn systemd_hears_when_the_daemon_is_ready_turns_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // systemd names the process that it watches.
    let run = "WATCHDOG_PID=$$ exec \"$0\" \"$@\"";
    let mut daemon = Command::new("sh")
        .args(["-c", run])
        .arg(taffrail().get_program())
        .args(["--secure-port=0", "--metrics-bind-address=0", "--data-dir"])
        .arg(folder.path().join("data"))
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "300000")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    heard(&socket, "READY=1");
    for _ in 0..3 {
        heard(&socket, "WATCHDOG=1");
    }
    let pid = Pid::from_raw(daemon.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    heard(&socket, "STOPPING=1");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn the_unit_of_systemd_lets_the_daemon_do_little_else() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/config/taffrail.service");
    let analyzed = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=25", unit])
        .output();
    match analyzed {
        // Exposure above 2.5 is a failure.
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => eprintln!("the exposure of the unit is not tested: systemd-analyze: {error}"),
    }
}

#[tokio::test]
async fn a_stop_ends_open_watches_soon_and_says_how_long_it_took() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let mut watches = Vec::new();
    for _ in 0..200 {
        let path = format!("{CONFIGMAPS}?watch=true&allowWatchBookmarks=true");
        watches.push(client.watch(&path).await);
    }
    let begun = Instant::now();
    daemon.stop(Signal::TERM).await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    for mut watch in watches {
        let last = watch.rest().await;
        assert_eq!(last.last().unwrap()["type"], "BOOKMARK", "{last:?}");
    }
    let log = daemon.stderr();
    let last = log.lines().last().unwrap();
    assert!(last.contains("stopped milliseconds="), "{last}");
}

async fn inspected(daemon: &Daemon, output: &str) -> String {
    let data = daemon.data();
    let run = move |output: String| {
        let command = taffrail()
            .args(["inspect", "--output", &output, "--data-dir"])
            .arg(data)
            .output();
        command.unwrap()
    };
    let output = output.to_owned();
    let output = tokio::task::spawn_blocking(move || run(output))
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The row of a part of the document that has this name.
fn row<'d>(document: &'d Value, part: &str, by: &str, name: &str) -> &'d Value {
    let rows = document[part].as_array().unwrap();
    let found = rows.iter().find(|row| row[by] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

#[tokio::test]
async fn inspect_shows_a_running_daemon_and_a_store_that_nobody_serves() {
    let mut daemon = Daemon::start().await;
    let created = daemon
        .client()
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await;
    let revision = version(&created.expect(201));
    let _watch = daemon
        .client()
        .watch(&format!("{CONFIGMAPS}?watch=true"))
        .await;
    let document: Value = serde_json::from_str(&inspected(&daemon, "json").await).unwrap();
    let store = row(&document, "stores", "name", "base");
    assert_eq!(
        (&store["revision"], &store["health"]),
        (&json!(revision), &json!("serving"))
    );
    assert!(store["keys"].as_u64().unwrap() >= 5, "{store}");
    // This one, the one in which the daemon says since when it tracks tokens, and the one by which
    // extensions know it.
    assert_eq!(
        row(&document, "resources", "resource", "configmaps")["objects"],
        3
    );
    let actor = row(&document, "actors", "name", "cacher/configmaps");
    assert_eq!(
        (&actor["isReady"], &actor["restarts"]),
        (&json!(true), &json!(0))
    );
    row(&document, "queues", "name", "taffrail_watch_ring_events");
    let text = inspected(&daemon, "text").await;
    for head in ["STORE ", "RESOURCE ", "ACTOR ", "QUEUE "] {
        assert!(text.contains(&format!("\n{head}")), "{text}");
    }
    assert!(
        text.lines()
            .any(|line| line.starts_with("cacher/configmaps ")),
        "{text}"
    );

    daemon.stop(Signal::TERM).await;
    let document: Value = serde_json::from_str(&inspected(&daemon, "json").await).unwrap();
    let store = row(&document, "stores", "name", "base");
    assert_eq!(
        (&store["revision"], &store["health"]),
        (&json!(revision), &json!("no daemon runs"))
    );
    assert_eq!(
        row(&document, "resources", "resource", "configmaps")["objects"],
        3
    );
    let nowhere = taffrail()
        .args(["inspect", "--data-dir", "/nosuch/place"])
        .output()
        .unwrap();
    let problem = String::from_utf8(nowhere.stderr).unwrap();
    assert!(
        problem.contains("there is no such directory") && problem.lines().count() == 1,
        "{problem}"
    );
}
