//! Tokens of other issuers, over HTTP (AC-14 to AC-23). The issuer runs in this process.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, KeyPair, SigningKey};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::daemon::command;
use crate::harness::{Call, Daemon, Options, Target};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// An issuer with a key on P-256.
pub struct Issuer {
    pub url: String,
    pem: String,
    key: KeyPair,
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The two numbers of a signature, without the form that certificates give them.
pub fn plain(signature: &[u8]) -> Vec<u8> {
    let numbers = yasna::parse_der(signature, |reader| {
        reader.read_sequence(|reader| {
            let mut number = || reader.next().read_bigint_bytes().map(|(bytes, _)| bytes);
            Ok([number()?, number()?])
        })
    });
    let mut all = Vec::new();
    for number in numbers.unwrap() {
        let start = number.len().saturating_sub(32);
        all.resize(all.len() + 32 - number[start..].len(), 0);
        all.extend(&number[start..]);
    }
    all
}

impl Issuer {
    pub async fn start() -> Issuer {
        let certified = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        parameters.subject_alt_names = vec![rcgen::SanType::IpAddress(address)];
        let certificate = parameters.self_signed(&certified).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let own = PrivateKeyDer::try_from(certified.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], own)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let key = KeyPair::generate().unwrap();
        let (x, y) = key.public_key_raw()[1..].split_at(32);
        let keys = json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "k", "x": encoded(x), "y": encoded(y)},
        ]});
        let document = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(tls)),
            [document, keys],
        ));
        Issuer {
            url,
            pem: certificate.pem(),
            key,
        }
    }

    /// A token of `ada` for the audience `cluster` that lives for 600 s, with further claims.
    pub fn token(&self, further: &Value) -> String {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.url, "aud": "cluster", "sub": "ada", "exp": now + 600, "groups": ["crew"],
        });
        for (name, value) in further.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = json!({"alg": "ES256", "kid": "k"}).to_string();
        let claims = claims.to_string();
        let signed = format!(
            "{}.{}",
            encoded(header.as_bytes()),
            encoded(claims.as_bytes())
        );
        let signature = plain(&self.key.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{}", encoded(&signature))
    }

    pub fn pem_file(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.pem).unwrap();
        file
    }

    /// The file of `--authentication-config` with this issuer.
    fn entry(&self) -> String {
        let pem = self.pem.replace('\n', "\n      ");
        format!(
            "- issuer:\n    url: {}\n    audiences: [cluster]\n    certificateAuthority: |\n      \
             {pem}\n  claimMappings:\n    username:\n      expression: '\"o:\" + claims.sub'\n    \
             groups:\n      claim: groups\n      prefix: 'o:'\n",
            self.url
        )
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, documents: [Value; 2]) {
    let [document, keys] = documents.map(|document| Arc::new(document.to_string()));
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (tls, document, keys) = (tls.clone(), Arc::clone(&document), Arc::clone(&keys));
        tokio::spawn(async move {
            let Ok(mut stream) = tls.accept(socket).await else {
                return;
            };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read_exact(&mut byte).await.is_err() {
                    return;
                }
                head.push(byte[0]);
            }
            let body = match head.starts_with(b"GET /keys ") {
                true => keys,
                false => document,
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        });
    }
}

fn head(text: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n{text}")
}

/// The user of a token, as soon as the issuer was asked.
async fn user(target: &Target) -> Value {
    for _ in 0..600 {
        let answer = target.client().call(Call::post(WHO, &json!({}))).await;
        if answer.status.as_u16() == 201 {
            return answer.json()["status"]["userInfo"].take();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the token is not accepted");
}

#[tokio::test]
async fn flags_of_openid_connect_name_an_issuer_ac_17() {
    let issuer = Issuer::start().await;
    let pem = issuer.pem_file();
    let daemon = Daemon::with(&[
        &format!("--oidc-issuer-url={}", issuer.url),
        "--oidc-client-id=cluster",
        &format!("--oidc-ca-file={}", pem.path().display()),
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=o:",
        "--oidc-signing-algs=ES256",
        "--oidc-required-claim=hd=example.com",
    ])
    .await;
    let target = |further: Value| daemon.target().with_token(&issuer.token(&further));
    let good = json!({"hd": "example.com", "jti": "7"});
    let expected = json!({
        "username": format!("{}#ada", issuer.url),
        "groups": ["o:crew", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=7"]},
    });
    assert_eq!(user(&target(good.clone())).await, expected);
    for wrong in [
        json!({}),
        json!({"hd": "other"}),
        json!({"hd": "example.com", "aud": "other"}),
        json!({"hd": "example.com", "exp": 1}),
    ] {
        let client = target(wrong.clone()).client();
        let answer = client.call(Call::post(WHO, &json!({}))).await;
        answer.refusal(401, "Unauthorized");
    }
    let review = |token: &str, audiences: Value| {
        Call::post(
            REVIEWS,
            &json!({"spec": {"token": token, "audiences": audiences}}),
        )
    };
    let admin = daemon.client();
    let api = "https://kubernetes.default.svc.cluster.local";
    let token = issuer.token(&good);
    let asked = admin.call(review(&token, json!([api]))).await.expect(201);
    assert_eq!(asked["status"]["authenticated"], true);
    assert_eq!(asked["status"]["audiences"], json!([api]), "AC-1");
    let asked = admin
        .call(review(&token, json!(["other"])))
        .await
        .expect(201);
    assert_eq!(asked["status"]["authenticated"], Value::Null);
    let wrong = issuer.token(&json!({"aud": "x"}));
    let asked = admin.call(review(&wrong, json!([]))).await.expect(201);
    assert_eq!(
        asked["status"]["error"],
        "[invalid bearer token, oidc: expected audience in [\"cluster\"] got [\"x\"]]"
    );
    assert!(
        daemon
            .count("authentication_token_cache_request_total{status=\"miss\"}")
            .await
            > 0
    );
}

#[tokio::test]
async fn a_file_names_issuers_and_is_followed_ac_14_ac_23() {
    let (one, other) = (Issuer::start().await, Issuer::start().await);
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |text: &str| std::fs::write(file.path(), head(text)).unwrap();
    write(&format!("jwt:\n{}", one.entry()));
    let flag = format!("--authentication-config={}", file.path().display());
    let daemon = Daemon::with(&[&flag]).await;
    let of_one = daemon.target().with_token(&one.token(&json!({})));
    let of_other = daemon.target().with_token(&other.token(&json!({})));
    let expected = json!({"username": "o:ada", "groups": ["o:crew", "system:authenticated"]});
    assert_eq!(user(&of_one).await, expected);
    let refused = of_other.client().call(Call::get("/api")).await;
    refused.refusal(401, "Unauthorized");
    write("jwt: [{}]\n");
    let failures = "apiserver_authentication_config_controller_automatic_reloads_total\
                    {status=\"failure\"";
    while !metrics(&daemon).await.contains(failures) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(user(&of_one).await, expected);
    write(&format!("jwt:\n{}{}", one.entry(), other.entry()));
    assert_eq!(user(&of_other).await, expected);
    assert_eq!(user(&of_one).await, expected);
    let page = metrics(&daemon).await;
    for series in [
        "apiserver_authentication_config_controller_automatic_reloads_total{status=\"success\"",
        "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds{",
        "apiserver_authentication_config_controller_last_config_info{",
        "apiserver_authentication_jwt_authenticator_latency_seconds_count{result=\"success\"",
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds{",
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info{",
        "authentication_token_cache_fetch_total{status=\"ok\"}",
        "authentication_token_cache_active_fetch_count{status=\"in_flight\"}",
    ] {
        assert!(page.contains(series), "AC-74, AC-75: {series}");
    }
}

async fn metrics(daemon: &Daemon) -> String {
    let page = daemon.client().call(Call::get("/metrics")).await;
    page.text()
}

#[tokio::test]
async fn anonymous_requests_can_be_limited_to_paths_ac_16() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let paths = "anonymous:\n  enabled: true\n  conditions:\n  - path: /readyz\n  - path: /livez\n";
    std::fs::write(file.path(), head(paths)).unwrap();
    let flag = format!("--authentication-config={}", file.path().display());
    let daemon = Daemon::with(&[&flag]).await;
    let nobody = daemon.target().anonymous().client();
    for (path, status) in [
        ("/livez", 200),
        ("/livez?verbose", 200),
        ("/livez/ping", 401),
        ("/version", 401),
        ("/healthz", 401),
    ] {
        let answer = nobody.call(Call::get(path)).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn wrong_configurations_end_the_start_ac_14_ac_15() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authentication.yaml");
    let refusal = |text: &str, further: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let refused = command(folder.path(), 0)
            .arg(format!("--authentication-config={}", file.display()))
            .args(further)
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2));
        String::from_utf8(refused.stderr).unwrap()
    };
    let load = format!(
        "failed to load authentication configuration from file {:?}: ",
        file.display().to_string()
    );
    let said = refusal("", &[]);
    assert!(said.contains(&format!("{load}empty config data")), "{said}");
    let said = refusal(&head("jwt: []\njwts: []\njwt: []\n"), &[]);
    let strict = "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"jwt\" already \
                  set in map, unknown field \"jwts\"";
    assert!(said.contains(&format!("{load}{strict}")), "{said}");
    let said = refusal(&head("jwt: [{}]\n"), &[]);
    let invalid = "invalid authentication configuration: [jwt[0].issuer.url: Required value: URL is \
                   required, ";
    assert!(said.contains(invalid), "{said}");
    let said = refusal(
        &head("anonymous: {enabled: true}\n"),
        &["--anonymous-auth=true"],
    );
    let forbidden = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field \
                     is configured in authentication configuration file";
    assert!(said.contains(forbidden), "{said}");
}

/// The issuer of service account tokens can't be one of others, too.
#[tokio::test]
async fn our_own_issuer_is_nobody_elses_ac_18() {
    let flags = [
        "--service-account-issuer=https://a.example",
        "--oidc-issuer-url=https://a.example",
        "--oidc-client-id=cluster",
    ];
    let refused = Options::default().arguments(&flags).attempt().await;
    let said = refused.err().unwrap();
    assert!(
        said.contains(
            "issuer.url: Invalid value: \"https://a.example\": URL must not overlap with disallowed \
             issuers: [https://a.example]"
        ),
        "{said}"
    );
}
