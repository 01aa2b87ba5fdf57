//! The forms that objects are stored in.

use std::fmt;

/// A form that objects are stored in. All forms are read, whichever is configured (KV-23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    /// Compact JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
    /// The protobuf of Kubernetes.
    Protobuf,
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediaType::Json => "application/json",
            MediaType::Yaml => "application/yaml",
            MediaType::Protobuf => "application/vnd.kubernetes.protobuf",
        })
    }
}
