//! See `informer_fuzz::gzip`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| informer_fuzz::gzip::run(data));

#[cfg(not(fuzzing))]
fn main() {
    informer_fuzz::replay_arguments("gzip");
}
