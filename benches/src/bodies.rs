//! What a server would send: bodies of lists and watches, plain or with gzip.

use crate::Sample;
use informer_core::Object;
use informer_core::wire::Crc32;
use miniz_oxide::deflate::compress_to_vec;

/// The version that every list and every end of initial events stands for: one that is later than any object's.
const LIST_VERSION: u64 = 9_000_000;

/// The body of a complete list of the objects `numbers`, each at the version that `version` says. As in a real one,
/// items do not repeat their kind.
///
/// # Panics
///
/// If an object cannot be written as JSON.
pub fn list_body<T: Sample>(numbers: impl IntoIterator<Item = u64>, version: impl Fn(u64) -> u64) -> Vec<u8> {
    let resource = T::resource();
    let (kind, api) = (&resource.kind, resource.api_version());
    let mut body = format!(
        r#"{{"kind":"{kind}List","apiVersion":"{api}","metadata":{{"resourceVersion":"{LIST_VERSION}"}},"items":["#
    )
    .into_bytes();
    for (at, n) in numbers.into_iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, &T::sample(n, version(n))).expect("samples are plain data");
    }
    body.extend_from_slice(b"]}\n");
    body
}

/// Watch frames of one type (`ADDED`, `MODIFIED`, `DELETED`), one for each of `numbers`, with kind and version in each
/// object as the server writes them.
///
/// # Panics
///
/// If an object cannot be written as JSON.
pub fn frames<T: Sample>(event: &str, numbers: impl IntoIterator<Item = u64>, version: impl Fn(u64) -> u64) -> Vec<u8> {
    let resource = T::resource();
    let (kind, api) = (&resource.kind, resource.api_version());
    let mut body = Vec::new();
    for n in numbers {
        let object = serde_json::to_string(&T::sample(n, version(n))).expect("samples are plain data");
        let rest = &object[1..];
        body.extend_from_slice(
            format!(r#"{{"type":"{event}","object":{{"kind":"{kind}","apiVersion":"{api}",{rest}}}"#).as_bytes(),
        );
        body.push(b'\n');
    }
    body
}

/// The bookmark that ends the initial events of a streaming list.
pub fn end_of_initial_events<T: Object>() -> Vec<u8> {
    let resource = T::resource();
    let (kind, api) = (&resource.kind, resource.api_version());
    let metadata =
        format!(r#"{{"resourceVersion":"{LIST_VERSION}","annotations":{{"k8s.io/initial-events-end":"true"}}}}"#);
    let object = format!(r#"{{"kind":"{kind}","apiVersion":"{api}","metadata":{metadata}}}"#);
    format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into_bytes()
}

/// The same bytes as one gzip member, at level 4: between the API server's level 4 and this encoder's lies little.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut body = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    body.extend_from_slice(&compress_to_vec(plain, 4));
    body.extend_from_slice(&Crc32::of(plain).to_le_bytes());
    body.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pod, Widget};
    use informer_core::wire::{Body, Fed, FrameDecoder, ItemKind, Limits, ListDecoder, RawBatch};

    #[test]
    fn a_list_reads_as_a_list() {
        let mut batch = RawBatch::new();
        let mut list = ListDecoder::new(Limits::default());
        list.feed(&list_body::<Pod>(3..6, |n| n), &mut batch).unwrap();
        assert_eq!(list.finish().unwrap().version.as_str(), "9000000");
        let versions: Vec<_> = batch.iter().map(|item| (item.kind, item.version)).collect();
        let listed = |version| (ItemKind::Listed, version);
        assert_eq!(versions, [listed("1000003"), listed("1000004"), listed("1000005")]);
    }

    #[test]
    fn frames_read_as_events() {
        let mut batch = RawBatch::new();
        let mut reader = FrameDecoder::new(Limits::default());
        let fed = reader.feed(&frames::<Widget>("MODIFIED", 1..3, |_| 5), &mut batch).unwrap();
        assert_eq!((fed, batch.len()), (Fed::All, 2));
        let item = batch.get(1);
        assert_eq!((item.kind, item.object_kind, item.name), (ItemKind::Modified, "Widget", "widget-000002"));
        let fed = reader.feed(&end_of_initial_events::<Widget>(), &mut batch).unwrap();
        assert!(matches!(fed, Fed::Control { .. }), "{fed:?}");
    }

    #[test]
    fn gzip_comes_back_as_it_went_in() {
        let plain = list_body::<Widget>(0..50, |_| 1);
        let small = gzip(&plain);
        assert!(small.len() < plain.len() / 2);
        let mut body = Body::new(Some("gzip")).unwrap();
        let mut read = Vec::new();
        body.feed(&small, &mut |piece| {
            read.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
        body.finish().unwrap();
        assert_eq!(read, plain);
    }
}
