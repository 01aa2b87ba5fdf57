//! Reviews of the requesting user (API-294).

use futures_util::future::FutureExt;
use serde_json::json;

use super::{Review, user_info};
use crate::api::object::{Object, whole_seconds};
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::clock;
use crate::registry::rest::Answering;

/// Returns the requesting user. The content of the body is ignored.
pub(super) struct SelfSubjectReview;

impl SelfSubjectReview {
    fn tell(&self, review: &mut Object, asking: &UserInfo) -> Result<(), Box<Status>> {
        review.set_managed_fields(None);
        let now = whole_seconds(clock::now());
        review
            .0
            .insert("metadata".to_owned(), json!({"creationTimestamp": now}));
        let status = json!({"userInfo": user_info(asking)});
        review.0.insert("status".to_owned(), status);
        Ok(())
    }
}

impl Review for SelfSubjectReview {
    fn check(&self, _review: &Object) -> Result<(), Box<Status>> {
        Ok(())
    }

    fn answer<'a>(&'a self, review: &'a mut Object, asking: &'a UserInfo) -> Answering<'a, ()> {
        std::future::ready(self.tell(review, asking)).boxed()
    }
}
