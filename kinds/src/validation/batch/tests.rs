use api::object::Object;
use serde_json::{Value, json};

use super::*;
use crate::defaults::batch::{cronjob, job};
use crate::recorded::{Functions, check};
use crate::strategies::batch::prepare_job_create;
use api::error_list::ErrorList;

fn functions(path: &str) -> Functions {
    match path.split("/default/").nth(1).unwrap() {
        "jobs" => Functions {
            defaults: Some(job),
            create: validate_job,
            update: Some(validate_job_update),
        },
        "jobs/status" => Functions {
            defaults: Some(job),
            create: validate_job,
            update: Some(validate_job_status_update),
        },
        "cronjobs" => Functions {
            defaults: Some(cronjob),
            create: validate_cronjob,
            update: Some(validate_cronjob_update),
        },
        other => panic!("{other}"),
    }
}

/// API-251: answers of kube-apiserver 1.36.
#[test]
fn jobs_are_answered_as_by_kubernetes() {
    check(include_str!("../../../recorded/batch.json"), functions);
}

fn new_job(spec: &Value) -> Object {
    let made = json!({"metadata": {"name": "n", "uid": "u"}, "spec": spec});
    let mut object = Object::of(made.as_object().unwrap().clone());
    job(&mut object);
    prepare_job_create(&mut object);
    object
}

fn errors(object: &Object) -> Vec<String> {
    let errors: ErrorList = ErrorList::of(|errors| validate_job(object, errors));
    let about_labels = |text: &String| text.starts_with("spec.") && !text.contains(".spec.");
    let texts = errors.iter().map(ToString::to_string);
    texts.filter(about_labels).collect()
}

/// API-231: recorded from kube-apiserver 1.36, except the uid.
#[test]
fn selectors_of_jobs_are_made_of_their_uid() {
    let never = json!({"restartPolicy": "Never"});
    let made = new_job(&json!({"template": {"spec": never}}));
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "n",
        "controller-uid": "u",
        "job-name": "n",
    });
    assert_eq!(
        made.at(&["spec", "template", "metadata", "labels"]),
        Some(&labels)
    );
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
    assert_eq!(made.at(&["spec", "selector"]), Some(&selector));
    assert_eq!(errors(&made), Vec::<String>::new());
    assert_eq!(made.at(&["metadata", "labels"]), None);

    let metadata = json!({"labels": {"job-name": "x"}});
    let other = new_job(&json!({"template": {"metadata": metadata, "spec": never}}));
    let labels = other.at(&["spec", "template", "metadata", "labels"]);
    assert_eq!(other.at(&["metadata", "labels"]), labels);
    assert_eq!(
        errors(&other),
        ["spec.template.metadata.labels[job-name]: Invalid value: \
          {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"n\",\
          \"controller-uid\":\"u\",\"job-name\":\"x\"}: must be 'n'"]
    );
    let metadata = json!({"labels": {"x": "y"}});
    let other = new_job(&json!({
        "selector": {"matchLabels": {"x": "y"}},
        "template": {"metadata": metadata, "spec": never},
    }));
    assert_eq!(
        errors(&other),
        ["spec.selector: Invalid value: {\"matchLabels\":\
          {\"batch.kubernetes.io/controller-uid\":\"u\",\"x\":\"y\"}}: `selector` not \
          auto-generated"]
    );
}
