//! Settings from flags, from a file, and as text.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use super::*;

fn flags(arguments: &[&str]) -> Result<Settings, String> {
    let mut command = Settings::augment_args(Command::new("taffrail").no_binary_name(true));
    let arguments: Vec<_> = arguments.iter().map(Into::into).collect();
    command
        .try_get_matches_from_mut(&arguments)
        .and_then(|matches| Settings::from_arg_matches(&matches))
        .map_err(|error| {
            let refusal = ConfigError::of_flags(&error, &arguments, &command);
            refusal.unwrap().to_string()
        })
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn from_file(text: &str) -> Result<Config, String> {
    let file = file(text);
    Config::load(Settings::default(), Some(file.path())).map_err(|error| {
        let line = error.to_string();
        let path = file.path().display().to_string();
        assert!(line.contains(&path), "{line}");
        line.replace(&path, "FILE")
    })
}

/// Returns why these settings are refused, or an empty text.
pub(super) fn refusal_of(settings: &[(&str, &str)]) -> String {
    let settings = settings.iter();
    let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = Config::of_entries(settings);
    config
        .err()
        .map_or(String::new(), |error| error.to_string())
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = file("secure-port: 7000\nretention-age: 2h\n");
    let flags = flags(&["--secure-port=8000"]).unwrap();
    let config = Config::load(flags, Some(file.path())).unwrap();
    assert_eq!(config.secure_port, Port(8000));
    assert_eq!(config.retention_age, Period(Duration::from_secs(7200)));
    assert_eq!(config.retention_bytes, ByteSize(1 << 30));
}

#[test]
fn a_refused_flag_is_named_with_its_value_in_one_line() {
    for (argument, line) in [
        (
            "--secure-port=70000",
            "--secure-port=70000: not a port from 0 to 65535",
        ),
        (
            "--retention-age=soon",
            "--retention-age=soon: not a duration such as 250ms, 90s, 10m, 1h30m or 7d",
        ),
        (
            "--event-ttl=1500ms",
            "--event-ttl=1500ms: not a whole number of seconds",
        ),
        (
            "--event-ttl=-1s",
            "--event-ttl=-1s: not a duration such as 250ms, 90s, 10m, 1h30m or 7d",
        ),
        (
            "--retention-bytes=1XB",
            "--retention-bytes=1XB: not a size such as 512KiB, 64MiB, 1GiB or 4096",
        ),
        (
            "--storage-backend=etcd",
            "--storage-backend=etcd: unknown storage type: etcd; there are embedded, etcd3 and \
             memory",
        ),
        (
            "--storage-backend=etcd2",
            "--storage-backend=etcd2: etcd2 is no longer supported as a storage backend; use etcd3",
        ),
        (
            "--watch-cache=maybe",
            "--watch-cache=maybe: neither true nor false",
        ),
        (
            "--max-connections=many",
            "--max-connections=many: not a number of connections, nor auto",
        ),
        (
            "--bind-address=here",
            "--bind-address=here: not an IP address such as 127.0.0.1, 0.0.0.0 or ::, nor localhost",
        ),
        (
            "--log-level=loud",
            "--log-level=loud: not a level: off, error, warn, info, debug, trace",
        ),
        (
            "--secure-prot=1",
            "--secure-prot is unknown; did you mean --secure-port?",
        ),
        ("--xyzzy", "--xyzzy is unknown; see taffrail --help"),
        (
            "--etcd-quorum-read=true",
            "--etcd-quorum-read is unknown; kube-apiserver removed it, and all reads of etcd have a \
             quorum: leave it out",
        ),
        (
            "--storage-versions=apps/v1",
            "--storage-versions is unknown; kube-apiserver removed it; --storage.versions names \
             versions",
        ),
    ] {
        assert_eq!(flags(&[argument]).unwrap_err(), line);
    }
    assert_eq!(
        flags(&["--secure-port=1", "--secure-port=2"]).unwrap_err(),
        "--secure-port is given more than once"
    );
    assert_eq!(
        flags(&["--secure-port"]).unwrap_err(),
        "--secure-port needs a value"
    );
}

#[test]
fn a_file_is_refused_by_the_name_that_is_wrong() {
    for (text, line) in [
        (
            "secure-prot: 1\n",
            "--config=FILE: secure-prot is unknown; did you mean secure-port?",
        ),
        (
            "secure-port: high\n",
            "--config=FILE: secure-port=high: not a port from 0 to 65535",
        ),
        (
            "config: other.yaml\n",
            "--config=FILE: config is unknown; see taffrail --help",
        ),
        (
            "secure-port: {a: 1}\n",
            "--config=FILE: secure-port: a single value is expected",
        ),
        (
            "- 1\n",
            "--config=FILE: not a mapping of settings to values",
        ),
        (
            "tls-cert-file: a.crt\n",
            "--tls-cert-file and --tls-private-key-file are set together or not at all",
        ),
    ] {
        let refusal = match from_file_or_settings(text) {
            Err(refusal) => refusal,
            Ok(config) => panic!("{text:?} was taken: {config:?}"),
        };
        assert!(refusal.starts_with(line), "{refusal}");
    }
    assert!(from_file("a: [\n").unwrap_err().contains("not valid YAML"));
}

fn from_file_or_settings(text: &str) -> Result<Config, String> {
    let file = file(text);
    Config::load(Settings::default(), Some(file.path())).map_err(|error| {
        error
            .to_string()
            .replace(&file.path().display().to_string(), "FILE")
    })
}

#[test]
fn a_missing_file_is_named() {
    let missing = Path::new("/does/not/exist.yaml");
    let refusal = Config::load(Settings::default(), Some(missing)).unwrap_err();
    assert!(
        refusal
            .to_string()
            .starts_with("--config=/does/not/exist.yaml: "),
        "{refusal}"
    );
}

#[test]
fn an_empty_file_sets_nothing() {
    for text in ["", "# only a comment\n", "{}\n"] {
        assert_eq!(from_file(text).unwrap(), Config::default(), "{text:?}");
    }
}

#[test]
fn what_is_printed_can_be_read_back() {
    let set = flags(&[
        "--secure-port=0",
        "--metrics-bind-address=0",
        "--retention-age=1h30m",
        "--tls-san=a.example,10.1.2.3",
        "--log-level=info,taffrail=debug",
        "--data-dir=/var/lib/with space",
    ])
    .unwrap();
    let config = Config::load(set, None).unwrap();
    assert_eq!(from_file(&config.to_yaml()).unwrap(), config);
    assert_eq!(
        from_file(&Config::default().to_yaml()).unwrap(),
        Config::default()
    );
}

#[test]
fn every_setting_says_its_default() {
    for entry in Config::default().entries() {
        let value = match entry.value.as_str() {
            "" => "none",
            value => value,
        };
        let said = format!("[default: {value}]");
        assert!(entry.explanation.contains(&said), "{entry:?}");
    }
}

/// The sample file names every setting with its default.
#[test]
fn the_sample_file_is_what_the_defaults_print() {
    let sample = include_str!("../../config/taffrail.yaml");
    assert!(
        sample == Config::default().to_yaml(),
        "write it again: cargo run -- config > config/taffrail.yaml"
    );
}

#[test]
fn sizes_and_durations_have_one_text_form() {
    for (text, form) in [
        ("1GiB", "1GiB"),
        ("1024Mi", "1GiB"),
        ("1500000", "1500000"),
        ("2MB", "2000000"),
        ("0", "0"),
    ] {
        assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), form);
    }
    for bad in [
        "",
        "GiB",
        "1.5GiB",
        "-1",
        "99999999999999999999",
        "18446744073709551615KiB",
    ] {
        assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
    }
    for (text, form) in [
        ("90s", "1m30s"),
        ("1h30m", "1h30m"),
        ("250ms", "250ms"),
        ("7d", "7d"),
        ("0", "0s"),
        ("60m", "1h"),
        ("1.5h", "1h30m"),
        ("+2000us", "2ms"),
    ] {
        assert_eq!(text.parse::<Period>().unwrap().to_string(), form);
    }
    for bad in [
        "",
        "1",
        "h",
        "1x",
        "-1s",
        "1h 30m",
        "99999999999999999999s",
        "1us",
        "-1.5h",
    ] {
        assert!(bad.parse::<Period>().is_err(), "{bad}");
    }
}

#[test]
fn metrics_can_be_switched_off() {
    for off in ["--metrics-bind-address=0", "--metrics-bind-address="] {
        let config = Config::load(flags(&[off]).unwrap(), None).unwrap();
        assert_eq!(config.metrics_bind_address, MetricsAddress(None));
    }
    let clash = flags(&["--metrics-bind-address=127.0.0.1:6443"]).unwrap();
    assert!(Config::load(clash, None).is_err());
}

/// The flags of kube-apiserver for etcd, with their defaults.
#[test]
fn the_flags_about_etcd_are_kube_apiservers_sf_4() {
    let config = Config::load(Settings::default(), None).unwrap();
    let text = config.to_yaml();
    for line in [
        "etcd-servers: \"\"",
        "etcd-cafile: \"\"",
        "etcd-compaction-interval: 5m",
        "etcd-count-metric-poll-period: 1m",
        "etcd-db-metric-poll-interval: 30s",
        "etcd-healthcheck-timeout: 2s",
        "etcd-readycheck-timeout: 2s",
        "default-watch-cache-size: \"\"",
    ] {
        assert!(text.lines().any(|one| one == line), "no {line} in {text}");
    }
    let all = [
        "--etcd-servers=https://a:2379,https://b:2379",
        "--etcd-cafile=/ca",
        "--etcd-certfile=/cert",
        "--etcd-keyfile=/key",
        "--etcd-compaction-interval=0",
        "--etcd-count-metric-poll-period=0",
        "--etcd-db-metric-poll-interval=0",
        "--etcd-healthcheck-timeout=0",
        "--etcd-readycheck-timeout=5s",
        "--default-watch-cache-size=7",
    ];
    let config = Config::load(flags(&all).unwrap(), None).unwrap();
    assert_eq!(config.backend(), StorageBackend::Etcd3);
    assert_eq!(config.etcd_servers.0.len(), 2);
    let refused = |arguments: &[&str]| {
        let settings = flags(arguments).unwrap();
        Config::load(settings, None).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&["--storage-backend=etcd3"]),
        "--etcd-servers must be specified with --storage-backend=etcd3"
    );
    assert_eq!(
        refused(&["--etcd-certfile=/cert"]),
        "--etcd-certfile and --etcd-keyfile are set together or not at all"
    );
}

#[test]
fn all_that_is_wrong_is_told_at_once_each_by_its_name_sf_30() {
    let settings = flags(&[
        "--storage-backend=etcd3",
        "--etcd-certfile=/cert",
        "--encryption-provider-config-automatic-reload",
        "--etcd-servers-overrides=/events#http://a:1;b:2,/pods#https://c:2379",
        "--data-threads=1025",
    ]);
    let refusal = Config::load(settings.unwrap(), None).unwrap_err();
    let refusal = refusal.to_string();
    let lines: Vec<&str> = refusal.lines().collect();
    assert_eq!(
        lines,
        [
            "--etcd-certfile and --etcd-keyfile are set together or not at all",
            "--etcd-servers must be specified with --storage-backend=etcd3",
            "--encryption-provider-config-automatic-reload has no effect without \
             --encryption-provider-config; set both",
            "--etcd-servers-overrides: \"b:2\" is not a URL such as http://127.0.0.1:2379: it begins \
             with neither http:// nor https://",
            "--etcd-servers-overrides: \"https://c:2379\" needs --etcd-cafile, the authority that \
             signed its certificate",
            "--data-threads=1025: at most 1024 is possible",
        ]
    );
    for (url, words) in [
        ("a b", "is not a URL"),
        ("http://", "is not a URL"),
        (
            "127.0.0.1:2379",
            "it begins with neither http:// nor https://",
        ),
        ("ftp://a", "it begins with neither"),
        ("https://a", "needs --etcd-cafile"),
    ] {
        let settings = flags(&[&format!("--etcd-servers={url}")]).unwrap();
        let refusal = Config::load(settings, None).unwrap_err().to_string();
        let named = format!("--etcd-servers: {url:?} ");
        assert!(
            refusal.starts_with(&named) && refusal.contains(words),
            "{refusal}"
        );
    }
}

#[test]
fn a_size_that_nothing_consults_is_known_to_have_been_given_sf_9() {
    let size = |arguments: &[&str]| {
        let settings = flags(arguments).unwrap();
        Config::load(settings, None)
            .unwrap()
            .default_watch_cache_size
    };
    assert_eq!(size(&[]), UnusedSize(None));
    assert_eq!(size(&["--default-watch-cache-size="]), UnusedSize(None));
    assert_eq!(
        size(&["--default-watch-cache-size=100"]),
        UnusedSize(Some(100))
    );
    assert!(flags(&["--default-watch-cache-size=x"]).is_err());
}

/// The refusal of a setting, empty when it is accepted.
fn refusal(setting: &str) -> String {
    match flags(&[&format!("--{setting}")]) {
        Ok(settings) => Config::load(settings, None)
            .err()
            .map(|error| error.to_string()),
        Err(refusal) => Some(refusal),
    }
    .unwrap_or_default()
}

/// Every number and duration, at its bounds and beyond them.
#[test]
fn numbers_have_bounds_within_which_a_daemon_can_work() {
    const TICK_TO_HOUR: &str = "from 100ms to 1h is possible";
    const OR_0: &str = "0, or from 100ms to 1h, is possible";
    const TICK_TO_YEAR: &str = "0, or from 100ms to 365d, is possible";
    const AT_MOST: &str = "at most 1024 is possible";
    for (name, taken, refused, fault) in [
        (
            "http-threads",
            vec!["0", "1", "1024"],
            vec!["1025", "100000"],
            AT_MOST,
        ),
        (
            "data-threads",
            vec!["0", "1", "1024"],
            vec!["1025", "100000"],
            AT_MOST,
        ),
        (
            "max-connections",
            vec!["1", "18446744073709551615"],
            vec!["0"],
            "at least 1 is needed",
        ),
        (
            "max-watches",
            vec!["1", "18446744073709551615"],
            vec!["0"],
            "at least 1 is needed",
        ),
        (
            "max-definitions",
            vec!["1", "18446744073709551615"],
            vec!["0"],
            "at least 1 is needed",
        ),
        (
            "max-requests-inflight",
            vec!["1", "18446744073709551615"],
            vec!["0"],
            "at least 1 is needed",
        ),
        (
            "max-mutating-requests-inflight",
            vec!["1"],
            vec!["0"],
            "at least 1 is needed",
        ),
        (
            "http2-max-streams-per-connection",
            vec!["0", "1", "1000000"],
            vec!["1000001", "4294967295"],
            "at most 1000000 is possible",
        ),
        (
            "lease-reuse-duration-seconds",
            vec!["0", "86400"],
            vec!["86401", "18446744073709551615"],
            "at most 86400 is possible",
        ),
        (
            "handshake-timeout",
            vec!["100ms", "1h"],
            vec!["0", "1ms", "61m"],
            TICK_TO_HOUR,
        ),
        (
            "header-timeout",
            vec!["100ms", "1h"],
            vec!["0", "1ms", "61m"],
            TICK_TO_HOUR,
        ),
        (
            "idle-timeout",
            vec!["100ms", "365d"],
            vec!["0", "1ms", "366d"],
            "from 100ms to 365d is possible",
        ),
        (
            "shutdown-timeout",
            vec!["0", "1ms", "1d"],
            vec!["25h"],
            "from 0s to 1d is possible",
        ),
        (
            "storage-initialization-timeout",
            vec!["0", "1ms", "1d"],
            vec!["25h"],
            "from 0s to 1d is possible",
        ),
        (
            "retention-age",
            vec!["0", "1ms", "36500d"],
            vec!["36501d"],
            "from 0s to 36500d is possible",
        ),
        (
            "event-ttl",
            vec!["0", "1s", "36500d"],
            vec!["36501d"],
            "from 0s to 36500d is possible",
        ),
        (
            "etcd-compaction-interval",
            vec!["0", "100ms", "365d"],
            vec!["1ms", "366d"],
            TICK_TO_YEAR,
        ),
        (
            "etcd-count-metric-poll-period",
            vec!["0", "100ms", "365d"],
            vec!["1ms", "366d"],
            TICK_TO_YEAR,
        ),
        (
            "etcd-db-metric-poll-interval",
            vec!["0", "100ms", "365d"],
            vec!["1ms", "366d"],
            TICK_TO_YEAR,
        ),
        (
            "etcd-healthcheck-timeout",
            vec!["0", "100ms", "1h"],
            vec!["1ms", "61m"],
            OR_0,
        ),
        (
            "etcd-readycheck-timeout",
            vec!["0", "100ms", "1h"],
            vec!["1ms", "61m"],
            OR_0,
        ),
    ] {
        for value in taken {
            assert_eq!(refusal(&format!("{name}={value}")), "", "{name}={value}");
        }
        for value in refused {
            let said = refusal(&format!("{name}={value}"));
            assert!(said.starts_with(&format!("--{name}=")), "{said}");
            assert!(said.ends_with(fault), "{said}");
        }
    }
}

/// Settings that are added later need bounds too: no duration may exceed what can be added to a
/// clock.
#[test]
fn no_length_of_time_is_without_end() {
    let mut periods = 0;
    for Entry { name, value, .. } in Config::default().entries() {
        let is_number = value.parse::<u64>().is_ok();
        if !is_number && value.parse::<Period>().is_ok() {
            periods += 1;
            let said = refusal(&format!("{name}=200000000000d"));
            assert!(said.contains("is possible"), "{name}: {said}");
        }
    }
    assert_eq!(periods, 20);
}
