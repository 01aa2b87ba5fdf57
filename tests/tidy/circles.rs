//! Finds groups of source files that use each other: a reader of one must read them all.
//!
//! A file uses another one if it names a path into it, by `use`, by `pub use` or inline. A path
//! leads to the module that is its longest prefix. Test code does not count. A `mod.rs` and its own
//! children count as one, because a façade names its children and they share its types.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;

use crate::source::{CRATES, Source, is_test, product, root};

/// The circles that are left: a file of each, and why it stays.
const LEFT: [(&str, &str); 2] = [
    (
        "src/registry/rest/mod.rs",
        "the capabilities of a path take and return what the verbs of a store do, and a store is \
         behind the first of those capabilities",
    ),
    (
        "src/server/encoding/media_type.rs",
        "a media type writes shapes and events, and each of them differs by media type",
    ),
];

/// The files of a crate and their uses of each other.
struct Graph {
    /// Paths in the repository.
    files: Vec<String>,
    /// The `mod.rs` above each file, or the root of the crate.
    parents: Vec<Option<usize>>,
    /// For each file and a file that it uses, the paths by which it uses it.
    arrows: BTreeMap<(usize, usize), BTreeSet<String>>,
}

/// Each module of a crate, with the index of its file.
type Modules<'s> = HashMap<&'s [String], usize>;

impl Graph {
    fn of(sources: &[Source]) -> Graph {
        let modules = sources.iter().enumerate();
        let modules: Modules = modules
            .map(|(index, source)| (source.module.as_slice(), index))
            .collect();
        let mut arrows: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for (from, source) in sources.iter().enumerate() {
            for path in source.paths() {
                // `crate::api` is another crate, which the root re-exports.
                if path.len() > 1 && path[0] == "crate" && is_reexported_crate(&path[1]) {
                    continue;
                }
                let path = absolute(&source.module, &path, &modules);
                let to = path.as_ref().map(|path| longest_prefix(path, &modules));
                if let (Some(path), Some(to)) = (path, to)
                    && to != from
                    && !is_for_tests(source)
                    && !is_for_tests(&sources[to])
                {
                    let paths = arrows.entry((from, to)).or_default();
                    paths.insert(path.join("::"));
                }
            }
        }
        let above = |source: &Source| {
            let (_, above) = source.module.split_last()?;
            modules.get(above).copied()
        };
        Graph {
            files: sources
                .iter()
                .map(|s| s.path.display().to_string())
                .collect(),
            parents: sources.iter().map(above).collect(),
            arrows,
        }
    }

    /// Returns the circles of at least two files. If all files of a circle are below a `mod.rs`
    /// that is one of them, the circles that remain without it count instead.
    fn circles(&self) -> Vec<Vec<usize>> {
        self.circles_within((0..self.files.len()).collect())
    }

    fn circles_within(&self, files: Vec<usize>) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        for circle in components(&files, self.arrows.keys().copied()) {
            let tops = circle.iter().map(|file| self.top(*file, &circle));
            let tops: BTreeSet<usize> = tops.collect();
            if tops.len() > 1 {
                found.push(circle);
            } else {
                let below = circle.into_iter().filter(|file| !tops.contains(file));
                found.extend(self.circles_within(below.collect()));
            }
        }
        found
    }

    /// Returns the highest file above a file that can be reached through parents within a circle.
    fn top(&self, file: usize, circle: &[usize]) -> usize {
        let parent = self.parents[file].filter(|parent| circle.contains(parent));
        parent.map_or(file, |parent| self.top(parent, circle))
    }

    /// Lists the files of a circle and the arrows between them.
    fn describe(&self, circle: &[usize]) -> String {
        let mut text = format!("{} files use each other:\n", circle.len());
        for file in circle {
            writeln!(text, "  {}", self.files[*file]).unwrap();
        }
        for ((from, to), paths) in &self.arrows {
            if circle.contains(from) && circle.contains(to) {
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                let (from, to) = (&self.files[*from], &self.files[*to]);
                writeln!(text, "    {from} -> {to}: {}", paths.join(", ")).unwrap();
            }
        }
        text
    }
}

/// Whether a name at the root of a crate is that of another crate.
fn is_reexported_crate(name: &str) -> bool {
    ["api", "kinds", "schema"].contains(&name)
}

/// Whether a file is compiled only for tests. The crate `actors` has a feature for its test code.
fn is_for_tests(source: &Source) -> bool {
    source.module.iter().any(|part| part == "testing") || is_test(&root().join(&source.path))
}

/// Returns the path from the root of the crate, if it leads into the crate.
fn absolute(module: &[String], path: &[String], modules: &Modules) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let (from, rest) = match first.as_str() {
        "crate" => (&[][..], rest),
        "self" => (module, rest),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let from = &module[..module.len().saturating_sub(ups)];
            (from, &path[ups..])
        }
        // Without one of these words a path begins with a child module, or leads to another crate.
        child => {
            let child: Vec<String> = module.iter().cloned().chain([child.to_owned()]).collect();
            modules.get(child.as_slice())?;
            (module, path)
        }
    };
    Some([from, rest].concat())
}

fn longest_prefix(path: &[String], modules: &Modules) -> usize {
    let prefixes = (0..=path.len()).rev().map(|length| &path[..length]);
    let mut found = prefixes.filter_map(|prefix| modules.get(prefix));
    *found.next().expect("the root of a crate is a module")
}

/// Returns the groups of at least two nodes in which each node reaches all others.
fn components(nodes: &[usize], arrows: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let members: BTreeSet<usize> = nodes.iter().copied().collect();
    let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in arrows {
        if members.contains(&from) && members.contains(&to) {
            next.entry(from).or_default().push(to);
        }
    }
    let reached_from = |start: usize| {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![start];
        while let Some(node) = waiting.pop() {
            for to in next.get(&node).into_iter().flatten() {
                if seen.insert(*to) {
                    waiting.push(*to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> = nodes
        .iter()
        .map(|node| (*node, reached_from(*node)))
        .collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for node in nodes {
        let group: Vec<usize> = reached[node]
            .iter()
            .copied()
            .filter(|other| reached[other].contains(node))
            .collect();
        // Each group is found once from each of its nodes. The first node keeps it.
        if group.len() > 1 && group[0] == *node {
            found.push(group);
        }
    }
    found
}

#[test]
fn files_use_each_other_only_in_circles_that_are_named() {
    let mut left: BTreeSet<&str> = LEFT.iter().map(|(file, _)| *file).collect();
    let mut report = String::new();
    for folder in CRATES {
        let graph = Graph::of(&product(folder));
        for circle in graph.circles() {
            let mut files = circle.iter().map(|file| graph.files[*file].as_str());
            let known = files.find_map(|file| left.take(file));
            if known.is_none() {
                report += &graph.describe(&circle);
            }
        }
    }
    assert!(
        report.is_empty(),
        "move what is shared below both:\n{report}"
    );
    assert!(left.is_empty(), "take these out of LEFT: {left:?}");
}

/// Returns the circles of a crate with these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources = files.iter().map(|(path, text)| {
        let path = Path::new(path);
        Source::parse(&Path::new("src").join(path), path, (*text).to_owned())
    });
    let graph = Graph::of(&sources.collect::<Vec<_>>());
    let names = |circle: &Vec<usize>| {
        let files = circle.iter().map(|file| graph.files[*file].clone());
        files.collect::<Vec<_>>()
    };
    graph.circles().iter().map(names).collect()
}

#[test]
fn every_form_of_a_path_makes_an_arrow() {
    let back = ("b.rs", "use crate::a::A;\n");
    for uses in [
        "use crate::b::B;",
        "pub use crate::b::{C, B as D};",
        "use crate::{c::C, b::*};",
        "use super::b;",
        "fn f() { crate::b::f(); }",
        "struct A(super::b::B);",
    ] {
        let found = circles_of(&[("lib.rs", ""), ("a.rs", uses), back, ("c.rs", "")]);
        assert_eq!(found, [["src/a.rs", "src/b.rs"]], "{uses}");
    }
    for uses in [
        "use crate::c::b;",
        "use b::B;",
        "// crate::b\nconst B: &str = \"crate::b::B\";",
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "pub(in crate::b) fn f() {}",
    ] {
        let found = circles_of(&[("lib.rs", ""), ("a.rs", uses), back, ("c.rs", "")]);
        assert!(found.is_empty(), "{uses}: {found:?}");
    }
}

#[test]
fn a_path_leads_to_its_longest_prefix() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod d;"),
        ("a/mod.rs", "mod b;"),
        ("a/b.rs", "use crate::d::f;"),
        ("d.rs", "use crate::a::b::inside::Item;"),
    ]);
    assert_eq!(found, [["src/a/b.rs", "src/d.rs"]]);
}

#[test]
fn a_facade_and_its_children_are_one() {
    let facade = (
        "a/mod.rs",
        "mod b; mod c; pub use b::B; pub use self::c::C;",
    );
    let child = ("a/b.rs", "use super::A;");
    let lib = ("lib.rs", "");
    assert!(circles_of(&[lib, facade, child, ("a/c.rs", "use super::B;")]).is_empty());
    // The children of a façade must not use each other.
    let children = [
        ("a/b.rs", "use super::c::C;"),
        ("a/c.rs", "use super::b::B;"),
    ];
    let found = circles_of(&[lib, facade, children[0], children[1]]);
    assert_eq!(found, [["src/a/b.rs", "src/a/c.rs"]]);
    // A circle through another folder also goes through the façade.
    let found = circles_of(&[
        lib,
        facade,
        ("a/b.rs", "use crate::d::D;"),
        ("a/c.rs", ""),
        ("d.rs", "use crate::a::B;"),
    ]);
    assert_eq!(found, [["src/a/mod.rs", "src/a/b.rs", "src/d.rs"]]);
}

#[test]
fn chains_are_no_circles_and_two_circles_are_two() {
    let found = circles_of(&[
        ("lib.rs", ""),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::a::A; use crate::d::D;"),
        ("d.rs", "use crate::e::E;"),
        ("e.rs", "use crate::d::D; use crate::f::F;"),
        ("f.rs", "use crate::testing::T;"),
        ("testing.rs", "use crate::f::F;"),
    ]);
    let expected: [&[&str]; 2] = [
        &["src/a.rs", "src/b.rs", "src/c.rs"],
        &["src/d.rs", "src/e.rs"],
    ];
    assert_eq!(found, expected);
}
