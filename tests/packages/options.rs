//! Command lines of the tool that are refused.

use crate::tool;

/// The tool refuses a command line, and says why.
#[track_caller]
fn refused(words: &[&str], why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("packages");
    let mut all = words.to_vec();
    if !words.contains(&"--output") {
        all.extend(["--output", output.to_str().unwrap()]);
    }
    let done = tool(&all);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success(), "{words:?} succeeded");
    assert!(said.contains(why), "{words:?}: {said}");
    assert!(!said.contains("Traceback"), "{words:?}: {said}");
}

#[test]
fn wrong_options_are_refused_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "not a program").unwrap();
    let text = text.to_str().unwrap();
    let header = folder.path().join("header");
    let mut bytes = b"\x7fELF\x02\x01".to_vec();
    bytes.resize(64, 0xff);
    bytes[18..20].copy_from_slice(&[62, 0]);
    std::fs::write(&header, &bytes).unwrap();
    let header = header.to_str().unwrap();
    bytes[18] = 8;
    let strange = folder.path().join("strange");
    std::fs::write(&strange, &bytes).unwrap();
    let strange = strange.to_str().unwrap();

    refused(&["unknown"], "invalid choice: 'unknown'");
    refused(&["build", "--target", "sparc"], "invalid choice: 'sparc'");
    refused(
        &["deb", "--binary", "/nonexistent"],
        "/nonexistent: no such file",
    );
    refused(&["deb", "--binary", "/"], "/: no such file");
    refused(
        &["deb", "--binary", text],
        "not a 64-bit little-endian ELF file",
    );
    refused(&["deb", "--binary", header], "a broken ELF file");
    refused(
        &["deb", "--binary", strange],
        "its processor 8 is not one of x86_64, aarch64",
    );
    refused(
        &["deb"],
        "has no program: name one by --binary, or let the step build make it",
    );
    refused(&["sums"], "has no files");
    refused(
        &["deb", "--maintainer", "nobody"],
        "it has to be 'NAME <ADDRESS>'",
    );
    refused(
        &["image", "--ca-bundle", "/nonexistent"],
        "--ca-bundle=/nonexistent: No such file",
    );
    refused(
        &["image", "--ca-bundle", text],
        "it holds no certificate in PEM",
    );
    refused(
        &["build", "--binary", text],
        "the step build has nothing to do",
    );
    refused(
        &[
            "deb",
            "--binary",
            text,
            "--target",
            "x86_64-unknown-linux-musl",
        ],
        "--target has nothing to build",
    );
    refused(&["sums", "--output", text], &format!("{text}: File exists"));
}

#[test]
fn a_date_that_packages_cannot_have_is_refused() {
    for date in ["yesterday", "-1", "0", "99999999999"] {
        let program = crate::of_static().program.path();
        let folder = tempfile::tempdir().unwrap();
        let done = std::process::Command::new("python3")
            .arg(crate::root().join("tools/package/package.py"))
            .args(["deb", "--binary", program, "--output"])
            .arg(folder.path())
            .env("SOURCE_DATE_EPOCH", date)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success(), "{date}");
        assert!(
            said.contains(&format!("SOURCE_DATE_EPOCH is '{date}'")),
            "{said}"
        );
    }
}
