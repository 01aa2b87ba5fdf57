//! Conversion between the versions of a stored resource.

/// How objects are converted between a version and the other versions of its stored resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ConversionStrategy {
    /// They are not. Objects are stored in this version only.
    #[default]
    Unsupported,
    /// Only `apiVersion` changes, as with the strategy `None` of custom resources.
    TypeOnly,
}
