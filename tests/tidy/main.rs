//! The project's rules for sources, checked by reading them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod circles;
mod citations;
mod commits;
mod lists;
mod prose;
mod rules;
mod sizing;
mod source;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write;

use source::{CRATES, FOLDERS, Source, files, has_tests, product, root, whole_product};

/// The paths that a module may name: itself, and paths that begin with one of these.
type Table = &'static [(&'static str, &'static [&'static str])];

/// The port of the engines and the nouns that travel through it.
const PORT: &[&str] = &["engine", "object", "watch"];

/// What every actor stands on: how it is asked, how it ends, how it is started again.
const FLOOR: &[&str] = &[
    "backoff",
    "exit",
    "failure",
    "mailbox",
    "actor_ref",
    "watchdog",
];

const ACTORS: Table = &[
    ("lib", &["*"]),
    ("engine", &[]),
    ("engine::local", &["engine::[A-Z]"]),
    ("engine::memory", &["engine::[A-Z]", "engine::local"]),
    ("object", &["engine"]),
    ("watch", &["engine", "object"]),
    ("backoff", &[]),
    ("exit", &["watchdog"]),
    // Its turns are where tests make parts fail.
    ("watchdog", &["testing::failpoints"]),
    ("failure", &[]),
    ("actor_ref", &[]),
    ("mailbox", &["actor_ref"]),
    ("snapshot", &["PORT"]),
    ("ring", &["PORT"]),
    (
        "cacher",
        // Where tests make it fail.
        &["PORT", "FLOOR", "ring", "snapshot", "testing::failpoints"],
    ),
    ("reflector", &["PORT", "FLOOR", "cacher", "snapshot"]),
    ("writer", &["PORT", "FLOOR"]),
    ("lessor", &["PORT", "FLOOR"]),
    ("compactor", &["PORT", "FLOOR"]),
    // Its watchers read the ring and the snapshots of the Cacher whose handle they were given.
    (
        "dispatcher",
        &["PORT", "FLOOR", "ring", "snapshot", "cacher"],
    ),
    ("supervisor", &["*"]),
    // Compiled for tests alone.
    ("testing", &["*"]),
];

/// Its modules are the nouns of one interface and may name each other, but for the schemas, which
/// know no nouns.
const API: Table = &[
    ("lib", &["*"]),
    ("schema", &[]),
    ("quantity", &[]),
    ("*", &["*"]),
];

/// Rows name what their kinds need. What they need does not know rows.
const KINDS: Table = &[
    ("lib", &["*"]),
    ("definitions", &["*"]),
    ("types", &[]),
    ("defaults", &["types"]),
    ("columns", &["validation::selectors"]),
    ("convert", &["defaults", "types"]),
    ("validation", &["defaults", "types"]),
    ("special", &["defaults", "validation"]),
    ("warnings", &["special", "validation"]),
    // Compiled for tests alone.
    ("recorded", &[]),
];

const DAEMON: Table = &[
    ("lib", &["*"]),
    ("main", &["*"]),
    ("daemon", &["*"]),
    ("config", &["files"]),
    // Whatever is opened by name is opened here. A log's predecessor is named after its end.
    ("files", &["clock"]),
    ("addresses", &[]),
    ("build_info", &[]),
    ("clock", &[]),
    ("coalescing_writer", &[]),
    ("admission", &["api", "schema"]),
    ("storage::embedded", &["files", "clock"]),
    // It changes keys as part of its caller, who may go away.
    (
        "storage::etcd",
        &["storage::RunToCompletion", "files", "coalescing_writer"],
    ),
    ("storage::factory", &["api", "storage"]),
    ("storage", &["api", "storage", "files"]),
    (
        "registry",
        &["api", "schema", "kinds", "admission", "clock", "STORAGE"],
    ),
    (
        "controllers",
        &["api", "kinds", "registry", "clock", "STORAGE"],
    ),
    (
        "server",
        &[
            "api",
            "kinds",
            "registry",
            "schema",
            "config",
            "telemetry",
            "shutdown",
            "files",
            "addresses",
            "build_info",
            "clock",
            "coalescing_writer",
            // What the registry answers with.
            "storage::ObjectList",
            "storage::RunningWatch",
            "storage::Stats",
            "storage::WatchStream",
            "storage::codec",
            "storage::history",
            // What an operator asks for.
            "storage::backup",
            "storage::past",
            "storage::rewrite",
        ],
    ),
    // A command reaches the running daemon with the admin's kubeconfig.
    (
        "cli",
        &[
            "config",
            "daemon",
            "files",
            "storage",
            "server::auth",
            "server::tls",
            "build_info",
            // A deep object is printed without recursion.
            "api::deep",
            "api::indentation",
        ],
    ),
    ("telemetry", &["config"]),
    ("process_limits", &[]),
    ("shutdown", &[]),
];

/// The parts of storage that do not depend on the place of the bytes.
const STORAGE: &[&str] = &["storage::codec", "storage::versioner", "storage::[A-Z]"];

/// Which crates an engine may name: the port of `actors` and nothing else of it.
const ENGINES: &[&str] = &["storage::embedded", "storage::etcd"];

fn row<'t>(
    table: &'t Table,
    module: &[String],
) -> Option<&'t (&'static str, &'static [&'static str])> {
    let path = if module.is_empty() {
        "lib".to_owned()
    } else {
        module.join("::")
    };
    table
        .iter()
        .filter(|(name, _)| path == *name || *name == "*" || path.starts_with(&format!("{name}::")))
        .max_by_key(|(name, _)| name.len())
}

fn allows(pattern: &str, path: &[String]) -> bool {
    match pattern {
        "*" => true,
        "PORT" => PORT.iter().any(|pattern| allows(pattern, path)),
        "FLOOR" => FLOOR.iter().any(|pattern| allows(pattern, path)),
        "STORAGE" => STORAGE.iter().any(|pattern| allows(pattern, path)),
        // The items of a module itself, and not its other modules.
        pattern if pattern.ends_with("::[A-Z]") => {
            path[0] == pattern.trim_end_matches("::[A-Z]")
                && path
                    .get(1)
                    .is_none_or(|name| name.starts_with(|c: char| c.is_uppercase()))
        }
        pattern => {
            pattern.split("::").zip(path).all(|(one, two)| one == two)
                && pattern.split("::").count() <= path.len()
        }
    }
}

fn breaches(folder: &str, table: Table) -> String {
    let mut report = String::new();
    for source in product(folder) {
        let Some((name, allowed)) = row(&table, &source.module) else {
            writeln!(
                report,
                "{}: no row in the table for it",
                source.path.display()
            )
            .unwrap();
            continue;
        };
        for path in source.names_inside() {
            let own = path.join("::");
            // A path of one lower-case word is a module; itself and its folders are its own.
            let inside = own == *name || own.starts_with(&format!("{name}::"));
            if !inside && !path.is_empty() && !allowed.iter().any(|pattern| allows(pattern, &path))
            {
                writeln!(
                    report,
                    "{}: {name} may not name {own}",
                    source.path.display()
                )
                .unwrap();
            }
        }
    }
    report
}

#[test]
fn each_part_names_only_those_it_may() {
    let report = breaches("actors/src", ACTORS)
        + &breaches("api/src", API)
        + &breaches("kinds/src", KINDS)
        + &breaches("src", DAEMON);
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn engines_name_nothing_of_the_actors_but_the_port() {
    for source in product("src") {
        let module = source.module.join("::");
        if ENGINES.iter().any(|engine| module.starts_with(engine)) {
            for path in source.names_of("actors") {
                // Their threads are watched too.
                assert!(
                    ["engine", "watchdog"].contains(&&*path[0]),
                    "{} names actors::{}",
                    source.path.display(),
                    path.join("::")
                );
            }
        }
    }
}

#[test]
fn the_actors_depend_on_no_protocol_format_file_or_database() {
    let manifest: toml::Table = std::fs::read_to_string(root().join("actors/Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let forbidden = [
        "bincode",
        "etcd-client",
        "h2",
        "http",
        "http-body",
        "hyper",
        "hyper-util",
        "redb",
        "reqwest",
        "rustix",
        "rustls",
        "serde_json",
        "serde-saphyr",
        "taffrail",
        "tonic",
        "tower",
    ];
    let dependencies = manifest["dependencies"].as_table().unwrap();
    for name in dependencies.keys() {
        assert!(
            !forbidden.contains(&name.as_str()),
            "actors depends on {name}"
        );
    }
    for source in product("actors/src") {
        for path in source.names_of("std") {
            assert!(
                !matches!(path[0].as_str(), "fs" | "net" | "process"),
                "{}",
                source.path.display()
            );
        }
    }
}

#[test]
fn pure_files_of_the_actors_import_no_runtime() {
    // What decides is tested without actix and without tokio.
    for source in product("actors/src") {
        let pure = source
            .text
            .lines()
            .take_while(|line| line.starts_with("//!"));
        if pure
            .into_iter()
            .any(|line| line.to_lowercase().contains("pure"))
        {
            for runtime in ["actix", "actix_rt", "tokio"] {
                let names = source.names_of(runtime);
                assert!(
                    names.is_empty(),
                    "{} says it is pure and names {runtime}",
                    source.path.display()
                );
            }
        }
    }
}

#[test]
fn only_one_part_opens_files_by_name_and_one_asks_for_the_date() {
    for source in product("src") {
        let path = source.path.display();
        let opens = [
            "fs::read",
            "File::open",
            "OpenOptions",
            "fs::rename",
            "fs::write",
            "File::create",
        ];
        // Who lists folders, and who reads what the kernel says below /proc.
        let code = source.code.replace("fs::read_dir", "");
        let excused = [
            "src/addresses.rs",
            "storage/embedded/disk/directory.rs",
            "storage/embedded/disk/lock.rs",
            "storage/encryption/reload.rs",
            "server/listener/vanished.rs",
            "server/tls/names.rs",
            "telemetry/process.rs",
        ];
        let excused = excused.iter().any(|file| source.path.ends_with(file));
        if source.module.first().is_none_or(|module| module != "files") && !excused {
            let named = opens.into_iter().find(|call| code.contains(call));
            assert!(named.is_none(), "{path}: {named:?} belongs into src/files");
        }
        let is_clock = source.module == ["clock"];
        assert!(
            is_clock || !code.contains("Timestamp::now"),
            "{path}: ask src/clock.rs"
        );
    }
}

#[test]
fn only_the_record_names_bincode() {
    for source in whole_product() {
        let names = !source.names_of("bincode").is_empty() || source.code.contains("bincode");
        let record = source.path.ends_with("storage/embedded/record.rs")
            || source.path.starts_with("src/storage/embedded/record");
        assert!(!names || record, "{} names bincode", source.path.display());
    }
}

/// The wire format of objects, lists and events is defined in one place.
#[test]
fn only_the_encoding_spells_out_objects() {
    for source in product("src/server") {
        let before_tests = source.text.split("#[cfg(test)]").next().unwrap();
        let spells = ["{\"kind\":", "{\"type\":\"", "\"apiVersion\":\""];
        let spells = spells.iter().any(|text| before_tests.contains(text));
        let is_encoding = source.path.starts_with("src/server/encoding");
        assert!(!spells || is_encoding, "{}", source.path.display());
    }
}

#[test]
fn only_the_etcd_engine_names_its_client() {
    for source in product("src") {
        for crate_name in ["etcd_client", "tonic"] {
            let names = !source.names_of(crate_name).is_empty();
            let is_engine = source.path.starts_with("src/storage/etcd");
            let path = source.path.display();
            assert!(!names || is_engine, "{path} names {crate_name}");
        }
    }
}

#[test]
fn no_module_is_called_after_nothing() {
    for folder in CRATES.into_iter().chain(["tests"]) {
        for path in files(folder, ".rs") {
            for part in path.strip_prefix(root()).unwrap() {
                let name = part.to_str().unwrap().trim_end_matches(".rs");
                let empty = ["util", "utils", "common", "helper", "helpers", "misc"];
                assert!(
                    !empty.contains(&name),
                    "{} needs a name of its own",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn files_and_functions_stay_short() {
    // Beyond the first numbers they are listed, beyond the second they fail.
    const FILE: (usize, usize) = (400, 500);
    const FUNCTION: (usize, usize) = (70, 100);
    let mut too_long = String::new();
    for source in whole_product() {
        let mut judge = |what: String, lines: usize, limits: (usize, usize)| {
            if lines > limits.1 {
                writeln!(too_long, "{what}: {lines} lines, {} at most", limits.1).unwrap();
            } else if lines > limits.0 {
                println!("{what}: {lines} lines, better {}", limits.0);
            }
        };
        let path = source.path.display();
        judge(format!("{path}"), source.product_lines(), FILE);
        for (name, line, lines) in source.functions() {
            judge(format!("{path}:{line}: {name}"), lines, FUNCTION);
        }
    }
    assert!(too_long.is_empty(), "\n{too_long}");
}

#[test]
fn every_module_says_what_it_is_for_and_stands_in_the_map() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for source in whole_product() {
        let documented = source.text.starts_with("//! ");
        assert!(
            documented,
            "{} doesn't say what it is for",
            source.path.display()
        );
    }
    let library = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for line in library.lines() {
        let Some(module) = line
            .trim()
            .strip_prefix("pub mod ")
            .or(line.strip_prefix("mod "))
        else {
            continue;
        };
        let module = module.trim_end_matches(';');
        let known = readme.contains(&format!("`src/{module}/`"))
            || readme.contains(&format!("`src/{module}.rs`"));
        assert!(known, "README.md's map has no src/{module}");
    }
    for line in readme.lines() {
        // What the map names exists.
        let first = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split(" |").next());
        for path in first
            .unwrap_or_default()
            .split('`')
            .filter(|part| part.contains('/'))
        {
            assert!(
                root().join(path).exists(),
                "README.md's map names {path}, which isn't there"
            );
        }
    }
}

#[test]
fn lines_are_not_too_wide() {
    let limits = [(".rs", 100), (".md", 140), (".sh", 140), (".toml", 200)];
    let mut report = String::new();
    for (ending, limit) in limits {
        for folder in FOLDERS {
            if !root().join(folder).exists() {
                continue;
            }
            for path in files(folder, ending) {
                let text = std::fs::read_to_string(&path).unwrap();
                for (number, line) in text.lines().enumerate() {
                    // A long text in quotes is left in one piece, so that it can be searched for.
                    let text = ending == ".rs" && line.contains('"');
                    // A row of a table can't be broken, and rustfmt leaves macros alone.
                    let table = line.starts_with("//! |") || line.starts_with("| ");
                    let row = table || line.contains("$(#[doc");
                    let whole = text || row || line.contains("http");
                    if line.chars().count() > limit && !whole {
                        writeln!(report, "{}:{}", path.display(), number + 1).unwrap();
                    }
                }
            }
        }
    }
    assert!(report.is_empty(), "wider than they may be:\n{report}");
}

#[test]
fn nothing_speaks_of_the_machine_it_was_written_on() {
    for folder in FOLDERS {
        if !root().join(folder).exists() {
            continue;
        }
        for path in files(folder, "") {
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            for place in ["/root/", "/home/", "/work/"] {
                let said = text.contains(place) && !path.ends_with("tests/tidy/main.rs");
                assert!(!said, "{} speaks of {place}", path.display());
            }
        }
    }
}

#[test]
fn every_test_that_a_deviation_names_exists() {
    let deviations = std::fs::read_to_string(root().join("tests/deviations.md")).unwrap();
    let tests: String = CRATES
        .iter()
        .chain(&["tests", "kinds/tests"])
        .flat_map(|folder| files(folder, ".rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let sections: Vec<&str> = deviations.split("\n### ").skip(1).collect();
    assert!(!sections.is_empty());
    for section in sections {
        let title = section.lines().next().unwrap();
        for test in section
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|quoted| quoted.contains("::"))
        {
            let (module, name) = test.rsplit_once("::").unwrap();
            let found = match name {
                // The unit tests of a module.
                "tests" => has_tests(module),
                name => tests.contains(&format!("fn {name}(")),
            };
            assert!(found, "{title}: there is no test {test}");
        }
    }
}

#[test]
fn every_deviation_has_a_number_of_its_own() {
    let deviations = std::fs::read_to_string(root().join("tests/deviations.md")).unwrap();
    let mut numbers = BTreeSet::new();
    for title in deviations.split("\n### ").skip(1) {
        let (number, _) = title.split_once(':').unwrap();
        assert!(numbers.insert(number), "there are two entries {number}");
    }
    assert!(!numbers.is_empty());
}

/// Keeps the reader of sources honest about what it reads.
#[test]
fn sources_are_found() {
    let sources: Vec<Source> = product("src");
    assert!(sources.len() > 10);
    assert!(
        sources
            .iter()
            .any(|source| !source.names_inside().is_empty())
    );
}
