use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::kinds::definitions::core::configmaps;

/// Records its calls, appends its name to a label, and refuses objects with its name.
struct Noting {
    name: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Noting {
    fn note(&self, stage: &str, object: Option<&Object>) -> Result<(), Box<Status>> {
        let label = object.map_or("", |object| object.text(&["metadata", "labels", "by"]));
        self.asked
            .lock()
            .push(format!("{stage} {} {label}", self.name));
        match object.is_some_and(|object| object.name() == self.name) {
            true => Err(Box::new(Status::bad_request(self.name))),
            false => Ok(()),
        }
    }
}

impl Plugin for Noting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        (self.name != "validating").then_some(self)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        (self.name != "mutating").then_some(self)
    }
}

impl MutatingPlugin for Noting {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, object: Option<&'p mut Object>) -> Admitted<'p> {
        let noted = self.note("admit", object.as_deref());
        if let Some(object) = object {
            let by = object.text(&["metadata", "labels", "by"]).to_owned() + self.name;
            object
                .metadata_mut()
                .insert("labels".to_owned(), json!({ "by": by }));
        }
        async { noted }.boxed()
    }
}

impl ValidatingPlugin for Noting {
    fn validate<'p>(&'p self, _: &'p Attributes<'_>, object: Option<&'p Object>) -> Admitted<'p> {
        let noted = self.note("validate", object);
        async { noted }.boxed()
    }
}

/// The answers of both stages for an object with this name, and the recorded calls.
fn asked(name: &str) -> (Option<u16>, Option<u16>, Vec<String>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let plugin = |name| {
        let asked = asked.clone();
        Arc::new(Noting { name, asked }) as Arc<dyn Plugin>
    };
    let admission = Admission::new(vec![
        plugin("validating"),
        plugin("both"),
        plugin("mutating"),
    ]);
    let (definition, user) = (configmaps(), UserInfo::default());
    let (options, warnings) = (WriteOptions::default(), Warnings::default());
    let attributes = Attributes {
        operation: Operation::Create(&options),
        definition: &definition,
        kind: &definition,
        stored: &definition,
        subresource: None,
        namespace: Some("d"),
        name,
        old_object: None,
        user: &user,
        warnings: &warnings,
        annotations: None,
        versions: &[],
        converter: None,
        deadline: tokio::time::Instant::now(),
        rounds: Rounds::default(),
    };
    let mut object = Object::default();
    object.set_meta("name", name);
    let code = |answer: Option<Box<Status>>| answer.map(|status| status.code);
    let admitted = admission
        .admit(&attributes, Some(&mut object))
        .now_or_never();
    let validated = admission
        .validate(&attributes, Some(&object))
        .now_or_never();
    let asked = asked.lock().clone();
    (
        code(admitted.expect("at once").err()),
        code(validated.expect("at once").err()),
        asked,
    )
}

#[test]
fn each_plugin_is_asked_once_in_each_stage_that_it_has_a_part_in() {
    let (admitted, validated, asked) = asked("a");
    assert_eq!((admitted, validated), (None, None));
    assert_eq!(
        asked,
        [
            "admit both ",
            "admit mutating both",
            "validate validating bothmutating",
            "validate both bothmutating",
        ]
    );
}

#[test]
fn the_first_refusal_is_the_answer_and_nobody_is_asked_after_it() {
    let (admitted, validated, asked) = asked("both");
    assert_eq!((admitted, validated), (Some(400), Some(400)));
    assert_eq!(
        asked,
        [
            "admit both ",
            "validate validating both",
            "validate both both"
        ]
    );
}

#[test]
fn what_is_to_be_stored_nowhere_is_a_dry_run() {
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let deletion = DeleteOptions::default();
    let operations = [
        (Operation::Create(&dry), true),
        (Operation::Update(&dry), true),
        (Operation::Delete(&deletion), false),
        (Operation::Connect, false),
    ];
    for (operation, is_dry_run) in operations {
        assert_eq!(operation.is_dry_run(), is_dry_run, "{operation:?}");
    }
}
