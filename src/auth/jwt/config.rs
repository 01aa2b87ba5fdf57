//! The file of `--authentication-config`: issuers of tokens, and anonymous requests (AC-14).

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::api::field_validation::strict_decoding_error;
use crate::documents::{KindAndVersion, Tree, types};
use crate::schema::ObjectType;

const GROUP: &str = "apiserver.config.k8s.io";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

static TYPE: LazyLock<ObjectType> = LazyLock::new(|| {
    types(include_str!("types.txt")).object_type("authentication.AuthenticationConfiguration")
});

/// The issuers whose tokens are accepted, and how requests without credentials are served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AuthenticationConfiguration {
    /// The issuers, in the order in which they are asked.
    pub jwt: Vec<JwtConfig>,
    /// Requests without credentials, unless a flag decides.
    pub anonymous: Option<AnonymousConfig>,
}

/// Which requests without credentials are served (AC-16).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AnonymousConfig {
    /// Whether any are.
    pub enabled: bool,
    /// If there are any, only requests that meet one of them are served.
    pub conditions: Vec<AnonymousCondition>,
}

/// A condition for requests without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AnonymousCondition {
    /// The whole path.
    pub path: String,
}

/// An issuer, and what its tokens mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtConfig {
    /// The issuer.
    pub issuer: IssuerConfig,
    /// Conditions for claims.
    pub claim_validation_rules: Vec<ClaimRule>,
    /// Which claims make the user.
    pub claim_mappings: Mappings,
    /// Conditions for users.
    pub user_validation_rules: Vec<UserRule>,
    /// The accepted algorithms of signatures; an empty list stands for all. Only flags limit them.
    #[serde(skip)]
    pub algorithms: Vec<String>,
}

/// Where the keys of an issuer are, and whom its tokens are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IssuerConfig {
    /// The claim `iss` of its tokens.
    pub url: String,
    /// The URL of its document, if it is not the usual one.
    #[serde(rename = "discoveryURL")]
    pub discovery_url: Option<String>,
    /// Authorities of its servers, in PEM.
    pub certificate_authority: String,
    /// The audiences, of which tokens need one.
    pub audiences: Vec<String>,
    /// `MatchAny`, or empty.
    pub audience_match_policy: String,
    /// `controlplane`, `cluster` or empty. All connections are direct here.
    pub egress_selector_type: String,
}

/// A condition for claims: a claim with a value, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRule {
    /// The claim.
    pub claim: String,
    /// The value of the claim.
    pub required_value: String,
    /// An expression over `claims`.
    pub expression: String,
    /// Why a token is refused.
    pub message: String,
}

/// A condition for users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserRule {
    /// An expression over `user`.
    pub expression: String,
    /// Why a user is refused.
    pub message: String,
}

/// Which claims make the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Mappings {
    /// The name.
    pub username: PrefixedClaim,
    /// The groups.
    pub groups: PrefixedClaim,
    /// The uid.
    pub uid: Claim,
    /// Further data.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PrefixedClaim {
    /// The claim.
    pub claim: String,
    /// The prefix, which may be empty.
    pub prefix: Option<String>,
    /// An expression over `claims`.
    pub expression: String,
}

/// A claim, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// An expression over `claims`.
    pub expression: String,
}

/// Further data of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtraMapping {
    /// The key.
    pub key: String,
    /// An expression over `claims`.
    pub value_expression: String,
}

impl AuthenticationConfiguration {
    /// Reads the file.
    ///
    /// # Errors
    /// The fault in the text, in the words of Kubernetes.
    pub fn parse(text: &[u8]) -> Result<AuthenticationConfiguration, String> {
        if text.is_empty() {
            return Err("empty config data".to_owned());
        }
        let tree = Tree::of_file(text)?;
        let KindAndVersion { kind, api_version } = tree.kind_and_version()?;
        if kind.is_empty() || api_version.is_empty() {
            return Err("Object 'Kind' or 'apiVersion' is missing".to_owned());
        }
        let version = api_version.strip_prefix(GROUP);
        let version = version.and_then(|rest| rest.strip_prefix('/'));
        // linear: three versions.
        if kind != KIND || !version.is_some_and(|version| VERSIONS.contains(&version)) {
            return Err(format!(
                "no kind {kind:?} is registered for version {api_version:?}"
            ));
        }
        let document = tree.typed(&TYPE)?;
        if !document.faults.is_empty() {
            return Err(strict_decoding_error(&document.faults));
        }
        serde_json::from_value(document.value).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    fn refusal(text: &str) -> String {
        AuthenticationConfiguration::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn all_versions_are_read_ac_14() {
        for version in VERSIONS {
            let text = format!(
                "apiVersion: {GROUP}/{version}\nkind: {KIND}\njwt:\n- issuer:\n    url: https://a\n    \
                 discoveryURL: https://b\n    audiences: [a]\n  claimMappings:\n    username:\n      \
                 claim: sub\n      prefix: \"\"\n    extra:\n    - key: a.example/b\n      \
                 valueExpression: claims.b\n  claimValidationRules:\n  - claim: c\n    \
                 requiredValue: d\nanonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n"
            );
            let read = AuthenticationConfiguration::parse(text.as_bytes()).unwrap();
            let issuer = &read.jwt[0].issuer;
            assert_eq!(issuer.url, "https://a");
            assert_eq!(issuer.discovery_url.as_deref(), Some("https://b"));
            let mappings = &read.jwt[0].claim_mappings;
            assert_eq!(mappings.username.prefix.as_deref(), Some(""));
            assert_eq!(mappings.groups.prefix, None);
            assert_eq!(mappings.extra[0].value_expression, "claims.b");
            assert_eq!(read.jwt[0].claim_validation_rules[0].required_value, "d");
            assert_eq!(read.anonymous.unwrap().conditions[0].path, "/livez");
        }
    }

    #[test]
    fn the_file_is_decoded_strictly_ac_14() {
        assert_eq!(refusal(""), "empty config data");
        assert_eq!(
            refusal(&format!("{HEAD}jwt: []\njwts: []\njwt: []\n")),
            "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"jwt\" already set in \
             map, unknown field \"jwts\""
        );
        let other = HEAD.replace("v1", "v2");
        assert!(refusal(&other).contains("is registered for version"));
        assert!(refusal(&HEAD.replace("kind", "Kind")).contains("'Kind'"));
        refusal(&format!("{HEAD}jwt: 3\n"));
        refusal("[");
        refusal("a: &a [*a]\n");
        let read = AuthenticationConfiguration::parse(HEAD.as_bytes()).unwrap();
        assert_eq!(read, AuthenticationConfiguration::default());
    }
}
