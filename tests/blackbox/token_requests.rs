//! The claims of service account tokens, and the audit events of their requests (API-226).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon};
use crate::service_accounts::{
    ACCOUNTS, ISSUER, LAST_USED, PODS, SECRETS, TOKEN, claims_of_secret, daemon, make, pod, signed,
};

const YEAR: i64 = 365 * 24 * 3600;
const ANNOTATIONS: &str = "authentication.k8s.io";

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).expect("a token has three parts");
    let text = URL_SAFE_NO_PAD.decode(part).expect("base64");
    serde_json::from_slice(&text).expect("claims are JSON")
}

fn on_pod(further: Value) -> Value {
    let mut spec = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}});
    let all = spec.as_object_mut().unwrap();
    all.extend(further.as_object().unwrap().clone());
    spec
}

/// Asks for a token. Answers how long it is good, after how long its use is reported, and how long
/// it is good as the answer tells.
async fn asked(client: &Client, spec: &Value) -> (i64, Option<i64>, i64) {
    let answer = client
        .call(Call::post(TOKEN, &json!({ "spec": spec })))
        .await;
    let answer = answer.expect(201);
    let claims = claims(answer["status"]["token"].as_str().unwrap());
    let issued = claims["iat"].as_i64().unwrap();
    let told = answer["status"]["expirationTimestamp"].as_str().unwrap();
    let told: jiff::Timestamp = told.parse().unwrap();
    let warn_after = claims["kubernetes.io"]["warnafter"].as_i64();
    (
        claims["exp"].as_i64().unwrap() - issued,
        warn_after.map(|time| time - issued),
        told.as_second() - issued,
    )
}

/// Kubelets ask for 3607 seconds for the volumes of pods.
#[tokio::test]
async fn tokens_of_volumes_are_good_for_a_year_and_reported_after_an_hour_api_226() {
    let first = daemon(&[]).await;
    let admin = first.client();
    make(&admin, PODS, "p", &pod()).await;
    let seconds = |seconds: i64| json!({ "expirationSeconds": seconds });
    let extended = (YEAR, Some(3607), 3607);
    assert_eq!(asked(&admin, &on_pod(seconds(3607))).await, extended);
    let own = json!({"expirationSeconds": 3607, "audiences": [ISSUER]});
    assert_eq!(asked(&admin, &on_pod(own)).await, extended);
    // For others, without a pod, and for any other time.
    for audiences in [json!(["x"]), json!([ISSUER, "x"])] {
        let spec = on_pod(json!({"expirationSeconds": 3607, "audiences": audiences}));
        assert_eq!(asked(&admin, &spec).await, (3607, None, 3607));
    }
    assert_eq!(asked(&admin, &seconds(3607)).await, (3607, None, 3607));
    for time in [3606, 3608] {
        let spec = on_pod(seconds(time));
        assert_eq!(asked(&admin, &spec).await, (time, None, time));
    }
    assert_eq!(asked(&admin, &json!({})).await, (3600, None, 3600));

    let second = daemon(&["--service-account-extend-token-expiration=false"]).await;
    let admin = second.client();
    make(&admin, PODS, "p", &pod()).await;
    let spec = on_pod(seconds(3607));
    assert_eq!(asked(&admin, &spec).await, (3607, None, 3607));
}

#[tokio::test]
async fn requests_that_mean_an_object_of_another_uid_are_refused_api_226() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    let pod = make(&admin, PODS, "p", &pod()).await;
    let secret = make(&admin, SECRETS, "s", &json!({})).await;
    let account = admin.call(Call::get(&format!("{ACCOUNTS}/a"))).await;
    let account = account.expect(200)["metadata"]["uid"].take();
    let bound = |kind: &str, name: &str, uid: &str| {
        let reference = json!({"kind": kind, "apiVersion": "v1", "name": name, "uid": uid});
        json!({"spec": {"boundObjectRef": reference}})
    };
    for (kind, name, uid) in [("Pod", "p", pod), ("Secret", "s", secret)] {
        let asked = Call::post(TOKEN, &bound(kind, name, "other"));
        let told = admin.call(asked).await.refusal(409, "Conflict");
        let message = format!(
            "Operation cannot be fulfilled on {kind} {name:?}: the UID in the bound object \
             reference (other) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        assert_eq!(told["message"], *message);
        assert_eq!(told["details"], json!({"name": name, "kind": kind}));
        let asked = Call::post(TOKEN, &bound(kind, name, &uid));
        admin.call(asked).await.expect(201);
    }
    let asked = |uid: &str| Call::post(TOKEN, &json!({"metadata": {"uid": uid}}));
    let told = admin.call(asked("other")).await.refusal(409, "Conflict");
    let account = account.as_str().unwrap();
    let message = format!(
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"a\": the UID in the \
         token request (other) does not match the UID of the service account ({account})"
    );
    assert_eq!(told["message"], *message);
    let details = json!({"name": "a", "group": "authentication.k8s.io", "kind": "TokenRequest"});
    assert_eq!(told["details"], details);
    admin.call(asked(account)).await.expect(201);
}

/// The annotations of the events of requests of this client, by their stages.
fn annotations(log: &Path, agent: &str) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(log).expect("there is a log");
    let events = text
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    let own = events.filter(|event| event["userAgent"] == agent);
    let noted = own.map(|event| {
        let stage = event["stage"].as_str().unwrap().to_owned();
        let all = event["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let about_tokens = all
            .into_iter()
            .filter(|(name, _)| name.starts_with("authentication"));
        (stage, Value::Object(about_tokens.collect()))
    });
    noted.collect()
}

/// A daemon that logs the metadata of all requests.
async fn audited(folder: &Path) -> Daemon {
    let (policy, log) = (folder.join("policy"), folder.join("log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, text).unwrap();
    let policy = format!("--audit-policy-file={}", policy.display());
    daemon(&[&policy, &format!("--audit-log-path={}", log.display())]).await
}

async fn status_for(daemon: &Daemon, token: &str, agent: &str) -> u16 {
    let client = daemon.target().with_token(token).client();
    let call = Call::get("/api").header("User-Agent", agent);
    client.call(call).await.status.as_u16()
}

#[tokio::test]
async fn the_audit_log_tells_of_tokens_that_were_made_and_of_stale_ones_api_226_api_278() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = audited(folder.path()).await;
    let admin = daemon.client();
    let made = Call::post(TOKEN, &json!({})).header("User-Agent", "maker");
    let made = admin.call(made).await.expect(201);
    let made = claims(made["status"]["token"].as_str().unwrap());
    let account = admin.call(Call::get(&format!("{ACCOUNTS}/a"))).await;
    let uid = account.expect(200)["metadata"]["uid"].take();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let key = daemon.data().join("service-account.key");
    let token = |warn_after: i64| {
        let own = json!({"namespace": "default", "serviceaccount": {"name": "a", "uid": uid},
            "warnafter": warn_after});
        let claims = json!({"iss": ISSUER, "aud": [ISSUER], "iat": now - 5000, "nbf": now - 5000,
            "exp": now + 5000, "jti": "1", "sub": "system:serviceaccount:default:a",
            "kubernetes.io": own});
        signed(&key, &claims)
    };
    assert_eq!(status_for(&daemon, &token(now + 1000), "fresh").await, 200);
    assert_eq!(status_for(&daemon, &token(now - 1000), "stale").await, 200);
    daemon.stop(Signal::TERM).await;

    let log = folder.path().join("log");
    let id = format!("JTI={}", made["jti"].as_str().unwrap());
    let expected = json!({"authentication.kubernetes.io/issued-credential-id": id});
    let at_end = ("ResponseComplete".to_owned(), expected);
    assert_eq!(annotations(&log, "maker").last(), Some(&at_end));
    for (_, noted) in annotations(&log, "fresh") {
        assert_eq!(noted, json!({}));
    }
    let stale = annotations(&log, "stale");
    assert_eq!(stale.len(), 2, "{stale:?}");
    for (_, noted) in stale {
        let text = noted[format!("{ANNOTATIONS}/stale-token")]
            .as_str()
            .unwrap();
        let words = "subject: system:serviceaccount:default:a, seconds after warning threshold: ";
        let after: i64 = text.strip_prefix(words).unwrap().parse().unwrap();
        assert!((1000..1100).contains(&after), "{text}");
    }
}

#[tokio::test]
async fn the_audit_log_tells_of_the_use_of_tokens_in_secrets_api_278() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = audited(folder.path()).await;
    let admin = daemon.client();
    let account = format!("{ACCOUNTS}/a");
    let uid = admin.call(Call::get(&account)).await.expect(200)["metadata"]["uid"].take();
    let claims = claims_of_secret(&uid);
    let token = signed(&daemon.data().join("service-account.key"), &claims);
    let secret = json!({
        "metadata": {"annotations": {"kubernetes.io/service-account.name": "a"}},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": STANDARD.encode(&token)},
    });
    make(&admin, SECRETS, "s", &secret).await;
    assert_eq!(status_for(&daemon, &token, "manual").await, 200);

    let listed = json!({"secrets": [{"name": "s"}]});
    admin
        .call(Call::merge_patch(&account, &listed))
        .await
        .expect(200);
    let client = daemon.target().with_token(&token).client();
    let warning = "Use tokens from the TokenRequest API or manually created secret-based tokens";
    let told = async || {
        let answer = client
            .call(Call::get("/api").header("User-Agent", "generated"))
            .await;
        let warned = answer
            .header("warning")
            .is_some_and(|text| text.contains(warning));
        (answer.status.as_u16(), warned)
    };
    // The caches that are asked are behind by moments.
    for _ in 0..100 {
        if told().await == (200, true) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(told().await, (200, true));

    let path = format!("{SECRETS}/s");
    let invalid = json!({"metadata": {"labels": {
        "kubernetes.io/legacy-token-invalid-since": "2026-01-01", LAST_USED: null}}});
    admin
        .call(Call::merge_patch(&path, &invalid))
        .await
        .expect(200);
    let mut status = 200;
    for _ in 0..100 {
        status = status_for(&daemon, &token, "invalid").await;
        if status != 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(status, 401);
    // The use is noted all the same, so that an operator sees who still has it.
    let noted = admin.call(Call::get(&path)).await.expect(200);
    assert!(
        noted["metadata"]["labels"][LAST_USED].is_string(),
        "{noted}"
    );
    daemon.stop(Signal::TERM).await;

    let log = folder.path().join("log");
    let subject = "system:serviceaccount:default:a";
    let (legacy, own) = (format!("{ANNOTATIONS}/legacy-token"), "s");
    let manual = json!({(legacy.clone()): subject, (format!("{legacy}-manual-secret")): own});
    let stages = ["RequestReceived", "ResponseComplete"];
    let expected = stages.map(|stage| (stage.to_owned(), manual.clone()));
    assert_eq!(annotations(&log, "manual"), expected);
    let generated =
        json!({(legacy.clone()): subject, (format!("{legacy}-autogenerated-secret")): own});
    assert_eq!(annotations(&log, "generated").last().unwrap().1, generated);
    let invalid = annotations(&log, "invalid").pop().unwrap().1;
    assert_eq!(invalid[format!("{legacy}-invalidated")], "s/default");
}
