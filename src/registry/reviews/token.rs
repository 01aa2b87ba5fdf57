//! Reviews of tokens (API-295).

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::json;

use super::{Review, texts, user_info};
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::auth::Authenticators;
use crate::registry::rest::Answering;

/// Reviews a bearer token: returns its user.
pub(super) struct TokenReview {
    pub(super) authenticators: Arc<Authenticators>,
    /// The audiences of tokens that name no audience.
    pub(super) api_audiences: Vec<String>,
}

impl TokenReview {
    async fn tell(&self, review: &mut Object) -> Result<(), Box<Status>> {
        let token = token(review)?;
        let audiences = texts(review.at(&["spec", "audiences"]));
        let known = self
            .authenticators
            .review(token.as_bytes(), &audiences, &self.api_audiences);
        let mut status = match known.await {
            Ok((user, audiences)) => json!({
                "authenticated": true,
                "user": user_info(&user),
                "audiences": audiences,
            }),
            Err(refused) => {
                let reasons = refused.reasons();
                let error = match reasons.is_empty() {
                    true => "invalid bearer token".to_owned(),
                    false => format!("[invalid bearer token, {}]", reasons.join(", ")),
                };
                json!({"user": {}, "error": error})
            }
        };
        if status["audiences"].as_array().is_some_and(Vec::is_empty)
            && let Some(members) = status.as_object_mut()
        {
            members.remove("audiences");
        }
        review.0.insert("status".to_owned(), status);
        Ok(())
    }
}

/// Returns the token of a review.
fn token(review: &Object) -> Result<&str, Box<Status>> {
    match review.text(&["spec", "token"]) {
        "" => {
            let why = "token is required for TokenReview in authentication";
            Err(Box::new(Status::bad_request(why)))
        }
        token => Ok(token),
    }
}

impl Review for TokenReview {
    fn check(&self, review: &Object) -> Result<(), Box<Status>> {
        token(review).map(|_| ())
    }

    fn answer<'a>(&'a self, review: &'a mut Object, _asking: &'a UserInfo) -> Answering<'a, ()> {
        self.tell(review).boxed()
    }
}
