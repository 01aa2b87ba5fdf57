//! The meaning of command lines.

use super::*;
use crate::config::Port;

fn parsed(arguments: &[&str]) -> Action {
    let all = std::iter::once("taffrail").chain(arguments.iter().copied());
    parse_from(all.map(Into::into))
}

fn serve(arguments: &[&str]) -> Config {
    match parsed(arguments) {
        Action::Serve(config) => *config,
        other => panic!("{arguments:?} became {other:?}"),
    }
}

#[test]
fn clap_finds_no_fault_in_the_command_line() {
    use clap::CommandFactory;
    CommandLine::command().debug_assert();
}

#[test]
fn serving_is_the_default_and_flags_stand_on_either_side() {
    assert_eq!(serve(&[]), Config::default());
    assert_eq!(serve(&["serve"]), Config::default());
    for arguments in [
        &["--secure-port=7"][..],
        &["serve", "--secure-port", "7"],
        &["--secure-port=7", "serve"],
        &["--secure-port=8", "serve", "--secure-port=7"],
    ] {
        assert_eq!(serve(arguments).secure_port, Port(7), "{arguments:?}");
    }
}

#[test]
fn a_refusal_exits_with_2() {
    for arguments in [
        &["--secure-port=x"][..],
        &["--nonsense"],
        &["nonsense"],
        &["serve", "--retention-age=soon"],
        &["--config=/does/not/exist"],
        &["--tls-cert-file=a"],
    ] {
        match parsed(arguments) {
            Action::Done(code) => {
                assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(2)));
            }
            other => panic!("{arguments:?} became {other:?}"),
        }
    }
}

#[test]
fn compact_takes_the_same_settings() {
    match parsed(&["compact", "--data-dir=/d"]) {
        Action::Compact(config, _) => assert_eq!(config.data_dir.to_string(), "/d"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_help_of_test_has_its_own_defaults_and_no_store() {
    let mut command = definition();
    command.build();
    let test = command.find_subcommand_mut(TEST).unwrap();
    let help = test.render_long_help().to_string();
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    let of = |flag: &str| {
        let (_, rest) = help
            .split_once(&format!(" {flag} "))
            .unwrap_or_else(|| panic!("{flag}"));
        rest.split(" --").next().unwrap().to_owned()
    };
    for (flag, default) in [
        ("--secure-port", "0"),
        ("--metrics-bind-address", "none"),
        ("--log-level", "warn"),
        ("--http-threads", "1"),
        ("--bind-address", "127.0.0.1"),
    ] {
        let shown = of(flag);
        assert!(
            shown.contains(&format!("[default: {default}]")),
            "{flag}: {shown}"
        );
    }
    for refused in ["--data-dir <", "--storage-backend <", "--etcd-servers <"] {
        assert!(!help.contains(refused), "{refused}");
    }
    // Other commands have the usual ones.
    let serve = command
        .find_subcommand_mut(SERVE)
        .unwrap()
        .render_long_help();
    assert!(serve.to_string().contains("[default: 6443]"));
}
