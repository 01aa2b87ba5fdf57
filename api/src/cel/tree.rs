//! The syntax tree of an expression.

/// A part of an expression, with the position for its errors.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The index of its character.
    pub at: usize,
    /// The number of nested levels.
    pub depth: usize,
    pub what: Expression,
}

#[derive(Clone, Debug)]
pub(super) enum Expression {
    Literal(Literal),
    /// A name. A leading dot means the root scope.
    Name(String),
    /// A member of a value. With `has` or `?` it may be absent.
    Select {
        of: Box<Node>,
        name: String,
        is_optional: bool,
    },
    /// An item of a list, or the value of a map key.
    Index {
        of: Box<Node>,
        key: Box<Node>,
        is_optional: bool,
    },
    /// A call of a function or method. Operators are functions.
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
        fields: Vec<MessageField>,
    },
    And(Vec<Node>),
    Or(Vec<Node>),
    Conditional(Box<[Node; 3]>),
}

/// A field of a message, which may be optional.
#[derive(Clone, Debug)]
pub(super) struct MessageField {
    /// The position of the colon.
    pub at: usize,
    pub name: String,
    pub is_optional: bool,
    pub value: Node,
}

/// An item of a list or a key of a map, which may be optional.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub is_optional: bool,
    pub node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
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
                let depths = fields.iter().map(|field| field.value.depth);
                depths.max().unwrap_or(0)
            }
            Expression::And(terms) | Expression::Or(terms) => deepest(terms),
            Expression::Conditional(parts) => deepest(parts.as_slice()),
        };
        let depth = inside + 1;
        Node { at, depth, what }
    }

    /// Returns the parts of a dotted name: `a.b.c`. Returns `None` for other expressions, and for
    /// more dots than `most`.
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

    /// Returns the dotted name that this expression may be: `a.b.c`.
    pub(super) fn qualified(&self) -> Option<String> {
        self.parts(usize::MAX).map(|parts| parts.join("."))
    }

    /// As [`Node::qualified`], but only for names that are short enough to be known.
    pub(super) fn known_name(&self) -> Option<String> {
        self.parts(MAX_DOTS).map(|parts| parts.join("."))
    }
}

/// No known name of a type, a function or a value has more dots.
const MAX_DOTS: usize = 4;
