//! Types whose `drop` is code of the user's: it may ask what it likes, and its panic costs nobody else anything.

use super::*;
use informer_core::{Uid, Version};
use informer_runtime::acknowledged::{ItemOptions, ItemSource, NextItem};
use informer_runtime::events::{Events, filtered};
use informer_runtime::lister::Lister;
use informer_runtime::mutation::MutationCheck;
use informer_runtime::roster::Leased;
use std::panic::resume_unwind;

type Hook = Arc<Mutex<Option<Box<dyn Fn() + Send + Sync>>>>;

/// A value that calls a function when it is dropped.
struct Noisy {
    hook: Hook,
    of: String,
}

impl Drop for Noisy {
    fn drop(&mut self) {
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook();
            self.hook.lock().get_or_insert(hook);
        }
    }
}

fn noisy(hook: &Hook) -> InformerSpec<Noisy> {
    let hook = Arc::clone(hook);
    spec().transform(move |object: DynamicObject| Ok(Noisy { hook: Arc::clone(&hook), of: object.json().to_string() }))
}

fn set(hook: &Hook, call: impl Fn() + Send + Sync + 'static) {
    *hook.lock() = Some(Box::new(call));
}

/// A list that replaces everything: nobody keeps its notifications but the handlers.
fn relist<T: Send + Sync + 'static>(hand: &mut Hand, informer: &InformerHandle<T>, version: &str, names: &[&str]) {
    informer.refresh();
    hand.tell(IoEvent::Tick);
    let items: Vec<_> = names.iter().map(|name| object(name, version, "")).collect();
    hand.answer_list(version, &items);
}

fn empty(handler: &mut dyn HandlerLoop) {
    while let Step::Delivered = handler.step() {}
}

fn dropped(times: &Arc<AtomicU32>, ask: impl Fn() + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    let times = Arc::clone(times);
    move || {
        ask();
        times.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_handler_drops_what_it_has_passed_under_no_lock_of_its_own() {
    for overflow in [Overflow::default(), Overflow::Pause { limit: 1 }] {
        let (hook, times) = (Hook::default(), Arc::<AtomicU32>::default());
        let factory = factory();
        let informer = factory.informer(noisy(&hook)).unwrap();
        let mut hand = Hand::take(&factory);
        let mut options = HandlerOptions::default();
        options.overflow = overflow;
        let (registration, mut handler) = informer.handler(options, |_: &Notification<_>| {});
        hand.list(&["a", "b", "c", "d"]);
        empty(&mut *handler);
        relist(&mut hand, &informer, "6", &["a", "b", "c", "d"]);
        assert_eq!(registration.pending(), 4);
        // Asking the registration takes the lock of the handler's ring.
        set(&hook, dropped(&times, move || _ = registration.pending()));
        empty(&mut *handler);
        assert_eq!(times.load(Ordering::Relaxed), 4, "it was the last to have them: {overflow:?}");
        hook.lock().take();
    }
}

#[test]
fn a_stream_drops_what_it_has_passed_under_no_lock_of_its_items() {
    let (hook, times) = (Hook::default(), Arc::<AtomicU32>::default());
    let factory = factory();
    let informer = factory.informer(noisy(&hook)).unwrap();
    let mut hand = Hand::take(&factory);
    let items = ItemSource::new(&informer, ItemOptions::default());
    let take = |items: &ItemSource<Noisy>| {
        while let NextItem::Item(item) = items.next_item() {
            assert!(item.object().is_some_and(|object| object.of.contains("Pod")));
            item.done();
        }
    };
    hand.list(&["a", "b"]);
    take(&items);
    relist(&mut hand, &informer, "6", &["a", "b"]);
    take(&items);
    relist(&mut hand, &informer, "7", &["a", "b"]);
    let asked = items.clone();
    set(&hook, dropped(&times, move || _ = asked.waiting()));
    take(&items);
    assert_ne!(times.load(Ordering::Relaxed), 0);
    hook.lock().take(); // it holds a consumer
}

#[test]
fn one_consumer_takes_its_item_while_another_drops_what_it_has_passed() {
    let (hook, times) = (Hook::default(), Arc::<AtomicU32>::default());
    let factory = factory();
    let informer = factory.informer(noisy(&hook)).unwrap();
    let mut hand = Hand::take(&factory);
    let items = ItemSource::new(&informer, ItemOptions::default());
    hand.list(&["a", "b"]);
    let take = || if let NextItem::Item(item) = items.next_item() { Some(item) } else { None };
    // In hand, so that the next step passes over all that was told of them since.
    let in_hand = [take(), take()].map(|item| item.expect("two objects"));
    relist(&mut hand, &informer, "6", &["a", "b"]);
    relist(&mut hand, &informer, "7", &["a", "b"]);
    let other = items.clone();
    set(
        &hook,
        dropped(&times, move || {
            let (other, (told, heard)) = (other.clone(), std::sync::mpsc::channel());
            std::thread::spawn(move || told.send(matches!(other.next_item(), NextItem::Wait(..))));
            assert!(heard.recv_timeout(Duration::from_secs(10)).expect("it need not wait for the one that drops"));
        }),
    );
    assert!(take().is_none());
    assert_eq!(times.load(Ordering::Relaxed), 2, "both objects of version 6");
    hook.lock().take(); // it holds a consumer
    drop(in_hand);
}

#[test]
fn an_object_that_panics_when_it_is_dropped_ends_no_driver_and_no_handler() {
    let hook = Hook::default();
    let factory = factory();
    let informer = factory.informer(noisy(&hook)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    set(&hook, || resume_unwind(Box::new("on purpose"))); // without a line on stderr
    relist(&mut hand, &informer, "6", &["a", "b"]);
    assert_eq!(informer.lister().len(), 2, "the driver goes on");
    let handler = || informer.handler(HandlerOptions::default(), |_: &Notification<_>| {});
    let ((late, mut first), (_, mut second)) = (handler(), handler());
    hand.tell(IoEvent::Tick);
    empty(&mut *first);
    empty(&mut *second);
    relist(&mut hand, &informer, "7", &["a", "b"]);
    empty(&mut *second);
    // The first one has the last handles now, and is closed before the second.
    hand.tell(IoEvent::Stop);
    assert!(late.pending() == 0 && informer.is_stopped());
    assert_eq!([first.step(), second.step()], [Step::Closed; 2]);
    drop(first);
    assert!(late.is_finished());
}

#[test]
fn the_last_state_of_an_object_that_was_never_stored_is_dropped_under_no_lock_of_the_store() {
    let (hook, times) = (Hook::default(), Arc::<AtomicU32>::default());
    let factory = factory();
    let informer = factory.informer(noisy(&hook)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let lister = informer.lister();
    set(&hook, dropped(&times, move || _ = lister.get(&key("a"))));
    hand.watch_all(&[("DELETED", "unknown", 6, ""), ("MODIFIED", "a", 7, "")]);
    assert_eq!(times.load(Ordering::Relaxed), 2);
    assert_eq!(informer.lister().get(&key("a")).unwrap().version(), *"7");
    set(&hook, || resume_unwind(Box::new("on purpose")));
    hand.watch("DELETED", "unknown", 8, "");
    hand.watch("MODIFIED", "a", 9, "");
    assert_eq!(informer.lister().get(&key("a")).unwrap().version(), *"9", "the driver goes on");
    hook.lock().take();
}

#[test]
fn deliveries_that_are_dropped_are_a_handler_that_is_removed_and_hold_up_nothing() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    let mut options = HandlerOptions::default();
    options.overflow = Overflow::Pause { limit: 1 };
    let (registration, deliveries) = informer.channel(options);
    hand.list(&["a"]);
    hand.update(6..=9);
    assert!(hand.paused.is_some(), "more waits than it allows");
    drop(deliveries);
    hand.tell(IoEvent::Tick);
    assert!(hand.paused.is_none() && registration.is_finished() && registration.pending() == 0);
    hand.update(10..=20);
    assert_eq!(versions(&informer), ["web/a@20"]);
}

#[test]
fn a_request_for_an_informer_that_is_there_drops_what_it_brings_under_no_lock() {
    let factory = factory();
    let (namespaces, lease) = factory.lease(spec().namespace("other")).unwrap();
    let namespaces = Leased::new(namespaces, lease);
    // A transform that looks something up keeps what it reads going.
    let asked = || {
        let namespaces = namespaces.clone();
        spec().transform(move |object| Ok((namespaces.lister().len(), object)))
    };
    let first = factory.informer(asked()).unwrap();
    let second = factory.informer(asked()).unwrap();
    let refused = factory.informer(asked().strict());
    assert!(refused.is_err() && first.lister().len() == second.lister().len());
    drop(namespaces);
    assert_eq!(factory.take_unstarted().len(), 2, "the transform holds a lease");
}

/// A value whose drop panics while it is armed, and is counted.
struct Bomb(Arc<Armed>);

#[derive(Default)]
struct Armed {
    now: std::sync::atomic::AtomicBool,
    dropped: AtomicU32,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
        if self.0.now.load(Ordering::Relaxed) {
            resume_unwind(Box::new("on purpose")); // without a line on stderr
        }
    }
}

/// A driver of bombs, whose list is asked for.
fn bombs(spec: InformerSpec<DynamicObject>) -> (FactoryCore, InformerHandle<Bomb>, Hand, Arc<Armed>) {
    let (factory, armed) = (factory(), Arc::<Armed>::default());
    let lit = Arc::clone(&armed);
    let informer = factory.informer(spec.transform(move |_| Ok(Bomb(Arc::clone(&lit))))).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    armed.now.store(true, Ordering::Relaxed);
    (factory, informer, hand, armed)
}

/// What a test leaves behind harms nobody: the store of two bombs would end the process.
impl Armed {
    fn dropped(&self) -> u32 {
        self.now.store(false, Ordering::Relaxed);
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The begin of a list with these objects.
fn begin_list(hand: &mut Hand, names: &[&str]) -> RequestId {
    let id = hand.last.unwrap();
    let items: String = names.iter().map(|name| object(name, "5", "") + ",").collect();
    let list = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"5"}},"items":[{items}"#);
    hand.tell(IoEvent::Head(id, &Head::new(200)));
    hand.tell(IoEvent::Body(id, list.as_bytes()));
    id
}

/// Lets the next request go out.
fn again(hand: &mut Hand) {
    hand.now = hand.now + Duration::from_secs(60);
    hand.tell(IoEvent::Tick);
}

#[test]
fn a_list_that_breaks_off_drops_what_was_read_of_it_and_the_driver_goes_on() {
    let (_factory, informer, mut hand, armed) = bombs(spec());
    let id = begin_list(&mut hand, &["a", "b", "c"]);
    hand.tell(IoEvent::End(id, &End::Broken("reset".into())));
    again(&mut hand);
    hand.answer_list("6", &[object("a", "6", "")]);
    assert_eq!((armed.dropped(), informer.lister().len()), (3, 1));
}

#[test]
fn a_list_that_a_strict_informer_refuses_is_dropped_and_the_driver_goes_on() {
    let (_factory, informer, mut hand, armed) = bombs(spec().strict());
    let bad = object("bad", "5", "").replace("\"labels\"", "\"finalizers\":7,\"labels\"");
    let id = begin_list(&mut hand, &["a", "b"]);
    hand.tell(IoEvent::Body(id, format!("{bad}]}}").as_bytes()));
    hand.tell(IoEvent::End(id, &End::Closed));
    assert!(!informer.has_synced() && informer.last_failure().is_some());
    again(&mut hand);
    hand.answer_list("6", &[object("a", "6", "")]);
    assert_eq!((armed.dropped(), informer.lister().len()), (2, 1));
}

#[test]
fn a_streaming_list_with_a_later_word_about_a_key_drops_the_earlier_one_and_the_driver_goes_on() {
    let (_factory, informer, mut hand, armed) = bombs(spec().strategy(ListStrategy::Streaming));
    let id = hand.last.unwrap();
    hand.tell(IoEvent::Head(id, &Head::new(200)));
    let end = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    hand.watch_all(&[("ADDED", "a", 4, ""), ("ADDED", "b", 5, ""), ("MODIFIED", "a", 6, ""), ("DELETED", "b", 7, "")]);
    hand.tell(IoEvent::Body(id, format!("{end}\n").as_bytes()));
    let dropped = armed.dropped();
    assert_eq!((dropped, informer.lister().len()), (3, 1), "a at 4, b at 5 and its last state");
}

#[test]
fn a_queue_per_key_drops_what_it_need_not_tell_and_the_driver_goes_on() {
    use informer_core::fifo::QueueKind;
    let (_factory, informer, mut hand, armed) = bombs(spec().queue(QueueKind::DeltaFifo));
    hand.answer_list("5", &[object("a", "5", ""), object("b", "5", "")]);
    hand.watch_all(&[("DELETED", "a", 6, ""), ("DELETED", "a", 7, ""), ("MODIFIED", "b", 8, "")]);
    hand.tell(IoEvent::Tick);
    assert!(armed.dropped() >= 1);
    assert_eq!((informer.lister().len(), informer.lister().version().as_str()), (1, "8"));
}

#[test]
fn a_stop_in_the_middle_of_a_list_drops_what_was_read_and_ends_well() {
    let (_factory, informer, mut hand, armed) = bombs(spec());
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), |_: &Notification<_>| {});
    begin_list(&mut hand, &["a", "b", "c"]);
    hand.tell(IoEvent::Stop);
    drop(hand);
    assert!(informer.is_stopped());
    assert_eq!(handler.step(), Step::Closed);
    drop(handler);
    assert!(registration.is_finished());
    assert_eq!(armed.dropped(), 3);
}

#[test]
fn an_object_that_an_index_refuses_is_dropped_and_the_driver_goes_on() {
    let (_factory, informer, mut hand, armed) = bombs(spec());
    let refuses = |object: &Obj<Bomb>| assert_ne!(object.key().name(), "b", "a panic that belongs to the test");
    informer
        .try_index("i", move |object: &Obj<Bomb>| {
            refuses(object);
            1_u32
        })
        .unwrap();
    hand.answer_list("5", &[object("a", "5", ""), object("b", "5", "")]);
    hand.watch("MODIFIED", "b", 6, "");
    assert_eq!((armed.dropped(), informer.lister().len()), (2, 1));
}

#[test]
fn what_a_saved_state_has_twice_is_dropped_under_no_lock_of_the_factory() {
    use informer_core::{Uid, Version};
    let (hook, times) = (Hook::default(), Arc::<AtomicU32>::default());
    let factory = Arc::new(factory());
    let asked = Arc::downgrade(&factory);
    set(&hook, dropped(&times, move || assert_eq!(asked.upgrade().unwrap().lagging().len(), 1)));
    let twice = ["5", "6"].map(|version| {
        let value = Noisy { hook: Arc::clone(&hook), of: String::new() };
        Obj::new(key("a"), Uid::new("u"), Version::new(version), value)
    });
    let saved = informer_core::saved::Saved::new("pods", twice, Version::new("9"));
    let informer = factory.informer(noisy(&hook).preloaded(saved)).unwrap();
    assert_eq!((times.load(Ordering::Relaxed), informer.lister().get(&key("a")).unwrap().version().as_str()), (1, "6"));
    hook.lock().take();
}

/// What a function has captured, whose `drop` panics.
struct Captured;

impl Drop for Captured {
    fn drop(&mut self) {
        resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn what_is_told_of_the_sync_panics_when_it_is_dropped_and_the_handler_is_synced_all_the_same() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    let options = || {
        let (captured, mut options) = (Captured, HandlerOptions::default());
        options.on_synced = Some(Arc::new(move || {
            let _ = &captured;
        }));
        options
    };
    let (registration, mut handler) = informer.handler(options(), |_: &Notification<_>| {});
    let mut item_options = ItemOptions::default();
    item_options.handler = options();
    let items = ItemSource::new(&informer, item_options);
    let mut events = Events::new(&informer, options());
    hand.list(&["a"]);
    empty(&mut *handler);
    assert!(registration.has_synced());
    while let NextItem::Item(item) = items.next_item() {
        item.done();
    }
    assert!(items.registration().has_synced());
    hand.watch("MODIFIED", "a", 6, "");
    assert_eq!(handler.step(), Step::Delivered, "it is a handler still");
    assert_eq!(events.by_ref().take(2).count(), 2);
    assert!(events.registration().has_synced());
}

#[test]
fn the_function_of_an_index_that_goes_while_a_driver_decodes_panics_when_it_is_dropped_and_ends_nothing() {
    let factory = factory();
    let (removes, removed) = (Hook::default(), Arc::<AtomicU32>::default());
    let decoding = Arc::clone(&removes);
    let spec = spec().transform(move |object: DynamicObject| {
        if let Some(remove) = decoding.lock().take() {
            remove();
        }
        Ok(object)
    });
    let informer = factory.informer(spec).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let captured = Captured;
    let index = informer.index("name", move |object| {
        let _ = &captured;
        object.key().name().to_string()
    });
    // Another thread, for which nobody waits here but the transform.
    let (from, times) = (informer.clone(), Arc::clone(&removed));
    set(&removes, move || {
        let (from, times) = (from.clone(), Arc::clone(&times));
        let remove = move || {
            from.remove_index("name").unwrap();
            times.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::spawn(remove).join().unwrap();
    });
    drop(index);
    hand.watch("MODIFIED", "a", 6, "");
    assert_eq!(removed.load(Ordering::Relaxed), 1);
    hand.watch("ADDED", "b", 7, "");
    assert_eq!(informer.lister().len(), 2, "the driver goes on");
}

#[test]
fn what_decoders_and_checks_have_captured_panics_when_it_is_dropped_and_takes_no_thread_of_drivers_with_it() {
    let factory = factory();
    let (decodes, checks) = (Captured, Captured);
    let spec = spec().transform(move |object: DynamicObject| {
        let _ = &decodes;
        Ok(object)
    });
    let check = MutationCheck::new(move |_: &DynamicObject| {
        let _ = &checks;
        0
    });
    let informer = factory.informer(spec.check_mutations(check)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    hand.tell(IoEvent::Stop);
    drop(hand); // by the thread that drives all informers of a factory
    assert!(informer.is_stopped());
}

/// Panics whenever it is dropped.
fn throws(dropped: &Arc<AtomicU32>) -> InformerSpec<Throws> {
    let dropped = Arc::clone(dropped);
    spec().transform(move |_: DynamicObject| Ok(Throws(Arc::clone(&dropped))))
}

struct Throws(Arc<AtomicU32>);

impl Drop for Throws {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("on purpose")); // without a line on stderr
    }
}

#[test]
fn a_cache_that_ends_with_its_driver_drops_each_object_though_each_panics() {
    let dropped = Arc::<AtomicU32>::default();
    let factory = factory();
    let informer = factory.informer(throws(&dropped)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    hand.tell(IoEvent::Stop);
    drop((informer, factory));
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(hand);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

#[test]
fn a_handler_that_has_the_last_handle_of_a_whole_state_drops_each_object_though_each_panics() {
    /// How far the handler comes before it goes.
    #[derive(Clone, Copy, Debug)]
    enum Comes {
        Nowhere,
        Halfway,
        ToTheEnd,
    }
    for comes in [Comes::Nowhere, Comes::Halfway, Comes::ToTheEnd] {
        for resync in [None, Some(Duration::from_secs(3_600))] {
            let dropped = Arc::<AtomicU32>::default();
            let factory = factory();
            let informer = factory.informer(throws(&dropped)).unwrap();
            let mut hand = Hand::take(&factory);
            hand.list(&["a", "b", "c"]);
            let mut options = HandlerOptions::default();
            options.resync = resync;
            let (registration, mut late) = informer.handler(options, |_: &Notification<_>| {});
            hand.tell(IoEvent::Tick);
            if let Some(span) = resync {
                empty(&mut *late);
                hand.now = hand.now + span * 2;
                hand.tell(IoEvent::Tick);
            }
            match comes {
                Comes::Nowhere => {}
                Comes::Halfway => assert_eq!([late.step(), late.step()], [Step::Delivered; 2]),
                Comes::ToTheEnd => empty(&mut *late),
            }
            // Nobody but the handler has any of them afterwards.
            relist(&mut hand, &informer, "6", &[]);
            assert!(informer.lister().is_empty());
            drop(late);
            assert!(registration.is_finished(), "{comes:?}, resync {resync:?}");
            assert_eq!(dropped.load(Ordering::Relaxed), 3, "{comes:?}, resync {resync:?}");
        }
    }
}

#[test]
fn a_lister_of_given_objects_drops_each_though_each_panics() {
    let dropped = Arc::<AtomicU32>::default();
    let of = |name: &str| Obj::new(key(name), Uid::new(name), Version::new("1"), Throws(Arc::clone(&dropped)));
    let lister = Lister::of(["a", "a", "a", "b"].map(of));
    assert_eq!((dropped.load(Ordering::Relaxed), lister.len()), (2, 2));
    drop(lister);
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}

#[test]
fn own_writes_that_end_drop_each_object_though_each_panics() {
    let dropped = Arc::<AtomicU32>::default();
    let factory = factory();
    let informer = factory.informer(throws(&dropped)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&[]);
    let own = informer.own_writes();
    for name in ["a", "b", "c"] {
        let written = Obj::new(key(name), Uid::new(name), Version::new("7"), Throws(Arc::clone(&dropped)));
        assert!(own.put(written).unwrap());
    }
    drop(own.clone());
    drop((informer, hand, factory));
    assert_eq!((dropped.load(Ordering::Relaxed), own.list().len()), (0, 3));
    drop(own);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

#[test]
fn a_stream_that_ends_drops_each_item_though_each_panics() {
    let dropped = Arc::<AtomicU32>::default();
    let factory = factory();
    let informer = factory.informer(throws(&dropped)).unwrap();
    let mut hand = Hand::take(&factory);
    let items = ItemSource::new(&informer, ItemOptions::default());
    hand.list(&["a", "b", "c"]);
    // It knows of all three what it was told of last.
    for _ in 0..3 {
        let NextItem::Item(item) = items.next_item() else { panic!("three objects") };
        item.done();
    }
    relist(&mut hand, &informer, "6", &[]);
    relist(&mut hand, &informer, "7", &["z"]);
    // None of the four is answered, so all are to be given again.
    let in_hand = [(); 4].map(|()| items.next_item());
    assert!(in_hand.iter().all(|item| matches!(item, NextItem::Item(_))));
    drop((informer, hand, factory, items));
    in_hand.into_iter().for_each(drop);
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}

#[test]
fn a_mutation_check_that_ends_with_its_driver_drops_each_object_though_each_panics() {
    let dropped = Arc::<AtomicU32>::default();
    let factory = factory();
    let spec = throws(&dropped).check_mutations(MutationCheck::new(|_: &Throws| 1));
    let informer = factory.informer(spec).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    drop((informer, factory));
    drop(hand);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

#[test]
fn a_filter_that_ends_with_its_handler_drops_each_object_though_each_panics() {
    let dropped = Arc::<AtomicU32>::default();
    let factory = factory();
    let informer = factory.informer(throws(&dropped)).unwrap();
    let mut hand = Hand::take(&factory);
    let function = filtered(|_: &Obj<Throws>| true, |_: &Notification<_>| {});
    let (_, mut handler) = informer.handler(HandlerOptions::default(), function);
    hand.list(&["a", "b", "c"]);
    empty(&mut *handler);
    relist(&mut hand, &informer, "6", &[]);
    drop((informer, factory, hand));
    drop(handler);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}
