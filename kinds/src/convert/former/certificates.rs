//! CertificateSigningRequests in `certificates.k8s.io/v1beta1`, where the signer is optional and
//! follows from the requested certificate.

use std::collections::BTreeSet;

use api::object::Object;
use api::pem::pem_blocks;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::defaults::{items, member, member_or_new, set_absent, set_default};

const OF_KUBELET_CLIENTS: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const OF_KUBELET_SERVERS: &str = "kubernetes.io/kubelet-serving";
const UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// The organization of kubelets, and the prefix of their common names.
const OF_NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

/// Defaults usages, signer and the statuses of conditions.
pub(super) fn v1beta1(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        let usages = json!(["digital signature", "key encipherment"]);
        set_absent(spec, "usages", usages);
        if spec.get("signerName").is_none_or(Value::is_null) {
            let request = spec.get("request").and_then(Value::as_str);
            let usages = spec.get("usages").and_then(Value::as_array);
            let usages = usages.into_iter().flatten().filter_map(Value::as_str);
            let signer = signer_of(request.unwrap_or_default(), &usages.collect());
            spec.insert("signerName".to_owned(), signer.into());
        }
    }
    if let Some(status) = member(&mut object.0, "status") {
        for condition in items(status, "conditions") {
            set_default(condition, "status", "True");
        }
    }
}

fn signer_of(request: &str, usages: &BTreeSet<&str>) -> &'static str {
    let asked = STANDARD.decode(request).ok();
    let asked = asked.and_then(|pem| {
        let pem = String::from_utf8_lossy(&pem).into_owned();
        let block = pem_blocks(&pem).next()?;
        let is_request = block.kind == "CERTIFICATE REQUEST";
        is_request.then(|| Asked::read(&block.bytes)).flatten()
    });
    let Some(asked) = asked.filter(Asked::is_of_node) else {
        return UNKNOWN;
    };
    let is_for = |purpose: &str| {
        let rest = usages.iter().filter(|usage| **usage != "key encipherment");
        rest.copied().eq([purpose, "digital signature"]
            .into_iter()
            .collect::<BTreeSet<_>>())
    };
    match asked.names.as_slice() {
        [] if is_for("client auth") => OF_KUBELET_CLIENTS,
        [_, ..] if asked.is_named_by_addresses() && is_for("server auth") => OF_KUBELET_SERVERS,
        _ => UNKNOWN,
    }
}

/// The subject and the alternative names of a PKCS #10 certificate request.
#[derive(Default)]
struct Asked {
    organizations: Vec<Vec<u8>>,
    common_name: Vec<u8>,
    /// The DER tags of its alternative names.
    names: Vec<u8>,
}

/// Object identifiers in DER: 2.5.4.10, 2.5.4.3, 1.2.840.113549.1.9.14 and 2.5.29.17.
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const EXTENSIONS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];

/// The DER tags of alternative names.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

impl Asked {
    /// Reads a certificate request in DER. Returns `None` if it is malformed.
    fn read(der: &[u8]) -> Option<Asked> {
        let mut asked = Asked::default();
        let (_, request) = Der(der).next()?;
        let (_, information) = Der(request).next()?;
        // The version is skipped; the subject, its key and the attributes follow.
        let mut parts = Der(information).skip(1);
        let (_, subject) = parts.next()?;
        for (_, set) in Der(subject) {
            for (_, pair) in Der(set) {
                let mut pair = Der(pair);
                match (pair.next()?.1, pair.next()?.1) {
                    (ORGANIZATION, text) => asked.organizations.push(text.to_vec()),
                    (COMMON_NAME, text) => asked.common_name = text.to_vec(),
                    _ => {}
                }
            }
        }
        let (_, attributes) = parts.nth(1).unwrap_or_default();
        for (_, attribute) in Der(attributes) {
            let mut attribute = Der(attribute);
            if attribute.next()?.1 == EXTENSIONS {
                let (_, values) = attribute.next()?;
                let extensions = Der(values).flat_map(|(_, all)| Der(all));
                extensions.for_each(|(_, extension)| asked.add_names(extension));
            }
        }
        Some(asked)
    }

    fn add_names(&mut self, extension: &[u8]) {
        let mut parts = Der(extension);
        if parts.next().is_some_and(|(_, id)| id == ALTERNATIVE_NAMES) {
            let names = parts.last().and_then(|(_, octets)| Der(octets).next());
            let names = names.into_iter().flat_map(|(_, names)| Der(names));
            let known = [EMAIL, DNS, URI, IP];
            self.names
                .extend(names.map(|(tag, _)| tag).filter(|tag| known.contains(tag)));
        }
    }

    fn is_of_node(&self) -> bool {
        self.organizations == [OF_NODES.as_bytes()] && self.common_name.starts_with(NODE.as_bytes())
    }

    fn is_named_by_addresses(&self) -> bool {
        self.names.iter().all(|tag| [DNS, IP].contains(tag))
    }
}

/// An iterator over the DER elements of some bytes: tag and contents. It ends at the first invalid
/// one.
struct Der<'d>(&'d [u8]);

impl<'d> Iterator for Der<'d> {
    type Item = (u8, &'d [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match usize::from(*first) {
            short @ 0..0x80 => (short, rest),
            long => {
                let (digits, rest) = rest.split_at_checked(long - 0x80)?;
                let number =
                    |sum: usize, digit: &u8| sum.checked_mul(256)?.checked_add(usize::from(*digit));
                (digits.iter().try_fold(0, number)?, rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}
