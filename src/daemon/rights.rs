//! What users may do, for plugins of admission that ask.

use std::sync::Arc;

use crate::admission::rights::{Act, Rights};
use crate::api::user_info::UserInfo;
use crate::server::auth::{Attributes, Authorizer, Decision};

/// The rights that an authorizer gives.
pub(super) struct ByAuthorizer(pub(super) Arc<dyn Authorizer>);

impl Rights for ByAuthorizer {
    fn allow(&self, user: &UserInfo, act: Act<'_>) -> bool {
        let attributes = Attributes {
            user,
            verb: act.verb,
            is_resource_request: true,
            path: "",
            api_group: act.group,
            api_version: "*",
            resource: act.resource,
            subresource: "",
            namespace: "",
            name: act.name,
            field_selector: "",
            label_selector: "",
        };
        self.0.authorize(&attributes).0 == Decision::Allow
    }
}
