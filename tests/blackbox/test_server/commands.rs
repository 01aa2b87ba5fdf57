//! `taffrail test -- COMMAND`.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Signal, kill_process};

use super::{command, end_of, names, output, pid, refused, until};

#[test]
fn the_command_has_stdout_and_decides_the_exit_code() {
    let temporary = tempfile::tempdir().unwrap();
    let script = "test -f \"$KUBECONFIG\" && test -z \"$KUBERNETES_MASTER\" && echo \"$1\"; exit 7";
    let arguments = ["--", "sh", "-c", script, "sh", "--nodes=5"];
    let mut test = command(temporary.path(), &arguments);
    let output = test.env("KUBERNETES_MASTER", "http://x").output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    // Flags after the dashes are the command's.
    assert_eq!(output.stdout, b"--nodes=5\n");
    assert!(output.stderr.is_empty());
    assert_eq!(names(temporary.path()), Vec::<String>::new());
}

#[test]
fn a_signal_that_ends_the_command_is_in_the_exit_code() {
    let temporary = tempfile::tempdir().unwrap();
    let output = output(temporary.path(), &["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(names(temporary.path()), Vec::<String>::new());
}

#[test]
fn a_command_that_can_not_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    for (name, code) in [("no-such-command", 127), (file.to_str().unwrap(), 126)] {
        let (found, line) = refused(&["--", name]);
        assert_eq!(found, code, "{line}");
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn a_command_that_a_signal_prevents_has_not_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    // The start waits for the account of this pod, which nobody makes.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
               spec: {containers: [{name: c, image: i}]}\n";
    std::fs::write(folder.path().join("pod.yaml"), pod).unwrap();
    let load = folder.path().to_str().unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let temporary = tempfile::tempdir().unwrap();
        let nobody = "--controllers=-serviceaccount-controller";
        let arguments = [nobody, "--load", load, "--", "echo", "ran"];
        let mut test = command(temporary.path(), &arguments);
        let mut test = test.stdout(Stdio::piped()).spawn().unwrap();
        // It handles signals before it makes its folder.
        until(|| names(temporary.path()).len() == 1);
        kill_process(pid(&test), signal).unwrap();
        assert_eq!(end_of(&mut test).code(), Some(code));
        let mut said = String::new();
        test.stdout.unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
        assert_eq!(names(temporary.path()), Vec::<String>::new());
    }
}

#[test]
fn a_folder_that_stays_does_not_replace_the_code_of_the_command() {
    let temporary = tempfile::tempdir().unwrap();
    let script = "cd \"$TMPDIR\" && folder=$(echo taffrail-test-*) && rm -r $folder && \
                  echo x > $folder && exit 7";
    let output = output(temporary.path(), &["--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.contains("can't be removed"), "{line}");
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let script = format!(
            "trap 'echo {name}; kill $child; exit 3' {name}; sleep 1000 > /dev/null & child=$!; \
             echo waits; wait"
        );
        let mut test = command(temporary.path(), &["--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "waits");
        kill_process(pid(&test), signal).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), name);
        assert_eq!(end_of(&mut test).code(), Some(3));
        assert_eq!(names(temporary.path()), Vec::<String>::new());
    }
}
