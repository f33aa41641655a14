//! What a gateway would offer.

use crate::{
    upstream::{Tasks, Upstream},
    world::{RunningGateway, at_url, guarded, options},
};
use longhaul_client::ChildOptions;
use longhaul_core::TaskPolicy;
use longhaul_gateway::{Target, UpstreamCheck, UpstreamOptions, check};
use longhaul_runtime::Ports;
use std::time::Duration;

async fn reports(upstreams: Vec<longhaul_gateway::UpstreamOptions>, limit: Duration) -> Vec<UpstreamCheck> {
    let prefix = upstreams.len() > 1;
    reports_with(upstreams, prefix, limit).await
}

async fn reports_with(
    upstreams: Vec<longhaul_gateway::UpstreamOptions>,
    prefix: bool,
    limit: Duration,
) -> Vec<UpstreamCheck> {
    let ports = Ports::system();
    let checked = check(upstreams, prefix, "1.0.0", limit, &ports);
    guarded("the check", checked).await.unwrap()
}

#[tokio::test]
async fn each_upstream_is_told_with_its_tools_and_what_is_probably_wrong() {
    let [one, two] = Upstream::of_both_eras().await;
    let mut upstreams = options(&[("one", &one), ("two", &two)]);
    upstreams[0].tools.allow = ["e*", "repeat", "x*"].map(|pattern| pattern.parse().unwrap()).to_vec();
    upstreams[0].tools.deny = vec!["nothing".parse().unwrap()];
    upstreams[0]
        .tools
        .rename
        .insert("no_such".to_owned(), "other".to_owned());
    upstreams[1].rules.clear();
    let reports = reports(upstreams, Duration::from_secs(20)).await;
    let [one, two] = &reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!(one.server.as_ref().unwrap().version, "2025-11-25");
    let offered: Vec<_> = one.tools.iter().map(|tool| tool.offered.as_str()).collect();
    assert_eq!(offered, ["one_repeat", "one_echo"]);
    let expected = (true, TaskPolicy::Optional);
    assert_eq!((one.tools[0].idempotent, one.tools[0].policy), expected);
    assert!(one.left_out.contains(&"hold".to_owned()), "{:?}", one.left_out);
    assert_eq!(
        one.warnings,
        [
            "`tools.allow`: it has no tool `x*`",
            "`tools.deny`: it has no tool `nothing`",
            "`tools.rename`: it has no tool `no_such`",
        ]
    );
    let talk = two.tools.iter().find(|tool| tool.name == "talk").unwrap();
    assert_eq!((talk.policy, talk.makes_tasks), (TaskPolicy::After(5_000), false));
    assert!(
        two.warnings
            .contains(&"its resource note://1 is hidden: upstream `one` has one with this URI".to_owned()),
        "{:?}",
        two.warnings
    );
    assert_eq!((two.prompts, two.resources), (1, 2));
}

/// A server whose list has a name twice.
const TWICE: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*) result='"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"twice","version":"1"}' ;;
    *'"method":"tools/list"'*) result='"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]' ;;
    *'"method":"ping"'*) result= ;;
    *'"method":"notifications/'*) continue ;;
    *) printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}'; continue ;;
  esac
  printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{'"$result"'}}'
done
"#;

/// The first tool of the name is offered, and a server with such an upstream starts.
#[cfg(unix)]
#[tokio::test]
async fn a_name_that_an_upstream_lists_twice_is_a_warning() {
    let child = ChildOptions::new("sh", ["-c", TWICE]);
    let other = Upstream::start(Tasks::Modern).await;
    let mut upstreams = options(&[("other", &other)]);
    upstreams[0].tools.allow = vec!["echo".parse().unwrap()];
    upstreams.insert(0, UpstreamOptions::new("up", Target::Command(child)));
    let mut checked = reports_with(upstreams.clone(), false, Duration::from_secs(20)).await;
    let report = checked.remove(0);
    let names: Vec<&str> = report.tools.iter().map(|tool| &*tool.offered).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(report.collisions, Vec::<String>::new());
    let expected = ["of its list of tools is ignored: 1 with the name `a` of an earlier one"];
    assert_eq!(report.warnings, expected);
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), upstreams).await;
    gateway.gateway.refuse_collisions().await.unwrap();
    let offered = gateway.server.engine().unwrap().catalog().snapshot();
    let names: Vec<&str> = offered.tools.keys().map(|name| &**name).collect();
    assert!(["a", "b", "echo"].iter().all(|name| names.contains(name)), "{names:?}");
    gateway.stop().await;
}

/// Strict hosts refuse a tool with such a name, and some of them all tools beside it.
#[cfg(unix)]
#[tokio::test]
async fn a_name_that_strict_hosts_refuse_is_a_warning() {
    let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let names = ["with space", "ünï", "", "usual-1.x"].map(tool).join(",");
    let (before, rest) = TWICE.split_once(r#""tools":["#).unwrap();
    let (_, after) = rest.split_once("]'").unwrap();
    let script = format!(r#"{before}"tools":[{names}]'{after}"#);
    let child = ChildOptions::new("sh", ["-c", &script]);
    let other = Upstream::start(Tasks::Modern).await;
    let mut upstreams = options(&[("other", &other)]);
    upstreams.insert(0, UpstreamOptions::new("mal", Target::Command(child)));
    let report = reports(upstreams, Duration::from_secs(20)).await.remove(0);
    let warned = |part: &str| report.warnings.iter().filter(|warning| warning.contains(part)).count();
    for odd in [
        "`mal_with space` has a space",
        "`mal_ünï` has 'ü'",
        "`mal_` is that of the upstream alone",
    ] {
        assert_eq!(warned(odd), 1, "{odd}: {:?}", report.warnings);
    }
    assert_eq!(warned("usual"), 0, "{:?}", report.warnings);
}

/// Without prefixes, the first upstream in the order of the file keeps a name, and a URI in any case.
#[tokio::test]
async fn names_and_uris_of_several_upstreams_that_collide_are_told() {
    let up = Upstream::start(Tasks::Modern).await;
    let mut upstreams = options(&[("one", &up), ("two", &up)]);
    upstreams[1].tools.allow = ["echo", "hold"].map(|pattern| pattern.parse().unwrap()).to_vec();
    upstreams[1].tools.rename.insert("hold".to_owned(), "keep".to_owned());
    let bare = reports_with(upstreams.clone(), false, Duration::from_secs(20)).await;
    assert_eq!(bare[0].collisions, Vec::<String>::new());
    assert_eq!(
        bare[1].collisions,
        [
            "its tool `echo` is not offered: upstream `one` has one of the name `echo`; rename it with `tools.rename`, or use prefixes"
        ]
    );
    let prefixed = reports(upstreams, Duration::from_secs(20)).await;
    assert_eq!(prefixed[1].collisions, Vec::<String>::new());
    for reports in [&bare, &prefixed] {
        let of_uris = |report: &UpstreamCheck| {
            let hidden = |warning: &&String| warning.contains("is hidden: upstream `one` has one with this URI");
            report.warnings.iter().filter(hidden).count()
        };
        let has = reports[1].resources + reports[1].templates;
        assert_eq!((of_uris(&reports[0]), of_uris(&reports[1])), (0, has));
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_or_hangs_is_told_in_words() {
    let up = Upstream::start(Tasks::Legacy).await;
    // Connections are accepted, and nothing is answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut upstreams = options(&[("down", &up), ("hangs", &up)]);
    upstreams[0].target = at_url("http://127.0.0.1:1/mcp".to_owned());
    upstreams[1].target = at_url(format!("http://{}/mcp", silent.local_addr().unwrap()));
    let reports = reports(upstreams, Duration::from_millis(500)).await;
    let reasons: Vec<_> = reports
        .iter()
        .map(|report| report.server.clone().unwrap_err())
        .collect();
    assert!(reasons[0].contains("cannot be reached"), "{reasons:?}");
    assert_eq!(reasons[1], "it has not answered within 500ms");
}
