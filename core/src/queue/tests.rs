//! What client-go's queue does (traps 78 to 86 of its reference), and what users of other queues have run into
//! (B147 to B157).

use super::{Bucket, Limiter, Place, QueueConfig, WorkQueue};
use crate::object::Key;
use crate::time::{Duration, Time};
use std::string::ToString;
use std::vec::Vec;

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(QueueConfig::new(1))
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Takes and finishes all that is ready.
fn drain<K: Clone + Eq + core::hash::Hash>(queue: &mut WorkQueue<K>, now: Time) -> Vec<K> {
    let mut keys = Vec::new();
    while let Some((key, ticket)) = queue.get(now) {
        queue.done(now, ticket);
        keys.push(key);
    }
    queue.check();
    keys
}

/// Follows the deadlines for as long as there are any up to `end`; what became ready, and when.
fn follow(queue: &mut WorkQueue<&'static str>, end: Time) -> Vec<(u64, &'static str)> {
    let mut seen = Vec::new();
    while let Some(deadline) = queue.next_deadline().filter(|deadline| deadline.at <= end) {
        assert_eq!(deadline.why, "a delayed key");
        seen.extend(drain(queue, deadline.at).into_iter().map(|key| (deadline.at.as_millis(), key)));
    }
    seen
}

#[test]
fn trap_78_adds_during_processing_make_one_more_round() {
    let mut queue = queue();
    queue.add(ms(0), "a");
    let (_, ticket) = queue.get(ms(0)).unwrap();
    queue.add(ms(0), "a");
    queue.add(ms(0), "a");
    assert_eq!((queue.len(), queue.processing()), (0, 1));
    assert_eq!(queue.state(&"a").unwrap().place, Place::ProcessingAgain);
    assert!(queue.get(ms(0)).is_none());
    queue.done(ms(0), ticket);
    assert_eq!(drain(&mut queue, ms(0)), ["a"]);
    assert_eq!(queue.tracked(), 0);
}

#[test]
fn trap_79_adds_before_a_get_are_merged_and_keep_their_place() {
    let mut queue = queue();
    for key in ["a", "b", "a", "c", "b"] {
        assert!(queue.add(ms(0), key));
    }
    assert_eq!(drain(&mut queue, ms(0)), ["a", "b", "c"]);
}

#[test]
fn trap_80_a_shut_down_queue_hands_out_what_it_has() {
    let mut queue = queue();
    for key in ["x", "a", "b"] {
        queue.add(ms(0), key);
    }
    let (_, x) = queue.get(ms(0)).unwrap();
    queue.add(ms(0), "x");
    queue.shut_down();
    assert!(!queue.add(ms(0), "c"));
    assert_eq!(queue.get(ms(0)).map(|(key, a)| (key, queue.done(ms(0), a))), Some(("a", ())));
    assert!(!queue.is_exhausted());
    let (_, b) = queue.get(ms(0)).unwrap();
    assert!(queue.get(ms(0)).is_none() && !queue.is_exhausted(), "x is still to come");
    queue.done(ms(0), x);
    queue.done(ms(0), b);
    assert_eq!(drain(&mut queue, ms(0)), ["x"]);
    assert!(queue.is_exhausted() && queue.is_drained());
}

#[test]
fn trap_83_the_earliest_delay_counts_and_an_add_leaves_it_alone() {
    let mut queue = queue();
    queue.add_after(ms(0), "a", secs(10));
    queue.add_after(ms(0), "a", secs(2));
    queue.add_after(ms(0), "b", secs(2));
    queue.add_after(ms(0), "b", secs(10));
    queue.add_after(ms(0), "c", secs(5));
    queue.add(ms(0), "c");
    assert_eq!(drain(&mut queue, ms(0)), ["c"]);
    assert_eq!(queue.delayed(), 3);
    assert_eq!(follow(&mut queue, ms(60_000)), [(2_000, "a"), (2_000, "b"), (5_000, "c")]);
    assert_eq!(queue.next_deadline(), None);
    assert_eq!(queue.tracked(), 0);
}

#[test]
fn a_zero_delay_is_an_add_and_an_endless_one_is_no_overflow() {
    let mut queue = queue();
    queue.add_after(ms(1), "a", Duration::ZERO);
    queue.add_after(ms(1), "b", Duration::MAX);
    assert_eq!(drain(&mut queue, ms(1)), ["a"]);
    assert_eq!(queue.next_deadline().unwrap().at, Time::from_nanos(u64::MAX));
    assert_eq!(drain(&mut queue, Time::from_nanos(u64::MAX)), ["b"]);
    queue.add_after(Time::from_nanos(u64::MAX), "c", secs(1)); // the end of time: there is no later
    assert_eq!(drain(&mut queue, Time::from_nanos(u64::MAX)), ["c"]);
}

#[test]
fn a_delay_is_never_early_and_time_never_runs_backward() {
    let mut queue = queue();
    queue.add_after(ms(1_000), "a", secs(1));
    queue.add_after(ms(0), "b", secs(1)); // a late caller: now is still 1,000 ms
    assert!(queue.get(Time::from_nanos(ms(2_000).as_nanos() - 1)).is_none());
    assert_eq!(drain(&mut queue, ms(2_000)), ["a", "b"]);
}

#[test]
fn what_is_due_goes_before_what_is_added_later() {
    let mut queue = queue();
    queue.add_after(ms(0), "late", secs(3));
    queue.add_after(ms(0), "first", secs(1));
    queue.add_after(ms(0), "second", secs(1)); // due at the same time: in the order of their adds
    queue.add_after(ms(0), "third", secs(9));
    queue.add_after(ms(0), "third", secs(1));
    queue.add(ms(1_500), "fourth");
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&mut queue, ms(1_500)), ["first", "second", "third", "fourth"]);
    assert_eq!(queue.state(&"late").unwrap().due, Some(ms(3_000)));
}

#[test]
fn a_delay_that_ends_during_processing_makes_one_more_round() {
    let mut queue = queue();
    queue.add(ms(0), "a");
    let (_, ticket) = queue.get(ms(0)).unwrap();
    queue.add_after(ms(0), "a", secs(1));
    assert!(queue.get(ms(1_000)).is_none());
    assert_eq!((queue.delayed(), queue.state(&"a").unwrap().place), (0, Place::ProcessingAgain));
    queue.done(ms(1_000), ticket);
    assert_eq!(drain(&mut queue, ms(1_000)), ["a"]);
}

#[test]
fn trap_85_forget_resets_the_count_and_not_the_delay() {
    let mut queue = queue();
    queue.add_rate_limited(ms(0), "a");
    queue.add_rate_limited(ms(0), "a");
    assert_eq!(queue.retries(&"a"), 2);
    queue.forget(&"a");
    assert_eq!((queue.retries(&"a"), queue.delayed()), (0, 1));
    assert_eq!(follow(&mut queue, ms(100)), [(5, "a")]);
    assert_eq!(queue.tracked(), 0);
}

#[test]
fn trap_86_a_failure_takes_a_token_even_if_its_own_wait_is_longer() {
    let limiter = Limiter::default().with_bucket(Bucket::per_second(1.0, 1));
    let mut queue = WorkQueue::new(QueueConfig::new(1).limiter(limiter));
    queue.add_rate_limited(ms(0), "a"); // the saved token: 5 ms of its own
    queue.add_rate_limited(ms(0), "b");
    assert_eq!(follow(&mut queue, ms(10_000)), [(5, "a"), (1_000, "b")]);
}

#[test]
fn b143_a_key_that_failed_and_then_succeeded_leaves_nothing() {
    let mut queue = WorkQueue::new(QueueConfig::new(1));
    let keys: Vec<Key> = (0..100_000).map(|n| Key::new("ns", &n.to_string())).collect();
    for key in &keys {
        queue.add_rate_limited(ms(0), key.clone());
    }
    assert_eq!((queue.tracked(), queue.delayed()), (keys.len(), keys.len()));
    while let Some((key, ticket)) = queue.get(ms(5)) {
        queue.forget(&key);
        queue.done(ms(5), ticket);
    }
    assert_eq!((queue.tracked(), queue.delayed(), queue.next_deadline()), (0, 0, None));
    queue.check();
}

#[test]
fn b147_an_event_does_not_wait_for_a_retry_and_does_not_hide_the_failures() {
    let limiter = Limiter::exponential(secs(60), secs(1_000));
    let mut queue = WorkQueue::new(QueueConfig::new(1).limiter(limiter));
    queue.add_rate_limited(ms(0), "x");
    queue.add(ms(10), "x");
    assert_eq!(drain(&mut queue, ms(10)), ["x"]);
    assert_eq!(queue.retries(&"x"), 1);
    assert_eq!(follow(&mut queue, ms(60_000)), [(60_000, "x")]);
    queue.add_rate_limited(ms(60_000), "x");
    assert_eq!(queue.next_deadline().unwrap().at, ms(60_000 + 120_000));
}

#[test]
fn b148_waits_of_one_key_do_not_pile_up() {
    let limiter = Limiter::default().with_bucket(Bucket::per_second(1.0, 1));
    let mut queue = WorkQueue::new(QueueConfig::new(1).limiter(limiter));
    let mut seen = Vec::new();
    // One add each millisecond for a minute, and the key forgotten whenever it was worked on.
    for now in (0..60_000).map(ms) {
        queue.add_rate_limited(now, "x");
        if let Some((key, ticket)) = queue.get(now) {
            seen.push(now.as_millis());
            queue.forget(&key);
            queue.done(now, ticket);
        }
    }
    assert!(seen[0] <= 2_000);
    assert!((58..=62).contains(&seen.len()), "{} rounds in a minute", seen.len());
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] <= 1_001), "{seen:?}");
}

#[test]
fn b148_a_thousand_failures_take_one_token() {
    let limiter = Limiter::default().with_bucket(Bucket::per_second(1.0, 1));
    let mut queue = WorkQueue::new(QueueConfig::new(1).limiter(limiter));
    for now in (0..4).map(ms) {
        (0..250).for_each(|_| _ = queue.add_rate_limited(now, "x"));
    }
    queue.add_rate_limited(ms(4), "y"); // the second token
    assert_eq!(queue.retries(&"x"), 1_000);
    assert_eq!(follow(&mut queue, ms(10_000)), [(5, "x"), (1_000, "y")]);
}

#[test]
fn b150_a_drain_waits_for_queued_and_processed_keys() {
    let mut queue = queue();
    for key in ["busy", "a", "b", "c"] {
        queue.add(ms(0), key);
    }
    let (_, busy) = queue.get(ms(0)).unwrap();
    queue.shut_down_with_drain();
    assert!(queue.is_draining() && !queue.is_drained());
    assert_eq!(queue.unfinished().copied().collect::<Vec<_>>(), ["busy", "a", "b", "c"]);
    // The busy worker fails and wants another try: refused, or the drain would never end.
    assert!(!queue.add_rate_limited(ms(1), "busy"));
    assert_eq!(queue.retries(&"busy"), 0);
    queue.done(ms(1), busy);
    for left in [3, 2, 1] {
        assert_eq!(queue.unfinished().count(), left);
        let (_, ticket) = queue.get(ms(2)).unwrap();
        assert!(!queue.is_drained());
        queue.done(ms(2), ticket);
    }
    assert!(queue.is_drained());
    assert_eq!(queue.tracked(), 0);
}

#[test]
fn b151_a_shut_down_ends_the_wait_for_a_drain() {
    let mut queue = queue();
    queue.add(ms(0), "a");
    let (_, ticket) = queue.get(ms(0)).unwrap();
    queue.shut_down_with_drain();
    assert!(queue.is_draining());
    queue.shut_down();
    assert!(!queue.is_draining() && queue.is_exhausted() && !queue.is_drained());
    queue.done(ms(0), ticket);
    assert!(queue.is_drained());
}

#[test]
#[should_panic(expected = "this ticket is of another queue")]
fn b152_a_ticket_of_another_queue_is_found_out() {
    let (mut ours, mut theirs) = (queue(), WorkQueue::new(QueueConfig::new(2)));
    ours.add(ms(0), "a");
    theirs.add(ms(0), "a");
    let (_, _ours) = ours.get(ms(0)).unwrap();
    let (_, ticket) = theirs.get(ms(0)).unwrap();
    ours.done(ms(0), ticket);
}

#[test]
fn b154_nothing_comes_after_the_end_that_was_only_delayed() {
    let mut queue = queue();
    queue.add_after(ms(0), "x", secs(5));
    queue.add_rate_limited(ms(0), "y");
    assert_eq!(drain(&mut queue, ms(4)), [""; 0]);
    queue.shut_down();
    assert_eq!((queue.delayed(), queue.next_deadline()), (0, None));
    assert!(!queue.add(ms(5), "x") && !queue.add_after(ms(5), "x", secs(1)) && !queue.add_rate_limited(ms(5), "x"));
    assert_eq!(drain(&mut queue, ms(60_000)), [""; 0]);
    assert_eq!(queue.states().map(|(key, state)| (*key, state.retries)).collect::<Vec<_>>(), [("y", 1)]);
    queue.forget(&"y");
    assert_eq!(queue.tracked(), 0);
}

#[test]
fn b155_each_key_waits_for_its_own_failures() {
    let mut queue = queue();
    (0..5).for_each(|_| _ = queue.add_rate_limited(ms(0), "a"));
    assert_eq!(follow(&mut queue, ms(1_000)), [(5, "a")]);
    for key in ["a", "b"] {
        queue.add_rate_limited(ms(1_000), key);
    }
    assert_eq!(queue.state(&"b").unwrap().due, Some(ms(1_005)));
    assert_eq!(queue.state(&"a").unwrap().due, Some(ms(1_160)));
}

#[test]
fn b157_delayed_keys_do_not_count_as_ready() {
    let mut queue = queue();
    queue.add_after(ms(0), "x", secs(3_600));
    assert_eq!((queue.len(), queue.delayed(), queue.is_empty()), (0, 1, true));
}

#[test]
fn a_hot_key_does_not_starve_the_others() {
    let mut queue = queue();
    for key in ["hot", "a", "b", "c"] {
        queue.add(ms(0), key);
    }
    let mut order = Vec::new();
    for _ in 0..8 {
        let (key, ticket) = queue.get(ms(0)).unwrap();
        order.push(key);
        queue.add(ms(0), key);
        queue.done(ms(0), ticket);
    }
    assert_eq!(order, ["hot", "a", "b", "c", "hot", "a", "b", "c"]);
}

#[test]
fn the_seed_does_not_show() {
    let order = |seed| {
        let mut queue = WorkQueue::new(QueueConfig::new(seed));
        for n in 0..1_000_u64 {
            queue.add_after(ms(0), n * 7_919 % 1_000, Duration::from_millis(1 + n % 3));
        }
        drain(&mut queue, ms(10))
    };
    assert_eq!(order(1), order(2));
}
