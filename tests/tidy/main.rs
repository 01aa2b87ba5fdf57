//! The project's rules for sources, checked by reading the sources.
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

/// For each module, the path prefixes that it may name in addition to its own.
type Table = &'static [(&'static str, &'static [&'static str])];

/// The interface of the engines, and the types that it uses.
const PORT: &[&str] = &["engine", "object", "watch"];

/// The modules that every actor needs: requests to it, its end, and its restart.
const FLOOR: &[&str] = &[
    "backoff",
    "exit",
    "failure",
    "mailbox",
    "actor_ref",
    "threads",
    "tasks",
    "watchdog",
    "clock",
];

const ACTORS: Table = &[
    ("lib", &["*"]),
    ("engine", &[]),
    ("engine::local", &["engine::[A-Z]"]),
    (
        "engine::memory",
        &["engine::[A-Z]", "engine::local", "clock"],
    ),
    ("object", &["engine"]),
    ("watch", &["engine", "object"]),
    ("backoff", &[]),
    ("exit", &["watchdog"]),
    ("threads", &["clock"]),
    ("tasks", &[]),
    ("clock", &[]),
    // Tests inject failures at the turns that it watches.
    ("watchdog", &["testing::failpoints", "threads"]),
    ("failure", &[]),
    ("actor_ref", &[]),
    ("mailbox", &["actor_ref"]),
    ("snapshot", &["PORT"]),
    ("ring", &["PORT"]),
    (
        "cacher",
        // Tests inject failures here.
        &["PORT", "FLOOR", "ring", "snapshot", "testing::failpoints"],
    ),
    ("reflector", &["PORT", "FLOOR", "cacher", "snapshot"]),
    ("writer", &["PORT", "FLOOR"]),
    ("lessor", &["PORT", "FLOOR"]),
    ("compactor", &["PORT", "FLOOR"]),
    // Its watchers read the ring and the snapshots of the Cacher that they got a handle of.
    (
        "dispatcher",
        &["PORT", "FLOOR", "ring", "snapshot", "cacher"],
    ),
    ("supervisor", &["*"]),
    // Compiled only for tests.
    ("testing", &["*"]),
];

/// The layers of a crate from the lowest one up, with their modules in order: each module may name
/// itself and the modules before it.
type Layers = &'static [(&'static str, &'static [&'static str])];

const API: Layers = &[
    ("texts", &["percent", "text", "names", "pem"]),
    (
        "the work of a thread",
        &["abandoned", "cost", "keyed", "large"],
    ),
    ("JSON", &["deep", "go_json", "indentation", "continuation"]),
    (
        "facts of a request",
        &[
            "annotations",
            "warnings",
            "version",
            "user_info",
            "request_info",
        ],
    ),
    (
        "objects and schemas",
        &["group_version_kind", "quantity", "schema", "object"],
    ),
    (
        "errors of fields",
        &["field_validation", "field_error", "error_list", "field"],
    ),
    (
        "values by their types",
        &["field_set", "typed", "completeness", "structural", "cel"],
    ),
    ("resources", &["resource", "table", "selector"]),
    (
        "requests",
        &[
            "decode",
            "protobuf",
            "options",
            "patch",
            "managed_fields",
            "metadata",
            "custom",
        ],
    ),
    // It converts from the errors of all others.
    ("status", &["status"]),
];

/// Rows name the functions that their kinds need. Those functions do not know the rows.
const KINDS: Table = &[
    ("lib", &["*"]),
    ("definitions", &["*"]),
    ("types", &[]),
    ("resource_names", &[]),
    ("defaults", &["resource_names", "types"]),
    ("columns", &["validation::selectors"]),
    ("convert", &["defaults", "types"]),
    ("validation", &["defaults", "resource_names", "types"]),
    ("strategies", &["defaults", "types", "validation"]),
    ("warnings", &["strategies", "validation"]),
    // Compiled only for tests.
    ("recorded", &[]),
];

const DAEMON: Table = &[
    ("lib", &["*"]),
    ("main", &["*"]),
    ("program", &["*"]),
    ("daemon", &["*"]),
    // It runs a daemon inside another program.
    (
        "library",
        &[
            "api",
            "auth",
            "clock",
            "config",
            "controllers::Simulation",
            "daemon",
            "files",
            "process_limits",
            "server::test_controls",
            "telemetry",
            "test_server",
        ],
    ),
    // Values of flags are in the notations of Go and Kubernetes.
    (
        "config",
        &[
            "files",
            "api::quantity",
            "api::text",
            "api::field_error",
            "documents",
            "schema",
        ],
    ),
    ("documents", &["api", "schema"]),
    // It makes settings of a command line.
    (
        "kube_apiserver",
        &["cli", "config", "controllers", "daemon", "files"],
    ),
    // It runs a daemon, and talks to it as a client.
    (
        "test_server",
        &[
            "api::decode",
            "auth",
            "build_info",
            "cli",
            "config",
            "controllers::Simulation",
            "daemon",
            "egress",
            "files",
            "parent",
            "telemetry",
            "transport::listener",
        ],
    ),
    // Every file that is opened by name is opened here. A rotated log is named after its end.
    ("files", &["clock"]),
    ("addresses", &[]),
    ("build_info", &[]),
    ("clock", &[]),
    ("coalescing_writer", &[]),
    ("upgraded", &[]),
    ("x509", &[]),
    // It knows no objects: others ask it for Services through its trait.
    ("egress", &["files", "upgraded", "x509"]),
    // It makes targets of settings.
    ("kubelet", &["config", "egress", "files"]),
    // It does not know Kubernetes. The protocols know neither each other nor the listener.
    (
        "transport",
        &[
            "config",
            "files",
            "addresses",
            "clock",
            "x509",
            "coalescing_writer",
            "upgraded",
        ],
    ),
    ("transport::http1", TRANSPORT),
    ("transport::http2", TRANSPORT),
    ("transport::fairness", &["transport::[A-Z]"]),
    (
        "transport::tls",
        &[
            "config",
            "files",
            "addresses",
            "clock",
            "x509",
            "transport::[A-Z]",
        ],
    ),
    // Issuers of tokens are asked for their keys.
    (
        "auth",
        &[
            "addresses",
            "api",
            "schema",
            "documents",
            "files",
            "clock",
            "x509",
            "egress",
        ],
    ),
    (
        "admission",
        &[
            "api",
            "schema",
            "documents",
            "kinds::resource_names",
            "kinds::validation",
            "auth",
            "clock",
            // Webhooks are asked over it.
            "egress",
            // The configuration of plugins is a file of the operator.
            "files",
            "telemetry::expressions",
        ],
    ),
    ("storage::embedded", &["files", "clock"]),
    // It changes keys in the task of its caller, who may go away.
    (
        "storage::etcd",
        &[
            "storage::RunToCompletion",
            "files",
            "clock",
            "coalescing_writer",
        ],
    ),
    ("storage::factory", &["api", "storage"]),
    ("storage", &["api", "storage", "files", "clock"]),
    (
        "registry",
        &[
            "api",
            "schema",
            "kinds",
            "auth",
            "admission",
            "clock",
            // Component statuses ask servers over TLS.
            "x509::ServerVerifier",
            "STORAGE",
        ],
    ),
    (
        "controllers",
        &[
            "api",
            "kinds",
            "registry",
            "clock",
            "STORAGE",
            // Published certificates are not expired.
            "x509",
            // A start completes the rules of roles.
            "auth::rbac",
        ],
    ),
    // It asks other servers, and keeps objects about them.
    (
        "aggregation",
        &[
            "api",
            "registry",
            "clock",
            "egress",
            "STORAGE",
            // Services are found for webhooks and for APIServices alike.
            "admission::hooks::client",
            // A controller runs with the others, and queues its work as they do.
            "controllers",
        ],
    ),
    // It has its resources served by a trait that the daemon implements.
    (
        "custom_resources",
        &[
            "api",
            "schema",
            "kinds",
            "registry",
            "clock",
            "x509",
            "STORAGE",
            // Conversion webhooks are asked by the client of admission webhooks, with its texts.
            "admission::hooks::client",
            "documents",
            "telemetry::expressions",
        ],
    ),
    (
        "server",
        &[
            "addresses",
            "aggregation",
            "api",
            "documents",
            "kinds",
            "registry",
            "auth",
            "transport",
            // Connections to kubelets are carried out here.
            "egress",
            "kubelet",
            "upgraded",
            "schema",
            "config",
            "telemetry",
            "shutdown",
            "files",
            "build_info",
            "clock",
            // The results of the registry.
            "storage::ObjectList",
            "storage::RunningWatch",
            "storage::Stats",
            "storage::WatchStream",
            "storage::codec",
            "storage::history",
            // The operations for operators.
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
            "auth",
            "transport::tls",
            "x509::ServerVerifier",
            "build_info",
            // A flag has the document that a path of the server takes.
            "server::test_controls",
            // The most nodes of a flag.
            "controllers::Simulation",
            // A deep object is printed without recursion.
            "api::deep",
            "api::indentation",
        ],
    ),
    // The program `etcd`: keys and bytes, so it knows neither the daemon nor its objects.
    (
        "etcd_shim",
        &[
            "build_info",
            // A refused command line is reported as those of the daemon.
            "cli::EXIT_REFUSED",
            "cli::complain",
            "config",
            "parent",
            "shutdown",
            "storage::embedded",
            "telemetry",
            "transport::listener",
        ],
    ),
    ("telemetry", &["config"]),
    ("parent", &[]),
    ("process_limits", &[]),
    ("shutdown", &[]),
];

/// The modules that both protocols use.
const TRANSPORT: &[&str] = &[
    "clock",
    "coalescing_writer",
    "upgraded",
    "transport::buffer_pool",
    "transport::connection_state",
    "transport::frame_batch",
    "transport::host",
    "transport::http_date",
    "transport::limits",
    "transport::lingering_close",
    "transport::session",
    "transport::thread",
    // The interface to the service, which `transport` itself exports.
    "transport::[A-Z]",
];

/// The parts of storage that do not depend on where the bytes are.
const STORAGE: &[&str] = &["storage::codec", "storage::versioner", "storage::[A-Z]"];

/// The modules of engines. Of `actors` they may name only the engine interface.
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
        // The items of a module itself, without its submodules.
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
                "{}: the table has no row for it",
                source.path.display()
            )
            .unwrap();
            continue;
        };
        for path in source.names_inside() {
            let own = path.join("::");
            // A path of one lower-case word is a module. A module may name itself and its
            // submodules.
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
fn tasks_share_their_code() {
    for source in ["src", "actors/src"].into_iter().flat_map(product) {
        let is_own = source.module.first().is_some_and(|name| name == "tasks");
        for path in ["tokio", "actix_rt"]
            .map(|name| source.names_of(name))
            .concat()
        {
            let starts = path.iter().any(|name| name.starts_with("spawn"));
            let place = source.path.display();
            assert!(
                is_own || !starts,
                "{place}: start tasks by actors::tasks, not {path:?}"
            );
        }
    }
}

/// The table of a crate in layers.
fn of_layers(layers: Layers) -> Table {
    let modules = layers.iter().flat_map(|(_, modules)| *modules).copied();
    let modules: &[&str] = modules.collect::<Vec<_>>().leak();
    let rows = modules.iter().enumerate();
    let rows = rows.map(|(place, module)| (*module, &modules[..place]));
    // The samples are compiled for tests alone.
    let others: [(&str, &[&str]); 2] = [("lib", &["*"]), ("samples", &["*"])];
    rows.chain(others).collect::<Vec<_>>().leak()
}

#[test]
fn each_part_names_only_those_it_may() {
    let report = breaches("actors/src", ACTORS)
        + &breaches("api/src", of_layers(API))
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
                // The threads of engines are watched and measured, too.
                assert!(
                    ["engine", "tasks", "threads", "watchdog"].contains(&&*path[0]),
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
    // Decisions are tested without actix and without tokio.
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
                    "{} says that it is pure but names {runtime}",
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
        // Listing folders is permitted, and so is reading the kernel's files below /proc.
        let code = source.code.replace("fs::read_dir", "");
        let excused = [
            "src/addresses.rs",
            "etcd_shim/peer.rs",
            "storage/embedded/disk/directory.rs",
            "storage/embedded/disk/lock.rs",
            "storage/embedded/holder.rs",
            "storage/encryption/reload.rs",
            "transport/vanished.rs",
            "transport/tls/names.rs",
            "telemetry/process.rs",
        ];
        let excused = excused.iter().any(|file| source.path.ends_with(file));
        if source.module.first().is_none_or(|module| module != "files") && !excused {
            let named = opens.into_iter().find(|call| code.contains(call));
            assert!(named.is_none(), "{path}: {named:?} belongs in src/files");
        }
        let is_clock = source.module == ["clock"];
        assert!(
            is_clock || !code.contains("Timestamp::now"),
            "{path}: use src/clock.rs"
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
fn only_the_etcd_engine_and_the_etcd_program_name_its_client() {
    // The crate has etcd's messages, which the program answers as the engine asks.
    let places = ["src/storage/etcd", "src/etcd_shim"];
    for source in product("src") {
        for crate_name in ["etcd_client", "tonic"] {
            let names = !source.names_of(crate_name).is_empty();
            let may = places.iter().any(|place| source.path.starts_with(place));
            let path = source.path.display();
            assert!(!names || may, "{path} names {crate_name}");
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
                    "{} needs a more specific name",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn files_and_functions_stay_short() {
    // Above the first number they are listed, above the second the test fails.
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
            "{} lacks module documentation",
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
        // README.md has the folders that a newcomer needs, and the library all modules.
        let mut map = library.lines().filter(|line| line.starts_with("//!"));
        let known = readme.contains(&format!("`src/{module}/`"))
            || map.any(|line| line.contains(&format!("`{module}`")));
        assert!(
            known,
            "neither README.md nor src/lib.rs says what {module} is for"
        );
    }
    for line in readme.lines() {
        // Paths in the map must exist.
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
                "README.md's map names {path}, which does not exist"
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
                    // A long quoted text is not broken, so that it can be searched for.
                    let text = ending == ".rs" && line.contains('"');
                    // A row of a table cannot be broken, and rustfmt does not format macros.
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
    assert!(report.is_empty(), "these lines are too wide:\n{report}");
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
                assert!(!said, "{} mentions {place}", path.display());
            }
        }
    }
}

#[test]
fn every_test_that_a_deviation_names_exists() {
    let deviations = std::fs::read_to_string(root().join("tests/deviations.md")).unwrap();
    let tests: String = CRATES
        .iter()
        .chain(&["tests", "api/tests", "kinds/tests"])
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
            assert!(found, "{title}: the test {test} does not exist");
        }
    }
}

#[test]
fn every_deviation_has_a_number_of_its_own() {
    let deviations = std::fs::read_to_string(root().join("tests/deviations.md")).unwrap();
    let mut numbers = BTreeSet::new();
    for title in deviations.split("\n### ").skip(1) {
        let (number, _) = title.split_once(':').unwrap();
        assert!(numbers.insert(number), "the number {number} is used twice");
    }
    assert!(!numbers.is_empty());
}

/// Checks that the sources are found, so that no rule passes because it read nothing.
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
