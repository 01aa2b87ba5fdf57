//! Parsing of lists, maps and messages.

use super::super::lexer::Kind;
use super::super::tree::{Expression, Item, MessageField, Node};
use super::{Parser, Read};

impl Parser<'_> {
    pub(super) fn list(&mut self, at: usize) -> Read {
        let mut items = Vec::new();
        loop {
            if self.accept("]") {
                return Some(Node::new(at, Expression::List(items)));
            }
            if items.is_empty() && self.is(",") {
                self.next += 1;
                self.expect("]")?;
                return Some(Node::new(at, Expression::List(items)));
            }
            if !items.is_empty() && (self.is(",") || self.token().kind == Kind::End) {
                self.expect("]")?;
                return Some(Node::new(at, Expression::List(items)));
            }
            let is_optional = self.accept("?");
            let also: &[&str] = match items.is_empty() && !is_optional {
                true => &["]", ",", "?"],
                false => &[],
            };
            let node = self.enclosed(&["]", ","], also)?;
            items.push(Item { is_optional, node });
            self.separated("]")?;
        }
    }

    /// Reads a comma, or stops before the end of a list or a map.
    fn separated(&mut self, end: &str) -> Read<()> {
        if self.accept(",") || self.is(end) {
            return Some(());
        }
        let token = self.token();
        let recovers = self
            .lookahead()
            .is_some_and(|lookahead| lookahead.is(end) || lookahead.is(","));
        let how = if recovers { "extraneous" } else { "mismatched" };
        self.fault(&token, |text| {
            format!("{how} input '{text}' expecting {{'{end}', ','}}")
        });
        None
    }

    pub(super) fn map(&mut self, at: usize) -> Read {
        let mut entries = Vec::new();
        loop {
            if self.accept("}") {
                return Some(Node::new(at, Expression::Map(entries)));
            }
            if entries.is_empty() && self.accept(",")
                || !entries.is_empty() && (self.is(",") || self.token().kind == Kind::End)
            {
                self.expect("}")?;
                return Some(Node::new(at, Expression::Map(entries)));
            }
            let is_optional = self.accept("?");
            let also: &[&str] = match entries.is_empty() && !is_optional {
                true => &["}", ",", "?"],
                false => &[],
            };
            let node = self.enclosed(&[":"], also)?;
            self.expect(":")?;
            let value = self.enclosed(&["}", ","], &[])?;
            entries.push((Item { is_optional, node }, value));
            self.separated("}")?;
        }
    }

    pub(super) fn message(&mut self, name: String, at: usize) -> Read {
        let mut fields = Vec::new();
        let first = self.token().at;
        loop {
            if self.accept("}") {
                return Some(Node::new(at, Expression::Message { name, fields }));
            }
            if self.accept(",") {
                self.expect("}")?;
                return Some(Node::new(at, Expression::Message { name, fields }));
            }
            let is_optional = self.accept("?");
            let token = self.token();
            if !matches!(token.kind, Kind::Name | Kind::EscapedName) {
                self.fault(&token, |text| {
                    format!(
                        "mismatched input '{text}' expecting {{'}}', ',', '?', IDENTIFIER, \
                         ESC_IDENTIFIER}}"
                    )
                });
                return None;
            }
            self.next += 1;
            let colon = self.token().at;
            self.expect(":")?;
            if token.kind == Kind::EscapedName {
                self.escaped(first);
            }
            let name = self.written(&token);
            fields.push(MessageField {
                at: colon,
                name,
                is_optional,
                value: self.enclosed(&["}", ","], &[])?,
            });
            self.separated("}")?;
        }
    }
}
