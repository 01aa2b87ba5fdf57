//! Validation of TokenRequests (API-226).

use api::field::Field;
use api::object::Object;
use serde_json::Value;

use api::error_list::ErrorList;

/// The shortest lifetime of a token, in seconds.
const SECONDS_MIN: i64 = 600;

/// The longest lifetime of a token, in seconds.
const SECONDS_MAX: i64 = 1 << 32;

/// Validates a TokenRequest.
pub fn validate_token_request(object: &Object, errors: &mut ErrorList) {
    let path = ["spec", "expirationSeconds"];
    let seconds = object.at(&path).and_then(Value::as_i64).unwrap_or_default();
    let spec = Field::of(object, "spec");
    let field = spec.member("expirationSeconds");
    if seconds < SECONDS_MIN {
        let why = "may not specify a duration less than 10 minutes";
        errors.push(field.invalid_value(seconds, why));
    }
    if seconds > SECONDS_MAX {
        let why = "may not specify a duration larger than 2^32 seconds";
        errors.push(field.invalid_value(seconds, why));
    }
}
