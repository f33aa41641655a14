//! As much of an HTTP/1.1 client as talking to our own server takes.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Nothing here takes longer; a request that does is worth a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that is kept for the next request.
pub(crate) struct Connection(BufReader<TcpStream>);

/// A whole response. One that broke off is an error, never a reply.
pub(crate) struct Reply {
    headers: Vec<(String, String)>,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header, named in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Posts JSON to the endpoint.
    pub(crate) fn post(&mut self, headers: &[(&str, &str)], body: &str) -> io::Result<Reply> {
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request.extend(["\r\n", body]);
        self.0.get_mut().write_all(request.as_bytes())?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> io::Result<Reply> {
        let status_line = self.read_line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| malformed(&status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Reply {
            headers,
            status,
            body: Vec::new(),
        };
        reply.body = self.read_body(&reply)?;
        Ok(reply)
    }

    fn read_body(&mut self, reply: &Reply) -> io::Result<Vec<u8>> {
        if reply.header("transfer-encoding") == Some("chunked") {
            return self.read_chunks();
        }
        let length = reply.header("content-length").unwrap_or("0");
        let length = length.parse().map_err(|_| malformed(length))?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }

    fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let size = usize::from_str_radix(&line, 16).map_err(|_| malformed(&line))?;
            let begin = body.len();
            body.resize(begin + size, 0);
            self.0.read_exact(&mut body[begin..])?;
            self.read_line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what:?}"))
}
