//! Times and calendars of systemd (systemd.time(7)).

/// A calendar as the five fields of cron.
#[derive(Debug, PartialEq)]
pub(super) struct Cron {
    pub(super) fields: String,
    pub(super) zone: Option<String>,
}

/// A length of time such as `1h 30min` or `90`, as a configuration of ours has it; `None` for none, or what is not understood.
pub(super) fn duration(text: &str) -> Option<String> {
    const UNITS: [(&[&str], u64); 7] = [
        (&["ms", "msec"], 1),
        (&["", "s", "sec", "second", "seconds"], 1_000),
        (&["m", "min", "minute", "minutes"], 60_000),
        (&["h", "hr", "hour", "hours"], 3_600_000),
        (&["d", "day", "days"], 86_400_000),
        (&["w", "week", "weeks"], 604_800_000),
        (&["M", "month", "months"], 2_630_016_000),
    ];
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (mut millis, mut rest) = (0_u64, compact.as_str());
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(names, _)| names.contains(&&rest[..letters]))?;
        millis = millis.checked_add(number.checked_mul(*unit)?)?;
        rest = &rest[letters..];
    }
    match millis {
        0 => None,
        millis if millis % 1_000 > 0 => Some(format!("{millis}ms")),
        millis if millis % 60_000 > 0 => Some(format!("{}s", millis / 1_000)),
        millis if millis % 3_600_000 > 0 => Some(format!("{}m", millis / 60_000)),
        millis => Some(format!("{}h", millis / 3_600_000)),
    }
}

/// A calendar such as `Mon..Fri *-*-* 03:30:00 Europe/Berlin`; `None` if cron cannot say it.
pub(super) fn cron(text: &str) -> Option<Cron> {
    let fields = match text.trim().to_lowercase().as_str() {
        "minutely" => Some("* * * * *"),
        "hourly" => Some("0 * * * *"),
        "daily" => Some("0 0 * * *"),
        "weekly" => Some("0 0 * * 1"),
        "monthly" => Some("0 0 1 * *"),
        "quarterly" => Some("0 0 1 1,4,7,10 *"),
        "semiannually" => Some("0 0 1 1,7 *"),
        "yearly" | "annually" => Some("0 0 1 1 *"),
        _ => None,
    };
    if let Some(fields) = fields {
        return Some(Cron {
            fields: fields.to_owned(),
            zone: None,
        });
    }
    let (mut weekday, mut date, mut time, mut zone) = (None, None, None, None);
    for word in text.split_whitespace() {
        if word.contains(':') {
            time = Some(word);
        } else if word.contains('/') && word.contains(|c: char| c.is_ascii_alphabetic()) || word == "UTC" {
            zone = Some(word.to_owned());
        } else if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            weekday = Some(word);
        } else {
            date = Some(word);
        }
    }
    let (month, day) = match date.map(|date| date.split('-').collect::<Vec<_>>()).as_deref() {
        None => ("*", "*"),
        Some([month, day] | ["*", month, day]) => (*month, *day),
        Some(_) => return None,
    };
    let (hour, minute) = match time.unwrap_or("00:00").split(':').collect::<Vec<_>>().as_slice() {
        [hour, minute] | [hour, minute, "0" | "00"] => (*hour, *minute),
        _ => return None,
    };
    let weekday = match weekday {
        Some(weekday) => weekdays(weekday)?,
        None => "*".to_owned(),
    };
    if weekday != "*" && day != "*" {
        // Systemd wants both, cron either.
        return None;
    }
    let fields = [
        field(minute, 59)?,
        field(hour, 23)?,
        field(day, 31)?,
        field(month, 12)?,
        weekday,
    ]
    .join(" ");
    Some(Cron { fields, zone })
}

/// Numbers, lists, ranges and steps of one field.
fn field(text: &str, most: u8) -> Option<String> {
    let part = |part: &str| {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u8>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let number = |text: &str| text.parse::<u8>().ok().filter(|number| *number <= most);
        let range = match (range, range.split_once("..")) {
            ("*", _) => "*".to_owned(),
            (_, Some((first, last))) => format!("{}-{}", number(first)?, number(last)?),
            // From there on.
            (first, None) if step.is_some() => match number(first)? {
                0 => "*".to_owned(),
                first => format!("{first}-{most}"),
            },
            (only, None) => number(only)?.to_string(),
        };
        Some(match step {
            Some(step) => format!("{range}/{step}"),
            None => range,
        })
    };
    let parts: Option<Vec<String>> = text.split(',').map(part).collect();
    parts.map(|parts| parts.join(","))
}

fn weekdays(text: &str) -> Option<String> {
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let day = |name: &str| DAYS.iter().position(|day| name.to_lowercase().starts_with(day));
    let part = |part: &str| {
        Some(match part.split_once("..") {
            Some((first, last)) => match (day(first)?, day(last)?) {
                (first, 0) => format!("{first}-7"),
                (first, last) => format!("{first}-{last}"),
            },
            None => day(part)?.to_string(),
        })
    };
    let parts: Option<Vec<String>> = text.split(',').map(part).collect();
    parts.map(|parts| parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendars_are_what_cron_says_or_nothing() {
        for (text, fields) in [
            ("daily", Some("0 0 * * *")),
            ("*-*-* 03:30:00", Some("30 3 * * *")),
            ("03:30", Some("30 3 * * *")),
            ("Mon..Fri 09:00", Some("0 9 * * 1-5")),
            ("Sat,Sun *-*-* 10:05", Some("5 10 * * 6,0")),
            ("Fri..Sun 10:00", Some("0 10 * * 5-7")),
            ("*-*-01 00:00:00", Some("0 0 1 * *")),
            ("*-1/3-1 04:00", Some("0 4 1 1-12/3 *")),
            ("*:0/15", Some("*/15 * * * *")),
            ("*-*-* 8..18:00", Some("0 8-18 * * *")),
            ("*:*:00", Some("* * * * *")),
            // Every second, years, both days: cron has none of these.
            ("*:*:0/10", None),
            ("2027-01-01 00:00", None),
            ("Mon *-*-01 00:00", None),
            ("*-*-* 25:00", None),
        ] {
            assert_eq!(cron(text).map(|cron| cron.fields).as_deref(), fields, "{text}");
        }
        let zone = cron("*-*-* 03:00 Europe/Berlin").and_then(|cron| cron.zone);
        assert_eq!(zone.as_deref(), Some("Europe/Berlin"));
    }

    #[test]
    fn durations_are_written_in_our_units() {
        for (text, written) in [
            ("90", Some("90s")),
            ("1h 30min", Some("90m")),
            ("2h", Some("2h")),
            ("500ms", Some("500ms")),
            ("1d", Some("24h")),
            ("infinity", None),
            ("0", None),
        ] {
            assert_eq!(duration(text).as_deref(), written, "{text}");
        }
    }
}
