//! Servers that are trusted, and those that are not, as Go decides (HK-37).

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType, date_time_ymd,
};

use super::server::{Certified, TestServer, answer};
use super::*;

fn parameters(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "some.example");
    parameters
}

fn authority(mut parameters: CertificateParams) -> CertificateParams {
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters
}

/// Asks a server with this certificate, by a name if there is one. Returns `ok` or the cause.
async fn ask(certified: &Certified, bundle: &str, name: Option<&str>) -> String {
    let server = TestServer::start(Some(certified.tls(&[])), |_| answer("ok")).await;
    let mut settings = TargetSettings::new(server.url("https"), Roots::Bundle(bundle.into()));
    settings.server_name = name.map(str::to_owned);
    let target = Target::new(settings).unwrap();
    let sent = EgressClient::new().send(&target, post("/")).await;
    match sent {
        Ok(answer) => String::from_utf8(answer.body.to_vec()).unwrap(),
        Err(error) => {
            let text = error.to_string();
            let request = format!("Post \"{}/\": ", server.url("https"));
            let cause = text.strip_prefix(&request).unwrap_or(&text);
            let cause = cause.strip_prefix("tls: failed to verify certificate: ");
            cause.unwrap_or(&text).to_owned()
        }
    }
}

const UNKNOWN: &str = "x509: certificate signed by unknown authority";

#[tokio::test]
async fn a_leaf_or_an_authority_of_itself_is_trusted_as_its_own_bundle_hk_37() {
    let parent = "x509: invalid signature: parent certificate cannot sign this kind of certificate";
    for (parameters, hint) in [
        (parameters(&["127.0.0.1"]), parent),
        (
            authority(parameters(&["127.0.0.1"])),
            "x509: ECDSA verification failure",
        ),
    ] {
        let own = Certified::own(&parameters);
        assert_eq!(ask(&own, &own.pem, None).await, "ok");
        // Another certificate with the same names is another one.
        let other = Certified::own(&parameters);
        let expected = format!(
            "{UNKNOWN} (possibly because of {hint:?} while trying to verify candidate authority \
             certificate \"some.example\")"
        );
        assert_eq!(ask(&own, &other.pem, None).await, expected);
        // Being in the bundle replaces the chain, but no other check.
        let wrong = "x509: certificate is not valid for any names, but wanted to match b.example";
        assert_eq!(ask(&own, &own.pem, Some("b.example")).await, wrong);
    }
}

#[tokio::test]
async fn a_leaf_signed_by_an_unknown_authority_is_trusted_as_its_own_bundle_hk_37() {
    let (root, _) = signer("root");
    let leaf = signed(&root, parameters(&["127.0.0.1"]));
    assert_eq!(ask(&leaf, &leaf.pem, None).await, "ok");
}

fn signer(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut parameters = authority(parameters(&[]));
    parameters.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    (Issuer::new(parameters, key), pem)
}

fn signed(root: &Issuer<'_, KeyPair>, parameters: CertificateParams) -> Certified {
    let key = KeyPair::generate().unwrap();
    Certified::new(&parameters.signed_by(&key, root).unwrap(), &key)
}

#[tokio::test]
async fn each_certificate_of_a_bundle_is_trusted_hk_37() {
    let ((first, one), (_, two)) = (signer("one"), signer("two"));
    let leaf = signed(&first, parameters(&["127.0.0.1"]));
    for (bundle, expected) in [
        (format!("{one}{two}"), "ok"),
        (format!("{two}text between\n{one}"), "ok"),
        (two, UNKNOWN),
        (one, "ok"),
        (
            String::new(),
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
    ] {
        assert_eq!(ask(&leaf, &bundle, None).await, expected, "{bundle}");
    }
}

#[tokio::test]
async fn validity_and_use_are_checked_of_own_and_signed_certificates_hk_37() {
    let (root, pem) = signer("root");
    let mut past = parameters(&["127.0.0.1"]);
    past.not_after = date_time_ymd(2020, 1, 1);
    let mut future = parameters(&["127.0.0.1"]);
    future.not_before = date_time_ymd(2900, 1, 1);
    future.not_after = date_time_ymd(2901, 1, 1);
    let mut of_clients = parameters(&["127.0.0.1"]);
    of_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (parameters, begin, end) in [
        (
            past,
            "x509: certificate has expired or is not yet valid: current time ",
            " is after 2020-01-01T00:00:00Z",
        ),
        (
            future,
            "x509: certificate has expired or is not yet valid: current time ",
            " is before 2900-01-01T00:00:00Z",
        ),
        (
            of_clients,
            "x509: certificate specifies an incompatible key usage",
            "",
        ),
    ] {
        let own = Certified::own(&parameters);
        let leaf = signed(&root, parameters);
        for (certified, bundle) in [(&own, &own.pem), (&leaf, &pem)] {
            let text = ask(certified, bundle, None).await;
            assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
        }
    }
}

#[tokio::test]
async fn the_name_must_be_an_alternative_name_hk_37() {
    let address = parameters(&["127.0.0.1"]);
    let mut other = parameters(&["a.example"]);
    let ip = "127.0.0.9".parse().unwrap();
    other.subject_alt_names.push(SanType::IpAddress(ip));
    let names = parameters(&["a.example", "*.b.example"]);
    let none = parameters(&[]);
    for (parameters, name, expected) in [
        (&address, None, "ok"),
        (
            &other,
            None,
            "x509: certificate is valid for 127.0.0.9, not 127.0.0.1",
        ),
        (&names, Some("a.example"), "ok"),
        (&names, Some("x.b.example"), "ok"),
        (
            &names,
            Some("c.example"),
            "x509: certificate is valid for a.example, *.b.example, not c.example",
        ),
        (
            &names,
            None,
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            &none,
            None,
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            &none,
            Some("some.example"),
            "x509: certificate relies on legacy Common Name field, use SANs instead",
        ),
        (
            &none,
            Some("c.example"),
            "x509: certificate is not valid for any names, but wanted to match c.example",
        ),
    ] {
        let own = Certified::own(parameters);
        assert_eq!(ask(&own, &own.pem, name).await, expected);
    }
}

#[tokio::test]
async fn the_roots_of_the_system_trust_no_server_of_a_test() {
    let own = Certified::own(&parameters(&["127.0.0.1"]));
    let server = TestServer::start(Some(own.tls(&[])), |_| answer("ok")).await;
    let settings = TargetSettings::new(server.url("https"), Roots::System);
    let text = failure(&Target::new(settings).unwrap(), post("/")).await;
    assert!(text.ends_with(UNKNOWN), "{text}");
}
