//! Certificates (API-271): to approve or sign a request, a user needs the permission for its
//! signer, and nobody becomes a member of `system:masters` by a request.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::{FutureExt, ready};
use x509_parser::asn1_rs::{Any, FromDer, Tag};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::x509::X509Name;

use super::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::pem::pem_blocks;
use crate::api::text::quoting::go_quote;
use crate::api::user_info::{MASTERS, UserInfo};
use crate::auth::{self, Authorizer};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";

/// The signer of certificates with which users authenticate.
const OF_CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// CertificateApproval and CertificateSigning.
pub(super) struct SignerPermission {
    name: &'static str,
    subresource: &'static str,
    verb: &'static str,
    authorizer: Arc<dyn Authorizer>,
}

impl SignerPermission {
    /// CertificateApproval.
    pub(super) fn of_approval(authorizer: Arc<dyn Authorizer>) -> SignerPermission {
        SignerPermission {
            name: "CertificateApproval",
            subresource: "approval",
            verb: "approve",
            authorizer,
        }
    }

    /// CertificateSigning.
    pub(super) fn of_signing(authorizer: Arc<dyn Authorizer>) -> SignerPermission {
        SignerPermission {
            name: "CertificateSigning",
            subresource: "status",
            verb: "sign",
            authorizer,
        }
    }

    /// Returns whether the user has the permission for the signer, or for all signers of its
    /// domain.
    async fn is_permitted(&self, user: &UserInfo, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        let of_domain = format!("{domain}/*");
        for name in [signer, &of_domain] {
            let asked = auth::Attributes {
                name,
                ..auth::Attributes::on_resource(user, self.verb, GROUP, "signers")
            };
            if self.authorizer.authorize(&asked).await.is_allowed() {
                return true;
            }
        }
        false
    }

    /// Whether the write needs the permission. A write that leaves the status unchanged signs
    /// nothing.
    fn is_asked(&self, stored: &Object, object: Option<&Object>) -> bool {
        let status = |object: &Object| object.0.get("status").cloned();
        self.verb != "sign" || object.and_then(status) != status(stored)
    }
}

impl Plugin for SignerPermission {
    fn name(&self) -> &'static str {
        self.name
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.updates_part(GROUP, PLURAL, self.subresource)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for SignerPermission {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        let stored = attributes.old_object;
        let asked = stored.filter(|stored| self.is_asked(stored, object));
        let Some(signer) = asked.map(|stored| stored.text(&["spec", "signerName"])) else {
            return ready(Ok(())).boxed();
        };
        async move {
            if self.is_permitted(attributes.user, signer).await {
                return Ok(());
            }
            let (verb, signer) = (self.verb, go_quote(signer));
            let why = format!("user not permitted to {verb} requests with signerName {signer}");
            Err(attributes.forbidden(object, &why))
        }
        .boxed()
    }
}

/// CertificateSubjectRestriction.
pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates(GROUP, PLURAL)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for CertificateSubjectRestriction {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        let of_clients = object.filter(|object| object.text(&["spec", "signerName"]) == OF_CLIENTS);
        let refused = of_clients.and_then(|request| match organizations(request) {
            Err(why) => Some(format!("failed to parse CSR: {why}")),
            Ok(groups) => groups
                .iter()
                .any(|group| group == MASTERS)
                .then(|| format!("use of {OF_CLIENTS} signer with {MASTERS} group is not allowed")),
        });
        let answer = refused.map_or(Ok(()), |why| Err(attributes.forbidden(object, &why)));
        ready(answer).boxed()
    }
}

/// The organizations of the subject, which become groups.
fn organizations(request: &Object) -> Result<Vec<String>, String> {
    of_subject(request, |subject| {
        subject
            .iter_organization()
            .map(|one| text(one.attr_value()))
            .collect()
    })
}

/// The common name of the subject, the last one if it has several. It becomes the user.
pub(super) fn common_name(request: &Object) -> Result<String, String> {
    of_subject(request, |subject| {
        let last = subject.iter_common_name().last();
        last.map(|one| text(one.attr_value())).unwrap_or_default()
    })
}

fn of_subject<T>(request: &Object, read: impl FnOnce(&X509Name<'_>) -> T) -> Result<T, String> {
    let pem = STANDARD.decode(request.text(&["spec", "request"]));
    let pem = pem.map_err(|error| error.to_string())?;
    // The block that validation and signers read.
    let block = pem_blocks(&String::from_utf8_lossy(&pem))
        .next()
        .map(|block| block.bytes)
        .ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (_, request) =
        X509CertificationRequest::from_der(&block).map_err(|error| error.to_string())?;
    Ok(read(&request.certification_request_info.subject))
}

/// The text of a value in any encoding that Go reads, so that no encoding hides a group.
fn text(value: &Any<'_>) -> String {
    match value.tag() {
        Tag::BmpString => {
            let units = value.data.chunks_exact(2);
            let units = units.map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            let mut units: Vec<u16> = units.collect();
            // Go treats a zero at the end as a terminator.
            if units.last() == Some(&0) {
                units.pop();
            }
            String::from_utf16_lossy(&units)
        }
        _ => String::from_utf8_lossy(value.data).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::{Operation, Rounds};
    use crate::api::options::WriteOptions;
    use crate::api::status::Status;
    use crate::api::warnings::Warnings;
    use crate::auth::Authorization;
    use crate::kinds::definitions::certificates::certificatesigningrequests;

    /// Users are named after the one action that they may do: `approve signers a.b/*`.
    struct ByName;

    impl Authorizer for ByName {
        fn authorize<'a>(
            &'a self,
            asked: &'a auth::Attributes<'a>,
        ) -> BoxFuture<'a, Authorization> {
            assert_eq!(asked.api_group, GROUP);
            let action = format!("{} {} {}", asked.verb, asked.resource, asked.name);
            ready(Authorization::allow_if(asked.user.name == action)).boxed()
        }
    }

    fn object(value: &Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    fn pem(organization: DnValue) -> String {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, organization);
        let request = params.serialize_request(&KeyPair::generate().unwrap());
        STANDARD.encode(request.unwrap().pem().unwrap())
    }

    async fn asked(
        plugin: &(impl Plugin + ValidatingPlugin),
        user: &str,
        part: Option<&str>,
        stored: Option<&Object>,
        object: &Object,
    ) -> Result<(), Box<Status>> {
        let (definition, options) = (certificatesigningrequests(), WriteOptions::default());
        let user = UserInfo {
            name: user.to_owned(),
            ..UserInfo::default()
        };
        let attributes = Attributes {
            operation: match stored {
                None => Operation::Create(&options),
                Some(_) => Operation::Update(&options),
            },
            definition: &definition,
            kind: &definition,
            stored: &definition,
            subresource: part,
            namespace: None,
            name: "r",
            old_object: stored,
            user: &user,
            warnings: &Warnings::default(),
            annotations: None,
            versions: &[],
            converter: None,
            deadline: tokio::time::Instant::now(),
            rounds: Rounds::default(),
        };
        assert!(plugin.handles(&attributes));
        plugin.validate(&attributes, Some(object)).await
    }

    /// The texts are those that kube-apiserver answers to a user with rights for parts of requests
    /// and without rights for signers.
    #[tokio::test]
    async fn signers_need_a_right_api_271() {
        let stored = object(&json!({"spec": {"signerName": "a.b/c"}, "status": {}}));
        let signed = object(&json!({"spec": {"signerName": "a.b/d"}, "status": {"a": 1}}));
        for (plugin, part, verb) in [
            (
                SignerPermission::of_approval(Arc::new(ByName)),
                "approval",
                "approve",
            ),
            (
                SignerPermission::of_signing(Arc::new(ByName)),
                "status",
                "sign",
            ),
        ] {
            for (user, is_allowed) in [
                (format!("{verb} signers a.b/c"), true),
                (format!("{verb} signers a.b/*"), true),
                (format!("{verb} signers a.b/d"), false),
                ("bob".to_owned(), false),
            ] {
                let answer = asked(&plugin, &user, Some(part), Some(&stored), &signed).await;
                assert_eq!(answer.is_ok(), is_allowed, "{user:?}");
                let Err(refusal) = answer else { continue };
                let why = format!(
                    "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not \
                     permitted to {verb} requests with signerName \"a.b/c\""
                );
                assert_eq!(refusal.message, why);
            }
            let unchanged = asked(&plugin, "bob", Some(part), Some(&stored), &stored).await;
            assert_eq!(unchanged.is_ok(), verb == "sign");
        }
    }

    #[tokio::test]
    async fn nobody_becomes_a_master_by_a_request_api_271() {
        let masters = [
            DnValue::Utf8String(MASTERS.to_owned()),
            DnValue::BmpString(MASTERS.try_into().unwrap()),
            DnValue::TeletexString(MASTERS.try_into().unwrap()),
            DnValue::PrintableString("system:masters".try_into().unwrap()),
        ];
        let request = |signer: &str, name: &DnValue| {
            object(&json!({"spec": {"signerName": signer, "request": pem(name.clone())}}))
        };
        for name in &masters {
            let request = request(OF_CLIENTS, name);
            let answer = asked(&CertificateSubjectRestriction, "bob", None, None, &request).await;
            let why = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
                       kubernetes.io/kube-apiserver-client signer with system:masters group is not \
                       allowed";
            assert_eq!(answer.unwrap_err().message, why);
        }
        // A block with another type at its end does not count.
        let harmless = STANDARD.decode(pem(DnValue::Utf8String("a".to_owned())));
        let harmless = String::from_utf8(harmless.unwrap()).unwrap();
        let hidden = STANDARD.decode(pem(masters[0].clone())).unwrap();
        let hidden = String::from_utf8(hidden).unwrap();
        let both = harmless.replace("END CERTIFICATE REQUEST", "END X") + &hidden;
        let ended = format!("{MASTERS}\0");
        let ended = DnValue::BmpString(ended.as_str().try_into().unwrap());
        for request in [STANDARD.encode(both), pem(ended)] {
            let spec = json!({"signerName": OF_CLIENTS, "request": request});
            let answer = asked(
                &CertificateSubjectRestriction,
                "bob",
                None,
                None,
                &object(&json!({"spec": spec})),
            )
            .await;
            assert!(answer.is_err());
        }
        let plain = DnValue::Utf8String("masters".to_owned());
        for request in [request("a.b/c", &masters[0]), request(OF_CLIENTS, &plain)] {
            let answer = asked(&CertificateSubjectRestriction, "bob", None, None, &request).await;
            assert!(answer.is_ok());
        }
    }
}
