//! Clocks that stand still, jump, or contradict each other.

use super::flow::everywhere;
use super::harness::{World, bookmark, event, list};
use crate::informer::{Input, Output};
use crate::reflector::Phase;
use crate::time::{Duration, Time};
use crate::wire::Head;
use std::string::String;

/// Some moment of 2026.
const NOW: Duration = Duration::from_secs(1_790_000_000);

impl World {
    fn wall_clock(&mut self, unix: Duration) {
        self.input(Input::WallClock(unix));
    }

    /// The outputs since `line` but for the last, which says what is waited for.
    fn since(&self, line: usize) -> &[String] {
        &self.log[line..self.log.len() - 1]
    }
}

#[test]
fn a_clock_that_stands_still_or_runs_backward_is_taken_for_the_last_time() {
    let mut world = World::watching();
    world.now = Time::ZERO;
    world.informer.handle(Time::ZERO, Input::Tick);
    let Output::Wait(Some(deadline)) = world.informer.poll_output() else { panic!("nothing happened") };
    assert_eq!(deadline.at, Time::from_millis(1_000_000) + Duration::from_secs(150));
}

#[test]
fn a_suspend_fires_what_is_due_once_and_then_looks_at_the_input() {
    let mut world = World::watching();
    world.add_handler(1, Some(Duration::from_secs(30)));
    world.told(1);
    let id = world.id();
    world.now = world.now + Duration::from_secs(86_400);
    let late = event("ADDED", "late", "6");
    world.input(Input::Body { id, bytes: late.as_bytes() });
    assert_eq!(world.cancelled, [2]);
    assert_eq!((world.stored().join(""), world.informer.stats().stale_answers), ("ns/a@4".into(), 1));
    assert_eq!(world.watch_version(), "5", "the event comes again");
    assert_eq!(world.told(1), ["resync ns/a@4 by Resync"], "the periods that were missed are one");
    assert_eq!(world.log.iter().filter(|line| line.starts_with("resync")).count(), 1);
    assert_eq!(world.deadline.unwrap().at, world.now + Duration::from_secs(10));
}

#[test]
fn a_clock_that_jumps_two_hours_and_back_fires_each_timer_once() {
    for mut world in everywhere() {
        let (phase, finished) = (world.phase(), world.has_kept());
        world.add_handler(1, Some(Duration::from_secs(60)));
        let start = world.now;
        world.pass(7_200_000);
        let after = world.log.len();
        let deadline = world.deadline;
        for back in [start, Time::ZERO, world.now] {
            world.informer.handle(back, Input::Tick);
            let Output::Wait(again) = world.informer.poll_output() else { panic!("from {phase}: nothing is due") };
            assert_eq!(again, deadline, "from {phase}");
        }
        assert_eq!(world.log.len(), after);
        // Each timer fired: what is waited for now lies ahead of the time that was jumped to.
        assert!(deadline.is_none_or(|deadline| deadline.at > world.now), "from {phase}");
        assert_eq!(deadline.is_none(), phase == Phase::Idle || finished, "from {phase}");
        let resyncs = world.log.iter().filter(|line| line.starts_with("resync")).count();
        assert!(resyncs <= 1, "from {phase}: {resyncs} resyncs");
    }
}

#[test]
fn a_wall_clock_that_ran_ahead_means_a_suspend_and_the_watch_is_opened_anew_and_quietly() {
    let mut world = World::watching();
    world.body(&event("ADDED", "b", "7"));
    world.wall_clock(NOW);
    world.pass(60_000);
    world.wall_clock(NOW + Duration::from_secs(3_660));
    assert_eq!((world.cancelled.as_slice(), world.phase()), (&[2][..], Phase::Opening));
    let again = world.sent();
    assert!(again.fresh_connection, "the old one may be half-open");
    assert_eq!((again.query_value("watch"), again.query_value("resourceVersion")), (Some("true"), Some("7")));
    assert_eq!((world.failures.len(), world.stored().join(" ")), (0, "ns/a@4 ns/b@7".into()));
    world.head(200);
    world.body(&bookmark("8"));
    assert_eq!((world.phase(), world.informer.stats().lists), (Phase::Watching, 1));
}

#[test]
fn clocks_that_part_by_less_run_back_or_are_told_for_the_first_time_change_nothing() {
    for mut world in everywhere() {
        let (phase, line) = (world.phase(), world.log.len());
        world.wall_clock(NOW);
        let mut unix = NOW;
        for millis in [0, 4_999, 0, 4_999] {
            unix += Duration::from_millis(millis);
            world.wall_clock(unix);
        }
        // Set back by an hour; from then on that is the clock.
        world.wall_clock(unix - Duration::from_secs(3_600));
        world.wall_clock(unix - Duration::from_secs(3_596));
        world.wall_clock(Duration::ZERO);
        assert!(world.since(line).iter().all(|line| line.starts_with("wait")), "{phase}: {:?}", world.since(line));
        assert_eq!(world.phase(), phase);
    }
}

#[test]
fn a_suspend_in_any_other_state_costs_a_fresh_connection_and_no_request() {
    for mut world in everywhere() {
        let (phase, line, deadline) = (world.phase(), world.log.len(), world.deadline);
        if phase == Phase::Watching {
            continue;
        }
        world.wall_clock(NOW);
        world.wall_clock(NOW + Duration::from_secs(86_400));
        assert!(world.since(line).iter().all(|line| line.starts_with("wait")), "{phase}: {:?}", world.since(line));
        assert_eq!((world.phase(), world.deadline), (phase, deadline));
    }
    let mut world = World::listing();
    world.wall_clock(NOW);
    world.wall_clock(NOW + Duration::from_secs(86_400));
    world.sent();
    world.answer(200, &list("5", &[]));
    assert!(world.sent().fresh_connection);
}

#[test]
fn a_wall_clock_that_jumps_all_the_time_makes_no_hot_loop() {
    let mut world = World::watching();
    world.wall_clock(NOW);
    let (start, mut unix, mut watches) = (world.now, NOW, 0);
    while world.now < start + Duration::from_secs(80) {
        unix += Duration::from_secs(60);
        world.wall_clock(unix);
        if world.phase() == Phase::Opening {
            world.head(200);
            watches += 1;
        }
        world.pass(10);
    }
    assert!((90..=101).contains(&watches), "{watches} watches in 80 s: one in 800 ms");
    assert!(world.failures.is_empty());
}

#[test]
fn a_date_to_wait_for_is_read_against_the_wall_clock_where_the_answer_has_none() {
    // 784111777 is Sun, 06 Nov 1994 08:49:37 GMT.
    let unix = Duration::from_secs(784_111_777);
    let mut head = Head::new(503);
    head.set("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
    let mut world = World::opening();
    world.wall_clock(unix);
    world.pass(10_000);
    // The connection was too slow; the clock went on.
    world.back_off(800);
    let passed = world.now.since(Time::from_millis(1_000_000)).as_millis() as u64;
    world.head_with(&head);
    world.close();
    let left = (30_000 - passed).div_ceil(1_000) * 1_000;
    world.back_off_in(left, left + left / 4);
    // The answer's own date wins, and without any clock the date is passed over.
    head.set("date", "Sun, 06 Nov 1994 08:50:00 GMT");
    world.head_with(&head);
    world.close();
    world.back_off_in(7_000, 8_750);
    let mut world = World::opening();
    head.date = None;
    world.head_with(&head);
    world.close();
    world.back_off(800);
}
