//! The versions of this binary, and the commit that it was built from. The build script sets the
//! commit; packagers may do so too.

/// The version of Taffrail.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The minor version of Kubernetes whose API is served.
pub const KUBERNETES_MINOR: &str = "36";

/// The commit; `None` in a development build.
pub const COMMIT: Option<&str> = option_env!("TAFFRAIL_GIT_COMMIT");

/// Whether the files of the build were those of the commit: `clean` or `dirty`.
pub const TREE_STATE: Option<&str> = option_env!("TAFFRAIL_GIT_TREE_STATE");

/// The time of the build (RFC 3339); `None` in a development build.
pub const DATE: Option<&str> = option_env!("TAFFRAIL_BUILD_DATE");

/// The compiler's name, and its version if the build script knows it.
pub const COMPILER: &str = match option_env!("TAFFRAIL_COMPILER") {
    Some(compiler) => compiler,
    None => "rustc",
};

/// Returns operating system and architecture, as Go names them.
pub fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    format!("{system}/{architecture}")
}

/// Returns the version of Kubernetes whose API is served, with that of Taffrail after the plus
/// sign, which comparisons of versions ignore.
pub fn git_version() -> String {
    format!("v1.{KUBERNETES_MINOR}.0+taffrail-{VERSION}")
}

/// Returns the program and its version.
pub fn program() -> String {
    format!("taffrail {VERSION}")
}
