//! [`Widget`]: a tiny custom resource, about 190 bytes of JSON. With it the informer's own work shows, not serde's.

use crate::{Sample, uid};
use informer_core::{Key, Obj, Object, ObjectMeta, Resource, Uid, Version};
use serde::{Deserialize, Serialize};

/// A custom resource of metadata and one number.
#[derive(Debug, Deserialize, Serialize)]
pub struct Widget {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Debug, Deserialize, Serialize)]
struct Spec {
    size: u64,
}

impl Widget {
    /// How many namespaces the samples are spread over.
    pub const NAMESPACES: u64 = 200;

    /// The key of object `n`.
    pub fn key(n: u64) -> Key {
        Key::new(&namespace(n), &name(n))
    }

    /// Object `n` at `version`, with its identity, as a store holds it.
    pub fn object(n: u64, version: u64) -> Obj<Widget> {
        let widget = Widget::sample(n, version);
        let (uid, version) = (Uid::new(&widget.metadata.uid), Version::new(&widget.metadata.resource_version));
        Obj::new(Widget::key(n), uid, version, widget)
    }

    /// The same with one more label.
    #[must_use]
    pub fn with_label(mut self, name: &str, value: &str) -> Self {
        self.metadata.labels.insert(name, value);
        self
    }

    /// The size: the number of the object.
    pub fn size(&self) -> u64 {
        self.spec.size
    }
}

fn namespace(n: u64) -> String {
    format!("team-{:03}", n % Widget::NAMESPACES)
}

fn name(n: u64) -> String {
    format!("widget-{n:06}")
}

impl Object for Widget {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("example.com", "v1", "widgets", "Widget")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Sample for Widget {
    fn sample(n: u64, version: u64) -> Self {
        let labels = [("app", format!("app-{}", n % 100)), ("tier", format!("tier-{}", n % 4))];
        let metadata = ObjectMeta {
            name: name(n),
            namespace: namespace(n),
            uid: uid(n),
            resource_version: (1_000_000 + version).to_string(),
            labels: labels.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            ..ObjectMeta::default()
        };
        Widget { metadata, spec: Spec { size: n } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_widget_is_tiny() {
        let json = serde_json::to_string(&Widget::sample(7, 1)).unwrap();
        assert!((170..210).contains(&json.len()), "{} bytes: {json}", json.len());
        assert_eq!(Widget::decode(json.as_bytes(), &Widget::resource()).unwrap().size(), 7);
    }
}
