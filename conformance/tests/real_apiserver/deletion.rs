//! What a [`Deletion`] says of an object, and what [`OwnWrites`] shows after it, beside what became of the object: one table
//! for the real server and the simulated one.
//!
//! The cache stands still while the object is deleted, as one does whose watch is behind; so what is shown is the answer's
//! doing, and not the watch's.

use crate::harness::{PATIENCE, cluster, eventually};
use crate::http::Endpoint;
use informer_blocking::{Client, Factory};
use informer_core::{DynamicObject, Key, Obj, Resource};
use informer_runtime::api::{ApiRequest, DeleteOptions, Deletion, PropagationPolicy};
use informer_runtime::informer::InformerSpec;
use informer_runtime::own_writes::OwnWrites;
use informer_runtime::{Config, Error};
use informer_sim::{Served, Server};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

const NAMESPACE: &str = "deletion";

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const ACCOUNTS: Resource = Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const CONTROLLERS: Resource = Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController");
const JOBS: Resource = Resource::namespaced("batch", "v1", "jobs", "Job");
const THINGS: Resource = Resource::namespaced("deletion.example.com", "v1", "things", "Thing");
const DEFINITIONS: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");

/// What somebody else does after the cache was read.
#[derive(Clone, Copy)]
enum Meanwhile {
    Nothing,
    Changes,
    /// With these options.
    Deletes(&'static str),
    Recreates,
}

/// What the deletion asks for to be true.
#[derive(Clone, Copy)]
enum If {
    Anything,
    /// The incarnation and the version that were seen.
    AsSeen,
    SameIncarnation,
    AnotherIncarnation,
}

struct Case {
    name: &'static str,
    resource: Resource,
    object: Value,
    meanwhile: Meanwhile,
    only_if: If,
    options: DeleteOptions,
    /// Sent in the place of all that the client would say, if it is not empty: options that it does not know.
    instead: &'static str,
    expected: &'static str,
}

fn case(name: &'static str, resource: Resource, object: Value, expected: &'static str) -> Case {
    let (meanwhile, only_if, options) = (Meanwhile::Nothing, If::Anything, DeleteOptions::default());
    Case { name, resource, object, meanwhile, only_if, options, instead: "", expected }
}

impl Case {
    fn meanwhile(mut self, meanwhile: Meanwhile) -> Self {
        self.meanwhile = meanwhile;
        self
    }

    fn only_if(mut self, only_if: If) -> Self {
        self.only_if = only_if;
        self
    }

    fn options(mut self, options: impl Into<DeleteOptions>) -> Self {
        self.options = options.into();
        self
    }

    fn instead(mut self, instead: &'static str) -> Self {
        self.instead = instead;
        self
    }
}

fn plain() -> Value {
    json!({})
}

fn held() -> Value {
    json!({"metadata": {"finalizers": ["example.com/hold"]}})
}

fn pod(node: &str) -> Value {
    json!({"spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

fn held_pod(node: &str) -> Value {
    let mut pod = pod(node);
    pod["metadata"] = json!({"finalizers": ["example.com/hold"]});
    pod
}

fn job() -> Value {
    json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

fn controller() -> Value {
    json!({"spec": {"replicas": 0, "selector": {"app": "a"}, "template": {
        "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }}})
}

fn definition() -> Value {
    json!({"spec": {
        "group": "deletion.example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }],
    }})
}

fn within(seconds: u64) -> DeleteOptions {
    DeleteOptions::default().with_grace_period(Duration::from_secs(seconds))
}

fn cases() -> Vec<Case> {
    use If::{AnotherIncarnation, AsSeen, SameIncarnation};
    use Meanwhile::{Changes, Deletes, Recreates};
    use PropagationPolicy::{Background, Foreground, Orphan};
    const GONE: &str = "gone, a Status; shows nothing; is not there";
    const LAST: &str = "gone, as it was last; shows nothing; is not there";
    const STOPPED: &str = "gone, marked, grace 0; shows nothing; is not there";
    const HELD: &str = "waits, marked, grace 0, example.com/hold; shows it marked; is there, marked";
    const FIRST: &str = "waits, marked, grace 0, foregroundDeletion; shows it marked; is there, marked";
    const STAY: &str = "waits, marked, grace 0, orphan; shows it marked; is there, marked";
    const CONFLICT: &str = "refused, 409 Conflict; shows it as it was; is there";
    vec![
        case("of most types", MAPS, plain(), GONE),
        case("of a type that answers with the object", ACCOUNTS, plain(), LAST),
        case("custom", THINGS, plain(), GONE),
        case("held", MAPS, held(), HELD),
        case("held, custom", THINGS, held(), HELD),
        case("held, of a type that answers with the object", ACCOUNTS, held(), HELD),
        case("held, and told whether it waits", MAPS, held(), HELD).instead(r#"{"orphanDependents": false}"#),
        case("held, and deleted by others before", MAPS, held(), HELD).meanwhile(Deletes("")),
        case("held, as it was seen", MAPS, held(), HELD).only_if(AsSeen),
        case("its dependents first", MAPS, plain(), FIRST).options(Foreground),
        case("its dependents first, as it was seen", MAPS, plain(), FIRST).options(Foreground).only_if(AsSeen),
        case("its dependents first, another incarnation", MAPS, plain(), CONFLICT)
            .options(Foreground)
            .only_if(AnotherIncarnation),
        case("its dependents first, and then not", MAPS, plain(), GONE)
            .options(Background)
            .meanwhile(Deletes(r#"{"propagationPolicy": "Foreground"}"#)),
        case("its dependents first, and deleted again", MAPS, plain(), FIRST)
            .meanwhile(Deletes(r#"{"propagationPolicy": "Foreground"}"#)),
        case("its dependents first, of a type that answers with the object", ACCOUNTS, plain(), FIRST)
            .options(Foreground),
        case(
            "its dependents first, custom and held",
            THINGS,
            held(),
            "waits, marked, grace 0, example.com/hold, foregroundDeletion; shows it marked; is there, marked",
        )
        .options(Foreground),
        case("its dependents stay", MAPS, plain(), STAY).options(Orphan),
        case("its dependents stay, custom", THINGS, plain(), STAY).options(Orphan),
        case("its dependents later", MAPS, plain(), GONE).options(Background),
        case("its dependents later, as it was seen", MAPS, plain(), GONE).options(Background).only_if(AsSeen),
        case("its dependents later, held", MAPS, held(), HELD).options(Background),
        case("of a type without grace", MAPS, plain(), GONE).options(within(9)),
        case("held, of a type without grace", MAPS, held(), HELD).options(within(9)),
        case("a Job keeps its Pods", JOBS, job(), STAY),
        case("a Job keeps its Pods, as asked", JOBS, job(), STAY).options(Orphan),
        case("a Job and its Pods", JOBS, job(), GONE).options(Background),
        case("a Job and its Pods first", JOBS, job(), FIRST).options(Foreground),
        case("a Job and its Pods after all", JOBS, job(), GONE).options(Background).meanwhile(Deletes("")),
        case("a Job keeps its Pods, and is deleted again", JOBS, job(), STAY).meanwhile(Deletes("")),
        case("a controller of old keeps its Pods", CONTROLLERS, controller(), STAY),
        case("a controller of old and its Pods", CONTROLLERS, controller(), GONE).options(Background),
        case("a Pod without a node", PODS, pod(""), STOPPED),
        case("a Pod on a node", PODS, pod("n1"), "waits, marked, grace 30; shows it marked; is there, marked"),
        case("a Pod on a node, at once", PODS, pod("n1"), STOPPED).options(within(0)),
        case("a Pod on a node, at once after all", PODS, pod("n1"), STOPPED).options(within(0)).meanwhile(Deletes("")),
        case(
            "a Pod on a node, with less time",
            PODS,
            pod("n1"),
            "waits, marked, grace 5; shows it marked; is there, marked",
        )
        .options(within(5)),
        case(
            "a Pod on a node, with less time than before",
            PODS,
            pod("n1"),
            "waits, marked, grace 5; shows it marked; is there, marked",
        )
        .options(within(5))
        .meanwhile(Deletes("")),
        case(
            "a Pod on a node, with more time than before",
            PODS,
            pod("n1"),
            "waits, marked, grace 9; shows it marked; is there, marked",
        )
        .options(within(60))
        .meanwhile(Deletes(r#"{"gracePeriodSeconds": 9}"#)),
        case(
            "a Pod on a node, the longest time",
            PODS,
            pod("n1"),
            "waits, marked, grace 9223372036; shows it marked; is there, marked",
        )
        .options(within(9_223_372_036)),
        // What changes nothing of its time is not looked at any further.
        case(
            "a Pod that stops already, its dependents first",
            PODS,
            pod("n1"),
            "waits, marked, grace 30; shows it marked; is there, marked",
        )
        .options(Foreground)
        .meanwhile(Deletes("")),
        case(
            "a Pod that stops already, its dependents first and sooner",
            PODS,
            pod("n1"),
            "waits, marked, grace 5, foregroundDeletion; shows it marked; is there, marked",
        )
        .options(within(5).with_propagation_policy(Foreground))
        .meanwhile(Deletes("")),
        case(
            "a Pod on a node, its dependents stay",
            PODS,
            pod("n1"),
            "waits, marked, grace 30, orphan; shows it marked; is there, marked",
        )
        .options(Orphan),
        case("a Pod without a node, with time", PODS, pod(""), STOPPED).options(within(9)),
        case(
            "a Pod on a node, its dependents first",
            PODS,
            pod("n1"),
            "waits, marked, grace 5, foregroundDeletion; shows it marked; is there, marked",
        )
        .options(within(5).with_propagation_policy(Foreground)),
        case("a Pod on a node, its dependents first and at once", PODS, pod("n1"), FIRST)
            .options(within(0).with_propagation_policy(Foreground)),
        case("a Pod on a node, another incarnation, at once", PODS, pod("n1"), CONFLICT)
            .options(within(0))
            .only_if(AnotherIncarnation),
        case("a Pod on a node, again", PODS, pod("n1"), "waits, marked, grace 9; shows it marked; is there, marked")
            .meanwhile(Deletes(r#"{"gracePeriodSeconds": 9}"#)),
        case(
            "a held Pod on a node",
            PODS,
            held_pod("n1"),
            "waits, marked, grace 30, example.com/hold; shows it marked; is there, marked",
        ),
        case("a held Pod on a node, at once", PODS, held_pod("n1"), HELD).options(within(0)),
        case("a held Pod without a node", PODS, held_pod(""), HELD),
        case("as it was seen", MAPS, plain(), GONE).only_if(AsSeen),
        case("another incarnation", MAPS, plain(), CONFLICT).only_if(AnotherIncarnation),
        case("another incarnation of what is held", MAPS, held(), CONFLICT).only_if(AnotherIncarnation),
        case("changed since", MAPS, plain(), CONFLICT).only_if(AsSeen).meanwhile(Changes),
        case("changed since, and deleted whatever it is", MAPS, plain(), GONE).meanwhile(Changes),
        case("changed since, the same incarnation", MAPS, plain(), GONE).only_if(SameIncarnation).meanwhile(Changes),
        case("changed since, of a type that answers with the object", ACCOUNTS, plain(), LAST).meanwhile(Changes),
        case("recreated since", MAPS, plain(), "refused, 409 Conflict; shows it as it was; is there, another")
            .only_if(SameIncarnation)
            .meanwhile(Recreates),
        case("gone already", MAPS, plain(), "refused, 404 NotFound; shows it as it was; is not there")
            .meanwhile(Deletes("")),
        case("gone already, custom", THINGS, plain(), "refused, 404 NotFound; shows it as it was; is not there")
            .meanwhile(Deletes("")),
        // Of a definition the marked one is the answer also where it goes a moment later.
        case(
            "a definition",
            DEFINITIONS,
            definition(),
            "waits, marked, customresourcecleanup.apiextensions.k8s.io; shows it marked",
        ),
    ]
}

/// One server.
struct Side {
    config: Config,
    endpoint: Endpoint,
}

impl Side {
    fn new(config: Config) -> Self {
        let side = Side { endpoint: Endpoint(config.clone()), config };
        let things = THINGS.path(Some(NAMESPACE));
        side.make(&DEFINITIONS, "things.deletion.example.com", &definition());
        eventually("things are served", || match side.endpoint.ask("GET", &things, "").status {
            200 => Ok(()),
            other => Err(other.to_string()),
        });
        side
    }

    fn collection(resource: &Resource) -> String {
        resource.path(resource.namespaced.then_some(NAMESPACE))
    }

    fn make(&self, resource: &Resource, name: &str, object: &Value) {
        let mut object = object.clone();
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.to_string().into();
        object["metadata"]["name"] = name.into();
        self.endpoint.must("POST", &Side::collection(resource), &object.to_string());
    }

    /// What the case led to.
    fn play(&self, name: &str, case: &Case) -> String {
        let resource = &case.resource;
        let target = format!("{}/{name}", Side::collection(resource));
        // It is there since the beginning.
        if *resource != DEFINITIONS {
            self.make(resource, name, &case.object);
        }
        let key = Key::new(if resource.namespaced { NAMESPACE } else { "" }, name);
        let client = Client::connect(self.config.clone()).expect("the configuration is good");
        let (seen, own) = self.read(&client, resource, &key);

        match case.meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Changes => {
                self.endpoint.must("PATCH", &target, r#"{"metadata": {"labels": {"changed": "yes"}}}"#);
            }
            Meanwhile::Deletes(options) => {
                self.endpoint.must("DELETE", &target, options);
            }
            Meanwhile::Recreates => {
                self.endpoint.must("DELETE", &target, "");
                self.make(resource, name, &case.object);
            }
        }
        let options = case.options.clone();
        let options = match case.only_if {
            If::Anything => options,
            If::SameIncarnation => options.with_uid(seen.uid()),
            If::AsSeen => options.with_uid(seen.uid()).with_resource_version(seen.version()),
            If::AnotherIncarnation => options.with_uid("another"),
        };
        let answer = if case.instead.is_empty() {
            client.api_of::<DynamicObject>(resource.clone()).delete(&key, options)
        } else {
            let request = ApiRequest::delete(resource, &key, options).expect("objects can be called so");
            let answer = self.endpoint.ask("DELETE", &request.target, case.instead);
            request.read_deletion(answer.status, answer.body.as_bytes())
        };
        let mut led_to = outcome(answer, &seen, &own, &key);
        if *resource != DEFINITIONS {
            led_to += &self.there(&target, &seen);
        }
        led_to
    }

    /// The object as a cache has it that stands still from then on.
    fn read(&self, client: &Client, resource: &Resource, key: &Key) -> (Obj<DynamicObject>, OwnWrites<DynamicObject>) {
        let factory = Factory::new(client.clone());
        let spec = InformerSpec::<DynamicObject>::of(resource.clone());
        let spec = if resource.namespaced { spec.namespace(NAMESPACE) } else { spec };
        let informer = factory.informer_with(spec);
        factory.start();
        factory.synced(PATIENCE).unwrap_or_else(|error| panic!("{resource}: {error}"));
        factory.stop(PATIENCE).unwrap_or_else(|error| panic!("{resource}: {error}"));
        let seen = informer.lister().get(key).unwrap_or_else(|| panic!("{resource}: the list has no {key}"));
        let own = informer.own_writes();
        (seen, own)
    }

    fn there(&self, target: &str, seen: &Obj<DynamicObject>) -> String {
        let answer = self.endpoint.ask("GET", target, "");
        if answer.status == 404 {
            return "; is not there".into();
        }
        let object = answer.json();
        let another = object["metadata"]["uid"] != seen.uid().to_string();
        let marked = object["metadata"]["deletionTimestamp"].is_string();
        format!("; is there{}{}", if another { ", another" } else { "" }, if marked { ", marked" } else { "" })
    }
}

/// What the answer says, and what is shown then.
fn outcome(
    answer: Result<Deletion<DynamicObject>, Error>,
    seen: &Obj<DynamicObject>,
    own: &OwnWrites<DynamicObject>,
    key: &Key,
) -> String {
    let mut said = String::new();
    match answer {
        Err(Error::Api(refused)) => _ = write!(said, "refused, {} {}", refused.status.code, refused.status.reason),
        Err(other) => panic!("{key}: {other}"),
        Ok(deletion) => {
            said += if deletion.is_gone() { "gone" } else { "waits" };
            assert_eq!(deletion.uid(), Some(&seen.uid().to_uid()), "{key}: it says which one it was");
            match deletion.object() {
                None => {
                    said += ", a Status";
                    assert_eq!(deletion.version(), None, "{key}");
                }
                Some(object) => {
                    let version = deletion.version().expect("an object has a version");
                    assert!(seen.version().to_version().is_before(version), "{key}: {deletion:?} is news of {seen:?}");
                    said += &marks(object);
                }
            }
            let gone = deletion.is_gone();
            let waiting = deletion.object().filter(|_| !gone).map(metadata).unwrap_or_default();
            let finalizers = waiting["finalizers"].as_array().cloned().unwrap_or_default();
            let seconds = waiting["deletionGracePeriodSeconds"].as_u64().filter(|&seconds| seconds > 0);
            assert_eq!(json!(deletion.finalizers()), json!(finalizers), "{key}: it says what holds it");
            assert_eq!(
                deletion.grace_period(),
                seconds.map(Duration::from_secs),
                "{key}: it says how long it may stop"
            );
            assert_eq!(own.answered(seen, deletion), Ok(true), "{key}: the cache, which stands still, does not know");
            assert_eq!(own.list().iter().any(|object| object.key() == *key), !gone, "{key}: a list shows the same");
        }
    }
    said += match own.get(key) {
        None => "; shows nothing",
        Some(shown) if shown.version() == *seen.version().to_version().as_str() => "; shows it as it was",
        Some(shown) if metadata(&shown)["deletionTimestamp"].is_string() => "; shows it marked",
        Some(_) => "; shows it changed",
    };
    said
}

fn metadata(object: &DynamicObject) -> Value {
    let object: Value = serde_json::from_str(object.json()).expect("it was decoded");
    object["metadata"].clone()
}

fn marks(object: &DynamicObject) -> String {
    let metadata = metadata(object);
    if metadata["deletionTimestamp"].is_null() {
        return ", as it was last".into();
    }
    let mut marks = ", marked".to_string();
    if let Some(grace) = metadata["deletionGracePeriodSeconds"].as_i64() {
        _ = write!(marks, ", grace {grace}");
    }
    for finalizer in metadata["finalizers"].as_array().into_iter().flatten() {
        _ = write!(marks, ", {}", finalizer.as_str().expect("a name"));
    }
    marks
}

fn plays_the_table(config: Config) {
    let side = Side::new(config);
    let mut wrong = String::new();
    for (at, case) in cases().iter().enumerate() {
        let name = if case.resource == DEFINITIONS { "things.deletion.example.com".into() } else { format!("d{at}") };
        let led_to = side.play(&name, case);
        if led_to != case.expected {
            _ = writeln!(wrong, "{}\n  expected {}\n  was      {led_to}", case.name, case.expected);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_real_server_does_what_its_answer_to_a_deletion_is_taken_for() {
    let Some(cluster) = cluster() else { return };
    cluster.namespace(NAMESPACE);
    plays_the_table(cluster.config("admin"));
}

#[test]
fn the_simulated_server_does_the_same() {
    let mut server = Server::new(informer_sim::Config::default());
    server.register_common();
    let served = Served::start(server, "127.0.0.1:0".parse().expect("an address")).expect("a port is free");
    plays_the_table(Config::from_url(&served.url()).expect("a URL"));
}
