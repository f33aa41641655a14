//! The compiler's messages for mistakes that authors make: each file of `tests/compile_errors` has one mistake, and the file `.expected`
//! beside it has lines that must be in the output, in this order. Other lines differ from version to version.

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
    let output = String::from_utf8_lossy(&compiled.stderr);
    assert!(!compiled.status.success(), "{} compiles", case.display());
    let mut rest = &*output;
    for line in expected.lines() {
        let Some(at) = rest.find(line) else {
            panic!(
                "{}: the compiler's output lacks this line, or has it in another place:\n{line}\nThe output:\n{output}",
                case.display()
            );
        };
        rest = &rest[at + line.len()..];
    }
    // A mistake must not be reported twice: the second error would be a consequence of the first, with wrong advice.
    let errors = |text: &str| text.lines().filter(|line| line.starts_with("error")).count();
    let summary = 1;
    assert_eq!(
        errors(&output) - summary,
        errors(&expected),
        "{}:\n{output}",
        case.display()
    );
}

/// The directory of the libraries that this test is linked with.
fn dependencies() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// The library that was built last; others may have been built with other features.
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
