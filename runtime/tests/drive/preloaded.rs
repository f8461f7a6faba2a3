//! An informer that begins with the state of an earlier run.

use super::*;
use informer_core::saved::Saved;
use informer_core::{Object, Version};

fn built(json: &str) -> Obj<DynamicObject> {
    Obj::of(DynamicObject::decode(json.as_bytes(), &pods()).unwrap()).unwrap()
}

fn saved(objects: &[String], version: &str) -> Saved<DynamicObject> {
    Saved::new("pods", objects.iter().map(|json| built(json)), Version::new(version))
}

#[test]
fn readers_have_the_saved_state_at_once_and_handlers_are_told_what_changed_since() {
    let factory = factory();
    let objects = [object("a", "3", ""), object("b", "4", ""), object("c", "5", "")];
    let informer = factory.informer(spec().preloaded(saved(&objects, "9"))).unwrap();
    let (registration, mut deliveries) = informer.channel(HandlerOptions::default());
    assert_eq!(versions(&informer), ["web/a@3", "web/b@4", "web/c@5"]);
    assert_eq!(informer.lister().namespace("web").list().len(), 3, "indexes have it, too");
    let mut hand = Hand::take(&factory);
    let (sent, _) = hand.tell(IoEvent::Start);
    assert_eq!(sent[0].target(), "/api/v1/pods?resourceVersion=9");
    assert!(!informer.has_synced() && told(&mut deliveries).is_empty() && factory.lagging().len() == 1);

    hand.answer_list("12", &[object("a", "3", ""), object("b", "10", ""), object("d", "11", "")]);
    assert!(informer.has_synced() && factory.lagging().is_empty());
    let mut told_now = told(&mut deliveries);
    told_now[..3].sort();
    let difference = ["deleted web/c@5 (final state unknown)", "updated web/b@10 (was 4)", "added web/d@11", "synced"];
    assert_eq!(told_now, [&["added web/a@3", "added web/b@4", "added web/c@5"][..], &difference[..]].concat());
    assert!(!registration.has_synced(), "it is not marked before the loop says so");

    let (_late, mut deliveries) = informer.channel(HandlerOptions::default());
    hand.tell(IoEvent::Tick);
    let mut late = told(&mut deliveries);
    late[..3].sort();
    assert_eq!(late, ["added web/a@3", "added web/b@10", "added web/d@11", "synced"]);
    hand.watch("DELETED", "a", 13, "");
    assert_eq!(told(&mut deliveries), ["deleted web/a@13"]);
}

/// Every pair of what was saved and what is listed.
#[test]
fn each_handler_sees_a_legal_sequence_that_ends_with_what_is_listed() {
    let object = |uid: &str, version: &str| incarnation("a", uid, version);
    let lists = [None, Some(object("u1", "5")), Some(object("u1", "6")), Some(object("u2", "7"))];
    let expected: [&[&str]; 4] = [
        &["added web/a@5", "deleted web/a@5 (final state unknown)", "synced"],
        &["added web/a@5", "synced"],
        &["added web/a@5", "updated web/a@6 (was 5)", "synced"],
        &["added web/a@5", "deleted web/a@5 (final state unknown)", "added web/a@7", "synced"],
    ];
    for had in [false, true] {
        for (list, expected) in lists.iter().zip(expected) {
            let factory = factory();
            let before: Vec<_> = had.then(|| object("u1", "5")).into_iter().collect();
            let informer = factory.informer(spec().preloaded(saved(&before, "9"))).unwrap();
            let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
            let mut hand = Hand::take(&factory);
            hand.tell(IoEvent::Start);
            hand.answer_list("12", list.as_slice());
            let told = told(&mut deliveries);
            match list {
                _ if had => assert_eq!(told, expected, "{list:?}"),
                Some(_) => assert_eq!((told.len(), told[1].as_str()), (2, "synced"), "{told:?}"),
                None => assert_eq!(told, ["synced"]),
            }
            assert_eq!(informer.lister().len(), list.iter().count());
        }
    }
}

#[test]
fn what_is_unchanged_is_neither_decoded_nor_transformed_again() {
    let factory = factory();
    let decoded = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&decoded);
    let transform = move |object: DynamicObject| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(object)
    };
    let objects: Vec<_> = ["a", "b", "c"].iter().map(|name| object(name, "5", "")).collect();
    let informer = factory.informer(spec().transform(transform).preloaded(saved(&objects, "9"))).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    let before = informer.lister().get(&key("a")).unwrap();
    hand.answer_list("12", &[object("a", "5", ""), object("b", "11", ""), object("c", "5", "")]);
    assert_eq!(decoded.load(Ordering::Relaxed), 1);
    assert!(Obj::ptr_eq(&before, &informer.lister().get(&key("a")).unwrap()));
}

#[test]
fn a_handler_that_comes_while_the_first_list_is_read_begins_with_the_saved_state_too() {
    let factory = factory();
    let informer = factory.informer(spec().preloaded(saved(&[object("a", "5", "")], "9"))).unwrap();
    let mut hand = Hand::take(&factory);
    let (sent, _) = hand.tell(IoEvent::Start);
    hand.tell(IoEvent::Head(sent[0].id, &Head::new(200)));
    let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let (removed, mut nothing) = informer.channel(HandlerOptions::default());
    hand.tell(IoEvent::Tick);
    removed.remove();
    hand.answer_list("12", &[]);
    assert_eq!(told(&mut deliveries), ["added web/a@5", "deleted web/a@5 (final state unknown)", "synced"]);
    assert!(told(&mut nothing).is_empty());
}

#[test]
fn a_server_that_was_set_back_since_is_believed() {
    let factory = factory();
    let informer =
        factory.informer(spec().preloaded(saved(&[object("a", "95", ""), object("b", "7", "")], "100"))).unwrap();
    let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let mut hand = Hand::take(&factory);
    let (sent, _) = hand.tell(IoEvent::Start);
    let too_large = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,
        "message":"Too large resource version: 100, current: 50","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
    hand.tell(IoEvent::Head(sent[0].id, &Head::new(504)));
    hand.tell(IoEvent::Body(sent[0].id, too_large.as_bytes()));
    let (sent, deadline) = hand.tell(IoEvent::End(sent[0].id, &End::Closed));
    if sent.is_empty() {
        hand.now = deadline.expect("it tries again").at;
        hand.tell(IoEvent::Tick);
    }
    hand.answer_list("50", &[object("b", "7", ""), object("c", "40", "")]);
    assert_eq!(versions(&informer), ["web/b@7", "web/c@40"]);
    let mut told = told(&mut deliveries);
    told.sort();
    assert_eq!(
        told,
        ["added web/a@95", "added web/b@7", "added web/c@40", "deleted web/a@95 (final state unknown)", "synced"]
    );
}

#[test]
fn the_state_of_one_run_is_written_as_lines_and_begins_the_next() {
    let first = factory();
    let informer = first.informer(spec()).unwrap();
    assert!(informer.saved().is_none());
    let mut hand = Hand::take(&first);
    hand.list(&["a", "b"]);
    hand.watch("MODIFIED", "b", 6, "");
    let saved = informer.saved().unwrap();
    let lines: Vec<String> = saved.lines(|pod| Ok(pod.json().to_string())).collect::<Result<_, _>>().unwrap();

    let second = factory();
    let read = |spec: &InformerSpec<DynamicObject>| {
        spec.read_saved(lines.iter().map(String::as_str), |json| DynamicObject::decode(json.as_bytes(), &pods()))
    };
    let saved = read(&spec()).unwrap();
    let elsewhere = read(&spec().namespace("web")).unwrap_err().to_string();
    assert!(elsewhere.starts_with("the saved state is that of pods, not of pods in namespace \"web\""), "{elsewhere}");
    let elsewhere = second.informer(spec().namespace("web").preloaded(saved.clone())).unwrap_err().to_string();
    assert!(elsewhere.starts_with("the saved state is that of pods, not of pods in namespace \"web\""), "{elsewhere}");
    let again = second.informer(spec().preloaded(saved)).unwrap();
    assert_eq!((versions(&again), again.lister().version()), (versions(&informer), "6".to_string()));
    assert!(again.saved().is_some(), "a run that never reached its server can be saved as it began");
}

#[test]
fn a_state_in_another_form_is_refused_where_it_is_read_and_where_the_informer_is_asked_for() {
    let first = factory();
    let informer = first.informer(spec().schema("pods v1")).unwrap();
    Hand::take(&first).list(&["a"]);
    let saved = informer.saved().unwrap();
    assert_eq!(saved.schema(), "pods v1");
    let lines: Vec<String> = saved.lines(|pod| Ok(pod.json().to_string())).collect::<Result<_, _>>().unwrap();
    let read = |spec: InformerSpec<DynamicObject>| {
        spec.read_saved(lines.iter().map(String::as_str), |json| DynamicObject::decode(json.as_bytes(), &pods()))
    };
    assert!(read(spec().schema("pods v1")).is_ok());
    let by_type = std::any::type_name::<DynamicObject>();
    for (spec, wanted) in [(spec().schema("pods v2"), "pods v2"), (spec(), by_type)] {
        let expected =
            format!("the objects of the saved state are of the form pods v1, not {wanted}: begin without it");
        assert_eq!(factory().informer(spec.preloaded(saved.clone())).unwrap_err().to_string(), expected);
    }
    assert!(read(spec().schema("pods v2")).is_err() && read(spec()).is_err());
    let of_a_type = spec().read_saved(
        [r#"{"informerState":1,"of":"pods","schema":"mine::Pod","resourceVersion":"9","objects":0}"#],
        |json| DynamicObject::decode(json.as_bytes(), &pods()),
    );
    assert!(of_a_type.unwrap_err().to_string().contains("are of the form mine::Pod, not informer_core::"));
}
