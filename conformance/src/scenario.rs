//! The scenario file: one script of an API server, one informer, and what must be seen.
//!
//! Reading a file checks everything that can be checked without running it, so a runner never meets a bad one: a
//! fault names its place (`server[2].reply.boddy: unknown field`). Defaults are filled in here and nowhere else. All
//! times are milliseconds from the start of the informer.
//!
//! ```
//! use informer_conformance::scenario::{Reply, Scenario};
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "never-answers", "seed": 1, "runForMs": 1000,
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
//!     "server": [{"when": {"verb": "list"}, "reply": {"hang": true}}]
//! }"#).unwrap();
//! assert_eq!(scenario.handlers[0].name, "h");
//! assert_eq!(scenario.informer.page_size, 500);
//! assert!(matches!(scenario.server[0].reply, Reply::Hang));
//! ```

use crate::expect::Expect;
use crate::form::{self, FormError, positive, positive_present, present};
use crate::queue::QueueScenario;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// What a scenario file scripts: an informer, or (with `"kind": "queue"`) a work queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScenarioFile {
    /// An API server and one informer.
    Informer(Box<Scenario>),
    /// A work queue and its workers.
    Queue(Box<QueueScenario>),
}

impl ScenarioFile {
    /// Reads `file`; its name must be the scenario's name with `.json`.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON, or breaks a rule of the format.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self, FormError> {
        let file = file.as_ref();
        let scenario = Self::from_str(&form::read(file)?).map_err(|error| error.in_file(file))?;
        same_name(file, scenario.name())?;
        Ok(scenario)
    }

    /// Reads a scenario of either kind.
    ///
    /// # Errors
    /// `text` is not JSON or breaks a rule of the format.
    #[allow(clippy::should_implement_trait)] // the error of a `FromStr` would be the same; this reads better beside `from_file`
    pub fn from_str(text: &str) -> Result<Self, FormError> {
        // The rest of the file is read by the type that this one field chooses.
        #[derive(Deserialize)]
        struct Peek {
            #[serde(default)]
            kind: Option<serde_json::Value>,
        }
        match form::parse::<Peek>(text)?.kind {
            Some(kind) if kind == "queue" => {
                QueueScenario::from_str(text).map(|scenario| ScenarioFile::Queue(Box::new(scenario)))
            }
            Some(kind) => Err(FormError::at("kind", format!("is {kind}, but only \"queue\" exists; leave it out"))),
            None => Scenario::from_str(text).map(|scenario| ScenarioFile::Informer(Box::new(scenario))),
        }
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        match self {
            ScenarioFile::Informer(scenario) => &scenario.name,
            ScenarioFile::Queue(scenario) => &scenario.name,
        }
    }
}

fn same_name(file: &Path, name: &str) -> Result<(), FormError> {
    if file.file_name().and_then(|last| last.to_str()) == Some(&format!("{name}.json")) {
        return Ok(());
    }
    Err(FormError::at("name", format!("{name:?} differs from the file's name; call the file {name}.json"))
        .in_file(file))
}

/// A script of one informer and the server it talks to.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Scenario {
    /// Its name, which is also the name of its file.
    pub name: String,
    /// Which rule it shows.
    #[serde(default)]
    pub about: String,
    /// What the informer watches.
    pub resource: ResourceSpec,
    /// The seed of every random choice.
    pub seed: u64,
    /// When the outcome is taken, in ms; at least 1.
    #[serde(deserialize_with = "positive")]
    pub run_for_ms: u64,
    /// How the informer is set up.
    #[serde(default)]
    pub informer: InformerSpec,
    /// Its handlers; without the field there is one, called `h`.
    #[serde(default = "one_handler")]
    pub handlers: Vec<HandlerSpec>,
    /// What the user does while it runs.
    #[serde(default)]
    pub commands: Vec<Command>,
    /// What the server answers, first match first.
    pub server: Vec<ServerEntry>,
    /// What must be seen.
    #[serde(default)]
    pub expect: Expect,
}

impl Scenario {
    /// Reads `file`; its name must be the scenario's name with `.json`.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON, scripts a queue, or breaks a rule of the format.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self, FormError> {
        let file = file.as_ref();
        let scenario = Self::from_str(&form::read(file)?).map_err(|error| error.in_file(file))?;
        same_name(file, &scenario.name)?;
        Ok(scenario)
    }

    /// Reads a scenario of an informer.
    ///
    /// # Errors
    /// `text` is not JSON or breaks a rule of the format.
    #[allow(clippy::should_implement_trait)] // as for ScenarioFile::from_str
    pub fn from_str(text: &str) -> Result<Self, FormError> {
        let scenario: Scenario = form::parse(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The rules that span several fields; those of one field are checked where it is read.
    fn check(&self) -> Result<(), FormError> {
        for (n, handler) in self.handlers.iter().enumerate() {
            if self.handlers[..n].iter().any(|other| other.name == handler.name) {
                return Err(FormError::at(format!("handlers[{n}].name"), format!("{:?} twice", handler.name)));
            }
        }
        for name in self.expect.handlers.keys() {
            if self.handler(name).is_none() {
                return Err(FormError::at(format!("expect.handlers.{name}"), "no such handler"));
            }
        }
        if self.expect.stopped_within_ms.is_some() && self.stop_at_ms().is_none() {
            return Err(FormError::at("expect.stoppedWithinMs", "the scenario has no stop command"));
        }
        Ok(())
    }

    /// The handler called `name`.
    pub fn handler(&self, name: &str) -> Option<&HandlerSpec> {
        self.handlers.iter().find(|handler| handler.name == name)
    }

    /// The resync period of `handler` in ms, 0 = never: its own, or else the informer's.
    pub fn resync_ms(&self, handler: &HandlerSpec) -> u64 {
        handler.resync_ms.unwrap_or(self.informer.resync_ms)
    }

    /// When the first `stop` command is due, in ms.
    pub fn stop_at_ms(&self) -> Option<u64> {
        self.commands.iter().filter(|command| command.what == Action::Stop).map(|command| command.at_ms).min()
    }

    /// The token that the token source gives at the start: `A` if any command sets one, else there is none.
    pub fn first_token(&self) -> Option<&'static str> {
        self.commands.iter().any(|command| matches!(command.what, Action::SetToken(_))).then_some("A")
    }

    /// The path that the informer's lists and watches go to.
    pub fn path(&self) -> String {
        let ResourceSpec { group, version, resource, .. } = &self.resource;
        let api = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match &self.informer.namespace {
            Some(namespace) => format!("{api}/namespaces/{namespace}/{resource}"),
            None => format!("{api}/{resource}"),
        }
    }
}

/// The kind of object that the informer watches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ResourceSpec {
    /// API group, empty for the core group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Plural name, as in paths.
    pub resource: String,
    /// Kind of one object.
    pub kind: String,
    /// False for a cluster-scoped kind.
    pub namespaced: bool,
}

/// How the informer is set up.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InformerSpec {
    /// The one namespace it watches, or all.
    pub namespace: Option<String>,
    /// Label selector of its requests.
    pub label_selector: Option<String>,
    /// Field selector of its requests.
    pub field_selector: Option<String>,
    /// How it gets its first list.
    pub list_strategy: ListStrategy,
    /// `limit` of a paged list.
    pub page_size: u64,
    /// Resync period in ms of handlers without one of their own; 0 = never.
    pub resync_ms: u64,
    /// Its indexes.
    pub indexes: Vec<IndexName>,
    /// Least `timeoutSeconds` of a watch, in ms; the largest is twice that.
    pub min_watch_timeout_ms: u64,
    /// Fails a list or watch for one object that does not decode.
    pub strict_decode: bool,
}

impl Default for InformerSpec {
    fn default() -> Self {
        InformerSpec {
            namespace: None,
            label_selector: None,
            field_selector: None,
            list_strategy: ListStrategy::Auto,
            page_size: 500,
            resync_ms: 0,
            indexes: vec![IndexName::Namespace],
            min_watch_timeout_ms: 300_000,
            strict_decode: false,
        }
    }
}

/// How an informer gets the state it starts from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ListStrategy {
    /// A streaming list first, paged lists as the fallback.
    Auto,
    /// Streaming lists only.
    Streaming,
    /// Paged lists only.
    Paged,
}

/// An index of the store.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IndexName {
    /// By namespace; the value of a cluster-scoped object is empty.
    Namespace,
}

/// One event handler.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandlerSpec {
    /// Its name in the outcome.
    pub name: String,
    /// When it is added, in ms.
    #[serde(default)]
    pub add_at_ms: u64,
    /// When its removal is asked for, in ms.
    #[serde(default)]
    pub remove_at_ms: Option<u64>,
    /// Its resync period in ms, 0 = never; without it the informer's counts ([`Scenario::resync_ms`]).
    #[serde(default, deserialize_with = "present")]
    pub resync_ms: Option<u64>,
    /// How long each of its calls takes, in ms.
    #[serde(default)]
    pub stall_ms: u64,
    /// What happens when it falls behind.
    #[serde(default)]
    pub overflow: Overflow,
}

fn one_handler() -> Vec<HandlerSpec> {
    vec![HandlerSpec {
        name: "h".into(),
        add_at_ms: 0,
        remove_at_ms: None,
        resync_ms: None,
        stall_ms: 0,
        overflow: Overflow::default(),
    }]
}

/// What happens when a handler falls behind.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Overflow {
    /// The policy.
    pub policy: OverflowPolicy,
    /// How many notifications may wait, the running call not included; at least 1.
    #[serde(deserialize_with = "positive")]
    pub limit: u64,
}

impl Default for Overflow {
    fn default() -> Self {
        Overflow { policy: OverflowPolicy::Coalesce, limit: 1024 }
    }
}

/// The choices for a handler whose buffer is full.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// Notifications of one key are merged.
    Coalesce,
    /// The buffer grows.
    Unbounded,
    /// The handler is removed, with an error that names it.
    Disconnect,
}

/// Something the user does while the informer runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "CommandForm")]
pub struct Command {
    /// When, in ms.
    pub at_ms: u64,
    /// What.
    pub what: Action,
}

/// What a [`Command`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Stops the informer.
    Stop,
    /// The driver is not run until the next [`Action::Resume`].
    Pause,
    /// Input that came during the pause is handed over in order, timers first.
    Resume,
    /// The token source gives this token from now on.
    SetToken(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CommandForm {
    at_ms: u64,
    #[serde(rename = "do")]
    what: ActionForm,
    #[serde(default, deserialize_with = "present")]
    token: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ActionForm {
    Stop,
    Pause,
    Resume,
    SetToken,
}

impl TryFrom<CommandForm> for Command {
    type Error = &'static str;

    fn try_from(form: CommandForm) -> Result<Self, Self::Error> {
        let what = match (form.what, form.token) {
            (ActionForm::Stop, None) => Action::Stop,
            (ActionForm::Pause, None) => Action::Pause,
            (ActionForm::Resume, None) => Action::Resume,
            (ActionForm::SetToken, Some(token)) => Action::SetToken(token),
            (ActionForm::Stop | ActionForm::Pause | ActionForm::Resume, Some(_)) | (ActionForm::SetToken, None) => {
                return Err("token goes with setToken, and only there");
            }
        };
        Ok(Command { at_ms: form.at_ms, what })
    }
}

/// A list or a watch; a streaming list is a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Without `watch`.
    List,
    /// With `watch=1` or `watch=true`.
    Watch,
}

impl Verb {
    /// The verb of a request with this query.
    ///
    /// ```
    /// use informer_conformance::scenario::Verb;
    ///
    /// assert_eq!(Verb::of(&[("watch".into(), "1".into())]), Verb::Watch);
    /// assert_eq!(Verb::of(&[("limit".into(), "500".into())]), Verb::List);
    /// ```
    pub fn of(query: &[(String, String)]) -> Self {
        let watch = query.iter().any(|(name, value)| name == "watch" && matches!(value.as_str(), "1" | "true"));
        if watch { Verb::Watch } else { Verb::List }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::List => "list",
            Verb::Watch => "watch",
        })
    }
}

/// One answer of the server, for the requests that match.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Which requests it answers.
    pub when: When,
    /// How many of them, at least 1; no limit without the field.
    #[serde(default, deserialize_with = "positive_present")]
    pub times: Option<u64>,
    /// The answer.
    pub reply: Reply,
}

/// Which requests a [`ServerEntry`] answers. A value must be equal; `None` means absent or empty; what is not named
/// is free.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// List or watch.
    pub verb: Verb,
    /// Query parameters.
    #[serde(default)]
    pub query: BTreeMap<String, Option<String>>,
    /// Headers, names in lower case.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
}

/// What becomes of a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "ReplyForm")]
#[non_exhaustive]
pub enum Reply {
    /// The connection is refused.
    Refuse,
    /// It is accepted and never answered.
    Hang,
    /// It is answered.
    Answer(AnswerSpec),
}

/// An answer, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSpec {
    /// From the request to its head, in ms.
    pub after_ms: u64,
    /// Status code.
    pub status: u16,
    /// Headers, in the order of the file and as written there.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<Part>,
    /// What follows the last part.
    pub end: EndKind,
}

/// One part of a body: what a single write of the server carries.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "PartForm")]
pub struct Part {
    /// From the part before (from the head for the first one) to this one, in ms.
    pub after_ms: u64,
    /// What is sent.
    pub bytes: Vec<u8>,
    /// How often; the delay stands before each.
    pub repeat: u64,
}

/// What follows the last part of a body.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum EndKind {
    /// The body ends cleanly.
    #[default]
    Close,
    /// The connection is torn.
    Reset,
    /// Nothing more comes, and the connection stays open.
    Hang,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReplyForm {
    #[serde(default, deserialize_with = "present")]
    after_ms: Option<u64>,
    #[serde(default, deserialize_with = "status")]
    status: Option<u16>,
    #[serde(default, deserialize_with = "headers")]
    headers: Option<Vec<(String, String)>>,
    #[serde(default, deserialize_with = "present")]
    body: Option<Vec<Part>>,
    #[serde(default, deserialize_with = "present")]
    end: Option<EndKind>,
    #[serde(default, deserialize_with = "present")]
    refuse: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    hang: Option<bool>,
}

impl TryFrom<ReplyForm> for Reply {
    type Error = &'static str;

    fn try_from(form: ReplyForm) -> Result<Self, Self::Error> {
        let answers = form.after_ms.is_some()
            || form.status.is_some()
            || form.headers.is_some()
            || form.body.is_some()
            || form.end.is_some();
        match (form.refuse, form.hang) {
            (Some(true), None) if !answers => Ok(Reply::Refuse),
            (None, Some(true)) if !answers => Ok(Reply::Hang),
            (Some(true), _) | (_, Some(true)) => Err("refuse or hang stands alone"),
            (None | Some(false), None | Some(false)) => Ok(Reply::Answer(AnswerSpec {
                after_ms: form.after_ms.unwrap_or(0),
                status: form.status.unwrap_or(200),
                headers: form
                    .headers
                    .unwrap_or_else(|| vec![("Content-Type".to_owned(), "application/json".to_owned())]),
                body: form.body.unwrap_or_default(),
                end: form.end.unwrap_or_default(),
            })),
        }
    }
}

/// A final status: an interim one (1xx) would need another head after it, which no script can give.
fn status<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<u16>, D::Error> {
    match u16::deserialize(de)? {
        code @ 200..=599 => Ok(Some(code)),
        code => Err(serde::de::Error::custom(format!("must be a final HTTP status (200 to 599), is {code}"))),
    }
}

/// Headers in the order of the file, refused if they would break the framing of the answer.
fn headers<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<Vec<(String, String)>>, D::Error> {
    struct Visitor;
    impl<'de> serde::de::Visitor<'de> for Visitor {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, String>()? {
                let token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
                if !token || value.bytes().any(|byte| byte.is_ascii_control()) {
                    return Err(serde::de::Error::custom(format!("{name:?}: {value:?} cannot stand in a header")));
                }
                all.push((name, value));
            }
            Ok(all)
        }
    }
    de.deserialize_map(Visitor).map(Some)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PartForm {
    #[serde(default)]
    after_ms: u64,
    #[serde(default, deserialize_with = "present")]
    json: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    text: Option<String>,
    #[serde(default, deserialize_with = "decoded")]
    base64: Option<Vec<u8>>,
    #[serde(default, deserialize_with = "present")]
    newline: Option<bool>,
    #[serde(default, deserialize_with = "positive_present")]
    repeat: Option<u64>,
}

impl TryFrom<PartForm> for Part {
    type Error = &'static str;

    fn try_from(form: PartForm) -> Result<Self, Self::Error> {
        if form.newline.is_some() && form.json.is_none() {
            return Err("newline goes with json only");
        }
        let bytes = match (form.json, form.text, form.base64) {
            (Some(json), None, None) => {
                let mut bytes = compact(json.get());
                if form.newline.unwrap_or(true) {
                    bytes.push(b'\n');
                }
                bytes
            }
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(bytes)) => bytes,
            (None, None, None) | (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                return Err("needs exactly one of json, text, base64");
            }
        };
        Ok(Part { after_ms: form.after_ms, bytes, repeat: form.repeat.unwrap_or(1) })
    }
}

fn decoded<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<Vec<u8>>, D::Error> {
    BASE64.decode(String::deserialize(de)?).map(Some).map_err(serde::de::Error::custom)
}

/// `json` without white space between its tokens. Numbers and strings keep their very bytes, which a value that was
/// parsed and printed again would not (`1.0`, 40 digits, `\u00e9`, a key twice).
fn compact(json: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_string = byte == b'"';
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario that is good but for what `change` replaces in it.
    fn with(change: &str) -> String {
        let good = serde_json::json!({
            "name": "n", "seed": 1, "runForMs": 10,
            "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
            "server": []
        });
        let mut all = good.as_object().unwrap().clone();
        let change: serde_json::Map<String, serde_json::Value> = serde_json::from_str(change).unwrap();
        all.extend(change);
        serde_json::to_string(&all).unwrap()
    }

    fn body(part: &str) -> Result<Vec<u8>, FormError> {
        let text = format!(r#"{{"server": [{{"when": {{"verb": "list"}}, "reply": {{"body": [{part}]}}}}]}}"#);
        // Not through `with`: that would print the JSON anew, which is what this must not do.
        let head = r#"{"name": "n", "seed": 1, "runForMs": 10, "resource":
            {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},"#;
        let scenario = Scenario::from_str(&format!("{head}{}", &text[1..]))?;
        let Reply::Answer(answer) = &scenario.server[0].reply else { panic!("not an answer") };
        Ok(answer.body[0].bytes.clone())
    }

    #[test]
    fn what_is_left_out_has_the_documented_default() {
        let scenario = Scenario::from_str(&with(r#"{"server": [{"when": {"verb": "list"}, "reply": {}}]}"#)).unwrap();
        assert_eq!(scenario.informer, InformerSpec::default());
        assert_eq!(scenario.handlers, one_handler());
        assert_eq!(scenario.handlers[0].overflow, Overflow { policy: OverflowPolicy::Coalesce, limit: 1024 });
        assert_eq!(scenario.server[0].times, None);
        assert_eq!(
            scenario.server[0].reply,
            Reply::Answer(AnswerSpec {
                after_ms: 0,
                status: 200,
                headers: vec![("Content-Type".into(), "application/json".into())],
                body: vec![],
                end: EndKind::Close,
            })
        );
        assert_eq!((scenario.first_token(), scenario.stop_at_ms()), (None, None));
    }

    #[test]
    fn a_handler_without_a_resync_period_takes_the_informers() {
        let text = with(r#"{"informer": {"resyncMs": 7}, "handlers": [{"name": "a"}, {"name": "b", "resyncMs": 0}]}"#);
        let scenario = Scenario::from_str(&text).unwrap();
        let periods: Vec<_> = scenario.handlers.iter().map(|handler| scenario.resync_ms(handler)).collect();
        assert_eq!(periods, [7, 0]);
    }

    #[test]
    fn json_goes_over_compact_and_otherwise_as_it_stands() {
        let sent = body(r#"{"json": {"a" : 1.0, "b": [ 12345678901234567890123 ], "c": "x \" \\", "d": "\u00e9"}}"#);
        let compact = r#"{"a":1.0,"b":[12345678901234567890123],"c":"x \" \\","d":"\u00e9"}"#;
        assert_eq!(String::from_utf8(sent.unwrap()).unwrap(), format!("{compact}\n"));
        assert_eq!(body(r#"{"json": [], "newline": false}"#).unwrap(), b"[]");
        assert_eq!(body(r#"{"text": "a b"}"#).unwrap(), b"a b");
        assert_eq!(body(r#"{"base64": "AP8="}"#).unwrap(), [0, 255]);
    }

    #[test]
    fn the_path_follows_group_and_namespace() {
        assert_eq!(Scenario::from_str(&with("{}")).unwrap().path(), "/api/v1/pods");
        let text = with(
            r#"{"informer": {"namespace": "web"}, "resource":
            {"group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment", "namespaced": true}}"#,
        );
        assert_eq!(Scenario::from_str(&text).unwrap().path(), "/apis/apps/v1/namespaces/web/deployments");
    }

    #[test]
    fn every_fault_is_refused_at_its_place() {
        let entry = |reply: &str| format!(r#"{{"server": [{{"when": {{"verb": "list"}}, "reply": {reply}}}]}}"#);
        let part = |part: &str| entry(&format!(r#"{{"body": [{{"text": "x"}}, {part}]}}"#));
        for (change, place, problem) in [
            (r#"{"sever": 1}"#.to_owned(), "sever", "unknown field"),
            (r#"{"seed": -1}"#.into(), "seed", "invalid value"),
            (r#"{"seed": "1"}"#.into(), "seed", "invalid type"),
            (r#"{"runForMs": 0}"#.into(), "runForMs", ">= 1"),
            (r#"{"runForMs": true}"#.into(), "runForMs", "invalid type"),
            (r#"{"resource": {"group": ""}}"#.into(), "resource", "missing field `version`"),
            (r#"{"resource": {"groop": ""}}"#.into(), "resource.groop", "unknown field"),
            (r#"{"informer": {"namespace": 1}}"#.into(), "informer.namespace", "invalid type"),
            (r#"{"informer": {"listStrategy": "fast"}}"#.into(), "informer.listStrategy", "unknown variant"),
            (r#"{"informer": {"pageSize": null}}"#.into(), "informer.pageSize", "invalid type"),
            (r#"{"informer": {"strictDecode": 1}}"#.into(), "informer.strictDecode", "invalid type"),
            (r#"{"informer": {"indexes": ["node"]}}"#.into(), "informer.indexes[0]", "unknown variant"),
            (r#"{"handlers": [{"nam": "a"}]}"#.into(), "handlers[0].nam", "unknown field"),
            (r#"{"handlers": [{}]}"#.into(), "handlers[0]", "missing field `name`"),
            (r#"{"handlers": [{"name": "a"}, {"name": "a"}]}"#.into(), "handlers[1].name", "twice"),
            (r#"{"handlers": [{"name": "a", "resyncMs": null}]}"#.into(), "handlers[0].resyncMs", "invalid type"),
            (r#"{"handlers": [{"name": "a", "stallMs": -1}]}"#.into(), "handlers[0].stallMs", "invalid value"),
            (r#"{"handlers": [{"name": "a", "removeAtMs": "1"}]}"#.into(), "handlers[0].removeAtMs", "invalid type"),
            (
                r#"{"handlers": [{"name": "a", "overflow": {"policy": "coalesce"}}]}"#.into(),
                "handlers[0].overflow",
                "limit",
            ),
            (
                r#"{"handlers": [{"name": "a", "overflow": {"policy": "coalesce", "limit": 0}}]}"#.into(),
                "handlers[0].overflow.limit",
                ">= 1",
            ),
            (r#"{"commands": [{"atMs": 1, "do": "halt"}]}"#.into(), "commands[0].do", "unknown variant"),
            (r#"{"commands": [{"do": "stop"}]}"#.into(), "commands[0]", "missing field `atMs`"),
            (r#"{"commands": [{"atMs": 1, "do": "setToken"}]}"#.into(), "commands[0]", "token goes with setToken"),
            (r#"{"commands": [{"atMs": 1, "do": "stop", "token": "B"}]}"#.into(), "commands[0]", "token goes with"),
            (r#"{"server": [{"reply": {}}]}"#.into(), "server[0]", "missing field `when`"),
            (
                r#"{"server": [{"when": {"verb": "get"}, "reply": {}}]}"#.into(),
                "server[0].when.verb",
                "unknown variant",
            ),
            (
                r#"{"server": [{"when": {"verb": "list", "query": {"limit": 1}}, "reply": {}}]}"#.into(),
                "server[0].when.query.limit",
                "invalid type",
            ),
            (r#"{"server": [{"when": {"verb": "list"}, "times": 0, "reply": {}}]}"#.into(), "server[0].times", ">= 1"),
            (entry(r#"{"boddy": []}"#), "server[0].reply.boddy", "unknown field"),
            (entry(r#"{"refuse": true, "status": 200}"#), "server[0].reply", "stands alone"),
            (entry(r#"{"refuse": true, "hang": true}"#), "server[0].reply", "stands alone"),
            (entry(r#"{"end": "stop"}"#), "server[0].reply.end", "unknown variant"),
            (entry(r#"{"status": 101}"#), "server[0].reply.status", "final HTTP status"),
            (entry(r#"{"headers": {"A": 1}}"#), "server[0].reply.headers.A", "invalid type"),
            (entry(r#"{"headers": {"A": "b\r\nC: d"}}"#), "server[0].reply.headers", "cannot stand in a header"),
            (part(r#"{"json": 1, "text": "a"}"#), "server[0].reply.body[1]", "exactly one of"),
            (part("{}"), "server[0].reply.body[1]", "exactly one of"),
            (part(r#"{"text": "a", "newline": true}"#), "server[0].reply.body[1]", "newline goes with json"),
            (part(r#"{"text": "a", "repeat": 0}"#), "server[0].reply.body[1].repeat", ">= 1"),
            (part(r#"{"text": "a", "afterMs": -1}"#), "server[0].reply.body[1].afterMs", "invalid value"),
            (part(r#"{"base64": "?"}"#), "server[0].reply.body[1].base64", "Invalid"),
            (r#"{"expect": {"handlers": {"g": {"inOrder": []}}}}"#.into(), "expect.handlers.g", "no such handler"),
            (r#"{"expect": {"stoppedWithinMs": 1}}"#.into(), "expect.stoppedWithinMs", "no stop command"),
            (r#"{"kind": "quue"}"#.into(), "kind", "only \"queue\" exists"),
        ] {
            let fault = ScenarioFile::from_str(&with(&change)).expect_err(&change);
            assert_eq!(fault.place(), place, "{fault}");
            assert!(fault.to_string().contains(problem), "{fault}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_line_and_column() {
        assert!(Scenario::from_str("{").unwrap_err().to_string().contains("line 1 column 1"));
    }

    #[test]
    fn a_command_that_sets_a_token_means_that_there_was_one_before() {
        let text = with(r#"{"commands": [{"atMs": 9, "do": "stop"}, {"atMs": 1, "do": "setToken", "token": "B"}]}"#);
        let scenario = Scenario::from_str(&text).unwrap();
        assert_eq!((scenario.first_token(), scenario.stop_at_ms()), (Some("A"), Some(9)));
    }
}
