//! The Grafana board, field by field, and the program that makes it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::expressions::Expression;
use crate::{assert_none, dashboards};

/// The schema of Grafana 13.
const SCHEMA: u64 = 42;

/// The width of a board.
const COLUMNS: u64 = 24;

/// Units that Grafana knows, of those that make sense here.
const UNITS: [&str; 12] = [
    "none",
    "short",
    "percent",
    "percentunit",
    "s",
    "ms",
    "bytes",
    "decbytes",
    "binBps",
    "ops",
    "reqps",
    "cps",
];

/// Variables that Grafana has by itself.
const BUILT_IN: [&str; 5] = ["__rate_interval", "__interval", "__range", "__from", "__to"];

/// One query of a panel.
pub struct Target {
    pub panel: String,
    pub ref_id: String,
    pub expression: Expression,
    /// How its series are called.
    pub legend: String,
}

fn board() -> Value {
    let text = std::fs::read_to_string(dashboards("taffrail.json")).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("taffrail.json is no JSON: {error}"))
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}

fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// The queries of all panels, with the variables as they are written.
pub fn targets() -> Vec<Target> {
    let board = board();
    let panels = list(&board, "panels").iter();
    let targets = panels.flat_map(|panel| {
        list(panel, "targets").iter().map(|target| Target {
            panel: text(panel, "title").to_owned(),
            ref_id: text(target, "refId").to_owned(),
            expression: Expression {
                place: format!(
                    "the panel {:?}, query {}",
                    text(panel, "title"),
                    text(target, "refId")
                ),
                text: text(target, "expr").to_owned(),
            },
            legend: text(target, "legendFormat").to_owned(),
        })
    });
    let targets: Vec<Target> = targets.collect();
    assert!(targets.len() > 50, "only {} queries", targets.len());
    targets
}

/// All expressions of the board: of panels, annotations and variables.
pub fn expressions() -> Vec<Expression> {
    let board = board();
    let annotations = list(&board["annotations"], "list").iter();
    let annotations = annotations.map(|one| Expression {
        place: format!("the annotation {:?}", text(one, "name")),
        text: text(&one["target"], "expr").to_owned(),
    });
    let variables = list(&board["templating"], "list").iter();
    let variables = variables.filter_map(|one| {
        // label_values(METRIC, LABEL)
        let inside = text(one, "definition").strip_prefix("label_values(")?;
        Some(Expression {
            place: format!("the variable {:?}", text(one, "name")),
            text: inside.rsplit_once(',')?.0.to_owned(),
        })
    });
    let mut all: Vec<Expression> = annotations.chain(variables).collect();
    assert_eq!(all.len(), 3, "an annotation and two variables ask: {all:?}");
    all.extend(targets().into_iter().map(|target| target.expression));
    all
}

/// The variables that a text uses, as `$name`, `${name}` or `${name:format}`.
fn variables_in(text: &str) -> BTreeSet<String> {
    let uses = text.split('$').skip(1);
    let names = uses.map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest[..end.unwrap_or(rest.len())].to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

fn chooses_source(value: &Value) -> bool {
    value["datasource"]["type"] == "prometheus" && value["datasource"]["uid"] == "${datasource}"
}

#[test]
fn the_board_has_all_that_grafana_asks_for() {
    let board = board();
    let mut wrong = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    demand(
        board["schemaVersion"] == SCHEMA,
        "schemaVersion is not that of Grafana 13, 42",
    );
    demand(!text(&board, "title").is_empty(), "it has no title");
    demand(!text(&board, "uid").is_empty(), "it has no uid");
    demand(board["id"].is_null(), "it has the id of one installation");
    demand(
        board["version"].as_u64().is_some(),
        "version is not a number",
    );
    demand(
        !text(&board["time"], "from").is_empty() && !text(&board["time"], "to").is_empty(),
        "it has no time range",
    );
    demand(
        list(&board, "tags").contains(&"taffrail".into()),
        "it has no tag taffrail",
    );
    for annotation in list(&board["annotations"], "list") {
        let name = text(annotation, "name");
        let is_whole =
            chooses_source(annotation) && !text(&annotation["target"], "expr").is_empty();
        demand(
            is_whole && !name.is_empty(),
            &format!("annotation {name:?}: it needs name, datasource and expr"),
        );
    }
    assert_none("dashboards/taffrail.json", &wrong);
}

#[test]
fn every_panel_has_its_fields() {
    let board = board();
    let mut wrong = Vec::new();
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    let panels = list(&board, "panels");
    assert!(panels.len() > 20, "only {} panels", panels.len());
    for panel in panels {
        let title = text(panel, "title");
        let mut demand = |holds: bool, what: &str| {
            if !holds {
                wrong.push(format!("panel {} {title:?}: {what}", panel["id"]));
            }
        };
        let id = panel["id"].as_u64().filter(|id| *id > 0);
        demand(
            id.is_some_and(|id| ids.insert(id)),
            "its id is no number, or another's",
        );
        demand(!title.is_empty(), "it has no title");
        demand(titles.insert(title.to_owned()), "its title is another's");
        let kind = text(panel, "type");
        if kind == "row" {
            demand(panel["collapsed"] == false, "the row is collapsed");
            demand(list(panel, "panels").is_empty(), "the row hides panels");
            continue;
        }
        demand(
            matches!(kind, "stat" | "timeseries"),
            "its type is neither stat nor timeseries",
        );
        demand(!text(panel, "description").is_empty(), "no description");
        demand(
            chooses_source(panel),
            "its datasource is not the variable ${datasource}",
        );
        let defaults = &panel["fieldConfig"]["defaults"];
        demand(
            UNITS.contains(&text(defaults, "unit")),
            "its unit is not one of those in the test",
        );
        demand(
            !list(&defaults["thresholds"], "steps").is_empty(),
            "it has no thresholds",
        );
        demand(
            panel["fieldConfig"]["overrides"].is_array(),
            "it has no overrides, not even none",
        );
        let option = if kind == "stat" {
            "reduceOptions"
        } else {
            "legend"
        };
        demand(
            panel["options"][option].is_object(),
            "its options are incomplete",
        );
        let targets = list(panel, "targets");
        demand(!targets.is_empty(), "it asks for nothing");
        let refs: BTreeSet<&str> = targets.iter().map(|one| text(one, "refId")).collect();
        demand(
            refs.len() == targets.len() && !refs.contains(""),
            "a refId is missing or there twice",
        );
        for target in targets {
            let whole = ["expr", "legendFormat"]
                .iter()
                .all(|member| !text(target, member).trim().is_empty());
            demand(
                whole && chooses_source(target),
                &format!(
                    "query {}: it needs expr, legendFormat and datasource",
                    text(target, "refId")
                ),
            );
            let is_instant = kind == "stat";
            demand(
                target["instant"] == is_instant && target["range"] == !is_instant,
                "a stat asks for one moment, a timeseries for a range",
            );
        }
    }
    assert_none("dashboards/taffrail.json", &wrong);
}

/// The sides of a panel: left, right, top, bottom.
fn sides(panel: &Value) -> Option<[u64; 4]> {
    let at = |name: &str| panel["gridPos"][name].as_u64();
    let (x, y, w, h) = (at("x")?, at("y")?, at("w")?, at("h")?);
    (w > 0 && h > 0).then_some([x, x + w, y, y + h])
}

#[test]
fn panels_lie_beside_each_other_inside_the_columns() {
    let board = board();
    let mut wrong = Vec::new();
    let mut placed: Vec<(&str, [u64; 4])> = Vec::new();
    for panel in list(&board, "panels") {
        let title = text(panel, "title");
        let Some(sides) = sides(panel) else {
            wrong.push(format!(
                "{title:?}: gridPos needs x, y, and w and h above 0"
            ));
            continue;
        };
        if sides[1] > COLUMNS {
            wrong.push(format!(
                "{title:?}: it ends at column {} of {COLUMNS}",
                sides[1]
            ));
        }
        for (other, theirs) in &placed {
            let crosses =
                |from: usize| sides[from] < theirs[from + 1] && theirs[from] < sides[from + 1];
            if crosses(0) && crosses(2) {
                wrong.push(format!("{title:?} lies over {other:?}"));
            }
        }
        placed.push((title, sides));
    }
    assert_none("dashboards/taffrail.json", &wrong);
}

#[test]
fn every_variable_that_is_used_exists_and_every_one_that_exists_is_used() {
    let board = board();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for variable in list(&board["templating"], "list") {
        let name = text(variable, "name");
        known.insert(name.to_owned());
        let is_whole = match text(variable, "type") {
            "datasource" => variable["query"] == "prometheus",
            "query" => {
                let asked = text(&variable["query"], "query");
                chooses_source(variable)
                    && asked == text(variable, "definition")
                    && !asked.is_empty()
            }
            _ => false,
        };
        if !is_whole || text(variable, "label").is_empty() {
            wrong.push(format!(
                "the variable {name:?} lacks type, label, query or datasource"
            ));
        }
    }
    let used = variables_in(&board.to_string());
    let is_known = |name: &&String| known.contains(*name) || BUILT_IN.contains(&name.as_str());
    // `current` says ${__all} for whatever there is.
    for name in used.iter().filter(|name| !is_known(name)) {
        if name != "__all" {
            wrong.push(format!("${name} is used and is no variable"));
        }
    }
    for name in known.difference(&used) {
        wrong.push(format!("the variable {name} is never used"));
    }
    assert_none("dashboards/taffrail.json", &wrong);
}

/// Runs make-board.py in a folder.
fn make_board(folder: &Path, arguments: &[&str]) -> Output {
    let program = folder.join("make-board.py");
    let run = Command::new("python3")
        .arg(&program)
        .args(arguments)
        .output();
    run.unwrap_or_else(|error| {
        panic!(
            "{} needs python3, which cannot be run here: {error}",
            program.display()
        )
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_board_is_what_its_program_makes() {
    let output = make_board(&dashboards(""), &["--check"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_program_notices_a_board_that_was_changed_and_makes_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let (program, file) = (
        folder.path().join("make-board.py"),
        folder.path().join("taffrail.json"),
    );
    std::fs::copy(dashboards("make-board.py"), program).unwrap();
    let committed = std::fs::read_to_string(dashboards("taffrail.json")).unwrap();
    for changed in ["", &committed.replacen("Taffrail", "Tafrail", 1)] {
        std::fs::write(&file, changed).unwrap();
        let output = make_board(folder.path(), &["--check"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let says = said(&output);
        assert!(says.contains("run dashboards/make-board.py"), "{says}");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert_eq!(kept, changed, "--check writes nothing");
    }
    let output = make_board(folder.path(), &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        std::fs::read_to_string(&file).unwrap() == committed,
        "make-board.py makes another board than the one in the repository"
    );
}
