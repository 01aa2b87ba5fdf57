//! Credentials that are forged, altered or meant for somebody else.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{Call, pod_spec};
use crate::token_issuers::plain;

const SECRETS: &str = "/api/v1/namespaces/own/secrets";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decoded(text: &str) -> Value {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
}

/// A token of the daemon's own issuer, in parts.
struct Parts {
    header: Value,
    claims: Value,
    signature: String,
}

impl Parts {
    fn of(token: &str) -> Parts {
        let parts: Vec<&str> = token.split('.').collect();
        Parts {
            header: decoded(parts[0]),
            claims: decoded(parts[1]),
            signature: parts[2].to_owned(),
        }
    }

    /// The text that is signed, with some members changed. `null` removes one.
    fn changed(&self, header: &Value, claims: &Value) -> String {
        let with = |base: &Value, change: &Value| {
            let mut object = base.as_object().unwrap().clone();
            for (name, value) in change.as_object().unwrap() {
                match value {
                    Value::Null => object.remove(name),
                    value => object.insert(name.clone(), value.clone()),
                };
            }
            encoded(Value::Object(object).to_string())
        };
        format!(
            "{}.{}",
            with(&self.header, header),
            with(&self.claims, claims)
        )
    }
}

/// The daemon's own key, and a token that it has made.
struct Forge {
    parts: Parts,
    key: KeyPair,
    pem: String,
}

impl Forge {
    fn of(cluster: &Cluster) -> Forge {
        let key_file = cluster.daemon.data().join("service-account.key");
        let pem = std::fs::read_to_string(key_file).unwrap();
        Forge {
            parts: Parts::of(&cluster.token),
            key: KeyPair::from_pem(&pem).unwrap(),
            pem,
        }
    }

    /// A token that is signed as the daemon signs.
    fn signed(&self, header: &Value, claims: &Value) -> String {
        let text = self.parts.changed(header, claims);
        let signature = plain(&self.key.sign(text.as_bytes()).unwrap());
        format!("{text}.{}", encoded(signature))
    }

    /// Tokens of no algorithm, and of the public key as a shared secret in each of its forms.
    fn without_a_key(&self) -> Vec<String> {
        let same = json!({});
        let mut forged = Vec::new();
        for none in ["none", "None", "NONE", "nOnE", ""] {
            let text = self.parts.changed(&json!({"alg": none}), &same);
            forged.push(format!("{text}."));
            forged.push(format!("{text}.{}", self.parts.signature));
            forged.push(text);
        }
        let public = self.key.subject_public_key_info();
        let public_pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64_STANDARD.encode(&public)
        );
        let secrets = [
            public_pem.as_bytes(),
            self.pem.as_bytes(),
            &public,
            b"",
            b"secret",
        ];
        for secret in secrets {
            let algorithms = [(hmac::HMAC_SHA256, "HS256"), (hmac::HMAC_SHA512, "HS512")];
            for (algorithm, name) in algorithms {
                let text = self.parts.changed(&json!({"alg": name}), &same);
                let mac = hmac::sign(&hmac::Key::new(algorithm, secret), text.as_bytes());
                forged.push(format!("{text}.{}", encoded(mac)));
            }
        }
        forged
    }

    /// Tokens of another key, which the header may name, and of other algorithms.
    fn of_another_key(&self) -> Vec<String> {
        let same = json!({});
        let own = KeyPair::generate().unwrap();
        let (x, y) = own.public_key_raw()[1..].split_at(32);
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": encoded(x), "y": encoded(y)});
        let headers = [
            json!({}),
            json!({"jwk": jwk}),
            json!({"jwk": jwk, "kid": null}),
            json!({"jku": "https://127.0.0.1:1/keys"}),
            json!({"x5u": "https://127.0.0.1:1/keys"}),
            json!({"x5c": [BASE64_STANDARD.encode(own.subject_public_key_info())]}),
            json!({"kid": "../../../../dev/null"}),
            json!({"kid": "/proc/self/environ"}),
            json!({"kid": "' OR 1=1 --"}),
            json!({"kid": ""}),
            json!({"kid": null}),
            json!({"kid": "x".repeat(8_000)}),
            json!({"kid": 7}),
            json!({"kid": ["a"]}),
            json!({"crit": ["exp"]}),
        ];
        let forged = headers.iter().map(|header| {
            let text = self.parts.changed(header, &same);
            let signature = plain(&own.sign(text.as_bytes()).unwrap());
            format!("{text}.{}", encoded(signature))
        });
        let algorithms = ["RS256", "PS256", "ES384", "ES512", "EdDSA", "ES256K"];
        let others = algorithms.map(|name| self.signed(&json!({"alg": name}), &same));
        forged.chain(others).collect()
    }

    /// A signature of nothing, of zeros, cut, of another text; and texts that are no tokens.
    fn damaged(&self, token: &str) -> Vec<String> {
        let same = json!({});
        let text = self.parts.changed(&same, &same);
        let (zeros, signature) = (encoded([0; 64]), &self.parts.signature);
        let longer = format!("{zeros}AA");
        let signatures = ["", "AA", &zeros, &signature[1..], &longer];
        let mut damaged: Vec<String> = signatures
            .iter()
            .map(|signature| format!("{text}.{signature}"))
            .collect();
        let default = json!({"sub": "system:serviceaccount:kube-system:default"});
        let other = self.parts.changed(&same, &default);
        damaged.extend([
            format!("{other}.{signature}"),
            "a.b.c".to_owned(),
            "..".to_owned(),
            format!("{token}."),
            format!("{token}.x"),
            format!(".{token}"),
            token.replace('.', ".."),
            token.to_uppercase(),
            format!("{token}="),
            format!("e30.{signature}"),
            "x".repeat(30_000),
        ]);
        damaged
    }

    /// Genuine signatures of claims that are not good now, or here.
    fn of_other_claims(&self) -> Vec<String> {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let claims = [
            json!({"exp": now - 3_600}),
            json!({"exp": 0}),
            json!({"exp": -1}),
            json!({"exp": "9999999999"}),
            json!({"nbf": now + 3_600}),
            json!({"iat": now + 3_600, "nbf": now + 3_600}),
            json!({"aud": ["somebody-else"]}),
            json!({"aud": "somebody-else"}),
            json!({"iss": "https://somebody.example.com"}),
            json!({"iss": ""}),
            json!({"kubernetes.io": null}),
            json!({"kubernetes.io": {"namespace": "own"}}),
            json!({"kubernetes.io": {
                "namespace": "own", "serviceaccount": {"name": "tenant", "uid": "another"},
            }}),
        ];
        let same = json!({});
        claims
            .iter()
            .map(|claims| self.signed(&same, claims))
            .collect()
    }
}

#[tokio::test]
async fn forged_tokens_of_accounts_are_nobodys_api_278() {
    let cluster = Cluster::start(&[]).await;
    let forge = Forge::of(&cluster);
    let get = async |token: &str| {
        let client = cluster.daemon.target().with_token(token).client();
        let answer = client.attempt(Call::get(SECRETS)).await;
        answer.map_or(0, |answer| answer.status.as_u16())
    };
    // The test signs as the daemon does.
    let same = json!({});
    assert_eq!(get(&forge.signed(&same, &same)).await, 200);
    let forged = [
        forge.without_a_key(),
        forge.of_another_key(),
        forge.damaged(&cluster.token),
        forge.of_other_claims(),
    ]
    .concat();
    for token in &forged {
        let decoded = |part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        let shown: Vec<Vec<u8>> = token.split('.').take(2).map(decoded).collect();
        let shown = String::from_utf8_lossy(&shown.concat()).into_owned();
        let code = get(token).await;
        assert!(matches!(code, 401 | 0), "{code}: {shown}");
    }
    // The account is that of the claims of Kubernetes, whatever the subject says.
    let default = json!({"sub": "system:serviceaccount:kube-system:default"});
    let token = forge.signed(&same, &default);
    let client = cluster.daemon.target().with_token(&token).client();
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = client.call(Call::post(who, &json!({}))).await.expect(201);
    let user = &review["status"]["userInfo"]["username"];
    assert_eq!(user, "system:serviceaccount:own:tenant");
    // None of the others is in the log, and the genuine one still works.
    let log = cluster.daemon.stderr();
    for token in forged.iter().filter(|token| token.len() > 200) {
        assert!(!log.contains(token), "{token}");
        let signature = token.rsplit('.').next().unwrap_or_default();
        assert!(signature.len() < 40 || !log.contains(signature), "{token}");
    }
    assert_eq!(get(&cluster.token).await, 200);
}

/// Tokens that a tenant may ask for are those of the own accounts, for pods that run as them.
#[tokio::test]
async fn tokens_are_made_for_own_accounts_and_their_pods_alone_api_226() {
    let cluster = Cluster::start(&[]).await;
    let (admin, tenant) = (&cluster.admin, &cluster.tenant);
    let mut uids = Vec::new();
    for (namespace, account) in [("own", "builder"), ("other", "builder")] {
        let mut spec = pod_spec();
        spec["serviceAccountName"] = account.into();
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = admin.call(Call::post(&path, &pod)).await.expect(201);
        uids.push(pod["metadata"]["uid"].clone());
    }
    let token = |namespace: &str, account: &str| {
        format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token")
    };
    let bound = |name: &str, uid: &Value| {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid});
        json!({"spec": {"audiences": [], "boundObjectRef": object}})
    };
    let call = Call::post(&token("own", "builder"), &bound("p", &uids[0]));
    tenant.call(call).await.expect(201);
    let plain = json!({"spec": {"audiences": []}});
    for (path, body, codes) in [
        (token("other", "builder"), &plain, &[403][..]),
        (token("kube-system", "default"), &plain, &[403]),
        (
            token("own", "../../other/serviceaccounts/builder"),
            &plain,
            &[403, 404, 405],
        ),
        (token("own", "absent"), &plain, &[404]),
        // A pod of another namespace, and one that runs as another account.
        (token("own", "builder"), &bound("p", &uids[1]), &[409]),
        (token("own", "tenant"), &bound("p", &uids[0]), &[400]),
        (
            token("own", "builder"),
            &bound("../other/p", &uids[1]),
            &[400, 404, 422],
        ),
    ] {
        for client in [tenant, &cluster.nobody] {
            let answer = client.call(Call::post(&path, body)).await;
            let code = answer.status.as_u16();
            assert!(codes.contains(&code) || code == 403, "{path}: {code}");
            assert!(answer.json()["status"]["token"].is_null(), "{path}");
        }
    }
    // The account that a body names is not the one of the path.
    let forged = json!({
        "metadata": {"name": "builder", "namespace": "other"}, "spec": {"audiences": []},
    });
    let answer = tenant
        .call(Call::post(&token("own", "builder"), &forged))
        .await;
    assert!(
        matches!(answer.status.as_u16(), 400 | 422),
        "{}",
        answer.text()
    );
}

/// Secrets that claim to belong to an account hold no token that the daemon has not made.
#[tokio::test]
async fn a_secret_of_ones_own_making_is_no_credential_api_278() {
    let cluster = Cluster::start(&["--enable-bootstrap-token-auth"]).await;
    let forged = "abcdef.0123456789abcdef";
    let secret = json!({
        "metadata": {
            "name": "bootstrap-token-abcdef",
            "annotations": {"kubernetes.io/service-account.name": "tenant"},
        },
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:masters",
        },
    });
    let answer = cluster.tenant.call(Call::post(SECRETS, &secret)).await;
    assert!(
        answer.status == 201 || answer.status == 422,
        "{}",
        answer.text()
    );
    let of_account = json!({
        "metadata": {
            "name": "of-account",
            "annotations": {"kubernetes.io/service-account.name": "builder"},
        },
        "type": "kubernetes.io/service-account-token",
        "stringData": {"token": "my-own-token"},
    });
    let call = Call::post(SECRETS, &of_account);
    cluster.tenant.call(call).await.expect(201);
    for token in [forged, "my-own-token"] {
        let client = cluster.daemon.target().with_token(token).client();
        client.call(Call::get("/api")).await.expect(401);
    }
}
