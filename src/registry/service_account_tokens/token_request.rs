//! `serviceaccounts/token` signs a token on request (API-226).

use std::sync::{Arc, OnceLock};

use actors::engine::{Key, Revision};
use futures_util::future::FutureExt;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::bound_objects::{self, BoundObjects};
use crate::api::error_list::ErrorList;
use crate::api::field_error::FieldError;
use crate::api::managed_fields::FieldManager;
use crate::api::object::{Object, put, whole_seconds};
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::auth::service_accounts::{
    Binding, NewToken, NotSigned, Reference, ServiceAccountTokens,
};
use crate::clock;
use crate::kinds::definitions::authentication;
use crate::kinds::validation::authentication::validate_token_request;
use crate::registry::rest::{Answering, Created, NamedCreater, RestStorage};
use crate::registry::store::reconcile_namespace;
use crate::registry::{NamespacedName, RequestContext};
use crate::storage::codec::Codec;

/// Kubelets request exactly this number of seconds for a pod's projected volume, so it identifies
/// such tokens.
const OF_VOLUMES: i64 = 3607;

/// The validity of such tokens in seconds when they are extended: a year.
const EXTENDED: i64 = 365 * 24 * 3600;

/// The audit annotation with the id of the signed token.
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";

/// Serves the path of tokens.
pub struct TokenStore {
    kind: Arc<ResourceDefinition>,
    codec: Codec,
    tokens: Arc<ServiceAccountTokens>,
    objects: Arc<BoundObjects>,
    /// A request without any value.
    empty: OnceLock<Object>,
}

/// The audiences and the validity in seconds of the token to be signed.
struct Wishes {
    audiences: Vec<String>,
    seconds: i64,
}

impl TokenStore {
    /// Serves tokens of the service accounts in `objects`.
    pub fn new(tokens: &Arc<ServiceAccountTokens>, objects: &Arc<BoundObjects>) -> TokenStore {
        let kind = Arc::new(authentication::tokenrequests());
        TokenStore {
            codec: Codec::new(Arc::clone(&kind)),
            kind,
            tokens: Arc::clone(tokens),
            objects: Arc::clone(objects),
            empty: OnceLock::new(),
        }
    }

    async fn issue(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        mut request: Object,
        options: &WriteOptions,
    ) -> Result<Created, Box<Status>> {
        reconcile_namespace(&mut request, &self.kind, at.namespace)?;
        self.kind.behaviour.set_defaults(&mut request);
        self.own(context, &mut request);
        let accounts = self.objects.accounts();
        let admitting = accounts.admit_unstored(self, context, at, &mut request, options);
        admitting.await?;
        if !request.name().is_empty() && request.name() != at.name {
            let why = "must match the service account name if specified";
            let fault = FieldError::invalid("metadata.name", request.name(), why);
            let status = Status::invalid_object(&self.kind, at.name, &[fault]);
            return Err(Box::new(status));
        }
        let account = self.account(at, request.uid()).await?;
        let now = clock::now();
        self.complete(&mut request, &account, now);
        let errors = ErrorList::of(|errors| validate_token_request(&request, errors));
        if !errors.is_empty() {
            let status = Status::invalid_object(&self.kind, "", errors.kept());
            return Err(Box::new(status));
        }
        let validating = accounts.validate_unstored(self, context, at, &request, options);
        validating.await?;
        let binding = self.binding(at, &request).await?;
        let wishes = self.wishes(context, &mut request);
        let token = self.token(context, &account, binding, &wishes, now)?;
        let expires = now.as_second().saturating_add(wishes.seconds);
        let expires = Timestamp::from_second(expires).unwrap_or(Timestamp::MAX);
        let status = json!({"token": token, "expirationTimestamp": whole_seconds(expires)});
        put(&mut request, &["status"], status);
        self.kind.canonicalize(&mut request);
        let shown = self
            .codec
            .wire(&Key::new("/tokenrequests"), &request, Revision::ZERO);
        let shown = shown.map_err(|error| Box::new(Status::internal(error)))?;
        Ok(Created::Object(Arc::new(shown)))
    }

    /// Records field owners, as for objects that are stored.
    fn own(&self, context: &RequestContext, request: &mut Object) {
        let manager = FieldManager {
            definition: &self.kind,
            versions: &[],
            subresource: "token",
            filter: None,
            now: clock::now(),
            empty: &self.empty,
            awaited: None,
        };
        manager.update(None, request, &context.manager);
    }

    async fn account(&self, at: NamespacedName<'_>, uid: &str) -> Result<Object, Box<Status>> {
        let account = self.objects.accounts().read(at, "").await?;
        if uid.is_empty() || uid == account.uid() {
            return Ok(account);
        }
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid()
        );
        let resource = named(&self.kind.group, &self.kind.kind);
        Err(Box::new(Status::conflict(&resource, at.name, &why)))
    }

    /// Fills in fields that the client omitted.
    fn complete(&self, request: &mut Object, account: &Object, now: Timestamp) {
        for name in ["name", "namespace", "uid"] {
            let text = account.meta(name).to_owned();
            request.set_meta(name, &text);
        }
        request.set_meta("creationTimestamp", &whole_seconds(now));
        if request.items(&["spec", "audiences"]).is_empty() {
            let audiences = json!(self.tokens.config().audiences);
            put(request, &["spec", "audiences"], audiences);
        }
    }

    /// Returns the objects that the token is bound to.
    async fn binding(
        &self,
        at: NamespacedName<'_>,
        request: &Object,
    ) -> Result<Binding, Box<Status>> {
        let Some(reference) = request.at(&["spec", "boundObjectRef"]) else {
            return Ok(Binding::default());
        };
        if reference.is_null() {
            return Ok(Binding::default());
        }
        let text = |name| {
            let text = reference.get(name).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let (kind, name) = (text("kind"), text("name"));
        let (group, version) = group_and_version(text("apiVersion"));
        let store = Some(kind).filter(|_| group.is_empty());
        let Some(store) = store.and_then(|kind| self.objects.of_kind(kind)) else {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Box::new(Status::bad_request(why)));
        };
        if name.is_empty() {
            return Err(Box::new(Status::bad_request("Name parameter required.")));
        }
        let namespace = at.namespace.filter(|_| kind != "Node");
        let object = store.read(NamespacedName { namespace, name }, "").await?;
        let mut node = None;
        if kind == "Pod" {
            self.check_account(at.name, &object)?;
            node = self.node_of(&object).await?;
        }
        let uid = text("uid");
        if !uid.is_empty() && uid != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            let conflict = Status::conflict(&named("", kind), name, &why);
            return Err(Box::new(conflict));
        }
        let bound = Some(reference_to(&object));
        Ok(match kind {
            "Pod" => Binding {
                pod: bound,
                node,
                ..Binding::default()
            },
            "Node" => Binding {
                node: bound,
                ..Binding::default()
            },
            _ => Binding {
                secret: bound,
                ..Binding::default()
            },
        })
    }

    fn check_account(&self, account: &str, pod: &Object) -> Result<(), Box<Status>> {
        if pod.text(&["spec", "serviceAccountName"]) == account {
            return Ok(());
        }
        let why = format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different \
             serviceaccount name."
        );
        Err(Box::new(Status::bad_request(why)))
    }

    /// Returns the node of a pod. A node that does not exist is returned by its name.
    async fn node_of(&self, pod: &Object) -> Result<Option<Reference>, Box<Status>> {
        let name = pod.text(&["spec", "nodeName"]);
        let (false, Some(nodes)) = (name.is_empty(), self.objects.of_kind("Node")) else {
            return Ok(None);
        };
        let at = NamespacedName {
            namespace: None,
            name,
        };
        match bound_objects::read(nodes, at).await {
            Ok(node) => Ok(Some(reference_to(&node))),
            Err(status) if status.code == 404 => Ok(Some(Reference {
                name: name.to_owned(),
                uid: String::new(),
            })),
            Err(status) => Err(Box::new(Status::internal(status.message))),
        }
    }

    /// Returns the requested audiences and validity, within the allowed limits.
    fn wishes(&self, context: &RequestContext, request: &mut Object) -> Wishes {
        let path = ["spec", "expirationSeconds"];
        let mut seconds = request
            .at(&path)
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let most = self.tokens.config().seconds_max;
        if most > 0 && seconds > most {
            context.warn([format!(
                "requested expiration of {seconds} seconds shortened to {most} seconds"
            )]);
            seconds = most;
            put(request, &path, seconds.into());
        }
        let audiences = request.items(&["spec", "audiences"]).iter();
        let audiences = audiences.filter_map(Value::as_str);
        Wishes {
            audiences: audiences.map(str::to_owned).collect(),
            seconds,
        }
    }

    fn token(
        &self,
        context: &RequestContext,
        account: &Object,
        binding: Binding,
        wishes: &Wishes,
        now: Timestamp,
    ) -> Result<String, Box<Status>> {
        let config = self.tokens.config();
        let is_for_api = || {
            let mut audiences = wishes.audiences.iter();
            // linear: the audiences of the API are a setting of one or two values.
            audiences.all(|one| config.audiences.contains(one))
        };
        let is_extended =
            config.extends && binding.pod.is_some() && wishes.seconds == OF_VOLUMES && is_for_api();
        let token = NewToken {
            issuer: config.issuers.first().cloned().unwrap_or_default(),
            audiences: wishes.audiences.clone(),
            namespace: account.namespace().to_owned(),
            account: reference_to(account),
            binding,
            now: now.as_second(),
            seconds: match is_extended {
                true => EXTENDED,
                false => wishes.seconds,
            },
            warn_after: is_extended.then_some(wishes.seconds),
            id: uuid::Uuid::new_v4().to_string(),
        };
        let signed = self.tokens.sign(&token).map_err(|why| {
            Box::new(match why {
                NotSigned::TooLong => {
                    let error = FieldError::forbidden("spec.audiences", why.to_string());
                    Status::invalid_object(&self.kind, "", &[error])
                }
                _ => Status::internal(format!("failed to generate token: {why}")),
            })
        })?;
        context.annotate(ISSUED, || format!("JTI={}", token.id));
        Ok(signed)
    }
}

fn reference_to(object: &Object) -> Reference {
    Reference {
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
    }
}

/// Returns a resource with the name of a kind, for messages.
fn named(group: &str, kind: &str) -> ResourceDefinition {
    ResourceDefinition::named(group, "", kind, kind)
}

/// Splits an API version into group and version. Both are empty if it has several slashes.
fn group_and_version(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        None => ("", text),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(both) => both,
    }
}

impl RestStorage for TokenStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        self.objects.accounts().definition()
    }

    fn subresource(&self) -> Option<&str> {
        Some("token")
    }

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn named_creater(&self) -> Option<&dyn NamedCreater> {
        Some(self)
    }
}

impl NamedCreater for TokenStore {
    /// A dry run returns the same, because nothing is written.
    fn create_named<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        self.issue(context, at, object, options).boxed()
    }
}
