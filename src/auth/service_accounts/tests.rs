//! Tests of keys, of the format of tokens and of their claims.

use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::RsaKeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::super::compact_token::CompactToken;
use super::claims::{Binding, Claims, NewToken, Reference};
use super::issuer::{ServiceAccountConfig, load};
use super::jwt::{self, TOKEN_BYTES_MAX};
use super::keys::{Algorithm, SigningKey};
use super::tokens::ServiceAccountTokens;
use crate::auth::{Authenticator, Credentials, Revocations, Unauthorized};
use crate::clock;

fn reference(name: &str) -> Reference {
    Reference {
        name: name.to_owned(),
        uid: format!("u-{name}"),
    }
}

fn new_token(now: i64) -> NewToken {
    NewToken {
        issuer: "https://a.example".to_owned(),
        audiences: vec!["https://a.example".to_owned()],
        namespace: "d".to_owned(),
        account: reference("a"),
        binding: Binding {
            pod: Some(reference("p")),
            node: Some(reference("n")),
            secret: None,
        },
        now,
        seconds: 600,
        warn_after: Some(300),
        id: "i".to_owned(),
    }
}

fn config(data_dir: &std::path::Path) -> ServiceAccountConfig {
    ServiceAccountConfig {
        issuers: vec!["https://a.example".to_owned()],
        audiences: vec!["https://a.example".to_owned()],
        data_dir: data_dir.to_owned(),
        ..ServiceAccountConfig::default()
    }
}

fn asked(tokens: &ServiceAccountTokens, token: &str) -> Result<Option<String>, Unauthorized> {
    let known = tokens.authenticate(&Credentials {
        bearer: Some(token.as_bytes()),
        ..Credentials::default()
    })?;
    Ok(known.map(|known| known.user.name.clone()))
}

#[test]
fn claims_are_read_as_they_were_written_api_227() {
    let written = new_token(1000).claims();
    let expected = json!({
        "aud": ["https://a.example"], "exp": 1600, "iat": 1000, "iss": "https://a.example",
        "jti": "i", "nbf": 1000, "sub": "system:serviceaccount:d:a",
        "kubernetes.io": {
            "namespace": "d", "serviceaccount": {"name": "a", "uid": "u-a"},
            "pod": {"name": "p", "uid": "u-p"}, "node": {"name": "n", "uid": "u-n"},
            "warnafter": 1300,
        },
    });
    assert_eq!(Value::from(written.clone()), expected);
    let claims = Claims::of(&written).unwrap();
    assert_eq!(claims.binding, new_token(1000).binding);
    assert_eq!(claims.times.warn_after, Some(1300));
    let user = claims.user();
    assert_eq!(user.name, "system:serviceaccount:d:a");
    assert_eq!(user.uid, "u-a");
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:d",
        "system:authenticated",
    ];
    assert_eq!(user.groups, groups);
    let extra = json!({
        "authentication.kubernetes.io/credential-id": ["JTI=i"],
        "authentication.kubernetes.io/node-name": ["n"],
        "authentication.kubernetes.io/node-uid": ["u-n"],
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": ["u-p"],
    });
    assert_eq!(json!(user.extra), extra);
}

#[test]
fn times_count_with_a_minute_of_leeway_api_278() {
    let claims = Claims::of(&new_token(1000).claims()).unwrap();
    for (now, told) in [
        (1000, Ok(())),
        (940, Ok(())),
        (939, Err("service account token is not valid yet")),
        (1660, Ok(())),
        (1661, Err("service account token has expired")),
    ] {
        assert_eq!(claims.check_times(now), told, "{now}");
    }
}

#[test]
fn claims_of_a_token_in_a_secret_must_be_whole_api_278() {
    let whole = json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:d:a",
        "kubernetes.io/serviceaccount/namespace": "d",
        "kubernetes.io/serviceaccount/secret.name": "s",
        "kubernetes.io/serviceaccount/service-account.name": "a",
        "kubernetes.io/serviceaccount/service-account.uid": "u",
    });
    let told = |name: &str, value: Value| {
        let mut claims = whole.as_object().unwrap().clone();
        claims.insert(name.to_owned(), value);
        Claims::of(&claims).map(|claims| claims.user().extra.len())
    };
    assert_eq!(told("x", Value::Null), Ok(0));
    for (name, value, problem) in [
        ("sub", Value::Null, "sub claim is missing"),
        (
            "sub",
            "system:serviceaccount:d:b".into(),
            "sub claim is invalid",
        ),
        (
            "kubernetes.io/serviceaccount/secret.name",
            "".into(),
            "secretName claim is missing",
        ),
    ] {
        assert_eq!(told(name, value), Err(problem.to_owned()));
    }
}

/// Returns a new RSA key as PEM.
fn rsa() -> String {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> =
        aws_lc_rs::encoding::AsDer::as_der(&pair).unwrap();
    let text = STANDARD.encode(der.as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

#[test]
fn keys_of_both_kinds_sign_what_they_alone_verify() {
    let rsa = SigningKey::of_pem(rsa().as_bytes()).unwrap();
    let curve = SigningKey::of_pem(SigningKey::generated().unwrap().as_bytes()).unwrap();
    assert_eq!(rsa.algorithm(), Algorithm::Rs256);
    assert_eq!(curve.algorithm(), Algorithm::Es256);
    for (key, other) in [(&rsa, &curve), (&curve, &rsa)] {
        let token = jwt::sign(key, &new_token(1000).claims()).unwrap();
        let compact = CompactToken::parse(token.as_bytes(), jwt::LIMITS).unwrap();
        assert_eq!(compact.key_id, key.id);
        assert!(jwt::is_signed_by(&compact, &key.public().unwrap()));
        assert!(!jwt::is_signed_by(&compact, &other.public().unwrap()));
        let jwk = key.public().unwrap().jwk;
        assert_eq!(jwk["alg"], key.algorithm().name());
        assert_eq!(jwk["kid"], *key.id);
    }
    let told = SigningKey::of_pem(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
    assert!(told.err().unwrap().contains("no private RSA key"));
}

#[test]
fn a_token_is_good_as_it_was_signed_and_in_no_other_form_api_279() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = ServiceAccountTokens::load(config(folder.path()), Revocations::default());
    let tokens = tokens.unwrap();
    let now = clock::now().as_second();
    let good = tokens.sign(&new_token(now)).unwrap();
    let name = Ok(Some("system:serviceaccount:d:a".to_owned()));
    assert_eq!(asked(&tokens, &good), name);
    // The second call finds the token in memory.
    assert_eq!(asked(&tokens, &good), name);
    let claims = good.split('.').nth(1).unwrap();
    let signature = good.split('.').nth(2).unwrap();
    let headed = |header: Value, signature: &str| {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        format!("{header}.{claims}.{signature}")
    };
    for bad in [
        headed(json!({"alg": "none"}), ""),
        headed(json!({"alg": "HS256"}), signature),
        headed(json!({"alg": "RS256"}), signature),
        headed(json!({"alg": "ES256", "kid": "x"}), signature),
        headed(json!({}), signature),
    ] {
        let refused = "go-jose/go-jose: error in cryptographic primitive".to_owned();
        assert_eq!(
            asked(&tokens, &bad),
            Err(Unauthorized::ServiceAccount(refused))
        );
    }
    // Tokens of other issuers, which other authenticators may know.
    for other in [
        "a.b.c".to_owned(),
        format!("{good}.x"),
        headed(json!({"alg": "ES256", "crit": ["x"]}), signature),
        format!("{good}{}", "A".repeat(TOKEN_BYTES_MAX)),
    ] {
        assert_eq!(asked(&tokens, &other), Ok(None));
    }
    let old = tokens.sign(&new_token(now - 1000)).unwrap();
    let expired = "service account token has expired".to_owned();
    assert_eq!(
        asked(&tokens, &old),
        Err(Unauthorized::ServiceAccount(expired))
    );
    let mut long = new_token(now);
    long.audiences = vec!["a".repeat(TOKEN_BYTES_MAX)];
    tokens.sign(&long).unwrap_err();
}

/// A token in memory is found by its end, and recognised by all of it.
#[test]
fn a_token_in_memory_is_recognised_by_all_of_its_text_api_281() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = ServiceAccountTokens::load(config(folder.path()), Revocations::default());
    let tokens = tokens.unwrap();
    let mut long = new_token(clock::now().as_second());
    long.audiences.push("a".repeat(6000));
    for new in [new_token(clock::now().as_second()), long] {
        let good = tokens.sign(&new).unwrap();
        let name = Ok(Some("system:serviceaccount:d:a".to_owned()));
        assert_eq!(asked(&tokens, &good), name);
        assert_eq!(asked(&tokens, &good), name);
        for at in (0..good.len() - 1).step_by(7) {
            let mut changed = good.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_ne!(asked(&tokens, &changed), name, "{at}");
        }
        assert_eq!(asked(&tokens, &good), name);
    }
}

#[test]
fn the_daemon_s_own_key_is_made_once_and_another_one_in_its_place_counts_api_227() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service-account.key");
    let tokens = ServiceAccountTokens::load(config(folder.path()), Revocations::default());
    let tokens = tokens.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let id = |config: &ServiceAccountConfig| load(config).unwrap().signing.unwrap().id;
    assert_eq!(id(&config(folder.path())), id(&config(folder.path())));
    let good = tokens.sign(&new_token(clock::now().as_second())).unwrap();
    assert!(asked(&tokens, &good).is_ok());
    assert!(!tokens.reload().unwrap().is_changed);
    std::fs::write(&path, "nonsense").unwrap();
    tokens.reload().unwrap_err();
    assert!(asked(&tokens, &good).is_ok());
    std::fs::write(&path, rsa()).unwrap();
    assert!(tokens.reload().unwrap().is_changed);
    asked(&tokens, &good).unwrap_err();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o660)).unwrap();
    let told = tokens.reload().unwrap_err().to_string();
    assert!(told.contains("can write it"), "{told}");
}

#[test]
fn without_an_issuer_no_key_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let config = ServiceAccountConfig {
        issuers: Vec::new(),
        ..config(folder.path())
    };
    assert!(load(&config).unwrap().signing.is_none());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A limit that can't be read is not taken for the absence of a limit.
#[test]
fn claims_of_a_wrong_type_are_not_taken_for_absent_ones_api_278() {
    let whole = Value::Object(new_token(1000).claims());
    assert!(Claims::of(whole.as_object().unwrap()).is_ok());
    for (pointer, name) in [
        ("", "exp"),
        ("", "nbf"),
        ("", "iat"),
        ("", "iss"),
        ("", "sub"),
        ("", "aud"),
        ("", "jti"),
        ("", "kubernetes.io"),
        ("/kubernetes.io", "namespace"),
        ("/kubernetes.io", "serviceaccount"),
        ("/kubernetes.io", "pod"),
        ("/kubernetes.io", "node"),
        ("/kubernetes.io", "secret"),
        ("/kubernetes.io", "warnafter"),
        ("/kubernetes.io/serviceaccount", "name"),
        ("/kubernetes.io/serviceaccount", "uid"),
    ] {
        let mut changed = whole.clone();
        let members = changed.pointer_mut(pointer).unwrap();
        members[name] = serde_json::json!([true]);
        let refused = Claims::of(changed.as_object().unwrap());
        let expected = format!("the claim {name} has a wrong type");
        assert_eq!(refused, Err(expected), "{pointer}/{name}");
    }
    let mut changed = whole;
    changed["exp"] = "9999999999".into();
    assert!(Claims::of(changed.as_object().unwrap()).is_err());
}
