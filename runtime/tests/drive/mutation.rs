//! Objects that are changed in the cache are found by their key.

use super::*;
use informer_runtime::mutation::MutationCheck;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An object that can be changed behind a shared reference.
struct Cell(AtomicU32);

fn content(cell: &Cell) -> u64 {
    u64::from(cell.0.load(Ordering::Relaxed))
}

fn cells(check: MutationCheck<Cell>) -> InformerSpec<Cell> {
    spec().transform(|_| Ok(Cell(AtomicU32::new(0)))).check_mutations(check)
}

/// A factory that writes down which objects were changed.
fn watched() -> (FactoryCore, Arc<Mutex<Vec<String>>>) {
    let changed: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&changed);
    let factory = factory_with(FactoryOptions::observed(Arc::new(move |observed| {
        if let Observed::Mutated { key, version, .. } = observed {
            assert!(observed.is_failure());
            told.lock().push(format!("{key}@{version}"));
        }
    })));
    (factory, changed)
}

fn change(informer: &InformerHandle<Cell>, name: &str) {
    informer.lister().get(&key(name)).unwrap().0.fetch_add(1, Ordering::Relaxed);
}

/// Lets so much time pass, a millisecond at a time.
fn pass(hand: &mut Hand, time: Duration) {
    let end = hand.now + time;
    while hand.now < end {
        hand.now = hand.now + Duration::from_millis(1);
        hand.tell(IoEvent::Tick);
    }
}

#[test]
fn a_changed_object_is_named_within_a_period_and_once_per_change() {
    let (factory, changed) = watched();
    let check = MutationCheck::new(content).every(Duration::from_millis(100));
    let informer = factory.informer(cells(check)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    pass(&mut hand, Duration::from_millis(300));
    assert!(changed.lock().is_empty(), "nobody changed anything");
    change(&informer, "b");
    pass(&mut hand, Duration::from_millis(300));
    assert_eq!(*changed.lock(), ["web/b@5"]);
    change(&informer, "b");
    pass(&mut hand, Duration::from_millis(300));
    assert_eq!(changed.lock().len(), 2);
    hand.watch("ADDED", "c", 6, "");
    hand.watch("MODIFIED", "b", 7, "");
    change(&informer, "c");
    pass(&mut hand, Duration::from_millis(300));
    assert_eq!(changed.lock()[2..], ["web/c@6"]);
}

#[test]
fn an_object_is_looked_at_once_more_when_it_is_replaced_or_deleted() {
    let (factory, changed) = watched();
    let informer = factory.informer(cells(MutationCheck::new(content))).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    change(&informer, "a");
    change(&informer, "b");
    hand.watch("MODIFIED", "a", 6, "");
    hand.watch("DELETED", "b", 7, "");
    assert_eq!(*changed.lock(), ["web/a@5", "web/b@5"]);
}

#[test]
fn a_large_cache_is_looked_at_in_slices_and_whole() {
    let (factory, changed) = watched();
    let informer = factory.informer(cells(MutationCheck::new(content).every(Duration::from_millis(10)))).unwrap();
    let mut hand = Hand::take(&factory);
    let names: Vec<String> = (0..5_000).map(|n| format!("n{n}")).collect();
    hand.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    names.iter().for_each(|name| change(&informer, name));
    pass(&mut hand, Duration::from_millis(12));
    let first = changed.lock().len();
    assert!((1..5_000).contains(&first), "{first} at once");
    pass(&mut hand, Duration::from_millis(20));
    assert_eq!(changed.lock().len(), 5_000);
}

#[test]
fn a_check_that_panics_names_the_object_and_ends_the_informer() {
    let (factory, changed) = watched();
    let check = MutationCheck::new(content).every(Duration::from_millis(10)).panicking();
    let informer = factory.informer(cells(check)).unwrap();
    let (registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    change(&informer, "a");
    let panic = catch_unwind(AssertUnwindSafe(|| pass(&mut hand, Duration::from_millis(30)))).unwrap_err();
    let text = panic.downcast::<String>().unwrap();
    assert!(text.starts_with("pods: web/a at version 5 was changed in the cache"), "{text}");
    assert_eq!(changed.lock().len(), 1);
    drop(hand);
    assert!(informer.is_stopped() && matches!(deliveries.try_next(), Next::Closed));
    drop(deliveries);
    assert!(registration.is_finished());
}

#[test]
fn what_is_preloaded_is_hashed_by_the_driver_and_under_no_lock_of_the_factory() {
    let (hashed, asks) = (Arc::new(AtomicU32::new(0)), Arc::<OnceLock<Arc<FactoryCore>>>::default());
    let (count, factory) = (Arc::clone(&hashed), Arc::clone(&asks));
    let check = MutationCheck::new(move |cell: &Cell| {
        if let Some(factory) = factory.get() {
            assert_eq!(factory.lagging().len(), 1, "it may ask the factory");
        }
        count.fetch_add(1, Ordering::Relaxed);
        let content = cell.0.load(Ordering::Relaxed);
        assert_ne!(content, 7, "a panic that belongs to the test");
        u64::from(content)
    });
    let (factory, changed) = watched();
    let objects = [("a", 0), ("b", 7), ("c", 0)].map(|(name, content)| {
        let (uid, version) = (informer_core::Uid::new(&format!("u-{name}")), informer_core::Version::new("5"));
        Obj::new(key(name), uid, version, Cell(AtomicU32::new(content)))
    });
    let saved = informer_core::saved::Saved::new("pods", objects, informer_core::Version::new("9"));
    let informer = factory.informer(cells(check.every(Duration::from_millis(100))).preloaded(saved)).unwrap();
    assert_eq!(hashed.load(Ordering::Relaxed), 0, "informers are made under the factory's lock");
    assert!(asks.set(Arc::new(factory)).is_ok());
    let mut hand = Hand::take(asks.get().unwrap());
    hand.tell(IoEvent::Start);
    assert_eq!(hashed.load(Ordering::Relaxed), 3);
    change(&informer, "a");
    change(&informer, "b");
    pass(&mut hand, Duration::from_millis(300));
    assert_eq!(*changed.lock(), ["web/a@5"], "one whose hash panics is not checked");
}

#[test]
fn two_requests_for_one_informer_must_agree_on_the_check() {
    let factory = factory();
    let transform = |_| Ok(7_u32);
    factory.informer(spec().transform(transform)).unwrap();
    let other = spec().transform(transform).check_mutations(MutationCheck::by_hash());
    let error = factory.informer(other).unwrap_err().to_string();
    assert!(error.contains("another \"mutation check\": it has none, and every 1s is asked for"), "{error}");
}
