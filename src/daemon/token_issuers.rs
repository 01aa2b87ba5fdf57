//! The issuers of tokens that settings name, and which anonymous requests are served (AC-14 to
//! AC-17).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::StartError;
use crate::auth::jwt::{
    AuthenticationConfigError, AuthenticationConfiguration, ClaimRule, ConfigFile, IssuerConfig,
    JwtConfig, JwtIssuers, Mappings, PrefixedClaim, check_authentication_config,
};
use crate::auth::{Anonymous, Revocations};
use crate::config::Config;
use crate::egress::EgressClient;
use crate::files::given;

/// The claim whose names need no prefix.
const EMAIL: &str = "email";

/// The prefix that means none.
const NO_PREFIX: &str = "-";

/// The authentication that settings ask for, beyond that of the daemon's own credentials.
pub(super) struct TokenIssuers {
    /// The issuers, if there may be any.
    pub(super) issuers: Option<Arc<JwtIssuers>>,
    /// Which requests without credentials are served.
    pub(super) anonymous: Anonymous,
    /// The file, if there is one.
    file: Option<ConfigFile>,
}

/// Checks what settings ask for, and asks nobody.
///
/// # Errors
/// [`StartError`]
pub(super) fn check(config: &Config) -> Result<(), StartError> {
    let (issuers, _) = configuration(config)?;
    Ok(check_authentication_config(&issuers, &config.issuers())?)
}

impl TokenIssuers {
    /// Starts to ask the issuers for their keys, through `client`.
    ///
    /// # Errors
    /// [`StartError`]
    pub(super) fn start(
        config: &Config,
        revocations: &Revocations,
        client: &Arc<EgressClient>,
    ) -> Result<TokenIssuers, StartError> {
        let (all, file) = configuration(config)?;
        let anonymous = anonymous(config, &all);
        let issuers = match all.jwt.is_empty() && file.is_none() {
            true => None,
            false => {
                let own = config.issuers();
                let client = Arc::clone(client);
                let issuers = JwtIssuers::start(&all, own, client, revocations.clone())?;
                Some(Arc::new(issuers))
            }
        };
        Ok(TokenIssuers {
            issuers,
            anonymous,
            file,
        })
    }

    /// Returns the task that follows the file, if there is one.
    pub(super) fn follow(&self) -> Option<impl Future<Output = ()> + use<>> {
        let (issuers, file) = (self.issuers.clone()?, self.file.clone()?);
        Some(async move { issuers.follow(file).await })
    }
}

/// Returns the configuration of the file, or that of the flags.
fn configuration(
    config: &Config,
) -> Result<(AuthenticationConfiguration, Option<ConfigFile>), StartError> {
    if config.authentication_config.is_set() {
        let file = ConfigFile::read(config.authentication_config.as_path())?;
        if file.config.anonymous.is_some() && config.anonymous_auth.0.is_some() {
            let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous \
                       field is configured in authentication configuration file";
            return Err(AuthenticationConfigError::Invalid(why.to_owned()).into());
        }
        return Ok((file.config.clone(), Some(file)));
    }
    let jwt = match config.oidc_issuer_url.is_empty() {
        true => Vec::new(),
        false => vec![of_flags(config)?],
    };
    let anonymous = None;
    Ok((AuthenticationConfiguration { jwt, anonymous }, None))
}

/// Returns the issuer of the flags of OpenID Connect (AC-17).
fn of_flags(config: &Config) -> Result<JwtConfig, StartError> {
    let url = &config.oidc_issuer_url;
    let claim = &config.oidc_username_claim;
    let prefix = match config.oidc_username_prefix.as_str() {
        NO_PREFIX => String::new(),
        "" if claim == EMAIL => String::new(),
        "" => format!("{url}#"),
        prefix => prefix.to_owned(),
    };
    let groups = match config.oidc_groups_claim.is_empty() {
        true => PrefixedClaim::default(),
        false => PrefixedClaim {
            claim: config.oidc_groups_claim.clone(),
            prefix: Some(config.oidc_groups_prefix.clone()),
            expression: String::new(),
        },
    };
    let rules = config.oidc_required_claim.0.iter();
    let rules = rules.filter_map(|rule| rule.split_once('='));
    let rules = rules.map(|(claim, value)| ClaimRule {
        claim: claim.to_owned(),
        required_value: value.to_owned(),
        ..ClaimRule::default()
    });
    Ok(JwtConfig {
        issuer: IssuerConfig {
            url: url.clone(),
            audiences: vec![config.oidc_client_id.clone()],
            certificate_authority: match config.oidc_ca_file.is_set() {
                true => authority(config.oidc_ca_file.as_path())?,
                false => String::new(),
            },
            ..IssuerConfig::default()
        },
        claim_validation_rules: rules.collect(),
        claim_mappings: Mappings {
            username: PrefixedClaim {
                claim: claim.clone(),
                prefix: Some(prefix),
                expression: String::new(),
            },
            groups,
            ..Mappings::default()
        },
        algorithms: config.oidc_signing_algs.0.clone(),
        ..JwtConfig::default()
    })
}

fn authority(path: &Path) -> Result<String, AuthenticationConfigError> {
    let refuse = |why: std::io::Error| {
        let path = path.display();
        AuthenticationConfigError::Invalid(format!("--oidc-ca-file={path}: {why}"))
    };
    let file = given::read(path, given::PEM_BYTES_MAX).map_err(refuse)?;
    // A user who can write the file decides who the issuer is.
    file.check_writers().map_err(refuse)?;
    Ok(file.text().map_err(refuse)?.to_owned())
}

/// Returns which requests without credentials are served (AC-16).
fn anonymous(config: &Config, all: &AuthenticationConfiguration) -> Anonymous {
    match &all.anonymous {
        None if config.anonymous_auth.0 == Some(false) => Anonymous::Nowhere,
        None => Anonymous::Everywhere,
        Some(given) if !given.enabled => Anonymous::Nowhere,
        Some(given) if given.conditions.is_empty() => Anonymous::Everywhere,
        Some(given) => {
            let paths = given.conditions.iter();
            let paths: HashSet<String> = paths.map(|one| one.path.clone()).collect();
            Anonymous::At(paths)
        }
    }
}
