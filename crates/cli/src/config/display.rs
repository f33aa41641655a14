//! How hosts show something to people: its title and its icons.

use super::{
    media_type::{is_media_type, media_type},
    paths::{Environment, read_file},
    section::{Entry, Section},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use longhaul::Icon;

/// The largest icon. It is part of each list.
const MAX_ICON: u64 = 64 << 10;

/// The title and the icons of a server, a tool, a prompt or a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Display {
    pub(crate) title: Option<String>,
    pub(crate) icons: Vec<Icon>,
}

impl Display {
    /// Reads `title` and `icons`; `None` after a problem.
    pub(crate) fn read(section: &Section<'_>, environment: &Environment) -> Option<Self> {
        let title = section.optional_text("title");
        let icons = section.get_or("icons", Vec::new(), |entry| {
            let icons = entry.elements("an array of tables such as [{ src = \"icon.png\" }]")?;
            // Each of them is read, so that every mistake is reported.
            let icons: Vec<_> = icons.iter().map(|icon| read_icon(icon, environment)).collect();
            icons.into_iter().collect()
        });
        Some(Self {
            title: title?,
            icons: icons?,
        })
    }
}

fn read_icon(entry: &Entry<'_>, environment: &Environment) -> Option<Icon> {
    let section = entry.section("`icons`", "such as { src = \"icon.png\", sizes = [\"48x48\"] }")?;
    let mime_type = section.optional("mime_type", |entry| {
        let text = entry.text()?;
        if !(text.starts_with("image/") && is_media_type(text)) {
            entry.report("`mime_type` of an icon must be that of an image, such as \"image/png\"".to_owned());
            return None;
        }
        Some(text.to_owned())
    });
    let sizes = section.get_or("sizes", Vec::new(), |entry| {
        let sizes = entry.texts()?.into_iter().map(|(entry, size)| read_size(&entry, size));
        sizes.collect::<Vec<_>>().into_iter().collect()
    });
    let theme = section.optional("theme", |entry| entry.choice(&[("light", "light"), ("dark", "dark")]));
    let src = section
        .require("src")
        .and_then(|entry| read_src(&entry, mime_type.as_ref()?.as_deref(), environment));
    section.finish();

    let mut icon = Icon::new(src?).sizes(sizes?);
    if let Some(mime_type) = mime_type? {
        icon = icon.mime_type(mime_type);
    }
    Some(match theme? {
        Some(theme) => icon.theme(theme),
        None => icon,
    })
}

fn read_size(entry: &Entry<'_>, size: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_size = size == "any" || size.split_once('x').is_some_and(|(w, h)| is_number(w) && is_number(h));
    if !is_size {
        entry.report(format!(
            "`sizes`: {size:?} is none: write \"48x48\", or \"any\" for an icon that scales"
        ));
    }
    is_size.then(|| size.to_owned())
}

/// Where clients find the icon; the icon itself, if it is a file.
fn read_src(entry: &Entry<'_>, mime_type: Option<&str>, environment: &Environment) -> Option<String> {
    let src = entry.filled_text()?;
    if src.starts_with("data:") {
        let is_small = src.len() as u64 <= MAX_ICON * 4 / 3 + 256;
        if !is_small || !src.starts_with("data:image/") {
            entry.report(format!(
                "`src`: a data: URI must be that of an image (data:image/…) of at most {} KiB",
                MAX_ICON >> 10
            ));
            return None;
        }
        return Some(src.to_owned());
    }
    if src.starts_with("https://") {
        return Some(src.to_owned());
    }
    if src.contains("://") {
        entry.report("`src` must be an https:// or data: URI, or the path of a file".to_owned());
        return None;
    }
    let (path, bytes) = read_file(entry, environment, MAX_ICON)?;
    let Some(mime_type) = mime_type.or_else(|| media_type(src).filter(|kind| kind.starts_with("image/"))) else {
        entry.report(format!(
            "`src`: {} does not end as a known image does, such as .png or .svg: say its `mime_type`",
            path.display()
        ));
        return None;
    };
    Some(format!("data:{mime_type};base64,{}", BASE64_STANDARD.encode(bytes)))
}
