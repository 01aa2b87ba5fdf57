//! Settings about kubelets that are refused at the start (CN-38).

use crate::harness::Options;

async fn refused(flags: &[&str]) -> String {
    let started = Options::default().arguments(flags).attempt().await;
    started.err().expect("the start is refused")
}

#[tokio::test]
async fn faulty_settings_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let none = folder.path().join("none");
    let none = none.to_str().unwrap();
    let empty = file("empty", "");
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
    let certificate = file("a.crt", &parameters.self_signed(&key).unwrap().pem());
    let other = file(
        "b.key",
        &rcgen::KeyPair::generate().unwrap().serialize_pem(),
    );
    let flag = |name: &str, value: &str| format!("--kubelet-{name}={value}");
    for (flags, said) in [
        (
            vec![flag("client-certificate", &certificate)],
            "--kubelet-client-certificate and --kubelet-client-key are set together or not at all"
                .to_owned(),
        ),
        (
            vec![flag("certificate-authority", none)],
            format!("--kubelet-certificate-authority {none}: "),
        ),
        (
            vec![flag("certificate-authority", &empty)],
            format!("--kubelet-certificate-authority {empty}: unable to load root certificates"),
        ),
        (
            vec![
                flag("client-certificate", &certificate),
                flag("client-key", &other),
            ],
            format!("--kubelet-client-certificate {certificate} with --kubelet-client-key {other}"),
        ),
        (
            vec![flag("timeout", "0")],
            "--kubelet-timeout=0s: from 100ms to 1h is possible".to_owned(),
        ),
        (
            vec![flag("preferred-address-types", "InternalIP,Internal")],
            "\"Internal\" is not a type of addresses; the types are Hostname,".to_owned(),
        ),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let log = refused(&flags).await;
        assert!(log.contains(&said), "{flags:?}: {log}");
    }
}
