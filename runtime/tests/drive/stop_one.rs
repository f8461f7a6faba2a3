//! One informer leaves, and the others go on.

use super::*;
use informer_runtime::roster::Leased;

/// The actions of a driver that looks for what to do.
fn actions(drive: &mut dyn Drive, event: IoEvent<'_>) -> Vec<&'static str> {
    drive.handle(Time::ZERO, event);
    let mut actions = Vec::new();
    loop {
        match drive.poll(Time::ZERO) {
            IoAction::Wait(_) => return actions,
            IoAction::Send(_) => actions.push("send"),
            IoAction::Cancel(_) => actions.push("cancel"),
            IoAction::Pause(_) | IoAction::Resume(_) => actions.push("flow"),
        }
    }
}

fn other() -> InformerSpec<DynamicObject> {
    spec().namespace("other")
}

#[test]
fn an_informer_that_is_stopped_cancels_its_request_and_ends_its_handlers_and_no_others() {
    let factory = factory();
    let (one, two) = (factory.informer(spec()).unwrap(), factory.informer(other()).unwrap());
    let (mut mine, mut its) = (one.channel(HandlerOptions::named("mine")), two.channel(HandlerOptions::named("its")));
    let mut drives = factory.take_unstarted();
    drives.iter_mut().for_each(|drive| drop(actions(&mut **drive, IoEvent::Start)));
    one.request_stop();
    one.request_stop(); // a second time changes nothing
    let acted: Vec<_> = drives.iter_mut().map(|drive| actions(&mut **drive, IoEvent::Tick)).collect();
    assert_eq!(acted.concat(), ["cancel"]);
    assert!(one.is_stopped() && !two.is_stopped());
    assert!(matches!(mine.1.try_next(), Next::Closed) && matches!(its.1.try_next(), Next::Empty(_)));
    let lagging: Vec<_> = factory.lagging().into_iter().map(|one| one.subject).collect();
    assert_eq!(lagging, ["pods in namespace \"other\""], "nobody waits for what was stopped");
}

#[test]
fn b060_a_stopped_informer_that_is_asked_for_again_is_a_fresh_one_with_any_options() {
    let factory = factory();
    let first = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    first.request_stop();
    let second = factory.informer(spec().strict()).unwrap();
    assert!(!second.has_synced() && second.lister().is_empty() && first.lister().len() == 1);
    hand.tell(IoEvent::Tick);
    assert!(first.is_stopped() && !second.is_stopped());
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    assert_eq!((first.lister().len(), second.lister().len()), (1, 2));
    first.request_stop();
    hand.tell(IoEvent::Tick);
    assert!(!second.is_stopped(), "the one that was stopped does not stop its successor");
}

#[test]
fn an_informer_that_is_stopped_before_its_start_never_runs() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (registration, mut deliveries) = informer.channel(HandlerOptions::default());
    informer.request_stop();
    assert!(factory.take_unstarted().is_empty() && factory.lagging().is_empty());
    assert!(informer.is_stopped() && matches!(deliveries.try_next(), Next::Closed));
    drop(deliveries);
    assert!(registration.is_finished());
    assert_eq!(informer.lives().count(), 0);
}

#[test]
fn an_informer_that_is_stopped_on_its_way_to_the_driver_sends_nothing() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    informer.request_stop();
    let (sent, deadline) = hand.tell(IoEvent::Start);
    assert!(sent.is_empty() && deadline.is_none() && informer.is_stopped());
}

#[test]
fn a_leased_informer_goes_with_its_last_lease() {
    let factory = factory();
    let lease = || {
        let (handle, lease) = factory.lease(spec()).unwrap();
        Leased::new(handle, lease)
    };
    let (first, second) = (lease(), lease());
    let third = first.clone();
    let watched = InformerHandle::clone(&first);
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    drop(first);
    drop(second);
    hand.tell(IoEvent::Tick);
    assert!(!third.is_stopped());
    drop(third);
    hand.tell(IoEvent::Tick);
    assert!(watched.is_stopped());
    let again = lease();
    assert!(again.lister().is_empty(), "it is a fresh one");
    drop(again);
    assert!(factory.take_unstarted().is_empty());
}

#[test]
fn a_lease_does_not_stop_what_others_asked_for_without_one() {
    let factory = factory();
    let (handle, lease) = factory.lease(spec()).unwrap();
    let pinned = factory.informer(spec()).unwrap();
    drop((handle, lease.clone(), lease));
    assert!(!pinned.is_stopped());
    assert_eq!(factory.take_unstarted().len(), 1);
    // A stop by name counts more than a lease.
    let (handle, lease) = factory.lease(spec()).unwrap();
    let later = lease.clone();
    handle.request_stop();
    drop((lease, later));
    assert_eq!(factory.lagging().len(), 0);
}

#[test]
fn b129_what_is_asked_of_a_stopped_informer_ends_at_once_and_what_it_has_can_be_read() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    informer.request_stop();
    hand.tell(IoEvent::Tick);
    drop(hand);
    let (registration, mut deliveries) = informer.channel(HandlerOptions::default());
    assert!(matches!(deliveries.try_next(), Next::Closed));
    drop(deliveries);
    assert!(registration.is_finished() && !registration.wait_synced(Duration::ZERO).unwrap());
    let by_name = informer.index("name", |object: &Obj<DynamicObject>| object.key().name().to_string());
    assert_eq!((by_name.get("a").len(), versions(&informer)), (1, vec!["web/a@5".to_string()]));
    informer.refresh();
    let error = informer.wait_at_least(&informer_core::Version::new("6"), Duration::ZERO).unwrap_err();
    assert!(matches!(error, Error::Behind(_)) && error.to_string().contains("it was stopped"), "{error}");
    assert_eq!(informer.own_writes().list().len(), 1);
}

#[test]
fn b134_an_informer_that_is_asked_for_after_the_start_says_so_and_a_second_start_starts_it_alone() {
    let factory = factory();
    factory.informer(spec()).unwrap();
    let mut first = Hand::take(&factory);
    first.list(&["a"]);
    factory.wait_synced(Duration::ZERO).unwrap();
    factory.informer(other()).unwrap();
    let error = factory.wait_synced(Duration::ZERO).unwrap_err().to_string();
    assert_eq!(
        error,
        "an informer is not synced in time: pods in namespace \"other\": not started; call start() after asking for an \
         informer"
    );
    let mut second = Hand::take(&factory);
    let (sent, _) = second.tell(IoEvent::Start);
    assert_eq!(sent[0].target(), "/api/v1/namespaces/other/pods?limit=500&resourceVersion=0");
    assert!(factory.take_unstarted().is_empty(), "nothing is started twice");
}

#[test]
fn an_informer_whose_driver_died_is_named_and_who_asks_again_gets_a_fresh_one() {
    let factory = factory();
    for synced in [false, true] {
        let (informer, lease) = factory.lease(spec()).unwrap();
        let mut hand = Hand::take(&factory);
        if synced {
            hand.list(&["a"]);
            factory.wait_synced(Duration::ZERO).unwrap();
        }
        drop(hand); // as a panic does it
        assert!(informer.is_stopped() && informer.has_synced() == synced);
        let [dead] = &factory.lagging()[..] else { panic!("one is dead") };
        assert!(dead.dead && dead.to_string().starts_with("pods: its driver ended by a panic"), "{dead}");
        let error = factory.wait_synced(std::time::Duration::from_secs(60)).unwrap_err().to_string();
        assert!(error.contains("ask the factory for the informer again"), "{error}");

        // Also with other options: there is nothing that it could disagree with.
        let fresh = factory.informer(spec().strict()).unwrap();
        assert!(!fresh.is_stopped() && !fresh.has_synced());
        drop(lease);
        let mut hand = Hand::take(&factory);
        hand.list(&["a", "b"]);
        factory.wait_synced(Duration::ZERO).unwrap();
        assert_eq!((versions(&fresh).len(), versions(&informer).len()), (2, usize::from(synced)));
        fresh.request_stop();
        hand.tell(IoEvent::Tick);
        assert!(fresh.is_stopped() && factory.lagging().is_empty());
    }
}

#[test]
fn a_sync_that_one_informer_holds_up_is_done_when_that_one_is_stopped() {
    let factory = factory();
    let (_good, bad) = (factory.informer(spec()).unwrap(), factory.informer(other()).unwrap());
    let mut drives = factory.take_unstarted();
    let mut started: Vec<Hand> =
        drives.drain(..).map(|drive| Hand { drive, last: None, paused: None, now: Time::ZERO }).collect();
    started[0].list(&["a"]);
    started[1].tell(IoEvent::Start);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| factory.wait_synced(std::time::Duration::from_secs(60)));
        bad.request_stop();
        waiter.join().unwrap().unwrap();
    });
}
