//! `/version` (API-38): the Kubernetes version that kubectl compares with its own, and the build.

use metrics::{describe_gauge, gauge};
use serde_json::json;

use crate::build_info::{self, KUBERNETES_MINOR};

/// Returns the document. Kubernetes clients parse `gitVersion` as a semantic version. The version
/// of Taffrail follows the plus sign, which version comparisons ignore.
pub fn document() -> Vec<u8> {
    let document = json!({
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "gitVersion": build_info::git_version(),
        "gitCommit": build_info::COMMIT.unwrap_or_default(),
        "gitTreeState": build_info::TREE_STATE.unwrap_or_default(),
        "buildDate": build_info::DATE.unwrap_or("1970-01-01T00:00:00Z"),
        "goVersion": "",
        "compiler": build_info::COMPILER,
        "platform": build_info::platform(),
    });
    document.to_string().into_bytes()
}

/// Sets the gauges of the running version and build.
pub fn measure() {
    describe_gauge!(
        "kubernetes_build_info",
        "Kubernetes version that the API reports to clients"
    );
    describe_gauge!("taffrail_build_info", "Version of Taffrail");
    let commit = build_info::COMMIT.unwrap_or_default();
    let date = build_info::DATE.unwrap_or_default();
    gauge!(
        "kubernetes_build_info",
        "major" => "1", "minor" => KUBERNETES_MINOR, "git_version" => build_info::git_version(),
        "git_commit" => commit, "git_tree_state" => build_info::TREE_STATE.unwrap_or_default(),
        "build_date" => date, "go_version" => "", "compiler" => build_info::COMPILER,
        "platform" => build_info::platform(),
    )
    .set(1.0);
    gauge!(
        "taffrail_build_info",
        "version" => build_info::VERSION, "commit" => commit, "date" => date,
    )
    .set(1.0);
}

/// Includes the build script for testing.
#[cfg(test)]
#[path = "../../build.rs"]
#[allow(dead_code)]
mod build_script;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::build_script::{find_commit, rfc3339};
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn commit(folder: &Path) -> Option<String> {
        find_commit(folder).map(|found| found.commit)
    }

    #[test]
    fn the_commit_is_found_wherever_git_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(commit(folder), None);
        write(folder, ".git/HEAD", &format!("{COMMIT}\n"));
        assert_eq!(commit(folder).as_deref(), Some(COMMIT));
        write(folder, ".git/HEAD", "ref: refs/heads/a/b\n");
        assert_eq!(commit(folder), None);
        let packed = format!("# pack-refs\n{COMMIT} refs/heads/a/b\n^{COMMIT}\n");
        write(folder, ".git/packed-refs", &packed);
        assert_eq!(commit(folder).as_deref(), Some(COMMIT));
        let newer = COMMIT.replace('0', "f");
        write(folder, ".git/refs/heads/a/b", &newer);
        assert_eq!(commit(folder), Some(newer));
        write(folder, ".git/refs/heads/a/b", "no commit");
        assert_eq!(commit(folder).as_deref(), Some(COMMIT));
    }

    #[test]
    fn a_worktree_has_its_commit_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
        let own = "main/.git/worktrees/tree";
        write(folder, &format!("{own}/HEAD"), "ref: refs/heads/x\n");
        write(folder, &format!("{own}/commondir"), "../..\n");
        write(folder, "main/.git/refs/heads/x", COMMIT);
        assert_eq!(commit(&folder.join("tree")).as_deref(), Some(COMMIT));
        write(folder, "broken/.git", "something else");
        assert_eq!(commit(&folder.join("broken")), None);
    }

    #[test]
    fn seconds_are_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
        rfc3339(u64::MAX);
    }

    #[test]
    fn the_build_is_described() {
        let document: serde_json::Value = serde_json::from_slice(&document()).unwrap();
        assert!(
            document["compiler"]
                .as_str()
                .unwrap()
                .starts_with("rustc 1.")
        );
        let date = document["buildDate"].as_str().unwrap();
        assert!(date.parse::<jiff::Timestamp>().is_ok(), "{date}");
        let platform = document["platform"].as_str().unwrap();
        assert!(platform.contains('/'), "{platform}");
    }

    #[test]
    fn the_version_is_1_36_and_names_ours_behind_the_plus_api_38() {
        let document: serde_json::Value = serde_json::from_slice(&document()).unwrap();
        assert_eq!(document["major"], "1");
        assert_eq!(document["minor"], "36");
        let version = document["gitVersion"].as_str().unwrap();
        let (kubernetes, ours) = version.split_once('+').unwrap();
        assert_eq!(kubernetes, "v1.36.0");
        let is_build_metadata = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
        };
        assert!(is_build_metadata(ours), "{ours}");
        assert!(ours.ends_with(env!("CARGO_PKG_VERSION")));
    }
}
