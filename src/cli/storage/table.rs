//! `taffrail storage table`: the storage plan of each resource.
//!
//! The table comes from the configuration alone, without a daemon or an open store.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::complaint::EXIT_REFUSED;
use crate::cli::output::{Output, OutputOptions};
use crate::config::Config;
use crate::storage::factory::{BackEnd, Destination, FactoryError, StorageFactory};

const HEADINGS: [&str; 7] = [
    "RESOURCE",
    "BACK END",
    "PREFIX",
    "STORED AS",
    "READ AS",
    "MEDIA TYPE",
    "WATCH CACHE",
];

/// How the table is shown.
#[derive(Args, Clone, Debug)]
pub struct TableOptions {
    #[command(flatten)]
    form: OutputOptions,
}

/// Prints the table for the factory that `factory` builds from the configuration. Prints the
/// `warnings` about both on stderr.
pub fn run(
    config: &Config,
    options: &TableOptions,
    factory: impl FnOnce(&Config) -> Result<StorageFactory, FactoryError>,
    warnings: impl FnOnce(&Config, &StorageFactory) -> Vec<String>,
) -> ExitCode {
    let told = factory(config).and_then(|factory| {
        let text = match options.form.output {
            Output::Text => text(&factory)?,
            Output::Json => format!("{:#}\n", json(&factory)?),
        };
        Ok((text, warnings(config, &factory)))
    });
    match told {
        Ok((text, warnings)) => {
            // The reader may have gone, as `head` does.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            for warning in warnings {
                eprintln!("taffrail storage table: warning: {warning}");
            }
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            crate::cli::complaint::complain("taffrail storage table", &refusal);
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

fn text(factory: &StorageFactory) -> Result<String, FactoryError> {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(factory.table()?.iter().map(row));
    // The back end in the daemon itself has no servers.
    let back_ends = factory.back_ends().into_iter();
    let served = back_ends.filter(|back_end| !back_end.servers.is_empty());
    let servers: String = served.map(|back_end| servers(&back_end)).collect();
    Ok(aligned(&rows) + &servers)
}

fn json(factory: &StorageFactory) -> Result<Value, FactoryError> {
    let resources = factory.table()?;
    let resources = resources.iter().map(|destination| {
        json!({
            "resource": destination.requested.to_string(),
            "backEnd": destination.back_end,
            "prefix": destination.keys.resource_prefix().to_string(),
            "storedAs": destination.storage_version.to_string(),
            "readAs": destination.memory_version.to_string(),
            "mediaType": destination.media_type.to_string(),
            "isCached": destination.is_cached,
        })
    });
    let back_ends = factory.back_ends().into_iter();
    let back_ends = back_ends.map(|one| json!({ "name": one.name, "servers": one.servers }));
    Ok(json!({
        "resources": resources.collect::<Vec<_>>(),
        "backEnds": back_ends.collect::<Vec<_>>(),
    }))
}

fn row(destination: &Destination) -> [String; 7] {
    [
        destination.requested.to_string(),
        destination.back_end.clone(),
        destination.keys.resource_prefix().to_string(),
        destination.storage_version.to_string(),
        destination.memory_version.to_string(),
        destination.media_type.to_string(),
        if destination.is_cached { "yes" } else { "no" }.to_owned(),
    ]
}

fn servers(back_end: &BackEnd) -> String {
    format!("{}: {}\n", back_end.name, back_end.servers.join(";"))
}

/// Aligns columns to their widest cell.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths);
        let padded: String = cells
            .map(|(cell, width)| format!("{cell:width$}   "))
            .collect();
        padded.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::daemon::storage_factory;

    fn table(settings: Settings) -> String {
        let config = Config::load(settings, None).unwrap();
        text(&storage_factory(&config).unwrap()).unwrap()
    }

    #[test]
    fn a_line_for_each_resource_says_how_it_is_stored_kv_2() {
        let table = table(Settings::default());
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("RESOURCE "), "{table}");
        assert_eq!(lines[0].find("BACK END"), lines[1].find("base"), "{table}");
        let cells = |name: &str| {
            let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            cells("services "),
            [
                "services",
                "base",
                "/registry/services/specs/",
                "v1",
                "v1",
                "application/json",
                "yes"
            ]
        );
        assert_eq!(cells("nodes")[2], "/registry/minions/");
        assert_eq!(cells("deployments.apps")[3], "apps/v1");
        assert!(lines.iter().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn what_is_configured_shows() {
        let table = table(Settings {
            etcd_prefix: Some("/else".to_owned()),
            etcd_servers: Some("http://c:1".parse().unwrap()),
            etcd_servers_overrides: Some("/events#http://b:1;http://a:1".parse().unwrap()),
            storage_media_type: Some("application/yaml".parse().unwrap()),
            watch_cache_sizes: Some("pods#0".parse().unwrap()),
            ..Settings::default()
        });
        let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("events").contains(" override-0 "), "{table}");
        assert!(line("pods").contains(" /else/pods/ "), "{table}");
        assert!(line("pods").ends_with(" application/yaml   no"), "{table}");
        let servers = "\nbase: http://c:1\noverride-0: http://a:1;http://b:1\n";
        assert!(table.ends_with(servers), "{table}");
    }
}
