//! The envelope of answers: the kind and version of the review, and the uid of the request (HK-30,
//! HK-39, HK-40, HK-77). Pure.

use serde_json::Value as Json;

use crate::api::text::quoting::go_quote;
use crate::auth::webhook::{ReviewVersion, unregistered};
use crate::documents::{KindAndVersion, Tree};
use crate::schema::ObjectType;

/// A kind of review in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewForm {
    /// The group of the kind.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The version.
    pub version: ReviewVersion,
}

/// The answer of a webhook.
pub struct AnsweredReview {
    form: ReviewForm,
    of: KindAndVersion,
    value: Json,
}

impl ReviewForm {
    /// Returns the group and version.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group, self.version.name())
    }

    /// Reads a body by the type of the review. Kind and version may be missing in it.
    ///
    /// # Errors
    /// The text of a body that is not such a review.
    pub fn read(self, body: &[u8], of: &ObjectType) -> Result<AnsweredReview, String> {
        let unknown = |why| format!("couldn't get version/kind; json parse error: {why}");
        let tree = Tree::read(body).map_err(unknown)?;
        let given = tree.kind_and_version_of_answer().map_err(unknown)?;
        self.check(&given)?;
        let typed = tree.typed(of).map_err(|why| self.in_version(&why));
        let value = typed?.value;
        Ok(AnsweredReview {
            form: self,
            of: given,
            value,
        })
    }

    /// Names a type as Go does, by its version, which the shared types do not know.
    fn in_version(self, why: &str) -> String {
        let package = self.group.split('.').next().unwrap_or_default();
        let version = self.version.name();
        let own = why.replace(&format!(" of type {package}.Status"), " of type v1.Status");
        own.replace(
            &format!(" of type {package}."),
            &format!(" of type {version}."),
        )
    }

    fn check(self, KindAndVersion { kind, api_version }: &KindAndVersion) -> Result<(), String> {
        let other = ReviewForm {
            version: self.version.other(),
            ..self
        };
        if !kind.is_empty() && kind != self.kind {
            return Err(unregistered(kind, api_version));
        }
        match &**api_version {
            "" => Ok(()),
            own if own == self.api_version() => Ok(()),
            own if own == other.api_version() => Err(self.version.unknown_conversion(self.kind)),
            _ => Err(unregistered(kind, api_version)),
        }
    }
}

impl AnsweredReview {
    /// Returns the member `response`.
    pub fn response(&self) -> Option<&Json> {
        self.value.get("response").filter(|found| found.is_object())
    }

    /// Checks that the answer says its kind and version. Only v1 demands that.
    ///
    /// # Errors
    /// The text for clients.
    pub fn check_form(&self) -> Result<(), String> {
        let KindAndVersion { kind, api_version } = &self.of;
        let wanted = self.form.api_version();
        if !self.is_v1() || *kind == self.form.kind && *api_version == wanted {
            return Ok(());
        }
        let given = match &**api_version {
            "" => "/",
            other => other,
        };
        Err(format!(
            "expected webhook response of {wanted}, Kind={}, got {given}, Kind={kind}",
            self.form.kind
        ))
    }

    /// Checks that the answer has the uid of the request. Only v1 demands that.
    ///
    /// # Errors
    /// The text for clients.
    pub fn check_uid(&self, wanted: &str) -> Result<(), String> {
        let given = self.response().and_then(|response| response.get("uid"));
        let given = given.and_then(Json::as_str).unwrap_or_default();
        if !self.is_v1() || given == wanted {
            return Ok(());
        }
        let (wanted, given) = (go_quote(wanted), go_quote(given));
        Err(format!("expected response.uid={wanted}, got {given}"))
    }

    /// Whether the review has version v1, which is stricter than v1beta1.
    pub fn is_v1(&self) -> bool {
        self.form.version == ReviewVersion::V1
    }
}
