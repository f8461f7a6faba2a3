//! What can be seen from outside of how an informer stands: contact, events, degradation, repeats.

use super::harness::{World, bookmark, error_event, event, list, status};
use crate::reflector::{Health, Phase};
use crate::time::Time;
use std::string::ToString;
use std::vec::Vec;

impl World {
    fn health(&self) -> Health {
        self.informer.health()
    }

    fn degraded(&self) -> Option<Time> {
        self.health().degraded_since
    }

    fn repeats(&self) -> Vec<u32> {
        self.failures.iter().map(|failure| failure.repeats).collect()
    }
}

#[test]
fn contact_and_events_are_told_apart_and_a_watch_is_open_from_its_head_on() {
    let mut world = World::listing();
    assert_eq!(world.health(), Health::default(), "nothing came yet");
    world.pass(100);
    world.answer(200, &list("5", &[("a", "4")]));
    let listed = Some(world.now);
    assert_eq!((world.health().last_contact, world.health().last_event), (listed, None));
    world.pass(100);
    assert_eq!(world.health().last_contact, listed);
    world.head(200);
    assert_eq!((world.phase(), world.health().last_contact), (Phase::Watching, Some(world.now)));
    world.pass(100);
    world.body(&event("ADDED", "b", "6"));
    let told = Some(world.now);
    assert_eq!((world.health().last_contact, world.health().last_event), (told, told));
    world.pass(60_000);
    world.body(&bookmark("9"));
    assert_eq!((world.health().last_contact, world.health().last_event), (Some(world.now), told));
    world.pass(60_000);
    world.body("{\"type\":\"ADD");
    assert_eq!((world.health().last_contact, world.health().last_event), (Some(world.now), told));
    assert_eq!(world.degraded(), None);
}

#[test]
fn a_refusal_is_contact_and_a_broken_connection_is_none() {
    let mut world = World::opening();
    let before = world.health().last_contact;
    world.pass(100);
    world.broken();
    assert_eq!(world.health().last_contact, before);
    world.pass(1_600);
    world.head(403);
    assert_eq!(world.health().last_contact, Some(world.now));
}

#[test]
fn an_informer_whose_lists_fail_is_degraded_since_the_first_failure_and_serves_what_it_has() {
    let mut world = World::watching();
    world.pass(5_000);
    world.body(&error_event(410, "Expired"));
    let since = Some(world.now);
    for _ in 0..10 {
        let wait = world.failure().retry_in.unwrap().as_millis() as u64 + 1;
        world.pass(wait);
        world.answer(500, &status(500, "InternalError"));
        assert_eq!((world.degraded(), world.stored().join(" ")), (since, "ns/a@4".into()), "B062");
    }
    world.pass(60_000);
    world.answer(200, &list("9", &[("b", "8")]));
    assert_eq!(world.degraded(), since, "until the watch is open");
    world.head(200);
    assert_eq!((world.degraded(), world.stored().join(" ")), (None, "ns/b@8".into()));
}

#[test]
fn a_watch_that_ends_within_a_second_ends_no_trouble_and_one_that_lasts_or_tells_something_does() {
    let mut world = World::opening();
    world.answer(405, "");
    let since = Some(world.now);
    for version in ["6", "7"] {
        world.pass(60_000);
        world.answer(200, &list(version, &[("a", "4")]));
        assert_eq!(world.degraded(), since);
        world.head(200);
        assert_eq!(world.degraded(), None, "it may be good");
        world.pass(999);
        world.close();
        assert_eq!(world.degraded(), since, "it was not");
        world.pass(60_000);
        world.answer(405, "");
        assert_eq!(world.degraded(), since);
    }
    world.pass(60_000);
    world.answer(200, &list("8", &[("a", "4")]));
    world.head(200);
    world.pass(1_000);
    world.broken();
    assert_eq!(world.degraded(), Some(world.now), "a new trouble");
    world.pass(60_000);
    world.head(200);
    world.body(&event("ADDED", "c", "9"));
    world.broken();
    assert_eq!(world.degraded(), Some(world.now));
}

#[test]
fn an_object_that_cannot_be_decoded_and_a_clean_end_degrade_nothing() {
    let mut world = World::watching();
    world.body("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"odd\"}}}\n");
    world.pass(1_000);
    world.close();
    assert_eq!((world.failures.len(), world.degraded()), (1, None));
}

#[test]
fn a_failure_that_repeats_says_how_often_until_its_request_works() {
    let mut world = World::listing();
    for _ in 0..3 {
        world.answer(403, "");
        world.pass(60_000);
    }
    world.answer(500, "");
    world.pass(60_000);
    world.answer(500, "");
    world.pass(60_000);
    assert_eq!(world.repeats(), [0, 1, 2, 0, 1]);
    let text = world.failure().to_string();
    assert!(text.contains("(500 InternalError), 2 times in a row; retrying in "), "{text}");
    // A collection that can only be listed: the lists between do not make the refusals new (B058).
    for version in ["5", "6", "7"] {
        world.answer(200, &list(version, &[]));
        world.answer(405, "");
        world.pass(60_000);
    }
    assert_eq!(world.repeats()[5..], [0, 1, 2]);
    world.answer(200, &list("8", &[]));
    world.head(200);
    world.body(&bookmark("9"));
    world.pass(1_000);
    world.close();
    world.answer(405, "");
    assert_eq!(world.repeats()[8..], [0], "a watch has worked since");
    world.pass(60_000);
    world.answer(403, "");
    assert_eq!(world.repeats()[9..], [0], "and lists, too");
}
