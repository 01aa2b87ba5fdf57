//! The help of programs and commands whose settings have other defaults than those of `serve`.

use clap::Command;

use crate::config::TEST_SERVER_DEFAULTS;

/// Shows other defaults of settings: the names that clap knows, and texts.
pub(super) fn with_defaults<'d>(
    mut command: Command,
    defaults: impl IntoIterator<Item = (&'d str, &'d str)>,
) -> Command {
    for (name, default) in defaults {
        command = command.mut_arg(name, |argument| {
            let help = argument.get_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let text = help.split(" [default:").next().unwrap_or_default();
            argument
                .help(format!("{text} [default: {default}]"))
                .long_help(None)
        });
    }
    command
}

/// Settings about stores that a server for tests does not have.
const OF_OTHER_STORES: [&str; 5] = [
    "data_dir",
    "require_existing_data",
    "accept_loss",
    "storage_backend",
    "unsafe_no_fsync",
];

/// The command `test`, as --help shows it.
pub(super) fn of_test_server(command: Command) -> Command {
    let defaults = TEST_SERVER_DEFAULTS.map(|(name, value)| (name.replace('-', "_"), value));
    let defaults = defaults.iter().map(|(name, value)| match *value {
        "" => (name.as_str(), "none"),
        value => (name.as_str(), value),
    });
    with_defaults(command, defaults).mut_args(|argument| {
        let name = argument.get_id().as_str();
        // linear: a few settings.
        let is_of_others = OF_OTHER_STORES.contains(&name) || name.starts_with("etcd_");
        let hides = is_of_others || argument.is_hide_set();
        argument.hide(hides)
    })
}
