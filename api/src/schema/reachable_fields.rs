//! Indexes of the fields that lead to fields of interest, so that a walk through an object can skip
//! the others.

use super::model::{Field, ListType, Shape, Struct, StructId, Type};

/// Computes these indexes for structs that refer to each other.
pub(super) fn find_reachable(structs: &mut [Struct]) {
    // A value that may be a schema has the empty values of schemas below it.
    let to_empties = reachable(structs, |field| {
        field.keeps_empty() || may_have_schemas(&field.of)
    });
    let to_keyless = reachable(structs, |field| may_lack_keys(field, structs));
    let to_raw = reachable(structs, |field| has_raw(&field.of));
    let to_formless = reachable(structs, |field| {
        let below = struct_below(&field.of).and_then(|id| structs.get(id.0));
        below.is_some_and(has_no_message)
    });
    for (of, (to_empties, to_keyless)) in structs.iter_mut().zip(to_empties.zip(to_keyless)) {
        of.to_empties = to_empties;
        of.to_keyless = to_keyless;
    }
    for (of, (to_raw, to_formless)) in structs.iter_mut().zip(to_raw.zip(to_formless)) {
        of.to_raw = to_raw;
        of.is_message_throughout = !has_no_message(of) && to_formless.is_empty();
    }
}

/// Returns for each struct the indexes of the fields that are wanted, or have such fields below.
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

/// Returns whether a struct itself has no protobuf form, regardless of the structs below it.
fn has_no_message(of: &Struct) -> bool {
    of.is_open || of.fields.iter().any(|field| field.number.is_none())
}

/// Returns whether items of a list may lack all of their key fields.
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

/// Returns whether the value, or an item or map value in it, may be a schema or something else.
fn may_have_schemas(of: &Type) -> bool {
    match &of.shape {
        Shape::List(item) | Shape::Map(item) => may_have_schemas(item),
        _ => of.schema_or.is_some(),
    }
}

/// Returns whether the value, or an item or map value in it, is kept as JSON.
fn has_raw(of: &Type) -> bool {
    match &of.shape {
        Shape::List(item) | Shape::Map(item) => has_raw(item),
        _ => of.is_raw(),
    }
}

/// Returns the struct of a field, of its items, or of its map values.
fn struct_below(of: &Type) -> Option<StructId> {
    match &of.shape {
        Shape::Struct(id) => Some(*id),
        Shape::List(item) | Shape::Map(item) => struct_below(item),
        Shape::Scalar(_) | Shape::Object | Shape::Any => None,
    }
}
