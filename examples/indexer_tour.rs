//! A tour of indexes: a dozen pods in a store, found by language, by service type, by priority and by label, without any
//! network.
//!
//! ```text
//! cargo run --release --example indexer_tour
//! ```
//!
//! It is the core's [`Store`] that is shown here. An informer keeps one up to date and adds locks: there the same calls
//! are `informer.index("language", …)`, `informer.label_index("language")` and `lister.pages(5)`.

use informer_core::lister::{ListId, Lister, PageToken, View};
use informer_core::object::Meta;
use informer_core::selector::LabelSelector;
use informer_core::store::{IndexDef, IndexError, IndexValue, Store};
use informer_core::{Key, Obj, Object, ObjectMeta, Resource, Uid, Version};
use serde::Deserialize;
use std::borrow::Cow;
use std::error::Error;

/// As much of a pod as the tour needs.
#[derive(Deserialize)]
struct Pod {
    metadata: ObjectMeta,
    priority: u8,
}

impl Object for Pod {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("", "v1", "pods", "Pod")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What a pod serves: values of an index may be of a type of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Service {
    Api,
    Cache,
    Web,
}

impl Service {
    const ALL: [Service; 3] = [Service::Api, Service::Cache, Service::Web];
}

impl IndexValue for Service {
    type Query = Service;

    fn to_text(service: &Service) -> Cow<'_, str> {
        Cow::Borrowed(match service {
            Service::Api => "api",
            Service::Cache => "cache",
            Service::Web => "web",
        })
    }

    fn from_text(text: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|service| Service::to_text(service) == text)
    }
}

/// One value or none: the label.
fn language(pod: &Obj<Pod>) -> Option<String> {
    pod.metadata().label("language").map(String::from)
}

/// None, one or several: the annotation is a list.
fn services(pod: &Obj<Pod>) -> Vec<Service> {
    let list = pod.metadata().annotation("services").unwrap_or_default();
    list.split(',').filter_map(Service::from_text).collect()
}

/// Name, language, services, priority.
type Row = (&'static str, &'static str, &'static str, u8);

const PODS: [Row; 12] = [
    ("shop/cart", "go", "api,cache", 5),
    ("shop/catalog", "rust", "api", 5),
    ("shop/checkout", "java", "api", 9),
    ("shop/front", "typescript", "web", 5),
    ("shop/images", "rust", "web,cache", 3),
    ("shop/search", "rust", "api,cache", 5),
    ("blog/comments", "python", "api", 3),
    ("blog/feed", "go", "web", 3),
    ("blog/front", "typescript", "web", 3),
    ("blog/sessions", "go", "cache", 5),
    ("ops/backup", "go", "", 1),
    ("ops/pause", "", "", 0),
];

fn pod(row: Row, version: u32) -> Result<Obj<Pod>, Box<dyn Error>> {
    let (key, language, services, priority) = row;
    let key: Key = key.parse()?;
    let language = if language.is_empty() { String::from("{}") } else { format!(r#"{{"language":"{language}"}}"#) };
    let json = format!(
        r#"{{"metadata":{{"namespace":"{}","name":"{}","labels":{language},"annotations":{{"services":"{services}"}}}},
            "priority":{priority}}}"#,
        key.namespace(),
        key.name()
    );
    let pod = Pod::decode(json.as_bytes(), &Pod::resource())?;
    let uid = Uid::new(&format!("uid-of-{key}"));
    Ok(Obj::new(key, uid, Version::new(&version.to_string()), pod))
}

/// The keys of some pods, sorted, on one line.
fn keys<'a>(pods: impl Iterator<Item = &'a Obj<Pod>>) -> String {
    let mut keys: Vec<_> = pods.map(|pod| pod.key().as_str()).collect();
    keys.sort_unstable();
    if keys.is_empty() { String::from("none") } else { keys.join(" ") }
}

/// The values of an index with the number of their pods, sorted, on one line.
fn values(store: &Store<Pod>, index: &str) -> Result<String, IndexError> {
    let mut values: Vec<_> = store.index_values(index)?.map(|(value, pods)| format!("{value}({pods})")).collect();
    values.sort_unstable();
    Ok(values.join(" "))
}

/// Prints a line, and holds it against what it should be.
fn show(what: &str, found: &str, expected: &str) {
    println!("  {what:<34} {found}");
    assert_eq!(found, expected, "{what}");
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut store = Store::new(7);
    store.add_index(IndexDef::new("language", language))?;
    store.add_index(IndexDef::new("service", services))?;
    for (version, row) in PODS.into_iter().enumerate() {
        store.upsert(pod(row, 1 + version as u32)?);
    }

    println!("A dozen pods, two indexes:");
    let mut names: Vec<_> = store.index_names().collect();
    names.sort_unstable();
    show("indexes", &names.join(" "), "language service");
    show("values of language", &values(&store, "language")?, "go(4) java(1) python(1) rust(3) typescript(2)");
    show("values of service", &values(&store, "service")?, "api(5) cache(4) web(4)");
    let rust = keys(store.by_index("language", "rust")?);
    show("in rust", &rust, "shop/catalog shop/images shop/search");
    let images = store.get("shop/images").ok_or("it was just listed")?;
    show("one of them", &format!("{images:?} {:?}", services(images)), "shop/images@5 [Web, Cache]");
    // One pod may stand under several values, and is the same object there.
    let cache = keys(store.by_value::<Service>("service", &Service::Cache)?);
    show("a cache", &cache, "blog/sessions shop/cart shop/images shop/search");
    let web = keys(store.by_value::<Service>("service", &Service::Web)?);
    show("on the web", &web, "blog/feed blog/front shop/front shop/images");
    show("in a language nobody uses", &keys(store.by_index("language", "cobol")?), "none");
    let error = store.by_index("colour", "red").map(keys).unwrap_err().to_string();
    show("in an index that is not there", &error, "there is no index \"colour\": add it to the informer first");

    println!("Indexes that come later hold what is there already:");
    store.add_index(IndexDef::new("priority", |pod: &Obj<Pod>| pod.priority))?;
    show("values of priority", &values(&store, "priority")?, "0(1) 1(1) 3(4) 5(5) 9(1)");
    show("of priority 9", &keys(store.by_value::<u8>("priority", &9)?), "shop/checkout");
    store.add_index(IndexDef::namespace())?;
    store.add_index(IndexDef::label("language"))?;
    let selector: LabelSelector = "language in (go, rust), language != java".parse()?;
    let selection = Lister::new(&store).select("shop", &selector);
    show("looked at for the selector", &selection.candidates().to_string(), "6");
    show("go or rust in the shop", &keys(selection.objects()), "shop/cart shop/catalog shop/images shop/search");

    println!("What changes moves, what is deleted goes:");
    store.upsert(pod(("blog/comments", "rust", "api,web", 3), 13)?);
    show("in rust", &keys(store.by_index("language", "rust")?), &format!("blog/comments {rust}"));
    show("values of language", &values(&store, "language")?, "go(4) java(1) rust(4) typescript(2)");
    show("on the web", &keys(store.by_index("service", "web")?), &format!("blog/comments {web}"));
    let deleted = store.remove("shop/checkout").ok_or("it was there")?;
    show("deleted", deleted.key().as_str(), "shop/checkout");
    show("of priority 9", &keys(store.by_value::<u8>("priority", &9)?), "none");
    show("values of language", &values(&store, "language")?, "go(4) rust(4) typescript(2)");

    println!("Pages of one instant:");
    let list = ListId::new("pods", "", &LabelSelector::everything());
    let view = View::new(list, 1, store.version().to_version(), store.iter().cloned().collect());
    let first = view.page(4, None)?;
    show("first page", &keys(first.objects.iter()), "blog/comments blog/feed blog/front blog/sessions");
    let kept = first.next.ok_or("seven follow")?.to_string();
    println!("  a client keeps                     {kept}");
    store.remove("ops/backup");
    let second = view.page(4, Some(&kept.parse::<PageToken>()?))?;
    show("second page, though it changed", &keys(second.objects.iter()), "ops/backup ops/pause shop/cart shop/catalog");
    let later = View::new(list, 2, store.version().to_version(), store.iter().cloned().collect());
    let second = later.page(4, Some(&kept.parse::<PageToken>()?))?;
    assert!(second.moved, "the client is told that it is of another instant");
    show("the same of a later instant", &keys(second.objects.iter()), "ops/pause shop/cart shop/catalog shop/front");

    println!("checked: every line above");
    Ok(())
}
