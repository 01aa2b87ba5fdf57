//! Authorizers that decide the same about all requests (AC-29).

use std::future::ready;

use futures_util::future::{BoxFuture, FutureExt};

use super::authorizer::{Attributes, Authorization, Authorizer, Rules};
use crate::api::user_info::UserInfo;

/// Allows every request, as kube-apiserver's mode `AlwaysAllow` does.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        ready(Authorization::allow_if(true)).boxed()
    }

    fn rules_for<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        ready(Rules::everything()).boxed()
    }
}

/// Allows no request. It has no opinion, so it denies nothing that another authorizer allows.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        ready(Authorization::no_opinion("Everything is forbidden.")).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::authorizer::{Authorizers, Decision, Member};
    use super::*;
    use std::sync::Arc;

    fn asked(modes: Vec<Arc<dyn Authorizer>>) -> Authorization {
        let members = modes.into_iter().map(|authorizer| Member {
            kind: "Fixed",
            name: "fixed".to_owned(),
            authorizer,
        });
        let user = UserInfo::default();
        let attributes = Attributes::on_resource(&user, "get", "", "pods");
        let authorizers = Authorizers::new(members.collect());
        authorizers.authorize(&attributes).now_or_never().unwrap()
    }

    #[test]
    fn one_allows_everything_and_the_other_has_no_opinion_ac_29() {
        let denied = asked(vec![Arc::new(AlwaysDeny)]);
        assert_eq!(
            denied,
            Authorization::no_opinion("Everything is forbidden.")
        );
        let allowed = asked(vec![Arc::new(AlwaysDeny), Arc::new(AlwaysAllow)]);
        assert_eq!(
            (allowed.decision, allowed.reason.as_str()),
            (Decision::Allow, "")
        );
    }
}
