//! Servers that are connected to the socket. They are sent the newest output and may ask for a stop.

use crate::command::attempt_dir::record::{Stopped, SupervisorEvent};
use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
};

/// More than a server and its successor, and a bound all the same.
const MAX_CLIENTS: usize = 16;
const MAX_REQUEST: usize = 64;

pub(super) struct Client {
    pub(super) stream: UnixStream,
    request: Vec<u8>,
    unsent: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Clients(Vec<Client>);

impl Clients {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Accepts all waiting connections, and returns whether there was one.
    pub(super) fn accept(&mut self, listener: &UnixListener) -> bool {
        let mut accepted = false;
        while let Ok((stream, _)) = listener.accept() {
            if self.0.len() < MAX_CLIENTS && stream.set_nonblocking(true).is_ok() {
                self.0.push(Client {
                    stream,
                    request: Vec::new(),
                    unsent: Vec::new(),
                });
                accepted = true;
            }
        }
        accepted
    }

    /// Sends an event to every client. One that has not read its last event is not sent this one: only the newest output counts.
    pub(super) fn send_all(&mut self, event: &SupervisorEvent) {
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        self.0.retain_mut(|client| {
            if client.unsent.is_empty() {
                client.unsent.extend_from_slice(&line);
            }
            client.send().is_ok()
        });
    }

    /// Reads requests, and sends what is still unsent.
    pub(super) fn attend(&mut self) -> Option<Stopped> {
        let mut asked = None;
        self.0.retain_mut(|client| {
            let received = client.read_requests(&mut asked);
            received.is_ok() && client.send().is_ok()
        });
        asked
    }
}

impl Client {
    pub(super) fn wants_to_send(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read_requests(&mut self, asked: &mut Option<Stopped>) -> io::Result<()> {
        let mut buffer = [0; MAX_REQUEST];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.request.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            while let Some(end) = self.request.iter().position(|byte| *byte == b'\n') {
                let line = self.request.drain(..=end).collect::<Vec<_>>();
                match line.as_slice() {
                    b"cancel\n" => *asked = asked.or(Some(Stopped::Cancel)),
                    b"deadline\n" => *asked = asked.or(Some(Stopped::Deadline)),
                    // A later server may ask for things not known here.
                    _ => {}
                }
            }
            if self.request.len() > MAX_REQUEST {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }
}
