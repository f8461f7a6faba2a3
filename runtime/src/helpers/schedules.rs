//! [`Helpers`]: a shared batch is whole and in order, whoever decodes which part, and every thread ends.

use super::tests::{list, widgets};
use super::{Helpers, Lives};
use crate::schedules::{finds, seldom};
use crate::sync::Arc;
use informer_core::DynamicObject;
use informer_core::decode::Codec;
use shuttle::thread::spawn;

/// So many that their 1 KiB each is shared.
const OBJECTS: usize = 17;

/// Waits until no thread of the helpers lives: there is no deadline under the checker.
fn wait_for_the_end(lives: &Lives) {
    loop {
        let seen = lives.signal().generation();
        if lives.count() == 0 {
            return;
        }
        lives.signal().wait_past(seen, None);
    }
}

fn read(helpers: &Arc<Helpers>) {
    let store = list(OBJECTS, &Codec::<DynamicObject>::new(widgets()), helpers);
    let keys: Vec<_> = store.iter().map(|object| object.key().as_str().to_string()).collect();
    assert_eq!(keys, (0..OBJECTS).map(|n| format!("w{n:04}")).collect::<Vec<_>>(), "in the order of the list");
}

#[test]
fn a_batch_is_whole_and_in_order_whoever_decodes_its_parts() {
    seldom(|| {
        let helpers = Arc::new(Helpers::new(2, Arc::default()));
        read(&helpers);
        read(&helpers);
        helpers.close();
        wait_for_the_end(&helpers.lives);
        assert!(helpers.state.lock().batches.is_empty());
    });
}

#[test]
fn two_drivers_share_the_helpers() {
    seldom(|| {
        let helpers = Arc::new(Helpers::new(1, Arc::default()));
        let other = Arc::clone(&helpers);
        let other = spawn(move || read(&other));
        read(&helpers);
        other.join().unwrap();
        helpers.close();
        wait_for_the_end(&helpers.lives);
    });
}

#[test]
fn a_close_during_a_batch_loses_nothing_and_ends_every_thread() {
    seldom(|| {
        let helpers = Arc::new(Helpers::new(2, Arc::default()));
        let closer = Arc::clone(&helpers);
        let closer = spawn(move || closer.close());
        read(&helpers);
        closer.join().unwrap();
        wait_for_the_end(&helpers.lives);
        assert_eq!(helpers.state.lock().threads, 0);
    });
}

#[test]
fn a_close_that_tells_nobody_leaves_a_thread_waiting() {
    finds(|| {
        let helpers = Arc::new(Helpers::new(1, Arc::default()));
        read(&helpers);
        helpers.state.lock().closed = true;
        wait_for_the_end(&helpers.lives);
    });
}
