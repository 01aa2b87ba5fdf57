//! What an expression is made of.

/// A part of an expression, and where it is told of.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The number of its character.
    pub at: usize,
    /// How many parts are in each other here.
    pub depth: usize,
    pub what: Expression,
}

#[derive(Clone, Debug)]
pub(super) enum Expression {
    Literal(Literal),
    /// A name. One with a dot in front is looked for at the root.
    Name(String),
    /// A member of a value. One that is asked for with `has` or `?` may be absent.
    Select {
        of: Box<Node>,
        name: String,
        is_optional: bool,
    },
    /// An item of a list, or the value of a key.
    Index {
        of: Box<Node>,
        key: Box<Node>,
        is_optional: bool,
    },
    /// A function, called on a value or not. Operators are functions.
    Call {
        name: String,
        target: Option<Box<Node>>,
        arguments: Vec<Node>,
    },
    List(Vec<Item>),
    Map(Vec<(Item, Node)>),
    /// A message with fields.
    Message {
        name: String,
        /// With the places of their colons, and their names.
        fields: Vec<(usize, String, Node)>,
    },
    And(Vec<Node>),
    Or(Vec<Node>),
    Conditional(Box<[Node; 3]>),
}

/// An item of a list or the key of a map, which may be optional.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub is_optional: bool,
    pub node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String(String),
    Bytes,
}

impl Node {
    pub(super) fn new(at: usize, what: Expression) -> Node {
        let deepest = |nodes: &[Node]| nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        let inside = match &what {
            Expression::Literal(_) | Expression::Name(_) => 0,
            Expression::Select { of, .. } => of.depth,
            Expression::Index { of, key, .. } => of.depth.max(key.depth),
            Expression::Call {
                target, arguments, ..
            } => {
                let target = target.as_ref().map_or(0, |target| target.depth);
                target.max(deepest(arguments))
            }
            Expression::List(items) => {
                let depths = items.iter().map(|item| item.node.depth);
                depths.max().unwrap_or(0)
            }
            Expression::Map(entries) => {
                let depths = entries
                    .iter()
                    .map(|(key, value)| key.node.depth.max(value.depth));
                depths.max().unwrap_or(0)
            }
            Expression::Message { fields, .. } => {
                let depths = fields.iter().map(|(.., node)| node.depth);
                depths.max().unwrap_or(0)
            }
            Expression::And(terms) | Expression::Or(terms) => deepest(terms),
            Expression::Conditional(parts) => deepest(parts.as_slice()),
        };
        let depth = inside + 1;
        Node { at, depth, what }
    }

    /// The names that this consists of, if it is a name with dots: `a.b.c`. There is none with more
    /// dots than `most`.
    fn parts(&self, most: usize) -> Option<Vec<&str>> {
        let (mut parts, mut node) = (Vec::new(), self);
        loop {
            match &node.what {
                Expression::Name(name) => {
                    parts.push(name.trim_start_matches('.'));
                    parts.reverse();
                    return Some(parts);
                }
                Expression::Select {
                    of,
                    name,
                    is_optional: false,
                } if parts.len() < most => {
                    parts.push(name);
                    node = of;
                }
                _ => return None,
            }
        }
    }

    /// The name with dots that this may be: `a.b.c`.
    pub(super) fn qualified(&self) -> Option<String> {
        self.parts(usize::MAX).map(|parts| parts.join("."))
    }

    /// As [`Node::qualified`], if it is as short as names are that are known.
    pub(super) fn known_name(&self) -> Option<String> {
        self.parts(MAX_DOTS).map(|parts| parts.join("."))
    }
}

/// No name of a type, a function or a value has more dots.
const MAX_DOTS: usize = 4;
