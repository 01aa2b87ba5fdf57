//! The page about sizing says what follows from the constants that stand in it. The tests of what
//! `cargo bench -- sizing` computes run here too: a bench runs none.

#[allow(dead_code)]
#[path = "../bench/sizing/constants.rs"]
mod constants;
#[allow(dead_code)]
#[path = "../bench/sizing/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../bench/sizing/page.rs"]
mod page;
#[allow(dead_code)]
#[path = "../bench/sizing/solve.rs"]
mod solve;

use crate::source::root;

#[test]
fn the_page_about_sizing_says_what_follows_from_its_constants() {
    let text = std::fs::read_to_string(root().join("docs/sizing.md")).unwrap();
    let constants = page::constants(&text).unwrap();
    let (said, computed) = (
        page::between(&text, page::COMPUTED).unwrap(),
        page::computed(&constants),
    );
    assert!(
        said == computed,
        "docs/sizing.md doesn't say what follows from its constants, which is:\n\n{computed}"
    );
    // The part of the tables that is explained in words names the model's own numbers.
    for said in [
        format!("{} cores", model::CORES),
        format!("{} GiB", model::MEMORY_GIB),
        format!("{} %", model::BUSY * 100.0),
    ] {
        assert!(text.contains(&said), "docs/sizing.md doesn't say {said}");
    }
}
