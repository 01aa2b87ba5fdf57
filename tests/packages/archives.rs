//! The package of Debian, and the archive with the program.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::{Made, of_dynamic, of_static, run};

/// Unpacks an archive of tar, with the modes that it gives.
fn unpack(archive: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("tar")
        .args(["-x", "-p", "--no-same-owner", "-f"])
        .arg(archive)
        .current_dir(folder.path()));
    folder
}

/// The lines of `tar -tv`, with numbers for owners.
fn listed(archive: &Path) -> Vec<String> {
    let lines = run(Command::new("tar")
        .args(["-t", "-v", "--numeric-owner", "-f"])
        .arg(archive));
    lines.lines().map(str::to_owned).collect()
}

/// The members of a package of Debian, which `ar` unpacks.
fn members(made: &Made) -> TempDir {
    let package = made.only("taffrail_", &format!("_{}.deb", made.program.debian()));
    let folder = tempfile::tempdir().unwrap();
    let names = run(Command::new("ar").arg("t").arg(&package));
    assert_eq!(names, "debian-binary\ncontrol.tar.xz\ndata.tar.xz\n");
    run(Command::new("ar")
        .arg("x")
        .arg(&package)
        .current_dir(folder.path()));
    folder
}

#[track_caller]
fn field(control: &str, name: &str) -> Option<String> {
    let begin = format!("{name}: ");
    let line = control.lines().find(|line| line.starts_with(&begin))?;
    Some(line[begin.len()..].to_owned())
}

#[test]
fn a_package_of_debian_has_program_manual_unit_and_configuration() {
    let made = of_static();
    let members = members(made);
    let data = members.path().join("data.tar.xz");
    let files = unpack(&data);
    let read = |path: &str| std::fs::read(files.path().join(path)).expect(path);
    assert_eq!(read("usr/bin/taffrail"), made.program.bytes);
    let unit = String::from_utf8(read("usr/lib/systemd/system/taffrail.service")).unwrap();
    assert!(
        unit.contains("\nExecStart=/usr/bin/taffrail serve --config /etc/taffrail/taffrail.yaml ")
    );
    assert!(unit.starts_with("[Unit]\n"));
    let sample = crate::root().join("config/taffrail.yaml");
    assert_eq!(
        read("etc/taffrail/taffrail.yaml"),
        std::fs::read(sample).unwrap()
    );
    let page = files.path().join("usr/share/man/man1/taffrail-serve.1.gz");
    assert_eq!(
        run(Command::new("gzip").arg("-dc").arg(page)),
        ".TH taffrail-serve 1\n"
    );
    let pages = std::fs::read_dir(files.path().join("usr/share/man/man1")).unwrap();
    assert_eq!(pages.count(), 2, "a page says nothing but help");
    for (path, shell) in [
        ("usr/share/bash-completion/completions/taffrail", "bash"),
        ("usr/share/zsh/vendor-completions/_taffrail", "zsh"),
        ("usr/share/fish/vendor_completions.d/taffrail.fish", "fish"),
    ] {
        assert_eq!(
            read(path),
            format!("# completions of {shell}\n").into_bytes()
        );
    }
    let licences = files
        .path()
        .join("usr/share/doc/taffrail/third-party-licenses.gz");
    let licences = run(Command::new("gzip").arg("-dc").arg(licences));
    assert!(licences.contains("\ntokio 1."));
    for line in listed(&data) {
        let mode = match () {
            () if line.starts_with('d') => "drwxr-xr-x 0/0 ",
            () if line.ends_with("./usr/bin/taffrail") => "-rwxr-xr-x 0/0 ",
            () => "-rw-r--r-- 0/0 ",
        };
        assert!(line.starts_with(mode), "{line}");
        assert!(line.contains(" 2026-01-02 "), "{line}");
    }
}

#[test]
fn the_control_files_of_a_package_describe_it() {
    let made = of_static();
    let members = members(made);
    let control = unpack(&members.path().join("control.tar.xz"));
    let text = std::fs::read_to_string(control.path().join("control")).unwrap();
    assert_eq!(field(&text, "Package").unwrap(), "taffrail");
    let version = format!("{}-1", env!("CARGO_PKG_VERSION"));
    assert_eq!(field(&text, "Version").unwrap(), version);
    assert_eq!(field(&text, "Architecture").unwrap(), made.program.debian());
    assert_eq!(
        field(&text, "Depends"),
        None,
        "a static program needs nothing"
    );
    let configuration = std::fs::read_to_string(control.path().join("conffiles")).unwrap();
    assert_eq!(configuration, "/etc/taffrail/taffrail.yaml\n");
    let files = unpack(&members.path().join("data.tar.xz"));
    run(Command::new("md5sum")
        .args(["--check", "--strict", "--quiet"])
        .arg(control.path().join("md5sums"))
        .current_dir(files.path()));
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh")
            .arg("-n")
            .arg(control.path().join(script)));
    }
    for line in listed(&members.path().join("control.tar.xz")) {
        let script = ["postinst", "prerm", "postrm"]
            .iter()
            .any(|name| line.ends_with(name));
        let mode = if script {
            "-rwxr-xr-x 0/0 "
        } else {
            "-rw-r--r-- 0/0 "
        };
        assert!(line.starts_with(mode), "{line}");
    }
}

#[test]
fn scripts_of_a_package_do_nothing_without_systemd_and_may_run_twice() {
    let members = members(of_static());
    let control = unpack(&members.path().join("control.tar.xz"));
    let nothing = tempfile::tempdir().unwrap();
    for (script, words) in [
        ("postinst", ["configure", ""]),
        ("prerm", ["remove", ""]),
        ("postrm", ["remove", ""]),
        ("postrm", ["purge", ""]),
    ] {
        for _ in 0..2 {
            // Only the shell: no program of systemd can be found, and none of Debian's.
            let printed = run(Command::new("/bin/sh")
                .arg(control.path().join(script))
                .args(words)
                .env("PATH", nothing.path()));
            assert_eq!(printed, "", "{script} {words:?}");
        }
    }
}

#[test]
fn a_package_depends_on_the_libraries_of_its_program() {
    let members = members(of_dynamic());
    let control = unpack(&members.path().join("control.tar.xz"));
    let text = std::fs::read_to_string(control.path().join("control")).unwrap();
    let depends = field(&text, "Depends").unwrap();
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");
}

#[test]
fn an_archive_has_the_program_and_its_manual() {
    let made = of_static();
    let triple = made.program.triple();
    let archive = made.only("taffrail-", &format!("{triple}.tar.gz"));
    let files = unpack(&archive);
    let name = format!("taffrail-{}-{triple}", env!("CARGO_PKG_VERSION"));
    let folder = files.path().join(name);
    let printed = run(Command::new(folder.join("bin/taffrail")).arg("version"));
    assert_eq!(printed, "taffrail stands here\n");
    for path in [
        "LICENSE",
        "THIRD-PARTY",
        "README.md",
        "config/taffrail.yaml",
        "config/taffrail.service",
        "share/man/man1/taffrail.1",
        "share/completions/taffrail.bash",
    ] {
        let size = std::fs::metadata(folder.join(path)).expect(path).len();
        assert!(size > 0, "{path} is empty");
    }
}
