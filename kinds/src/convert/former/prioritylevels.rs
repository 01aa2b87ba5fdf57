//! PriorityLevelConfigurations of `flowcontrol.apiserver.k8s.io`. Shares have another name in the
//! first versions, and cannot be 0 before `v1`.

use api::object::Object;

use crate::defaults::flowcontrol::prioritylevelconfiguration;
use crate::defaults::{Members, member, set_absent, set_number};

/// The annotation that marks 0 shares as intended.
const KEEPS_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const SHARES: &str = "nominalConcurrencyShares";

fn limited(object: &mut Object) -> Option<&mut Members> {
    let spec = member(&mut object.0, "spec")?;
    member(spec, "limited")
}

/// Converts from `v1beta1` or `v1beta2`.
pub(super) fn with_assured_shares(object: &mut Object) {
    if let Some(limited) = limited(object) {
        if let Some(shares) = limited.remove("assuredConcurrencyShares") {
            limited.insert(SHARES.to_owned(), shares);
        }
        set_number(limited, SHARES, 30);
    }
    prioritylevelconfiguration(object);
}

/// Converts from `v1beta3`.
pub(super) fn v1beta3(object: &mut Object) {
    let annotations = member(object.metadata_mut(), "annotations");
    let keeps_zero = annotations.is_some_and(|all| all.remove(KEEPS_ZERO).is_some());
    if let Some(limited) = limited(object) {
        match keeps_zero {
            true => set_absent(limited, SHARES, 0),
            false => set_number(limited, SHARES, 30),
        }
    }
    prioritylevelconfiguration(object);
}
