//! Downloads of the files that tasks have left.

use super::{error::ApiError, files_error, parameters::ApiQuery};
use crate::{context::AdminContext, query, view::details::task_id};
use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use http::{HeaderMap, StatusCode, header};
use longhaul_admin_api::{ArtifactQuery, ArtifactView, ArtifactsView};
use longhaul_core::{Task, uri_path};
use longhaul_runtime::{Artifact, ArtifactChunk};
use std::{io, ops::Range, sync::Arc};

/// The files that an attempt has left.
pub(super) async fn list(
    State(context): State<Arc<AdminContext>>,
    Path(text): Path<String>,
    ApiQuery(ArtifactQuery { attempt }): ApiQuery<ArtifactQuery>,
) -> Result<Json<ArtifactsView>, ApiError> {
    let attempt = query::number("attempt", &attempt, 1.., "the number of an attempt, such as 1")?;
    let record = context.record_of(&task_id(&text)?).await?;
    let list = match context.engine.artifacts(&record.task, attempt).await {
        Ok(list) => list.ok_or_else(|| not_found("this task has no files"))?,
        Err(error) => return Err(files_error(&context, error).await),
    };
    let shown = |artifact: Artifact| ArtifactView {
        media_type: artifact.media_type().to_owned(),
        name: artifact.name,
        size: artifact.size,
        sha256: artifact.sha256,
    };
    Ok(Json(ArtifactsView {
        artifacts: list.kept.into_iter().map(shown).collect(),
        problems: list.problems,
        notes: list.notes,
    }))
}

/// A file, or a range of it.
pub(super) async fn download(
    State(context): State<Arc<AdminContext>>,
    Path((text, name)): Path<(String, String)>,
    ApiQuery(ArtifactQuery { attempt }): ApiQuery<ArtifactQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let attempt = query::number("attempt", &attempt, 1.., "the number of an attempt, such as 1")?;
    let record = context.record_of(&task_id(&text)?).await?;
    let source = Source {
        context,
        task: record.task,
        attempt,
        name,
    };
    let artifact = source.read(0, 0).await?.artifact;
    let tag = format!("\"{}\"", artifact.sha256);
    let asked = range(&headers, artifact.size, &tag);
    let head = [
        (header::CONTENT_TYPE, artifact.media_type().to_owned()),
        (header::CONTENT_DISPOSITION, disposition(&artifact.name)),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::ETAG, tag),
    ];
    let (status, part) = match asked {
        RangeRequest::All => (StatusCode::OK, 0..artifact.size),
        RangeRequest::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        RangeRequest::Beyond => {
            let size = [(header::CONTENT_RANGE, format!("bytes */{}", artifact.size))];
            let message = format!("the file has {} bytes", artifact.size);
            let refused = ApiError::of(StatusCode::RANGE_NOT_SATISFIABLE, "invalid", message);
            return Ok((size, refused).into_response());
        }
    };
    let length = [(header::CONTENT_LENGTH, (part.end - part.start).to_string())];
    let place = format!("bytes {}-{}/{}", part.start, part.end.saturating_sub(1), artifact.size);
    let place = (status == StatusCode::PARTIAL_CONTENT).then_some([(header::CONTENT_RANGE, place)]);
    let body = Body::from_stream(source.parts(artifact, part));
    Ok((status, head, length, place, body).into_response())
}

/// Which part of a file is asked for.
#[derive(Debug, PartialEq, Eq)]
enum RangeRequest {
    All,
    Part(Range<u64>),
    /// None of it is there.
    Beyond,
}

/// The one range that a request names. One that is not understood, and several, count as none, and so does one of another file (RFC 9110, section 14.2).
fn range(headers: &HeaderMap, size: u64, tag: &str) -> RangeRequest {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|asked| asked != tag) {
        return RangeRequest::All;
    }
    let range = text(header::RANGE).and_then(|text| text.trim().strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return RangeRequest::All;
    };
    let number = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse::<u64>())
    };
    let part = match (first, last, number(first), number(last)) {
        ("", last, _, Some(Ok(suffix))) if !last.is_empty() => size.saturating_sub(suffix)..size,
        (_, "", Some(Ok(first)), _) => first..size,
        (_, _, Some(Ok(first)), Some(Ok(last))) if first <= last => first..last.saturating_add(1).min(size),
        _ => return RangeRequest::All,
    };
    match part.is_empty() {
        true => RangeRequest::Beyond,
        false => RangeRequest::Part(part),
    }
}

/// Browsers save the file under the last part of its name, and never show it.
fn disposition(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or_default();
    let plain = |char: char| match char.is_ascii_alphanumeric() || ".-_".contains(char) {
        true => char,
        false => '_',
    };
    let ascii: String = name.chars().map(plain).collect();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{}", uri_path(name))
}

fn not_found(message: &str) -> ApiError {
    ApiError::of(StatusCode::NOT_FOUND, "not_found", message)
}

/// A file of a task.
struct Source {
    context: Arc<AdminContext>,
    task: Task,
    attempt: Option<u32>,
    name: String,
}

impl Source {
    async fn read(&self, offset: u64, limit: u64) -> Result<ArtifactChunk, ApiError> {
        let engine = &self.context.engine;
        let read = engine
            .read_artifact(&self.task, self.attempt, &self.name, offset, limit)
            .await;
        match read {
            Ok(chunk) => chunk.ok_or_else(|| not_found("this task has no file of this name")),
            Err(error) => Err(files_error(&self.context, error).await),
        }
    }

    /// The bytes of a range, which are not in memory together. The connection breaks where they cannot be read any more.
    fn parts(self, artifact: Artifact, part: Range<u64>) -> impl futures_util::Stream<Item = io::Result<Vec<u8>>> {
        stream::try_unfold((self, artifact, part), async |(source, artifact, part)| {
            if part.is_empty() {
                return Ok(None);
            }
            let chunk = source.read(part.start, part.end - part.start).await;
            let chunk = chunk.map_err(|_| io::Error::other("the file cannot be read"))?;
            if chunk.artifact != artifact || chunk.bytes.is_empty() {
                return Err(io::Error::other("the file has changed"));
            }
            let rest = chunk.next()..part.end;
            Ok(Some((chunk.bytes, (source, artifact, rest))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_answered_and_everything_else_is_the_whole() {
        let with = |name, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            headers
        };
        for (text, expected) in [
            ("bytes=0-3", RangeRequest::Part(0..4)),
            ("bytes=4-", RangeRequest::Part(4..10)),
            ("bytes=-3", RangeRequest::Part(7..10)),
            ("bytes=-30", RangeRequest::Part(0..10)),
            ("bytes=8-99", RangeRequest::Part(8..10)),
            ("bytes=0-18446744073709551615", RangeRequest::Part(0..10)),
            ("bytes=10-", RangeRequest::Beyond),
            ("bytes=-0", RangeRequest::Beyond),
            ("bytes=3-1", RangeRequest::All),
            ("bytes=0-1,3-4", RangeRequest::All),
            ("bytes=-", RangeRequest::All),
            ("bytes=+1-2", RangeRequest::All),
            ("lines=1-2", RangeRequest::All),
        ] {
            assert_eq!(range(&with(header::RANGE, text), 10, "\"a\""), expected, "{text}");
        }
        assert_eq!(
            range(&with(header::RANGE, "bytes=0-"), 0, "\"a\""),
            RangeRequest::Beyond
        );
        let mut headers = with(header::RANGE, "bytes=0-3");
        headers.insert(header::IF_RANGE, "\"b\"".parse().unwrap());
        assert_eq!(range(&headers, 10, "\"a\""), RangeRequest::All);
        assert_eq!(range(&headers, 10, "\"b\""), RangeRequest::Part(0..4));
    }

    #[test]
    fn names_are_safe_in_headers() {
        let expected = "attachment; filename=\"a___.pdf\"; filename*=UTF-8''a%22%0A%C3%A9.pdf";
        assert_eq!(disposition("out/a\"\né.pdf"), expected);
    }
}
