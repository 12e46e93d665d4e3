// SPDX-License-Identifier: GPL-2.0

//! The HTTP server of `export`.
//!
//! Every user of the machine can be its client. So one thread serves all and waits for none of
//! them; a client has a deadline; and what one scrape made is sent to all who asked meanwhile.
//! tiny_http knows no deadline: each slow client would hold a thread of it for as long as it likes.

use std::{
    collections::BTreeSet,
    env,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    process,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags};
use schedhist_core::exposition::negotiate::{self, Form};

use crate::{
    error::{At, Result},
    exporter::Exporter,
    output::note,
    sys::{self, Waiter, Woken},
};

/// The longest request, head and all, in bytes.
const LONGEST: usize = 16 << 10;

/// The time that a client has from its connection until it has taken all of the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of clients that are served at once.
const MAX_CLIENTS: usize = 256;

/// The number of clients that are accepted before the others are served again.
const AT_ONCE: usize = 16;

/// The bytes of answers that are kept at once. A larger answer is kept alone.
const MAX_BYTES: usize = 64 << 20;

/// A scrape is sent again for this many times as long as it took, times the number of answers that
/// are kept with it, so that clients cannot make the server read all the time.
const SHARED_FOR: u32 = 4;

/// What a scrape made.
struct Scrape {
    form: Form,
    is_gzip: bool,
    body: Arc<Vec<u8>>,
    /// The time until which it is sent to others.
    until: Instant,
}

/// A connection. It serves one request.
struct Client {
    stream: TcpStream,
    /// The address of the socket that it came to.
    bound: SocketAddr,
    request: Vec<u8>,
    /// The answer, once the request is complete.
    answer: Option<Answer>,
    deadline: Instant,
    /// The last time that the client sent or took something.
    moved: Instant,
}

struct Answer {
    head: Vec<u8>,
    body: Arc<Vec<u8>>,
    /// The bytes of both that the client has taken.
    sent: usize,
}

impl Answer {
    /// `kind` is the type of the contents, with more lines of the head after it if need be.
    fn new(status: &str, kind: &str, body: Arc<Vec<u8>>, with_body: bool) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        Self {
            head: head.into_bytes(),
            body: if with_body { body } else { Arc::default() },
            sent: 0,
        }
    }

    /// Creates an answer with an error to a request of this method.
    fn error(status: &str, body: &str, method: &str) -> Self {
        let body = Arc::new(format!("{body}\n").into_bytes());
        let kind = match method {
            "GET" | "HEAD" => "text/plain",
            _ => "text/plain\r\nAllow: GET, HEAD",
        };
        Self::new(status, kind, body, method != "HEAD")
    }

    fn bad(method: &str) -> Self {
        Self::error("400 Bad Request", "bad request", method)
    }

    /// Returns what is left to be sent next; nothing at the end.
    fn rest(&self) -> &[u8] {
        match self.sent.checked_sub(self.head.len()) {
            None => &self.head[self.sent..],
            Some(sent) => &self.body[sent..],
        }
    }
}

impl Client {
    fn new(stream: TcpStream, bound: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let now = Instant::now();
        Ok(Self {
            stream,
            bound,
            request: Vec::new(),
            answer: None,
            deadline: now + PATIENCE,
            moved: now,
        })
    }

    fn interest(&self) -> PollFd<'_> {
        let events = match self.answer {
            Some(_) => PollFlags::POLLOUT,
            None => PollFlags::POLLIN,
        };
        PollFd::new(self.stream.as_fd(), events)
    }

    /// Receives and sends as much as is possible without waiting. Returns whether the client is
    /// still needed.
    fn go_on(&mut self, server: &mut Server<'_>) -> io::Result<bool> {
        if self.answer.is_none() && !self.receive(server)? {
            return Ok(true);
        }
        let Some(answer) = &mut self.answer else {
            return Ok(false);
        };
        while !answer.rest().is_empty() {
            match self.stream.write(answer.rest()) {
                Ok(sent) => answer.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.moved = Instant::now();
        }
        Ok(false)
    }

    /// Receives more of the request. Returns whether there is an answer now.
    fn receive(&mut self, server: &mut Server<'_>) -> io::Result<bool> {
        let mut buffer = [0; 2048];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.request.extend(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        self.moved = Instant::now();
        let end = self.request.windows(4).position(|four| four == b"\r\n\r\n");
        self.answer = match end {
            Some(end) => Some(match std::str::from_utf8(&self.request[..end]) {
                Ok(head) => server.answer(head, self.bound),
                Err(_) => Answer::bad("GET"),
            }),
            None if self.request.len() > LONGEST => Some(Answer::bad("GET")),
            None => None,
        };
        Ok(self.answer.is_some())
    }
}

/// What clients share.
struct Server<'a> {
    exporter: &'a mut Exporter,
    scrapes: Vec<Scrape>,
}

impl Server<'_> {
    fn answer(&mut self, head: &str, bound: SocketAddr) -> Answer {
        let mut lines = head.split("\r\n");
        let words: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = words[..] else {
            return Answer::bad(words[0]);
        };
        if target.is_empty() || !version.starts_with("HTTP/1.") {
            return Answer::bad(method);
        }
        if !matches!(method, "GET" | "HEAD") {
            return Answer::error("405 Method Not Allowed", "only GET and HEAD", method);
        }
        let (authority, path) = split(target);
        let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
        let values = |name: &'static str| {
            let same = fields.iter();
            let same = same.filter(move |(other, _)| other.eq_ignore_ascii_case(name));
            same.map(|(_, value)| value.trim())
        };
        // A browser always sends one. A page that binds its own name to this address must not read
        // the answer.
        let hosts = match authority {
            Some(authority) => vec![authority],
            None => values("host").collect(),
        };
        if let Some(host) = hosts.into_iter().find(|host| !is_named(bound, host)) {
            let body = format!("{bound} is not {host}");
            return Answer::error("421 Misdirected Request", &body, method);
        }
        let with_body = method == "GET";
        match path {
            "/metrics" => {
                let all = |name| values(name).collect::<Vec<_>>().join(",");
                let form = negotiate::choose(&all("accept"));
                let is_gzip = negotiate::takes_gzip(&all("accept-encoding"));
                let encoding = if is_gzip {
                    "\r\nContent-Encoding: gzip"
                } else {
                    ""
                };
                let kind = form.content_type();
                let kind = format!("{kind}{encoding}\r\nVary: Accept, Accept-Encoding");
                Answer::new("200 OK", &kind, self.scrape(form, is_gzip), with_body)
            }
            "" | "/" => {
                let page =
                    b"<!doctype html><title>schedhist</title><a href=\"/metrics\">metrics</a>\n";
                let page = Arc::new(page.to_vec());
                Answer::new("200 OK", "text/html; charset=utf-8", page, with_body)
            }
            _ => Answer::error("404 Not Found", "see /metrics", method),
        }
    }

    /// Returns the metrics in a form: made now, or a moment ago for another client.
    fn scrape(&mut self, form: Form, is_gzip: bool) -> Arc<Vec<u8>> {
        let start = Instant::now();
        self.scrapes.retain(|scrape| start < scrape.until);
        let mut made = self.scrapes.iter();
        if let Some(scrape) = made.find(|old| (old.form, old.is_gzip) == (form, is_gzip)) {
            return scrape.body.clone();
        }
        let body = Arc::new(match is_gzip {
            true => negotiate::gzip(&self.scrape(form, false)),
            false => self.exporter.answer(form),
        });
        let end = Instant::now();
        self.scrapes.push(Scrape {
            form,
            is_gzip,
            body: body.clone(),
            // Clients may ask for all forms in turn.
            until: end + (end - start) * SHARED_FOR * (self.scrapes.len() as u32 + 1),
        });
        body
    }
}

/// Returns the authority of a target, which proxies send, and its path without the query.
fn split(target: &str) -> (Option<&str>, &str) {
    let target = target.split('?').next().unwrap_or_default();
    match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(authority), path)
        }
        _ => (None, target),
    }
}

/// Returns whether `host` names this server. Other machines may know it by any name; a loopback
/// address has few.
fn is_named(bound: SocketAddr, host: &str) -> bool {
    if !bound.ip().is_loopback() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let six = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    name.parse::<IpAddr>().is_ok()
        || six.is_some_and(|six| six.parse::<Ipv6Addr>().is_ok())
        || name.eq_ignore_ascii_case("localhost")
}

/// Drops clients that wait for old answers, until the bodies that are left take up to
/// [`MAX_BYTES`]. The clients are in the order in which they came.
fn bound_bytes(clients: &mut Vec<Client>) {
    let mut bodies = BTreeSet::new();
    let mut bytes = 0;
    // The newest are kept, and those that have no answer yet.
    let mut is_kept: Vec<_> = clients
        .iter()
        .rev()
        .map(|client| {
            let Some(answer) = &client.answer else {
                return true;
            };
            if bodies.insert(Arc::as_ptr(&answer.body)) {
                bytes += answer.body.len();
            }
            bytes <= MAX_BYTES || bodies.len() == 1
        })
        .collect();
    clients.retain(|_| is_kept.pop() == Some(true));
}

/// A socket that clients come to.
type Door = (TcpListener, SocketAddr);

/// Returns the sockets that systemd has opened for this process, if any: see sd_listen_fds(3).
fn passed_on() -> Result<Vec<Door>> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
    if number("LISTEN_PID") != Some(process::id()) {
        return Ok(Vec::new());
    }
    let fds = (3..).take(number("LISTEN_FDS").unwrap_or(0) as usize);
    let doors = fds.map(|fd| {
        let listener = TcpListener::from(OwnedFd::from(sys::duplicate(fd)?));
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    });
    doors.collect::<io::Result<_>>().at("a socket of systemd's")
}

/// Serves until SIGINT: at the sockets that systemd has passed on, or else at the first of these
/// addresses that is free.
pub fn serve(exporter: &mut Exporter, addresses: &[SocketAddr]) -> Result {
    let all = addresses.iter().map(SocketAddr::to_string);
    let all = all.collect::<Vec<_>>().join(", ");
    let mut doors = passed_on()?;
    if doors.is_empty() {
        let listener = TcpListener::bind(addresses).at(&all)?;
        let bound = listener.local_addr().at(&all)?;
        doors.push((listener, bound));
    }
    let waiter = Waiter::new()?;
    for (listener, bound) in &doors {
        listener.set_nonblocking(true).at(bound.to_string())?;
        if !bound.ip().is_loopback() {
            note(format!(
                "{bound} can be reached from other machines, and there is no password"
            ));
        }
        note(format!("http://{bound}/metrics"));
    }
    let mut server = Server {
        exporter,
        scrapes: Vec::new(),
    };
    let mut clients = Vec::<Client>::new();
    loop {
        let listeners = doors.iter().map(|(listener, _)| listener.as_fd());
        let mut fds: Vec<_> = listeners
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        fds.extend(clients.iter().map(Client::interest));
        let deadline = clients.iter().map(|client| client.deadline).min();
        if let Woken::Signal(_) = waiter.wait_for_any(deadline, &mut fds) {
            return Ok(());
        }
        let ready: Vec<_> = fds.iter().map(|fd| fd.any() != Some(false)).collect();
        let (at_doors, others) = ready.split_at(doors.len());
        let mut others = others.iter();
        clients.retain_mut(|client| {
            (others.next() == Some(&false) || client.go_on(&mut server).unwrap_or(false))
                && Instant::now() < client.deadline
        });
        bound_bytes(&mut clients);
        for (door, _) in doors.iter().zip(at_doors).filter(|(_, ready)| **ready) {
            accept(door, &mut clients);
        }
    }
}

/// Accepts those who wait. If there are too many clients, the one that has not moved for the
/// longest time goes.
fn accept((listener, bound): &Door, clients: &mut Vec<Client>) {
    for _ in 0..AT_ONCE {
        match listener.accept() {
            Ok((stream, _)) => clients.extend(Client::new(stream, *bound)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // Such as when there are too many files: do not spin.
            Err(_) => return thread::sleep(Duration::from_millis(20)),
        }
        if clients.len() > MAX_CLIENTS {
            let moved = clients
                .iter()
                .enumerate()
                .map(|(place, client)| (client.moved, place));
            if let Some((_, place)) = moved.min() {
                clients.remove(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is still sending is not dropped for the bytes that others wait for.
    #[test]
    fn the_oldest_answers_go() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bound = listener.local_addr().unwrap();
        let client = |bytes: Option<usize>| Client {
            stream: TcpStream::connect(bound).unwrap(),
            bound,
            request: Vec::new(),
            answer: bytes.map(|bytes| Answer::new("200 OK", "", Arc::new(vec![0; bytes]), true)),
            deadline: Instant::now(),
            moved: Instant::now(),
        };
        let mut clients = [None, Some(1), None, Some(MAX_BYTES)].map(client).into();
        bound_bytes(&mut clients);
        let has_answer: Vec<_> = clients.iter().map(|it| it.answer.is_some()).collect();
        assert_eq!(has_answer, [false, false, true]);
    }
}
