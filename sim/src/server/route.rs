//! What a request is about: the resource, namespace, name and verb behind a method and a path.

use super::{Answer, MAX_BODY, Server};
use crate::message::HttpRequest;
use crate::query::ListOptions;
use crate::status::Status;
use crate::table::Table;
use informer_core::wire::{percent_decode, query_pairs};

/// The key of [`Server::routes`].
pub(super) fn of(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}/{plural}")
}

/// A path, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    pub(super) table: usize,
    /// Empty for all namespaces, or none.
    pub(super) namespace: String,
    /// Empty for a collection.
    pub(super) name: String,
    pub(super) status: bool,
    /// `/watch/` stood in the path, an older way to ask for one.
    pub(super) watch: bool,
}

/// The path leads nowhere.
enum Lost {
    /// In a built-in group that is served, in whatever version: JSON.
    Resource,
    /// Anywhere else: plain text, as also for a custom resource that is gone (W15).
    Page,
}

impl Server {
    pub(super) fn route(&mut self, request: &HttpRequest) -> Result<Answer, Status> {
        if let Some(token) = &self.config.token {
            let given = request.value("authorization").and_then(|value| value.strip_prefix("Bearer "));
            if given.map(str::trim) != Some(token.as_str()) {
                return Err(Status::unauthorized());
            }
        }
        if request.body.len() > MAX_BODY {
            let text = format!("Request entity too large: limit is {MAX_BODY}");
            return Err(Status::new(413, "RequestEntityTooLarge", text));
        }
        match request.path.as_str() {
            "/healthz" | "/livez" | "/readyz" => return Ok(Answer::Text { status: 200, text: "ok" }),
            "/version" => {
                let text = r#"{"major":"1","minor":"36","gitVersion":"v1.36.1"}"#.into();
                return Ok(Answer::Json { status: 200, text });
            }
            _ => {}
        }
        let target = match self.target(&request.path) {
            Ok(target) => target,
            Err(Lost::Resource) => return Err(Status::not_found()),
            Err(Lost::Page) => return Ok(Answer::Text { status: 404, text: "404 page not found\n" }),
        };
        if !accepts_json(request) {
            let text = "only the following media types are accepted: application/json, application/json;stream=watch";
            return Err(Status::new(406, "NotAcceptable", text));
        }
        if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH")
            && query_pairs(&request.query).any(|(name, value)| name == "dryRun" && !value.is_empty())
        {
            return Err(super::delete::no_dry_run("written"));
        }
        let everywhere = self.tables[target.table].resource.namespaced && target.namespace.is_empty();
        match (request.method.as_str(), target.name.is_empty(), target.status) {
            ("GET", true, _) => {
                let mut options = ListOptions::parse(&request.query)?;
                options.watch |= target.watch;
                if options.watch { self.watch(&target, options) } else { self.list_page(&target, options) }
            }
            ("POST", true, _) if !everywhere => self.create(&target, request),
            ("DELETE", true, _) if !everywhere => self.delete_collection(&target, request),
            ("GET", false, _) => self.get_one(&target, request),
            ("PUT", false, _) => self.update(&target, request),
            ("PATCH", false, _) => self.patch(&target, request),
            ("DELETE", false, false) => self.delete_one(&target, request),
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn target(&self, path: &str) -> Result<Target, Lost> {
        let parts: Vec<String> = path.split('/').skip(1).map(percent_decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !group.is_empty() => (*group, *version, rest),
            _ => return Err(Lost::Page),
        };
        let mut target = Target::default();
        if let ["watch", after @ ..] = rest {
            target.watch = true;
            rest = after;
        }
        let mut in_namespace = false;
        match rest {
            // A namespace has subresources of its own.
            ["namespaces", _, "status" | "finalize"] => {}
            ["namespaces", namespace, after @ ..] if !after.is_empty() => {
                in_namespace = true;
                target.namespace = (*namespace).into();
                rest = after;
            }
            _ => {}
        }
        let [plural, rest @ ..] = rest else { return Err(Lost::Page) };
        let Some(&table) = self.routes.get(&of(group, version, plural)) else {
            let served = |table: &Table| !table.gone && !table.shape.custom && table.resource.group == group;
            return Err(if self.tables.iter().any(served) { Lost::Resource } else { Lost::Page });
        };
        target.table = table;
        let table = &self.tables[table];
        match rest {
            [] | [""] => {}
            [name] => target.name = (*name).into(),
            [name, "status"] if table.status_subresource => {
                target.name = (*name).into();
                target.status = true;
            }
            _ => return Err(Lost::Resource),
        }
        let needs_namespace = table.resource.namespaced && !target.name.is_empty();
        if (in_namespace && !table.resource.namespaced)
            || (needs_namespace && target.namespace.is_empty())
            || (target.watch && !target.name.is_empty())
        {
            return Err(Lost::Resource);
        }
        Ok(target)
    }
}

/// True if plain JSON is among what the client takes; tables and partial metadata are other representations.
fn accepts_json(request: &HttpRequest) -> bool {
    request.value("accept").is_none_or(|value| {
        value.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            matches!(parts.next(), Some("" | "*/*" | "application/*" | "application/json"))
                && parts.all(|parameter| !parameter.starts_with("as=") && parameter != "q=0")
        })
    })
}
