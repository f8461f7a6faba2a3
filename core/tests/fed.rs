//! An informer that is fed by hand, against a map: what is in the store, what handlers are told, what is not.

use informer_core::decode::{Guard, NoGuard};
use informer_core::fed::{Change, Fed};
use informer_core::fifo::QueueKind;
use informer_core::informer::{HandlerId, Informer, InformerConfig, Input, Notice, Output};
use informer_core::listener::{Delivery, Notification, Overflow, Ring};
use informer_core::reflector::Phase;
use informer_core::store::{IndexDef, Store};
use informer_core::time::{Duration, Time};
use informer_core::{Key, Obj, Resource, Uid, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A name, an incarnation, a version, and a value that follows from them.
type Word = (u8, u8, u32);

fn object((name, uid, version): Word) -> Obj<u32> {
    let version_text = if version == 0 { String::new() } else { version.to_string() };
    let (key, uid) = (Key::new("ns", &format!("n{name}")), Uid::new(&format!("u{uid}")));
    Obj::new(key, uid, Version::new(&version_text), version)
}

/// A handler, and what it knows: it checks that each notification goes on from there.
struct Handler {
    id: HandlerId,
    ring: Ring<u32>,
    attached: bool,
    synced: bool,
    has: BTreeMap<String, Obj<u32>>,
}

impl Handler {
    fn new(id: u64, overflow: Overflow) -> Self {
        Handler { id: HandlerId(id), ring: Ring::new(overflow), attached: false, synced: false, has: BTreeMap::new() }
    }

    /// Takes what waits, at most so much, and says it.
    fn take(&mut self, most: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < most {
            match self.ring.pop() {
                Some(Delivery::Notification(notification)) => {
                    self.follow(&notification);
                    told.push(notification.to_string());
                }
                Some(Delivery::Synced) => assert!(!std::mem::replace(&mut self.synced, true), "synced once"),
                Some(_) => unreachable!("there are two kinds of deliveries"),
                None => break,
            }
        }
        told
    }

    fn follow(&mut self, notification: &Notification<u32>) {
        let key = notification.key().as_str().to_string();
        match notification {
            Notification::Added { object, initial, .. } => {
                assert_eq!(*initial, !self.synced, "initial is what comes before the sync");
                assert!(self.has.insert(key, object.clone()).is_none(), "{notification} of what is there (I11)");
            }
            Notification::Updated { old, new, .. } => {
                let had = self.has.insert(key, new.clone()).expect("an update of what is there (I11)");
                assert!(Obj::ptr_eq(&had, old), "{notification}: the old one is what was seen last (I12)");
                assert_eq!(old.uid(), new.uid(), "{notification} across two incarnations (I17)");
            }
            Notification::Deleted { old, .. } => {
                let had = self.has.remove(&key).expect("a deletion of what is there (I11)");
                assert!(Obj::ptr_eq(&had, old), "{notification}: the old one is what was seen last (I12)");
            }
            _ => unreachable!("there are three kinds of notifications"),
        }
    }
}

/// A machine with its store and handlers, in plain cells.
struct Hand {
    machine: Informer<u32>,
    store: Store<u32>,
    handlers: Vec<Handler>,
    notices: Vec<String>,
    unwanted: Vec<String>,
    now: Time,
}

impl Hand {
    fn new(queue: QueueKind) -> Self {
        let mut config = InformerConfig::new(Resource::namespaced("example.com", "v1", "lights", "Light"));
        (config.fed, config.queue) = (true, queue);
        let mut store = Store::new(7);
        store.add_index(IndexDef::new("parity", |n| if **n % 2 == 0 { "even" } else { "odd" })).unwrap();
        let machine = Informer::new(config, 7);
        Hand { machine, store, handlers: Vec::new(), notices: Vec::new(), unwanted: Vec::new(), now: Time::ZERO }
    }

    fn add(&mut self, overflow: Overflow, resync: Option<Duration>) -> usize {
        let at = self.handlers.len();
        self.handlers.push(Handler::new(at as u64, overflow));
        self.tell(Input::AddHandler { id: HandlerId(at as u64), resync });
        at
    }

    fn tell(&mut self, input: Input<'_, u32>) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    #[allow(clippy::wildcard_enum_match_arm)] // whatever else comes out is a mistake
    fn drain(&mut self) {
        loop {
            match self.machine.poll_output() {
                Output::Commit(commit) => {
                    let mut done = self.store.commit(commit);
                    for handler in self.handlers.iter_mut().filter(|handler| handler.attached) {
                        done.notifications.iter().for_each(|told| handler.ring.push(told.clone()));
                        if handler.ring.is_full() {
                            self.machine.handle(self.now, Input::Backlog { id: handler.id, full: true });
                        }
                    }
                    done.notifications.clear();
                    self.machine.handle(self.now, Input::Committed(done.into_receipt()));
                }
                Output::Attach(id) => {
                    let snapshot = self.store.snapshot();
                    let handler = &mut self.handlers[id.0 as usize];
                    handler.attached = true;
                    handler.ring.replay(snapshot);
                }
                Output::Resync(id) => {
                    let snapshot = self.store.snapshot();
                    self.handlers[id.0 as usize].ring.resync(snapshot);
                }
                Output::Notice(Notice::Failure(failure)) => self.notices.push(failure.message),
                Output::Notice(notice) => self.notices.push(format!("{notice:?}")),
                Output::Wait(_) => return,
                Output::Unwanted(objects) => self.unwanted.extend(objects.iter().map(|object| format!("{object:?}"))),
                Output::Send(request) => panic!("{} was sent", request.target()),
                _ => panic!("nothing of this is needed where everything comes by hand"),
            }
        }
    }

    /// Handlers take what waits; one that was full is no more.
    fn take(&mut self, handler: usize, most: usize) -> Vec<String> {
        let told = self.handlers[handler].take(most);
        let (id, full) = (self.handlers[handler].id, self.handlers[handler].ring.is_full());
        self.tell(Input::Backlog { id, full });
        told
    }

    fn stored(&self) -> BTreeMap<String, Obj<u32>> {
        self.store.iter().map(|object| (object.key().as_str().to_string(), object.clone())).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.stored().values().map(|object| format!("{object:?}")).collect()
    }
}

/// A list that was probed and indexed, as a runtime does it.
fn prepared_list(hand: &Hand, words: &[Word], version: &str) -> Input<'static, u32> {
    let mut fed = Fed::list(words.iter().copied().map(object), Version::new(version));
    fed.probe(&hand.store);
    fed.index(&hand.store.indexers(), &NoGuard);
    Input::Fed(fed)
}

fn list(words: &[Word], version: &str) -> Input<'static, u32> {
    Input::Fed(Fed::list(words.iter().copied().map(object), Version::new(version)))
}

/// Changes that were probed and indexed, in the memory of earlier ones.
fn prepared_changes(hand: &mut Hand, changes: impl IntoIterator<Item = Change<u32>>) -> Input<'static, u32> {
    let mut fed = hand.machine.changes(changes);
    fed.probe(&hand.store);
    fed.index(&hand.store.indexers(), &NoGuard);
    Input::Fed(fed)
}

fn changes(changes: impl IntoIterator<Item = Change<u32>>) -> Input<'static, u32> {
    Input::Fed(Fed::changes(changes))
}

/// What becomes of one name.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The same uid and version, as another object.
    Same,
    Newer,
    Recreated,
    Gone,
    /// Gone, and no more is known.
    Vanished,
}

#[derive(Clone, Debug)]
enum Step {
    List(Vec<(u8, Fate)>),
    Changes(Vec<(u8, Fate)>),
    /// A handler takes so much.
    Take(u8, u8),
    /// A handler comes late.
    Add,
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate =
        prop_oneof![Just(Fate::Same), Just(Fate::Newer), Just(Fate::Recreated), Just(Fate::Gone), Just(Fate::Vanished)];
    let fates = prop::collection::vec((0..6_u8, fate), 0..90);
    let step = prop_oneof![
        2 => fates.clone().prop_map(Step::List),
        6 => fates.prop_map(Step::Changes),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(who, most)| Step::Take(who, most)),
        1 => Just(Step::Add),
        1 => Just(Step::Tick),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn the_store_is_what_the_source_says_and_every_handler_can_follow(steps in steps(), per_key in any::<bool>()) {
        let queue = if per_key { QueueKind::DeltaFifo } else { QueueKind::InOrder };
        let mut hand = Hand::new(queue);
        hand.add(Overflow::Unbounded, None);
        hand.add(Overflow::Coalesce { limit: 3 }, Some(Duration::from_secs(1)));
        hand.add(Overflow::Pause { limit: 4 }, None);
        hand.tell(list(&[(0, 0, 1), (1, 0, 2)], "2"));
        let mut world: BTreeMap<u8, (u8, u32)> = BTreeMap::from([(0, (0, 1)), (1, (0, 2))]);
        let (mut version, mut incarnation) = (2_u32, 0_u8);
        for step in steps {
            match step {
                Step::List(_) | Step::Changes(_) if hand.machine.is_held_up() => {}
                Step::List(fates) => {
                    let (before, fates) = (world.clone(), BTreeMap::from_iter(fates.into_iter().map(|(n, f)| (n, f as u8))));
                    world.clear();
                    for (name, fate) in &fates {
                        version += 1;
                        match (*fate, before.get(name)) {
                            (0, Some(same)) => _ = world.insert(*name, *same),
                            (1, Some((uid, _))) => _ = world.insert(*name, (*uid, version)),
                            (3 | 4, _) => {}
                            _ => {
                                incarnation = incarnation.wrapping_add(1);
                                world.insert(*name, (incarnation, version));
                            }
                        }
                    }
                    hand.take(0, usize::MAX);
                    let words: Vec<_> = world.iter().map(|(name, (uid, version))| (*name, *uid, *version)).collect();
                    let input = if per_key { list(&words, &version.to_string()) } else { prepared_list(&hand, &words, &version.to_string()) };
                    hand.tell(input);
                    let told: BTreeSet<_> = hand.take(0, usize::MAX).iter().map(|line| line.split(['@', '/']).nth(1).unwrap().to_string()).collect();
                    let changed = (0..6).filter(|name| before.get(name) != world.get(name)).map(|name| format!("n{name}"));
                    prop_assert_eq!(told, changed.collect::<BTreeSet<_>>(), "what is unchanged is not told");
                }
                Step::Changes(fates) => {
                    let mut told = Vec::new();
                    for (name, fate) in fates {
                        version += 1;
                        match (fate, world.get(&name).copied()) {
                            (Fate::Gone, had) => {
                                let uid = had.map_or(0, |(uid, _)| uid);
                                world.remove(&name);
                                told.push(Change::Deleted(object((name, uid, version))));
                            }
                            (Fate::Vanished, _) => {
                                world.remove(&name);
                                told.push(Change::DeletedKey(Key::new("ns", &format!("n{name}"))));
                            }
                            (Fate::Same | Fate::Newer, Some((uid, _))) => {
                                world.insert(name, (uid, version));
                                told.push(Change::Applied(object((name, uid, version))));
                            }
                            (Fate::Same | Fate::Newer | Fate::Recreated, _) => {
                                incarnation = incarnation.wrapping_add(1);
                                world.insert(name, (incarnation, version));
                                told.push(Change::Applied(object((name, incarnation, version))));
                            }
                        }
                    }
                    let prepared = told.len() % 2 == 0;
                    let input = if prepared { prepared_changes(&mut hand, told) } else { changes(told) };
                    hand.tell(input);
                }
                Step::Take(who, most) => {
                    let who = usize::from(who) % hand.handlers.len();
                    hand.take(who, usize::from(most));
                }
                Step::Add => _ = hand.add(Overflow::default(), None),
                Step::Tick => {
                    hand.now = hand.now + Duration::from_secs(1);
                    hand.tell(Input::Tick);
                }
            }
            if !hand.machine.is_held_up() {
                let wanted: Vec<_> = world.iter().map(|(name, (uid, version))| format!("{:?}", object((*name, *uid, *version)))).collect();
                prop_assert_eq!(hand.lines(), wanted, "what was fed is in the store");
                let odd = hand.store.by_index("parity", "odd").map_or(0, |found| found.len());
                prop_assert_eq!(odd, world.values().filter(|(_, version)| version % 2 == 1).count());
            }
        }
        // Each time that the one which holds everything up has taken something, the rest comes.
        while hand.machine.is_held_up() {
            hand.take(2, 1);
        }
        let stored = hand.stored();
        for at in 0..hand.handlers.len() {
            hand.take(at, usize::MAX);
            let has: Vec<_> = hand.handlers[at].has.values().map(|object| format!("{object:?}")).collect();
            let wanted: Vec<_> = stored.values().map(|object| format!("{object:?}")).collect();
            prop_assert_eq!(has, wanted, "handler {} has followed", at);
            prop_assert!(hand.handlers[at].synced);
        }
        prop_assert_eq!(hand.machine.stats().requests, 0);
    }
}

#[test]
fn the_first_list_begins_it_and_makes_it_watch() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let handler = hand.add(Overflow::default(), None);
    hand.tell(Input::Start);
    hand.tell(Input::Refresh);
    assert_eq!((hand.machine.phase(), hand.machine.has_synced()), (Phase::Idle, false));
    hand.tell(list(&[], "7"));
    assert_eq!((hand.machine.phase(), hand.machine.has_synced()), (Phase::Watching, true));
    assert_eq!(hand.notices, ["Phase(Watching)", "Synced"]);
    assert!(hand.take(handler, 9).is_empty() && hand.handlers[handler].synced, "an empty state is a state");
    assert_eq!(hand.store.version().as_str(), "7");
    hand.tell(Input::Refresh);
    assert_eq!(hand.machine.stats().requests, 0);
}

#[test]
fn a_list_says_what_is_gone_and_keeps_what_it_has_already() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let handler = hand.add(Overflow::default(), None);
    hand.tell(list(&[(1, 1, 1), (2, 1, 2), (3, 1, 3)], "3"));
    assert_eq!(hand.take(handler, 9).len(), 3);
    let kept = hand.store.get("ns/n1").unwrap().clone();
    hand.tell(list(&[(1, 1, 1), (3, 2, 5), (4, 1, 4)], "5"));
    assert_eq!(
        hand.take(handler, 9),
        [
            "deleted ns/n2@2 (final state unknown)",
            "deleted ns/n3@3 (final state unknown)",
            "added ns/n3@5",
            "added ns/n4@4"
        ]
    );
    assert!(Obj::ptr_eq(&kept, hand.store.get("ns/n1").unwrap()), "the same version is the same object");
}

#[test]
fn a_list_is_compared_with_the_store_as_it_is_when_it_gets_there() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let handler = hand.add(Overflow::default(), None);
    hand.tell(list(&[(1, 1, 1), (2, 1, 2)], "2"));
    hand.take(handler, 9);
    // Outputs are taken late: the list waits behind changes of the places that it would find.
    let gone =
        [Change::Deleted(object((1, 1, 3))), Change::Deleted(object((2, 1, 4))), Change::Applied(object((5, 1, 5)))];
    hand.machine.handle(hand.now, changes(gone));
    hand.machine.handle(hand.now, list(&[(2, 1, 2), (5, 1, 5)], "6"));
    hand.machine.handle(hand.now, changes([Change::Applied(object((2, 1, 7)))]));
    hand.drain();
    assert_eq!(
        hand.take(handler, 9),
        ["deleted ns/n1@3", "deleted ns/n2@4", "added ns/n5@5", "added ns/n2@2", "updated ns/n2@7 (was 2)"]
    );
    assert_eq!(hand.lines(), ["ns/n2@7", "ns/n5@5"]);
}

#[test]
fn what_has_no_version_is_taken_and_is_the_same_as_nothing() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let handler = hand.add(Overflow::default(), None);
    hand.tell(list(&[(1, 1, 0)], ""));
    hand.take(handler, 9);
    hand.tell(list(&[(1, 1, 0)], ""));
    hand.tell(changes([Change::Applied(object((2, 1, 0)))]));
    assert_eq!(hand.take(handler, 9), ["updated ns/n1@ (was )", "added ns/n2@"]);
    assert!(hand.store.version().is_empty());
}

#[test]
fn of_a_key_that_a_list_has_twice_the_last_object_counts() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let handler = hand.add(Overflow::default(), None);
    hand.tell(list(&[(1, 1, 1), (1, 1, 2)], "2"));
    assert_eq!((hand.lines(), hand.take(handler, 9)), (vec!["ns/n1@2".into()], vec!["added ns/n1@2".into()]));
    hand.tell(list(&[(2, 1, 3), (1, 1, 4), (2, 1, 5), (1, 1, 6)], "6"));
    assert_eq!(hand.take(handler, 9), ["added ns/n2@5", "updated ns/n1@6 (was 2)"], "each once, in its first place");
}

#[test]
fn a_deletion_of_a_key_tells_what_the_store_had_and_leaves_its_version() {
    for queue in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let mut hand = Hand::new(queue);
        let handler = hand.add(Overflow::default(), None);
        hand.tell(list(&[(1, 1, 1), (2, 1, 2)], "2"));
        hand.take(handler, 9);
        let vanished = |name: &str| Change::DeletedKey(Key::new("ns", name));
        hand.tell(changes([vanished("n1"), vanished("n1"), vanished("n7"), vanished("")]));
        assert_eq!(hand.take(handler, 9), ["deleted ns/n1@1 (final state unknown)"]);
        assert_eq!((hand.lines(), hand.store.version().as_str()), (vec!["ns/n2@2".to_string()], "2"));
        // What comes after is another incarnation or the same one: the source knows.
        hand.tell(changes([vanished("n2"), Change::Applied(object((2, 1, 2)))]));
        assert_eq!(hand.take(handler, 9), ["deleted ns/n2@2 (final state unknown)", "added ns/n2@2"]);
        assert_eq!((hand.notices.len(), hand.unwanted.len()), (2, 0), "{:?}", hand.notices);
    }
}

#[test]
fn a_deletion_of_a_key_ends_its_quarantine() {
    let mut hand = Hand::new(QueueKind::InOrder);
    hand.store.add_index(IndexDef::new("picky", |_| -> &str { panic!("a panic that belongs to the test") })).unwrap();
    let mut bad = Fed::list([object((1, 1, 1))], Version::new("1"));
    bad.index(&hand.store.indexers(), &Catch);
    hand.tell(Input::Fed(bad));
    assert!(hand.store.quarantined_key("ns/n1").is_some());
    hand.tell(changes([Change::DeletedKey(Key::new("ns", "n1"))]));
    assert!(hand.store.quarantined().next().is_none());
}

#[test]
fn a_change_to_an_older_version_is_what_the_source_says() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let handler = hand.add(Overflow::default(), None);
    hand.tell(list(&[(1, 1, 5)], "5"));
    hand.take(handler, 9);
    hand.tell(changes([Change::Applied(object((1, 1, 3))), Change::Applied(object((1, 1, 3)))]));
    assert_eq!(hand.take(handler, 9), ["updated ns/n1@3 (was 5)", "updated ns/n1@3 (was 3)"]);
    assert_eq!((hand.lines(), hand.store.version().as_str()), (vec!["ns/n1@3".to_string()], "3"));
}

#[test]
fn an_object_without_a_name_is_put_aside_and_reported() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let nameless = |key| Obj::new(key, Uid::new("u"), Version::new("3"), 3);
    let objects = [object((1, 1, 1)), nameless(Key::new("ns", "")), nameless(Key::new("", ""))];
    hand.tell(Input::Fed(Fed::list(objects, Version::new("3"))));
    assert_eq!(hand.lines(), ["ns/n1@1"]);
    let of_it = "an object without a readable name at version 3 cannot be used: it has no name";
    assert_eq!(hand.notices, [of_it, of_it, "Phase(Watching)", "Synced"]);
    assert_eq!(hand.unwanted, ["ns/@3", "@3"], "whoever drives drops them");
}

/// Takes a panic for an answer, as a runtime does.
struct Catch;

impl Guard for Catch {
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), String> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|_| "on purpose".to_string())
    }
}

#[test]
fn an_object_whose_index_function_panics_is_put_aside_and_its_last_good_version_stays() {
    let mut hand = Hand::new(QueueKind::InOrder);
    let picky = |n: &Obj<u32>| {
        assert_ne!(**n % 10, 9, "a panic that belongs to the test");
        "good"
    };
    hand.store.add_index(IndexDef::new("picky", picky)).unwrap();
    let handler = hand.add(Overflow::default(), None);
    hand.tell(list(&[(1, 1, 1), (2, 1, 2)], "2"));
    hand.take(handler, 9);
    let mut bad = Fed::changes([Change::Applied(object((1, 1, 9))), Change::Applied(object((2, 1, 10)))]);
    bad.index(&hand.store.indexers(), &Catch);
    hand.tell(Input::Fed(bad));
    let mut bad = Fed::list([object((1, 1, 9)), object((2, 1, 10)), object((3, 1, 19))], Version::new("19"));
    bad.index(&hand.store.indexers(), &Catch);
    hand.tell(Input::Fed(bad));
    assert_eq!(hand.take(handler, 9), ["updated ns/n2@10 (was 2)"]);
    assert_eq!(hand.lines(), ["ns/n1@1", "ns/n2@10"], "what cannot be used counts as there");
    assert!(hand.store.is_stale_key("ns/n1") && hand.store.quarantined_key("ns/n3").is_some());
    let panicked = |key: &str| format!("{key} cannot be used: the function of index \"picky\" panicked: on purpose");
    assert_eq!(
        hand.notices[2..],
        [panicked("ns/n1 at version 9"), panicked("ns/n3 at version 19")],
        "once per version"
    );
    // The good version again: the one that is stale is replaced, and said to be the newest.
    hand.tell(list(&[(1, 1, 1), (2, 1, 10)], "20"));
    assert_eq!(hand.take(handler, 9), ["updated ns/n1@1 (was 1)"]);
    assert!(!hand.store.is_stale_key("ns/n1") && hand.store.quarantined().next().is_none());
}

#[test]
fn what_is_fed_after_a_stop_changes_nothing() {
    let mut hand = Hand::new(QueueKind::InOrder);
    hand.tell(list(&[(1, 1, 1)], "1"));
    hand.tell(Input::Stop);
    hand.tell(changes([Change::Applied(object((2, 1, 2)))]));
    hand.tell(list(&[], "3"));
    assert_eq!((hand.lines(), hand.machine.phase()), (vec!["ns/n1@1".to_string()], Phase::Stopped));
    assert_eq!(hand.unwanted, ["ns/n2@2"], "whoever drives drops them");
}

#[test]
#[should_panic(expected = "the first thing that is fed is a list, which may be empty; 1 changes came before it")]
fn changes_of_nothing_are_a_mistake() {
    Hand::new(QueueKind::InOrder).tell(changes([Change::Applied(object((1, 1, 1)))]));
}

#[test]
#[should_panic(expected = "nothing is fed while a handler is full")]
fn feeding_past_a_full_handler_is_a_mistake() {
    let mut hand = Hand::new(QueueKind::InOrder);
    hand.add(Overflow::Pause { limit: 1 }, None);
    hand.tell(list(&[], "1"));
    hand.tell(changes((2..9).map(|version| Change::Applied(object((1, 1, version))))));
    assert!(hand.machine.is_held_up());
    hand.tell(changes([Change::Applied(object((1, 1, 9)))]));
}

#[test]
#[should_panic(expected = "Input::Fed is for an informer that was made with InformerConfig::fed")]
fn feeding_an_informer_that_reads_a_server_is_a_mistake() {
    let config = InformerConfig::new(Resource::namespaced("", "v1", "pods", "Pod"));
    Informer::<u32>::new(config, 7).handle(Time::ZERO, list(&[], "1"));
}

#[test]
fn index_functions_run_once_for_what_is_new_and_never_for_what_a_list_has_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let mut hand = Hand::new(QueueKind::InOrder);
    let count = move |_: &Obj<u32>| {
        counted.fetch_add(1, Ordering::Relaxed);
        "x"
    };
    hand.store.add_index(IndexDef::new("counted", count)).unwrap();
    let calls = || calls.swap(0, Ordering::Relaxed);
    let prepared = |hand: &Hand, mut fed: Fed<u32>| {
        fed.probe(&hand.store);
        fed.index(&hand.store.indexers(), &NoGuard);
        Input::Fed(fed)
    };
    hand.tell(list(&[(1, 1, 1), (2, 1, 2)], "2"));
    assert_eq!(calls(), 2, "at the commit, as nobody did so before");
    let change = prepared(&hand, Fed::changes([Change::Applied(object((3, 1, 3)))]));
    assert_eq!(calls(), 1);
    hand.tell(change);
    let again = Fed::list([(1, 1, 1), (2, 1, 2), (3, 1, 4)].map(object), Version::new("4"));
    let again = prepared(&hand, again);
    assert_eq!(calls(), 1);
    // What was the same when it was probed is another object when the list gets there.
    hand.tell(changes([Change::Applied(object((1, 1, 5)))]));
    assert_eq!(calls(), 1);
    hand.tell(again);
    assert_eq!(calls(), 1);
    assert_eq!(hand.lines(), ["ns/n1@1", "ns/n2@2", "ns/n3@4"]);
    assert_eq!(hand.store.by_index("counted", "x").unwrap().len(), 3);
}
