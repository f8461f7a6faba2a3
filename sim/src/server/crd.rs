//! Custom resource definitions: creating one serves its resource, deleting one takes it and its objects away.
//!
//! ```text
//! DELETE ─► marked, with a finalizer of the server: no object may be created
//!           └► its objects are deleted (DELETED); those with finalizers hold it
//!              └► the last one is gone: the finalizer is taken away; others of the definition hold it
//!                 └► the definition is gone: its watches end once they have told so, its path answers 404
//! ```
//!
//! Only the storage version is served.

use super::delete::{DeleteOptions, Deleted};
use super::{Server, WatchEnd};
use crate::names::{NameRule, identifier_refusals};
use crate::object::{Draft, Shape, StoredObject};
use crate::status::{Cause, Named, Status};
use crate::table::Table;
use crate::text::push_string;
use informer_core::object::{Key, Resource};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;

/// Holds a definition as long as there are objects of it.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The resource of the definitions themselves; always served, and the first table.
pub(super) fn resource() -> Resource {
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
}

/// The part of a definition that this server acts on.
#[derive(Debug)]
pub(super) struct Definition {
    resource: Resource,
    status_subresource: bool,
    fields: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<VersionSpec>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Names {
    plural: String,
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct VersionSpec {
    name: String,
    served: bool,
    storage: bool,
    subresources: Option<Subresources>,
    selectable_fields: Vec<SelectableField>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Subresources {
    status: Option<serde_json::Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SelectableField {
    json_path: String,
}

impl Spec {
    /// All of these become part of a path, of a key, or of what each object says it is. That some are missing is told apart.
    fn refuse_names(&self, causes: &mut Vec<Cause>) {
        let mut refuse = |field: Cow<'static, str>, value: &str, but: &str, why: Vec<String>| {
            if !why.is_empty() {
                causes.push(Cause::invalid(field, format_args!("{value:?}"), format_args!("{but}{}", why.join(","))));
            }
        };
        let Spec { group, names: Names { plural, kind }, .. } = self;
        if !group.is_empty() {
            let mut why = NameRule::Subdomain.refusals(group);
            if why.is_empty() && !group.contains('.') {
                why.push("should be a domain with at least one dot".to_owned());
            }
            refuse("spec.group".into(), group, "", why);
        }
        if !plural.is_empty() {
            refuse("spec.names.plural".into(), plural, "", identifier_refusals(plural));
        }
        if !kind.is_empty() {
            let but = "may have mixed case, but should otherwise match: ";
            refuse("spec.names.kind".into(), kind, but, identifier_refusals(&kind.to_lowercase()));
        }
        for (at, VersionSpec { name, .. }) in self.versions.iter().enumerate() {
            refuse(format!("spec.versions[{at}].name").into(), name, "", identifier_refusals(name));
        }
    }
}

impl Definition {
    pub(super) fn read(draft: &Draft<'_>) -> Result<Self, Status> {
        let named = Named {
            group: "apiextensions.k8s.io".into(),
            kind: "CustomResourceDefinition".into(),
            name: draft.name.clone(),
        };
        let spec: Spec = serde_json::from_str(draft.get("spec").unwrap_or("{}"))
            .map_err(|error| Status::bad_request(format!("{} cannot be handled: spec: {error}", named)))?;
        let mut causes = Vec::new();
        for (value, field) in [
            (&spec.group, "spec.group"),
            (&spec.names.plural, "spec.names.plural"),
            (&spec.names.kind, "spec.names.kind"),
        ] {
            if value.is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
        if !matches!(spec.scope.as_str(), "Namespaced" | "Cluster") {
            causes.push(Cause::unsupported(
                "spec.scope",
                format_args!("{:?}", spec.scope),
                r#""Cluster", "Namespaced""#,
            ));
        }
        spec.refuse_names(&mut causes);
        let expected = format!("{}.{}", spec.names.plural, spec.group);
        if draft.name != expected {
            let why = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid("metadata.name", format_args!("{:?}", draft.name), why));
        }
        let version = spec.versions.iter().find(|version| version.storage && version.served);
        if version.is_none() {
            let why = "must have exactly one version marked as storage version, and it must be served";
            causes.push(Cause::invalid("spec.versions", "[]", why));
        }
        let (Some(version), true) = (version, causes.is_empty()) else { return Err(Status::invalid(&named, causes)) };
        let Spec { group, names, .. } = &spec;
        Ok(Definition {
            resource: Resource::dynamic(group, &version.name, &names.plural, &names.kind, spec.scope == "Namespaced"),
            status_subresource: version.subresources.as_ref().is_some_and(|sub| sub.status.is_some()),
            fields: version.selectable_fields.iter().map(|f| f.json_path.trim_start_matches('.').to_owned()).collect(),
        })
    }
}

/// What a new definition has for a status until the server has looked at it; `spec` is its own.
pub(super) fn new_status(spec: Option<&str>) -> String {
    let spec: Spec = spec.and_then(|spec| serde_json::from_str(spec).ok()).unwrap_or_default();
    let mut stored = String::new();
    if let Some(version) = spec.versions.iter().find(|version| version.storage) {
        push_string(&mut stored, &version.name);
    }
    format!(r#"{{"conditions":null,"acceptedNames":{{"plural":"","kind":""}},"storedVersions":[{stored}]}}"#)
}

impl Server {
    /// The table of the definitions.
    pub(super) fn crds(&self) -> usize {
        0
    }

    /// Serves the resource of a definition and says so in its status.
    pub(super) fn establish(&mut self, key: &Key, definition: Definition) {
        let resource = definition.resource;
        if self.table_of(&resource).is_none() {
            let mut shape = Shape::new(&resource, true);
            shape.fields = definition.fields;
            self.add_table(resource.clone(), shape, definition.status_subresource);
        }
        let since = self.now_text();
        let condition = |kind: &str, reason: &str, message: &str| {
            format!(
                r#"{{"type":"{kind}","status":"True","lastTransitionTime":"{since}","reason":"{reason}","message":"{message}"}}"#
            )
        };
        let mut names = String::new();
        for (name, value) in [("plural", &resource.plural), ("kind", &resource.kind)] {
            names.push_str(if names.is_empty() { "\"" } else { ",\"" });
            names.push_str(name);
            names.push_str("\":");
            push_string(&mut names, value);
        }
        let mut version = String::new();
        push_string(&mut version, &resource.version);
        let status = format!(
            r#"{{"conditions":[{},{}],"acceptedNames":{{{names}}},"storedVersions":[{version}]}}"#,
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        );
        let old = self.tables[self.crds()].get(key.as_str()).cloned().expect("the definition is stored");
        let mut draft = Draft::read(old.json()).expect("what is stored is JSON");
        draft.set("status", Some(&status));
        self.store(self.crds(), &draft);
    }

    /// Begins to delete a definition. Answers it as it is marked, also if it is gone by then.
    pub(super) fn delete_definition(&mut self, old: &Arc<StoredObject>) -> Deleted {
        let mut draft = Draft::read(old.json()).expect("what is stored is JSON");
        draft.deleted = self.now_text();
        draft.finalizers.retain(|name| name != CLEANUP);
        draft.finalizers.push(CLEANUP.to_owned());
        let status =
            self.terminating(&draft, "True", "InstanceDeletionPending", "CustomResourceDefinition marked for deletion");
        draft.set("status", Some(&status));
        let marked = self.store(self.crds(), &draft);
        match self.defined_by(&marked) {
            None => self.cleaned_up(&marked),
            Some(at) => {
                let objects: Vec<Arc<StoredObject>> = self.tables[at].objects().values().cloned().collect();
                for object in objects {
                    self.delete_object(at, &object, &DeleteOptions::default());
                }
                self.clean_up(at);
            }
        }
        Deleted::Waits(marked)
    }

    /// The table that a definition serves, by the names that no update changes; none if the resource was there without it.
    fn defined_by(&self, definition: &StoredObject) -> Option<usize> {
        let (plural, group) = definition.key().name().split_once('.')?;
        let is_it = |table: &Table| {
            !table.gone && table.shape.custom && table.resource.group == group && table.resource.plural == plural
        };
        self.tables.iter().position(is_it)
    }

    /// The definition of a table, if it waits until this is empty.
    fn waiting_definition(&self, at: usize) -> Option<&Arc<StoredObject>> {
        let Table { resource, shape, .. } = &self.tables[at];
        let name = || format!("{}.{}", resource.plural, resource.group);
        let definition = if shape.custom { self.tables[self.crds()].get(&name()) } else { None }?;
        let draft = Draft::read(definition.json()).ok()?;
        (draft.is_dying() && draft.finalizers.iter().any(|name| name == CLEANUP)).then_some(definition)
    }

    /// True if no object may be made in a table, because its definition is about to go.
    pub(super) fn is_terminating(&self, at: usize) -> bool {
        self.waiting_definition(at).is_some()
    }

    /// Goes on with the deletion of the definition of a table, if it waited for that.
    pub(super) fn clean_up(&mut self, at: usize) {
        if self.tables[at].objects().is_empty() {
            if let Some(definition) = self.waiting_definition(at).cloned() {
                self.cleaned_up(&definition);
            }
        }
    }

    fn cleaned_up(&mut self, definition: &Arc<StoredObject>) {
        let mut draft = Draft::read(definition.json()).expect("what is stored is JSON");
        draft.finalizers.retain(|name| name != CLEANUP);
        if draft.finalizers.is_empty() {
            self.remove(self.crds(), definition);
            return;
        }
        let status = self.terminating(&draft, "False", "InstanceDeletionCompleted", "removed all instances");
        draft.set("status", Some(&status));
        self.store(self.crds(), &draft);
    }

    /// Takes away what a definition that is gone has served.
    pub(super) fn retire(&mut self, definition: &StoredObject) {
        let Some(at) = self.defined_by(definition) else { return };
        // There are some if finalizers of the definition held it longer than the server's own did.
        let keys: Vec<Key> = self.tables[at].objects().keys().cloned().collect();
        for key in keys {
            self.commit(at, &key, None);
        }
        let table = &mut self.tables[at];
        table.gone = true;
        let resource = table.resource.clone();
        self.routes.remove(&super::route::of(&resource.group, &resource.version, &resource.plural));
        let watches: Vec<_> = self.tables[at].watches.iter().copied().collect();
        if watches.is_empty() {
            self.tables[at].clear();
        }
        for id in watches {
            self.end_watch(id, WatchEnd::Clean);
        }
    }

    /// The status of a definition with another condition `Terminating`.
    fn terminating(&self, definition: &Draft<'_>, status: &str, reason: &str, message: &str) -> String {
        let mut all: serde_json::Value =
            definition.get("status").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let condition = serde_json::json!({
            "type": "Terminating", "status": status, "lastTransitionTime": self.now_text(), "reason": reason,
            "message": message,
        });
        if let Some(fields) = all.as_object_mut() {
            let conditions = fields.entry("conditions").or_insert_with(|| serde_json::json!([]));
            if !conditions.is_array() {
                *conditions = serde_json::json!([]);
            }
            if let Some(list) = conditions.as_array_mut() {
                list.retain(|condition| condition["type"] != "Terminating");
                list.push(condition);
            }
        }
        all.to_string()
    }
}
