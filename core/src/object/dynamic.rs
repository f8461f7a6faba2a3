//! [`DynamicObject`]: an object of any kind that keeps its JSON.

use super::{DecodeError, Object, ObjectMeta, Resource};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object whose type is not known when the program is compiled: metadata, and the JSON as the server sent it.
///
/// Items of a list carry no `kind` and `apiVersion` on the wire (B037); [`kind`](Self::kind) and
/// [`api_version`](Self::api_version) know them all the same.
///
/// ```
/// use informer_core::object::{DynamicObject, Object, Resource};
///
/// let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
/// let json = br#"{"metadata": {"name": "a"}, "spec": {"size": 3}}"#;
/// let widget = DynamicObject::decode(json, &widgets).unwrap();
/// assert_eq!((widget.kind(), widget.api_version()), ("Widget", "example.com/v1"));
///
/// #[derive(serde::Deserialize)]
/// struct Sized {
///     spec: Spec,
/// }
/// #[derive(serde::Deserialize)]
/// struct Spec {
///     size: u32,
/// }
/// assert_eq!(widget.parse::<Sized>().unwrap().spec.size, 3);
/// ```
#[derive(Clone, Debug)]
pub struct DynamicObject {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    json: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ObjectMeta,
}

impl DynamicObject {
    /// `group/version` of the object.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Kind of the object.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The JSON text as the server sent it.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Without the field that lies at `path`, and all that is in it; without such a field, unchanged. For a transform that
    /// keeps out of the cache what nobody reads there: `managedFields` are often half of it.
    ///
    /// ```
    /// use informer_core::object::{DynamicObject, Object, Resource};
    ///
    /// let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    /// let json = br#"{"metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}]}, "spec": {"size": 3}}"#;
    /// let widget = DynamicObject::decode(json, &widgets)?.without(&["metadata", "managedFields"]);
    /// assert_eq!(widget.json(), r#"{"metadata":{"name":"a"},"spec":{"size": 3}}"#);
    /// # Ok::<(), informer_core::object::DecodeError>(())
    /// ```
    ///
    /// It must not take away what says which object this is: a transform whose result has no name is refused. Types of one's
    /// own have the fields that they name, and need no transform for that.
    #[must_use = "it is another object"]
    pub fn without(mut self, path: &[&str]) -> Self {
        if let Some(json) = Members::without(&self.json, path) {
            if path.first() == Some(&"metadata") {
                let header: Header = serde_json::from_str(&json).expect("what is left of an object is one");
                self.metadata = header.metadata;
            }
            self.json = json.into_boxed_str();
        }
        self
    }

    /// Reads the JSON as a type of yours.
    ///
    /// # Errors
    ///
    /// If the JSON does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        serde_json::from_str(&self.json).map_err(DecodeError::new)
    }
}

impl<'de> Deserialize<'de> for DynamicObject {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let header: Header = serde_json::from_str(json.get()).map_err(serde::de::Error::custom)?;
        Ok(DynamicObject {
            api_version: header.api_version,
            kind: header.kind,
            metadata: header.metadata,
            json: json.get().into(),
        })
    }
}

impl Object for DynamicObject {
    type Meta = ObjectMeta;
    const DYNAMIC: bool = true;

    fn resource() -> Resource {
        panic!("a DynamicObject has no resource of its own: name one where the informer is made")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn decode(json: &[u8], resource: &Resource) -> Result<Self, DecodeError> {
        let text = core::str::from_utf8(json).map_err(DecodeError::new)?;
        // A whole parse, not only the header: what is stored must be JSON to its end.
        let mut header: Header = serde_json::from_str(text).map_err(DecodeError::new)?;
        if header.api_version.is_empty() {
            header.api_version = resource.api_version();
        }
        if header.kind.is_empty() {
            header.kind = resource.kind.to_string();
        }
        Ok(DynamicObject {
            api_version: header.api_version,
            kind: header.kind,
            metadata: header.metadata,
            json: text.to_owned().into_boxed_str(),
        })
    }

    /// The same fields with the same text; `kind` and `apiVersion`, which a list leaves out, apart.
    fn is_same(&self, other: &Self) -> bool {
        self.json == other.json || self.fields().is_some_and(|fields| other.fields() == Some(fields))
    }
}

/// The members of a JSON object, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl Members<'_> {
    /// The text without the value at `path`; `None` if there is none.
    fn without(json: &str, path: &[&str]) -> Option<String> {
        let (gone, within) = path.split_first()?;
        let Members(members) = serde_json::from_str(json).ok()?;
        let mut text = String::with_capacity(json.len());
        let mut found = false;
        text.push('{');
        for (name, value) in members {
            let changed =
                if name == *gone && !within.is_empty() { Members::without(value.get(), within) } else { None };
            let is_gone = name == *gone && within.is_empty();
            found |= is_gone || changed.is_some();
            if is_gone {
                continue;
            }
            if text.len() > 1 {
                text.push(',');
            }
            text += &serde_json::to_string(&name).expect("a name is a text");
            text.push(':');
            text += changed.as_deref().unwrap_or_else(|| value.get());
        }
        text.push('}');
        found.then_some(text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(InOrder).map(Members)
    }
}

impl DynamicObject {
    fn fields(&self) -> Option<BTreeMap<String, &str>> {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(&self.json).ok()?;
        let said = |name: &String| name != "kind" && name != "apiVersion";
        Some(fields.into_iter().filter(|(name, _)| said(name)).map(|(name, text)| (name, text.get())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn what_is_taken_out_is_gone_from_the_text_and_the_metadata_and_nothing_else_is() {
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let json = concat!(
            r#"{"kind":"Pod", "metadata":{"managedFields":[{"a":"}"}],"name":"a","annotations":{"x":"1","y":"\"2"},"#,
            r#""uid":"u","managedFields":null}, "s\u0070ec":{"x":[1, 2],"y":{}}}"#
        );
        let pod = |path: &[&str]| DynamicObject::decode(json.as_bytes(), &pods).unwrap().without(path);
        for path in [&[][..], &["status"], &["metadata", "labels"], &["metadata", "name", "a"], &["spec", "x", "0"]] {
            assert_eq!(pod(path).json(), json, "{path:?}");
        }
        let stripped = pod(&["metadata", "managedFields"]);
        let left = r#"{"kind":"Pod","metadata":{"name":"a","annotations":{"x":"1","y":"\"2"},"uid":"u"},"spec":{"x":[1, 2],"y":{}}}"#;
        assert_eq!((stripped.json(), stripped.kind(), stripped.api_version()), (left, "Pod", "v1"));
        let bare = stripped.without(&["metadata", "annotations", "x"]).without(&["spec"]);
        assert_eq!(bare.json(), r#"{"kind":"Pod","metadata":{"name":"a","annotations":{"y":"\"2"},"uid":"u"}}"#);
        let metadata = bare.metadata();
        assert_eq!((&*metadata.name, metadata.annotations.get("x"), &metadata.annotations["y"]), ("a", None, "\"2"));
    }

    #[test]
    fn an_object_is_the_same_in_a_list_and_in_an_event() {
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let read = |json: &str| DynamicObject::decode(json.as_bytes(), &pods).unwrap();
        let listed = read(r#"{"metadata":{"name":"a"},"spec":{"x":1}}"#);
        let event = read(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":1}}"#);
        assert!(listed.is_same(&listed) && listed.is_same(&event) && event.is_same(&listed));
        for other in [r#"{"metadata":{"name":"a"},"spec":{"x":2}}"#, r#"{"metadata":{"name":"a"}}"#] {
            let other = read(other);
            assert!(!listed.is_same(&other) && !other.is_same(&event), "{}", format!("{other:?}"));
        }
    }
}
