//! Reviews of tokens and of access: questions about users and their permissions (API-292 to
//! API-295).
//!
//! This folder serves the paths of the groups `authentication.k8s.io` and `authorization.k8s.io`. A
//! client creates a review, and gets the same review with its status. Nothing is stored. The
//! answers come from the Authenticators and Authorizers of [`crate::auth`]; how they decide is not
//! known here.

mod access;
mod own;
mod rules;
mod token;

use std::sync::{Arc, OnceLock};

use actors::engine::{Key, Revision};
use futures_util::future::FutureExt;
use serde_json::{Map, Value, json};

use crate::admission::{Admission, Operation};
use crate::api::managed_fields::FieldManager;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::auth::{Authenticators, Authorizer};
use crate::clock;
use crate::kinds::definitions::{authentication, authorization};
use crate::registry::NamespacedName;
use crate::registry::context::RequestContext;
use crate::registry::rest::{Answering, Created, Creater, RestStorage};
use crate::registry::store::{reconcile_namespace, unstored};
use crate::storage::codec::Codec;

use access::{AccessReview, Subject};
use own::SelfSubjectReview;
use rules::RulesReview;
use token::TokenReview;

/// A kind of review.
trait Review: Send + Sync {
    /// Checks a review before validating admission sees it (HK-1).
    ///
    /// # Errors
    /// 400 or 422 for an invalid review.
    fn check(&self, review: &Object) -> Result<(), Box<Status>>;

    /// Fills in the status of a valid review.
    ///
    /// # Errors
    /// The status can't be determined.
    fn answer<'a>(&'a self, review: &'a mut Object, asking: &'a UserInfo) -> Answering<'a, ()>;
}

/// Serves the path of a kind of review.
pub struct ReviewStore {
    admission: Admission,
    kind: Arc<ResourceDefinition>,
    codec: Codec,
    review: Box<dyn Review>,
    /// A review without any value.
    empty: OnceLock<Object>,
}

/// Returns the paths of all kinds of reviews.
pub fn paths(
    authenticators: &Arc<Authenticators>,
    authorizer: &Arc<dyn Authorizer>,
    api_audiences: &[String],
    admission: &Admission,
) -> Vec<Arc<dyn RestStorage>> {
    let access = |kind: &Arc<ResourceDefinition>, subject| AccessReview {
        kind: Arc::clone(kind),
        authorizer: Arc::clone(authorizer),
        subject,
    };
    let path = |kind: ResourceDefinition, review: &dyn Fn(&Arc<_>) -> Box<dyn Review>| {
        let kind = Arc::new(kind);
        Arc::new(ReviewStore {
            codec: Codec::new(Arc::clone(&kind)),
            review: review(&kind),
            admission: admission.clone(),
            kind,
            empty: OnceLock::new(),
        }) as Arc<dyn RestStorage>
    };
    vec![
        path(authentication::tokenreviews(), &|_| {
            Box::new(TokenReview {
                authenticators: Arc::clone(authenticators),
                api_audiences: api_audiences.to_vec(),
            })
        }),
        path(authentication::selfsubjectreviews(), &|_| {
            Box::new(SelfSubjectReview)
        }),
        path(authorization::subjectaccessreviews(), &|kind| {
            Box::new(access(kind, Subject::Named))
        }),
        path(authorization::localsubjectaccessreviews(), &|kind| {
            Box::new(access(kind, Subject::NamedInNamespace))
        }),
        path(authorization::selfsubjectaccessreviews(), &|kind| {
            Box::new(access(kind, Subject::Asking))
        }),
        path(authorization::selfsubjectrulesreviews(), &|_| {
            Box::new(RulesReview {
                authorizer: Arc::clone(authorizer),
            })
        }),
    ]
}

impl ReviewStore {
    async fn review(
        &self,
        context: &RequestContext,
        namespace: Option<&str>,
        mut object: Object,
        options: &WriteOptions,
    ) -> Result<Created, Box<Status>> {
        reconcile_namespace(&mut object, &self.kind, namespace)?;
        let manager = FieldManager {
            definition: &self.kind,
            versions: &[],
            subresource: "",
            filter: None,
            now: clock::now(),
            empty: &self.empty,
            awaited: None,
        };
        manager.update(None, &mut object, &context.manager);
        self.admit(context, namespace, &mut object, options).await?;
        self.review.answer(&mut object, &context.user).await?;
        self.kind.canonicalize(&mut object);
        let shown = self
            .codec
            .wire(&Key::new("/reviews"), &object, Revision::ZERO);
        let shown = shown.map_err(|error| Box::new(Status::internal(error)))?;
        Ok(Created::Object(Arc::new(shown)))
    }
}

impl ReviewStore {
    /// Runs both stages of admission, and checks the review between them. Webhooks are asked about
    /// reviews, too (HK-14).
    async fn admit(
        &self,
        context: &RequestContext,
        namespace: Option<&str>,
        object: &mut Object,
        options: &WriteOptions,
    ) -> Result<(), Box<Status>> {
        let name = object.name().to_owned();
        let at = NamespacedName {
            namespace,
            name: &name,
        };
        let attributes = unstored(self, context, at, Operation::Create(options));
        self.admission.admit(&attributes, Some(object)).await?;
        self.review.check(object)?;
        self.admission.validate(&attributes, Some(object)).await
    }
}

impl RestStorage for ReviewStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn creater(&self) -> Option<&dyn Creater> {
        Some(self)
    }
}

impl Creater for ReviewStore {
    /// A dry run returns the same, because nothing is written.
    fn create<'a>(
        &'a self,
        context: &'a RequestContext,
        namespace: Option<&'a str>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        self.review(context, namespace, object, options).boxed()
    }
}

/// Returns a user as reviews show it.
fn user_info(user: &UserInfo) -> Value {
    let mut members = Map::new();
    members.insert("username".to_owned(), user.name.as_str().into());
    if !user.uid.is_empty() {
        members.insert("uid".to_owned(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        members.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        members.insert("extra".to_owned(), json!(user.extra));
    }
    members.into()
}

/// Returns a list of texts, empty if `value` is absent.
fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    let texts = items.filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
