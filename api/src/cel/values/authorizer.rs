//! Questions about permissions, which expressions of policies ask. The server answers them.

use std::fmt;
use std::sync::Arc;

use super::{Opaque, Value};

/// Answers the questions of expressions.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Returns whether a request may be made, or `None` if that is not known yet. Then the
    /// evaluation ends, and is repeated with the answer.
    fn authorize(&self, request: &Request) -> Option<Decision>;
}

/// A request about which an expression asks. Absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// The namespace and the name of a service account, if it is asked about another user.
    pub service_account: Option<(String, String)>,
    /// The path of a request that is not about a resource.
    pub path: Option<String>,
    /// The API group of a resource.
    pub group: String,
    /// A resource.
    pub resource: String,
    /// A subresource.
    pub subresource: String,
    /// The namespace of the resource.
    pub namespace: String,
    /// The name of the resource.
    pub name: String,
    /// The field selector, as it is written.
    pub field_selector: Option<String>,
    /// The label selector, as it is written.
    pub label_selector: Option<String>,
    /// The verb.
    pub verb: String,
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub is_allowed: bool,
    /// The reason.
    pub reason: String,
    /// The error, if the question could not be answered.
    pub error: Option<String>,
}

/// How far a question was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Stage {
    User,
    Path,
    Group,
    Resource,
}

/// A question, as far as it was asked.
#[derive(Clone, Debug)]
pub struct Authorized {
    pub(in super::super) authorizer: Arc<dyn Authorizer>,
    pub(in super::super) stage: Stage,
    pub(in super::super) request: Request,
}

impl Authorized {
    /// Returns the value of the name `authorizer`.
    pub fn value<'v>(authorizer: Arc<dyn Authorizer>) -> Value<'v> {
        Authorized {
            authorizer,
            stage: Stage::User,
            request: Request::default(),
        }
        .into_value()
    }

    /// Returns the value of the name `authorizer.requestResource`: a question about a resource to
    /// which only the verb is missing.
    pub fn resource<'v>(authorizer: Arc<dyn Authorizer>, request: Request) -> Value<'v> {
        Authorized {
            authorizer,
            stage: Stage::Resource,
            request,
        }
        .into_value()
    }

    pub(in super::super) fn into_value<'v>(self) -> Value<'v> {
        Value::Opaque(Opaque::Authorized(Arc::new(self)))
    }

    /// Returns the name of the question's type.
    pub(in super::super) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::User => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }
}
