//! See `informer_fuzz::selectors`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| informer_fuzz::selectors::run(data));

#[cfg(not(fuzzing))]
fn main() {
    informer_fuzz::replay_arguments("selectors");
}
