//! Pure. Checks requests as etcd does, before anything is read.

use std::collections::HashSet;

use etcd_client::proto::{
    PbDeleteRequest, PbPutRequest, PbRangeRequest, PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp,
};
use tonic::Status;

use crate::etcd_shim::key_range::KeyRange;
use crate::etcd_shim::status;

/// The orders and the targets of an order: none, rising, falling; key, version, creation, change
/// and value.
const ORDERS: std::ops::Range<i32> = 0..3;
const TARGETS: std::ops::Range<i32> = 0..5;

/// Checks a read.
pub(super) fn check_range(request: &PbRangeRequest) -> Result<(), Status> {
    if request.key.is_empty() {
        return Err(status::empty_key());
    }
    match ORDERS.contains(&request.sort_order) && TARGETS.contains(&request.sort_target) {
        true => Ok(()),
        false => Err(status::invalid_sort_option()),
    }
}

/// Checks a put.
pub(super) fn check_put(request: &PbPutRequest) -> Result<(), Status> {
    if request.key.is_empty() {
        return Err(status::empty_key());
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(status::value_provided());
    }
    match request.ignore_lease && request.lease != 0 {
        true => Err(status::lease_provided()),
        false => Ok(()),
    }
}

/// Checks a deletion.
pub(super) fn check_delete(request: &PbDeleteRequest) -> Result<(), Status> {
    match request.key.is_empty() {
        true => Err(status::empty_key()),
        false => Ok(()),
    }
}

/// Checks a transaction of at most this many operations in each part.
pub(super) fn check_transaction(
    request: &PbTxnRequest,
    operations_max: usize,
) -> Result<(), Status> {
    let parts = [
        request.compare.len(),
        request.success.len(),
        request.failure.len(),
    ];
    if parts.into_iter().max() > Some(operations_max) {
        return Err(status::too_many_operations());
    }
    if request.compare.iter().any(|one| one.key.is_empty()) {
        return Err(status::empty_key());
    }
    for branch in [&request.success, &request.failure] {
        branch.iter().try_for_each(check_operation)?;
        check_distinct(branch)?;
    }
    Ok(())
}

fn check_operation(operation: &PbTxnRequestOp) -> Result<(), Status> {
    match &operation.request {
        Some(PbTxnOpRequest::RequestRange(range)) => check_range(range),
        Some(PbTxnOpRequest::RequestPut(put)) => check_put(put),
        Some(PbTxnOpRequest::RequestDeleteRange(delete)) => check_delete(delete),
        Some(PbTxnOpRequest::RequestTxn(_)) => {
            Err(status::not_offered("transactions within transactions"))
        }
        None => Err(status::key_not_found()),
    }
}

/// No key may be put twice, or put and deleted.
fn check_distinct(branch: &[PbTxnRequestOp]) -> Result<(), Status> {
    let deleted = |operation: &PbTxnRequestOp| match &operation.request {
        Some(PbTxnOpRequest::RequestDeleteRange(delete)) => {
            Some(KeyRange::new(delete.key.clone(), delete.range_end.clone()))
        }
        _ => None,
    };
    let deleted: Vec<KeyRange> = branch.iter().filter_map(deleted).collect();
    let mut put = HashSet::new();
    for operation in branch {
        if let Some(PbTxnOpRequest::RequestPut(one)) = &operation.request
            // linear: the flag bounds both lists, at 128.
            && (!put.insert(&*one.key) || deleted.iter().any(|range| range.contains(&one.key)))
        {
            return Err(status::duplicate_key());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> PbTxnRequestOp {
        let put = PbPutRequest {
            key: key.into(),
            ..PbPutRequest::default()
        };
        PbTxnRequestOp {
            request: Some(PbTxnOpRequest::RequestPut(put)),
        }
    }

    fn delete(key: &str, range_end: &str) -> PbTxnRequestOp {
        let delete = PbDeleteRequest {
            key: key.into(),
            range_end: range_end.into(),
            ..PbDeleteRequest::default()
        };
        PbTxnRequestOp {
            request: Some(PbTxnOpRequest::RequestDeleteRange(delete)),
        }
    }

    fn refusal(success: Vec<PbTxnRequestOp>) -> String {
        let request = PbTxnRequest {
            success,
            ..PbTxnRequest::default()
        };
        let checked = check_transaction(&request, 3);
        checked
            .err()
            .map(|status| status.message().to_owned())
            .unwrap_or_default()
    }

    #[test]
    fn transactions_are_refused_as_by_etcd() {
        assert_eq!(refusal(vec![put("a"), put("b"), delete("c", "")]), "");
        assert!(refusal(vec![put("a"), put("a")]).contains("duplicate key"));
        assert!(refusal(vec![put("b"), delete("a", "c")]).contains("duplicate key"));
        assert!(refusal(vec![delete("a", "c"), put("b")]).contains("duplicate key"));
        assert!(refusal(vec![put("")]).contains("key is not provided"));
        assert!(refusal(vec![put("a"), put("b"), put("c"), put("d")]).contains("too many"));
        assert!(refusal(vec![PbTxnRequestOp { request: None }]).contains("key not found"));
        let inner = PbTxnOpRequest::RequestTxn(PbTxnRequest::default());
        let nested = PbTxnRequestOp {
            request: Some(inner),
        };
        assert!(refusal(vec![nested]).contains("within transactions"));
    }

    #[test]
    fn puts_and_reads_are_refused_as_by_etcd() {
        let put = PbPutRequest {
            key: b"a".to_vec(),
            value: b"b".to_vec(),
            lease: 1,
            ..PbPutRequest::default()
        };
        assert!(check_put(&put).is_ok());
        let both = [
            PbPutRequest {
                ignore_value: true,
                ..put.clone()
            },
            PbPutRequest {
                ignore_lease: true,
                ..put
            },
        ];
        let words = both.map(|put| check_put(&put).unwrap_err().message().to_owned());
        assert_eq!(
            words,
            [
                "etcdserver: value is provided",
                "etcdserver: lease is provided"
            ]
        );
        let range = PbRangeRequest {
            key: b"a".to_vec(),
            sort_order: 3,
            ..PbRangeRequest::default()
        };
        assert!(check_range(&range).is_err());
        assert!(check_range(&PbRangeRequest::default()).is_err());
    }
}
