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
