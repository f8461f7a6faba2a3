//! What is read of a cache: by namespace, where there are namespaces and where there are none, by index, and again.

use super::*;
use informer_core::Version;
use informer_core::store::Seen;
use informer_runtime::lister::Lister;
use std::collections::BTreeSet;

fn nodes() -> Resource {
    Resource::cluster("", "v1", "nodes", "Node")
}

fn node(name: &str, version: &str) -> String {
    object(name, version, "").replace(r#""namespace":"web","#, "").replace("\"Pod\"", "\"Node\"")
}

/// With a namespace of choice.
fn within(namespace: &str, name: &str, version: u32) -> String {
    object(name, &version.to_string(), "x").replace("\"web\"", &format!("{namespace:?}"))
}

#[test]
fn b081_of_an_object_that_was_made_again_unseen_no_index_has_the_first_one() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let by_label = informer.label_index("l");
    let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    hand.answer_list("5", &[object("a", "5", "first")]);
    let watch = hand.last.unwrap();
    hand.tell(IoEvent::Body(watch, br#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}"#));
    hand.now = Time::from_millis(4_000);
    hand.tell(IoEvent::Tick);
    hand.answer_list("9", &[object("a", "8", "second").replace("u-a", "another")]);
    let told = told(&mut deliveries);
    assert_eq!(told, ["added web/a@5", "synced", "deleted web/a@5 (final state unknown)", "added web/a@8"]);
    assert_eq!((by_label.values(), by_label.get("second").len()), (vec!["second".to_string()], 1));
    assert!(by_label.get("first").is_empty());
}

#[test]
fn b091_an_object_that_an_index_function_fails_on_is_put_aside_until_it_is_good_or_gone() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&failures);
    let factory = factory_with(FactoryOptions::observed(Arc::new(move |event: &Observed<'_>| {
        if let Observed::Notice { notice: Notice::Failure(failure), .. } = event {
            told.lock().push(failure.to_string());
        }
    })));
    let informer = factory.informer(spec()).unwrap();
    let label = |object: &Obj<DynamicObject>| {
        let text = object.json();
        let from = text.find("\"l\":\"").unwrap() + 5;
        text[from..from + text[from..].find('"').unwrap()].to_string()
    };
    let indexes = [
        informer.index("first", label),
        informer.index("picky", move |object: &Obj<DynamicObject>| {
            assert_ne!(label(object), "odd", "a panic that belongs to the test");
            label(object)
        }),
        informer.index("last", label),
    ];
    let values = || {
        let values: BTreeSet<_> = indexes.iter().map(|index| index.values()).collect();
        assert_eq!(values.len(), 1, "all three say the same: {values:?}");
        values.into_iter().next().unwrap()
    };
    let reported = |object: &str| {
        let failures = std::mem::take(&mut *failures.lock());
        assert_eq!(failures.len(), 1, "once: {failures:?}");
        assert!(
            failures[0].contains(object) && failures[0].contains("the function of index \"picky\" panicked"),
            "{failures:?}"
        );
    };
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    hand.answer_list("5", &[object("a", "5", "x"), object("b", "5", "odd")]);
    assert!(informer.has_synced(), "the list stands without it");
    assert_eq!((versions(&informer), values()), (vec!["web/a@5".to_string()], vec!["x".to_string()]));
    reported("web/b at version 5");
    hand.watch("MODIFIED", "b", 6, "y");
    assert_eq!(
        (versions(&informer), values()),
        (vec!["web/a@5".into(), "web/b@6".into()], vec!["x".into(), "y".into()])
    );
    hand.watch("MODIFIED", "a", 7, "odd");
    reported("web/a at version 7");
    assert_eq!((versions(&informer).concat(), values()), ("web/a@5web/b@6".into(), vec!["x".into(), "y".into()]));
    hand.watch("DELETED", "a", 8, "odd");
    hand.watch("MODIFIED", "b", 9, "odd");
    assert_eq!((versions(&informer).concat(), values()), ("web/b@6".into(), vec!["y".into()]), "what is gone is gone");
    hand.watch("MODIFIED", "b", 10, "z");
    assert_eq!((versions(&informer).concat(), values()), ("web/b@10".into(), vec!["z".into()]));
}

/// What comes takes the places of what went, which were another namespace's.
#[test]
fn b095_a_namespace_is_read_whole_and_alone_while_objects_of_others_come_and_go() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    let stay = (0..50).map(|n| within("stay", &format!("s{n}"), 5));
    let go = (0..10).map(|n| within("even", &format!("p{n}"), 5));
    hand.answer_list("5", &stay.chain(go).collect::<Vec<_>>());
    let watch = hand.last.unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (lister, all) = (informer.lister(), LabelSelector::everything());
                for _ in 0..200 {
                    for (namespace, least, most) in [("stay", 50, 50), ("even", 0, 10), ("odd", 0, 10)] {
                        let lister = lister.namespace(namespace);
                        let pages: Vec<_> = lister.pages(7).iter().flat_map(|page| page.objects).collect();
                        for objects in [lister.list().into_vec(), lister.matching(&all).into_vec(), pages] {
                            assert!(objects.iter().all(|object| object.key().namespace() == namespace), "{objects:?}");
                            assert!((least..=most).contains(&objects.len()), "{} of {namespace}", objects.len());
                        }
                    }
                }
            });
        }
        for round in 1..60_u32 {
            let [from, to] = if round % 2 == 0 { ["odd", "even"] } else { ["even", "odd"] };
            for n in 0..10 {
                for (kind, namespace, later) in [("DELETED", from, 0), ("ADDED", to, 1)] {
                    let object = within(namespace, &format!("p{n}"), 20 * round + 2 * n + later);
                    let event = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
                    hand.tell(IoEvent::Body(watch, event.as_bytes()));
                }
            }
        }
    });
    assert_eq!((informer.lister().namespace("odd").len(), informer.lister().namespace("even").len()), (10, 0));
}

#[test]
fn b097_a_node_is_found_whatever_namespace_is_named_beside_it() {
    let factory = factory();
    let informer = factory.informer(InformerSpec::<DynamicObject>::of(nodes()).strategy(ListStrategy::Paged)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    hand.answer_list_of("Node", "5", &[node("a", "5"), node("b", "5")]);
    let (lister, own) = (informer.lister(), informer.own_writes());
    for key in [Key::new("", "a"), Key::new("web", "a")] {
        for found in [lister.get(&key), lister.namespace("web").get(&key), own.get(&key)] {
            assert_eq!(found.unwrap_or_else(|| panic!("{key} is not gone")).key().as_str(), "a");
        }
        let seen = informer.wait_for(&key, &Version::new("5"), Duration::ZERO).unwrap();
        assert!(matches!(&seen, Seen::Present(object) if object.key().as_str() == "a"), "{key}: {seen:?}");
    }
    assert!(lister.namespace("web").named("a").is_some() && lister.named("a").is_some());
    assert!(lister.get(&Key::new("web", "c")).is_none());
    let web = lister.namespace("web");
    let all = LabelSelector::everything();
    let read =
        [web.len(), web.list().len(), web.matching(&all).len(), web.pages(1).len(), own.matching("web", &all).len()];
    assert_eq!(read, [2; 5], "no part of it is in a namespace");
    own.deleted(Key::new("web", "a"), lister.named("a").unwrap().uid().to_uid(), Version::new("9")).unwrap();
    assert!(own.get(&Key::new("", "a")).is_none());
    own.forget(&Key::new("web", "a"));
    assert!(own.get(&Key::new("", "a")).is_some());
}

#[test]
fn b098_nodes_of_three_namespaces_are_one_informer_with_each_node_once() {
    let factory = factory();
    let spec = || InformerSpec::<DynamicObject>::of(nodes()).strategy(ListStrategy::Paged);
    let same = [spec().namespace("a"), spec().namespace("b"), spec().namespace(""), spec()]
        .map(|spec| factory.informer(spec).unwrap());
    let handlers = same.each_ref().map(|informer| informer.channel(HandlerOptions::default()));
    let mut hand = Hand::take(&factory);
    let (sent, _) = hand.tell(IoEvent::Start);
    assert_eq!(sent[0].target(), "/api/v1/nodes?limit=500&resourceVersion=0");
    hand.answer_list_of("Node", "5", &["a", "b", "c", "d"].map(|name| node(name, "5")));
    for (informer, (_, mut deliveries)) in same.iter().zip(handlers) {
        assert_eq!(informer.lister().list().len(), 4);
        let mut told = told(&mut deliveries);
        told.sort();
        assert_eq!(told, ["added a@5", "added b@5", "added c@5", "added d@5", "synced"], "each node once");
    }
}

#[test]
fn b099_whatever_is_read_a_hundred_times_is_the_same_each_time() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (index, lister) = (informer.label_index("l"), informer.lister());
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    let (web, own, selector) = (lister.namespace("web"), informer.own_writes(), "l in (x,)".parse().unwrap());
    for _ in 0..100 {
        let lengths = [
            lister.list().len(),
            web.list().len(),
            lister.matching(&selector).len(),
            web.matching(&selector).len(),
            index.get("").len(),
            index.keys("").len(),
            index.count(""),
            lister.pages(2).len(),
            lister.pages_matching(&selector, 2).iter().map(|page| page.objects.len()).sum(),
            own.list().len(),
            own.matching("web", &selector).len(),
            lister.snapshot().iter().count(),
        ];
        assert_eq!(lengths, [3; 12]);
        assert_eq!(index.values(), [""]);
    }
}

/// As text it would be none, and the server would send everything.
#[test]
#[should_panic = "a selector that selects something"]
fn b107_a_selector_of_nothing_makes_no_informer() {
    _ = spec().labels(&LabelSelector::nothing());
}

#[test]
fn b097_given_objects_without_namespaces_are_read_as_those_of_an_informer_of_nodes() {
    let node = |name: &str| {
        let json = node(name, "5");
        Obj::of(DynamicObject::decode(json.as_bytes(), &nodes()).unwrap()).unwrap()
    };
    let nodes = Lister::of([node("a"), node("b")]);
    for key in [Key::new("", "a"), Key::new("web", "a")] {
        for lister in [nodes.clone(), nodes.namespace("web")] {
            assert!(lister.get(&key).is_some_and(|node| node.key().as_str() == "a"), "{key} is not gone");
        }
    }
    assert_eq!((nodes.namespace("web").len(), nodes.namespace("web").pages(1).len()), (2, 2));
    let token = nodes.namespace("web").pages(1).first().next.unwrap().to_string();
    assert_eq!(nodes.page_after(&token, 1).unwrap().objects.len(), 1, "one list, however it is named");

    let pod = Obj::of(DynamicObject::decode(object("a", "5", "").as_bytes(), &pods()).unwrap()).unwrap();
    let pods = Lister::of([pod]);
    assert!(pods.get(&Key::new("other", "a")).is_none() && pods.get(&Key::new("", "a")).is_none());
    assert_eq!((pods.namespace("web").len(), pods.namespace("other").len()), (1, 0));
}

#[test]
fn b102_without_managed_fields_nobody_has_them_and_a_change_of_them_alone_is_an_update() {
    let factory = factory();
    let strip = |object: DynamicObject| Ok(object.without(&["metadata", "managedFields"]));
    let [whole, stripped] =
        [spec().namespace("web"), spec().transform(strip)].map(|spec| factory.informer(spec).unwrap());
    let hand = |drive| Hand { drive, last: None, paused: None, now: Time::ZERO };
    let mut hands: Vec<_> = factory.take_unstarted().into_iter().map(hand).collect();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let (_registration, mut handler) = stripped.handler(HandlerOptions::default(), move |event: &Notification<_>| {
        let of = |object: &Obj<DynamicObject>| (object.version().to_string(), object.json().to_string());
        log.lock().push((event.old().map(of), of(event.object())));
    });
    let managed = |version: &str, manager: &str| {
        let fields =
            format!(r#""uid":"u-a","managedFields":[{{"manager":"{manager}","fieldsV1":"{}"}}]"#, "f".repeat(1_000));
        object("a", version, "").replace(r#""uid":"u-a""#, &fields)
    };
    for hand in &mut hands {
        hand.tell(IoEvent::Start);
        hand.answer_list("5", &[managed("5", "kubectl")]);
        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", managed("6", "controller"));
        hand.tell(IoEvent::Body(hand.last.expect("a watch is open"), event.as_bytes()));
    }
    while let Step::Delivered = handler.step() {}
    let plain = |version: &str| (version.to_string(), object("a", version, ""));
    assert_eq!(*told.lock(), [(None, plain("5")), (Some(plain("5")), plain("6"))]);
    let kept = |informer: &InformerHandle<DynamicObject>| informer.lister().get(&key("a")).unwrap().json().len();
    assert_eq!(kept(&whole) - kept(&stripped), managed("6", "controller").len() - object("a", "6", "").len());
}
