//! The image.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{hash, of_dynamic, of_static, run};

/// Reads a blob as JSON, and checks what its descriptor says of it.
#[track_caller]
fn document(layout: &Path, descriptor: &Value) -> Value {
    serde_json::from_slice(&std::fs::read(blob(layout, descriptor)).unwrap()).unwrap()
}

/// The path of a blob, which has to be as its descriptor says.
#[track_caller]
fn blob(layout: &Path, descriptor: &Value) -> std::path::PathBuf {
    let digest = descriptor["digest"]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:");
    let path = layout.join("blobs/sha256").join(digest.unwrap());
    assert_eq!(hash(&path), digest.unwrap());
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(descriptor["size"], size);
    path
}

#[test]
fn an_image_runs_the_program_as_the_dockerfile_does() {
    let made = of_static();
    let layout = made.only("taffrail-", "-oci");
    let version = std::fs::read_to_string(layout.join("oci-layout")).unwrap();
    assert_eq!(version, r#"{"imageLayoutVersion":"1.0.0"}"#);
    let top: Value =
        serde_json::from_slice(&std::fs::read(layout.join("index.json")).unwrap()).unwrap();
    let [only] = top["manifests"].as_array().unwrap().as_slice() else {
        panic!("{top}");
    };
    assert_eq!(
        only["annotations"]["org.opencontainers.image.ref.name"],
        env!("CARGO_PKG_VERSION")
    );
    // One image for each processor.
    let index = document(&layout, only);
    let images: BTreeMap<&str, &Value> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| (image["platform"]["architecture"].as_str().unwrap(), image))
        .collect();
    assert_eq!(
        images.keys().copied().collect::<Vec<_>>(),
        ["amd64", "arm64"]
    );
    let manifest = document(&layout, images[made.program.debian()]);
    let configuration = document(&layout, &manifest["config"]);
    assert_eq!(configuration["architecture"], made.program.debian());
    let dockerfile = std::fs::read_to_string(crate::root().join("config/Dockerfile")).unwrap();
    let said = |name: &str| {
        let line = dockerfile.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    let runs = &configuration["config"];
    assert_eq!(runs["User"], said("USER"));
    assert_eq!(
        runs["Entrypoint"].to_string(),
        said("ENTRYPOINT").replace(", ", ",")
    );
    assert_eq!(runs["Cmd"].to_string(), said("CMD").replace(", ", ","));
    assert_eq!(runs["StopSignal"], said("STOPSIGNAL"));
    for port in said("EXPOSE").split(' ') {
        assert!(runs["ExposedPorts"][format!("{port}/tcp")].is_object());
    }
    assert!(runs["Volumes"]["/var/lib/taffrail"].is_object());

    let [layer] = manifest["layers"].as_array().unwrap().as_slice() else {
        panic!("{manifest}");
    };
    let packed = blob(&layout, layer);
    let files = tempfile::tempdir().unwrap();
    let tar = files.path().join("layer.tar");
    let unpacked = Command::new("gzip")
        .arg("-dc")
        .arg(&packed)
        .output()
        .unwrap();
    std::fs::write(&tar, unpacked.stdout).unwrap();
    let difference = format!("sha256:{}", hash(&tar));
    assert_eq!(configuration["rootfs"]["diff_ids"][0], difference);
    let listed = run(Command::new("tar")
        .args(["-t", "-v", "--numeric-owner", "-f"])
        .arg(&tar));
    for (path, begin) in [
        ("usr/local/bin/taffrail", "-rwxr-xr-x 0/0 "),
        ("var/lib/taffrail/", "drwx------ 65532/65532 "),
        ("tmp/", "drwxrwxrwt 0/0 "),
        ("var/lib/", "drwxr-xr-x 0/0 "),
    ] {
        let line = listed
            .lines()
            .find(|line| line.ends_with(&format!(" {path}")));
        assert!(line.expect(path).starts_with(begin), "{line:?}");
    }
    run(Command::new("tar")
        .arg("-xf")
        .arg(&tar)
        .arg("usr")
        .current_dir(files.path()));
    let program = std::fs::read(files.path().join("usr/local/bin/taffrail")).unwrap();
    assert_eq!(program, made.program.bytes);
}

#[test]
fn a_program_that_needs_libraries_is_in_no_image() {
    let made = of_dynamic();
    let left_out = made
        .printed
        .lines()
        .find(|line| line.starts_with("left out: the image"));
    assert!(left_out.unwrap().contains("is not static"));
    let names = std::fs::read_dir(&made.folder).unwrap();
    for name in names {
        let name = name.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with("-oci"), "{name}");
    }
}

#[test]
fn programs_of_the_folder_are_packed_when_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("binaries");
    std::fs::create_dir(&programs).unwrap();
    let program = of_static().program.path();
    std::fs::copy(program, programs.join("taffrail-own")).unwrap();
    let done = crate::tool(&["image", "--output", folder.path().to_str().unwrap()]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success());
    assert!(!said.contains("left out: the image"), "{said}");
    let name = format!("taffrail-{}-oci", env!("CARGO_PKG_VERSION"));
    assert!(folder.path().join(name).join("index.json").exists());
}
