//! What "synced" means, of an informer and of a handler, and that one which is not synced says why and costs the others
//! nothing.

use super::*;

const FORBIDDEN: &str = r#"{"kind":"Status","reason":"Forbidden","message":"no list for \"ci\"","code":403}"#;

/// All that was asked for, each to be driven by itself.
fn hands(factory: &FactoryCore) -> Vec<Hand> {
    let hand = |drive| Hand { drive, last: None, paused: None, now: Time::ZERO };
    factory.take_unstarted().into_iter().map(hand).collect()
}

/// Answers the last request with a failure.
fn refuse(hand: &mut Hand, code: u16, body: &str) {
    let id = hand.last.expect("a request was sent");
    hand.tell(IoEvent::Head(id, &Head::new(code)));
    hand.tell(IoEvent::Body(id, body.as_bytes()));
    hand.tell(IoEvent::End(id, &End::Closed));
}

/// The next request goes out after its wait; what it asks for.
fn after_the_wait(hand: &mut Hand) -> String {
    let (_, deadline) = hand.tell(IoEvent::Tick);
    hand.now = deadline.expect("it is tried again").at;
    let (sent, _) = hand.tell(IoEvent::Tick);
    sent[0].target()
}

#[test]
fn b100_two_namespaces_are_two_paths_and_the_forbidden_one_is_named_while_the_other_is_served() {
    let factory = factory();
    let (web, other) =
        (factory.informer(spec().namespace("web")).unwrap(), factory.informer(spec().namespace("other")).unwrap());
    let [mut served, mut forbidden] = <[Hand; 2]>::try_from(hands(&factory)).ok().expect("there are two");
    let paths: Vec<_> = [&mut served, &mut forbidden]
        .map(|hand| hand.tell(IoEvent::Start).0.iter().map(Request::target).collect::<Vec<_>>())
        .concat()
        .iter()
        .map(|target| target.split('?').next().unwrap().to_string())
        .collect();
    assert_eq!(paths, ["/api/v1/namespaces/web/pods", "/api/v1/namespaces/other/pods"]);
    served.answer_list("5", &[object("a", "5", "")]);
    refuse(&mut forbidden, 403, FORBIDDEN);
    let error = factory.wait_synced(Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("pods in namespace \"other\"") && !error.contains("\"web\""), "{error}");
    assert_eq!((versions(&web), web.has_synced(), other.has_synced()), (vec!["web/a@5".to_string()], true, false));
}

#[test]
fn b113_who_waits_for_a_forbidden_list_is_told_what_was_refused_and_why_and_it_syncs_once_it_is_allowed() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    for _ in 0..3 {
        refuse(&mut hand, 403, FORBIDDEN);
        let error = factory.wait_synced(Duration::ZERO).unwrap_err().to_string();
        for part in ["pods", "list", "403", "no list for \"ci\""] {
            assert!(error.contains(part), "{part:?} is missing: {error}");
        }
        assert!(!informer.has_synced());
        assert!(after_the_wait(&mut hand).starts_with("/api/v1/pods?"), "it goes on asking");
    }
    hand.answer_list("5", &[object("a", "5", "")]);
    factory.wait_synced(Duration::ZERO).unwrap();
    assert!(informer.has_synced());
}

#[test]
fn b114_an_informer_that_cannot_sync_holds_up_no_other_one() {
    let factory = factory();
    let (good, bad) = (factory.informer(spec()).unwrap(), factory.informer(spec().namespace("other")).unwrap());
    let log = Log::default();
    let (registration, mut handler) = log.add(&good, Overflow::default());
    let [mut works, mut fails] = <[Hand; 2]>::try_from(hands(&factory)).ok().expect("there are two");
    fails.tell(IoEvent::Start);
    refuse(&mut fails, 500, "");
    works.list(&["a"]);
    run(&mut handler);
    works.update(6..=6);
    run(&mut handler);
    assert_eq!(log.take(), ["added web/a@5", "updated web/a@6 (was 5)"]);
    assert!(registration.has_synced() && good.has_synced() && !bad.has_synced());
    let lagging: Vec<_> = factory.lagging().into_iter().map(|one| one.subject).collect();
    assert_eq!(lagging, ["pods in namespace \"other\""], "each has an answer of its own");
    assert!(bad.lister().is_empty(), "reading what is not there yet does not wait");
    let behind = bad.wait_at_least(&informer_core::Version::new("1"), Duration::ZERO).unwrap_err();
    assert!(behind.to_string().contains("500"), "{behind}");
}

#[test]
fn b115_what_is_synced_stays_synced_while_it_lists_again_and_its_phase_says_that_it_does() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (registration, mut handler) = Log::default().add(&informer, Overflow::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    run(&mut handler);
    let mut phases = vec![informer.phase()];
    let mut synced = || {
        factory.wait_synced(Duration::ZERO).unwrap();
        assert!(informer.has_synced() && registration.has_synced());
        phases.push(informer.phase());
    };
    refuse(&mut hand, 410, r#"{"kind":"Status","reason":"Expired","code":410}"#);
    synced();
    assert!(after_the_wait(&mut hand).contains("resourceVersion=5"));
    synced();
    refuse(&mut hand, 500, "");
    synced();
    after_the_wait(&mut hand);
    hand.answer_list("9", &[object("b", "8", "")]);
    synced();
    assert_eq!(phases, [Phase::Watching, Phase::Backoff, Phase::Listing, Phase::Backoff, Phase::Watching]);
    assert_eq!(versions(&informer), ["web/b@8"]);
}

#[test]
fn b116_an_informer_is_synced_with_its_list_and_a_handler_with_the_return_of_its_last_call_about_it() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let me: Arc<OnceLock<Registration>> = Arc::default();
    let (inside, calls) = (Arc::clone(&me), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&calls);
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |_: &Notification<_>| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert!(!inside.get().unwrap().has_synced(), "a call about the first list has not returned");
    });
    me.set(registration.clone()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    assert!(!informer.has_synced());
    hand.answer_list("5", &["a", "b", "c"].map(|name| object(name, "5", "")));
    assert!(informer.has_synced() && informer.lister().len() == 3 && !registration.has_synced());
    run(&mut handler);
    assert_eq!((calls.load(Ordering::Relaxed), registration.panics()), (3, 0));
    assert!(registration.has_synced());
}

#[test]
fn b117_an_empty_list_is_a_list_and_what_comes_after_it_is_not_initial() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let mut hand = Hand::take(&factory);
    hand.list(&[]);
    assert!(informer.has_synced());
    assert!(matches!(deliveries.try_next(), Next::Delivery(Lent::Synced)));
    deliveries.mark_synced();
    assert!(registration.has_synced());
    hand.watch("ADDED", "a", 6, "");
    let Next::Delivery(Lent::Notification(first)) = deliveries.try_next() else { panic!("it is told") };
    assert!(matches!(first, Notification::Added { initial: false, cause: Cause::Watch, .. }), "{first:?}");
}

#[test]
fn b118_a_change_that_comes_while_the_first_list_is_told_syncs_nobody_and_is_not_initial() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let initial = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&initial);
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |event: &Notification<_>| {
        let initial = matches!(event, Notification::Added { initial: true, .. });
        told.lock().push((event.key().name().to_string(), initial));
    });
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    assert_eq!(handler.step(), Step::Delivered);
    hand.watch("ADDED", "c", 6, "");
    assert!(!registration.has_synced());
    run(&mut handler);
    assert!(registration.has_synced());
    let initial: Vec<_> = initial.lock().iter().map(|(_, initial)| *initial).collect();
    assert_eq!(initial, [true, true, false]);
}
