//! A driver for tests: virtual time, every answer collected.

use informer_core::object::Resource;
use informer_core::time::{Deadline, Duration, Time};
use informer_sim::{CallId, Config, HttpRequest, Input, Options, Output, Server};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn configmaps() -> Resource {
    Resource::namespaced("", "v1", "configmaps", "ConfigMap")
}

pub(crate) fn pods() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

pub(crate) fn widgets() -> Resource {
    Resource::namespaced("example.com", "v1", "widgets", "Widget")
}

/// An answer so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<&'static str, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) pieces: usize,
    pub(crate) ended: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Names of a list's items.
    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The metadata of a list.
    pub(crate) fn meta(&self, name: &str) -> Value {
        self.json()["metadata"][name].clone()
    }

    pub(crate) fn frames(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Frames as `TYPE name@version`.
    pub(crate) fn events(&self) -> Vec<String> {
        self.frames()
            .iter()
            .map(|frame| {
                let meta = &frame["object"]["metadata"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (kind, name, version) = (text(&frame["type"]), text(&meta["name"]), text(&meta["resourceVersion"]));
                match kind.as_str() {
                    "ERROR" => format!("ERROR {}", frame["object"]["code"]),
                    "BOOKMARK" if !meta["annotations"].is_null() => format!("BOOKMARK end@{version}"),
                    _ => format!("{kind} {name}@{version}"),
                }
            })
            .collect()
    }

    /// `code reason message` of a Status.
    pub(crate) fn refusal(&self) -> String {
        let status = self.json();
        assert_eq!(status["code"], self.status, "{status}");
        format!("{} {} {}", self.status, status["reason"].as_str().unwrap_or("-"), status["message"].as_str().unwrap())
    }
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) now: Time,
    pub(crate) answers: BTreeMap<CallId, Answer>,
    pub(crate) deadline: Option<Deadline>,
    next: u64,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        let mut server = Server::new(config);
        server.register(configmaps(), Options::default());
        server.register(pods(), Options { custom: false, status_subresource: true });
        server.register(widgets(), Options { custom: true, status_subresource: true });
        World { server, now: Time::ZERO, answers: BTreeMap::new(), deadline: None, next: 0 }
    }

    /// Objects a to e in namespace n, versions 2 to 6.
    pub(crate) fn with_five() -> Self {
        let mut world = World::new(Config::default());
        for name in ["a", "b", "c", "d", "e"] {
            world.put(name, "x");
        }
        world
    }

    pub(crate) fn put(&mut self, name: &str, label: &str) -> u64 {
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","labels":{{"l":"{label}"}}}}}}"#);
        let version = self.server.put(&configmaps(), &json).unwrap();
        self.drain();
        version
    }

    pub(crate) fn delete(&mut self, name: &str) -> u64 {
        let version = self.server.delete(&configmaps(), &format!("n/{name}").parse().unwrap()).unwrap();
        self.drain();
        version
    }

    pub(crate) fn open(&mut self, request: HttpRequest) -> CallId {
        self.next += 1;
        let id = CallId(self.next);
        self.answers.insert(id, Answer::default());
        self.input(Input::Request { id, request });
        id
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.server.handle(self.now, input);
        self.drain();
    }

    /// Lets time pass, one deadline after the other.
    pub(crate) fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(deadline) = self.deadline.filter(|deadline| deadline.at <= until) {
            assert!(deadline.at > self.now, "a deadline is later than now");
            self.now = deadline.at;
            self.input(Input::Tick);
        }
        self.now = until;
        self.input(Input::Tick);
    }

    pub(crate) fn drain(&mut self) {
        self.deadline = loop {
            match self.server.poll_output() {
                Output::Head { id, status, headers } => {
                    let answer = self.answers.get_mut(&id).expect("a head belongs to a request");
                    assert_eq!(answer.status, 0, "one head for each answer");
                    answer.status = status;
                    answer.headers = headers.into_iter().collect();
                }
                Output::Body { id, bytes } => {
                    let answer = self.answers.get_mut(&id).expect("a body belongs to a request");
                    assert!(answer.status != 0 && !answer.ended, "a body stands between head and end");
                    answer.body.extend_from_slice(&bytes);
                    answer.pieces += 1;
                }
                Output::End { id } => {
                    let answer = self.answers.get_mut(&id).expect("an end belongs to a request");
                    assert!(!answer.ended, "one end for each answer");
                    answer.ended = true;
                }
                Output::Wait(deadline) => break deadline,
                other => panic!("unknown output {other:?}"),
            }
        };
    }

    pub(crate) fn answer(&self, id: CallId) -> &Answer {
        &self.answers[&id]
    }

    /// A request that is answered at once.
    pub(crate) fn ask(&mut self, request: HttpRequest) -> Answer {
        let id = self.open(request);
        let answer = self.answers.remove(&id).unwrap();
        assert!(answer.ended, "not answered at once: {answer:?}");
        answer
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask(HttpRequest::get(target))
    }

    pub(crate) fn send(&mut self, method: &str, target: &str, body: &str) -> Answer {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.ask(HttpRequest::new(method, target).header("content-type", media).body(body))
    }

    pub(crate) fn watch(&mut self, query: &str) -> CallId {
        self.open(HttpRequest::get(&format!("{CM}?watch=1&{query}")))
    }
}

/// The collection that [`World::put`] fills.
pub(crate) const CM: &str = "/api/v1/namespaces/n/configmaps";

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
