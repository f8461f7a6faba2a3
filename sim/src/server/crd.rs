//! Custom resource definitions: creating one serves its resource, deleting one takes it and its objects away.
//!
//! Only the storage version is served.

use super::{Server, WatchEnd};
use crate::object::{Draft, Shape, StoredObject};
use crate::status::{Cause, Named, Status};
use crate::text::push_string;
use informer_core::object::{Key, Resource};
use serde::Deserialize;
use std::sync::Arc;

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
            causes.push(Cause::unsupported("spec.scope", &spec.scope, r#""Cluster", "Namespaced""#));
        }
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
        let status = format!(
            r#"{{"conditions":[{},{}],"acceptedNames":{{{names}}},"storedVersions":["{}"]}}"#,
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            resource.version,
        );
        self.rewrite_definition(key, Some(&status), None);
    }

    /// Deletes a definition: it is marked, its objects go (DELETED events), its watches end once they have told so, its
    /// path answers 404, and then it goes itself. Answers the marked one.
    pub(super) fn remove_definition(&mut self, old: &Arc<StoredObject>) -> Arc<StoredObject> {
        let key = old.key().clone();
        let mut since = String::new();
        push_string(&mut since, &self.now_text());
        let dying = self.rewrite_definition(&key, None, Some(&since));
        let definition = Draft::read(old.json()).ok().and_then(|draft| Definition::read(&draft).ok());
        if let Some(at) = definition.and_then(|definition| self.table_of(&definition.resource)) {
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
        self.commit(self.crds(), &key, None);
        dying
    }

    fn rewrite_definition(&mut self, key: &Key, status: Option<&str>, deleted: Option<&str>) -> Arc<StoredObject> {
        let at = self.crds();
        let old = self.tables[at].get(key.as_str()).cloned().expect("the definition is stored");
        let mut draft = Draft::read(old.json()).expect("what is stored is JSON");
        if status.is_some() {
            draft.set("status", status);
        }
        if deleted.is_some() {
            draft.set_meta("deletionTimestamp", deleted);
        }
        let object = draft.finish(&self.tables[at].shape, self.version + 1);
        self.commit(at, key, Some(object)).expect("an object was written")
    }
}
