//! The time zones that there are.

/// The names of all time zones, one a line, in order.
const NAMES: &str = include_str!("time_zones.txt");

/// Finds a time zone.
///
/// # Errors
/// There is none of this name.
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
