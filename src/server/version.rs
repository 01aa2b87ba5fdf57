//! `/version` (API-38): what kubectl compares its own version with.

use serde_json::json;

/// The Kubernetes minor version whose API this is.
const MINOR: &str = "36";

/// The document. Kubernetes' clients read `gitVersion` as a semantic version: ours stands behind
/// the plus, where it plays no part in comparisons.
pub fn document() -> Vec<u8> {
    let ours = env!("CARGO_PKG_VERSION");
    let document = json!({
        "major": "1",
        "minor": MINOR,
        "gitVersion": format!("v1.{MINOR}.0+taffrail-{ours}"),
        "gitCommit": option_env!("TAFFRAIL_GIT_COMMIT").unwrap_or_default(),
        "gitTreeState": option_env!("TAFFRAIL_GIT_TREE_STATE").unwrap_or_default(),
        "buildDate": option_env!("TAFFRAIL_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
        "goVersion": "",
        "compiler": concat!("rustc ", env!("CARGO_PKG_RUST_VERSION")),
        "platform": platform(),
    });
    document.to_string().into_bytes()
}

/// Operating system and architecture in Go's words.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

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
