//! Refused logins.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol};

#[tokio::test]
async fn refused_logins_leave_a_bounded_trace_without_what_they_were_tried_with() {
    let daemon = Daemon::start().await;
    let target = daemon.target().with_token("a-guess-of-a-token");
    let agent = format!("evil/1.0 \"quoted\"\t{}", "z".repeat(500));
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for _ in 0..100 {
            // An answer of 401 may end the connection.
            let call = Call::get(CONFIGMAPS).header("user-agent", &agent);
            let client = target.client_over(protocol);
            client.call(call).await.refusal(401, "Unauthorized");
        }
    }
    // A token that can't be one, and a user agent that would clear an operator's terminal.
    let mut raw = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    raw.write_all(
        b"GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer a-guess b\r\n\
          user-agent: \xc2\x9b2J\r\nconnection: close\r\n\r\n",
    )
    .await
    .unwrap();
    let mut answer = Vec::new();
    let reading = raw.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(10), reading)
        .await
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 401 "));

    let log = daemon.stderr();
    let lines = log
        .lines()
        .filter(|line| line.contains("a login was refused"));
    let lines: Vec<&str> = lines.collect();
    // Five at once, and one every ten seconds.
    assert!(
        (5..20).contains(&lines.len()),
        "{} lines\n{log}",
        lines.len()
    );
    for line in &lines {
        assert!(line.contains("peer=127.0.0.1:"), "{line}");
        // A number of left out ones says of when it is.
        let is_all = line.contains("untold=0");
        assert_eq!(line.contains("within="), !is_all, "{line}");
        assert!(line.contains("the bearer token is unknown"), "{line}");
        assert!(line.contains("evil/1.0 "), "{line}");
        assert!(line.len() < 600 && line.is_ascii(), "{line}");
    }
    assert!(!log.contains("a-guess"), "{log}");
    assert!(
        daemon
            .count("authentication_attempts{result=\"error\"}")
            .await
            >= 201
    );
}
