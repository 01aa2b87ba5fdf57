//! Conversion between the versions of a custom resource by a webhook (CRD-206 to CRD-211, HK-77 to
//! HK-83).
//!
//! This folder owns the call, and the two schemas that its objects pass through. Where conversions
//! take place is decided in `storage/converted`.

mod metrics;
mod review;

use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::FutureExt;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::definition::Webhook;
use crate::admission::hooks::client::{
    ClientConfig, FailureLines, PostError, ReviewVersion, WebhookTransport,
};
use crate::api::deep;
use crate::api::large::{is_large, leave_thread};
use crate::api::object::Object;
use crate::api::resource::{Converter, Converting, ResourceDefinition};
use crate::api::schema::Empty;
use crate::api::text::truncation::truncated;
use review::Fault;

/// How long a call may take.
const TIME: Duration = Duration::from_secs(30);

/// The most bytes of the text of a failure.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// A webhook as the definition of a resource names it.
#[derive(Clone, Debug)]
pub struct Conversion {
    definition: String,
    client: ClientConfig,
    review: Option<ReviewVersion>,
    lines: Arc<FailureLines>,
}

impl Conversion {
    /// Reads the webhook of the definition with this name.
    pub(super) fn of(definition: &str, webhook: &Webhook) -> Conversion {
        let mut client = webhook.client_config.clone().unwrap_or_default();
        // A bundle of blanks counts as empty (CRD-210).
        let bundle = BASE64_STANDARD.decode(&client.ca_bundle);
        if bundle.is_ok_and(|bundle| bundle.trim_ascii().is_empty()) {
            client.ca_bundle.clear();
        }
        Conversion {
            definition: definition.to_owned(),
            client,
            review: ReviewVersion::first_known(&webhook.conversion_review_versions),
            lines: Arc::default(),
        }
    }
}

impl Conversion {
    fn log(&self, fault: &Fault) {
        let text = fault.text();
        if let Some((why, of)) = self.lines.turn(fault.label(), &text) {
            let (definition, untold, within) = (&self.definition, of.count, of.within);
            tracing::warn!(
                definition,
                why,
                untold,
                within,
                "a conversion by a webhook failed"
            );
        }
    }
}

/// Converts between the versions of a resource by the webhook that its definition names now.
pub struct WebhookConverter {
    conversion: RwLock<Arc<Conversion>>,
    transport: Arc<dyn WebhookTransport>,
}

impl WebhookConverter {
    /// Creates a converter that calls a webhook over this transport.
    pub fn new(
        conversion: Arc<Conversion>,
        transport: Arc<dyn WebhookTransport>,
    ) -> WebhookConverter {
        WebhookConverter {
            conversion: RwLock::new(conversion),
            transport,
        }
    }

    /// Calls this webhook from now on, because the definition has changed.
    pub fn follow(&self, conversion: Arc<Conversion>) {
        *self.conversion.write() = conversion;
    }

    async fn measured(
        &self,
        objects: Vec<Object>,
        from: &ResourceDefinition,
        to: &ResourceDefinition,
        is_list: bool,
    ) -> Result<Vec<Object>, String> {
        if objects.is_empty() {
            return Ok(objects);
        }
        let conversion = Arc::clone(&self.conversion.read());
        let Some(version) = conversion.review else {
            return Err("no supported conversion review versions".to_owned());
        };
        let begun = Clock::now();
        let asked = self.ask(&conversion.client, version, objects, to, is_list);
        let asked = asked.await;
        let took = begun.elapsed();
        metrics::called(asked.as_ref().err().map(Fault::label), took);
        metrics::converted(
            &conversion.definition,
            &from.version,
            &to.version,
            asked.is_ok(),
            took,
        );
        asked.map_err(|fault| {
            conversion.log(&fault);
            let text = format!(
                "conversion webhook for {}, Kind={} {}",
                from.api_version(),
                from.kind,
                fault.text()
            );
            truncated(text, TEXT_BYTES_MAX)
        })
    }

    async fn ask(
        &self,
        client: &ClientConfig,
        version: ReviewVersion,
        objects: Vec<Object>,
        to: &ResourceDefinition,
        is_list: bool,
    ) -> Result<Vec<Object>, Fault> {
        let uid = uuid::Uuid::new_v4().to_string();
        let desired = to.api_version();
        let body = review::review(version, &uid, &desired, &objects);
        let deadline = Instant::now() + TIME;
        let answer = self.transport.post(client, body, deadline).await;
        let answer = answer.map_err(|error| match error {
            PostError::Unusable(why) | PostError::Failed(why) => Fault::Call(why),
        })?;
        if is_large(&answer) {
            leave_thread().await;
        }
        let converted = deep::retry(|| review::read(&answer, version, &uid)).await?;
        review::taken_over(objects, converted, &desired, is_list)
    }
}

impl Converter for WebhookConverter {
    fn convert<'c>(
        &'c self,
        objects: Vec<Object>,
        from: &'c ResourceDefinition,
        to: &'c ResourceDefinition,
        is_list: bool,
    ) -> Converting<'c> {
        async move {
            let mut converted = self.measured(objects, from, to, is_list).await?;
            for object in &mut converted {
                // Prunes, and applies no defaults (HK-79).
                to.behaviour.convert_from_hub(&to.version, object);
                to.canonicalize_with(object, Empty::Forgotten);
            }
            Ok(converted)
        }
        .boxed()
    }
}
