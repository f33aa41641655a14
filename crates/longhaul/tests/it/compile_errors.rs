//! What the compiler says about the mistakes that authors make: each file of `tests/compile_errors` is one mistake, and the file `.expected`
//! beside it has what the compiler must say about it, in this order. What else it says differs from version to version.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

#[test]
fn the_compiler_names_the_mistake() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_errors");
    let scratch = tempfile::tempdir().unwrap();
    let mut count = 0;
    for case in fs::read_dir(&cases).unwrap() {
        let case = case.unwrap().path();
        if case.extension().is_some_and(|extension| extension == "rs") {
            check(&case, scratch.path());
            count += 1;
        }
    }
    assert!(count > 0, "there is no case in {}", cases.display());
}

fn check(case: &Path, scratch: &Path) {
    let expected = fs::read_to_string(case.with_extension("expected")).unwrap();
    let compiled = Command::new("rustc")
        .args(["--edition=2024", "--emit=metadata", "--out-dir"])
        .arg(scratch)
        .arg(format!("--extern=longhaul={}", library().display()))
        .arg(format!("-Ldependency={}", dependencies().display()))
        .arg(case)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&compiled.stderr);
    assert!(!compiled.status.success(), "{} compiles", case.display());
    let mut rest = &*told;
    for line in expected.lines() {
        let Some(at) = rest.find(line) else {
            panic!(
                "{}: the compiler does not say, or not in this order:\n{line}\nbut:\n{told}",
                case.display()
            );
        };
        rest = &rest[at + line.len()..];
    }
    // A mistake must not be reported twice: the second report is about a consequence, and its advice is wrong.
    let errors = |text: &str| text.lines().filter(|line| line.starts_with("error")).count();
    let summary = 1;
    assert_eq!(
        errors(&told) - summary,
        errors(&expected),
        "{}:\n{told}",
        case.display()
    );
}

/// The directory of what this test was linked with.
fn dependencies() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// The library as it was built last; other packages may have had it built with other features.
fn library() -> PathBuf {
    let files = fs::read_dir(dependencies()).unwrap().map(|file| file.unwrap().path());
    let built = |path: &PathBuf| {
        fs::metadata(path)
            .and_then(|file| file.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("liblonghaul-") && name.ends_with(".rlib")
    };
    files.filter(is_library).max_by_key(built).unwrap()
}
