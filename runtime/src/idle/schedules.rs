//! [`Idle`]: a connection is handed out once, and none is lost.

use super::Idle;
use crate::schedules::{always, finds};
use crate::sync::Arc;
use shuttle::thread::spawn;

#[test]
fn a_connection_is_handed_out_once_and_none_is_lost() {
    always(|| {
        let idle = Arc::new(Idle::default());
        idle.keep(1);
        let others = [Arc::clone(&idle), Arc::clone(&idle)];
        let takers = others.map(|idle| spawn(move || idle.take()));
        idle.keep(2);
        let taken: Vec<i32> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
        let left: Vec<i32> = std::iter::from_fn(|| idle.take()).collect();
        let mut all = [taken, left].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn a_look_and_a_take_are_not_one_step() {
    finds(|| {
        let idle = Arc::new(Idle::default());
        idle.keep(1);
        let other = Arc::clone(&idle);
        let other = spawn(move || other.take());
        if !idle.0.lock().is_empty() {
            assert!(idle.take().is_some(), "it was there a moment ago");
        }
        other.join().unwrap();
    });
}
