//! Requests that are refused because of who asks, or as whom.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{CONFIGMAPS, Call, Daemon, Kubectl, Protocol, body, configmap};

#[tokio::test]
async fn a_request_that_is_to_be_carried_out_as_somebody_else_is_not_carried_out_at_all_api_284() {
    let daemon = Daemon::start().await;
    let target = daemon.target();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = target.client_over(protocol);
        for (name, value, shown) in [
            ("Impersonate-User", "nobody", "Impersonate-User"),
            ("Impersonate-Group", "crew", "Impersonate-Group"),
            ("Impersonate-Uid", "1", "Impersonate-Uid"),
            ("Impersonate-Extra-Scopes", "view", "Impersonate-Extra-*"),
            ("impersonate-Anything", "x", "Impersonate-*"),
        ] {
            for (call, is_resource) in [
                (Call::get(CONFIGMAPS), true),
                (Call::get(&format!("{CONFIGMAPS}?watch=true")), true),
                (Call::post(CONFIGMAPS, &body("a", "1")), true),
                (Call::get("/api"), false),
                (Call::get("/apis"), false),
                (Call::get("/readyz"), false),
            ] {
                let answer = client.call(call.header(name, value)).await;
                // Of what refuses discovery client-go shows texts alone.
                let message = if is_resource {
                    let status = answer.refusal(403, "Forbidden");
                    status["message"].as_str().unwrap().to_owned()
                } else {
                    assert_eq!(answer.status.as_u16(), 403);
                    let media_type = answer.headers["content-type"].to_str().unwrap();
                    assert_eq!(media_type, "text/plain; charset=utf-8");
                    answer.text().to_string()
                };
                let said = "User \"admin\" cannot impersonate anybody, as impersonation is not \
                            supported yet: leave out the header ";
                assert!(message.contains(said), "{message}");
                assert!(message.contains(shown), "{message}");
            }
        }
        client
            .call(Call::get(&configmap("a")))
            .await
            .refusal(404, "NotFound");

        // Who is not known hears that first; who gives no name may impersonate nobody, either.
        let call = || Call::get(CONFIGMAPS).header("Impersonate-User", "nobody");
        let stranger = target.with_token("x").client_over(protocol);
        stranger.call(call()).await.refusal(401, "Unauthorized");
        let anonymous = target.anonymous().client_over(protocol);
        anonymous.call(call()).await.refusal(403, "Forbidden");
        // Nobody is a front proxy here, whose headers would make a user.
        let call = Call::get(CONFIGMAPS).header("X-Remote-User", "nobody");
        client.call(call).await.expect(200);
    }
}

#[tokio::test]
async fn kubectl_as_somebody_else_says_why_it_fails_api_284() {
    for version in ["1.20", "1.32"] {
        let daemon = Daemon::start().await;
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        // At first it knows nothing of the daemon and asks what there is, as nobody. An old one
        // takes a 403 for an answer that there is nothing, whatever it says.
        for knows in [false, true] {
            if knows {
                kubectl.ok(&["get", "configmaps"]).await;
            }
            for flags in [
                vec!["--as", "nobody"],
                vec!["--as", "nobody", "--as-group", "crew"],
            ] {
                let arguments = ["get", "configmaps"].into_iter().chain(flags);
                let said = kubectl.fails(&arguments.collect::<Vec<_>>()).await;
                let sentence = "impersonation is not supported yet: leave out the header";
                let is_told = knows || version != "1.20";
                assert!(
                    !is_told || said.contains(sentence),
                    "{version} {knows}: {said}"
                );
                assert!(
                    !knows || said.contains("Error from server (Forbidden)"),
                    "{said}"
                );
            }
        }
    }
}

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
            .count("authentication_attempts{result=\"failure\"}")
            .await
            >= 201
    );
}
