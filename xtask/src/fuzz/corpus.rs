//! Selects the inputs for the corpus in the repository.

use super::{FuzzError, Target, files, home};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

/// Enough for nearly full coverage, and few enough to be replayed quickly.
const MAX_INPUTS: usize = 40;

/// Replaces the target's corpus by the few of its inputs that together have the most coverage.
pub(super) fn renew(target: &Target) -> Result<(), FuzzError> {
    let reached = reached(target)?;
    let chosen = choose(&reached, &target.corpus());
    for file in files(&target.corpus())? {
        if !chosen.contains(&file) {
            fs::remove_file(file)?;
        }
    }
    for file in chosen {
        let kept = target.corpus().join(file.file_name().unwrap_or_default());
        if kept != file {
            fs::copy(file, kept)?;
        }
    }
    Ok(())
}

/// The coverage of each input, as libFuzzer's feature numbers.
fn reached(target: &Target) -> Result<BTreeMap<PathBuf, HashSet<u64>>, FuzzError> {
    let merged = home().join("merged");
    let control = home().join("merge-control");
    let _ = fs::remove_dir_all(&merged);
    let _ = fs::remove_file(&control);
    fs::create_dir_all(&merged)?;
    let arguments = [
        "-merge=1".to_owned(),
        format!("-merge_control_file={}", control.display()),
        merged.display().to_string(),
        target.corpus().display().to_string(),
        target.finds().display().to_string(),
    ];
    target.libfuzzer(&arguments)?;
    Ok(read(&fs::read_to_string(&control)?)?)
}

/// Reads libFuzzer's protocol of a merge: two counts, the files' names, and a line `FT <file> <feature>…` for each file.
fn read(protocol: &str) -> io::Result<BTreeMap<PathBuf, HashSet<u64>>> {
    let invalid = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "libFuzzer's merge protocol is not understood",
        )
    };
    let mut lines = protocol.lines();
    let count: usize = lines.next().and_then(|line| line.parse().ok()).ok_or_else(invalid)?;
    let names: Vec<&str> = lines.by_ref().skip(1).take(count).collect();
    let mut reached = BTreeMap::new();
    for line in lines {
        let Some(rest) = line.strip_prefix("FT ") else { continue };
        let mut numbers = rest.split(' ').map_while(|number| number.parse().ok());
        let nth = numbers.next().and_then(|nth| usize::try_from(nth).ok());
        let name = nth.and_then(|nth| names.get(nth)).ok_or_else(invalid)?;
        reached.insert(PathBuf::from(name), numbers.collect());
    }
    Ok(reached)
}

/// Repeatedly takes the input that adds the most coverage, until none adds any; of two alike the one that is in the corpus already,
/// then the smaller one.
fn choose(reached: &BTreeMap<PathBuf, HashSet<u64>>, corpus: &Path) -> Vec<PathBuf> {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut chosen = Vec::new();
    while chosen.len() < MAX_INPUTS {
        let rank = |(file, features): &(&PathBuf, &HashSet<u64>)| {
            let size = fs::metadata(file).map_or(u64::MAX, |found| found.len());
            (
                features.difference(&seen).count(),
                file.starts_with(corpus),
                u64::MAX - size,
            )
        };
        let Some((file, features)) = reached.iter().max_by_key(rank) else {
            break;
        };
        if features.is_subset(&seen) {
            break;
        }
        seen.extend(features);
        chosen.push(file.clone());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_read_and_the_best_are_chosen() {
        let protocol =
            "3\n1\n/c/a\n/f/b\n/f/c\nSTARTED 0 3\nFT 0 1 2\nCOV 0 9\nSTARTED 1 4\nFT 1 1 2 3 4\nSTARTED 2 4\nFT 2 5\n";
        let reached = read(protocol).unwrap();
        assert_eq!(reached.len(), 3);
        let chosen = choose(&reached, Path::new("/c"));
        assert_eq!(chosen, [PathBuf::from("/f/b"), PathBuf::from("/f/c")]);
        assert!(read("x").is_err());
    }
}
