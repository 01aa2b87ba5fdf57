//! `--load`: the objects of manifests, before the server is ready.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::client::{Client, Refusal};
use super::documents::{Document, documents};
use crate::files::given;

/// A manifest of more bytes was given by mistake.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The ends of names that are manifests in a folder, as for `kubectl apply -f`.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// The longest wait for a definition to be served, and for the account of a pod.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before something that is waited for is looked at again, and its largest value.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(50);
/// The account of pods that name none. A controller makes it in each namespace.
const DEFAULT_ACCOUNT: &str = "default";
const FIELD_MANAGER: &str = "fieldManager=taffrail-test&force=true";

/// A file and its objects.
#[derive(Debug)]
pub(super) struct Manifest {
    path: PathBuf,
    documents: Vec<Document>,
}

/// The order in which objects are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Definitions,
    Namespaces,
    Others,
}

fn turn_of(object: &Value) -> Turn {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    match kind {
        "CustomResourceDefinition" if version.starts_with("apiextensions.k8s.io/") => {
            Turn::Definitions
        }
        "Namespace" if version == "v1" => Turn::Namespaces,
        _ => Turn::Others,
    }
}

/// Reads files, and the manifests of folders, in the order of their names.
///
/// # Errors
/// A line with the file, the document and the fault.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, String> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => {
                let before = files.len();
                collect(path, &mut files)?;
                if files.len() == before {
                    let path = path.display();
                    return Err(format!(
                        "--load={path}: it has no file .json, .yaml or .yml"
                    ));
                }
            }
            false => files.push(path.clone()),
        }
    }
    files.into_iter().map(manifest).collect()
}

/// Adds the manifests of a folder. Links to folders are not followed, because they may make
/// circles.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("--load: {}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(fault)?;
    let entries: Result<Vec<_>, _> = entries.collect();
    let mut entries = entries.map_err(fault)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        // linear: three names.
        let is_manifest = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
        if entry.file_type().map_err(fault)?.is_dir() {
            collect(&path, files)?;
        } else if is_manifest && !path.is_dir() {
            files.push(path);
        }
    }
    Ok(())
}

fn manifest(path: PathBuf) -> Result<Manifest, String> {
    let file = given::read(&path, FILE_BYTES_MAX);
    let text = file.and_then(|file| Ok(file.text()?.to_owned()));
    let text = text.map_err(|error| format!("--load: {}: {error}", path.display()))?;
    let documents = documents(&text);
    let documents = documents.map_err(|fault| format!("--load: {}: {fault}", path.display()))?;
    Ok(Manifest { path, documents })
}

/// Applies the objects: definitions first, which are served then, then namespaces, then the others
/// in their order.
///
/// # Errors
/// A line with the file, the document, the kind and name, and the message of the server.
pub(super) async fn load(client: &Client, manifests: Vec<Manifest>) -> Result<(), String> {
    for turn in [Turn::Definitions, Turn::Namespaces, Turn::Others] {
        for manifest in &manifests {
            let documents = manifest.documents.iter();
            for document in documents.filter(|document| turn_of(&document.object) == turn) {
                let applied = apply(client, &document.object).await;
                applied.map_err(|refusal| line(manifest, document, &refusal))?;
            }
        }
        if turn == Turn::Definitions {
            established(client, &manifests).await?;
        }
    }
    Ok(())
}

fn line(manifest: &Manifest, document: &Document, refusal: &Refusal) -> String {
    let text = |pointer: &str| {
        let text = document.object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let (path, number) = (manifest.path.display(), document.number);
    let (kind, name, message) = (text("/kind"), text("/metadata/name"), &refusal.message);
    // Messages about invalid objects begin with the kind, perhaps the group, and the name.
    let invalid = format!("{name:?} is invalid: ");
    let begin = message.split_once(&invalid);
    let begin = begin.filter(|(begin, _)| begin.starts_with(&kind) && !begin.contains(':'));
    let (object, message) = match (name.is_empty(), begin) {
        (true, _) => (
            format!("{kind} without a name"),
            begin.map_or(message.as_str(), |(_, rest)| rest),
        ),
        (false, Some((_, rest))) => (format!("{kind} {name:?} is invalid"), rest),
        (false, None) => (format!("{kind} {name:?}"), message.as_str()),
    };
    format!("--load: {path}: document {number}: {object}: {message}")
}

/// Applies an object. A pod waits for the account of its namespace, which a controller makes.
async fn apply(client: &Client, object: &Value) -> Result<Value, Refusal> {
    let collection = client.collection(object).await?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let body = object.to_string().into_bytes();
    let mut wait = Wait::begin();
    loop {
        let sent = body.clone();
        let applied = match name {
            Some(name) if !name.is_empty() => {
                let path = format!("{collection}/{name}?{FIELD_MANAGER}");
                let body = Some(("application/apply-patch+yaml", sent));
                client.call(Method::PATCH, path, body).await
            }
            _ => {
                let body = Some(("application/json", sent));
                client.call(Method::POST, collection.clone(), body).await
            }
        };
        match applied {
            Err(refusal) if is_early(&refusal, object) && !wait.is_over() => wait.pause().await,
            applied => return applied,
        }
    }
}

/// A bounded wait, which looks less often the longer it takes.
struct Wait {
    deadline: Instant,
    pause: Duration,
}

impl Wait {
    fn begin() -> Wait {
        Wait {
            deadline: Instant::now() + PATIENCE,
            pause: FIRST_PAUSE,
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    async fn pause(&mut self) {
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }
}

/// Whether the account that a controller makes for a pod is missing. No controller makes others.
fn is_early(refusal: &Refusal, object: &Value) -> bool {
    let account = object.pointer("/spec/serviceAccountName");
    let account = account.and_then(Value::as_str).unwrap_or_default();
    let is_default = account.is_empty() || account == DEFAULT_ACCOUNT;
    let is_missing = refusal.message.contains("error looking up service account");
    refusal.code == 403 && is_default && is_missing
}

/// Waits until the definitions are served.
async fn established(client: &Client, manifests: &[Manifest]) -> Result<(), String> {
    let mut wait = Wait::begin();
    for manifest in manifests {
        for document in &manifest.documents {
            if turn_of(&document.object) != Turn::Definitions {
                continue;
            }
            let refused = |message: String| line(manifest, document, &Refusal { code: 0, message });
            let collection = client.collection(&document.object).await;
            let collection = collection.map_err(|refusal| refused(refusal.message))?;
            let name = document.object.pointer("/metadata/name");
            let name = name.and_then(Value::as_str).unwrap_or_default();
            loop {
                let found = client.get(format!("{collection}/{name}")).await;
                let found = found.map_err(|refusal| refused(refusal.message))?;
                match progress(&found) {
                    Progress::Served => break,
                    Progress::Refused(why) => return Err(refused(why)),
                    Progress::Waits if wait.is_over() => {
                        return Err(refused("it was not served in time".to_owned()));
                    }
                    Progress::Waits => wait.pause().await,
                }
            }
        }
    }
    Ok(())
}

/// The state of a definition.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Served,
    Waits,
    Refused(String),
}

fn progress(definition: &Value) -> Progress {
    let conditions = definition.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array);
    let find = |kind: &str| {
        let mut conditions = conditions.into_iter().flatten();
        // linear: a few conditions.
        conditions.find(|one| one.get("type").and_then(Value::as_str) == Some(kind))
    };
    let status = |kind: &str| find(kind)?.get("status")?.as_str();
    if status("Established") == Some("True") {
        return Progress::Served;
    }
    match (status("NamesAccepted"), find("NamesAccepted")) {
        (Some("False"), Some(condition)) => {
            let why = condition.get("message").and_then(Value::as_str);
            Progress::Refused(why.unwrap_or("its names are not accepted").to_owned())
        }
        _ => Progress::Waits,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_of_folders_are_read_in_order_and_others_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("b/circle")).unwrap();
        let object = "apiVersion: v1\nkind: A\n";
        for name in ["c.yml", "b/x.yaml", "a.json", "readme.md"] {
            let json = "{\"apiVersion\": \"v1\", \"kind\": \"A\"}";
            write(name, if name.ends_with("json") { json } else { object });
        }
        let read = read(&[folder.path().to_owned()]).unwrap();
        let names = read
            .iter()
            .map(|one| one.path.strip_prefix(folder.path()).unwrap());
        let names: Vec<_> = names.map(|name| name.display().to_string()).collect();
        assert_eq!(names, ["a.json", "b/x.yaml", "c.yml"]);
    }

    #[test]
    fn faults_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let fault = read(&[folder.path().to_owned()]).unwrap_err();
        assert!(fault.contains("no file .json"), "{fault}");
        let fault = read(&[folder.path().join("none.yaml")]).unwrap_err();
        assert!(fault.contains("none.yaml"), "{fault}");
    }

    #[test]
    fn definitions_come_first_and_then_namespaces() {
        let of = |version: &str, kind: &str| turn_of(&json!({"apiVersion": version, "kind": kind}));
        assert_eq!(
            of("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            Turn::Definitions
        );
        assert_eq!(of("v1", "Namespace"), Turn::Namespaces);
        assert_eq!(of("example.com/v1", "Namespace"), Turn::Others);
    }

    #[test]
    fn a_line_names_an_object_once() {
        let of = |name: Option<&str>, message: &str| {
            let manifest = Manifest {
                path: "m.yaml".into(),
                documents: Vec::new(),
            };
            let document = Document {
                number: 2,
                object: json!({"kind": "Role", "metadata": {"name": name}}),
            };
            let message = message.to_owned();
            line(&manifest, &document, &Refusal { code: 422, message })
        };
        let begin = "--load: m.yaml: document 2: Role";
        for (name, message, expected) in [
            (
                Some("A"),
                "Role.rbac.authorization.k8s.io \"A\" is invalid: rules: Required value",
                " \"A\" is invalid: rules: Required value",
            ),
            (
                None,
                "Role \"\" is invalid: metadata.name: Required value",
                " without a name: metadata.name: Required value",
            ),
            (Some("A"), "it is late", " \"A\": it is late"),
            (None, "it is late", " without a name: it is late"),
        ] {
            assert_eq!(of(name, message), format!("{begin}{expected}"));
        }
    }

    #[test]
    fn only_the_account_that_a_controller_makes_is_waited_for() {
        let refusal = |code| Refusal {
            code,
            message: "pods \"a\" is forbidden: error looking up service account x/y".to_owned(),
        };
        for (spec, expected) in [
            (json!({}), true),
            (json!({"serviceAccountName": ""}), true),
            (json!({"serviceAccountName": "default"}), true),
            (json!({"serviceAccountName": "mistyped"}), false),
        ] {
            let pod = json!({ "spec": spec });
            assert_eq!(is_early(&refusal(403), &pod), expected, "{pod}");
            assert!(!is_early(&refusal(409), &pod));
        }
    }

    #[test]
    fn a_definition_is_served_or_refused_by_its_conditions() {
        let with = |kind: &str, status: &str| {
            let condition = json!({"type": kind, "status": status, "message": "taken"});
            progress(&json!({"status": {"conditions": [condition]}}))
        };
        assert_eq!(with("Established", "True"), Progress::Served);
        assert_eq!(with("Established", "False"), Progress::Waits);
        assert_eq!(
            with("NamesAccepted", "False"),
            Progress::Refused("taken".to_owned())
        );
        assert_eq!(progress(&json!({})), Progress::Waits);
    }
}
