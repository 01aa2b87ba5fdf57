//! Bootstrap tokens, front proxies and requests without credentials, over HTTP.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use serde_json::{Value, json};

use crate::harness::daemon::command;
use crate::harness::{Answer, Call, Daemon, Options, Target};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const TOKEN: &str = "abcdef.0123456789abcdef";

async fn asked(target: &Target, headers: &[(&str, &str)]) -> Answer {
    let mut call = Call::post(WHO, &json!({}));
    for (name, value) in headers {
        call = call.header(name, value);
    }
    target.client().call(call).await
}

async fn user(target: &Target, headers: &[(&str, &str)]) -> Value {
    let mut review = asked(target, headers).await.expect(201);
    review["status"]["userInfo"].take()
}

fn secret(further: &Value) -> Value {
    let mut data = json!({
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
    });
    for (key, value) in further.as_object().unwrap() {
        data[key] = value.clone();
    }
    json!({
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    })
}

#[tokio::test]
async fn a_machine_joins_with_a_bootstrap_token_until_its_secret_goes_ac_8() {
    let daemon = Daemon::with(&["--enable-bootstrap-token-auth"]).await;
    let (admin, machine) = (daemon.client(), daemon.target().with_token(TOKEN));
    asked(&machine, &[]).await.refusal(401, "Unauthorized");
    let groups = json!({"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"});
    let made = Call::post(SECRETS, &secret(&groups));
    admin.call(made).await.expect(201);
    // A refused token is not kept (AC-5).
    let expected = json!({
        "username": "system:bootstrap:abcdef",
        "groups": [
            "system:bootstrappers",
            "system:bootstrappers:kubeadm:default-node-token",
            "system:authenticated",
        ],
    });
    assert_eq!(user(&machine, &[]).await, expected);
    let wrong = daemon.target().with_token("abcdef.0123456789abcdee");
    asked(&wrong, &[]).await.refusal(401, "Unauthorized");
    let path = format!("{SECRETS}/bootstrap-token-abcdef");
    let expired = json!({"stringData": {"expiration": "2020-01-01T00:00:00Z"}});
    admin
        .call(Call::merge_patch(&path, &expired))
        .await
        .expect(200);
    until_refused(&machine).await;
    let again = json!({"stringData": {"expiration": "2222-01-01T00:00:00Z"}});
    admin
        .call(Call::merge_patch(&path, &again))
        .await
        .expect(200);
    admin.call(Call::delete(&path)).await.expect(200);
    until_refused(&machine).await;
}

/// Caches are behind by moments.
async fn until_refused(target: &Target) {
    for _ in 0..200 {
        if asked(target, &[]).await.status.as_u16() == 401 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the token is still accepted");
}

#[tokio::test]
async fn bootstrap_tokens_are_off_by_default_ac_8() {
    let daemon = Daemon::start().await;
    let made = Call::post(SECRETS, &secret(&json!({})));
    daemon.client().call(made).await.expect(201);
    let machine = daemon.target().with_token(TOKEN);
    asked(&machine, &[]).await.refusal(401, "Unauthorized");
}

/// An authority, and its certificate in a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificate.pem()).unwrap();
        Authority {
            issuer: Issuer::new(parameters, key),
            file,
        }
    }

    fn path(&self) -> &str {
        self.file.path().to_str().unwrap()
    }

    fn client(&self, daemon: &Daemon, name: &str) -> Target {
        let mut parameters = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        parameters.distinguished_name = subject;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        let target = daemon.target().anonymous();
        target.with_certificate(&signed.pem(), &key.serialize_pem())
    }
}

const HEADERS: [&str; 4] = [
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-uid-headers=X-Remote-Uid",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
];

const EVE: [(&str, &str); 4] = [
    ("X-Remote-User", "eve"),
    ("X-Remote-Uid", "17"),
    ("X-Remote-Group", "crew"),
    ("X-Remote-Extra-Scopes%2fA", "read"),
];

#[tokio::test]
async fn only_a_front_proxy_names_users_in_headers_ac_10_ac_11() {
    let (proxies, clients) = (Authority::new(), Authority::new());
    let arguments = [
        format!("--requestheader-client-ca-file={}", proxies.path()),
        format!("--client-ca-file={}", clients.path()),
        "--requestheader-allowed-names=front,other".to_owned(),
    ];
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(HEADERS);
    let daemon = Daemon::with(&arguments).await;
    let front = proxies.client(&daemon, "front");
    let expected = json!({
        "username": "eve",
        "uid": "17",
        "groups": ["crew", "system:authenticated"],
        "extra": {"scopes/a": ["read"]},
    });
    assert_eq!(user(&front, &EVE).await, expected);
    // Without a name the proxy is nobody, and its certificate is not one of a client.
    asked(&front, &[]).await.refusal(401, "Unauthorized");
    let unknown = proxies.client(&daemon, "back");
    asked(&unknown, &EVE).await.refusal(401, "Unauthorized");
    // Others can't name anybody: headers of clients have no effect.
    let ada = clients.client(&daemon, "ada");
    assert_eq!(user(&ada, &EVE).await["username"], "ada");
    let admin = daemon.target();
    assert_eq!(user(&admin, &EVE).await["username"], "admin");
    let nobody = daemon.target().anonymous().client();
    let mut call = Call::get("/version");
    for (name, value) in EVE {
        call = call.header(name, value);
    }
    nobody.call(call).await.expect(200);
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let published = daemon.client().call(Call::get(path)).await.expect(200);
    let data = &published["data"];
    for (key, expected) in [
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        (
            "requestheader-extra-headers-prefix",
            r#"["X-Remote-Extra-"]"#,
        ),
        ("requestheader-allowed-names", r#"["front","other"]"#),
    ] {
        assert_eq!(data[key], expected, "AC-13");
    }
    let own = std::fs::read_to_string(proxies.path()).unwrap();
    let read = |text: &str| text.split_whitespace().collect::<String>();
    let shown = data["requestheader-client-ca-file"].as_str().unwrap();
    assert_eq!(read(shown), read(&own));
}

#[tokio::test]
async fn an_authority_of_clients_and_proxies_needs_names_ac_10() {
    let both = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let refused = command(folder.path(), 0)
        .arg(format!("--requestheader-client-ca-file={}", both.path()))
        .arg(format!("--client-ca-file={}", both.path()))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping \
             certificates; --requestheader-allowed-names must be specified to ensure regular \
             client certificates cannot set authenticating proxy headers for arbitrary users"
        ),
        "{said}"
    );
}

#[tokio::test]
async fn without_anonymous_requests_credentials_are_needed_everywhere_ac_2_ac_3() {
    let options = Options::default().arguments(&["--anonymous-auth=false"]);
    let daemon = options.launch().await;
    let admin = daemon.client();
    while admin.call(Call::get("/readyz")).await.status.as_u16() != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let nobody = daemon.target().anonymous().client();
    for path in ["/healthz", "/version", "/api", "/nowhere", "/api/v1/pods"] {
        let answer = nobody.call(Call::get(path)).await;
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        });
        assert_eq!(answer.expect(401), expected, "{path}");
    }
    daemon.client().call(Call::get("/api")).await.expect(200);
    assert!(
        daemon
            .count("authentication_attempts{result=\"failure\"}")
            .await
            >= 5
    );
    let wrong = daemon.target().with_token("wrong").client();
    wrong.call(Call::get("/api")).await.expect(401);
    assert!(
        daemon
            .count("authentication_attempts{result=\"error\"}")
            .await
            >= 1
    );
}
