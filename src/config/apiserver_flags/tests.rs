//! The flags of kube-apiserver: known, in one class each, and documented.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Command};

use super::*;
use crate::config::{Config, Settings};

/// The flags of kube-apiserver 1.36 with the types that its help shows.
const ALL: &str = include_str!("../../../tests/fixtures/kube-apiserver-1.36-flags.tsv");

/// Their documentation.
const PAGE: &str = include_str!("../../../docs/kube-apiserver-flags.md");

/// The page about differences, which counts them.
const DEVIATIONS: &str = include_str!("../../../tests/deviations.md");

fn all() -> Vec<(&'static str, &'static str)> {
    ALL.lines()
        .filter_map(|line| line.split_once('\t'))
        .collect()
}

fn settings() -> BTreeSet<String> {
    let entries = Config::default().entries().into_iter();
    entries.map(|entry| entry.name).collect()
}

fn flag(name: &str) -> &'static ApiserverFlag {
    FLAGS.iter().find(|flag| flag.name == name).unwrap()
}

/// The values of these flags, as the command line gives them.
fn given(flags: &[&str]) -> Result<GivenFlags, String> {
    let command = augment(Command::new("t").no_binary_name(true));
    let matches = command.try_get_matches_from(flags);
    let matches = matches.map_err(|error| error.to_string())?;
    Ok(GivenFlags::of(&matches))
}

/// The faults of settings with these flags, or an empty text.
fn refusal(flags: &[&str], settings: Settings) -> String {
    let settings = Settings {
        apiserver_flags: given(flags).unwrap(),
        ..settings
    };
    let loaded = Config::load(settings, None);
    loaded
        .err()
        .map_or(String::new(), |error| error.to_string())
}

#[test]
fn every_flag_of_kube_apiserver_is_a_setting_or_a_row() {
    let settings = settings();
    assert_eq!(all().len(), 173);
    for (name, _) in all() {
        // The parser itself has these two.
        let is_built_in = matches!(name, "help" | "version");
        let rows = FLAGS.iter().filter(|flag| flag.name == name).count();
        let places = usize::from(settings.contains(name)) + usize::from(is_built_in) + rows;
        assert_eq!(places, 1, "{name}");
    }
    for flag in FLAGS {
        assert!(
            all().iter().any(|(name, _)| *name == flag.name),
            "{}",
            flag.name
        );
        let default = flag.parse(flag.default);
        assert!(default.is_ok(), "{}: {default:?}", flag.name);
    }
    assert!(FLAGS.is_sorted_by_key(|flag| flag.name));
}

#[test]
fn the_types_are_those_that_kube_apiservers_help_shows() {
    for flag in FLAGS {
        let (_, shown) = all()
            .into_iter()
            .find(|(name, _)| *name == flag.name)
            .unwrap();
        let is_right = match flag.kind {
            // The help names no type of a switch, and none that has a blank or a digit in it.
            Kind::Bool | Kind::Levels => shown == "bool",
            Kind::Int => shown == "int",
            Kind::Float => shown == "bool" || shown == "float",
            Kind::Duration => shown == "duration",
            Kind::Quantity => shown == "quantity",
            Kind::Ip | Kind::Text | Kind::Words(_) => shown == "string",
            Kind::List | Kind::Versions(..) => shown == "strings",
            Kind::Map => shown == "stringToString",
        };
        assert!(
            is_right,
            "{}: {:?} is shown as {shown}",
            flag.name, flag.kind
        );
    }
}

#[test]
fn lists_of_kube_apiserver_may_be_repeated() {
    let settings = settings();
    for (name, shown) in all() {
        let of_kube_apiserver = [
            "strings",
            "stringArray",
            "mapStringString",
            "stringToString",
            "namedCertKey",
            "colonSeparatedMultimapStringString",
        ];
        // The help does not show the type of the curves.
        let is_one = of_kube_apiserver.contains(&shown) || name == "tls-curve-preferences";
        assert_eq!(is_list(name), is_one, "{name}");
    }
    for name in LISTS {
        assert!(settings.contains(name), "{name}");
    }
}

/// The flags with their rows on the page, by the heading above them.
fn documented() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    let mut found: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut heading = "";
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title;
        }
        let cells = line
            .strip_prefix("| `--")
            .and_then(|rest| rest.split_once("` | "));
        if let Some((name, text)) = cells {
            let text = text.trim_end_matches('|').trim();
            found.entry(heading).or_default().push((name, text));
        }
    }
    found
}

#[test]
fn the_page_has_every_flag_under_its_class() {
    let documented = documented();
    let under = |heading: &str| documented.get(heading).cloned().unwrap_or_default();
    let mut count = 0;
    for flag in FLAGS {
        let (heading, text) = match flag.fate {
            Fate::Obeyed(text) => ("Obeyed", text),
            Fate::NoEffect(text) => ("Without effect", text),
            Fate::Refused(_, text) => ("Refused", text),
        };
        let row = under(heading)
            .into_iter()
            .find(|(name, _)| *name == flag.name);
        let (_, shown) = row.unwrap_or_else(|| panic!("{heading}: {}", flag.name));
        assert!(shown.ends_with(text), "{}: {shown}: {text}", flag.name);
        count += 1;
    }
    for (name, _) in all() {
        if FLAGS.iter().all(|flag| flag.name != name) {
            let rows = under("Obeyed").into_iter();
            assert!(rows.map(|(name, _)| name).any(|one| one == name), "{name}");
            count += 1;
        }
    }
    let rows: usize = documented.values().map(Vec::len).sum();
    assert_eq!((count, rows), (173, 173));
    let words: Vec<&str> = DEVIATIONS.split_whitespace().collect();
    let deviations = words.join(" ");
    for (heading, words) in [
        ("Obeyed", "are obeyed"),
        ("Without effect", "change nothing"),
        ("Refused", "flags are refused"),
    ] {
        let sentence = format!("{} {words}", under(heading).len());
        assert!(deviations.contains(&sentence), "{sentence}");
    }
}

#[test]
fn what_has_no_effect_is_noted_in_one_line_unless_it_is_the_default() {
    let note = |flags: &[&str]| given(flags).unwrap().note();
    assert_eq!(note(&[]), None);
    let defaults = [
        "--profiling",
        "--enable-priority-and-fairness=T",
        "--audit-webhook-batch-throttle-qps=10.0",
        "--v=2",
    ];
    assert_eq!(note(&defaults), None);
    assert_eq!(
        note(&["--profiling=false", "--vmodule=a=1"]).as_deref(),
        Some(
            "flags of kube-apiserver without effect: profiling, vmodule; see \
             docs/kube-apiserver-flags.md"
        )
    );
}

#[test]
fn what_must_not_be_neglected_is_refused() {
    for (flag, value) in [
        ("aggregator-reject-forwarding-redirect", "false"),
        ("audit-log-format", "legacy"),
        ("audit-log-mode", "blocking-strict"),
        ("audit-webhook-config-file", "/a"),
        ("emulated-version", "1.35"),
        ("emulation-forward-compatible", "true"),
        ("max-connection-bytes-per-sec", "1"),
        ("runtime-config-emulation-forward-compatible", "true"),
        ("service-account-signing-endpoint", "/a"),
        ("tracing-config-file", "/a"),
    ] {
        let Fate::Refused(_, instead) = super::tests::flag(flag).fate else {
            panic!("{flag}");
        };
        let refusal = given(&[&format!("--{flag}={value}")]).unwrap_err();
        assert!(refusal.contains(instead), "{refusal}");
    }
    let harmless = ["--emulated-version=kube=1.36", "--audit-log-mode=batch"];
    assert_eq!(given(&harmless).unwrap().note(), None);
    let refused = FLAGS
        .iter()
        .filter(|flag| matches!(flag.fate, Fate::Refused(..)));
    assert_eq!(refused.count(), 10);
}

#[test]
fn stand_ins_set_their_settings_unless_those_are_given() {
    let config = |flags: &[&str], settings: Settings| {
        let settings = Settings {
            apiserver_flags: given(flags).unwrap(),
            ..settings
        };
        Config::load(settings, None).unwrap()
    };
    let level = |flags: &[&str]| config(flags, Settings::default()).log_level.to_string();
    assert_eq!(level(&["--v=3"]), "info");
    assert_eq!(level(&["--v=4"]), "debug");
    let with_level = Settings {
        log_level: Some("warn".parse().unwrap()),
        ..Settings::default()
    };
    assert_eq!(
        config(&["--v=9"], with_level.clone()).log_level.to_string(),
        "warn"
    );
    let json = config(&["--logging-format=json"], Settings::default());
    assert_eq!(json.log_format.to_string(), "json");
    let text = config(&["--logging-format=text"], Settings::default());
    assert_eq!(text.log_format.to_string(), "auto");
}

#[test]
fn the_older_list_of_plugins_is_exactly_what_runs() {
    let only = ["--admission-control=NamespaceLifecycle,NodeRestriction"];
    let settings = Settings {
        apiserver_flags: given(&only).unwrap(),
        ..Settings::default()
    };
    let config = Config::load(settings, None).unwrap();
    let running = crate::config::running_plugins(
        &config.enable_admission_plugins,
        &config.disable_admission_plugins,
    );
    assert_eq!(running, ["NamespaceLifecycle", "NodeRestriction"]);
    let enabled = Settings {
        enable_admission_plugins: Some("NodeRestriction".parse().unwrap()),
        ..Settings::default()
    };
    assert!(refusal(&only, enabled).contains("are mutually exclusive"));
    let unknown = refusal(&["--admission-control=Nonsense"], Settings::default());
    assert!(unknown.starts_with("--admission-control: "), "{unknown}");
}

#[test]
fn times_of_elections_fit_together() {
    assert_eq!(
        refusal(
            &[
                "--coordinated-leadership-lease-duration=2s",
                "--coordinated-leadership-retry-period=10s"
            ],
            Settings::default()
        ),
        "--coordinated-leadership-lease-duration: must be greater than \
         --coordinated-leadership-renew-deadline\n\
         --coordinated-leadership-renew-deadline: must be greater than \
         --coordinated-leadership-retry-period"
    );
}

#[test]
fn settings_and_rows_can_be_in_one_command() {
    let command = augment(Settings::augment_args(Command::new("t")));
    command.debug_assert();
}
