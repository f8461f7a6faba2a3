//! The world around the controller: a cluster (simulated, or a real one), people who make, change and delete widgets, and
//! an operator who restarts the server under all of it. At the end it checks what the controller made of it.
//!
//! It talks to the cluster with the blocking client, whatever runtime the controller is on.

use crate::reconcile::{ConfigMap, MANAGED_BY, Widget, WidgetSpec, desired};
use informer_blocking::{Api, Client, Config, DeleteOptions, Error, Factory, InformerSpec, LabelSelector};
use informer_core::lister::Objects;
use informer_core::object::Meta;
use informer_core::rng::Rng;
use informer_core::{DynamicObject, Key, Object, ObjectMeta, Resource};
use informer_sim::serve::Served;
use informer_sim::{Config as SimConfig, Server};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use std::{env, fmt, process, thread};

/// Widgets at the start.
pub const PARENTS: usize = 200;

/// Changes by people while the controller works.
const CHANGES: usize = 600;

/// How long any one thing may take before the example gives up.
const PATIENCE: Duration = Duration::from_secs(40);

type Failure = Box<dyn std::error::Error + Send + Sync>;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const DEFINITIONS: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");

/// A cluster with our definition in it, and what should be true of it.
pub struct World {
    config: Config,
    client: Client,
    namespace: String,
    served: Option<Served>,
    /// The text of each widget that exists.
    expected: BTreeMap<String, String>,
    rng: Rng,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    created: usize,
    changed: usize,
    deleted: usize,
    replaced: usize,
    restarts: usize,
}

impl World {
    /// A simulated cluster, or with `--kubeconfig FILE [--context NAME]` the one that it names. Installs the
    /// definition of widgets, and makes a namespace of its own.
    ///
    /// # Errors
    ///
    /// If the arguments make no sense or the cluster cannot be reached.
    pub fn from_arguments() -> Result<Self, Failure> {
        let (mut kubeconfig, mut context) = (None, None);
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let place = match argument.as_str() {
                "--kubeconfig" => &mut kubeconfig,
                "--context" => &mut context,
                other => {
                    return Err(
                        format!("unknown argument {other:?}: expected --kubeconfig FILE [--context NAME]").into()
                    );
                }
            };
            *place = Some(arguments.next().ok_or_else(|| format!("{argument} needs a value"))?);
        }
        let (config, served) = match kubeconfig {
            Some(file) => (Config::from_kubeconfig(file, context.as_deref())?, None),
            None => {
                let mut server = Server::new(SimConfig::default());
                server.register_common();
                let served = Served::start(server, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
                (Config::from_url(&served.url())?, Some(served))
            }
        };
        let client = Client::connect(config.clone())?;
        let namespace = format!("informer-example-{}", process::id());
        let (expected, rng) = (BTreeMap::new(), Rng::new(u64::from(process::id())));
        let mut world = World { config, client, namespace, served, expected, rng, counts: Counts::default() };
        world.install()?;
        Ok(world)
    }

    /// How the controller reaches the cluster.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The namespace in which everything happens.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `a simulated API server`, or the server's address.
    pub fn place(&self) -> String {
        match &self.served {
            Some(_) => "a simulated API server".into(),
            None => self.config.server.to_string(),
        }
    }

    fn install(&mut self) -> Result<(), Failure> {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"text": {"type": "string"}}}},
                }}}],
            },
        });
        let definitions = self.client.api_of::<DynamicObject>(DEFINITIONS);
        let name = Key::new("", "widgets.example.com");
        patiently("install the definition", || {
            made(definitions.create("", &definition))?;
            // One that an earlier run deleted may be on its way out: it must go before ours can come.
            let there = definitions.get(&name)?;
            if there.metadata().is_terminating() { definitions.create("", &definition).map(drop) } else { Ok(()) }
        })?;
        let namespaces = self.client.api_of::<DynamicObject>(NAMESPACES);
        let namespace = json!({"metadata": {"name": self.namespace}});
        patiently("make the namespace", || made(namespaces.create("", &namespace)))?;
        // A definition takes a moment until its resource is served.
        let widgets = self.widgets();
        let probe = Key::new(&self.namespace, "probe");
        let metadata = ObjectMeta { name: "probe".into(), ..ObjectMeta::default() };
        let widget = Widget { metadata, spec: WidgetSpec { text: String::new() } };
        patiently("make a first widget", || made(widgets.create(&self.namespace, &widget)))?;
        patiently("delete it again", || gone(widgets.delete(&probe, DeleteOptions::default())))
    }

    fn widgets(&self) -> Api<Widget> {
        self.client.api::<Widget>()
    }

    /// Makes the widgets, then changes, deletes and replaces them while the server is restarted.
    ///
    /// # Errors
    ///
    /// If the cluster stays away for longer than the example's patience.
    pub fn live(&mut self) -> Result<(), Failure> {
        let progress = Progress::new();
        for number in 0..PARENTS {
            self.create(&format!("widget-{number:03}"))?;
            progress.show("creating widgets", number + 1, PARENTS);
        }
        for change in 0..CHANGES {
            if self.served.is_some() && change % 200 == 100 {
                self.restart()?;
            }
            self.change(change)?;
            progress.show("changing, deleting, replacing", change + 1, CHANGES);
            thread::sleep(Duration::from_millis(10));
        }
        progress.end();
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Failure> {
        if let Some(served) = &mut self.served {
            served.down();
            thread::sleep(Duration::from_millis(300));
            served.up()?;
            self.counts.restarts += 1;
        }
        Ok(())
    }

    fn change(&mut self, number: usize) -> Result<(), Failure> {
        let names: Vec<String> = self.expected.keys().cloned().collect();
        let name = names[self.rng.below(names.len() as u64) as usize].clone();
        match self.rng.below(10) {
            0 | 1 => {
                self.delete(&name)?;
                self.counts.deleted += 1;
            }
            2 => {
                // Deleted and made again at once: another widget of the same name.
                self.delete(&name)?;
                self.create(&name)?;
                self.counts.replaced += 1;
                self.counts.created -= 1;
            }
            3 => self.create(&format!("late-{number:03}"))?,
            _ => {
                let text = format!("change {number}");
                let (widgets, key) = (self.widgets(), Key::new(&self.namespace, &name));
                let patch = json!({"spec": {"text": text}});
                patiently("change a widget", || widgets.merge_patch(&key, &patch).map(drop))?;
                self.expected.insert(name, text);
                self.counts.changed += 1;
            }
        }
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<(), Failure> {
        let text = format!("the text of {name}");
        let metadata = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
        let widget = Widget { metadata, spec: WidgetSpec { text: text.clone() } };
        let widgets = self.widgets();
        patiently("make a widget", || made(widgets.create(&self.namespace, &widget)))?;
        self.expected.insert(name.into(), text);
        self.counts.created += 1;
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<(), Failure> {
        let (widgets, key) = (self.widgets(), Key::new(&self.namespace, name));
        patiently("delete a widget", || gone(widgets.delete(&key, DeleteOptions::default())))?;
        self.expected.remove(name);
        Ok(())
    }

    /// Looks at the cluster with eyes of its own until every widget has its child, with the right text and owner, and
    /// there is no other child; gives up when nothing comes right in time.
    ///
    /// # Errors
    ///
    /// What is still wrong.
    pub fn check(&self) -> Result<Checked, Failure> {
        let factory = Factory::new(self.client.clone());
        let ours = LabelSelector::eq(MANAGED_BY.0, MANAGED_BY.1)?;
        let widgets = factory.try_informer(InformerSpec::<Widget>::new().namespace(&self.namespace))?;
        let children =
            factory.try_informer(InformerSpec::<ConfigMap>::new().namespace(&self.namespace).labels(&ours))?;
        factory.start();
        factory.synced(PATIENCE)?;
        let give_up = Instant::now() + PATIENCE;
        let wrong = loop {
            let wrong = self.wrong(&widgets.lister().list(), &children.lister().list());
            if wrong.is_empty() || Instant::now() >= give_up {
                break wrong;
            }
            thread::sleep(Duration::from_millis(50));
        };
        factory.stop(PATIENCE)?;
        match wrong.first() {
            None => Ok(Checked { children: self.expected.len() }),
            Some(first) => Err(format!("{} things are wrong, first: {first}", wrong.len()).into()),
        }
    }

    fn wrong(&self, widgets: &Objects<Widget>, children: &Objects<ConfigMap>) -> Vec<String> {
        let mut wrong = Vec::new();
        let found: BTreeMap<&str, &ConfigMap> =
            children.iter().map(|child| (child.key().name(), child.value())).collect();
        let parents: BTreeMap<&str, &Widget> =
            widgets.iter().map(|widget| (widget.key().name(), widget.value())).collect();
        for (name, text) in &self.expected {
            let Some(widget) = parents.get(name.as_str()) else {
                wrong.push(format!("widget {name} is missing"));
                continue;
            };
            let wanted = desired(&Key::new(&self.namespace, name), widget);
            match found.get(name.as_str()) {
                None => wrong.push(format!("widget {name} has no child")),
                Some(child) if child.data.get("text") != Some(text) => {
                    wrong.push(format!("the child of {name} says {:?}, not {text:?}", child.data.get("text")));
                }
                Some(child) if child.metadata.owner_references != wanted.metadata.owner_references => {
                    wrong.push(format!("the child of {name} belongs to an earlier widget"));
                }
                Some(_) => {}
            }
        }
        wrong.extend(
            found
                .keys()
                .filter(|name| !self.expected.contains_key(**name))
                .map(|name| format!("child {name} has no widget")),
        );
        wrong
    }

    /// Deletes every widget: the controller must then delete every child.
    ///
    /// # Errors
    ///
    /// If the cluster stays away.
    pub fn end_of_days(&mut self) -> Result<(), Failure> {
        for name in self.expected.keys().cloned().collect::<Vec<_>>() {
            self.delete(&name)?;
        }
        Ok(())
    }

    /// Takes away what [`from_arguments`](Self::from_arguments) installed.
    ///
    /// # Errors
    ///
    /// If the cluster stays away.
    pub fn clean_up(mut self) -> Result<(), Failure> {
        let namespaces = self.client.api_of::<DynamicObject>(NAMESPACES);
        let definitions = self.client.api_of::<DynamicObject>(DEFINITIONS);
        let own = Key::new("", &self.namespace);
        patiently("delete the namespace", || gone(namespaces.delete(&own, DeleteOptions::default())))?;
        let widgets = Key::new("", "widgets.example.com");
        patiently("delete the definition", || gone(definitions.delete(&widgets, DeleteOptions::default())))?;
        if let Some(served) = &mut self.served {
            served.stop();
        }
        Ok(())
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { created, changed, deleted, replaced, restarts } = &self.counts;
        write!(
            f,
            "{created} widgets made, {changed} changed, {deleted} deleted, {replaced} replaced by another of the same \
             name, {restarts} restarts of the server"
        )
    }
}

/// What [`World::check`] found to be right.
pub struct Checked {
    /// How many children there are.
    pub children: usize,
}

/// Tries until it works: the server may be away, a definition may not be served yet.
fn patiently(what: &str, mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Failure> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match work() {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= give_up => return Err(format!("cannot {what}: {error}").into()),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A creation whose answer was lost has happened all the same.
fn made<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::Api(refused)) if refused.status.reason == "AlreadyExists" => Ok(()),
        other => other.map(drop),
    }
}

/// The same for a deletion.
fn gone<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

/// A line that moves on a terminal; a line now and then elsewhere.
struct Progress {
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Progress { terminal: io::stdout().is_terminal() }
    }

    fn show(&self, what: &str, done: usize, all: usize) {
        if self.terminal {
            print!("\r{what}: {done}/{all}    ");
            let _ = io::stdout().flush();
        } else if done.is_multiple_of(200) || done == all {
            println!("{what}: {done}/{all}");
        }
    }

    fn end(&self) {
        if self.terminal {
            println!();
        }
    }
}
