//! What runs a piece of concurrent code under many schedules: all there are, or as many as are worth their time, drawn from
//! fixed seeds.
//!
//! The files called `schedules.rs` say what holds under each of them, and plant the mistake that one would make: the checker
//! has to find it, or it would not find ours. A thread that waits for ever is a deadlock to it, and a deadline never passes;
//! so nothing here holds because a wait ends by itself.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Schedules of each kind where there are too many for all of them.
const SCHEDULES: usize = 1_000;

/// The most orders that are tried where all of them should be: beyond it a test is too large to be one for [`always`].
const ALL: usize = 200_000;

/// Changes of priority in a schedule that is drawn like that: most faults need two or three steps at the wrong moment.
const DEPTH: usize = 3;

/// Decoders use more stack than shuttle gives.
const STACK: usize = 512 * 1024;

/// Runs `check` under the schedules of `scheduler`, and says under how many.
fn run(scheduler: impl Scheduler + 'static, check: fn()) -> usize {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(check)
}

/// `check` holds in whatever order its threads go.
///
/// # Panics
///
/// If it does not, with the schedule; if there are too many orders.
pub(crate) fn always(check: fn()) {
    let tried = run(DfsScheduler::new(Some(ALL), false), check);
    assert!(tried < ALL, "there are more orders than {ALL}: make it smaller, or use often()");
}

/// `check` holds under many orders of its threads.
///
/// # Panics
///
/// If it does not, with the schedule.
pub(crate) fn often(check: fn()) {
    drawn(SCHEDULES, check);
}

/// The same under fewer, for what takes longer.
///
/// # Panics
///
/// If it does not, with the schedule.
pub(crate) fn seldom(check: fn()) {
    drawn(SCHEDULES / 4, check);
}

fn drawn(schedules: usize, check: fn()) {
    run(RandomScheduler::new_from_seed(7, schedules), check);
    run(PctScheduler::new_from_seed(7, DEPTH, schedules), check);
}

/// The checker finds the fault that is planted in `check`, among as many schedules as [`seldom`] tries.
///
/// # Panics
///
/// If it does not.
pub(crate) fn finds(check: fn()) {
    let found = catch_unwind(AssertUnwindSafe(|| seldom(check))).is_err();
    assert!(found, "a planted fault was not found: such a fault of ours would not be, either");
}
