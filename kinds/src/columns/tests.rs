use api::table::column_definitions;
use serde_json::{Value, json};

use crate::definitions::built_in;

/// http.md 6.4: names, types, formats and priorities of columns are those of kube-apiserver.
#[test]
fn columns_are_those_of_kubernetes() {
    let recorded = include_str!("../../recorded/columns.json");
    let recorded: Vec<Value> = serde_json::from_str(recorded).expect("JSON");
    let rows = built_in();
    assert_eq!(rows.len(), recorded.len());
    for row in rows {
        let prefix = if row.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let path = format!("{prefix}/{}/{}", row.api_version(), row.plural);
        let theirs = recorded
            .iter()
            .find(|record| record["path"] == path.as_str());
        let definitions = column_definitions(&row);
        let columns = definitions.as_array().into_iter().flatten();
        let own: Value = columns
            .map(|column| {
                let of = |name: &str| column[name].clone();
                json!([of("name"), of("type"), of("format"), of("priority")])
            })
            .collect();
        assert_eq!(own, theirs.expect("a known path")["columns"], "{path}");
    }
}
