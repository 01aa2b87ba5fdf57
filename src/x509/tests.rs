//! Valid and invalid client certificates, tested against one authority.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SanType, SigningKey,
    date_time_ymd,
};
use rustls::crypto::aws_lc_rs;

use super::*;

type Change<'c> = &'c dyn Fn(&mut CertificateParams);

/// A signer of certificates.
struct Signer {
    issuer: Issuer<'static, KeyPair>,
    der: Vec<u8>,
}

fn parameters(name: &str, change: Change<'_>) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    change(&mut parameters);
    parameters
}

fn authority(parameters: &mut CertificateParams) {
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn root(name: &str, change: Change<'_>) -> Signer {
    let key = KeyPair::generate().unwrap();
    let parameters = parameters(name, change);
    let der = parameters.self_signed(&key).unwrap().der().to_vec();
    Signer {
        issuer: Issuer::new(parameters, key),
        der,
    }
}

impl Signer {
    fn sign(&self, name: &str, change: Change<'_>) -> Signer {
        let key = KeyPair::generate().unwrap();
        let parameters = parameters(name, change);
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        Signer {
            der: signed.der().to_vec(),
            issuer: Issuer::new(parameters, key),
        }
    }
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

/// Returns the same certificate as one of version 1.
fn version1(certificate: &[u8], signer: &Signer) -> Vec<u8> {
    let parts = elements(certificate);
    let mut fields = elements(&parts[0]);
    // Remove the version before, and the extensions after, the fields that all versions have.
    fields.remove(0);
    fields.truncate(6);
    let signed = sequence(&fields);
    let signature = signer.issuer.key().sign(&signed).unwrap();
    let signature =
        yasna::construct_der(|writer| writer.write_bitvec_bytes(&signature, signature.len() * 8));
    sequence(&[signed, parts[1].clone(), signature])
}

fn asked(chain: &[&[u8]], roots: &[&[u8]]) -> Result<Validity, Refused> {
    let read = |all: &[&[u8]]| -> Result<Vec<Certificate>, Refused> {
        all.iter().map(|one| Certificate::read(one)).collect()
    };
    let (own, between) = (read(&chain[..1])?.remove(0), read(&chain[1..])?);
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let now = crate::clock::now().as_second();
    verify(&own, &between, &read(roots).unwrap(), algorithms.all, now)
}

#[test]
fn what_go_accepts_of_a_certificate_is_accepted() {
    let root = root("root", &authority);
    let unusual: [(&str, Change<'_>); 8] = [
        ("no usage", &|_| ()),
        ("an authority", &authority),
        ("any usage", &|one| {
            one.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
        }),
        ("another usage, too", &|one| {
            one.extended_key_usages = vec![
                ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 2]),
                ExtendedKeyUsagePurpose::ClientAuth,
            ];
        }),
        ("an empty list of usages", &|one| {
            one.custom_extensions = vec![CustomExtension::from_oid_content(
                &[2, 5, 29, 37],
                vec![0x30, 0],
            )];
        }),
        ("a key usage without signatures", &|one| {
            one.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
        }),
        ("an unknown extension", &|one| {
            one.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])];
        }),
        ("policies that are critical", &|one| {
            // anyPolicy
            let policies = vec![0x30, 8, 0x30, 6, 6, 4, 0x55, 0x1d, 0x20, 0];
            let mut policies = CustomExtension::from_oid_content(&[2, 5, 29, 32], policies);
            policies.set_criticality(true);
            one.custom_extensions = vec![policies];
        }),
    ];
    for (what, change) in unusual {
        let client = root.sign("ada", change);
        assert!(asked(&[&client.der], &[&root.der]).is_ok(), "{what}");
        // With certificates in between.
        let between = root.sign("between", &authority);
        let client = between.sign("ada", change);
        let chain = [&client.der[..], &root.der, &between.der];
        assert!(asked(&chain, &[&root.der]).is_ok(), "{what}");
    }
    let old = version1(&root.sign("ada", &|_| ()).der, &root);
    assert!(asked(&[&old], &[&root.der]).is_ok());
    let old_root = version1(&root.der, &root);
    assert!(asked(&[&old], &[&old_root]).is_ok());
    // A certificate that is itself trusted, regardless of its signer.
    for alone in [&self::root("ada", &|_| ()).der, &old_root, &old, &root.der] {
        assert!(asked(&[alone], &[alone]).is_ok());
    }
}

#[test]
fn what_nobody_may_believe_is_refused_with_its_reason() {
    let root = root("root", &authority);
    let past: Change<'_> = &|one| one.not_after = date_time_ymd(2020, 1, 1);
    let future: Change<'_> = &|one| one.not_before = date_time_ymd(4000, 1, 1);
    let of_server: Change<'_> =
        &|one| one.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let of_nothing_known: Change<'_> =
        &|one| one.extended_key_usages = vec![ExtendedKeyUsagePurpose::Other(vec![1, 2, 3])];
    let critical: Change<'_> = &|one| {
        let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]);
        unknown.set_criticality(true);
        one.custom_extensions = vec![unknown];
    };
    let every = [
        (past, Refused::NotValidNow),
        (future, Refused::NotValidNow),
        (of_server, Refused::NotOfClient),
        (of_nothing_known, Refused::NotOfClient),
        (critical, Refused::CriticalExtension),
    ];
    for (change, refused) in every {
        let of_authority = |one: &mut CertificateParams| {
            authority(one);
            change(one);
        };
        let client = root.sign("ada", change);
        assert_eq!(asked(&[&client.der], &[&root.der]), Err(refused.clone()));
        assert_eq!(asked(&[&client.der], &[&client.der]), Err(refused.clone()));
        // The same for a certificate in between, and for the authority.
        let between = root.sign("between", &of_authority);
        let client = between.sign("ada", &|_| ());
        let chain = [&client.der[..], &between.der];
        assert_eq!(asked(&chain, &[&root.der]), Err(refused.clone()));
        let root = self::root("root", &of_authority);
        let client = root.sign("ada", &|_| ());
        assert_eq!(asked(&[&client.der], &[&root.der]), Err(refused));
    }
    // Signers that are not authorities.
    let signers: [Change<'_>; 3] = [&|_| (), &|one| one.is_ca = IsCa::ExplicitNoCa, &|one| {
        authority(one);
        one.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    }];
    for change in signers {
        let between = root.sign("between", change);
        let client = between.sign("ada", &|_| ());
        let chain = [&client.der[..], &between.der];
        assert_eq!(asked(&chain, &[&root.der]), Err(Refused::NotAnAuthority));
        assert_eq!(
            asked(&[&client.der], &[&between.der]),
            Err(Refused::NotAnAuthority)
        );
    }
    // A certificate of version 1 is an authority only if the operator trusts it.
    let between = root.sign("between", &authority);
    let (old, client) = (version1(&between.der, &root), between.sign("ada", &|_| ()));
    let chain = [&client.der[..], &old];
    assert_eq!(asked(&chain, &[&root.der]), Err(Refused::NotAnAuthority));
}

#[test]
fn only_the_key_of_an_authority_signs() {
    let root = root("root", &authority);
    let client = root.sign("ada", &|_| ());
    let nobody = Err(Refused::UnknownAuthority);
    assert_eq!(asked(&[&client.der], &[]), nobody);
    // Another authority, with another name and with the same.
    for name in ["other", "root"] {
        let other = self::root(name, &authority);
        assert_eq!(asked(&[&client.der], &[&other.der]), nobody, "{name}");
        let chain = [&client.der[..], &root.der];
        assert_eq!(asked(&chain, &[&other.der]), nobody, "{name}");
        let both = [&other.der[..], &root.der];
        assert!(asked(&[&client.der], &both).is_ok(), "{name}");
    }
    let itself = self::root("ada", &|_| ());
    assert_eq!(asked(&[&itself.der, &itself.der], &[&root.der]), nobody);
    // Changing any byte of a certificate makes it invalid.
    let between = root.sign("between", &authority);
    let client = between.sign("ada", &|_| ());
    for at in 0..client.der.len().max(between.der.len()) {
        for which in 0..2 {
            let mut chain = [client.der.clone(), between.der.clone()];
            if let Some(byte) = chain[which].get_mut(at) {
                *byte ^= 1 << (at % 8);
                let chain = [&chain[0][..], &chain[1]];
                let answer = asked(&chain, &[&root.der]);
                assert!(answer.is_err(), "{which} at {at} of {chain:?}");
            }
        }
    }
}

#[test]
fn authorities_bound_those_below_them() {
    let short = root("root", &|one| {
        one.is_ca = IsCa::Ca(BasicConstraints::Constrained(0))
    });
    let between = short.sign("between", &authority);
    let (direct, client) = (short.sign("ada", &|_| ()), between.sign("ada", &|_| ()));
    assert!(asked(&[&direct.der], &[&short.der]).is_ok());
    let chain = [&client.der[..], &between.der];
    assert_eq!(asked(&chain, &[&short.der]), Err(Refused::PathLength));

    let subtree = |name: &str| GeneralSubtree::DnsName(name.to_owned());
    let bound: Change<'_> = &|one| {
        authority(one);
        one.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![subtree("example")],
            excluded_subtrees: vec![subtree("bad.example")],
        });
    };
    let root = self::root("root", &authority);
    let (bound_root, bound) = (self::root("root", bound), root.sign("between", bound));
    for (name, is_good) in [("a.example", true), ("bad.example", false), ("x", false)] {
        let names = vec![SanType::DnsName(name.try_into().unwrap())];
        let named: Change<'_> = &|one| one.subject_alt_names = names.clone();
        let expected = is_good.then_some(()).ok_or(Refused::Names);
        let client = bound.sign("ada", named);
        let answer = asked(&[&client.der, &bound.der], &[&root.der]);
        assert_eq!(answer.map(|_| ()), expected, "{name}");
        let client = bound_root.sign("ada", named);
        let answer = asked(&[&client.der], &[&bound_root.der]);
        assert_eq!(answer.map(|_| ()), expected, "{name}");
    }
}

#[test]
fn long_chains_and_loops_end() {
    let root = root("root", &authority);
    let mut chain = vec![root.sign("0", &authority)];
    for step in 1..99 {
        let next = chain[step - 1].sign(&step.to_string(), &authority);
        chain.push(next);
    }
    let client = chain.last().unwrap().sign("ada", &|_| ());
    chain.push(client);
    // The client's certificate first, and the rest in an unhelpful order.
    let mut shown: Vec<&[u8]> = chain.iter().map(|one| &one.der[..]).collect();
    shown.rotate_right(1);
    assert!(asked(&shown, &[&root.der]).is_ok(), "100 certificates");
    let more = chain[99].sign("eve", &|_| ());
    assert!(asked(&[&more.der], &[&root.der]).is_err());

    // Two that have signed each other, and many with one name.
    let (one, other) = (
        self::root("one", &authority),
        self::root("other", &authority),
    );
    let crossed = [
        one.issuer_signs(&other, "other"),
        other.issuer_signs(&one, "one"),
    ];
    let client = one.sign("ada", &|_| ());
    let loops = [
        &client.der[..],
        &crossed[0],
        &crossed[1],
        &one.der,
        &other.der,
    ];
    assert_eq!(asked(&loops, &[&root.der]), Err(Refused::UnknownAuthority));
    let many: Vec<Signer> = (0..150).map(|_| self::root("one", &authority)).collect();
    let mut many: Vec<&[u8]> = many.iter().map(|one| &one.der[..]).collect();
    many.insert(0, &client.der);
    assert_eq!(asked(&many, &[&root.der]), Err(Refused::TooMuch));
}

impl Signer {
    /// Signs the key of another authority.
    fn issuer_signs(&self, other: &Signer, name: &str) -> Vec<u8> {
        let parameters = parameters(name, &authority);
        let signed = parameters.signed_by(other.issuer.key(), &self.issuer);
        signed.unwrap().der().to_vec()
    }
}
