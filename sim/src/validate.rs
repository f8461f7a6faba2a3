//! [`Rules`]: what the metadata of an object may hold, as the real server checks it on each write.
//!
//! ```text
//! create   whole
//! update   whole, changed, then once more what the type itself checks: changed, and whole for some built-in types
//! ```
//!
//! So one fault of an update is told several times, and the number is part of the answer. What stands in specs is checked for
//! no type.

use crate::names::{NameRule, key_refusals, value_refusals};
use crate::object::Draft;
use crate::status::Cause;
use crate::text::push_strings;
use informer_core::object::Resource;
use serde::Deserialize;

/// The most that keys and values of all annotations of an object may have together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Finalizers of Kubernetes itself. The first two are those of its garbage collector.
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
const OF_NAMESPACES: &str = "kubernetes";

/// Which of the rules count for a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    name: NameRule,
    /// The type looks at the whole of its metadata, also when it is updated.
    own_check: bool,
    /// An update must say which version it is of.
    pub(crate) needs_version: bool,
    /// A finalizer has a prefix, or is one of Kubernetes itself.
    qualified_finalizers: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

impl Rules {
    pub(crate) fn of(resource: &Resource, custom: bool) -> Self {
        let group = &*resource.group;
        let name = match (group, &*resource.plural) {
            ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
            ("", "namespaces" | "services") => NameRule::Label,
            _ => NameRule::Subdomain,
        };
        // These use the checks that all share, where others have those of the core group.
        let shared =
            custom || matches!(group, "coordination.k8s.io" | "rbac.authorization.k8s.io" | "apiextensions.k8s.io");
        let own_check = match (group, &*resource.plural) {
            ("", plural) => !matches!(plural, "services" | "replicationcontrollers" | "events"),
            ("batch", "jobs") | ("networking.k8s.io", "ingresses") => true,
            _ => false,
        };
        let needs_version = custom || matches!(group, "coordination.k8s.io" | "apiextensions.k8s.io");
        Rules { name, own_check, needs_version, qualified_finalizers: !shared }
    }

    /// What is wrong with a new object.
    pub(crate) fn of_new(&self, draft: &Draft<'_>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if !draft.generate_name.is_empty() {
            for why in self.name.refusals_of_prefix(&draft.generate_name) {
                causes.push(Cause::invalid("metadata.generateName", quoted(&draft.generate_name), why));
            }
        }
        if draft.name.is_empty() {
            causes.push(Cause::required("metadata.name", "name or generateName is required"));
        }
        let refusals = if draft.name.is_empty() { Vec::new() } else { self.name.refusals(&draft.name) };
        causes.extend(refusals.into_iter().map(|why| Cause::invalid("metadata.name", quoted(&draft.name), why)));
        // Of what has none it is empty.
        let refusals = if draft.namespace.is_empty() { Vec::new() } else { NameRule::Label.refusals(&draft.namespace) };
        causes.extend(
            refusals.into_iter().map(|why| Cause::invalid("metadata.namespace", quoted(&draft.namespace), why)),
        );
        self.whole(draft, None, &mut causes);
        self.finalizers_are_qualified(draft, &mut causes);
        causes
    }

    /// What is wrong with an update; `status` says that it is one of the status alone.
    pub(crate) fn of_update(&self, draft: &Draft<'_>, before: &Draft<'_>, status: bool) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.whole(draft, Some(before), &mut causes);
        self.changed(draft, before, &mut causes);
        // Once more by the type.
        self.changed(draft, before, &mut causes);
        self.finalizers_are_qualified(draft, &mut causes);
        if self.own_check && !status {
            self.whole(draft, Some(before), &mut causes);
            self.finalizers_are_qualified(draft, &mut causes);
        }
        causes
    }

    /// What is checked of any state.
    fn whole(&self, draft: &Draft<'_>, before: Option<&Draft<'_>>, causes: &mut Vec<Cause>) {
        labels_and_owners(draft, before, causes);
        for name in &draft.finalizers {
            causes.extend(
                key_refusals(name).into_iter().map(|why| Cause::invalid("metadata.finalizers", quoted(name), why)),
            );
        }
        let has = |wanted: &str| draft.finalizers.iter().any(|name| name == wanted);
        if has(ORPHAN) && has(FOREGROUND) {
            let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
            causes.push(Cause::invalid("metadata.finalizers", array(&draft.finalizers), why));
        }
    }

    /// What is checked of the change, and, once more, of what it leads to.
    fn changed(&self, draft: &Draft<'_>, before: &Draft<'_>, causes: &mut Vec<Cause>) {
        const IMMUTABLE: &str = "field is immutable";
        if before.is_dying() {
            let mut more: Vec<&str> =
                draft.finalizers.iter().filter(|name| !before.finalizers.contains(name)).map(|name| &**name).collect();
            more.sort_unstable();
            more.dedup();
            if !more.is_empty() {
                let list: Vec<String> = more.iter().map(|name| quoted(name)).collect();
                causes.push(Cause::forbidden(
                    "metadata.finalizers",
                    format_args!(
                        "no new finalizers can be added if the object is being deleted, found new finalizers \
                         []string{{{}}}",
                        list.join(", ")
                    ),
                ));
            }
        }
        if draft.uid != before.uid {
            causes.push(Cause::invalid("metadata.uid", quoted(&draft.uid), IMMUTABLE));
        }
        if draft.deleted != before.deleted {
            causes.push(Cause::invalid("metadata.deletionTimestamp", quoted(&draft.deleted), IMMUTABLE));
        }
        if let Some(grace) = draft.grace.filter(|_| draft.grace != before.grace) {
            causes.push(Cause::invalid("metadata.deletionGracePeriodSeconds", grace, IMMUTABLE));
        }
        labels_and_owners(draft, Some(before), causes);
    }

    fn finalizers_are_qualified(&self, draft: &Draft<'_>, causes: &mut Vec<Cause>) {
        if !self.qualified_finalizers {
            return;
        }
        for (at, name) in draft.finalizers.iter().enumerate() {
            if !name.contains('/') && !matches!(&**name, ORPHAN | FOREGROUND | OF_NAMESPACES) {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                causes.push(Cause::invalid(format!("metadata.finalizers[{at}]"), quoted(name), why));
            }
        }
    }
}

/// What stands as it stood was found good before.
fn labels_and_owners(draft: &Draft<'_>, before: Option<&Draft<'_>>, causes: &mut Vec<Cause>) {
    let is_news = |name: &str| before.is_none_or(|before| before.meta(name) != draft.meta(name));
    if is_news("labels") {
        for (key, value) in draft.pairs("labels") {
            let wrong = key_refusals(&key).into_iter().map(|why| (&key, why));
            let wrong = wrong.chain(value_refusals(&value).into_iter().map(|why| (&value, why)));
            causes.extend(wrong.map(|(text, why)| Cause::invalid("metadata.labels", quoted(text), why)));
        }
    }
    if is_news("annotations") {
        let mut bytes = 0;
        for (key, value) in draft.pairs("annotations") {
            bytes += key.len() + value.len();
            // The rule of labels, but letters may be large.
            let wrong = key_refusals(&key.to_lowercase()).into_iter();
            causes.extend(wrong.map(|why| Cause::invalid("metadata.annotations", quoted(&key), why)));
        }
        if bytes > ANNOTATIONS_MAX {
            causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_MAX));
        }
    }
    if let Some(text) = draft.meta("ownerReferences").filter(|_| is_news("ownerReferences")) {
        owners(text, causes);
    }
}

/// References that name nobody keep their object for ever, or have it collected at once.
fn owners(text: &str, causes: &mut Vec<Cause>) {
    let all: Vec<OwnerReference> = serde_json::from_str(text).unwrap_or_default();
    let mut controller: Option<String> = None;
    for one in &all {
        let version = match one.api_version.split('/').collect::<Vec<_>>()[..] {
            [version] | [_, version] => version,
            _ => "",
        };
        for (field, value, empty, why) in [
            ("apiVersion", &one.api_version, version.is_empty(), "version must not be empty"),
            ("kind", &one.kind, one.kind.is_empty(), "must not be empty"),
            ("name", &one.name, one.name.is_empty(), "must not be empty"),
            ("uid", &one.uid, one.uid.is_empty(), "must not be empty"),
        ] {
            if empty {
                causes.push(Cause::invalid(format!("metadata.ownerReferences.{field}"), quoted(value), why));
            }
        }
        if one.controller == Some(true) {
            let this = format!("{}/{}", one.kind, one.name);
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                         {this}"
                    );
                    causes.push(Cause::invalid("metadata.ownerReferences", text, why));
                }
            }
        }
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn array(texts: &[String]) -> String {
    let mut out = String::new();
    push_strings(&mut out, texts);
    out
}
