//! The permissions of users, and the protection of secrets.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Daemon, body};

/// Every file and folder below a folder, itself included.
fn below(path: &Path) -> Vec<std::path::PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            all.extend(below(&entry.unwrap().path()));
        }
    }
    all
}

#[tokio::test]
async fn what_is_in_the_data_directory_is_its_owners_alone() {
    let daemon = Daemon::start().await;
    daemon
        .client()
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let files = below(&daemon.data());
    assert!(files.len() > 3, "{files:?}");
    for path in files {
        let metadata = std::fs::metadata(&path).unwrap();
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o7777;
        assert_eq!(mode, wanted, "{} has mode {mode:o}", path.display());
        assert_eq!(
            metadata.nlink(),
            if metadata.is_dir() {
                metadata.nlink()
            } else {
                1
            }
        );
    }
}

#[tokio::test]
async fn a_data_directory_that_others_can_read_is_closed_to_them() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    // Empty, and with all that a daemon makes.
    for open in [0o777, 0o755] {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(open)).unwrap();
        let mut daemon = crate::harness::Options::default()
            .over(folder.clone())
            .start()
            .await;
        let mode = std::fs::metadata(daemon.data())
            .unwrap()
            .permissions()
            .mode()
            & 0o7777;
        assert_eq!(mode, 0o700, "{mode:o}");
        let said = daemon.stderr();
        let mode = format!("mode={open:o}");
        for words in [
            "was open to others, and is closed to them now",
            mode.as_str(),
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        daemon.stop(Signal::TERM).await;
    }
}

#[tokio::test]
async fn the_token_is_never_printed_or_logged() {
    let daemon = Daemon::with(&["--log-level", "debug"]).await;
    let token = daemon.target().token.unwrap();
    assert!(token.len() >= 32, "a short token");
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    client.call(Call::get("/metrics")).await;
    let wrong = daemon.target().with_token(&format!("{token}x")).client();
    wrong
        .call(Call::get(CONFIGMAPS))
        .await
        .refusal(401, "Unauthorized");
    client
        .call(Call::get(&format!("{CONFIGMAPS}?access_token=x")))
        .await
        .expect(200);
    assert!(
        !daemon.stderr().is_empty(),
        "nothing is logged at debug level"
    );
    assert!(!daemon.stderr().contains(&token), "the log holds the token");
    assert!(!daemon.stdout().contains(&token), "the token was printed");
}

#[tokio::test]
async fn logs_hold_no_secrets_that_clients_send() {
    let daemon = Daemon::with(&["--log-level", "trace"]).await;
    let secret = json!({ "metadata": { "name": "s" }, "type": "Opaque", "data": { "password": "aHVudGVyMg==" } });
    let path = "/api/v1/namespaces/default/secrets";
    daemon
        .client()
        .call(Call::post(path, &secret))
        .await
        .expect(201);
    daemon.client().call(Call::get(path)).await.expect(200);
    let log = daemon.stderr();
    assert!(
        !log.contains("aHVudGVyMg==") && !log.contains("hunter2"),
        "the log holds a secret"
    );
}

#[tokio::test]
async fn everything_but_health_and_version_needs_the_token() {
    // API-20, API-279, API-280, API-290.
    let daemon = Daemon::start().await;
    let target = daemon.target();
    let anonymous = target.anonymous().client();
    for path in [
        "/livez",
        "/readyz",
        "/healthz",
        "/version",
        "/version/",
        "/livez?verbose",
    ] {
        let answer = anonymous.call(Call::get(path)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    for path in [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/metrics",
        "/openapi/v2",
        "/nonsense",
        CONFIGMAPS,
    ] {
        let status = anonymous
            .call(Call::get(path))
            .await
            .refusal(403, "Forbidden");
        let message = status["message"].as_str().unwrap();
        assert!(
            message.contains("User \"system:anonymous\" cannot"),
            "{message}"
        );
    }
    let status = anonymous
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await;
    let status = status.refusal(403, "Forbidden");
    assert_eq!(
        status["message"],
        "configmaps is forbidden: User \"system:anonymous\" cannot create resource \
         \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let token = target.token.clone().unwrap();
    for wrong in ["x", &token[1..], &token.to_uppercase()] {
        let header = format!("Bearer {wrong}x");
        for path in [CONFIGMAPS, "/livez"] {
            let call = Call::get(path).header("authorization", &header);
            anonymous.call(call).await.refusal(401, "Unauthorized");
        }
    }
    // A token ends at the next space (AC-4).
    let call = Call::get(CONFIGMAPS).header("authorization", &format!("bearer {token} x"));
    anonymous.call(call).await.expect(200);
    let call = Call::get(CONFIGMAPS).header("authorization", &format!("Basic {token}"));
    assert_eq!(
        anonymous.call(call).await.status,
        403,
        "no bearer token is no token"
    );
}

#[tokio::test]
async fn authority_certificate_and_token_are_made_once_and_kept() {
    let mut daemon = Daemon::start().await;
    let before = std::fs::read(daemon.kubeconfig()).unwrap();
    daemon.client().call(Call::get("/api")).await.expect(200);
    daemon.kill().await;
    daemon.restart().await;
    let after = std::fs::read(daemon.kubeconfig()).unwrap();
    assert!(before == after, "the kubeconfig changed");
    daemon.client().call(Call::get("/api")).await.expect(200);
}

#[tokio::test]
async fn two_daemons_have_different_tokens() {
    let (one, two) = (Daemon::start().await, Daemon::start().await);
    assert_ne!(one.target().token, two.target().token);
}
