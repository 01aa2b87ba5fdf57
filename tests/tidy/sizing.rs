//! Checks that the sizing page states the results of its own constants. The tests of `cargo bench
//! -- sizing` run here too, because a bench runs no tests.

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
        "docs/sizing.md does not state the results of its constants, which are:\n\n{computed}"
    );
    // The text below the tables repeats numbers of the model.
    for said in [
        format!("{} cores", model::CORES),
        format!("{} GiB", model::MEMORY_GIB),
        format!("{} %", model::BUSY * 100.0),
    ] {
        assert!(
            text.contains(&said),
            "docs/sizing.md does not contain {said}"
        );
    }
}
