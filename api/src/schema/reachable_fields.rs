//! Which fields lead to fields of interest, so that a walk through an object leaves out the others.

use super::model::{Field, ListType, Shape, Struct, StructId, Type};

/// Finds these fields in structs that refer to each other.
pub(super) fn find_reachable(structs: &mut [Struct]) {
    // What may be a schema of the same kind has its empty values below.
    let to_empties = reachable(structs, |field| {
        field.tells_empty() || may_have_schemas(&field.of)
    });
    let to_keyless = reachable(structs, |field| may_lack_keys(field, structs));
    let to_raw = reachable(structs, |field| has_raw(&field.of));
    for (of, (to_empties, to_keyless)) in structs.iter_mut().zip(to_empties.zip(to_keyless)) {
        of.to_empties = to_empties;
        of.to_keyless = to_keyless;
    }
    for (of, to_raw) in structs.iter_mut().zip(to_raw) {
        of.to_raw = to_raw;
    }
}

/// Of each struct the places of the fields that are wanted, or have such fields below.
fn reachable(
    structs: &[Struct],
    is_wanted: impl Fn(&Field) -> bool,
) -> std::vec::IntoIter<Vec<usize>> {
    let mut leading = vec![false; structs.len()];
    let leads = |field: &Field, leading: &[bool]| {
        let below = struct_below(&field.of);
        let below = below.and_then(|id| leading.get(id.0));
        below.copied().unwrap_or(false) || is_wanted(field)
    };
    loop {
        let mut is_same = true;
        for (place, of) in structs.iter().enumerate() {
            let does = of.fields.iter().any(|field| leads(field, &leading));
            if let Some(known) = leading.get_mut(place)
                && does != *known
            {
                *known = does;
                is_same = false;
            }
        }
        if is_same {
            break;
        }
    }
    let found = structs.iter().map(|of| {
        let places = of.fields.iter().enumerate();
        let places = places.filter_map(|(place, field)| leads(field, &leading).then_some(place));
        places.collect()
    });
    found.collect::<Vec<_>>().into_iter()
}

/// Whether items of a list may have none of the fields that tell them apart.
fn may_lack_keys(field: &Field, structs: &[Struct]) -> bool {
    let keys = match (&field.list, &field.patch) {
        (Some(ListType::Map(keys)), _) => &keys[..],
        (None, Some(patch)) => patch.key.as_slice(),
        _ => return false,
    };
    let Some(of) = struct_below(&field.of).and_then(|id| structs.get(id.0)) else {
        return false;
    };
    let is_optional = |name: &String| {
        let key = of.field(name);
        key.is_none_or(|key| key.value_if_absent().is_none())
    };
    !keys.is_empty() && keys.iter().all(is_optional)
}

/// Whether the value may be a schema where something else may be too, or items or values of a map
/// may.
fn may_have_schemas(of: &Type) -> bool {
    match &of.shape {
        Shape::List(item) | Shape::Map(item) => may_have_schemas(item),
        _ => of.schema_or().is_some(),
    }
}

/// Whether the value is kept as JSON, or that of items or of a map is.
fn has_raw(of: &Type) -> bool {
    match &of.shape {
        Shape::List(item) | Shape::Map(item) => has_raw(item),
        _ => of.is_raw(),
    }
}

/// The struct of a field, of the items of its lists, or of the values of its maps.
fn struct_below(of: &Type) -> Option<StructId> {
    match &of.shape {
        Shape::Struct(id) => Some(*id),
        Shape::List(item) | Shape::Map(item) => struct_below(item),
        Shape::Scalar(_) | Shape::Object | Shape::Any => None,
    }
}
