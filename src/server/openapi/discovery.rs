//! Paths that are not about resources: discovery, the version, and the documents of the token
//! issuer (API-22 to API-24, API-38, API-227).

use super::naming;
use super::operations::{self, Answer, Operation, Path};
use super::schemas::Root;
use crate::server::encoding::{JSON, MediaTypeRef};

/// The facts about a path that returns one document.
struct Described {
    template: String,
    id: String,
    tag: String,
    description: &'static str,
    answer: Answer<'static>,
}

/// `/api/`: the versions of the core group.
pub(super) fn core_versions() -> Path<'static> {
    path(Described {
        template: "/api/".to_owned(),
        id: "getCoreAPIVersions".to_owned(),
        tag: "core".to_owned(),
        description: "get available API versions",
        answer: Answer::Schema(Root::Meta("APIVersions")),
    })
}

/// `/apis/`: all groups.
pub(super) fn groups() -> Path<'static> {
    path(Described {
        template: "/apis/".to_owned(),
        id: "getAPIVersions".to_owned(),
        tag: "apis".to_owned(),
        description: "get available API versions",
        answer: Answer::Schema(Root::Meta("APIGroupList")),
    })
}

/// `/apis/{group}/`: a group.
pub(super) fn group(name: &str) -> Path<'static> {
    let tag = naming::group(name);
    path(Described {
        template: format!("/apis/{name}/"),
        id: format!("get{}APIGroup", naming::capitalized(&tag)),
        tag,
        description: "get information of a group",
        answer: Answer::Schema(Root::Meta("APIGroup")),
    })
}

/// `/apis/{group}/{version}/`: the resources of a version.
pub(super) fn resources(group: &str, version: &str) -> Path<'static> {
    let name = naming::group(group);
    let named = [&*name, version].map(naming::capitalized).concat();
    path(Described {
        template: format!("{}/", naming::root(group, version)),
        id: format!("get{named}APIResources"),
        tag: format!("{name}_{version}"),
        description: "get available resources",
        answer: Answer::Schema(Root::Meta("APIResourceList")),
    })
}

/// `/version/`: the version of the server.
pub(super) fn version() -> Path<'static> {
    let mut path = path(Described {
        template: "/version/".to_owned(),
        id: "getCodeVersion".to_owned(),
        tag: "version".to_owned(),
        description: "get the version information for this server",
        answer: Answer::Schema(Root::Version),
    });
    for operation in &mut path.operations {
        operation.consumes = vec![JSON];
        operation.produces = vec![JSON];
    }
    path
}

/// `/.well-known/openid-configuration/`: the configuration of the token issuer.
pub(super) fn issuer_configuration() -> Path<'static> {
    let of = Described {
        template: "/.well-known/openid-configuration/".to_owned(),
        id: "getServiceAccountIssuerOpenIDConfiguration".to_owned(),
        tag: "WellKnown".to_owned(),
        description: "get service account issuer OpenID configuration, also known as the 'OIDC \
                      discovery doc'",
        answer: Answer::Text,
    };
    of_issuer(of, JSON)
}

/// `/openid/v1/jwks/`: the public keys of the token issuer.
pub(super) fn issuer_keys() -> Path<'static> {
    let of = Described {
        template: "/openid/v1/jwks/".to_owned(),
        id: "getServiceAccountIssuerOpenIDKeyset".to_owned(),
        tag: "openid".to_owned(),
        description: "get service account issuer OpenID JSON Web Key Set (contains public token \
                      verification keys)",
        answer: Answer::Text,
    };
    of_issuer(of, "application/jwk-set+json")
}

fn of_issuer(of: Described, media_type: &'static str) -> Path<'static> {
    let mut path = path(of);
    for operation in &mut path.operations {
        operation.consumes = Vec::new();
        operation.produces = vec![media_type];
    }
    path
}

fn path(of: Described) -> Path<'static> {
    let operation = Operation {
        method: "get",
        id: of.id,
        tag: of.tag,
        action: None,
        description: of.description.to_owned(),
        parameters: Vec::new(),
        consumes: MediaTypeRef::names().collect(),
        body: None,
        produces: MediaTypeRef::names().collect(),
        codes: &[200],
        answer: of.answer,
        kind: None,
    };
    operations::path(of.template, vec![operation])
}
