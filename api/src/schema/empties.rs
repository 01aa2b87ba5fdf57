//! Empty lists and maps that Kubernetes distinguishes from absent ones while it checks an object,
//! at fields that the notation calls `empty`. The canonical form has none of them.

use serde_json::{Map, Value};

use super::model::{Schema, Shape, Struct, StructId, Type};

type Members = Map<String, Value>;

/// How many are remembered of one object. The others count as absent, so that a body can't make the
/// server remember more.
const MOST: usize = 256;

/// The places of empty lists and maps in an object.
#[derive(Debug, Default)]
pub struct Empties(Vec<Empty>);

#[derive(Debug)]
struct Empty {
    path: Vec<Step>,
    name: String,
    is_list: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Member(String),
    Item(usize),
}

impl Schema {
    /// The empty lists and maps of a struct that are distinguished from absent ones.
    pub fn empties(&self, id: StructId, members: &Map<String, Value>) -> Empties {
        let mut found = Empties::default();
        self.find_in_struct(id, members, &mut Vec::new(), &mut found);
        found
    }

    fn find_in_struct(
        &self,
        id: StructId,
        members: &Map<String, Value>,
        path: &mut Vec<Step>,
        found: &mut Empties,
    ) {
        for field in self.get(id).into_iter().flat_map(Struct::to_empties) {
            let Some(value) = members.get(&field.name) else {
                continue;
            };
            let is_list = match value {
                Value::Array(items) if items.is_empty() => true,
                Value::Object(members) if members.is_empty() => false,
                _ => {
                    path.push(Step::Member(field.name.clone()));
                    self.find_in_value(&field.of, value, path, found);
                    path.pop();
                    continue;
                }
            };
            if field.distinguishes_empty && found.0.len() < MOST {
                found.0.push(Empty {
                    path: path.clone(),
                    name: field.name.clone(),
                    is_list,
                });
            }
        }
    }

    fn find_in_value(&self, of: &Type, value: &Value, path: &mut Vec<Step>, found: &mut Empties) {
        match (&of.shape, value) {
            (Shape::Struct(id), Value::Object(members)) => {
                self.find_in_struct(*id, members, path, found);
            }
            (Shape::List(item), Value::Array(items)) => {
                for (place, value) in items.iter().enumerate() {
                    path.push(Step::Item(place));
                    self.find_in_value(item, value, path, found);
                    path.pop();
                }
            }
            (Shape::Map(item), Value::Object(members)) => {
                for (name, value) in members {
                    path.push(Step::Member(name.clone()));
                    self.find_in_value(item, value, path, found);
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

impl Empties {
    /// Puts them back into an object in the canonical form, where nothing else has taken their
    /// place. Of a stored object that is changed, only those whose values were not empty: the
    /// others are no changes. Whether there was one.
    pub fn restore(&self, object: &mut Members, stored: Option<&Members>) -> bool {
        let mut has_restored = false;
        for Empty {
            path,
            name,
            is_list,
        } in &self.0
        {
            if stored.is_some_and(|stored| !has_value(stored, path, name)) {
                continue;
            }
            let Some(members) = members_at(object, path) else {
                continue;
            };
            let slot = members.entry(name.clone()).or_insert(Value::Null);
            if slot.is_null() {
                *slot = match is_list {
                    true => Value::Array(Vec::new()),
                    false => Value::Object(Map::new()),
                };
                has_restored = true;
            }
        }
        has_restored
    }
}

fn has_value(object: &Members, path: &[Step], name: &str) -> bool {
    let mut members = Some(object);
    let mut value = None;
    for step in path.iter().chain(&[Step::Member(name.to_owned())]) {
        value = match step {
            Step::Member(name) => members.and_then(|members| members.get(name)),
            Step::Item(place) => value.and_then(|value: &Value| value.get(place)),
        };
        members = value.and_then(Value::as_object);
    }
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    }
}

fn members_at<'m>(
    members: &'m mut Map<String, Value>,
    path: &[Step],
) -> Option<&'m mut Map<String, Value>> {
    let Some((first, rest)) = path.split_first() else {
        return Some(members);
    };
    let mut value = match first {
        Step::Member(name) => members.get_mut(name)?,
        Step::Item(_) => return None,
    };
    for step in rest {
        value = match step {
            Step::Member(name) => value.get_mut(name)?,
            Step::Item(place) => value.get_mut(place)?,
        };
    }
    value.as_object_mut()
}

/// Finds the fields of each struct that lead to one that distinguishes an empty value from an
/// absent one.
pub(super) fn find_ways(structs: &mut [Struct]) {
    let mut leading = vec![false; structs.len()];
    let leads = |field: &super::Field, leading: &[bool]| {
        let below = struct_below(&field.of);
        let below = below.and_then(|id| leading.get(id.0));
        field.distinguishes_empty || below.copied().unwrap_or(false)
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
    for of in structs {
        let places = of.fields.iter().enumerate();
        let places = places.filter_map(|(place, field)| leads(field, &leading).then_some(place));
        of.to_empties = places.collect();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "package a.v1\n\ntype Thing kind\n  1 spec Spec\n\n\
        type Spec\n  1 parts []Part empty\n  2 more map[string]Part\n  3 other []Part\n\n\
        type Part\n  1 labels map[string]string empty\n  2 note string\n  3 below *Part\n";

    fn members(value: Value) -> Map<String, Value> {
        let Value::Object(members) = value else {
            panic!("an object");
        };
        members
    }

    /// API-254.
    #[test]
    fn empty_values_are_put_back_where_they_were() {
        let schema = Schema::read(&[TEXT]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let given = json!({"spec": {
            "more": {"x": {"note": "n", "labels": {}}}, "other": [{}, {"below": {"labels": {}}}],
            "parts": [],
        }});
        let mut object = members(given.clone());
        let empties = schema.empties(id, &object);
        schema.canonicalize(id, &mut object);
        let mut canonical = given.clone();
        canonical["spec"]["more"]["x"] = json!({"note": "n"});
        canonical["spec"]["other"][1]["below"] = json!({});
        canonical["spec"].as_object_mut().unwrap().remove("parts");
        assert_eq!(Value::Object(object.clone()), canonical.clone());
        assert!(empties.restore(&mut object, None));
        assert_eq!(Value::Object(object.clone()), given);
        assert!(!empties.restore(&mut object, None));
        // What was empty is not changed.
        let mut stored = members(json!({"spec": {"parts": [{}], "other": [{"note": "n"}]}}));
        let mut changed = members(canonical);
        assert!(empties.restore(&mut changed, Some(&stored)));
        assert_eq!(changed["spec"]["parts"], json!([]));
        assert_eq!(changed["spec"]["other"], json!([{}, {"below": {}}]));
        stored.clear();
        changed["spec"].as_object_mut().unwrap().remove("parts");
        assert!(!empties.restore(&mut changed, Some(&stored)));
        let none = schema.empties(id, &members(json!({"spec": {"other": []}})));
        assert!(!none.restore(&mut object, None));
    }

    #[test]
    fn only_so_many_are_told_from_none() {
        let schema = Schema::read(&[TEXT]).unwrap();
        let id = schema.find("a.v1.Thing").unwrap();
        let parts = vec![json!({"labels": {}}); 2 * MOST];
        let object = members(json!({"spec": {"other": parts}}));
        assert_eq!(schema.empties(id, &object).0.len(), MOST);
    }
}
