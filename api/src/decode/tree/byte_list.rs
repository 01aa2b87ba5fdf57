//! Bytes that are written as a list of numbers, which Go reads as well as base64. kube-rs sends the
//! patches of webhooks like this.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::SeqAccess;
use serde_json::Value;

use super::typed::GoPath;
use super::{Guide, Node, Place};
use crate::text::json_type;

impl Node<'_> {
    /// Returns the base64 of a list of numbers, or records the first item that is not a byte.
    pub(super) fn byte_list<'de, A: SeqAccess<'de>>(
        mut self,
        at: &GoPath<'_>,
        mut access: A,
    ) -> Result<Value, A::Error> {
        let above = self.place;
        let mut bytes = Vec::new();
        let mut is_refused = false;
        loop {
            let place = Place::Item(above, bytes.len());
            let node = self.inside(&place, Guide::Any);
            let Some(item) = access.next_element_seed(node)? else {
                break;
            };
            if let Some(byte) = byte(&item) {
                bytes.push(byte);
                continue;
            }
            let found = match &item {
                Value::Number(number) => format!("number {number}"),
                other => json_type(other).to_owned(),
            };
            self.reading.refuse_type(found, "uint8", at);
            is_refused = true;
            bytes.push(0);
        }
        Ok(match is_refused {
            true => Value::Null,
            false => STANDARD.encode(bytes).into(),
        })
    }
}

/// Returns the byte that an item stands for. Null is 0.
pub(in crate::decode) fn byte(item: &Value) -> Option<u8> {
    match item {
        Value::Null => Some(0),
        item => u8::try_from(item.as_u64()?).ok(),
    }
}
