//! Tokens of small issuers that run in the process, over TLS.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use rcgen::CertificateParams;
use serde_json::{Value, json};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::*;
use crate::api::user_info::UserInfo;
use crate::auth::followed_file::NotUsed;
use crate::auth::{Revocations, TokenLookup, Unauthorized, WatchAccess};
use crate::egress::EgressClient;
use crate::egress::tests::server::{Certified, TestServer, answer, redirect};

enum Pair {
    Rsa(RsaKeyPair),
    Curve(EcdsaKeyPair),
}

/// A key that signs tokens.
struct Signer {
    pair: Pair,
    jwk: Value,
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn rsa() -> Signer {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let (_, info) = SubjectPublicKeyInfo::from_der(der.as_ref()).unwrap();
        let PublicKey::RSA(numbers) = info.parsed().unwrap() else {
            panic!("not RSA");
        };
        let jwk = json!({
            "kty": "RSA", "n": encoded(numbers.modulus), "e": encoded(numbers.exponent),
        });
        Signer {
            pair: Pair::Rsa(pair),
            jwk,
        }
    }

    fn curve(algorithm: &'static EcdsaSigningAlgorithm, name: &str) -> Signer {
        let pair = EcdsaKeyPair::generate(algorithm).unwrap();
        let point = pair.public_key().as_ref()[1..].to_vec();
        let (x, y) = point.split_at(point.len() / 2);
        let jwk = json!({"kty": "EC", "crv": name, "x": encoded(x), "y": encoded(y)});
        Signer {
            pair: Pair::Curve(pair),
            jwk,
        }
    }

    fn key(&self, id: &str) -> Value {
        let mut key = self.jwk.clone();
        key["kid"] = id.into();
        key["use"] = "sig".into();
        key
    }

    fn sign(&self, algorithm: &str, bytes: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Curve(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding: &dyn aws_lc_rs::signature::RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                pair.sign(padding, &random, bytes, &mut signature).unwrap();
                signature
            }
        }
    }

    fn token(&self, algorithm: &str, id: &str, claims: &Value) -> String {
        let header = json!({"alg": algorithm, "kid": id});
        self.raw(algorithm, &header.to_string(), &claims.to_string())
    }

    fn raw(&self, algorithm: &str, header: &str, claims: &str) -> String {
        let signed = format!(
            "{}.{}",
            encoded(header.as_bytes()),
            encoded(claims.as_bytes())
        );
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", encoded(&signature))
    }
}

static RSA: LazyLock<Signer> = LazyLock::new(Signer::rsa);
static OTHER_RSA: LazyLock<Signer> = LazyLock::new(Signer::rsa);
static CURVE: LazyLock<Signer> =
    LazyLock::new(|| Signer::curve(&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256"));

const DOCUMENT: &str = "/.well-known/openid-configuration";

/// A running issuer.
struct TestIssuer {
    server: TestServer,
    pem: String,
    url: String,
    keys: Arc<Mutex<Vec<Value>>>,
    /// The answer instead of its document, if set.
    instead: Arc<Mutex<Option<String>>>,
}

impl TestIssuer {
    async fn start(keys: Vec<Value>) -> TestIssuer {
        let mut parameters = CertificateParams::default();
        let localhost = std::net::IpAddr::from([127, 0, 0, 1]);
        parameters.subject_alt_names = vec![rcgen::SanType::IpAddress(localhost)];
        let certified = Certified::own(&parameters);
        let keys = Arc::new(Mutex::new(keys));
        let instead = Arc::new(Mutex::new(None::<String>));
        let port = Arc::new(std::sync::OnceLock::new());
        let (shown, other, at) = (Arc::clone(&keys), Arc::clone(&instead), Arc::clone(&port));
        let server = TestServer::start(Some(certified.tls(&[])), move |uri| {
            let url = format!("https://127.0.0.1:{}", at.get().unwrap_or(&0));
            match uri.path() {
                DOCUMENT | "/elsewhere" => {
                    let document = json!({"issuer": url, "jwks_uri": format!("{url}/keys?a=b")});
                    let instead = other.lock().clone();
                    answer(instead.unwrap_or_else(|| document.to_string()))
                }
                "/keys" => answer(json!({"keys": *shown.lock()}).to_string()),
                "/moved" => redirect(302, "/elsewhere"),
                _ => redirect(404, "/"),
            }
        });
        let server = server.await;
        port.set(server.port).unwrap();
        TestIssuer {
            pem: certified.pem,
            url: server.url("https"),
            server,
            keys,
            instead,
        }
    }

    fn config(&self) -> JwtConfig {
        let mut config = JwtConfig::default();
        config.issuer.url.clone_from(&self.url);
        config.issuer.certificate_authority.clone_from(&self.pem);
        config.issuer.audiences = vec!["cluster".to_owned()];
        config.claim_mappings.username = claim("sub", "");
        config.claim_mappings.groups = claim("groups", "g:");
        config
    }

    fn claims(&self) -> Value {
        let now = crate::clock::now().as_second();
        json!({
            "iss": self.url, "aud": "cluster", "sub": "ada", "exp": now + 600, "nbf": now,
            "groups": ["a", "b"], "jti": "17",
        })
    }

    fn with(&self, name: &str, value: impl Into<Value>) -> Value {
        let mut claims = self.claims();
        claims[name] = value.into();
        claims
    }

    fn requests(&self, path: &str) -> usize {
        let seen = self.server.seen.lock();
        seen.iter().filter(|one| one.uri.path() == path).count()
    }
}

fn claim(claim: &str, prefix: &str) -> PrefixedClaim {
    PrefixedClaim {
        claim: claim.to_owned(),
        prefix: Some(prefix.to_owned()),
        expression: String::new(),
    }
}

fn all(jwt: Vec<JwtConfig>) -> AuthenticationConfiguration {
    AuthenticationConfiguration {
        jwt,
        anonymous: None,
    }
}

fn started(jwt: Vec<JwtConfig>) -> JwtIssuers {
    let client = Arc::new(EgressClient::new());
    JwtIssuers::start(&all(jwt), Vec::new(), client, Revocations::default()).unwrap()
}

async fn ready(jwt: Vec<JwtConfig>) -> JwtIssuers {
    let issuers = started(jwt);
    issuers.ready().await;
    issuers
}

async fn found(issuers: &JwtIssuers, token: &str) -> Result<Option<UserInfo>, String> {
    let found = issuers.look_up(token.as_bytes(), &[]).await;
    match found {
        Ok(known) => Ok(known.map(|known| (*known.user).clone())),
        Err(Unauthorized::Token(why)) => Err(why),
        Err(other) => panic!("{other}"),
    }
}

async fn refusal(issuers: &JwtIssuers, token: &str) -> String {
    found(issuers, token).await.unwrap_err()
}

#[tokio::test]
async fn claims_make_a_user_by_all_algorithms_ac_17_ac_22() {
    let p384 = Signer::curve(&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384");
    let p521 = Signer::curve(&ECDSA_P521_SHA512_FIXED_SIGNING, "P-521");
    let keys = vec![RSA.key("r"), CURVE.key("c"), p384.key("d"), p521.key("e")];
    let issuer = TestIssuer::start(keys).await;
    let issuers = ready(vec![issuer.config()]).await;
    let mut expected = UserInfo::authenticated("ada", vec!["g:a".to_owned(), "g:b".to_owned()]);
    let credential = "authentication.kubernetes.io/credential-id".to_owned();
    expected.extra.insert(credential, vec!["JTI=17".to_owned()]);
    for (signer, id, algorithms) in [
        (
            &*RSA,
            "r",
            &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..],
        ),
        (&*CURVE, "c", &["ES256"]),
        (&p384, "d", &["ES384"]),
        (&p521, "e", &["ES512"]),
    ] {
        for algorithm in algorithms {
            for id in [id, ""] {
                let token = signer.token(algorithm, id, &issuer.claims());
                let user = found(&issuers, &token).await;
                assert_eq!(user.unwrap().unwrap(), expected, "{algorithm} {id:?}");
            }
        }
    }
    // Tokens of others, and texts that are not tokens.
    let others = RSA.token("RS256", "r", &issuer.with("iss", "https://other.example"));
    for other in [others.as_str(), "a", "a.b.c", "..", ""] {
        assert_eq!(found(&issuers, other).await, Ok(None), "{other}");
    }
    assert_eq!(issuer.requests("/keys"), 1);
}

#[tokio::test]
async fn only_named_algorithms_are_accepted_with_flags_ac_17() {
    let issuer = TestIssuer::start(vec![RSA.key("r"), CURVE.key("c")]).await;
    let mut config = issuer.config();
    config.algorithms = vec!["RS256".to_owned()];
    let issuers = ready(vec![config]).await;
    let token = RSA.token("RS256", "r", &issuer.claims());
    assert!(found(&issuers, &token).await.unwrap().is_some());
    let token = CURVE.token("ES256", "c", &issuer.claims());
    let refused = refusal(&issuers, &token).await;
    assert!(
        refused.contains("unexpected signature algorithm \"ES256\""),
        "{refused}"
    );
}

/// The classic attacks on tokens.
#[tokio::test]
async fn forged_and_wrong_tokens_are_refused_ac_22() {
    let issuer = TestIssuer::start(vec![RSA.key("r"), CURVE.key("c")]).await;
    let issuers = ready(vec![issuer.config()]).await;
    let (claims, now) = (issuer.claims(), crate::clock::now().as_second());
    let text = claims.to_string();
    let mut tokens = vec![
        ("another key", OTHER_RSA.token("RS256", "r", &claims)),
        (
            "another key without a name",
            OTHER_RSA.token("RS256", "", &claims),
        ),
        (
            "an unknown key",
            OTHER_RSA.token("RS256", "../../dev/null", &claims),
        ),
        (
            "the key of another algorithm",
            RSA.token("RS256", "c", &claims),
        ),
        (
            "RS256 that is named ES256",
            RSA.token("ES256", "r", &claims),
        ),
        ("PS256 that is named RS256", {
            let header = r#"{"alg":"RS256","kid":"r"}"#;
            RSA.raw("PS256", header, &text)
        }),
        ("a critical extension", {
            let header = r#"{"alg":"RS256","kid":"r","crit":["b64"],"b64":false}"#;
            RSA.raw("RS256", header, &text)
        }),
        ("its own key", {
            let mut header = json!({"alg": "RS256", "kid": "x", "jku": "https://evil.example"});
            header["jwk"] = OTHER_RSA.key("x");
            OTHER_RSA.raw("RS256", &header.to_string(), &text)
        }),
        (
            "another audience",
            RSA.token("RS256", "r", &issuer.with("aud", "other")),
        ),
        (
            "no audience",
            RSA.token("RS256", "r", &issuer.with("aud", Value::Null)),
        ),
        (
            "an audience that is no text",
            RSA.token("RS256", "r", &issuer.with("aud", 3)),
        ),
        (
            "expired",
            RSA.token("RS256", "r", &issuer.with("exp", now - 1)),
        ),
        (
            "without an expiry",
            RSA.token("RS256", "r", &issuer.with("exp", Value::Null)),
        ),
        (
            "an expiry that is no time",
            RSA.token("RS256", "r", &issuer.with("exp", "later")),
        ),
        (
            "of the future",
            RSA.token("RS256", "r", &issuer.with("nbf", now + 400)),
        ),
        (
            "a name that is no text",
            RSA.token("RS256", "r", &issuer.with("sub", json!(["ada"]))),
        ),
        (
            "an empty name",
            RSA.token("RS256", "r", &issuer.with("sub", "")),
        ),
        (
            "groups that are no texts",
            RSA.token("RS256", "r", &issuer.with("groups", json!([1]))),
        ),
    ];
    for algorithm in ["none", "None", "HS256", "RS1", "", "EdDSA"] {
        let header = json!({"alg": algorithm, "kid": "r"}).to_string();
        let signed = format!(
            "{}.{}",
            encoded(header.as_bytes()),
            encoded(text.as_bytes())
        );
        let modulus = RSA.jwk["n"].as_str().unwrap();
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, modulus.as_bytes());
        let by_public_key = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
        tokens.push((
            algorithm,
            format!("{signed}.{}", encoded(by_public_key.as_ref())),
        ));
        tokens.push((algorithm, format!("{signed}.")));
    }
    let good = RSA.token("RS256", "r", &claims);
    let (start, signature) = good.rsplit_once('.').unwrap();
    tokens.push(("no signature", format!("{start}.")));
    let (head, _) = start.split_once('.').unwrap();
    let other = encoded(issuer.with("sub", "eve").to_string().as_bytes());
    tokens.push(("other claims", format!("{head}.{other}.{signature}")));
    let cut = &signature[..signature.len() - 4];
    tokens.push(("half a signature", format!("{start}.{cut}")));
    for (what, token) in tokens {
        let refused = found(&issuers, &token).await;
        assert!(!matches!(refused, Ok(Some(_))), "{what}: {refused:?}");
    }
    assert!(found(&issuers, &good).await.unwrap().is_some());
    let refused = refusal(&issuers, &RSA.token("RS256", "r", &issuer.with("aud", "x"))).await;
    assert_eq!(
        refused,
        "oidc: expected audience in [\"cluster\"] got [\"x\"]"
    );
}

/// A repeated member has one meaning for everybody who looks at it.
#[tokio::test]
async fn huge_deep_and_ambiguous_tokens_do_no_harm_ac_22() {
    let issuer = TestIssuer::start(vec![RSA.key("r")]).await;
    let issuers = ready(vec![issuer.config()]).await;
    let text = issuer.claims().to_string();
    let header = r#"{"alg":"none","alg":"RS256","kid":"x","kid":"r"}"#;
    let twice = format!("{},\"sub\":\"eve\"}}", text.trim_end_matches('}'));
    let user = found(&issuers, &RSA.raw("RS256", header, &twice)).await;
    assert_eq!(user.unwrap().unwrap().name, "eve");
    let first = format!(
        "{{\"iss\":\"https://other.example\",{}",
        text.trim_start_matches('{')
    );
    let user = found(&issuers, &RSA.raw("RS256", header, &first)).await;
    assert_eq!(user.unwrap().unwrap().name, "ada");
    let last = format!(
        "{},\"iss\":\"https://other.example\"}}",
        text.trim_end_matches('}')
    );
    assert_eq!(
        found(&issuers, &RSA.raw("RS256", header, &last)).await,
        Ok(None)
    );
    let huge = RSA.token("RS256", "r", &issuer.with("a", "a".repeat(100_000)));
    assert_eq!(found(&issuers, &huge).await, Ok(None));
    let deep = format!(
        "{},\"a\":{}{}}}",
        text.trim_end_matches('}'),
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    assert_eq!(
        found(&issuers, &RSA.raw("RS256", header, &deep)).await,
        Ok(None)
    );
    let fraction = issuer.with("exp", 1e300);
    assert!(
        found(&issuers, &RSA.token("RS256", "r", &fraction))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn prefixes_mail_uids_extra_and_rules_apply_ac_19_ac_20_ac_22() {
    let issuer = TestIssuer::start(vec![RSA.key("r")]).await;
    let issuer_of = |change: &dyn Fn(&mut JwtConfig)| {
        let mut config = issuer.config();
        change(&mut config);
        ready(vec![config])
    };
    let token = |claims: &Value| RSA.token("RS256", "r", claims);
    let mail = issuer_of(&|config| config.claim_mappings.username = claim("email", "m:")).await;
    for (verified, accepted) in [
        (None, true),
        (Some(json!(true)), true),
        (Some(json!(false)), false),
        (Some(json!("true")), false),
    ] {
        let mut claims = issuer.with("email", "ada@example.com");
        if let Some(verified) = verified {
            claims["email_verified"] = verified;
        }
        let user = found(&mail, &token(&claims)).await;
        assert_eq!(user.is_ok(), accepted, "{claims}");
        if let Ok(Some(user)) = user {
            assert_eq!(user.name, "m:ada@example.com");
        }
    }
    let refused = refusal(&mail, &token(&issuer.claims())).await;
    assert_eq!(
        refused,
        "oidc: parse username claims \"email\": claim not present"
    );
    let by_expressions = issuer_of(&|config| {
        let mappings = &mut config.claim_mappings;
        mappings.username = PrefixedClaim {
            expression: "'u:' + claims.sub".to_owned(),
            ..PrefixedClaim::default()
        };
        mappings.groups = PrefixedClaim {
            expression: "claims.nested.groups".to_owned(),
            ..PrefixedClaim::default()
        };
        mappings.uid.claim = "uid".to_owned();
        mappings.extra = vec![ExtraMapping {
            key: "a.example/b".to_owned(),
            value_expression: "claims.?b.orValue('')".to_owned(),
        }];
        config.claim_validation_rules = vec![
            ClaimRule {
                claim: "hd".to_owned(),
                required_value: "example.com".to_owned(),
                ..ClaimRule::default()
            },
            ClaimRule {
                expression: "claims.exp - claims.nbf <= 86400".to_owned(),
                message: "it is too long".to_owned(),
                ..ClaimRule::default()
            },
        ];
        config.user_validation_rules = vec![UserRule {
            expression: "!user.username.startsWith('u:system:')".to_owned(),
            message: "system users are ours".to_owned(),
        }];
    })
    .await;
    let mut claims = issuer.with("hd", "example.com");
    claims["nested"] = json!({"groups": ["x"]});
    claims["uid"] = "7".into();
    let user = found(&by_expressions, &token(&claims))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&*user.name, &*user.uid), ("u:ada", "7"));
    assert_eq!(user.groups, ["x", "system:authenticated"]);
    assert!(!user.extra.contains_key("a.example/b"));
    claims["b"] = "c".into();
    let user = found(&by_expressions, &token(&claims))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(user.extra["a.example/b"], ["c"]);
    for (name, value, why) in [
        (
            "hd",
            json!("other.example"),
            "required claim hd value does not match",
        ),
        ("hd", Value::Null, "parse claim hd"),
        ("hd", json!("\u{1b}[2J"), "Got = \u{fffd}[2J, want"),
        ("exp", json!(4_000_000_000_u64), "failed: it is too long"),
        (
            "sub",
            json!("system:admin"),
            "failed: system users are ours",
        ),
        (
            "sub",
            json!(3),
            "error evaluating username claim expression",
        ),
        (
            "nested",
            json!({}),
            "error evaluating group claim expression",
        ),
    ] {
        let mut claims = claims.clone();
        claims[name] = value;
        let refused = refusal(&by_expressions, &token(&claims)).await;
        assert!(refused.contains(why), "{refused}");
    }
    let elsewhere = issuer_of(&|_| ()).await;
    let mut claims = issuer.claims();
    claims.as_object_mut().unwrap().remove("groups");
    assert!(found(&elsewhere, &token(&claims)).await.unwrap().is_some());
    claims["_claim_names"] = json!({"groups": "a"});
    let refused = refusal(&elsewhere, &token(&claims)).await;
    assert!(
        refused.contains("could not expand distributed claims"),
        "{refused}"
    );
}

#[tokio::test]
async fn keys_are_read_again_for_unknown_ids_but_not_more_often_than_once_a_second_ac_23() {
    let issuer = TestIssuer::start(vec![RSA.key("old")]).await;
    let issuers = ready(vec![issuer.config()]).await;
    let old = RSA.token("RS256", "old", &issuer.claims());
    assert!(found(&issuers, &old).await.unwrap().is_some());
    *issuer.keys.lock() = vec![OTHER_RSA.key("new")];
    let new = OTHER_RSA.token("RS256", "new", &issuer.claims());
    assert!(found(&issuers, &new).await.unwrap().is_some());
    assert_eq!(issuer.requests("/keys"), 2);
    let began = std::time::Instant::now();
    for number in 0..50 {
        let id = format!("unknown-{number}");
        let token = RSA.token("RS256", &id, &issuer.claims());
        refusal(&issuers, &token).await;
    }
    let most = 2 + usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!(issuer.requests("/keys") <= most);
    assert!(found(&issuers, &new).await.unwrap().is_some());
    assert!(found(&issuers, &old).await.is_err());
}

#[tokio::test]
async fn an_issuer_is_asked_until_it_answers_rightly_ac_23() {
    let issuer = TestIssuer::start(vec![RSA.key("r")]).await;
    let token = RSA.token("RS256", "r", &issuer.claims());
    let url = &issuer.url;
    let wrong = [
        "nothing".to_owned(),
        "a".repeat(2 << 20),
        json!({"issuer": "https://other.example", "jwks_uri": format!("{url}/keys")}).to_string(),
        json!({"issuer": url, "jwks_uri": format!("http{}/keys", &url[5..])}).to_string(),
        json!({"issuer": url, "jwks_uri": "file:///etc/passwd"}).to_string(),
        json!({"issuer": url}).to_string(),
        json!({"issuer": url, "jwks_uri": format!("{url}{DOCUMENT}")}).to_string(),
    ];
    for document in wrong {
        *issuer.instead.lock() = Some(document);
        let issuers = started(vec![issuer.config()]);
        let before = issuer.requests(DOCUMENT);
        while issuer.requests(DOCUMENT) < before + 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let refused = refusal(&issuers, &token).await;
        assert_eq!(
            refused,
            "oidc: verify token: oidc: authenticator not initialized"
        );
        *issuer.instead.lock() = None;
        issuers.ready().await;
        assert!(found(&issuers, &token).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn the_document_may_be_elsewhere_and_move_and_trust_is_that_of_the_issuer_ac_18_ac_23() {
    let issuer = TestIssuer::start(vec![RSA.key("r")]).await;
    let mut config = issuer.config();
    config.issuer.discovery_url = Some(format!("{}/moved", issuer.url));
    let issuers = ready(vec![config]).await;
    let token = RSA.token("RS256", "r", &issuer.claims());
    assert!(found(&issuers, &token).await.unwrap().is_some());
    assert_eq!(
        (issuer.requests("/elsewhere"), issuer.requests(DOCUMENT)),
        (1, 0)
    );
    let other = TestIssuer::start(Vec::new()).await;
    let mut config = issuer.config();
    config.issuer.certificate_authority.clone_from(&other.pem);
    let untrusted = started(vec![config]);
    assert!(untrusted.replaced(&all(vec![other.config()])).await.is_ok());
}

#[tokio::test]
async fn a_new_configuration_replaces_the_old_one_when_all_issuers_are_ready_ac_23() {
    let [one, two, late] = [
        TestIssuer::start(vec![RSA.key("r")]).await,
        TestIssuer::start(vec![RSA.key("r")]).await,
        TestIssuer::start(vec![RSA.key("r")]).await,
    ];
    let issuers = ready(vec![one.config(), two.config()]).await;
    let token = |of: &TestIssuer| RSA.token("RS256", "r", &of.claims());
    let [of_one, of_two, of_late] = [token(&one), token(&two), token(&late)];
    let access = async |token: &str| {
        let known = issuers
            .look_up(token.as_bytes(), &[])
            .await
            .unwrap()
            .unwrap();
        WatchAccess::new(known.access)
    };
    let (kept, gone) = (access(&of_one).await, access(&of_two).await);
    *late.instead.lock() = Some("nothing".to_owned());
    let next = all(vec![one.config(), late.config()]);
    let refused = issuers.replaced(&next).await.unwrap_err();
    let why = "its issuers are not ready yet";
    assert_eq!(refused, NotUsed::NotYet(why.to_owned()));
    assert!(found(&issuers, &of_two).await.unwrap().is_some());
    assert_eq!(found(&issuers, &of_late).await, Ok(None));
    *late.instead.lock() = None;
    issuers.replaced(&next).await.unwrap();
    assert!(found(&issuers, &of_one).await.unwrap().is_some());
    assert!(found(&issuers, &of_late).await.unwrap().is_some());
    assert_eq!(found(&issuers, &of_two).await, Ok(None));
    assert!(!kept.access().is_revoked() && gone.access().is_revoked());
    assert_eq!(
        one.requests(DOCUMENT),
        1,
        "an issuer that stays is not asked again"
    );
    let mut wrong = next.clone();
    wrong.jwt[0].issuer.audiences.clear();
    issuers.replaced(&wrong).await.unwrap_err();
    let mut anonymous = next.clone();
    anonymous.anonymous = Some(AnonymousConfig::default());
    let refused = issuers.replaced(&anonymous).await.unwrap_err();
    let why = "anonymous: changed from initial configuration file";
    assert_eq!(refused, NotUsed::Faulty(why.to_owned()), "AC-16");
    issuers.replaced(&all(Vec::new())).await.unwrap();
    assert_eq!(found(&issuers, &of_one).await, Ok(None));
}
