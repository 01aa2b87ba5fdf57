//! The known time zones.

/// The names of all time zones, one per line, sorted.
const NAMES: &str = include_str!("time_zones.txt");

/// Looks up a time zone.
///
/// # Errors
/// Returns Go's message if the name is invalid or unknown.
pub(super) fn load(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.split(['/', '\\']).any(|part| part == "..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    if NAMES.lines().any(|known| known == name) {
        return Ok(());
    }
    Err(format!("unknown time zone {name}"))
}
