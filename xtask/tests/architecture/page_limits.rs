//! How long the pages for maintainers may be, so that they are read.

use super::pages::{ARCHITECTURE, CONTRIBUTING, MaintainerPage};

/// The most words of a paragraph, an item of a list, or a row of a table.
const MOST_WORDS_OF_PARAGRAPH: usize = 120;
/// The most lines and words of the map.
const MAP: (usize, usize) = (300, 2_500);
const MOST_WORDS_OF_CONTRIBUTING: usize = 1_500;
/// The most words of a page about the design.
const MOST_WORDS_OF_DESIGN: usize = 2_000;

/// What is too long in a page.
pub(crate) fn flaws(page: &MaintainerPage) -> Vec<String> {
    let MaintainerPage { path, text } = page;
    let (most_lines, most_words) = match path.as_str() {
        ARCHITECTURE => (Some(MAP.0), MAP.1),
        CONTRIBUTING => (None, MOST_WORDS_OF_CONTRIBUTING),
        _ => (None, MOST_WORDS_OF_DESIGN),
    };
    let (lines, words) = (text.lines().count(), count(text));
    let mut flaws = Vec::new();
    if let Some(most) = most_lines.filter(|most| lines > *most) {
        flaws.push(format!("{path} has {lines} lines, and may have {most}"));
    }
    if words > most_words {
        flaws.push(format!("{path} has {words} words, and may have {most_words}"));
    }
    flaws.extend(paragraphs(text).into_iter().filter_map(|paragraph| {
        let words = count(&paragraph);
        let begin = paragraph.get(..60).unwrap_or(&paragraph);
        (words > MOST_WORDS_OF_PARAGRAPH)
            .then(|| format!("{path}: a paragraph has {words} words, and may have {MOST_WORDS_OF_PARAGRAPH}: {begin}…"))
    }));
    flaws
}

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The paragraphs, items of lists and rows of tables of a page. Blocks of code are none.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_code = false;
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_fence || line.is_empty() || begins_paragraph(line) {
            paragraphs.push(String::new());
        }
        if let Some(paragraph) = paragraphs.last_mut().filter(|_| !is_code && !is_fence) {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line);
        }
    }
    paragraphs
}

fn begins_paragraph(line: &str) -> bool {
    let is_numbered = || {
        line.split_once(". ")
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    ["- ", "* ", "|", "#"].iter().any(|first| line.starts_with(first)) || is_numbered()
}

#[test]
fn what_is_too_long_is_found() {
    let flaws_of = |path: &str, text: String| {
        let path = path.to_owned();
        flaws(&MaintainerPage { path, text }).len()
    };
    let words = |count: usize| "word ".repeat(count);
    assert_eq!(flaws_of("a.md", words(120)), 0);
    assert_eq!(flaws_of("a.md", words(121)), 1);
    assert_eq!(flaws_of("a.md", format!("- {}\n  {}", words(60), words(60))), 1);
    let parts = format!(
        "## {0}\n1. {0}\n2. {0}\n- {0}\n| {0} |\n| {0} |\n\n{1}\n\n{1}\n",
        words(100),
        words(20)
    );
    assert_eq!(flaws_of("a.md", parts), 0);
    assert_eq!(flaws_of("a.md", format!("```text\n{}\n```\n", words(121))), 0);
    let limits = [
        (ARCHITECTURE, MAP.1),
        (CONTRIBUTING, MOST_WORDS_OF_CONTRIBUTING),
        ("a.md", MOST_WORDS_OF_DESIGN),
    ];
    for (path, most) in limits {
        let page = format!("{}\n\n", words(100)).repeat(most / 100);
        assert_eq!(flaws_of(path, page.clone()), 0, "{path}");
        assert_eq!(flaws_of(path, page + "word"), 1, "{path}");
    }
    assert_eq!(flaws_of(ARCHITECTURE, "\n".repeat(MAP.0)), 0);
    assert_eq!(flaws_of(ARCHITECTURE, "\n".repeat(MAP.0 + 1)), 1);
}
