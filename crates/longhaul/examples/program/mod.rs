//! The command line of the examples: `NAME [--listen ADDR | --stdio] [--data-dir DIR]`. Without `--data-dir` tasks are kept in memory, and end
//! with the process.

use longhaul::Server;
use std::error::Error;

/// Serves until SIGTERM or Ctrl-C, or until standard input ends, as the command line says.
pub(crate) async fn serve(mut server: Server) -> Result<(), Box<dyn Error>> {
    let mut address = Some("127.0.0.1:0".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--listen" => address = Some(value()?),
            "--stdio" => address = None,
            "--data-dir" => server = server.data_dir(value()?),
            _ => {
                return Err(format!("unknown flag {flag}: there are --listen ADDR, --stdio and --data-dir DIR").into());
            }
        }
    }
    let Some(address) = address else {
        return Ok(server.serve_stdio().await?);
    };
    let running = server.start().await?;
    let listening = running.listen(&*address).await?;
    println!("{}", listening.url());
    listening.serve_until_signal().await?;
    running.stop().await;
    Ok(())
}
