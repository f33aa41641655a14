//! A client at the end of a pipe, one message a line.

use longhaul_runtime::Ports;
use longhaul_server::{ProtocolServer, stdio};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::oneshot,
};

/// A server that sends nothing for so long, while time passes only when nothing else can happen, has nothing to send.
const SILENCE: Duration = Duration::from_millis(10);
const CAPACITY: usize = 64 * 1024;

pub(super) struct Pipe {
    ports: Ports,
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    ended: oneshot::Receiver<io::Result<()>>,
}

impl Pipe {
    pub(super) fn open(protocol: &Arc<ProtocolServer>, ports: &Ports) -> Self {
        let (ours, theirs) = tokio::io::duplex(CAPACITY);
        let (reader, writer) = tokio::io::split(theirs);
        let (done, ended) = oneshot::channel();
        let protocol = Arc::clone(protocol);
        ports.spawner.spawn(Box::pin(async move {
            let _ = done.send(stdio::serve(protocol, reader, writer).await);
        }));
        let (output, input) = tokio::io::split(ours);
        Self {
            ports: ports.clone(),
            input,
            output: BufReader::new(output).lines(),
            ended,
        }
    }

    /// Writes these bytes, and reads meanwhile and until no more lines come at once.
    pub(super) async fn exchange(&mut self, bytes: &[u8]) -> Vec<String> {
        let write = async {
            self.input.write_all(bytes).await.unwrap();
        };
        tokio::pin!(write);
        let (mut is_written, mut received) = (false, Vec::new());
        loop {
            let silence = self.ports.clock.sleep(SILENCE);
            tokio::select! {
                () = &mut write, if !is_written => is_written = true,
                line = self.output.next_line() => received.push(line.unwrap().expect("the connection goes on")),
                () = silence, if is_written => return received,
            }
        }
    }

    /// Closes the input, and reads to the end.
    pub(super) async fn finish(mut self) -> Vec<String> {
        self.input.shutdown().await.unwrap();
        let mut received = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            received.push(line);
        }
        self.ended.await.unwrap().unwrap();
        received
    }
}
