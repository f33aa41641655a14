//! The command lines that a command can become.

use crate::command::definition::element::{CommandElement, CommandWord, ElementPart, command_words};

/// So many are looked at. Beyond it each element is varied by itself.
const MOST_LINES: usize = 1024;

/// The command lines that come of lists and switches, as indexes into [`command_words`]. The first has them all.
pub(super) fn possible_lines(command: &[CommandElement]) -> Vec<Vec<usize>> {
    let words = command_words(command);
    let choices: Vec<Vec<Vec<usize>>> = (0..command.len())
        .map(|element| choices_of(element, command, &words))
        .collect();
    let count = choices
        .iter()
        .try_fold(1_usize, |count, of_element| count.checked_mul(of_element.len()));
    let mut lines = Vec::new();
    if count.is_some_and(|count| count <= MOST_LINES) {
        lines.push(Vec::new());
        for of_element in &choices {
            // The first choice of every element is in the first line.
            let longer = of_element
                .iter()
                .flat_map(|choice| lines.iter().map(move |line| [line.as_slice(), choice].concat()));
            lines = longer.collect();
        }
        return lines;
    }
    for base in 0..3 {
        let line = |varied: usize, chosen: usize| {
            let of = |(element, of_element): (usize, &Vec<Vec<usize>>)| {
                let at = if element == varied { chosen } else { base };
                of_element[at.min(of_element.len() - 1)].clone()
            };
            choices.iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        for (element, of_element) in choices.iter().enumerate() {
            lines.extend((0..of_element.len()).map(|chosen| line(element, chosen)));
        }
    }
    lines
}

/// What an element can become.
fn choices_of(element: usize, command: &[CommandElement], words: &[CommandWord<'_>]) -> Vec<Vec<usize>> {
    let of_part = |part: ElementPart| {
        let is_in = |word: &CommandWord<'_>| word.element == element && word.part == part;
        let indexes = words.iter().enumerate().filter(move |(_, word)| is_in(word));
        indexes.map(|(index, _)| index).collect::<Vec<_>>()
    };
    match &command[element] {
        CommandElement::Text(_) => vec![of_part(ElementPart::Whole)],
        CommandElement::Group(_) => {
            let once = of_part(ElementPart::Group);
            // An array repeats it.
            let twice = [once.as_slice(), &once].concat();
            vec![once, twice, Vec::new()]
        }
        CommandElement::Switch(_) => {
            let mut parts = vec![of_part(ElementPart::Then), of_part(ElementPart::Else), Vec::new()];
            parts.dedup();
            parts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::definition::element::CommandSwitch;

    fn switch(then: &[&str], otherwise: &[&str]) -> CommandElement {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        CommandElement::Switch(CommandSwitch {
            property: "b".to_owned(),
            then: owned(then),
            otherwise: owned(otherwise),
        })
    }

    #[test]
    fn lists_and_switches_appear_in_every_combination() {
        let group = CommandElement::Group(vec!["-t".to_owned(), "{t}".to_owned()]);
        let command = ["p".into(), group, switch(&["-v"], &[]), "end".into()];
        let expected: [&[usize]; 6] = [
            &[0, 1, 2, 3, 4],
            &[0, 1, 2, 1, 2, 3, 4],
            &[0, 3, 4],
            &[0, 1, 2, 4],
            &[0, 1, 2, 1, 2, 4],
            &[0, 4],
        ];
        assert_eq!(possible_lines(&command), expected);
    }

    #[test]
    fn many_of_them_appear_and_are_missing_one_by_one() {
        let command: Vec<CommandElement> = (0..50).map(|_| switch(&["a"], &["b"])).collect();
        let lines = possible_lines(&command);
        assert!(lines.len() <= 450, "{}", lines.len());
        let all: Vec<usize> = (0..100).step_by(2).collect();
        assert_eq!(lines[0], all);
        let without = |missing: usize| {
            all.iter()
                .copied()
                .filter(|index| *index != missing)
                .collect::<Vec<_>>()
        };
        assert!(all.iter().all(|missing| lines.contains(&without(*missing))));
    }
}
