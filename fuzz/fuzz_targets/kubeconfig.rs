//! See `informer_fuzz::kubeconfig`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| informer_fuzz::kubeconfig::run(data));

#[cfg(not(fuzzing))]
fn main() {
    informer_fuzz::replay_arguments("kubeconfig");
}
