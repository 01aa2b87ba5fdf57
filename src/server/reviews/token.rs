//! Whose token it is (API-295).

use std::sync::Arc;

use serde_json::json;

use super::{Review, texts, user_info};
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::server::auth::{Authenticators, Credentials};

/// Tells the user of a bearer token.
pub(super) struct TokenReview {
    pub(super) authenticators: Arc<Authenticators>,
}

impl Review for TokenReview {
    fn answer(&self, review: &mut Object, _asking: &UserInfo) -> Result<(), Box<Status>> {
        let spec = review.0.get("spec");
        let member = |name| spec.and_then(|spec| spec.get(name));
        let token = member("token").and_then(|token| token.as_str());
        let token = token.filter(|token| !token.is_empty()).ok_or_else(|| {
            let why = "token is required for TokenReview in authentication";
            Box::new(Status::bad_request(why))
        })?;
        let credentials = Credentials {
            bearer: Some(token.as_bytes()),
            certificates: None,
        };
        // Tokens here are for no audience, so none of those that were asked for has one.
        let is_for_audience = texts(member("audiences")).is_empty();
        let known = self.authenticators.recognises(&credentials);
        let status = match known.filter(|_| is_for_audience) {
            Some(user) => json!({"authenticated": true, "user": user_info(&user)}),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        };
        review.0.insert("status".to_owned(), status);
        Ok(())
    }
}
