//! Decides during the scan of an object's JSON whether defaulting can add anything.
//!
//! Most stored objects have all defaults. Defaulting needs a tree of the object, which takes
//! several times as long as the scan. So a kind describes its defaulted objects ([`Expected`]), and
//! the scan (in [`crate::protobuf`]) notes the members that it passes anyway. The result may
//! be "perhaps incomplete" for a complete object, but never "complete" for one that defaulting
//! would change.

mod expected;

use memchr::memmem::Finder;

use crate::quantity;
use crate::schema::{Schema, Shape, Struct, StructId, Type};
pub use expected::{Expected, Relation};
use expected::{FieldTest, LACKS, Needs, Test, tests};

/// A description of a kind's defaulted objects, compiled for scans.
#[derive(Debug)]
pub struct Completeness {
    nodes: Vec<Node>,
    /// Masks of flags that exclude each other.
    apart: Vec<u32>,
}

/// A struct at one path of an object.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The watched fields, by field index.
    watched: Box<[Watched]>,
    says: Box<[(&'static str, &'static str, u64)]>,
    rules: Box<[Rule]>,
    pairs: Box<[Pair]>,
}

/// A field at one path of an object.
#[derive(Debug)]
struct Watched {
    /// The node of structs in its value.
    below: NodeId,
    notes: Box<[(Note, u64)]>,
    /// The slot for its text, which is kept for a pair.
    kept: Option<usize>,
}

#[derive(Debug)]
enum Note {
    Simple(Test),
    Mentions(Box<Finder<'static>>),
}

#[derive(Debug)]
struct Rule {
    when: u64,
    needs: u64,
    flag: u32,
}

#[derive(Debug)]
struct Pair {
    one: usize,
    other: usize,
    relation: Relation,
}

/// The limit on texts of one struct that are kept for pairs.
const KEPT_MAX: usize = 4;

/// A bit that no value sets.
const NEVER: u64 = 1 << 63;

/// The index of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The node below which nothing is noted.
    const NONE: NodeId = NodeId(0);
    /// The node of the object.
    pub(crate) const ROOT: NodeId = NodeId(1);
}

impl Completeness {
    /// Compiles the description of a struct's objects. An object that sets both flags of a pair in
    /// `apart` is incomplete.
    ///
    /// # Errors
    /// A field that the type lacks, or more facts than a node can note.
    pub fn of(
        schema: &Schema,
        id: StructId,
        part: &Expected,
        apart: &[[u32; 2]],
    ) -> Result<Completeness, String> {
        let mut made = Completeness {
            nodes: vec![Node::default()],
            apart: apart.iter().map(|[one, two]| 1 << one | 1 << two).collect(),
        };
        made.add(schema, id, part)?;
        Ok(made)
    }

    fn add(&mut self, schema: &Schema, id: StructId, part: &Expected) -> Result<NodeId, String> {
        let of = schema.get(id).ok_or("the struct does not exist")?;
        let place = |name: &str| place_in(of, name);
        let node = NodeId(u32::try_from(self.nodes.len()).unwrap_or_default());
        self.nodes.push(Node::default());
        let mut bits = Bits::default();
        let mut rules = Vec::new();
        for rule in &part.rules {
            let needs = match &rule.needs {
                Needs::All(needs) => bits.all(needs)?,
                Needs::Nothing => NEVER,
            };
            rules.push(Rule {
                when: bits.all(&rule.when)?,
                needs,
                flag: rule.flag,
            });
        }
        let fields = of.fields().iter();
        let mut watched: Vec<Watched> = fields.map(|_| Watched::default()).collect();
        if let Some(name) = part.others_than {
            let except = place(name)?;
            let bit = bits.next()?;
            let others = watched.iter_mut().enumerate();
            for (_, other) in others.filter(|(place, _)| *place != except) {
                other.note(Test::Given, bit);
            }
            rules.push(Rule {
                when: 0,
                needs: bit,
                flag: LACKS,
            });
        }
        let mut says = Vec::new();
        for (name, json) in &part.says {
            let bit = bits.next()?;
            says.push((*name, *json, bit));
            rules.push(Rule {
                when: 0,
                needs: bit,
                flag: LACKS,
            });
        }
        for (name, _) in &part.below {
            if of.has_by_itself(place(name)?) {
                rules.push(Rule {
                    when: 0,
                    needs: bits.all(&tests(&[name], Test::Given))?,
                    flag: LACKS,
                });
            }
        }
        for (test, bit) in &bits.given {
            if let Some(field) = watched.get_mut(place(test.name)?) {
                field.note(test.test, *bit);
            }
        }
        let rules = joined(rules);
        let pairs = Completeness::pairs(of, part, &mut watched)?;
        for (name, below) in &part.below {
            let place = place(name)?;
            let field = of.fields().get(place);
            let inner = field.and_then(|field| struct_in(&field.of));
            let inner = inner.ok_or_else(|| format!("{name} of {} is not a struct", of.name))?;
            let below = self.add(schema, inner, below)?;
            if let Some(field) = watched.get_mut(place) {
                field.below = below;
            }
        }
        if let Some(made) = self.nodes.get_mut(node.0 as usize) {
            *made = Node {
                watched: watched.into(),
                says: says.into(),
                rules: rules.into(),
                pairs: pairs.into(),
            };
        }
        Ok(node)
    }

    /// Compiles the pairs of a struct, and reserves slots for the texts of their fields.
    fn pairs(of: &Struct, part: &Expected, watched: &mut [Watched]) -> Result<Vec<Pair>, String> {
        let mut kept: Vec<&str> = Vec::new();
        let mut pairs = Vec::new();
        for (one, other, relation) in &part.pairs {
            let mut keep = |name: &'static str| {
                // linear: at most [`KEPT_MAX`] texts are kept.
                let known = kept.iter().position(|known| *known == name);
                let index = known.unwrap_or_else(|| {
                    kept.push(name);
                    kept.len() - 1
                });
                if let Some(field) = watched.get_mut(place_in(of, name)?) {
                    field.kept = Some(index);
                }
                let has_room = index < KEPT_MAX;
                has_room.then_some(index).ok_or("too many pairs".to_owned())
            };
            pairs.push(Pair {
                one: keep(one)?,
                other: keep(other)?,
                relation: *relation,
            });
        }
        Ok(pairs)
    }

    /// Returns the node with the facts to note, if there are any.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        match id {
            NodeId::NONE => None,
            NodeId(place) => self.nodes.get(place as usize),
        }
    }

    /// Returns whether an object with these flags is complete.
    pub(crate) fn is_complete(&self, flags: u32) -> bool {
        flags & LACKS == 0 && !self.apart.iter().any(|apart| flags & apart == *apart)
    }
}

/// Returns the index of a field in a struct.
fn place_in(of: &Struct, name: &str) -> Result<usize, String> {
    let found = of.place(name);
    found.ok_or_else(|| format!("{} has no field {name}", of.name))
}

/// Merges the unconditional rules into one.
fn joined(rules: Vec<Rule>) -> Vec<Rule> {
    let is_plain = |rule: &Rule| rule.when == 0 && rule.flag == LACKS;
    let (plain, mut rest): (Vec<Rule>, Vec<Rule>) = rules.into_iter().partition(is_plain);
    let needs = plain.iter().fold(0, |needs, rule| needs | rule.needs);
    if needs != 0 {
        rest.push(Rule {
            when: 0,
            needs,
            flag: LACKS,
        });
    }
    rest
}

/// Returns the struct in a field, or in its items or map values.
fn struct_in(of: &Type) -> Option<StructId> {
    match &of.shape {
        Shape::Struct(id) => Some(*id),
        Shape::List(item) | Shape::Map(item) => struct_in(item),
        _ => None,
    }
}

/// The bits that represent tests.
#[derive(Default)]
struct Bits {
    given: Vec<(FieldTest, u64)>,
    count: u32,
}

impl Bits {
    fn next(&mut self) -> Result<u64, String> {
        let bit = 1_u64.checked_shl(self.count).filter(|bit| *bit != NEVER);
        self.count += 1;
        bit.ok_or_else(|| "a struct has too many tests".to_owned())
    }

    fn all(&mut self, tests: &[FieldTest]) -> Result<u64, String> {
        let mut all = 0;
        for test in tests {
            // linear: a description has few tests for each struct.
            let known = self.given.iter().find(|(known, _)| known == test);
            all |= match known {
                Some((_, bit)) => *bit,
                None => {
                    let bit = self.next()?;
                    self.given.push((test.clone(), bit));
                    bit
                }
            };
        }
        Ok(all)
    }
}

impl Default for Watched {
    fn default() -> Watched {
        Watched {
            below: NodeId::NONE,
            notes: Box::default(),
            kept: None,
        }
    }
}

impl Watched {
    fn note(&mut self, test: Test, bit: u64) {
        let note = match test {
            Test::Mentions(text) => Note::Mentions(Box::new(Finder::new(text))),
            test => Note::Simple(test),
        };
        let mut notes = std::mem::take(&mut self.notes).into_vec();
        notes.push((note, bit));
        self.notes = notes.into();
    }
}

impl Note {
    fn is_true_of(&self, json: &str) -> bool {
        let first = json.as_bytes().first().copied().unwrap_or(b'n');
        let is_short = json.len() == 2 && matches!(first, b'"' | b'[' | b'{');
        match self {
            Note::Mentions(finder) => finder.find(json.as_bytes()).is_some(),
            Note::Simple(test) => match test {
                Test::Given => first != b'n',
                Test::Has => !matches!(first, b'n' | b'-') && json != "\"\"",
                Test::Filled => first != b'n' && !is_short && json != "0",
                Test::Is(other) => json == *other,
                Test::Mentions(_) => false,
            },
        }
    }
}

/// The facts noted about one struct.
#[derive(Default)]
pub(crate) struct Facts<'j> {
    bits: u64,
    flags: u32,
    kept: [&'j str; KEPT_MAX],
    /// The first field index that may follow. Members come sorted by name, without repetitions.
    /// Only the first one may be out of order: objects begin with `metadata`, and that begins with
    /// the version.
    next_place: usize,
    first: Option<usize>,
}

impl<'j> Facts<'j> {
    /// Notes that the value of a field begins. Returns the node for values below it.
    pub(crate) fn begin(&mut self, node: &Node, place: usize) -> NodeId {
        if place < self.next_place || self.first == Some(place) {
            self.flags |= LACKS;
        }
        match self.first {
            None => self.first = Some(place),
            Some(_) => self.next_place = place + 1,
        }
        node.watched
            .get(place)
            .map_or(NodeId::NONE, |field| field.below)
    }

    /// Notes the value of a field.
    #[inline]
    pub(crate) fn note(&mut self, node: &Node, place: usize, json: &'j str) {
        let Some(field) = node.watched.get(place) else {
            return;
        };
        for (note, bit) in &field.notes {
            if note.is_true_of(json) {
                self.bits |= bit;
            }
        }
        if let Some(kept) = field.kept.and_then(|kept| self.kept.get_mut(kept)) {
            *kept = json;
        }
    }

    /// Notes a member that is not a field.
    pub(crate) fn note_other(&mut self, node: &Node, name: &str, json: &str) {
        for (wanted, value, bit) in &node.says {
            if *wanted == name {
                if *value == json {
                    self.bits |= bit;
                } else {
                    self.flags |= LACKS;
                }
            }
        }
    }

    /// Returns the flags of the struct after all its members were noted.
    pub(crate) fn flags(&self, node: &Node) -> u32 {
        let mut flags = self.flags;
        for rule in &node.rules {
            if self.bits & rule.when == rule.when && self.bits & rule.needs != rule.needs {
                flags |= rule.flag;
            }
        }
        let kept = |place: usize| match self.kept.get(place) {
            None | Some(&("" | "null" | "\"\"" | "[]" | "{}")) => None,
            Some(json) => Some(*json),
        };
        for pair in &node.pairs {
            if !holds(pair.relation, kept(pair.one), kept(pair.other)) {
                flags |= LACKS;
            }
        }
        flags
    }
}

/// Returns whether two values satisfy a relation.
fn holds(relation: Relation, one: Option<&str>, other: Option<&str>) -> bool {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (None, None) => return true,
        (None, Some(_)) => return relation == Relation::Keys,
        (Some(_), None) => return false,
    };
    match relation {
        Relation::Begins(with) => {
            let rest = other.strip_prefix(with);
            rest.is_some_and(|rest| rest.starts_with(one))
        }
        Relation::Holds(before) => other.contains(&format!("{before}{one}")),
        Relation::Keys => {
            let mut others = keys(other);
            keys(one).all(|key| others.any(|other| other == key))
        }
    }
}

/// Returns the sorted keys of a map of quantities. They are every second text between quotes,
/// because keys and values are texts without escapes.
fn keys(json: &str) -> impl Iterator<Item = &str> {
    json.split('"').skip(1).step_by(4)
}

/// Returns the flags of a quantity.
pub(crate) fn flags_of_quantity(text: &str) -> u32 {
    if quantity::is_usual(text) { 0 } else { LACKS }
}
