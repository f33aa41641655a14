//! Tools that return each kind of content.

use longhaul::{Content, Error, ResourceContents, Tool, ToolOutput, schemars::JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};

/// One red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
    2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, b'I', b'D', b'A', b'T', 8, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0, 0,
    3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];
/// Silence: only the header of a WAV file (8 kHz, 8 bits, one channel).
const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0";

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "test_simple_text",
            async || "This is a simple text response for testing.",
        )
        .description("A text"),
        Tool::new("test_image_content", async || Content::image("image/png", PNG)).description("A picture"),
        Tool::new("test_audio_content", async || Content::audio("audio/wav", WAV)).description("A sound"),
        Tool::new("test_embedded_resource", embedded).description("A resource with its content"),
        Tool::new("test_multiple_content_types", mixed).description("A text, a picture and a resource"),
        Tool::new("test_error_handling", failing).description("Always fails"),
        Tool::new("json_schema_2020_12_tool", async |_: Value| "The arguments fit.")
            .description("Lists its schema unchanged")
            .input_schema(address_book()),
        Tool::new("test_mirrored_argument", async |args: Mirrored| {
            format!("Looking in {}.", args.region)
        })
        .description("Takes its region from a header too"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Mirrored {
    /// Where to look.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

async fn embedded() -> Content {
    let text = "This is an embedded resource content.";
    Content::resource(ResourceContents::text("test://embedded-resource", text).mime_type("text/plain"))
}

async fn mixed() -> ToolOutput {
    let data = json!({"test": "data", "value": 123}).to_string();
    ToolOutput::text("Multiple content types test:")
        .with(Content::image("image/png", PNG))
        .with(Content::resource(
            ResourceContents::text("test://mixed-content-resource", data).mime_type("application/json"),
        ))
}

async fn failing() -> Result<(), Error> {
    Err(Error::new("This tool intentionally returns an error for testing"))
}

fn address_book() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
