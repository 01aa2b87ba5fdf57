//! Client certificates of every kind that openssl and other tools make. None of them breaks a
//! handshake whose client has the key, because the signature is verified with the request
//! (API-277).

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SigningKey, date_time_ymd,
};
use serde_json::json;

use crate::harness::{Call, Daemon, Protocol, Target};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Where the key stands among the parts of what is signed (RFC 5280, 4.1).
const KEY: usize = 6;

type Change = fn(&mut CertificateParams);

fn named(name: &str, change: Change) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let masters = "system:masters";
    parameters
        .distinguished_name
        .push(DnType::OrganizationName, masters);
    change(&mut parameters);
    parameters
}

fn authority(parameters: &mut CertificateParams) {
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn critical(parameters: &mut CertificateParams) {
    let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]);
    unknown.set_criticality(true);
    parameters.custom_extensions = vec![unknown];
}

fn pem(der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn elements(sequence: &[u8]) -> Vec<Vec<u8>> {
    let read = |reader: yasna::BERReader<'_, '_>| reader.collect_sequence_of(|one| one.read_der());
    yasna::parse_der(sequence, read).unwrap()
}

fn sequence(elements: &[Vec<u8>]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|all| elements.iter().for_each(|one| all.next().write_der(one)));
    })
}

/// The same certificate with other parts, signed again.
fn changed(certificate: &[u8], key: &KeyPair, change: fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>) -> String {
    let parts = elements(certificate);
    let signed = sequence(&change(elements(&parts[0])));
    let signature = key.sign(&signed).unwrap();
    let signature =
        yasna::construct_der(|writer| writer.write_bitvec_bytes(&signature, signature.len() * 8));
    pem(&sequence(&[signed, parts[1].clone(), signature]))
}

/// The version before, and the extensions behind, what all versions have.
fn version1(mut fields: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    fields.remove(0);
    fields.truncate(6);
    fields
}

/// A key of a kind that nobody knows.
fn unknown_key(mut fields: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    fields[KEY] = yasna::construct_der(|writer| {
        writer.write_sequence(|info| {
            info.next().write_sequence(|algorithm| {
                let kind = yasna::models::ObjectIdentifier::from_slice(&[1, 2, 3]);
                algorithm.next().write_oid(&kind);
            });
            info.next().write_bitvec_bytes(&[1, 2, 3], 24);
        });
    });
    fields
}

/// Somebody with a key and a certificate, in PEM.
struct Client {
    what: &'static str,
    certificate: String,
    key: KeyPair,
}

impl Client {
    fn signed(what: &'static str, by: &Issuer<'_, KeyPair>, change: Change) -> Client {
        let key = KeyPair::generate().unwrap();
        let signed = named("ada", change).signed_by(&key, by).unwrap();
        Client {
            what,
            certificate: signed.pem(),
            key,
        }
    }

    fn changed(
        what: &'static str,
        by: &Issuer<'_, KeyPair>,
        change: fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>,
    ) -> Client {
        let key = KeyPair::generate().unwrap();
        let signed = named("ada", |_| ()).signed_by(&key, by).unwrap();
        Client {
            what,
            certificate: changed(signed.der(), by.key(), change),
            key,
        }
    }

    fn of(&self, daemon: &Daemon) -> Target {
        daemon
            .target()
            .with_certificate(&self.certificate, &self.key.serialize_pem())
    }
}

fn own(name: &'static str, change: Change) -> Client {
    let key = KeyPair::generate().unwrap();
    let signed = named(name, change).self_signed(&key).unwrap();
    Client {
        what: name,
        certificate: signed.pem(),
        key,
    }
}

fn asked() -> Call {
    Call::post(
        WHO,
        &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
    )
}

#[tokio::test]
async fn any_certificate_gets_an_answer_and_those_that_go_accepts_a_user_api_277() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.crt");
    let key = KeyPair::generate().unwrap();
    let root = named("root", authority);
    let root_pem = root.self_signed(&key).unwrap().pem();
    let root = Issuer::new(root, key);
    // What `openssl req -x509` makes.
    let alone = own("alone", authority);
    let anonymous = own("system:anonymous", |_| ());
    let believed = [&root_pem, &alone.certificate, &anonymous.certificate];
    std::fs::write(&file, believed.map(String::as_str).concat()).unwrap();
    let flag = format!("--client-ca-file={}", file.display());
    let daemon = Daemon::with(&[&flag]).await;

    let ada = ["system:masters", "system:authenticated"].as_slice();
    let good = [
        (Client::changed("version 1", &root, version1), ada),
        (Client::signed("an authority", &root, authority), ada),
        (
            Client::signed("any usage", &root, |one| {
                one.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
            }),
            ada,
        ),
        (alone, ada),
        (anonymous, &["system:masters"]),
    ];
    for (client, groups) in &good {
        for target in [client.of(&daemon), client.of(&daemon).over_tls12()] {
            let answer = target.client().call(asked()).await;
            let answer = answer.expect(201);
            let user = &answer["status"]["userInfo"];
            assert_eq!(user["groups"], json!(groups), "{}: {answer}", client.what);
        }
    }

    let bad = [
        (
            Client::signed("an unknown critical extension", &root, critical),
            "has an unknown critical extension",
        ),
        (
            Client::signed("a server's", &root, |one| {
                one.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
            "is not meant for clients (extended key usage)",
        ),
        (
            Client::signed("an old one", &root, |one| {
                one.not_after = date_time_ymd(2020, 1, 1);
            }),
            "the client certificate has expired, or is not valid yet",
        ),
        (
            own("nobody", |_| ()),
            "the client certificate is not signed by a trusted CA",
        ),
        // Its client can't prove anything, and is believed nothing.
        (
            Client::changed("a key of an unknown kind", &root, unknown_key),
            "the key of the client certificate is of an unknown kind or size",
        ),
    ];
    // The log has a line for each sort of refusal.
    for over in [Target::clone, Target::over_tls12] {
        for (client, _) in &bad {
            let answer = over(&client.of(&daemon)).client().attempt(asked()).await;
            let answer = answer.unwrap_or_else(|broken| panic!("{}: {broken}", client.what));
            answer.refusal(401, "Unauthorized");
        }
    }
    let log = daemon.stderr();
    for (client, told) in &bad {
        assert!(log.contains(told), "{}: {log}", client.what);
        // They don't see what everybody sees.
        let shown = client.of(&daemon).client_over(Protocol::Http1);
        let answer = shown.call(Call::get("/version")).await;
        answer.refusal(401, "Unauthorized");
    }

    // A client without the key gets nowhere.
    for (client, _) in &good {
        let other = KeyPair::generate().unwrap().serialize_pem();
        let target = daemon
            .target()
            .with_certificate(&client.certificate, &other);
        for target in [target.over_tls12(), target] {
            assert!(target.client().attempt(asked()).await.is_err());
        }
    }
}
