//! The bytes behind the value of an [`Obj`](super::Obj): who it is, in the allocation of the value itself.
//!
//! ```text
//! short   maker │ length of the key (2) │ key │ uid (16) │ version
//! long    maker │ 0xffff                │ lengths of key and uid (4 + 4) │ key │ uid │ version
//! ```
//!
//! The key comes first: who looks for it mostly reads one line of memory.
//!
//! Short is what API servers send: a canonical UUID, and a key of two names of at most 253 bytes. Anything else is long:
//! a key of 65,535 bytes or more, or another uid. Nothing is cut: lengths that do not fit are refused. What is left
//! behind the key is the version, so its length stands nowhere.

use super::identity::{KeyRef, UidRef, VersionRef};
use smallvec::SmallVec;

/// Stands for the length of the key in the long form.
const LONG: u16 = u16::MAX;

/// Why slicing cannot fail.
const WHOLE: &str = "the bytes were written by `write`";

/// A tail on its way into its allocation: that of nearly every object fits in.
pub(super) type Buffer = SmallVec<[u8; 256]>;

/// Puts a tail together.
///
/// # Panics
///
/// If the key or a uid that is no UUID has 4 GiB or more.
pub(super) fn write(maker: u8, namespace: &str, name: &str, uid: UidRef<'_>, version: &str) -> Buffer {
    let mut tail = Buffer::new();
    let slash = usize::from(!namespace.is_empty());
    let key = namespace.len() + slash + name.len();
    let short = u16::try_from(key).ok().filter(|length| *length != LONG);
    let push_key = |tail: &mut Buffer| {
        for part in [namespace.as_bytes(), &b"/"[..slash], name.as_bytes()] {
            tail.extend_from_slice(part);
        }
    };
    tail.push(maker);
    match (short, uid.as_uuid()) {
        (Some(length), Some(uuid)) => {
            tail.reserve_exact(2 + uuid.len() + key + version.len());
            tail.extend_from_slice(&length.to_le_bytes());
            push_key(&mut tail);
            tail.extend_from_slice(&uuid);
        }
        (_, _) => {
            let mut printed = SmallVec::<[u8; 36]>::new();
            uid.print(|part| printed.extend_from_slice(part.as_bytes()));
            let lengths = [key, printed.len()]
                .map(|length| u32::try_from(length).expect("a key or uid has less than 4 GiB").to_le_bytes());
            tail.reserve_exact(2 + 8 + printed.len() + key + version.len());
            tail.extend_from_slice(&LONG.to_le_bytes());
            tail.extend_from_slice(lengths.as_flattened());
            push_key(&mut tail);
            tail.extend_from_slice(&printed);
        }
    }
    tail.extend_from_slice(version.as_bytes());
    tail
}

/// What a tail says. Bytes, because a look at them that needs no text need not pay for the proof that they are one.
#[derive(Clone, Copy)]
pub(super) struct Tail<'a> {
    uid: Uid<'a>,
    pub(super) key: &'a [u8],
    pub(super) version: &'a [u8],
}

#[derive(Clone, Copy)]
enum Uid<'a> {
    Uuid(&'a [u8; 16]),
    Text(&'a [u8]),
}

impl<'a> Tail<'a> {
    #[inline]
    pub(super) fn read(tail: &'a [u8]) -> Self {
        let (start, rest) = tail.split_first_chunk::<3>().expect(WHOLE);
        let length = u16::from_le_bytes([start[1], start[2]]);
        if length == LONG {
            return Tail::read_long(rest);
        }
        let (key, rest) = rest.split_at(length.into());
        let (uuid, version) = rest.split_first_chunk::<16>().expect(WHOLE);
        Tail { uid: Uid::Uuid(uuid), key, version }
    }

    #[cold]
    fn read_long(rest: &'a [u8]) -> Self {
        let (key, rest) = rest.split_first_chunk::<4>().expect(WHOLE);
        let (uid, rest) = rest.split_first_chunk::<4>().expect(WHOLE);
        let (key, rest) = rest.split_at(u32::from_le_bytes(*key) as usize);
        let (uid, version) = rest.split_at(u32::from_le_bytes(*uid) as usize);
        Tail { uid: Uid::Text(uid), key, version }
    }

    pub(super) fn key(self) -> KeyRef<'a> {
        KeyRef::of(text(self.key))
    }

    pub(super) fn version(self) -> VersionRef<'a> {
        VersionRef::of(text(self.version))
    }

    pub(super) fn uid(self) -> UidRef<'a> {
        match self.uid {
            Uid::Uuid(uuid) => UidRef::of_uuid(*uuid),
            Uid::Text(bytes) => UidRef::of(text(bytes)),
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::{String, ToString};

    const UUID: &str = "0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968";

    fn there_and_back(namespace: &str, name: &str, uid: &str, version: &str) -> usize {
        let bytes = write(7, namespace, name, UidRef::of(uid), version);
        let tail = Tail::read(&bytes);
        assert_eq!(bytes[0], 7);
        assert!(tail.key().is(namespace, name) && tail.key().as_str().len() >= name.len());
        assert_eq!((tail.uid().to_string().as_str(), tail.version().as_str()), (uid, version));
        assert_eq!(tail.uid(), UidRef::of(uid));
        bytes.len() - tail.key.len() - tail.version.len()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            namespace in "[^/]{0,5}", name in "[^/]{1,5}", version in ".{0,20}",
            uid in prop_oneof![Just(String::from(UUID)), ".{0,40}"],
        ) {
            there_and_back(&namespace, &name, &uid, &version);
        }
    }

    #[test]
    fn what_api_servers_send_takes_nineteen_bytes_and_its_texts() {
        let longest = "n".repeat(253);
        for (namespace, name) in [("", "a"), ("web", "a"), (longest.as_str(), longest.as_str())] {
            assert_eq!(there_and_back(namespace, name, UUID, "123456"), 19);
        }
    }

    #[test]
    fn a_key_of_any_length_is_kept_whole() {
        for length in [65_532, 65_533, 65_534, 70_000, 20 << 20] {
            let name = "n".repeat(length);
            let beside = there_and_back("w", &name, UUID, "1");
            assert_eq!(beside, if length + 2 < 65_535 { 19 } else { 3 + 8 + 36 }, "{length}");
            there_and_back("w", "n", &name, &name);
        }
    }
}
