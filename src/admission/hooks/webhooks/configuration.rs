//! Webhook configurations as they are stored. Pure.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;

use crate::admission::hooks::client::ClientConfig;
use crate::admission::hooks::conditions::{self, ConditionText};
use crate::admission::hooks::expression::Expression;
use crate::admission::hooks::matching::{HookSelectors, MatchPolicy, Rule};
use crate::admission::hooks::settings::{FailurePolicy, ReinvocationPolicy};

/// A ValidatingWebhookConfiguration or a MutatingWebhookConfiguration.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The webhooks in their order.
    pub webhooks: Vec<Arc<Webhook>>,
}

/// One webhook. It was stored valid and with its defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Webhook {
    /// Its name, for errors, metrics and the log.
    pub name: String,
    /// Where it is.
    pub client_config: ClientConfig,
    /// The requests that it is asked about.
    pub rules: Vec<Rule>,
    /// The meaning of a failed call.
    pub failure_policy: FailurePolicy,
    /// Whether rules match other versions of their resources.
    pub match_policy: MatchPolicy,
    /// The namespaces and objects that it is asked about.
    #[serde(flatten)]
    pub selectors: HookSelectors,
    /// `None`, `NoneOnDryRun`, `Some` or `Unknown`.
    pub side_effects: String,
    /// The time for a call, in seconds.
    pub timeout_seconds: Option<u32>,
    /// The versions of reviews that it knows, in the order of its preference.
    pub admission_review_versions: Vec<String>,
    /// The conditions as they are written.
    pub match_conditions: Vec<ConditionText>,
    /// Whether it may run again after later changes.
    pub reinvocation_policy: ReinvocationPolicy,
    /// The compiled conditions, made at their first use.
    #[serde(skip)]
    compiled: OnceLock<Vec<Expression>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    webhooks: Vec<Arc<Webhook>>,
}

impl Configuration {
    /// Reads a stored configuration.
    ///
    /// # Errors
    /// The text is not a configuration.
    pub fn read(text: &[u8]) -> Result<Configuration, serde_json::Error> {
        let document: Document = serde_json::from_slice(text)?;
        Ok(Configuration {
            webhooks: document.webhooks,
        })
    }
}

impl Webhook {
    /// Returns the time for a call (HK-42).
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(10).into())
    }

    /// Returns whether calls for requests that store nothing are allowed (HK-34).
    pub fn allows_dry_run(&self) -> bool {
        matches!(&*self.side_effects, "None" | "NoneOnDryRun")
    }

    /// Returns the conditions.
    pub(super) fn conditions(&self) -> &[Expression] {
        self.compiled
            .get_or_init(|| conditions::compile(&self.match_conditions))
    }
}
