//! The metrics of service account tokens (AC-75).

use std::sync::LazyLock;

use metrics::{Counter, counter, describe_counter};

const LEGACY_TOKENS: &str = "serviceaccount_legacy_tokens_total";
const STALE_TOKENS: &str = "serviceaccount_stale_tokens_total";
const VALID_TOKENS: &str = "serviceaccount_valid_tokens_total";
const GENERATED_SECRETS: &str = "serviceaccount_legacy_auto_token_uses_total";
const MANUAL_SECRETS: &str = "serviceaccount_legacy_manual_token_uses_total";
const INVALID_SECRETS: &str = "serviceaccount_invalid_legacy_auto_token_uses_total";

// Handles, because pods send tokens with most requests.
static STALE: LazyLock<Counter> = LazyLock::new(|| counter!(STALE_TOKENS));
static VALID: LazyLock<Counter> = LazyLock::new(|| counter!(VALID_TOKENS));

/// Describes the metrics.
pub(super) fn describe() {
    describe_counter!(LEGACY_TOKENS, "Uses of tokens that name no audience");
    describe_counter!(
        STALE_TOKENS,
        "Uses of tokens of pods after the time by which they should have been renewed"
    );
    describe_counter!(
        VALID_TOKENS,
        "Uses of tokens of pods before the time by which they should be renewed"
    );
    describe_counter!(
        GENERATED_SECRETS,
        "Uses of tokens in Secrets that were made for their service account"
    );
    describe_counter!(
        MANUAL_SECRETS,
        "Uses of tokens in Secrets that somebody created"
    );
    describe_counter!(
        INVALID_SECRETS,
        "Uses of tokens in Secrets that are marked as invalid"
    );
}

/// Counts the use of a token that names no audience.
pub(super) fn legacy() {
    counter!(LEGACY_TOKENS).increment(1);
}

/// Counts the use of a token that is renewed from time to time.
pub(super) fn renewable(is_stale: bool) {
    let counter = if is_stale { &STALE } else { &VALID };
    counter.increment(1);
}

/// Counts the use of a token in a Secret.
pub fn of_secret(is_generated: bool) {
    let name = match is_generated {
        true => GENERATED_SECRETS,
        false => MANUAL_SECRETS,
    };
    counter!(name).increment(1);
}

/// Counts the use of a token in a Secret that is marked as invalid.
pub fn of_invalid_secret() {
    counter!(INVALID_SECRETS).increment(1);
}
