//! Every input of the corpus, through its target, on stable Rust.

use informer_fuzz::TARGETS;
use std::path::Path;

#[test]
fn each_input_of_the_corpus_passes_its_target() {
    for (target, run) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut inputs = 0;
        for file in files {
            let path = file.expect("a file").path();
            let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if let Err(panic) = std::panic::catch_unwind(|| run(&data)) {
                eprintln!("{}: this input fails", path.display());
                std::panic::resume_unwind(panic);
            }
            inputs += 1;
        }
        assert!(inputs >= 10, "{target} has {inputs} inputs, too few to say anything");
    }
}

#[test]
fn each_folder_of_the_corpus_belongs_to_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in std::fs::read_dir(corpus).expect("the corpus") {
        let name = folder.expect("a folder").file_name();
        assert!(TARGETS.iter().any(|(target, _)| name == *target), "{name:?} belongs to no target");
    }
}
