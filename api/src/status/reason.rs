//! The machine-readable reason of an error.

use std::borrow::Cow;

use serde::Serialize;

/// A StatusReason. The set is open, because others that refuse a request on behalf of the daemon,
/// such as a webhook, may use their own reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct StatusReason(Cow<'static, str>);

impl StatusReason {
    /// An unknown reason, which is omitted from the document.
    pub const UNKNOWN: StatusReason = StatusReason::of("");
    /// 400
    pub const BAD_REQUEST: StatusReason = StatusReason::of("BadRequest");
    /// 401
    pub const UNAUTHORIZED: StatusReason = StatusReason::of("Unauthorized");
    /// 403
    pub const FORBIDDEN: StatusReason = StatusReason::of("Forbidden");
    /// 404
    pub const NOT_FOUND: StatusReason = StatusReason::of("NotFound");
    /// 405
    pub const METHOD_NOT_ALLOWED: StatusReason = StatusReason::of("MethodNotAllowed");
    /// 406
    pub const NOT_ACCEPTABLE: StatusReason = StatusReason::of("NotAcceptable");
    /// 409
    pub const ALREADY_EXISTS: StatusReason = StatusReason::of("AlreadyExists");
    /// 409
    pub const CONFLICT: StatusReason = StatusReason::of("Conflict");
    /// 410
    pub const EXPIRED: StatusReason = StatusReason::of("Expired");
    /// 410
    pub const GONE: StatusReason = StatusReason::of("Gone");
    /// 413
    pub const REQUEST_ENTITY_TOO_LARGE: StatusReason = StatusReason::of("RequestEntityTooLarge");
    /// 415
    pub const UNSUPPORTED_MEDIA_TYPE: StatusReason = StatusReason::of("UnsupportedMediaType");
    /// 422
    pub const INVALID: StatusReason = StatusReason::of("Invalid");
    /// 429
    pub const TOO_MANY_REQUESTS: StatusReason = StatusReason::of("TooManyRequests");
    /// 500
    pub const INTERNAL_ERROR: StatusReason = StatusReason::of("InternalError");
    /// 500
    pub const SERVER_TIMEOUT: StatusReason = StatusReason::of("ServerTimeout");
    /// 503
    pub const SERVICE_UNAVAILABLE: StatusReason = StatusReason::of("ServiceUnavailable");
    /// 504
    pub const TIMEOUT: StatusReason = StatusReason::of("Timeout");

    const fn of(text: &'static str) -> StatusReason {
        StatusReason(Cow::Borrowed(text))
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for StatusReason {
    fn from(text: String) -> StatusReason {
        StatusReason(Cow::Owned(text))
    }
}
