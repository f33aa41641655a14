//! A prompt's function holds a value across an await that is not `Send`.

use longhaul::{Prompt, ResourceTemplate};
use std::{future::ready, rc::Rc};

async fn greet() -> String {
    let name = Rc::new("Ann");
    ready(()).await;
    format!("Hello, {name}!")
}

fn main() {
    Prompt::new("greet", greet);
    ResourceTemplate::new("greeting://hello", greet);
}
