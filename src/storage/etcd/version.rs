//! Learns which version of etcd a server has, and whether it answers progress requests truthfully
//! (ST-72).

use std::time::Duration;

use super::call_error::CallError;
use super::servers::Member;

/// How long a server may take to answer.
pub(super) const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks a server for its version once. Returns whether it answered.
pub(super) async fn learn_version(member: &Member) -> bool {
    match version_of(member).await {
        Ok(version) => {
            note_version(member, &version);
            true
        }
        Err(why) => {
            tracing::debug!(server = %member.url, why, "the server's version is not known");
            false
        }
    }
}

fn note_version(member: &Member, version: &str) {
    let is_supported = supports_progress(version);
    if !member.progress_support.learn(is_supported) {
        return;
    }
    if is_supported {
        tracing::debug!(server = %member.url, version, "the server's version is known");
    } else {
        tracing::warn!(
            server = %member.url,
            version,
            "this etcd does not report the progress of watches reliably: consistent reads go to \
             etcd; versions from 3.4.31 and 3.5.13 on allow serving them from the cache"
        );
    }
}

async fn version_of(member: &Member) -> Result<String, String> {
    let mut maintenance = member.maintenance.clone();
    let status = tokio::time::timeout(STATUS_TIMEOUT, maintenance.status());
    match status.await {
        Ok(Ok(status)) => Ok(status.version().to_owned()),
        Ok(Err(error)) => Err(CallError::of(&error).into_read_error().to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Whether servers of this version answer progress requests truthfully. A version that cannot be
/// parsed does not.
fn supports_progress(version: &str) -> bool {
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
    fn progress_is_supported_from_3_4_31_and_3_5_13_on_st_72_pf_27() {
        for good in [
            "3.4.31",
            "3.4.40",
            "3.5.13",
            "3.5.30",
            "3.6.0",
            "3.6.0-rc.1",
            "4.0.0",
        ] {
            assert!(supports_progress(good), "{good}");
        }
        for bad in [
            "3.4.30", "3.4.23", "3.5.0", "3.5.12", "3.3.99", "", "3.5", "x.y.z",
        ] {
            assert!(!supports_progress(bad), "{bad}");
        }
    }
}
