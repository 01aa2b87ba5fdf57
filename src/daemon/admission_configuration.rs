//! The configuration of admission plugins (HK-98).

use super::StartError;
use crate::admission::TolerationSeconds;
use crate::admission::configuration::{Loaded, load};
use crate::config::{ADMISSION_PLUGINS, Config};

/// Returns the configuration of plugins, from the settings and from their file if there is one.
///
/// # Errors
/// [`StartError::Admission`]
pub(super) fn read(config: &Config) -> Result<Loaded, StartError> {
    let mut loaded = read_file(config)?;
    loaded.settings.tolerations = TolerationSeconds {
        not_ready: config.default_not_ready_toleration_seconds,
        unreachable: config.default_unreachable_toleration_seconds,
    };
    Ok(loaded)
}

fn read_file(config: &Config) -> Result<Loaded, StartError> {
    let file = &config.admission_control_config_file;
    if !file.is_set() {
        return Ok(Loaded::default());
    }
    let is_built = |name: &str| {
        let mut known = ADMISSION_PLUGINS.iter();
        // linear: 41 names, for each plugin of the file once.
        let known = known.find(|known| known.name == name);
        known.map(|known| known.is_built)
    };
    load(file.as_path(), &is_built).map_err(StartError::Admission)
}

/// Checks the file of the settings.
pub(super) fn check(config: &Config) -> Option<StartError> {
    read(config).err()
}
