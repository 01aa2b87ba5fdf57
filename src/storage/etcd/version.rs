//! Which versions of etcd answer a request for progress truthfully (ST-72). Pure.

/// Whether this version does. One that can't be read does not.
pub(super) fn believes_progress(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(str::parse::<u32>);
    let mut next = || parts.next().and_then(Result::ok);
    let (Some(major), Some(minor), Some(patch)) = (next(), next(), next()) else {
        return false;
    };
    match (major, minor) {
        (3, 4) => patch >= 31,
        (3, 5) => patch >= 13,
        newer => newer > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_believed_from_3_4_31_and_3_5_13_on_st_72_pf_27() {
        for good in [
            "3.4.31",
            "3.4.40",
            "3.5.13",
            "3.5.30",
            "3.6.0",
            "3.6.0-rc.1",
            "4.0.0",
        ] {
            assert!(believes_progress(good), "{good}");
        }
        for bad in [
            "3.4.30", "3.4.23", "3.5.0", "3.5.12", "3.3.99", "", "3.5", "x.y.z",
        ] {
            assert!(!believes_progress(bad), "{bad}");
        }
    }
}
