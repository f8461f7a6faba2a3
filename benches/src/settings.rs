//! How long criterion measures: enough for ratios, and short enough that all groups are done within minutes.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use std::time::Duration;

/// The settings of every group; options on the command line win. Call `final_summary` on it at the end of `main`.
pub fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args()
}

/// For a group whose one round takes a tenth of a second or more: the fewest samples that criterion takes, one round
/// each.
pub fn slow(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(1));
}
