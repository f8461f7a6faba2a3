//! [`StoredObject`]: one version of one object, kept as the JSON text that goes over the wire.
//!
//! The text is made once, when the object is written. A list or watch copies it; where a frame must differ from it (a
//! list item of a built-in type has no `kind`, the object of a DELETED event has another version) offsets tell where
//! to cut.

use crate::text::{self, Members, members, open_member, push_string, push_strings, same};
use crate::validate::OwnerReference;
use informer_core::object::{Key, Resource};
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How objects of one resource look on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) custom: bool,
    /// Whether the server counts generations: custom resources, and built-in ones that have a spec. Of the core group
    /// only Pods and ReplicationControllers do.
    pub(crate) generations: bool,
    /// Paths of the fields, beside name and namespace, that field selectors may name.
    pub(crate) fields: Vec<String>,
}

impl Shape {
    pub(crate) fn new(resource: &Resource, custom: bool) -> Self {
        let core_pods = resource.group.is_empty() && resource.plural == "pods";
        // Of the real server's list those that are plain strings.
        let fields: &[&str] = if core_pods {
            &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ]
        } else {
            &[]
        };
        Shape {
            kind: resource.kind.to_string(),
            api_version: resource.api_version(),
            custom,
            generations: custom
                || !resource.group.is_empty()
                || core_pods
                || resource.plural == "replicationcontrollers",
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        }
    }

    /// True if field selectors may name this path.
    pub(crate) fn has_field(&self, path: &str) -> bool {
        matches!(path, "metadata.name" | "metadata.namespace") || self.fields.iter().any(|have| have == path)
    }

    /// `"kind":…,"apiVersion":…`: custom resources are sorted by name, built-in ones are not.
    pub(crate) fn type_meta(&self) -> String {
        let (kind, api_version) = (("kind", &self.kind), ("apiVersion", &self.api_version));
        let order = if self.custom { [api_version, kind] } else { [kind, api_version] };
        let mut out = String::from("{");
        for (name, value) in order {
            open_member(&mut out, name);
            push_string(&mut out, value);
        }
        out.split_off(1)
    }
}

/// One version of one object.
pub struct StoredObject {
    key: Key,
    uid: Box<str>,
    version: u64,
    text: Box<str>,
    /// Where the digits of `resourceVersion` begin.
    version_at: u32,
    /// Bytes of the type meta after the opening brace, its comma included.
    type_meta: u32,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of [`Shape::fields`].
    fields: Box<[Box<str>]>,
}

impl StoredObject {
    /// Namespace and name.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The identity of this incarnation.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The `resourceVersion`.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The whole object as JSON.
    pub fn json(&self) -> &str {
        &self.text
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(have, _)| &**have == name).map(|(_, value)| &**value)
    }

    /// The value of a field that selectors may name; empty if it has none.
    pub(crate) fn field(&self, shape: &Shape, path: &str) -> &str {
        match path {
            "metadata.name" => self.key.name(),
            "metadata.namespace" => self.key.namespace(),
            _ => shape.fields.iter().position(|have| have == path).map_or("", |at| &self.fields[at]),
        }
    }

    /// Appends the object as an item of a list.
    pub(crate) fn push_item(&self, out: &mut Vec<u8>, custom: bool) {
        if custom {
            out.extend_from_slice(self.text.as_bytes());
            return;
        }
        out.push(b'{');
        out.extend_from_slice(&self.text.as_bytes()[1 + self.type_meta as usize..]);
    }

    /// How many bytes [`push_item`](Self::push_item) appends.
    pub(crate) fn item_len(&self, custom: bool) -> usize {
        self.text.len() - if custom { 0 } else { self.type_meta as usize }
    }

    /// Appends a watch frame of `kind`, with this version of the object or its content under another version.
    pub(crate) fn push_frame(&self, out: &mut Vec<u8>, kind: &str, version: u64) {
        out.extend_from_slice(br#"{"type":""#);
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(br#"","object":"#);
        let text = self.text.as_bytes();
        if version == self.version {
            out.extend_from_slice(text);
        } else {
            let (head, tail) = text.split_at(self.version_at as usize);
            out.extend_from_slice(head);
            out.extend_from_slice(version.to_string().as_bytes());
            out.extend_from_slice(&tail[digits(self.version)..]);
        }
        out.extend_from_slice(b"}\n");
    }
}

impl std::fmt::Debug for StoredObject {
    /// Identity only: an object may hold a Secret's data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.key, self.version)
    }
}

fn digits(version: u64) -> usize {
    version.checked_ilog10().unwrap_or(0) as usize + 1
}

type Pairs = BTreeMap<Box<str>, Box<str>>;

/// An object on its way in or between two versions: taken apart, not yet stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft<'a> {
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) name: String,
    pub(crate) generate_name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    /// The version that the writer named, not the one it will get.
    pub(crate) version: String,
    pub(crate) generation: Option<i64>,
    pub(crate) created: String,
    /// When it is to be gone; empty if nobody asked for that.
    pub(crate) deleted: String,
    /// How long it may take for that, in seconds; 0 if nothing but its finalizers holds it.
    pub(crate) grace: Option<i64>,
    pub(crate) finalizers: Vec<String>,
    /// The rest of the metadata, as written.
    meta: Vec<(Cow<'a, str>, &'a str)>,
    /// All but type and metadata, as written.
    body: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Draft<'a> {
    /// Takes an object apart. The text should be dense ([`text::minify`]): it is sent as it stands.
    pub(crate) fn read(text: &'a str) -> Result<Draft<'a>, serde_json::Error> {
        let top = members(text)?;
        let meta = top.object("metadata")?;
        // What has the wrong type is refused and not passed over: a version that is a number would be none, and a write
        // that is meant for one version would overwrite any.
        let string = |path: &str| meta.typed::<String>(path).map(Option::unwrap_or_default);
        let mut draft = Draft {
            kind: top.typed("kind")?.unwrap_or_default(),
            api_version: top.typed("apiVersion")?.unwrap_or_default(),
            name: string("metadata.name")?,
            generate_name: string("metadata.generateName")?,
            namespace: string("metadata.namespace")?,
            uid: string("metadata.uid")?,
            version: string("metadata.resourceVersion")?,
            generation: meta.typed("metadata.generation")?,
            created: string("metadata.creationTimestamp")?,
            deleted: string("metadata.deletionTimestamp")?,
            grace: meta.typed("metadata.deletionGracePeriodSeconds")?,
            finalizers: meta.typed("metadata.finalizers")?.unwrap_or_default(),
            ..Draft::default()
        };
        // The others would fail where they are read, where nobody could be told.
        for path in ["metadata.labels", "metadata.annotations"] {
            meta.typed::<Pairs>(path)?;
        }
        meta.typed::<Vec<OwnerReference>>("metadata.ownerReferences")?;
        meta.typed::<Vec<BTreeMap<String, IgnoredAny>>>("metadata.managedFields")?;
        const OWN: [&str; 11] = [
            "name",
            "generateName",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "finalizers",
            "selfLink",
        ];
        // Nothing and an empty list or map are one thing, and the server writes neither.
        draft.meta = owned(&meta, |name, value| !OWN.contains(&name) && !matches!(value, "null" | "[]" | "{}"));
        draft.body = owned(&top, |name, _| !matches!(name, "kind" | "apiVersion" | "metadata"));
        Ok(draft)
    }

    /// The raw text of a member beside type and metadata.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        find(&self.body, name)
    }

    /// Puts another text in the place of a member, adds it at the end, or takes it out.
    pub(crate) fn set(&mut self, name: &'static str, value: Option<&'a str>) {
        replace(&mut self.body, name, value);
    }

    /// The same for the metadata that the server does not manage itself.
    pub(crate) fn set_meta(&mut self, name: &'static str, value: Option<&'a str>) {
        replace(&mut self.meta, name, value);
    }

    /// Takes the metadata that the server does not manage itself from another one.
    pub(crate) fn set_all_meta(&mut self, other: &Draft<'a>) {
        self.meta.clone_from(&other.meta);
        self.finalizers.clone_from(&other.finalizers);
    }

    pub(crate) fn meta(&self, name: &str) -> Option<&'a str> {
        find(&self.meta, name)
    }

    /// Labels or annotations, in the order of their keys.
    pub(crate) fn pairs(&self, name: &str) -> Pairs {
        self.meta(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// True if somebody asked for its deletion.
    pub(crate) fn is_dying(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// True if nothing but metadata and status differs.
    pub(crate) fn same_spec(&self, other: &Draft<'_>) -> bool {
        same_but(&self.body, &other.body, "status")
    }

    /// True if nothing differs but the version.
    pub(crate) fn same_object(&self, other: &Draft<'_>) -> bool {
        self.generation == other.generation
            && self.deleted == other.deleted
            && self.grace == other.grace
            && self.finalizers == other.finalizers
            && same_but(&self.meta, &other.meta, "")
            && same_but(&self.body, &other.body, "")
    }

    /// The object as it will be stored under `version`.
    pub(crate) fn finish(&self, shape: &Shape, version: u64) -> StoredObject {
        let room: usize = self.meta.iter().chain(&self.body).map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut out = String::with_capacity(room + 320);
        out.push('{');
        out.push_str(&shape.type_meta());
        let type_meta = out.len(); // minus the brace, plus the comma that follows
        open_member(&mut out, "metadata");
        out.push('{');
        for (name, value) in [
            ("name", &self.name),
            ("generateName", &self.generate_name),
            ("namespace", &self.namespace),
            ("uid", &self.uid),
        ] {
            if !value.is_empty() {
                open_member(&mut out, name);
                push_string(&mut out, value);
            }
        }
        open_member(&mut out, "resourceVersion");
        out.push('"');
        let version_at = out.len();
        out.push_str(&version.to_string());
        out.push('"');
        if let Some(generation) = self.generation {
            open_member(&mut out, "generation");
            out.push_str(&generation.to_string());
        }
        for (name, value) in [("creationTimestamp", &self.created), ("deletionTimestamp", &self.deleted)] {
            if !value.is_empty() {
                open_member(&mut out, name);
                push_string(&mut out, value);
            }
        }
        if let Some(grace) = self.grace {
            open_member(&mut out, "deletionGracePeriodSeconds");
            out.push_str(&grace.to_string());
        }
        push_all(&mut out, &self.meta);
        if !self.finalizers.is_empty() {
            open_member(&mut out, "finalizers");
            push_strings(&mut out, &self.finalizers);
        }
        out.push('}');
        push_all(&mut out, &self.body);
        out.push('}');

        let labels = self.pairs("labels");
        StoredObject {
            key: Key::new(&self.namespace, &self.name),
            uid: self.uid.as_str().into(),
            version,
            version_at: version_at as u32,
            type_meta: type_meta as u32,
            labels: labels.into_iter().collect(),
            fields: self.fields(shape),
            text: out.into_boxed_str(),
        }
    }

    /// The values of [`Shape::fields`].
    fn fields(&self, shape: &Shape) -> Box<[Box<str>]> {
        // Most fields of a shape have one parent, and a spec is long: each is taken apart once.
        let mut parent = ("", Members::default());
        let mut values = Vec::with_capacity(shape.fields.len());
        for path in &shape.fields {
            let (top, rest) = path.split_once('.').unwrap_or((path, ""));
            if parent.0 != top {
                parent = (top, self.get(top).and_then(|text| members(text).ok()).unwrap_or_default());
            }
            let mut names = rest.split('.');
            let mut value = names.next().and_then(|name| parent.1.get(name));
            for name in names {
                value = value.and_then(|text| members(text).ok()).and_then(|level| level.get(name));
            }
            values.push(if rest.is_empty() { scalar(self.get(top)) } else { scalar(value) });
        }
        values.into()
    }
}

/// A value as selectors compare it: a string's content, any other scalar's text, else nothing.
fn scalar(value: Option<&str>) -> Box<str> {
    match value {
        None | Some("null") => "".into(),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        Some(text) if text.starts_with(['{', '[']) => "".into(),
        Some(text) => text.into(),
    }
}

fn owned<'a>(all: &Members<'a>, keep: impl Fn(&str, &str) -> bool) -> Vec<(Cow<'a, str>, &'a str)> {
    all.iter()
        .filter(|(name, value)| keep(name, value))
        .map(|(name, value)| (Cow::Owned(name.to_owned()), value))
        .collect()
}

fn find<'a>(list: &[(Cow<'a, str>, &'a str)], name: &str) -> Option<&'a str> {
    list.iter().find(|(have, _)| have == name).map(|(_, value)| *value)
}

fn replace<'a>(list: &mut Vec<(Cow<'a, str>, &'a str)>, name: &'static str, value: Option<&'a str>) {
    match (list.iter().position(|(have, _)| have == name), value) {
        (Some(at), Some(value)) => list[at].1 = value,
        (Some(at), None) => {
            list.remove(at);
        }
        (None, Some(value)) => list.push((Cow::Borrowed(name), value)),
        (None, None) => {}
    }
}

fn same_but(a: &[(Cow<'_, str>, &str)], b: &[(Cow<'_, str>, &str)], except: &str) -> bool {
    let counted = |list: &[(Cow<'_, str>, &str)]| list.iter().filter(|(name, _)| name != except).count();
    counted(a) == counted(b)
        && a.iter()
            .filter(|(name, _)| name != except)
            .all(|(name, value)| b.iter().any(|(other, have)| other == name && same(value, have)))
}

fn push_all(out: &mut String, list: &[(Cow<'_, str>, &str)]) {
    for (name, value) in list {
        open_member(out, name);
        out.push_str(value);
    }
}

/// The text of a request's body, dense. Whether it is JSON turns out when it is read.
pub(crate) fn dense(body: &[u8]) -> Result<Cow<'_, str>, String> {
    std::str::from_utf8(body).map(text::minify).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Shape {
        Shape::new(&Resource::namespaced("", "v1", "pods", "Pod"), false)
    }

    #[test]
    fn a_stored_object_keeps_its_bytes_and_knows_its_parts() {
        let text = r#"{"metadata":{"name":"a","namespace":"n","labels":{"x":"y"}},"spec":{"nodeName":"n1","z":1},"status":{"phase":"Running"}}"#;
        let mut draft = Draft::read(text).unwrap();
        draft.uid = "u".into();
        draft.generation = Some(1);
        let object = draft.finish(&pods(), 41);
        assert_eq!(
            object.json(),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"41","generation":1,"labels":{"x":"y"}},"spec":{"nodeName":"n1","z":1},"status":{"phase":"Running"}}"#
        );
        assert_eq!(object.key().as_str(), "n/a");
        assert_eq!(object.label("x"), Some("y"));
        assert_eq!(object.field(&pods(), "spec.nodeName"), "n1");
        assert_eq!(object.field(&pods(), "status.phase"), "Running");
        assert_eq!(object.field(&pods(), "metadata.name"), "a");
    }

    #[test]
    fn items_lose_their_type_and_frames_take_another_version() {
        let object = Draft::read(r#"{"metadata":{"name":"a"}}"#).unwrap().finish(&pods(), 9);
        let mut item = Vec::new();
        object.push_item(&mut item, false);
        assert_eq!(item, br#"{"metadata":{"name":"a","resourceVersion":"9"}}"#);
        assert_eq!(item.len(), object.item_len(false));
        let mut frame = Vec::new();
        object.push_frame(&mut frame, "DELETED", 10);
        assert_eq!(
            String::from_utf8(frame).unwrap(),
            "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"10\"}}}\n"
        );
    }

    #[test]
    fn only_what_matters_makes_a_difference() {
        let draft = |text: &'static str| Draft::read(text).unwrap();
        let old = draft(r#"{"metadata":{"name":"a"},"spec":{"x":1,"y":2},"status":{"s":1}}"#);
        assert!(old.same_object(&draft(r#"{"status":{"s":1},"metadata":{"name":"a"},"spec":{"y":2,"x":1}}"#)));
        let status = draft(r#"{"metadata":{"name":"a"},"spec":{"x":1,"y":2},"status":{"s":2}}"#);
        assert!(old.same_spec(&status) && !old.same_object(&status));
        assert!(!old.same_spec(&draft(r#"{"metadata":{"name":"a"},"spec":{"x":1}}"#)));
    }

    #[test]
    fn what_is_empty_is_not_written() {
        let text =
            r#"{"metadata":{"name":"a","labels":{},"annotations":null,"finalizers":[],"deletionTimestamp":null}}"#;
        let object = Draft::read(text).unwrap().finish(&pods(), 9);
        assert_eq!(object.json(), r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"9"}}"#);
    }

    #[test]
    fn the_marks_of_a_deletion_are_read_and_written() {
        let text = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"9","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"labels":{"x":"y"},"finalizers":["a/b","c/d"]}}"#;
        let draft = Draft::read(text).unwrap();
        assert!(draft.is_dying());
        assert_eq!((draft.grace, &*draft.finalizers), (Some(0), ["a/b".to_owned(), "c/d".to_owned()].as_slice()));
        assert_eq!(draft.finish(&pods(), 9).json(), text);
    }

    #[test]
    fn marks_that_are_no_strings_are_refused() {
        assert!(Draft::read(r#"{"metadata":{"name":"a","labels":{"x":1}}}"#).is_err());
        assert!(Draft::read(r#"{"metadata":{"name":"a","annotations":{"x":1}}}"#).is_err());
        assert!(Draft::read(r#"{"metadata":{"name":"a","finalizers":[1]}}"#).is_err());
        assert!(Draft::read(r#"{"metadata":7}"#).is_err());
    }

    #[test]
    fn a_version_has_as_many_digits_as_it_prints() {
        for version in [0, 1, 9, 10, 99, 100, u64::MAX] {
            assert_eq!(digits(version), version.to_string().len());
        }
    }
}
