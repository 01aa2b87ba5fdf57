//! Service account tokens: issued on request, accepted as their users, and valid as long as the
//! objects that they name exist.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use x509_parser::asn1_rs::{Any, FromDer, Tag};

use crate::harness::{Call, Client, Daemon, Kubectl};

pub const ISSUER: &str = "https://taffrail.example";
pub const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/a/token";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// The label of the day on which the token in a Secret was used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A daemon that makes tokens, with the service account `a`.
pub async fn daemon(further: &[&str]) -> Daemon {
    let issuer = format!("--service-account-issuer={ISSUER}");
    let daemon = Daemon::with(&[&[issuer.as_str()], further].concat()).await;
    make(&daemon.client(), ACCOUNTS, "a", &json!({})).await;
    daemon
}

/// Makes an object with a name and these further members. Tells its uid.
pub async fn make(client: &Client, path: &str, name: &str, members: &Value) -> String {
    let mut body = members.clone();
    body["metadata"]["name"] = name.into();
    let made = client.call(Call::post(path, &body)).await.expect(201);
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub fn pod() -> Value {
    json!({"spec": {
        "serviceAccountName": "a", "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
    }})
}

async fn token(client: &Client, spec: &Value) -> String {
    let asked = Call::post(TOKEN, &json!({ "spec": spec }));
    let answer = client.call(asked).await.expect(201);
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn bound(client: &Client, kind: &str, name: &str) -> String {
    let reference = json!({"kind": kind, "apiVersion": "v1", "name": name});
    token(client, &json!({ "boundObjectRef": reference })).await
}

async fn review(client: &Client, token: &str) -> Value {
    let asked = Call::post(REVIEWS, &json!({"spec": {"token": token}}));
    client.call(asked).await.expect(201)["status"].take()
}

/// Waits until the token is refused. The caches that are asked are behind by moments.
async fn refused(daemon: &Daemon, token: &str) {
    let client = daemon.target().with_token(token).client();
    for _ in 0..100 {
        let answer = client.call(Call::get("/api")).await;
        if answer.status.as_u16() == 401 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the token is still good");
}

/// API-144, API-226: nothing of a token is stored, so a dry run answers one that is good.
#[tokio::test]
async fn a_dry_run_gets_a_token_and_writes_nothing_api_144_api_226() {
    let daemon = daemon(&[]).await;
    let client = daemon.client();
    let state = async || {
        let mut lists = Vec::new();
        for path in [ACCOUNTS, SECRETS] {
            lists.push(client.call(Call::get(path)).await.expect(200)["items"].take());
        }
        lists
    };
    let before = state().await;
    let asked = Call::post(&format!("{TOKEN}?dryRun=All"), &json!({}));
    let answer = client.call(asked).await.expect(201);
    let token = answer["status"]["token"].as_str().unwrap();
    assert_eq!(review(&client, token).await["authenticated"], true);
    assert_eq!(state().await, before);
    let asked = Call::post(&format!("{TOKEN}?dryRun=x"), &json!({}));
    let said = client.call(asked).await.refusal(422, "Invalid");
    assert_eq!(said["details"]["causes"][0]["field"], "dryRun");
}

#[tokio::test]
async fn a_token_of_a_pod_is_good_until_the_pod_is_deleted_api_226_281() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    let node = make(&admin, "/api/v1/nodes", "n", &json!({})).await;
    let uid = make(&admin, PODS, "p", &pod()).await;
    let token = bound(&admin, "Pod", "p").await;
    let client = daemon.target().with_token(&token).client();
    let who = client.call(Call::post(WHO, &json!({}))).await.expect(201);
    let user = &who["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:a");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default"];
    assert_eq!(
        user["groups"],
        json!([groups[0], groups[1], "system:authenticated"])
    );
    let extra = |name| &user["extra"][format!("authentication.kubernetes.io/{name}")][0];
    assert_eq!(extra("pod-name"), "p");
    assert_eq!(*extra("pod-uid"), *uid);
    assert_eq!(extra("node-name"), "n");
    assert_eq!(*extra("node-uid"), *node);
    assert!(extra("credential-id").as_str().unwrap().starts_with("JTI="));

    let told = review(&admin, &token).await;
    assert_eq!(told["authenticated"], true);
    assert_eq!(told["audiences"], json!([ISSUER]));
    client.call(Call::get(PODS)).await.refusal(403, "Forbidden");

    let gone = Call::delete(&format!("{PODS}/p?gracePeriodSeconds=0"));
    admin.call(gone).await.expect(200);
    refused(&daemon, &token).await;
    let error = "[invalid bearer token, service account token has been invalidated]";
    assert_eq!(
        review(&admin, &token).await,
        json!({"user": {}, "error": error})
    );
    let again = make(&admin, PODS, "p", &pod()).await;
    let error = format!(
        "[invalid bearer token, pod UID ({again}) does not match service account pod ref claim \
         ({uid})]"
    );
    assert_eq!(review(&admin, &token).await["error"], *error);
    assert!(!daemon.stderr().contains(&token), "the log holds a token");
}

#[tokio::test]
async fn tokens_of_secrets_nodes_and_accounts_end_with_them_api_278() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    make(&admin, SECRETS, "s", &json!({})).await;
    make(&admin, "/api/v1/nodes", "n", &json!({})).await;
    for (kind, name, path) in [
        ("Secret", "s", format!("{SECRETS}/s")),
        ("Node", "n", "/api/v1/nodes/n".to_owned()),
    ] {
        let token = bound(&admin, kind, name).await;
        assert_eq!(review(&admin, &token).await["authenticated"], true);
        admin.call(Call::delete(&path)).await.expect(200);
        refused(&daemon, &token).await;
    }
    let token = token(&admin, &json!({})).await;
    let path = format!("{ACCOUNTS}/a");
    admin.call(Call::delete(&path)).await.expect(200);
    refused(&daemon, &token).await;
    let error = "[invalid bearer token, serviceaccounts \"a\" not found]";
    assert_eq!(review(&admin, &token).await["error"], error);
}

#[tokio::test]
async fn a_token_is_for_its_audiences_alone_api_295() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    let token = token(&admin, &json!({"audiences": ["x", "y"]})).await;
    let error = format!(
        "[invalid bearer token, token audiences [\"x\" \"y\"] is invalid for the target audiences \
         [\"{ISSUER}\"]]"
    );
    assert_eq!(
        review(&admin, &token).await,
        json!({"user": {}, "error": error})
    );
    let spec = json!({"spec": {"token": token, "audiences": ["y", "z"]}});
    let told = admin.call(Call::post(REVIEWS, &spec)).await.expect(201);
    assert_eq!(told["status"]["audiences"], json!(["y"]));
    let own = json!({"spec": {"token": daemon.token(), "audiences": ["y", ISSUER]}});
    let told = admin.call(Call::post(REVIEWS, &own)).await.expect(201);
    assert_eq!(told["status"]["audiences"], json!([ISSUER]));
    let client = daemon.target().with_token(&token).client();
    client
        .call(Call::get("/api"))
        .await
        .refusal(401, "Unauthorized");
}

#[tokio::test]
async fn requests_for_tokens_are_refused_in_the_words_of_kube_apiserver_api_226() {
    let daemon = daemon(&["--service-account-max-token-expiration=2h"]).await;
    let admin = daemon.client();
    make(&admin, ACCOUNTS, "b", &json!({})).await;
    let mut other = pod();
    other["spec"]["serviceAccountName"] = "b".into();
    make(&admin, PODS, "other", &other).await;
    let reference = |reference: Value| json!({"spec": {"boundObjectRef": reference}});
    let mismatch = reference(json!({"kind": "Pod", "apiVersion": "v1", "name": "other"}));
    for (body, code, message) in [
        (
            json!({"spec": {"expirationSeconds": 7}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid \
             value: 7: may not specify a duration less than 10 minutes",
        ),
        (
            json!({"metadata": {"name": "b"}}),
            422,
            "TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \
             \"b\": must match the service account name if specified",
        ),
        (
            mismatch,
            400,
            "cannot bind token for serviceaccount \"a\" to pod running with different \
             serviceaccount name.",
        ),
        (
            reference(json!({"kind": "Pod", "apiVersion": "v1", "name": "none"})),
            404,
            "pods \"none\" not found",
        ),
        (
            reference(json!({"kind": "Pod", "apiVersion": "v1"})),
            400,
            "Name parameter required.",
        ),
        (
            reference(json!({"kind": "Deployment", "apiVersion": "apps/v1", "name": "p"})),
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        // D-65
        (
            json!({"spec": {"audiences": ["a".repeat(16 << 10)]}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.audiences: Forbidden: the \
             token would have more than 16384 bytes; ask for fewer audiences",
        ),
    ] {
        let told = admin.call(Call::post(TOKEN, &body)).await.expect(code);
        assert_eq!(told["message"], message);
    }
    let long = json!({"spec": {"expirationSeconds": 9000}});
    let answer = admin.call(Call::post(TOKEN, &long)).await;
    let warning = "requested expiration of 9000 seconds shortened to 7200 seconds";
    assert!(answer.header("warning").unwrap().contains(warning));
    assert_eq!(answer.expect(201)["spec"]["expirationSeconds"], 7200);
}

#[tokio::test]
async fn others_find_the_keys_of_the_issuer_and_without_one_nothing_is_served_api_227() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    let token = token(&admin, &json!({})).await;
    let client = daemon.target().with_token(&token).client();
    let path = "/.well-known/openid-configuration";
    let answer = client.call(Call::get(path)).await;
    let cached = answer.header("cache-control").unwrap().to_owned();
    assert_eq!(cached, "public, max-age=3600");
    let told = answer.expect(200);
    assert_eq!(told["issuer"], ISSUER);
    let uri = told["jwks_uri"].as_str().unwrap();
    assert!(uri.ends_with("/openid/v1/jwks"), "{uri}");
    let answer = client.call(Call::get("/openid/v1/jwks")).await;
    let content_type = answer.header("content-type").unwrap().to_owned();
    assert_eq!(content_type, "application/jwk-set+json");
    let keys = answer.expect(200);
    assert_eq!(keys["keys"][0]["alg"], "ES256");
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap());
    let header: Value = serde_json::from_slice(&header.unwrap()).unwrap();
    assert_eq!(header["kid"], keys["keys"][0]["kid"]);

    let without = Daemon::with(&["--service-account-issuer="]).await;
    let admin = without.client();
    make(&admin, ACCOUNTS, "a", &json!({})).await;
    for call in [
        Call::post(TOKEN, &json!({})),
        Call::get(path),
        Call::get("/openid/v1/jwks"),
    ] {
        assert_eq!(admin.call(call).await.status.as_u16(), 404);
    }
    let listed = admin.call(Call::get("/api/v1")).await.text();
    assert!(!listed.contains("serviceaccounts/token"));
    assert!(!without.data().join("service-account.key").exists());
}

/// Signs claims with the key in a file, as kube-controller-manager does for Secrets.
pub fn signed(key: &Path, claims: &Value) -> String {
    let der = PrivatePkcs8KeyDer::from_pem_file(key).unwrap();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der()).unwrap();
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "ES256"}).to_string());
    let text = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// The claims of the token in the Secret `s` of the account `a`, which has this uid.
pub fn claims_of_secret(uid: &Value) -> Value {
    json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:a",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "s",
        "kubernetes.io/serviceaccount/service-account.name": "a",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
    })
}

#[tokio::test]
async fn a_token_in_a_secret_is_good_as_long_as_it_lies_there_api_278() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    let account = admin.call(Call::get(&format!("{ACCOUNTS}/a"))).await;
    let uid = account.expect(200)["metadata"]["uid"].take();
    let claims = claims_of_secret(&uid);
    let token = signed(&daemon.data().join("service-account.key"), &claims);
    let error = "[invalid bearer token, Token has been invalidated]";
    assert_eq!(review(&admin, &token).await["error"], error);
    let secret = |data: &str| {
        json!({
            "metadata": {"annotations": {"kubernetes.io/service-account.name": "a"}},
            "type": "kubernetes.io/service-account-token",
            "data": {"token": STANDARD.encode(data)},
        })
    };
    make(&admin, SECRETS, "s", &secret("other")).await;
    let error = "[invalid bearer token, Token does not match server's copy]";
    assert_eq!(review(&admin, &token).await["error"], error);
    admin
        .call(Call::delete(&format!("{SECRETS}/s")))
        .await
        .expect(200);
    make(&admin, SECRETS, "s", &secret(&token)).await;
    let client = daemon.target().with_token(&token).client();
    let who = client.call(Call::post(WHO, &json!({}))).await.expect(201);
    let name = &who["status"]["userInfo"]["username"];
    assert_eq!(name, "system:serviceaccount:default:a");
    let used = admin.call(Call::get(&format!("{SECRETS}/s"))).await;
    let used = used.expect(200)["metadata"]["labels"][LAST_USED].take();
    assert_eq!(used.as_str().unwrap().len(), "2026-11-25".len());
    admin
        .call(Call::delete(&format!("{SECRETS}/s")))
        .await
        .expect(200);
    refused(&daemon, &token).await;
}

#[tokio::test]
async fn kubectl_creates_tokens_that_work_api_226() {
    let daemon = daemon(&[]).await;
    make(&daemon.client(), PODS, "p", &pod()).await;
    for version in ["1.32", "1.36"] {
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        for further in [
            &["--duration=20m"][..],
            &["--bound-object-kind=Pod", "--bound-object-name=p"],
        ] {
            let arguments = [&["create", "token", "a"], further].concat();
            let token = kubectl.ok(&arguments).await;
            let client = daemon.target().with_token(token.trim()).client();
            client.call(Call::get("/api")).await.expect(200);
        }
        kubectl.fails(&["create", "token", "nobody"]).await;
    }
}

/// The last part of a key in PKCS #8: the key in the form of its algorithm.
fn inner(pkcs8: &[u8]) -> &[u8] {
    let (_, whole) = Any::from_der(pkcs8).unwrap();
    let mut rest = whole.data;
    while let Ok((after, part)) = Any::from_der(rest) {
        if part.tag() == Tag::OctetString {
            return part.data;
        }
        rest = after;
    }
    panic!("there is no key in it");
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// Keys of RSA and of curves in the forms that tools write: PKCS #1, SEC 1 and PKCS #8, and public.
#[tokio::test]
async fn keys_are_read_in_the_forms_that_tools_write_api_227() {
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let public_rsa = AsDer::<PublicKeyX509Der<'_>>::as_der(rsa.public_key()).unwrap();
    let rsa = AsDer::<Pkcs8V1Der<'_>>::as_der(&rsa).unwrap();
    let (algorithm, random) = (&ECDSA_P384_SHA384_FIXED_SIGNING, SystemRandom::new());
    let curve = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, curve.as_ref()).unwrap();
    let public_curve = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    let sec1 = AsDer::<EcPrivateKeyRfc5915Der<'_>>::as_der(&pair.private_key()).unwrap();
    let (rsa, curve) = (rsa.as_ref(), curve.as_ref());
    for (private, public, algorithm) in [
        (
            pem("RSA PRIVATE KEY", inner(rsa)),
            public_rsa.as_ref(),
            "RS256",
        ),
        (pem("PRIVATE KEY", rsa), public_rsa.as_ref(), "RS256"),
        (
            pem("EC PRIVATE KEY", sec1.as_ref()),
            public_curve.as_ref(),
            "ES384",
        ),
        (pem("PRIVATE KEY", curve), public_curve.as_ref(), "ES384"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (signing, verifying) = (folder.path().join("key"), folder.path().join("public"));
        std::fs::write(&signing, &private).unwrap();
        std::fs::write(&verifying, pem("PUBLIC KEY", public)).unwrap();
        for file in [&signing, &verifying] {
            std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
        }
        let signing = format!("--service-account-signing-key-file={}", signing.display());
        let verifying = format!("--service-account-key-file={}", verifying.display());
        let daemon = daemon(&[&signing, &verifying]).await;
        let admin = daemon.client();
        let token = token(&admin, &json!({})).await;
        assert_eq!(review(&admin, &token).await["authenticated"], true);
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap());
        let header: Value = serde_json::from_slice(&header.unwrap()).unwrap();
        assert_eq!(header["alg"], algorithm);
        let keys = admin.call(Call::get("/openid/v1/jwks")).await.expect(200);
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
        assert_eq!(keys["keys"][0]["kid"], header["kid"]);
        assert!(!daemon.data().join("service-account.key").exists());
    }
}

/// API-261: what kube-apiserver answers, before it looks for the account or at the request.
#[tokio::test]
async fn no_token_is_made_in_a_namespace_that_ends_api_226() {
    let daemon = daemon(&[]).await;
    let admin = daemon.client();
    make(&admin, "/api/v1/namespaces", "n", &json!({})).await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    let kept = json!({"metadata": {"finalizers": ["a.b/c"]}});
    make(&admin, accounts, "kept", &kept).await;
    admin
        .call(Call::delete("/api/v1/namespaces/n"))
        .await
        .expect(200);
    for name in ["kept", "none"] {
        let path = format!("{accounts}/{name}/token");
        let asked = json!({"metadata": {"name": "x"}, "spec": {"expirationSeconds": 1}});
        let refusal = admin.call(Call::post(&path, &asked)).await;
        let message = format!(
            "serviceaccounts \"{name}\" is forbidden: unable to create new content in namespace n \
             because it is being terminated"
        );
        let cause = json!({
            "reason": "NamespaceTerminating", "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        });
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "code": 403,
            "details": {"name": name, "kind": "serviceaccounts", "causes": [cause]},
        });
        assert_eq!(refusal.expect(403), expected);
    }
    let path = "/api/v1/namespaces/absent/serviceaccounts/a/token";
    let refusal = admin.call(Call::post(path, &json!({}))).await.expect(404);
    assert_eq!(refusal["message"], "namespaces \"absent\" not found");
}

/// The ConfigMaps in which others read what the server knows, as kube-apiserver makes them.
#[tokio::test]
async fn the_server_tells_of_itself_in_config_maps_api_262() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.crt");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    std::fs::write(&authority, certificate.pem().replace("\r\n", "\n")).unwrap();
    std::fs::set_permissions(&authority, Permissions::from_mode(0o600)).unwrap();
    let with_authority = format!("--client-ca-file={}", authority.display());
    let daemon = daemon(&[&with_authority]).await;
    let admin = daemon.client();
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let data = async |name: &str| {
        let answer = admin.call(Call::get(&format!("{maps}/{name}"))).await;
        (answer.status == 200).then(|| answer.json()["data"].take())
    };
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let since = data(tracking).await.unwrap();
    assert_eq!(since.as_object().unwrap().len(), 1);
    assert_eq!(since["since"].as_str().unwrap().len(), "2026-11-25".len());
    let known = data("extension-apiserver-authentication").await.unwrap();
    let pem = std::fs::read_to_string(&authority).unwrap();
    let known = known["client-ca-file"].as_str().unwrap();
    // The daemon's own authority signs certificates of clients, too.
    assert!(
        known.ends_with(&pem) && known.matches("BEGIN").count() == 2,
        "{known}"
    );

    let gone = Call::delete(&format!("{maps}/{tracking}"));
    admin.call(gone).await.expect(200);
    let patience = Instant::now() + Duration::from_secs(30);
    while data(tracking).await.as_ref() != Some(&since) {
        assert!(Instant::now() < patience, "it is not made anew");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let without = Daemon::with(&["--service-account-issuer="]).await;
    let listed = without.client().call(Call::get(maps)).await.expect(200);
    let items = listed["items"].as_array().unwrap().iter();
    let names: Vec<&Value> = items.map(|item| &item["metadata"]["name"]).collect();
    // It always says how extensions know it.
    assert_eq!(names, ["extension-apiserver-authentication"]);
}
