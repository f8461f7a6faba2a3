//! Objects that were deleted and made again while nobody watched, as different handlers are told of them.

use super::*;
use informer_core::listener::Recreated;
use informer_runtime::events::Events;

fn flagged() -> HandlerOptions {
    HandlerOptions::default().with_recreated(Recreated::Flagged)
}

impl Hand {
    /// An event of the watch with this object.
    fn event(&mut self, kind: &str, object: &str) {
        let id = self.last.expect("a watch is open");
        self.tell(IoEvent::Body(id, format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").as_bytes()));
    }

    /// The watch expires, and what is there now is listed.
    fn relist(&mut self, version: &str, items: &[String]) {
        self.event("ERROR", r#"{"kind":"Status","reason":"Expired","code":410}"#);
        self.now = self.now + Duration::from_secs(2);
        self.tell(IoEvent::Tick);
        self.answer_list(version, items);
    }
}

#[test]
fn who_asks_is_told_of_one_flagged_update_and_who_does_not_of_two_changes() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (_split, mut split) = informer.channel(HandlerOptions::default());
    let (_flagged, mut flagged) = informer.channel(flagged());
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    assert_eq!((told(&mut split).len(), told(&mut flagged).len()), (3, 3), "two objects, and synced");

    hand.event("ADDED", &incarnation("a", "u2", "7"));
    assert_eq!(told(&mut split), ["deleted web/a@5 (final state unknown)", "added web/a@7"]);
    assert_eq!(told(&mut flagged), ["updated web/a@7 (was 5, recreated)"]);

    hand.relist("20", &[incarnation("a", "u3", "11"), incarnation("b", "u-b", "12")]);
    let relisted = ["deleted web/a@7 (final state unknown)", "added web/a@11", "updated web/b@12 (was 5)"];
    assert_eq!(told(&mut split), relisted);
    assert_eq!(told(&mut flagged), ["updated web/a@11 (was 7, recreated)", "updated web/b@12 (was 5)"]);

    hand.event("DELETED", &incarnation("a", "u3", "21"));
    hand.event("ADDED", &incarnation("a", "u4", "22"));
    let seen = ["deleted web/a@21", "added web/a@22"];
    assert_eq!(
        (told(&mut split), told(&mut flagged)),
        (seen.map(str::to_string).into(), seen.map(str::to_string).into())
    );
}

#[test]
fn a_filter_tells_of_a_recreation_what_it_is_to_its_handler() {
    let labelled = |uid: &str, version: &str, label: &str| object("a", version, label).replace("u-a", uid);
    let keep = |pod: &Obj<DynamicObject>| {
        use informer_core::object::{Meta, Object};
        pod.metadata().label("l") == Some("x")
    };
    for (before, after, expected) in [
        ("x", "x", &["added web/a@6", "updated web/a@9 (was 6, recreated)"][..]),
        ("x", "", &["added web/a@6", "deleted web/a@6 (final state unknown)"]),
        ("", "x", &["added web/a@9"]),
        ("", "", &[]),
    ] {
        let factory = factory();
        let informer = factory.informer(spec()).unwrap();
        let mut events = Events::filtered(&informer, flagged(), keep);
        let mut hand = Hand::take(&factory);
        hand.list(&[]);
        hand.event("ADDED", &labelled("u1", "6", before));
        hand.event("ADDED", &labelled("u2", "9", after));
        let told = std::iter::from_fn(|| events.next_within(Duration::ZERO).map(|event| event.to_string()));
        assert_eq!(told.collect::<Vec<_>>(), expected, "{before:?} to {after:?}");
    }
}
