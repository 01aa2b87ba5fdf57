//! Pure. Keys, values and events as messages.

use actors::engine::{Event, EventKind, KeyValue};
use etcd_client::proto::{PbEvent, PbKeyValue};

use crate::etcd_shim::store::number;

/// The numbers of kinds of events.
const PUT: i32 = 0;
const DELETE: i32 = 1;

/// A key and its value.
pub(in crate::etcd_shim) fn key_value(item: &KeyValue) -> PbKeyValue {
    PbKeyValue {
        value: item.value.to_vec(),
        ..key_alone(item)
    }
}

/// A key without its value.
pub(super) fn key_alone(item: &KeyValue) -> PbKeyValue {
    PbKeyValue {
        key: item.key.as_bytes().to_vec(),
        create_revision: number(item.create_revision),
        mod_revision: number(item.revision),
        version: item.version as i64,
        value: Vec::new(),
        lease: item.lease.0 as i64,
    }
}

/// An event, with the value before it if that is wanted and known.
pub(in crate::etcd_shim) fn event(event: &Event, previous: Option<&KeyValue>) -> PbEvent {
    let (kind, item) = match event.kind {
        EventKind::Put => (PUT, key_value(&event.key_value())),
        EventKind::Delete => {
            let gone = PbKeyValue {
                key: event.key.as_bytes().to_vec(),
                mod_revision: number(event.revision),
                ..PbKeyValue::default()
            };
            (DELETE, gone)
        }
    };
    PbEvent {
        r#type: kind,
        kv: Some(item),
        prev_kv: previous.map(key_value),
    }
}
