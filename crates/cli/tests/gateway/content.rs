//! Prompts and resources of the file beside those of an upstream.

use super::support::*;
use std::fs;

/// Both have a prompt `shared` and a resource `docs://shared`; each has one of its own.
fn content(owner: &str) -> String {
    format!(
        r#"
[[prompt]]
name = "shared"
text = "{owner} fills in {{what}}"
arguments = [{{ name = "what", required = true }}]

[[prompt]]
name = "prompt_{owner}"
text = "only {owner}"

[[resource]]
name = "shared"
uri = "docs://shared"
file = "{owner}.md"

[[resource]]
name = "resource_{owner}"
uri = "docs://{owner}"
file = "{owner}.md"
"#
    )
}

#[test]
fn what_the_file_offers_comes_before_the_upstreams() {
    let folder = folder();
    let folder = folder.path();
    for owner in ["upstream", "gateway"] {
        fs::write(folder.join(format!("{owner}.md")), format!("text of {owner}")).unwrap();
    }
    let append = |file: &str, owner: &str| {
        let path = folder.join(file);
        let written = fs::read_to_string(&path).unwrap();
        fs::write(path, written + &content(owner)).unwrap();
    };
    append("upstream.toml", "upstream");
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    append("gateway.toml", "gateway");
    let gateway = serve(folder, &["gateway.toml"]);
    let url = &*gateway.url;

    until("the prompts of the upstream", || {
        done(folder, &["prompts", url, "--json"]).contains("prompt_upstream")
    });
    let prompts = done(folder, &["prompts", url, "--json"]);
    assert!(prompts.contains("prompt_gateway"), "{prompts}");
    assert_eq!(prompts.matches("\"shared\"").count(), 1, "{prompts}");
    let resources = done(folder, &["resources", url, "--json"]);
    assert!(
        resources.contains("docs://gateway") && resources.contains("docs://upstream"),
        "{resources}"
    );
    assert_eq!(resources.matches("docs://shared").count(), 1, "{resources}");

    done(folder, &["prompts", url, "shared", "what=it"]).has("gateway fills in it");
    done(folder, &["prompts", url, "prompt_upstream"]).has("only upstream");
    for (uri, owner) in [
        ("docs://shared", "gateway"),
        ("docs://gateway", "gateway"),
        ("docs://upstream", "upstream"),
    ] {
        done(folder, &["resources", url, "--uri", uri]).has(&format!("text of {owner}"));
    }
    let refused = run(folder, &["prompts", url, "shared", "what=it", "tone=kind"]);
    assert!(!refused.status.success(), "{refused:?}");
    refused.says("tone");
}
