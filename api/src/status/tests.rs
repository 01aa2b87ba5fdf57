use actors::engine::Revision;
use serde_json::{Value, json};

use super::*;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::samples::{configmaps, deployments, leases, namespaces, pods};

fn document(status: &Status) -> Value {
    serde_json::from_slice(&status.to_json()).unwrap()
}

/// http.md 3.10, A1.
#[test]
fn a_missing_object_is_named_with_its_resource() {
    assert_eq!(
        document(&Status::not_found(&pods(), "x")),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "pods \"x\" not found", "reason": "NotFound",
            "details": {"name": "x", "kind": "pods"}, "code": 404,
        })
    );
    let grouped = document(&Status::not_found(&deployments(), "x"));
    assert_eq!(grouped["message"], "deployments.apps \"x\" not found");
    let details = json!({"name": "x", "group": "apps", "kind": "deployments"});
    assert_eq!(grouped["details"], details);
    let namespace = Status::namespace_not_found("n");
    assert_eq!(namespace, Status::not_found(&namespaces(), "n"));
}

/// API-12: details are present and empty.
#[test]
fn unknown_routes_have_empty_details() {
    let missing = document(&Status::route_not_found());
    let message = "the server could not find the requested resource";
    assert_eq!(missing["message"], message);
    assert_eq!(
        (&missing["details"], &missing["code"]),
        (&json!({}), &json!(404))
    );
    let method = document(&Status::method_not_allowed_route());
    let message = "the server does not allow this method on the requested resource";
    assert_eq!(
        (&method["message"], &method["code"]),
        (&json!(message), &json!(405))
    );
    assert_eq!(method["details"], json!({}));
}

/// API-97, API-199.
#[test]
fn conflicts_about_names_have_a_reason() {
    let taken = Status::already_exists(&configmaps(), "a");
    assert_eq!(
        (taken.code, taken.reason.clone()),
        (409, StatusReason::ALREADY_EXISTS)
    );
    assert_eq!(taken.message, "configmaps \"a\" already exists");
    assert_eq!(
        taken.of_deleted().message,
        "object is being deleted: configmaps \"a\" already exists"
    );
    let exhausted = Status::generate_name_exhausted(&configmaps(), "a");
    let end = "already exists, the server was not able to generate a unique name for the object";
    assert!(exhausted.message.ends_with(end));
    assert_eq!(exhausted.retry_after_seconds(), 1);
}

/// API-100, API-102, http.md A4.
#[test]
fn conflicts_name_resource_and_cause() {
    let stale = Status::stale(&deployments(), "w");
    assert_eq!(
        stale.message,
        "Operation cannot be fulfilled on deployments.apps \"w\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    assert_eq!(
        (stale.code, stale.reason.clone()),
        (409, StatusReason::CONFLICT)
    );
    let text = "Precondition failed: UID in precondition: a, UID in object meta: b";
    let key = "/registry/configmaps/d/a";
    assert_eq!(
        Status::precondition_failed(&configmaps(), "a", key, text).message,
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, \
         Key: /registry/configmaps/d/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: a, UID in object meta: b"
    );
}

/// API-111: deletions name the Kind, other requests name the resource.
#[test]
fn preconditions_of_deletions_name_the_kind() {
    let uid = document(&Status::delete_precondition_uid(
        &deployments(),
        "b",
        "1",
        "2",
    ));
    assert_eq!(
        uid["message"],
        "Operation cannot be fulfilled on Deployment.apps \"b\": the UID in the precondition (1) \
         does not match the UID in record (2). The object might have been deleted and then \
         recreated"
    );
    let details = json!({"name": "b", "group": "apps", "kind": "Deployment"});
    assert_eq!(uid["details"], details);
    assert_eq!(
        Status::delete_precondition_version(&configmaps(), "b", "1", "2").message,
        "Operation cannot be fulfilled on ConfigMap \"b\": the ResourceVersion in the \
         precondition (1) does not match the ResourceVersion in record (2). The object might \
         have been modified"
    );
}

/// API-148, http.md A3: each error is a cause; the message lists equal ones once.
#[test]
fn invalid_objects_list_causes() {
    let required = FieldError::required("spec.selector", "");
    let other = FieldError::invalid("spec.replicas", -1, "must be positive");
    let one = Status::invalid_object(&deployments(), "w", std::slice::from_ref(&required));
    let message = "Deployment.apps \"w\" is invalid: spec.selector: Required value";
    assert_eq!(one.message, message);
    let errors = [required.clone(), other, required];
    let all = document(&Status::invalid_object(&deployments(), "w", &errors));
    assert_eq!(
        all["message"],
        "Deployment.apps \"w\" is invalid: [spec.selector: Required value, spec.replicas: Invalid \
         value: -1: must be positive]"
    );
    assert_eq!(all["details"]["kind"], "Deployment");
    let causes = all["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 3);
    let cause = json!({
        "reason": "FieldValueInvalid",
        "message": "Invalid value: -1: must be positive",
        "field": "spec.replicas",
    });
    assert_eq!(causes[1], cause);
}

/// API-102: the kind in details is the plural here.
#[test]
fn a_missing_version_is_invalid_for_the_resource() {
    let status = document(&Status::version_required(&leases(), "l"));
    assert_eq!(
        status["message"],
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: \
         must be specified for an update"
    );
    assert_eq!(status["details"]["kind"], "leases");
}

/// API-146, API-147.
#[test]
fn values_are_printed_as_go_does() {
    let shown = |value: Value| FieldError::invalid("p", value, "").to_string();
    assert_eq!(
        shown(json!("a\"\n\u{7}\u{0}ä\u{200b}😀\u{e000}")),
        "p: Invalid value: \"a\\\"\\n\\a\\x00ä\\u200b😀\\ue000\""
    );
    assert_eq!(shown(json!(5)), "p: Invalid value: 5");
    assert_eq!(shown(json!(true)), "p: Invalid value: true");
    assert_eq!(shown(json!(null)), "p: Invalid value: null");
    assert_eq!(shown(json!(["a", 1])), "p: Invalid value: [\"a\",1]");
    let unsupported = FieldError::not_supported("p", "c", &["a", "b"]).to_string();
    assert_eq!(
        unsupported,
        "p: Unsupported value: \"c\": supported values: \"a\", \"b\""
    );
    let long = FieldError::too_long("p", 10).to_string();
    assert_eq!(long, "p: Too long: may not be more than 10 bytes");
    let kinds = [
        (FieldErrorKind::NotFound, "Not found", "FieldValueNotFound"),
        (
            FieldErrorKind::Duplicate,
            "Duplicate value",
            "FieldValueDuplicate",
        ),
        (
            FieldErrorKind::Forbidden,
            "Forbidden",
            "FieldValueForbidden",
        ),
        (FieldErrorKind::TooMany, "Too many", "FieldValueTooMany"),
        (FieldErrorKind::TooShort, "Too short", "FieldValueTooShort"),
        (
            FieldErrorKind::TypeInvalid,
            "Invalid value",
            "FieldValueTypeInvalid",
        ),
        (FieldErrorKind::Internal, "Internal error", "InternalError"),
    ];
    for (kind, phrase, reason) in kinds {
        assert_eq!((kind.phrase(), kind.reason()), (phrase, reason));
    }
}

/// An error does not repeat a document of several megabytes.
#[test]
fn long_values_are_cut() {
    let error = FieldError::invalid("patch", "x".repeat(3 << 20), "no");
    assert!(error.to_string().len() < 20_000);
    let document = json!({"a": "ä".repeat(1 << 20)});
    let error = FieldError::invalid_text("patch", document, "no");
    let status = Status::patch_result_invalid(&error);
    assert!(status.to_json().len() < 600_000);
    assert!(
        status
            .message
            .starts_with(" \"\" is invalid: patch: Invalid value: \"{\\\"a\\\":")
    );
}

/// API-290, http.md A6.
#[test]
fn denied_requests_name_user_and_action() {
    let denied = Denied {
        user: "u",
        verb: "list",
        resource: "secrets",
        namespace: "d",
        ..Denied::default()
    };
    let status = document(&Status::forbidden_request(&denied));
    assert_eq!(
        status["message"],
        "secrets is forbidden: User \"u\" cannot list resource \"secrets\" in API group \"\" in \
         the namespace \"d\""
    );
    assert_eq!(status["details"], json!({"kind": "secrets"}));
    let denied = Denied {
        verb: "patch",
        group: "apps",
        resource: "deployments",
        subresource: "status",
        namespace: "",
        name: "x",
        reason: "no",
        ..denied
    };
    assert_eq!(
        Status::forbidden_request(&denied).message,
        "deployments.apps \"x\" is forbidden: User \"u\" cannot patch resource \
         \"deployments/status\" in API group \"apps\" at the cluster scope: no"
    );
    let denied = Denied {
        user: "u",
        verb: "get",
        path: Some("/metrics"),
        ..Denied::default()
    };
    let status = document(&Status::forbidden_request(&denied));
    let text = "forbidden: User \"u\" cannot get path \"/metrics\"";
    assert_eq!(status["message"], text);
    assert_eq!(status["details"], json!({}));
}

/// 3.10: a webhook that refuses on behalf of the daemon may use its own reason.
#[test]
fn reasons_are_an_open_set() {
    let reason = StatusReason::from("TooLoud".to_owned());
    let status = document(&Status::failure(403, reason, "no"));
    assert_eq!(status["reason"], "TooLoud");
    assert_eq!(StatusReason::from("Gone".to_owned()), StatusReason::GONE);
    let status = document(&Status::unknown("no"));
    assert_eq!(status.get("reason"), None);
}

/// API-261.
#[test]
fn namespace_lifecycle_has_its_errors() {
    let status = document(&Status::namespace_terminating(&configmaps(), "late", "t"));
    assert_eq!(
        status["message"],
        "configmaps \"late\" is forbidden: unable to create new content in namespace t because \
         it is being terminated"
    );
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": "namespace t is being terminated",
        "field": "metadata.namespace",
    });
    assert_eq!(status["details"]["causes"], json!([cause]));
    assert_eq!(
        Status::namespace_undeletable(&namespaces(), "default").message,
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

/// ST-11, PF-21, ST-13, ST-15, http.md A13.
#[test]
fn retryable_errors_have_a_delay() {
    let status = document(&Status::too_large_version(Revision(999), Revision(900), 1));
    let message = "Timeout: Too large resource version: 999, current: 900";
    assert_eq!(
        (&status["message"], &status["code"]),
        (&json!(message), &json!(504))
    );
    assert_eq!(
        status["details"],
        json!({
            "causes": [{
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }],
            "retryAfterSeconds": 1,
        })
    );
    let exact = Status::too_large_version(Revision(999), Revision(900), 0);
    assert_eq!(exact.retry_after_seconds(), 0);
    let server = Status::server_timeout(&configmaps(), "list", 2);
    assert_eq!(
        (server.code, server.reason.clone()),
        (500, StatusReason::SERVER_TIMEOUT)
    );
    assert_eq!(server.retry_after_seconds(), 2);
    assert_eq!(
        server.message,
        "The list operation against configmaps could not be completed at this time, please try \
         again."
    );
    assert_eq!(
        Status::too_many_requests("wait", 1).retry_after_seconds(),
        1
    );
    assert_eq!(Status::unavailable("wait", 0).retry_after_seconds(), 0);
}

/// LI-50, LI-51, WA-30, http.md A7, A12: the texts that clients and test suites search for.
#[test]
fn expired_requests_name_a_way_to_continue() {
    assert!(
        Status::expired_list()
            .message
            .contains("for the provided list is too old")
    );
    let token = Status::expired_continue(Some("abc".to_owned()));
    assert!(
        token
            .message
            .contains("provided continue parameter is too old")
    );
    assert_eq!(
        (token.code, token.reason.clone()),
        (410, StatusReason::EXPIRED)
    );
    assert_eq!(document(&token)["metadata"], json!({"continue": "abc"}));
    assert_eq!(
        document(&Status::expired_continue(None))["metadata"],
        json!({})
    );
    let watch = Status::expired_watch(Revision(5), Revision(900));
    assert_eq!(watch.message, "too old resource version: 5 (900)");
}

/// API-21, API-55, API-56.
#[test]
fn refusals_of_bodies_name_the_limit_or_the_types() {
    let large = Status::request_too_large(3_145_728);
    assert_eq!(large.message, "Request entity too large: limit is 3145728");
    let types = ["application/json", "application/yaml"];
    assert_eq!(
        Status::not_acceptable(&types).message,
        "only the following media types are accepted: application/json, application/yaml"
    );
    assert_eq!(
        Status::unsupported_media_type(&types).message,
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml"
    );
}

/// RG-10, http.md A9: a success has no code in the document.
#[test]
fn a_success_names_the_deleted_object() {
    let details = StatusDetails {
        name: "a".to_owned(),
        kind: "configmaps".to_owned(),
        uid: "u".to_owned(),
        ..StatusDetails::default()
    };
    assert_eq!(
        document(&Status::success(details)),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": "u"},
        })
    );
}

/// Text from a request is repeated up to a length, with any characters.
#[test]
fn an_answer_repeats_a_request_up_to_a_length() {
    let long = |text: &str| text.repeat(1 << 20);
    for text in ["a", "\"", "\u{1}", "\\", "\n", "ä", "\u{7f}", "\u{200b}"] {
        let text = long(text);
        let error = FieldError::invalid(text.as_str(), text.as_str(), text.as_str());
        let cause = StatusCause {
            reason: text.clone(),
            message: text.clone(),
            field: text.clone(),
        };
        for status in [
            Status::bad_request(text.as_str()),
            Status::internal(&text),
            Status::not_found(&configmaps(), &text),
            Status::forbidden(&configmaps(), &text, &text),
            Status::namespace_terminating(&configmaps(), &text, &text),
            Status::name_mismatch(&text, &text),
            Status::invalid_object(&configmaps(), &text, &vec![error; 300]),
            Status::bad_request("x")
                .because(cause.clone())
                .because(cause),
        ] {
            let json = status.to_json();
            assert!(json.len() < 96 * 1024, "{} bytes", json.len());
            assert!(
                status
                    .details
                    .is_none_or(|details| details.causes.len() <= 100)
            );
        }
    }
}

/// API-162: the object that results from a patch is shown in full, up to a length.
#[test]
fn the_result_of_a_patch_is_shown_in_full_up_to_a_length() {
    let object = "{\"a\":\"b\"}".repeat(2_000);
    let error = FieldError::invalid_text("patch", &object, "no object");
    let status = Status::patch_result_invalid(&error);
    let ending = "\"b\\\"}\": no object";
    assert!(status.message.ends_with(ending), "{}", status.message.len());
    let causes = status.details.unwrap().causes;
    assert!(causes.first().unwrap().message.ends_with(ending));
    for text in ["a", "\"", "\u{1}", "\u{200b}"] {
        let text = text.repeat(1 << 20);
        let error = FieldError::invalid_text("patch", &text, text.as_str());
        let json = Status::patch_result_invalid(&error).to_json();
        assert!(json.len() < 600 * 1024, "{} bytes", json.len());
    }
}

/// API-148: a hundred label errors are reported as in Kubernetes.
#[test]
fn a_hundred_faults_are_told_in_full() {
    let detail = crate::names::label_value("-").concat();
    let errors: Vec<FieldError> = (0..100)
        .map(|n| FieldError::invalid("metadata.labels", format!("-{n}"), detail.as_str()))
        .collect();
    let errors = crate::field_error::bounded(errors);
    let status = Status::invalid_object(&configmaps(), "a", &errors);
    assert!(status.message.ends_with("?')]"), "{}", status.message.len());
    let details = status.details.unwrap();
    assert_eq!(details.causes.len(), 100);
    assert!(
        details
            .causes
            .iter()
            .all(|cause| cause.message.ends_with("?')"))
    );
}

/// API-290.
#[test]
fn denied_requests_are_repeated_up_to_a_length() {
    let long = "\"".repeat(60_000);
    let denied = Denied {
        user: "system:anonymous",
        verb: "get",
        path: None,
        group: &long,
        resource: &long,
        subresource: &long,
        namespace: &long,
        name: &long,
        reason: "",
    };
    assert!(Status::forbidden_request(&denied).to_json().len() < 24 * 1024);
    let of_path = |path| {
        let path = Some(path);
        Status::forbidden_request(&Denied { path, ..denied })
    };
    assert!(of_path(&long).to_json().len() < 4 * 1024);
    let sane = format!("/{}", "a".repeat(700));
    let whole = of_path(&sane);
    assert!(
        whole
            .message
            .ends_with(&format!("cannot get path \"{sane}\""))
    );
}
