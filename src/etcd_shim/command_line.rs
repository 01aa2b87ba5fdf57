//! The command line of etcd, and its variables of the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::flags::{FLAGS, Flag, Treatment};
use super::{NAME, VERSION};
use crate::build_info;
use crate::cli::{EXIT_REFUSED, complain};
use crate::config::{ConfigError, LogFilter};

/// The prefix of variables that stand for flags: `ETCD_DATA_DIR` is `--data-dir`.
const ENVIRONMENT: &str = "ETCD_";

/// The settings that have an effect.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) name: String,
    /// An absolute path.
    pub(super) data_dir: PathBuf,
    /// Where clients connect to.
    pub(super) client_urls: Vec<ListenUrl>,
    /// Further places where only health and version are served.
    pub(super) metrics_urls: Vec<ListenUrl>,
    pub(super) advertised_urls: Vec<String>,
    pub(super) peer_urls: Vec<String>,
    pub(super) syncs: bool,
    pub(super) request_bytes_max: usize,
    pub(super) transaction_operations_max: usize,
    pub(super) streams_max: u32,
    pub(super) progress_interval: Duration,
    pub(super) log_level: LogFilter,
    pub(super) outlives_parent: bool,
    /// Flags that were given and have no effect.
    pub(super) noted: Vec<String>,
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenUrl {
    /// As given, for messages.
    pub(super) text: String,
    pub(super) host: String,
    pub(super) port: u16,
}

/// The result of reading the command line.
pub(super) enum Parsed {
    /// Serve with these settings.
    Settings(Box<Settings>),
    /// End with this exit code.
    Done(ExitCode),
}

/// Reads the command line of the process.
pub(super) fn parse() -> Parsed {
    let definition = definition();
    let arguments = std::env::args_os().collect();
    let arguments = with_environment(arguments, std::env::vars());
    let given = match definition.clone().try_get_matches_from(&arguments) {
        Ok(given) => given,
        Err(error) => {
            return Parsed::Done(
                match ConfigError::of_flags(&error, &arguments, &definition) {
                    Some(refusal) => {
                        complain(NAME, &refusal);
                        ExitCode::from(EXIT_REFUSED)
                    }
                    None => {
                        // Help. A failure to print it can't be reported.
                        let _ = error.print();
                        ExitCode::SUCCESS
                    }
                },
            );
        }
    };
    if given.get_flag("version") {
        print!("{}", version());
        return Parsed::Done(ExitCode::SUCCESS);
    }
    match settings(&given) {
        Ok(settings) => Parsed::Settings(Box::new(settings)),
        Err(problems) => {
            complain(NAME, &problems.join("\n"));
            Parsed::Done(ExitCode::from(EXIT_REFUSED))
        }
    }
}

/// The lines that scripts look for, as etcd prints them.
fn version() -> String {
    format!(
        "etcd Version: {VERSION}\nGit SHA: {}\nGo Version: none, this is {}\nGo OS/Arch: {}\n",
        build_info::COMMIT.unwrap_or("unknown"),
        build_info::program(),
        build_info::platform(),
    )
}

fn definition() -> Command {
    let mut definition = Command::new(NAME)
        .about("Taffrail in the place of etcd: an embedded store behind etcd's v3 API")
        .args_override_self(true)
        .disable_version_flag(true)
        .max_term_width(100)
        .arg(
            Arg::new("version")
                .long("version")
                .action(ArgAction::SetTrue)
                .help("Print the version"),
        );
    for flag in FLAGS {
        definition = definition.arg(argument(flag));
    }
    definition
}

fn argument(flag: &Flag) -> Arg {
    let argument = Arg::new(flag.name).long(flag.name).value_name("VALUE");
    let argument = match flag.is_switch {
        true => argument
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser([
                "true", "false", "1", "0", "t", "f", "T", "F", "TRUE", "FALSE",
            ])
            .hide_possible_values(true),
        false => argument.allow_hyphen_values(true),
    };
    match flag.treatment {
        Treatment::Obeyed(help) => argument.help(help),
        Treatment::Noted => argument.help_heading("Without effect"),
        Treatment::Refused(_) => argument.help_heading("Refused"),
    }
}

/// Puts the variables of the environment that stand for flags before the arguments, which win.
fn with_environment(
    arguments: Vec<OsString>,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.first().cloned().into_iter().collect();
    for (name, value) in variables {
        let Some(name) = name.strip_prefix(ENVIRONMENT) else {
            continue;
        };
        let name = name.to_ascii_lowercase().replace('_', "-");
        // linear: a few variables, once for each start.
        if FLAGS.iter().any(|flag| flag.name == name) {
            all.push(format!("--{name}={value}").into());
        }
    }
    all.extend(arguments.into_iter().skip(1));
    all
}

/// The settings, or all that is wrong with them.
fn settings(given: &ArgMatches) -> Result<Settings, Vec<String>> {
    let mut reader = Reader {
        given,
        problems: Vec::new(),
    };
    reader.refuse();
    let name = reader.text("name").unwrap_or("default").to_owned();
    let data_dir = reader.data_dir(&name);
    let client_urls = reader.listen_urls("listen-client-urls", Some("http://localhost:2379"));
    let peer_urls = reader.texts("listen-peer-urls", "http://localhost:2380");
    let advertised: Vec<String> = client_urls.iter().map(|url| url.text.clone()).collect();
    reader.check_members();
    let interval = reader
        .text("watch-progress-notify-interval")
        .or(reader.text("experimental-watch-progress-notify-interval"));
    let settings = Settings {
        data_dir,
        metrics_urls: reader.listen_urls("listen-metrics-urls", None),
        advertised_urls: reader.texts("advertise-client-urls", &advertised.join(",")),
        client_urls,
        peer_urls,
        syncs: !reader.switch("unsafe-no-fsync"),
        request_bytes_max: usize::try_from(reader.number("max-request-bytes", 1_572_864))
            .unwrap_or(usize::MAX),
        transaction_operations_max: usize::try_from(reader.number("max-txn-ops", 128))
            .unwrap_or(usize::MAX),
        streams_max: reader.number("max-concurrent-streams", u32::MAX),
        progress_interval: reader.interval(interval),
        log_level: reader.log_level(),
        outlives_parent: reader.switch("outlive-parent"),
        noted: noted(given),
        name,
    };
    match reader.problems.is_empty() {
        true => Ok(settings),
        false => Err(reader.problems),
    }
}

/// The flags that were given and have no effect.
fn noted(given: &ArgMatches) -> Vec<String> {
    let is_given = |flag: &&Flag| given.contains_id(flag.name);
    let noted = FLAGS
        .iter()
        .filter(|flag| flag.treatment == Treatment::Noted);
    noted
        .filter(is_given)
        .map(|flag| format!("--{}", flag.name))
        .collect()
}

/// Reads values, and collects what is wrong with them.
struct Reader<'m> {
    given: &'m ArgMatches,
    problems: Vec<String>,
}

impl<'m> Reader<'m> {
    fn text(&self, name: &str) -> Option<&'m str> {
        self.given.get_one::<String>(name).map(String::as_str)
    }

    fn texts(&self, name: &str, otherwise: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or(otherwise);
        text.split(',').map(|part| part.trim().to_owned()).collect()
    }

    fn switch(&self, name: &str) -> bool {
        is_on(self.text(name).unwrap_or_default())
    }

    /// Refuses flags whose neglect would weaken protection or lose data.
    fn refuse(&mut self) {
        for flag in FLAGS {
            if let Treatment::Refused(why) = flag.treatment
                && let Some(value) = self.text(flag.name)
                && !matches!(value, "" | "false" | "0" | "f" | "F" | "FALSE" | "*")
            {
                self.problems.push(format!("--{}: {why}", flag.name));
            }
        }
    }

    fn data_dir(&mut self, name: &str) -> PathBuf {
        let otherwise = format!("{name}.etcd");
        let given = self.text("data-dir").filter(|text| !text.is_empty());
        let path = Path::new(given.unwrap_or(&otherwise));
        std::path::absolute(path).unwrap_or_else(|error| {
            self.problems.push(format!("--data-dir: {error}"));
            path.to_owned()
        })
    }

    fn listen_urls(&mut self, name: &str, otherwise: Option<&str>) -> Vec<ListenUrl> {
        let given = self.text(name).filter(|text| !text.is_empty());
        let Some(text) = given.or(otherwise) else {
            return Vec::new();
        };
        let mut urls = Vec::new();
        for part in text.split(',') {
            match listen_url(part.trim()) {
                Ok(url) => urls.push(url),
                Err(why) => self.problems.push(format!("--{name}={part}: {why}")),
            }
        }
        urls
    }

    fn number(&mut self, name: &str, otherwise: u32) -> u32 {
        match self.text(name).map(str::parse) {
            None => otherwise,
            Some(Ok(number)) => number,
            Some(Err(_)) => {
                self.problems.push(format!(
                    "--{name}={}: not a whole number from 0 to {}",
                    self.text(name).unwrap_or_default(),
                    u32::MAX
                ));
                otherwise
            }
        }
    }

    fn interval(&mut self, text: Option<&str>) -> Duration {
        // etcd's default.
        const OTHERWISE: Duration = Duration::from_secs(600);
        let Some(text) = text else {
            return OTHERWISE;
        };
        match duration(text) {
            Some(interval) if !interval.is_zero() => interval,
            _ => {
                let flag = "--watch-progress-notify-interval";
                self.problems
                    .push(format!("{flag}={text}: not a duration such as 5s or 10m"));
                OTHERWISE
            }
        }
    }

    fn log_level(&mut self) -> LogFilter {
        let level = match self.text("log-level").unwrap_or("info") {
            "dpanic" | "panic" | "fatal" => "error",
            other => other,
        };
        level.parse().unwrap_or_else(|error| {
            self.problems.push(format!("--log-level={level}: {error}"));
            LogFilter::default()
        })
    }

    /// Refuses a cluster of several members: this one would be alone.
    fn check_members(&mut self) {
        let members = self.text("initial-cluster").unwrap_or_default();
        let mut names: Vec<&str> = members
            .split(',')
            .filter_map(|member| member.split_once('=').map(|(name, _)| name))
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            self.problems.push(format!(
                "--initial-cluster={members}: it has several members, and this program is the only \
                 one of its cluster"
            ));
        }
    }
}

fn is_on(text: &str) -> bool {
    matches!(text, "true" | "1" | "t" | "T" | "TRUE")
}

/// An address to listen at: `http://`, an IP address or `localhost`, and a port.
fn listen_url(text: &str) -> Result<ListenUrl, &'static str> {
    if text.starts_with("https://") {
        return Err("TLS is not offered; listen at http:// on loopback");
    }
    let Some(rest) = text.strip_prefix("http://") else {
        return Err("not a URL such as http://127.0.0.1:2379");
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let Some((host, port)) = rest.rsplit_once(':') else {
        return Err("the port is missing");
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host != "localhost" && host.parse::<std::net::IpAddr>().is_err() {
        return Err("its host is neither an IP address nor localhost");
    }
    Ok(ListenUrl {
        text: text.to_owned(),
        host: host.to_owned(),
        port: port
            .parse()
            .map_err(|_| "its port is not a number up to 65535")?,
    })
}

/// A duration as Go writes it, of one unit or several: `5s`, `1m30s`, `100ms`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, more) = rest.split_at(digits);
        let letters = more
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(more.len());
        let (unit, more) = more.split_at(letters);
        let number: u32 = number.parse().ok()?;
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return None,
        };
        sum = sum.checked_add(unit.checked_mul(number)?)?;
        rest = more;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Settings, String> {
        let arguments = [&["etcd"], arguments].concat();
        let given = definition()
            .try_get_matches_from(arguments)
            .map_err(|error| error.to_string())?;
        settings(&given).map_err(|problems| problems.join("\n"))
    }

    #[test]
    fn flags_are_obeyed_noted_or_refused() {
        let settings = read(&[
            "--data-dir=/d",
            "--listen-client-urls=http://127.0.0.1:1,http://[::1]:2",
            "--unsafe-no-fsync",
            "--snapshot-count",
            "5",
            "--max-request-bytes=9",
            "--watch-progress-notify-interval=1m5s",
            "--max-request-bytes=10",
            "--initial-cluster=a=http://x,a=http://y",
            "--client-cert-auth=false",
            "--cert-file=",
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.data_dir, Path::new("/d"));
        assert_eq!(settings.client_urls[1].host, "::1");
        assert_eq!(settings.advertised_urls.len(), 2);
        assert!(!settings.syncs);
        assert_eq!(settings.request_bytes_max, 10);
        assert_eq!(settings.progress_interval, Duration::from_secs(65));
        assert_eq!(settings.noted, ["--snapshot-count"]);
        for (bad, words) in [
            ("--listen-client-urls=https://127.0.0.1:1", "TLS"),
            ("--listen-client-urls=unix://x", "not a URL"),
            ("--listen-client-urls=http://host:1", "neither an IP"),
            ("--listen-client-urls=http://127.0.0.1", "port is missing"),
            ("--listen-client-urls=http://127.0.0.1:70000", "65535"),
            ("--initial-cluster=a=http://x,b=http://y", "several members"),
            ("--cert-file=x", "--cert-file: "),
            ("--client-cert-auth", "--client-cert-auth: "),
            (
                "--max-request-bytes=-1",
                "not a whole number from 0 to 4294967295",
            ),
            ("--watch-progress-notify-interval=5", "not a duration"),
            ("--unsafe-no-fsync=maybe", "unsafe-no-fsync"),
            ("--log-level=loud", "log-level"),
        ] {
            let refusal = read(&[bad]).unwrap_err();
            assert!(refusal.contains(words), "{bad}: {refusal}");
        }
    }

    #[test]
    fn variables_stand_for_flags_and_arguments_win() {
        let variables = [("ETCD_NAME", "a"), ("ETCD_NOTHING", "b"), ("HOME", "c")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let arguments = ["etcd", "--name=d"].map(OsString::from).to_vec();
        let all = with_environment(arguments, variables.into_iter());
        assert_eq!(all, ["etcd", "--name=a", "--name=d"]);
        let given = definition().try_get_matches_from(all).unwrap();
        assert_eq!(settings(&given).unwrap().name, "d");
    }

    #[test]
    fn help_names_what_test_environments_look_for() {
        let help = definition().render_help().to_string();
        assert!(help.contains("--unsafe-no-fsync"), "{help}");
        assert!(version().starts_with("etcd Version: 3.6."));
    }

    #[test]
    fn durations_are_of_go() {
        assert_eq!(duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(duration("1h1m1s"), Some(Duration::from_secs(3661)));
        for bad in ["", "5", "s", "5d", "-1s", "99999999999999s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
