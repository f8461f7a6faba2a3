//! A parent, its child, and the one step that brings them closer.
//!
//! Every `Widget` has a `ConfigMap` of its own name with its text in it. The controller deletes that itself when the
//! widget goes: nothing here relies on a garbage collector.
//!
//! Decisions are made on a cache that may be late, so each of them is guarded: a child is updated only at the version
//! that was seen, deleted only in the incarnation that was seen, and a child of an earlier widget of the same name is
//! never taken for one of this widget.

use informer_core::{Key, Obj, Object, ObjectMeta, Resource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The label by which our children are known.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "informer-example");

/// A custom resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Widget {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the widget shall be.
    pub spec: WidgetSpec,
}

/// What a widget shall be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WidgetSpec {
    /// What stands in its child.
    pub text: String,
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

/// The child, with the fields that matter here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfigMap {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Values by name.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

impl Object for ConfigMap {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("", "v1", "configmaps", "ConfigMap")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What to do for one widget.
#[derive(Debug)]
pub enum Step {
    /// All is as it should be.
    Nothing,
    /// Make the child.
    Create(ConfigMap),
    /// Change the child; it carries the version that it replaces.
    Update(ConfigMap),
    /// Delete the child, if it is still this incarnation.
    Delete {
        /// Its uid.
        uid: String,
    },
}

/// The next step for the widget of `key`, from what the caches say.
pub fn plan(key: &Key, widget: Option<&Widget>, child: Option<&Obj<ConfigMap>>) -> Step {
    let live = widget.filter(|widget| widget.metadata.deletion_timestamp.is_none());
    match (live, child) {
        (None, None) => Step::Nothing,
        (None, Some(child)) => {
            if is_ours(child) {
                delete(child)
            } else {
                Step::Nothing
            }
        }
        (Some(widget), None) => Step::Create(desired(key, widget)),
        (Some(widget), Some(child)) => {
            let owner = child.metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
            if owner.is_none_or(|owner| owner.uid != widget.metadata.uid) {
                // Of an earlier widget of this name; its successor is made once it is gone. What is not ours stays.
                return if is_ours(child) { delete(child) } else { Step::Nothing };
            }
            let wanted = desired(key, widget);
            if child.data == wanted.data {
                return Step::Nothing;
            }
            let mut changed = ConfigMap::clone(child);
            changed.data = wanted.data;
            Step::Update(changed)
        }
    }
}

fn is_ours(child: &ConfigMap) -> bool {
    child.metadata.labels.get(MANAGED_BY.0).is_some_and(|value| value == MANAGED_BY.1)
}

fn delete(child: &Obj<ConfigMap>) -> Step {
    Step::Delete { uid: child.uid().to_string() }
}

/// The child that a widget should have.
pub fn desired(key: &Key, widget: &Widget) -> ConfigMap {
    let owner = informer_core::object::OwnerReference {
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        name: key.name().into(),
        uid: widget.metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    ConfigMap {
        metadata: ObjectMeta {
            name: key.name().into(),
            namespace: key.namespace().into(),
            labels: [MANAGED_BY].into(),
            owner_references: vec![owner],
            ..ObjectMeta::default()
        },
        data: BTreeMap::from([("text".to_string(), widget.spec.text.clone())]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::{Uid, Version};

    fn widget(uid: &str, text: &str) -> Widget {
        let metadata = ObjectMeta { name: "w".into(), uid: uid.into(), ..ObjectMeta::default() };
        Widget { metadata, spec: WidgetSpec { text: text.into() } }
    }

    fn child_of(widget: &Widget) -> Obj<ConfigMap> {
        let key = Key::new("ns", "w");
        Obj::new(key.clone(), Uid::new("child"), Version::new("7"), desired(&key, widget))
    }

    #[test]
    fn each_state_has_one_step() {
        let key = Key::new("ns", "w");
        let (one, changed, successor) = (widget("1", "a"), widget("1", "b"), widget("2", "a"));
        let child = child_of(&one);
        assert!(matches!(plan(&key, None, None), Step::Nothing));
        assert!(matches!(plan(&key, Some(&one), None), Step::Create(child) if child.data["text"] == "a"));
        assert!(matches!(plan(&key, Some(&one), Some(&child)), Step::Nothing));
        assert!(matches!(plan(&key, Some(&changed), Some(&child)), Step::Update(child) if child.data["text"] == "b"));
        assert!(matches!(plan(&key, Some(&successor), Some(&child)), Step::Delete { uid } if uid == "child"));
        assert!(matches!(plan(&key, None, Some(&child)), Step::Delete { uid } if uid == "child"));
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let key = Key::new("ns", "w");
        let mut foreign = desired(&key, &widget("1", "a"));
        foreign.metadata.labels.clear();
        foreign.metadata.owner_references.clear();
        let foreign = Obj::new(key.clone(), Uid::new("f"), Version::new("7"), foreign);
        assert!(matches!(plan(&key, None, Some(&foreign)), Step::Nothing));
        assert!(matches!(plan(&key, Some(&widget("1", "a")), Some(&foreign)), Step::Nothing));
    }
}
