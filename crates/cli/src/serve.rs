//! A job's figures over HTTP, for Prometheus: `GET /metrics`, and nothing else.
//!
//! In: frames, and requests from the network. Out: the text of `monitor::metrics`. One thread answers one request after the other; each has two
//! seconds and a few kilobytes, so that a slow or endless one holds up only those that wait behind it, never the job. Whoever
//! reaches the address may read: that is this machine alone, unless the address says otherwise. Not done: TLS, passwords, connections that are kept open.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use brimful_monitor::metrics::{CONTENT_TYPE, Latest, text};
use brimful_monitor::recording::Frame;

/// Longer requests are refused.
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// A request and its answer take no longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// After the answer, what still comes is read for so long, or the answer would be thrown away with it.
const LINGER: Duration = Duration::from_millis(200);
/// Between attempts when nobody can be let in, such as when files run out.
const NAP: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<Latest>,
    is_over: AtomicBool,
}

impl Server {
    /// Listens at an address such as `127.0.0.1:9464`; port 0 is any that is free.
    pub fn bind(address: &str) -> anyhow::Result<Server> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("metrics cannot be served at '{address}'"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let answering = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("brimful-metrics".to_owned()).spawn(move || answering.run(&listener))?;
        Ok(Server { shared, address, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes a frame.
    pub fn take(&self, frame: &Frame) {
        self.shared.latest().take(frame);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The thread waits for a connection, so it gets one. If that fails it is left to the end of the process.
        let here = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let woken = TcpStream::connect_timeout(&SocketAddr::new(here, self.address.port()), PATIENCE);
        if let Some(thread) = self.thread.take().filter(|_| woken.is_ok()) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, listener: &TcpListener) {
        while !self.is_over.load(Ordering::Relaxed) {
            match listener.accept() {
                // Whoever breaks off is nobody's concern.
                Ok((stream, _)) if !self.is_over.load(Ordering::Relaxed) => drop(self.answer(stream)),
                Ok(_) => {}
                Err(_) => thread::sleep(NAP),
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = read_head(&mut stream, deadline)?;
        let (status, body) = match request.as_deref().map(parse) {
            None => ("431 Request Header Fields Too Large", "the request is too long\n".to_owned()),
            Some(None) => ("400 Bad Request", "this is no HTTP request\n".to_owned()),
            Some(Some(("GET", "/metrics"))) => {
                // The text is made from a copy: the job's frames do not wait for it.
                let latest = self.latest().clone();
                ("200 OK", text(&latest))
            }
            Some(Some(("GET", _))) => ("404 Not Found", "there is only /metrics\n".to_owned()),
            Some(Some(_)) => ("405 Method Not Allowed", "there is only GET /metrics\n".to_owned()),
        };
        let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
        let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        stream.shutdown(Shutdown::Write)?;
        let deadline = Instant::now() + LINGER;
        while read_some(&mut stream, &mut [0; 4096], deadline)? > 0 {}
        Ok(())
    }
}

/// The lines up to the empty one; none if they are too long. What comes after them is not read.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> std::io::Result<Option<Vec<u8>>> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 2048]);
    while bytes.len() <= MOST_REQUEST_BYTES {
        let count = read_some(stream, &mut chunk, deadline)?;
        bytes.extend_from_slice(&chunk[..count]);
        // Clients that send bare line feeds are understood, too.
        let is_whole = bytes.windows(4).any(|end| end == b"\r\n\r\n") || bytes.windows(2).any(|end| end == b"\n\n");
        if is_whole || count == 0 {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// One read that does not outlast the deadline.
fn read_some(stream: &mut TcpStream, bytes: &mut [u8], deadline: Instant) -> std::io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.read(bytes)
}

/// Method and path, without its query.
fn parse(request: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(request.split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.trim_end().split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_http = version.starts_with("HTTP/1.") && words.next().is_none() && target.starts_with('/');
    is_http.then(|| (method, target.split('?').next().unwrap_or(target)))
}

#[cfg(test)]
mod tests {
    use brimful_monitor::sample::Sample;

    use super::*;

    fn server() -> Server {
        let server = Server::bind("127.0.0.1:0").unwrap();
        server.take(&Frame::Sample(Sample { rss_bytes: Some(4096), ..Sample::default() }));
        server
    }

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn answer(server: &Server, request: &[u8]) -> String {
        let mut stream = connect(server);
        // A refused request may be answered, and the connection be gone, before all of it was sent.
        let _ = stream.write_all(request);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn prometheus_gets_its_figures() {
        let server = server();
        let text = answer(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            "{text}"
        );
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.contains("\nbrimful_rss_bytes 4096\n"), "{body}");
        server.take(&Frame::Sample(Sample { rss_bytes: Some(8192), ..Sample::default() }));
        assert!(answer(&server, b"GET /metrics?x=y HTTP/1.0\n\n").contains("\nbrimful_rss_bytes 8192\n"));
    }

    #[test]
    fn bad_requests_are_refused() {
        let server = server();
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
        for (request, status) in [
            (b"GET / HTTP/1.1\r\n\r\n".as_slice(), "404"),
            (b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
            (b"\r\n\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"GET http://other/ HTTP/1.1\r\n\r\n", "400"),
            (b"\x16\x03\x01\xff\xfe\n\n", "400"),
            (&long, "431"),
        ] {
            let text = answer(&server, request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {text}");
        }
        assert!(answer(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
    }

    #[test]
    fn slow_and_silent_clients_hold_up_neither_the_job_nor_others_for_long() {
        let server = server();
        let mut silent: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
        silent[0].write_all(b"GET /met").unwrap();
        for n in 0..1000 {
            server.take(&Frame::Sample(Sample { rss_bytes: Some(n), ..Sample::default() }));
        }
        assert!(answer(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("\nbrimful_rss_bytes 999\n"));
        // One that goes away before it is answered.
        drop(connect(&server));
        assert!(answer(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
    }

    #[test]
    fn the_port_is_free_again_and_a_taken_one_is_an_error() {
        let server = server();
        let address = server.address().to_string();
        let error = Server::bind(&address).unwrap_err().to_string();
        assert_eq!(error, format!("metrics cannot be served at '{address}'"));
        assert!(Server::bind("nonsense").is_err() && Server::bind("127.0.0.1:99999").is_err());
        drop(server);
        assert!(TcpStream::connect(&address).is_err());
    }
}
