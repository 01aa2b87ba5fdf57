//! Impersonation, which there is none yet: a request that asks to be carried out as somebody else
//! must not be carried out as the one who asks (API-284).

use http::HeaderMap;

use crate::api::status::Status;
use crate::server::auth::User;

/// What all headers of impersonation begin with.
const PREFIX: &str = "impersonate-";

/// Refuses a request that carries a header of impersonation, whatever it asks for.
///
/// # Errors
/// 403
pub fn refuse(headers: &HeaderMap, user: &User) -> Result<(), Box<Status>> {
    let mut names = headers.keys().map(|name| name.as_str());
    match names.find(|name| name.starts_with(PREFIX)) {
        Some(name) => Err(Box::new(Status::forbidden_impersonation(
            &user.name,
            shown(name),
        ))),
        None => Ok(()),
    }
}

/// A header's name, of which a stranger may have chosen the end.
fn shown(name: &str) -> &'static str {
    match name {
        "impersonate-user" => "Impersonate-User",
        "impersonate-group" => "Impersonate-Group",
        "impersonate-uid" => "Impersonate-Uid",
        name if name.starts_with("impersonate-extra-") => "Impersonate-Extra-*",
        _ => "Impersonate-*",
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn refused(name: &'static str) -> Option<String> {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let headers = [(name, HeaderValue::from_static("nobody"))];
        let refused = refuse(&headers.into_iter().collect(), &User::admin());
        refused.err().map(|status| status.message)
    }

    #[test]
    fn every_header_of_impersonation_is_refused_and_none_that_looks_like_one_api_284() {
        for (name, shown) in [
            ("Impersonate-User", "Impersonate-User"),
            ("impersonate-group", "Impersonate-Group"),
            ("IMPERSONATE-UID", "Impersonate-Uid"),
            ("Impersonate-Extra-scopes", "Impersonate-Extra-*"),
            ("Impersonate-Something", "Impersonate-*"),
        ] {
            let said = refused(name).unwrap();
            assert!(said.contains(&format!("the header {shown} ")), "{said}");
            assert!(!said.contains("nobody"), "{said}");
        }
        // Whoever is no front proxy may send these for nothing (API-276).
        for name in [
            "X-Remote-User",
            "X-Impersonate-User",
            "Impersonated",
            "Accept",
        ] {
            assert_eq!(refused(name), None, "{name}");
        }
    }
}
