//! The columns of Tables, compared with kube-apiserver's (API-68, API-70).

use sha2::{Digest, Sha256};

use crate::harness::{Call, Daemon};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A line for each column: path, name, type, format, priority, and a hash of its description if
/// that is the description of a field, else `-`.
const COLUMNS: &str = include_str!("../fixtures/columns.tsv");

/// As in the fixture.
const NAMED_BYTES: usize = 6;

#[tokio::test]
async fn columns_are_those_of_kube_apiserver_and_described_by_the_same_fields() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let lines = COLUMNS.lines().filter(|line| !line.starts_with('#'));
    let recorded: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    let mut differences = Vec::new();
    for of_path in recorded.chunk_by(|one, other| one[0] == other[0]) {
        let call = Call::get(of_path[0][0]).header("accept", TABLE);
        let table = client.call(call).await.expect(200);
        let columns = table["columnDefinitions"].as_array().unwrap();
        assert_eq!(columns.len(), of_path.len(), "{}", of_path[0][0]);
        for (column, line) in columns.iter().zip(of_path) {
            let description = column["description"].as_str().unwrap();
            let digest = Sha256::digest(description);
            let hash: String = digest[..NAMED_BYTES]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let priority = column["priority"].to_string();
            let text = |name: &str| column[name].as_str().unwrap().to_owned();
            let hash = match line[5] {
                "-" => "-".to_owned(),
                _ => hash,
            };
            let shown = [text("name"), text("type"), text("format"), priority, hash];
            // The handler of a RuntimeClass has none there.
            if shown != line[1..] || description.is_empty() {
                differences.push(format!("{line:?}: {shown:?} {description}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
