//! Reads OpenMetrics text, as `/metrics` has it.

use std::collections::BTreeMap;

/// All values of one name.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct MetricFamily<'a> {
    /// Without what the format adds to the names of samples, such as `_total`.
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
    pub(crate) unit: &'a str,
    /// `counter`, `gauge`, `histogram`, or another word of the format.
    pub(crate) kind: &'a str,
    pub(crate) samples: Vec<Sample<'a>>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample<'a> {
    /// What its name has after that of the family: `_total`, `_bucket`, `_sum`, `_count`, or nothing.
    pub(crate) suffix: &'a str,
    pub(crate) labels: BTreeMap<&'a str, String>,
    pub(crate) value: f64,
}

/// Reads what this server has written. A line that is none of the format is left out, and so are timestamps and exemplars.
pub(crate) fn read(text: &str) -> Vec<MetricFamily<'_>> {
    let mut families: Vec<MetricFamily<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# ") {
            describe(&mut families, described);
        } else if let Some(family) = families.last_mut()
            && let Some(rest) = line.strip_prefix(family.name)
            && let Some(sample) = sample(rest)
        {
            family.samples.push(sample);
        }
    }
    families
}

fn describe<'a>(families: &mut Vec<MetricFamily<'a>>, line: &'a str) {
    let mut words = line.splitn(3, ' ');
    let (Some(what), Some(name)) = (words.next(), words.next()) else {
        return;
    };
    if families.last().is_none_or(|family| family.name != name) {
        families.push(MetricFamily {
            name,
            ..MetricFamily::default()
        });
    }
    let (Some(family), text) = (families.last_mut(), words.next().unwrap_or_default()) else {
        return;
    };
    match what {
        "HELP" => family.help = text,
        "TYPE" => family.kind = text,
        "UNIT" => family.unit = text,
        _ => {}
    }
}

/// Reads what stands after the name of the family: `_total{tool="build"} 3`.
fn sample(rest: &str) -> Option<Sample<'_>> {
    let (suffix, rest) = rest.split_at(rest.find(['{', ' '])?);
    let mut labels = BTreeMap::new();
    let value = match rest.strip_prefix('{') {
        None => rest,
        Some(inside) => {
            let mut left = inside;
            loop {
                if let Some(after) = left.strip_prefix('}') {
                    break after;
                }
                let (name, text) = left.split_once("=\"")?;
                let (value, after) = quoted(text)?;
                labels.insert(name.trim_start_matches(','), value);
                left = after;
            }
        }
    };
    Some(Sample {
        suffix,
        labels,
        value: value.split_ascii_whitespace().next()?.parse().ok()?,
    })
}

/// The text up to the closing quote, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_kinds_labels_and_values_are_read() {
        let text = concat!(
            "# HELP a_seconds How long.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n",
            "a_seconds_sum{tool=\"x \\\"y\\\", \\\\ {z}\\n\"} 1.5\n",
            "a_seconds_bucket{le=\"+Inf\",tool=\"x\"} 2 1.0\n",
            "# HELP b Open.\n# TYPE b gauge\nb 7\nnonsense\nb{tool=\"no end} 1\n# EOF\n"
        );
        let read = read(text);
        let [long, open, ..] = &read[..] else {
            panic!("{read:?}")
        };
        assert_eq!(
            (long.name, long.help, long.kind, long.unit),
            ("a_seconds", "How long.", "histogram", "seconds")
        );
        let tool = |value: &str| ("tool", value.to_owned());
        assert_eq!(
            long.samples,
            [
                Sample {
                    suffix: "_sum",
                    labels: BTreeMap::from([tool("x \"y\", \\ {z}\n")]),
                    value: 1.5
                },
                Sample {
                    suffix: "_bucket",
                    labels: BTreeMap::from([tool("x"), ("le", "+Inf".to_owned())]),
                    value: 2.0
                }
            ]
        );
        assert_eq!((open.name, open.kind, open.samples.len()), ("b", "gauge", 1));
        assert!((open.samples[0].value - 7.0).abs() < f64::EPSILON);
    }
}
