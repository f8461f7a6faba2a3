//! Writing: create, update and patch, over HTTP with all checks, and directly for tests and tools.

use super::route::Target;
use super::{Answer, Server, crd};
use crate::message::HttpRequest;
use crate::object::{Draft, StoredObject, dense};
use crate::query::version_of_object;
use crate::status::{Cause, Named, Status};
use crate::text::{members, merge};
use crate::validate::Rules;
use informer_core::object::{Key, Resource};
use std::borrow::Cow;
use std::sync::Arc;

/// Tries to find a generated name that is free, as many as the real server's.
const NAME_TRIES: usize = 8;

/// What is kept of the beginning that is given for a generated name, so that the whole has 63 bytes at most.
const GENERATED_FROM: usize = 58;

/// How an object is to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replace {
    /// A uid that the new text names must be that of the old one.
    ByPut,
    ByPatch,
}

impl Server {
    // ---- Over HTTP ----

    pub(super) fn find(&self, target: &Target) -> Result<Arc<StoredObject>, Status> {
        let key = Key::new(&target.namespace, &target.name);
        let object = self.tables[target.table].get(key.as_str()).cloned();
        object.ok_or_else(|| Status::missing(&self.by_plural(target)))
    }

    /// The object as "not found" and "modified" name it.
    pub(super) fn by_plural(&self, target: &Target) -> Named {
        let resource = &self.tables[target.table].resource;
        Named { group: resource.group.to_string(), kind: resource.plural.to_string(), name: target.name.clone() }
    }

    /// The object as validation and preconditions name it.
    pub(super) fn by_kind(&self, target: &Target) -> Named {
        let resource = &self.tables[target.table].resource;
        Named { group: resource.group.to_string(), kind: resource.kind.to_string(), name: target.name.clone() }
    }

    /// Reads an object out of a body and checks that it is one of the target's.
    fn read_draft<'a>(&self, target: &Target, text: &'a str) -> Result<Draft<'a>, Status> {
        let mut draft = self.read_typed(target, text)?;
        if !draft.namespace.is_empty() && draft.namespace != target.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        draft.namespace.clone_from(&target.namespace);
        Ok(draft)
    }

    /// Reads an object of the target's type, wherever it belongs.
    fn read_typed<'a>(&self, target: &Target, text: &'a str) -> Result<Draft<'a>, Status> {
        let shape = &self.tables[target.table].shape;
        let kind = &shape.kind;
        let draft = Draft::read(text).map_err(|error| {
            if error.is_syntax() || error.is_eof() {
                return self.unrecognized(target, &error);
            }
            let version = &shape.api_version;
            Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
        })?;
        if draft.kind.is_empty() && shape.custom {
            let text =
                format!("the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing");
            return Err(Status::bad_request(text));
        }
        let differs = |have: &str, want: &str| !have.is_empty() && have != want;
        if differs(&draft.kind, kind) || differs(&draft.api_version, &shape.api_version) {
            return Err(Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {kind}: expected {kind} in version {:?}",
                draft.kind, draft.api_version, shape.api_version
            )));
        }
        Ok(draft)
    }

    fn unrecognized(&self, target: &Target, error: &dyn std::fmt::Display) -> Status {
        let kind = &self.tables[target.table].shape.kind;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: \
             {error}"
        ))
    }

    fn body_text<'a>(&self, target: &Target, body: &'a [u8]) -> Result<Cow<'a, str>, Status> {
        dense(body).map_err(|error| self.unrecognized(target, &error))
    }

    pub(super) fn create(&mut self, target: &Target, request: &HttpRequest) -> Result<Answer, Status> {
        let text = self.body_text(target, &request.body)?;
        let mut draft = self.read_draft(target, &text)?;
        if !draft.version.is_empty() {
            return Err(Status::internal("resourceVersion should not be set on objects to be created"));
        }
        draft.uid.clear();
        draft.created.clear();
        draft.deleted.clear();
        draft.grace = None;
        let table = &self.tables[target.table];
        if table.shape.generations {
            draft.generation = None;
        }
        let definition = (target.table == self.crds()).then(|| crd::new_status(draft.get("spec")));
        if table.status_subresource {
            let pod = table.resource.group.is_empty() && table.resource.plural == "pods";
            draft.set("status", if pod { Some(r#"{"phase":"Pending"}"#) } else { definition.as_deref() });
        }
        let object = self.insert(target, draft)?;
        Ok(Answer::Json { status: 201, text: object.json().to_owned() })
    }

    /// Names, checks and stores a new object.
    fn insert(&mut self, target: &Target, mut draft: Draft<'_>) -> Result<Arc<StoredObject>, Status> {
        if draft.name.is_empty() && !draft.generate_name.is_empty() {
            self.generate_name(target, &mut draft);
        }
        let target = &Target { name: draft.name.clone(), ..target.clone() };
        let causes = self.rules(target).of_new(&draft);
        if !causes.is_empty() {
            return Err(Status::invalid(&self.by_kind(target), causes));
        }
        let key = Key::new(&draft.namespace, &draft.name);
        if let Some(old) = self.tables[target.table].get(key.as_str()) {
            let dying = Draft::read(old.json()).is_ok_and(|old| old.is_dying());
            return Err(Status::exists(&self.by_plural(target), dying));
        }
        if self.is_terminating(target.table) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&self.by_plural(target), why));
        }
        let definition = if target.table == self.crds() { Some(crd::Definition::read(&draft)?) } else { None };
        if draft.uid.is_empty() {
            draft.uid = self.new_uid();
        }
        if draft.created.is_empty() {
            draft.created = self.now_text();
        }
        let shape = &self.tables[target.table].shape;
        if shape.generations && draft.generation.is_none() && (shape.custom || draft.get("spec").is_some()) {
            draft.generation = Some(1);
        }
        let object = self.store(target.table, &draft);
        if let Some(definition) = definition {
            self.establish(&key, definition);
        }
        Ok(object)
    }

    fn generate_name(&mut self, target: &Target, draft: &mut Draft<'_>) {
        // Letters and digits of the real server: no vowels, so that no words come about.
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut kept = draft.generate_name.len().min(GENERATED_FROM);
        while !draft.generate_name.is_char_boundary(kept) {
            kept -= 1;
        }
        for _ in 0..NAME_TRIES {
            draft.name = draft.generate_name[..kept].to_owned();
            for _ in 0..5 {
                draft.name.push(char::from(LETTERS[self.rng.below(LETTERS.len() as u64) as usize]));
            }
            if self.tables[target.table].get(Key::new(&draft.namespace, &draft.name).as_str()).is_none() {
                return;
            }
        }
    }

    fn new_uid(&mut self) -> String {
        // Version 4, variant 1.
        let (high, low) = (self.rng.next() & !0xf000 | 0x4000, self.rng.next() & !(3 << 62) | 1 << 63);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    pub(super) fn update(&mut self, target: &Target, request: &HttpRequest) -> Result<Answer, Status> {
        let text = self.body_text(target, &request.body)?;
        self.replace(target, &text, Replace::ByPut)
    }

    pub(super) fn patch(&mut self, target: &Target, request: &HttpRequest) -> Result<Answer, Status> {
        let media = request.value("content-type").map_or("", |value| value.split(';').next().unwrap_or("").trim());
        if media != "application/merge-patch+json" {
            return Err(Status::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/merge-patch+json",
            ));
        }
        let broken = |error: &dyn std::fmt::Display| Status::bad_request(format!("error decoding patch: {error}"));
        let patch = dense(&request.body).map_err(|error| broken(&error))?;
        members(&patch).map_err(|error| broken(&error))?;
        let old = self.find(target)?;
        let text = merge(old.json(), &patch).map_err(|error| Status::bad_request(error.to_string()))?;
        self.replace(target, &text, Replace::ByPatch)
    }

    /// Puts another text in the place of an object.
    fn replace(&mut self, target: &Target, text: &str, how: Replace) -> Result<Answer, Status> {
        let mut draft = self.read_draft(target, text)?;
        let name = &target.name;
        if draft.name.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        if draft.name != *name {
            return Err(Status::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({name})",
                draft.name
            )));
        }
        let old = self.find(target)?;
        let table = &self.tables[target.table];
        let named = self.by_plural(target);
        if how == Replace::ByPut && !draft.uid.is_empty() && draft.uid != old.uid() {
            let why =
                format!("Precondition failed: UID in precondition: {}, UID in object meta: {}", draft.uid, old.uid());
            return Err(Status::conflict(&named, why));
        }
        match version_of_object(&draft.version).map_err(Status::internal)? {
            None | Some(0) if self.rules(target).needs_version => {
                let cause = Cause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
                return Err(Status::invalid(&named, vec![cause]));
            }
            Some(version) if version != 0 && version != old.version() => return Err(Status::modified(&named)),
            None | Some(_) => {}
        }
        let before = Draft::read(old.json()).expect("what is stored is JSON");
        if target.status {
            self.keep_but_status(target, &mut draft, &before);
        } else if table.status_subresource {
            draft.set("status", before.get("status"));
        }
        if before.is_dying() {
            draft.deleted.clone_from(&before.deleted);
        }
        draft.grace = draft.grace.or(before.grace);
        let object = self.overwrite(target, draft, &before, &old)?;
        Ok(Answer::Json { status: 200, text: object.json().to_owned() })
    }

    /// What a write of the status may not change is as before: all else of custom resources, the spec of others, whose
    /// metadata is open on this path too.
    fn keep_but_status<'a>(&self, target: &Target, draft: &mut Draft<'a>, before: &Draft<'a>) {
        let table = &self.tables[target.table];
        let asked = std::mem::replace(draft, before.clone());
        draft.set("status", asked.get("status"));
        if table.shape.custom {
            return;
        }
        draft.set_all_meta(&asked);
        draft.uid = asked.uid;
        (draft.deleted, draft.grace) = (asked.deleted, asked.grace);
        match (&*table.resource.group, &*table.resource.plural) {
            ("", "pods") => {
                draft.set_meta("ownerReferences", before.meta("ownerReferences"));
                draft.deleted.clear();
            }
            ("apps", "deployments") => draft.set_meta("labels", before.meta("labels")),
            _ => {}
        }
    }

    fn rules(&self, target: &Target) -> Rules {
        let table = &self.tables[target.table];
        Rules::of(&table.resource, table.shape.custom)
    }

    /// Stores a new version of an object, unless nothing changed, or takes it away if it only waited for its finalizers and
    /// has none any more. Answers what was stored, or what would have been.
    fn overwrite<'a>(
        &mut self,
        target: &Target,
        mut draft: Draft<'a>,
        before: &Draft<'a>,
        old: &Arc<StoredObject>,
    ) -> Result<Arc<StoredObject>, Status> {
        if draft.uid.is_empty() {
            draft.uid = old.uid().into();
        }
        let causes = self.rules(target).of_update(&draft, before, target.status);
        if !causes.is_empty() {
            return Err(Status::invalid(&self.by_kind(target), causes));
        }
        if target.table == self.crds() {
            crd::Definition::read(&draft)?;
        }
        let shape = &self.tables[target.table].shape;
        draft.created.clone_from(&before.created);
        if draft.generate_name.is_empty() {
            draft.generate_name.clone_from(&before.generate_name);
        }
        if shape.generations || draft.generation.is_none() {
            let counts = shape.generations && !draft.same_spec(before);
            draft.generation = before.generation.map(|generation| generation.saturating_add(counts.into()));
        }
        if before.is_dying() && before.grace.unwrap_or(0) == 0 && draft.finalizers.is_empty() {
            let answer = Arc::new(draft.finish(shape, old.version()));
            self.remove(target.table, old);
            return Ok(answer);
        }
        if draft.same_object(before) {
            return Ok(Arc::clone(old));
        }
        Ok(self.store(target.table, &draft))
    }

    // ---- For tests and tools ----

    /// Writes an object as it is, status included: creates it, or takes the place of the one with its name. A `uid` and
    /// `creationTimestamp` that it brings are kept when it is created. Answers its version, which is the old one if
    /// nothing changed. What it says of its deletion is kept when it is created, too; later only [`delete`](Server::delete)
    /// marks it, and once its last finalizer is taken away it goes: then the version is that of its deletion.
    ///
    /// # Errors
    ///
    /// 404 if the resource is not served, 400 if the text is no such object, 422 if its metadata is not what the server
    /// takes (a name, a namespace where there is one, labels and so on), 409 if an object with its name and another uid
    /// exists.
    pub fn put(&mut self, resource: &Resource, json: &str) -> Result<u64, Status> {
        let table = self.table_of(resource).ok_or_else(|| Status::unregistered(resource))?;
        let mut target = Target { table, ..Target::default() };
        let text = self.body_text(&target, json.as_bytes())?;
        let mut draft = self.read_typed(&target, &text)?;
        target.namespace.clone_from(&draft.namespace);
        if self.tables[table].resource.namespaced == target.namespace.is_empty() {
            target.name = draft.name;
            let cause = if target.namespace.is_empty() {
                Cause::required("metadata.namespace", "")
            } else {
                Cause::forbidden("metadata.namespace", "not allowed on this type")
            };
            return Err(Status::invalid(&self.by_kind(&target), vec![cause]));
        }
        target.name.clone_from(&draft.name);
        draft.version.clear();
        let key = Key::new(&target.namespace, &target.name);
        let old = self.tables[table].get(key.as_str()).cloned();
        let object = match old {
            None => self.insert(&target, draft)?,
            Some(old) if !draft.uid.is_empty() && draft.uid != old.uid() => {
                let why = format!("it has uid {}, not {}; delete it first", old.uid(), draft.uid);
                return Err(Status::conflict(&self.by_plural(&target), why));
            }
            Some(old) => {
                let before = Draft::read(old.json()).expect("what is stored is JSON");
                draft.deleted.clone_from(&before.deleted);
                draft.grace = before.grace;
                self.overwrite(&target, draft, &before, &old)?
            }
        };
        self.settle();
        let is_there = self.tables[table].get(key.as_str()).is_some();
        Ok(if is_there { object.version() } else { self.version })
    }
}
