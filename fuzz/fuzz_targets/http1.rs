//! See `informer_fuzz::http1`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| informer_fuzz::http1::run(data));

#[cfg(not(fuzzing))]
fn main() {
    informer_fuzz::replay_arguments("http1");
}
