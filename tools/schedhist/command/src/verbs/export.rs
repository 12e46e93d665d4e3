// SPDX-License-Identifier: GPL-2.0

//! `export`: for Prometheus and programs that read its formats.

use std::{
    collections::BTreeSet,
    fs::{
        self,
        OpenOptions,
        Permissions, //
    },
    io::{
        self,
        Read,
        Write, //
    },
    net::{
        TcpListener,
        TcpStream, //
    },
    os::{
        fd::AsRawFd,
        unix::fs::{
            MetadataExt,
            PermissionsExt, //
        }, //
    },
    sync::{
        atomic::{
            AtomicUsize,
            Ordering, //
        },
        Mutex,
        PoisonError, //
    },
    thread,
    time::{
        Duration,
        Instant, //
    },
};

use clap::ArgMatches;
use schedhist_core::{
    engine::group::records::GroupMetric,
    exposition::{
        families::{
            self,
            GroupState,
            Input, //
        },
        negotiate::{
            self,
            Form, //
        },
        protobuf,
        text::{
            self,
            Dialect, //
        },
        Exposition,
    },
    text as files,
};

use crate::{
    failure::{
        note,
        output,
        Failure,
        Result, //
    },
    options,
    source::{
        Reading,
        Source, //
    },
    sys::{
        Waiter,
        Woken, //
    },
    verbs::perfetto,
};

/// The longest request, head and all, in bytes.
const LONGEST: usize = 16 << 10;

/// How long a client may take to send its request, or to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of clients that are served at once.
const MOST: usize = 64;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What tells a load of the module from the next one.
#[derive(Clone, Copy, Debug)]
struct Load {
    time: u64,
    switches: u64,
    created: Option<u64>,
}

/// Makes expositions.
struct Exporter {
    source: Source,
    schema: i32,
    per_cpu: Vec<String>,
    limit: usize,
    last: Mutex<Option<Load>>,
}

impl Exporter {
    fn new(args: &ArgMatches, source: &Source) -> Result<Self> {
        let text = |name: &str| args.get_one::<String>(name).map_or("", String::as_str);
        let schema = text("schema").parse().ok();
        let schema = schema.filter(|s| (protobuf::COARSEST..=protobuf::FINEST).contains(s));
        let per_cpu = text("per-cpu").split(',').map(str::to_owned);
        let mut seen = BTreeSet::new();
        // Twice the same family would make readers refuse all of them.
        let per_cpu = per_cpu.filter(|name| name != "none" && seen.insert(name.clone()));
        let per_cpu = per_cpu.collect::<Vec<_>>();
        if let Ok(reading) = source.read() {
            options::check_metrics(&reading.taken.snapshot.names, &per_cpu)?;
        }
        Ok(Self {
            source: source.clone(),
            schema: schema.ok_or_else(|| {
                Failure::Usage(format!("--schema {}: from -4 to 8", text("schema")))
            })?,
            per_cpu,
            limit: options::count(text("series"))? as usize,
            last: Mutex::new(None),
        })
    }

    /// Reads the module and returns the metrics in a form. One client at a time: reading does not
    /// disturb the probes, but takes memory.
    fn scrape(&self, form: Form) -> Result<Vec<u8>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = self.source.read()?;
        let load = self.load(&reading, last.as_ref());
        let created = load.created;
        *last = Some(load);
        let groups = self.groups();
        let exposition = families::build(&Input {
            snapshot: &reading.taken.snapshot,
            groups: groups.as_ref(),
            created,
            version: VERSION,
            read_ns: reading.taken.read_ns,
            per_cpu: &self.per_cpu,
            limit: self.limit,
            native: form == Form::Protobuf,
        });
        Ok(self.encode(&exposition, form))
    }

    fn encode(&self, exposition: &Exposition, form: Form) -> Vec<u8> {
        match form {
            Form::Text(dialect) => text::encode(exposition, dialect).into_bytes(),
            Form::Protobuf => protobuf::encode(exposition, self.schema),
        }
    }

    /// Returns the load of the module that a reading belongs to. Its files exist since the load; a
    /// copy of them does not tell, unless it replaces an earlier one whose counts were higher.
    fn load(&self, reading: &Reading, last: Option<&Load>) -> Load {
        let snapshot = &reading.taken.snapshot;
        let about = fs::metadata(self.source.path("raw")).ok();
        let mut load = Load {
            time: snapshot.time,
            switches: snapshot.cpus.iter().fold(0, |sum, cpu| {
                sum.saturating_add(cpu.counters.first().copied().unwrap_or_default())
            }),
            created: None,
        };
        if self.source.is_live() {
            load.created = about.map(|about| {
                let seconds = u64::try_from(about.ctime()).unwrap_or_default();
                let rest = u64::try_from(about.ctime_nsec()).unwrap_or_default();
                seconds.saturating_mul(1_000_000_000).saturating_add(rest)
            });
            return load;
        }
        if let Some(last) = last {
            load.created = if load.time < last.time || load.switches < last.switches {
                Some(reading.taken.unix_ns)
            } else {
                last.created
            };
        }
        load
    }

    /// Returns the groups, unless tasks are not grouped, or their files cannot be read.
    fn groups(&self) -> Option<GroupState> {
        let groups = files::groups(&self.source.text("groups").ok()?).ok()?;
        if matches!(groups.rule.as_str(), "none" | "") {
            return None;
        }
        let mut state = GroupState {
            groups,
            ..GroupState::default()
        };
        for metric in GroupMetric::ALL.map(GroupMetric::name) {
            let text = self.source.text(&format!("group_hist/{metric}")).ok();
            let blocks = text.and_then(|text| files::histograms(&text).ok());
            for block in blocks.unwrap_or_default() {
                if let Some(id) = block.pairs.number("group") {
                    state.histograms.insert((metric, id), block.distribution);
                }
            }
        }
        Some(state)
    }

    /// Writes the metrics beside a file, and then renames them to it, so that nobody reads a part.
    fn write(&self, path: &str) -> Result {
        crate::files::check_replaceable(path)?;
        let body = self.scrape(Form::Text(Dialect::Prometheus))?;
        let aside = format!("{path}.{}.new", std::process::id());
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&aside)
            .and_then(|mut file| {
                // The collector runs as another user, and the umask does not matter.
                file.set_permissions(Permissions::from_mode(0o644))?;
                file.write_all(&body)
            })
            .and_then(|()| fs::rename(&aside, path));
        written.map_err(|error| {
            let _ = fs::remove_file(&aside);
            Failure::at(path, error)
        })
    }
}

/// Exports until SIGINT, or once.
pub fn export(args: &ArgMatches, source: &Source) -> Result {
    if let Some(out) = args.get_one::<String>("perfetto") {
        let input = args.get_one::<String>("input").map_or("", String::as_str);
        return perfetto::perfetto(input, out);
    }
    let exporter = Exporter::new(args, source)?;
    let once = args.get_flag("once");
    if let Some(path) = args.get_one::<String>("textfile") {
        return textfile(args, &exporter, path, once);
    }
    if once {
        let form = match args.get_one::<String>("format").map(String::as_str) {
            Some("openmetrics") => Form::Text(Dialect::OpenMetrics),
            Some("protobuf") => Form::Protobuf,
            _ => Form::Text(Dialect::Prometheus),
        };
        let body = exporter.scrape(form)?;
        let mut out = io::stdout().lock();
        let written = out.write_all(&body).and_then(|()| out.flush());
        return written.map_err(|error| output(&error));
    }
    let address = args.get_one::<String>("listen").map_or("", String::as_str);
    serve(&exporter, address)
}

/// Writes a file again and again. While the module is not loaded, the file stays as it was.
fn textfile(args: &ArgMatches, exporter: &Exporter, path: &str, once: bool) -> Result {
    if once {
        return exporter.write(path);
    }
    let interval = args
        .get_one::<String>("interval")
        .map_or("", String::as_str);
    let interval = options::seconds(interval)?;
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    // If it is the file that cannot be written, that will not change.
    if let (Err(error), Ok(_)) = (exporter.write(path), exporter.source.read()) {
        return Err(error);
    }
    let mut next = Instant::now();
    let mut failed = false;
    loop {
        match exporter.write(path) {
            Ok(()) => failed = false,
            Err(Failure::Error(text)) if !failed => {
                note(format!("{text}; waiting"));
                failed = true;
            }
            Err(_) => {}
        }
        next = (next + interval).max(Instant::now());
        loop {
            match waiter.wait(Some(next), None) {
                Woken::Signal(_) => return Ok(()),
                Woken::Timeout => break,
                Woken::Child | Woken::Readable => {}
            }
        }
    }
}

/// Answers requests until SIGINT.
fn serve(exporter: &Exporter, address: &str) -> Result {
    let listener = TcpListener::bind(address).map_err(|error| Failure::at(address, error))?;
    let bound = listener.local_addr();
    let bound = bound.map_err(|error| Failure::at(address, error))?;
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    let nonblocking = listener.set_nonblocking(true);
    nonblocking.map_err(|error| Failure::at(address, error))?;
    if !bound.ip().is_loopback() {
        note(format!(
            "{bound} can be reached from other machines, and there is no password"
        ));
    }
    note(format!("http://{bound}/metrics"));
    let busy = AtomicUsize::new(0);
    thread::scope(|scope| loop {
        match waiter.wait(None, Some(listener.as_raw_fd())) {
            // Threads that still serve a client end by themselves, in time.
            Woken::Signal(_) => return Ok(()),
            Woken::Timeout | Woken::Child => continue,
            Woken::Readable => {}
        }
        let Ok((client, _)) = listener.accept() else {
            // Such as when there are too many files: do not spin.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        if busy.fetch_add(1, Ordering::Relaxed) >= MOST {
            let _ = client.set_nonblocking(true);
            let _ = answer(
                &client,
                "503 Service Unavailable",
                "text/plain",
                b"busy\n",
                true,
            );
            busy.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let busy = &busy;
        let spawned = thread::Builder::new().spawn_scoped(scope, move || {
            let _ = one_client(exporter, client);
            busy.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            busy.fetch_sub(1, Ordering::Relaxed);
        }
    })
}

/// Answers one request.
fn one_client(exporter: &Exporter, client: TcpStream) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let Some(head) = head(&client)? else {
        return answer(
            &client,
            "400 Bad Request",
            "text/plain",
            b"bad request\n",
            true,
        );
    };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    if !words.next().unwrap_or_default().starts_with("HTTP/1.") {
        return answer(
            &client,
            "400 Bad Request",
            "text/plain",
            b"bad request\n",
            true,
        );
    }
    let accept: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value.trim())
        .collect();
    let with_body = method == "GET";
    if !matches!(method, "GET" | "HEAD") {
        let status = "405 Method Not Allowed";
        return answer(&client, status, "text/plain", b"only GET and HEAD\n", true);
    }
    match target.split('?').next().unwrap_or_default() {
        "/metrics" => {}
        "/" => {
            let page = b"<!doctype html><title>schedhist</title><a href=\"/metrics\">metrics</a>\n";
            return answer(
                &client,
                "200 OK",
                "text/html; charset=utf-8",
                page,
                with_body,
            );
        }
        _ => {
            let status = "404 Not Found";
            return answer(&client, status, "text/plain", b"see /metrics\n", with_body);
        }
    }
    let form = negotiate::choose(&accept.join(","));
    // The client learns by the metric `schedhist_up` that the module is not there.
    let body = exporter
        .scrape(form)
        .unwrap_or_else(|_| exporter.encode(&families::down(VERSION), form));
    answer(&client, "200 OK", form.content_type(), &body, with_body)
}

/// Reads the head of a request; `None` if it is too long, or no text. The time for all of it is
/// limited, so that a slow client does not stay.
fn head(mut client: &TcpStream) -> io::Result<Option<String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end);
            return Ok(String::from_utf8(head).ok());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Ok(None);
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut buffer)? {
            0 => return Ok(None),
            read => head.extend(&buffer[..read]),
        }
    }
}

/// Sends an answer. Each connection serves one request.
fn answer(
    mut client: &TcpStream,
    status: &str,
    content_type: &str,
    body: &[u8],
    with_body: bool,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if with_body {
        client.write_all(body)?;
    }
    client.flush()
}
