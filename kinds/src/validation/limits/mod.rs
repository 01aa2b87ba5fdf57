//! Validation of ResourceQuotas and LimitRanges.

mod quotas;
mod ranges;

pub use quotas::{
    validate_resourcequota, validate_resourcequota_status_update, validate_resourcequota_update,
};
pub use ranges::{validate_limitrange, validate_limitrange_update};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::limits::{limitrange, resourcequota};
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/limits.json");
        check(cases, |path| match path.ends_with("/limitranges") {
            true => Functions {
                defaults: Some(limitrange),
                create: validate_limitrange,
                update: Some(validate_limitrange_update),
            },
            false => Functions {
                defaults: Some(resourcequota),
                create: validate_resourcequota,
                update: Some(validate_resourcequota_update),
            },
        });
        let cases = include_str!("../../../recorded/limits_status.json");
        check(cases, |_| Functions {
            defaults: Some(resourcequota),
            create: validate_resourcequota,
            update: Some(validate_resourcequota_status_update),
        });
    }
}
