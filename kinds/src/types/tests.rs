use super::*;
use crate::definitions::built_in;

#[test]
fn the_types_of_all_packages_can_be_read() {
    let schema = Schema::read(&PACKAGES).unwrap();
    assert_eq!(schema.structs().count(), TYPES.structs().count());
    for name in [
        "core.v1.Pod",
        "apps.v1.StatefulSet",
        "autoscaling.v2.HorizontalPodAutoscaler",
    ] {
        assert!(schema.find(name).is_some(), "{name}");
    }
}

#[test]
fn the_type_of_each_resource_is_that_of_its_kind() {
    for definition in built_in() {
        let (schema, id) = definition.object_type.found().unwrap();
        let kind = schema.get(id).unwrap().kind.as_ref().unwrap();
        let own = definition.group_version_kind();
        assert_eq!(
            (&*kind.group, &*kind.version, &*kind.kind),
            (own.group, own.version, own.kind),
        );
    }
}
