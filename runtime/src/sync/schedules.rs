//! [`Signal`]: no wake-up is lost, in any order.

use super::{Arc, Mutex, Signal};
use crate::schedules::{always, finds, often};
use shuttle::thread::spawn;

type Ready = Arc<(Mutex<bool>, Signal)>;

/// As the module says.
fn wait(ready: &Ready) {
    loop {
        let seen = ready.1.generation();
        if *ready.0.lock() {
            return;
        }
        ready.1.wait_past(seen, None);
    }
}

fn change(ready: &Ready) {
    *ready.0.lock() = true;
    ready.1.notify();
}

#[test]
fn whoever_follows_the_rule_is_woken() {
    always(|| {
        let ready = Ready::default();
        let other = Arc::clone(&ready);
        let waiter = spawn(move || wait(&other));
        change(&ready);
        waiter.join().unwrap();
        assert_eq!(ready.1.state.lock().sleepers, 0);
    });
}

#[test]
fn a_notification_wakes_every_waiter() {
    often(|| {
        let ready = Ready::default();
        let waiters = [(); 3].map(|()| Arc::clone(&ready)).map(|ready| spawn(move || wait(&ready)));
        change(&ready);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn two_who_take_turns_go_on_to_the_end() {
    often(|| {
        let turns = Arc::new((Mutex::new(0), Signal::new()));
        let players = [0, 1].map(|me| (me, Arc::clone(&turns))).map(|(me, turns)| {
            spawn(move || {
                loop {
                    let seen = turns.1.generation();
                    let turn = *turns.0.lock();
                    if turn >= 4 {
                        return;
                    }
                    if turn % 2 == me {
                        *turns.0.lock() += 1;
                        turns.1.notify();
                    } else {
                        turns.1.wait_past(seen, None);
                    }
                }
            })
        });
        players.into_iter().for_each(|player| player.join().unwrap());
    });
}

#[test]
fn a_generation_that_is_read_after_the_look_loses_a_wake_up() {
    finds(|| {
        let ready = Ready::default();
        let other = Arc::clone(&ready);
        let waiter = spawn(move || {
            while !*other.0.lock() {
                let seen = other.1.generation();
                other.1.wait_past(seen, None);
            }
        });
        change(&ready);
        waiter.join().unwrap();
    });
}

#[test]
fn a_notification_before_the_change_loses_a_wake_up() {
    finds(|| {
        let ready = Ready::default();
        let other = Arc::clone(&ready);
        let waiter = spawn(move || wait(&other));
        ready.1.notify();
        *ready.0.lock() = true;
        waiter.join().unwrap();
    });
}

#[test]
fn a_count_of_sleepers_that_is_read_before_the_generation_moves_loses_a_wake_up() {
    finds(|| {
        let ready = Ready::default();
        let other = Arc::clone(&ready);
        let waiter = spawn(move || wait(&other));
        *ready.0.lock() = true;
        // What `notify` does, with its lock given back in between.
        let sleepers = ready.1.state.lock().sleepers;
        ready.1.state.lock().generation += 1;
        if sleepers > 0 {
            ready.1.threads.notify_all();
        }
        waiter.join().unwrap();
    });
}

#[cfg(feature = "async")]
mod task {
    use super::*;
    use shuttle::future::block_on;

    async fn wait(ready: &Ready) {
        loop {
            let seen = ready.1.generation();
            if *ready.0.lock() {
                return;
            }
            ready.1.past(seen).await;
        }
    }

    #[test]
    fn a_task_and_a_thread_are_woken_by_the_same_notification() {
        often(|| {
            let ready = Ready::default();
            let (one, other) = (Arc::clone(&ready), Arc::clone(&ready));
            let task = spawn(move || block_on(wait(&one)));
            let thread = spawn(move || super::wait(&other));
            change(&ready);
            task.join().unwrap();
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_task_that_looks_before_it_reads_the_generation_sleeps_for_ever() {
        finds(|| {
            let ready = Ready::default();
            let other = Arc::clone(&ready);
            let task = spawn(move || {
                block_on(async {
                    while !*other.0.lock() {
                        other.1.past(other.1.generation()).await;
                    }
                });
            });
            change(&ready);
            task.join().unwrap();
        });
    }
}
