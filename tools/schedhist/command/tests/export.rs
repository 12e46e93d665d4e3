// SPDX-License-Identifier: GPL-2.0

//! `export`, against Debian's Prometheus and promtool. Without these, the tests that need them say
//! so and pass, unless SCHEDHIST_PEERS is set: tests/tools/run sets it.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Lines, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{
        fs::{symlink, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use schedhist_core::{distribution::Quantile, engine, raw, window::Window};

mod support;

use support::{
    has,
    sim::{Groups, Machine, GROUP_RUNQ},
    until, Folder, PROGRAM,
};

const GROUPS: &str = "# schedhist groups version 1
group_by cgroup
limit 255
refused 3
memory_bytes 100000
group id 0 oncpu_count 2 oncpu_sum_ns 5000 runq_count 2 runq_sum_ns 9000 offcpu_count 0 offcpu_sum_ns 0 \
voluntary 1 involuntary 1 migrations 0 throttled 0 throttled_ns 0 not_in_histogram 2 ended_by_own 2 \
ended_by_own_ns 9000 ended_by_other 0 ended_by_other_ns 0 ended_by_kernel 0 ended_by_kernel_ns 0 \
ended_by_idle 0 ended_by_idle_ns 0 name other
group id 1 oncpu_count 578 oncpu_sum_ns 1720000000 runq_count 578 runq_sum_ns 701000000 offcpu_count 0 \
offcpu_sum_ns 0 voluntary 500 involuntary 78 migrations 0 throttled 0 throttled_ns 0 not_in_histogram 0 \
ended_by_own 100 ended_by_own_ns 154000000 ended_by_other 400 ended_by_other_ns 470000000 \
ended_by_kernel 78 ended_by_kernel_ns 77000000 ended_by_idle 0 ended_by_idle_ns 0 name /a\"b\\x0a.service
group id 2 oncpu_count 0 oncpu_sum_ns 0 runq_count 0 runq_sum_ns 0 offcpu_count 0 offcpu_sum_ns 0 \
voluntary 0 involuntary 0 migrations 0 throttled 0 throttled_ns 0 not_in_histogram 0 ended_by_own 0 \
ended_by_own_ns 0 name other
";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn put(folder: &Folder, machine: &Machine) {
    folder.put("m/raw", machine.raw());
}

/// Gives the module other groups.
fn put_groups(folder: &Folder, mut machine: Machine, text: &str) -> Machine {
    machine.groups = Some(Groups::new(text, GROUP_RUNQ));
    put(folder, &machine);
    machine
}

/// Returns a folder with what a module says after so many switches, and its machine.
fn module(name: &str, cpus: usize, switches: u64) -> (Folder, Machine) {
    let folder = Folder::new(&format!("export-{name}"));
    fs::create_dir(folder.join("m")).unwrap();
    let mut machine = Machine::new(cpus, 5, 1);
    machine.run(switches);
    let machine = put_groups(&folder, machine, GROUPS);
    (folder, machine)
}

/// Starts the exporter. Returns it and what it says.
fn start(folder: &Folder, words: &str) -> (Process, Lines<BufReader<ChildStderr>>) {
    let mut command = folder.command(&format!("--dir m export --listen {words}"));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (Process(child), lines)
}

/// Starts the exporter. Returns it and its port.
fn serve(folder: &Folder, more: &str) -> (Process, u16) {
    let (process, mut lines) = start(folder, &format!("127.0.0.1:0 {more}"));
    let line = lines.next().unwrap().unwrap();
    let port = line.strip_prefix("schedhist: http://127.0.0.1:").unwrap();
    let port = port.strip_suffix("/metrics").unwrap().parse().unwrap();
    (process, port)
}

/// Sends a request. Returns head and body.
fn ask(port: u16, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let timeout = Some(Duration::from_secs(20));
    stream.set_read_timeout(timeout).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

fn get(port: u16, path: &str, accept: &str) -> (String, Vec<u8>) {
    ask(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"),
    )
}

fn unzip(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(body).read_to_end(&mut text).unwrap();
    text
}

/// Returns the text of so many groups, besides those that no group takes.
fn many_groups(count: u32) -> String {
    let line = GROUPS.lines().nth(6).unwrap();
    let head: Vec<_> = GROUPS.lines().take(6).collect();
    let mut groups = head.join("\n") + "\n";
    for id in 1..=count {
        let one = line.replace("group id 1 ", &format!("group id {id} "));
        groups += &one.replace("/a\"b", &format!("/{id}\"b"));
        groups.push('\n');
    }
    groups
}

fn value(text: &str, series: &str) -> f64 {
    let line = text
        .lines()
        .find(|line| line.rsplit_once(' ').is_some_and(|(s, _)| s == series));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// All forms agree with the snapshot, and escape what must be escaped.
#[test]
fn forms() {
    let (folder, machine) = module("forms", 4, 2_000);
    let window = Window::since_load(&raw::decode(&machine.raw()).unwrap());
    let old = folder.text("--dir m export --once");
    let open = folder.text("--dir m export --once --format openmetrics");
    assert!(open.ends_with("# EOF\n") && !old.contains("# EOF"));
    for metric in &window.names.metrics {
        let all = window.distribution(metric, &|_| true);
        for text in [&old, &open] {
            let name = format!("schedhist_{}_seconds", metric.name);
            assert_eq!(value(text, &format!("{name}_count")), all.count() as f64);
            let infinite = format!("{name}_bucket{{le=\"+Inf\"}}");
            assert_eq!(value(text, &infinite), all.count() as f64);
            assert_eq!(value(text, &format!("{name}_sum")), all.sum as f64 / 1e9);
            // A power of two is exact.
            let below = all.buckets().filter(|(b, _)| b.upper < 1 << 20);
            let below = below.map(|(_, n)| n).sum::<u64>();
            let le = format!("{name}_bucket{{le=\"0.001048575\"}}");
            assert_eq!(value(text, &le), below as f64);
        }
    }
    let count = |cpu| format!("schedhist_cpu_runq_seconds_count{{cpu=\"{cpu}\"}}");
    let per_cpu = (0..4).map(|cpu| value(&old, &count(cpu)));
    assert_eq!(
        per_cpu.sum::<f64>(),
        value(&old, "schedhist_runq_seconds_count")
    );
    assert_eq!(value(&old, "schedhist_switches_total"), 8_000.0);
    assert!(old.contains("# TYPE schedhist_switches_total counter"));
    assert!(open.contains("# TYPE schedhist_switches counter"));
    let group = "group=\"/a\\\"b\\\\x0a.service\",service=\"a\\\"b\\\\x0a\"";
    let count = format!("schedhist_group_runq_seconds_count{{{group}}}");
    assert_eq!(value(&old, &count), 578.0);
    let ended = format!("schedhist_group_ended_by_seconds_total{{{group},culprit=\"other\"}}");
    assert_eq!(value(&old, &ended), 0.47);
    // The second group of this name has a label of its own.
    let second = "schedhist_group_voluntary_total{group=\"other\\\\#2\"}";
    value(&old, second);
}

/// A reader takes no exposition in which a family comes twice.
#[test]
fn one_of_each_family() {
    let (folder, _) = module("families", 2, 100);
    let text = folder.text("--dir m export --once --per-cpu runq,idle,runq");
    for name in ["runq", "idle"] {
        let head = format!("# TYPE schedhist_cpu_{name}_seconds ");
        assert_eq!(text.matches(&head).count(), 1, "{name}");
    }
}

/// The number of time series is bounded: first groups are left out, then CPUs, never the machine.
#[test]
fn bounded() {
    let (folder, machine) = module("bounded", 64, 20);
    put_groups(&folder, machine, &many_groups(999));
    for (limit, cpus, groups) in [(500, true, 999), (3_000, false, 999), (20_000, false, 865)] {
        let words = format!("--dir m export --once --series {limit}");
        let text = folder.text(&words);
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series <= limit + 2, "{series} of {limit}");
        assert!(value(&text, "schedhist_runq_seconds_count") > 0.0);
        let left_out = value(&text, "schedhist_left_out{scope=\"cpu\"}");
        assert_eq!(left_out > 0.0, cpus, "{limit}: {left_out}");
        let left_out = value(&text, "schedhist_left_out{scope=\"group\"}");
        assert!(
            left_out >= f64::from(groups) * 0.98 && left_out <= 1_000.0,
            "{limit}: {left_out}"
        );
    }
}

/// The server negotiates, refuses what it does not know, and outlives bad and slow clients and a
/// module that goes away.
#[test]
fn server() {
    let (folder, _) = module("server", 2, 100);
    let (process, port) = serve(&folder, "");
    const PROTOBUF: &str = "application/vnd.google.protobuf;\
        proto=io.prometheus.client.MetricFamily;encoding=delimited";
    for (accept, kind) in [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("image/png", "text/plain; version=0.0.4"),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            "application/openmetrics",
        ),
        ("application/openmetrics-text;version=9.0.0", "text/plain"),
        (
            "application/openmetrics-text;q=0.2,text/plain;q=0.5",
            "text/plain",
        ),
        (
            &format!("{PROTOBUF};q=0.9,text/plain;q=0.5"),
            "application/vnd.google.protobuf",
        ),
        (&format!("{PROTOBUF};q=0.4,text/plain;q=0.5"), "text/plain"),
        (
            "application/vnd.google.protobuf;encoding=text",
            "text/plain",
        ),
    ] {
        let (head, body) = get(port, "/metrics", accept);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(
            head.contains(&format!("Content-Type: {kind}")),
            "{accept}: {head}"
        );
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }
    assert!(get(port, "/", "").0.starts_with("HTTP/1.1 200"));
    assert!(get(port, "/x", "").0.starts_with("HTTP/1.1 404"));
    let posted = ask(port, "POST /metrics HTTP/1.1\r\n\r\n").0;
    assert!(posted.starts_with("HTTP/1.1 405") && posted.contains("\r\nAllow: GET, HEAD\r\n"));
    let misdirected = "HEAD /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n";
    for (request, status) in [("HEAD /x HTTP/1.1\r\n\r\n", "404"), (misdirected, "421")] {
        let (head, body) = ask(port, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")) && body.is_empty());
    }
    // As a proxy asks: the target has the host.
    for (target, status) in [
        ("http://127.0.0.1:9763/metrics", "200"),
        ("HTTP://localhost/metrics?x", "200"),
        ("http://localhost", "200"),
        ("http://localhost/x", "404"),
        ("http://example.org/metrics", "421"),
        ("ftp://localhost/metrics", "404"),
    ] {
        let head = get(port, target, "").0;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{target}");
    }
    assert!(ask(port, "nonsense\r\n\r\n").0.starts_with("HTTP/1.1 40"));
    let (head, body) = ask(port, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty());
    // Clients that say nothing keep nobody waiting.
    let start = Instant::now();
    get(port, "/metrics", "");
    let usual = start.elapsed();
    let mute: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    let start = Instant::now();
    assert!(get(port, "/metrics", "").0.starts_with("HTTP/1.1 200"));
    // Each of them is waited for ten seconds.
    assert!(start.elapsed() < usual * 4 + Duration::from_secs(9));
    drop(mute);
    // A scrape is sent again for a moment.
    let is_up = |up: f64| {
        until("schedhist_up changes", || {
            let body = String::from_utf8(get(port, "/metrics", "").1).unwrap();
            assert!(up > 0.0 || value(&body, "schedhist_up") > 0.0 || !body.contains("switches"));
            value(&body, "schedhist_up") == up
        });
    };
    fs::rename(folder.join("m/raw"), folder.join("m/gone")).unwrap();
    is_up(0.0);
    fs::rename(folder.join("m/gone"), folder.join("m/raw")).unwrap();
    is_up(1.0);
    drop(process);
}

/// Who takes gzip gets the same in fewer bytes, in each form. (Prometheus always asks for it, see
/// [`prometheus`].)
#[test]
fn gzip() {
    let (folder, _) = module("gzip", 2, 1_000);
    let (_process, port) = serve(&folder, "");
    for (encodings, is_gzip) in [
        ("gzip", true),
        ("GZip;q=0.1, identity", true),
        ("br, x-gzip", true),
        ("*", true),
        ("gzip;q=0, *", false),
        ("*;q=0", false),
        ("identity, deflate, br", false),
        ("", false),
    ] {
        for accept in ["", "application/openmetrics-text"] {
            let get = |encodings: &str| {
                let words = format!(
                    "GET /metrics HTTP/1.1\r\nAccept: {accept}\r\nAccept-Encoding: {encodings}\r\n\r\n"
                );
                ask(port, &words)
            };
            // What changes by itself is how long it took to read the module.
            let stable = |text: Vec<u8>| {
                let text = String::from_utf8(text).unwrap();
                let lines = text.lines().filter(|line| !line.contains("read_seconds"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            let (head, body) = get(encodings);
            assert_eq!(
                head.contains("\r\nContent-Encoding: gzip\r\n"),
                is_gzip,
                "{head}"
            );
            assert!(
                head.contains("\r\nVary: Accept, Accept-Encoding\r\n"),
                "{head}"
            );
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
            let (plain, size) = (get("").1, body.len());
            assert!(
                !is_gzip || size * 5 < plain.len(),
                "{size} of {} bytes",
                plain.len()
            );
            let body = if is_gzip { unzip(&body) } else { body };
            assert_eq!(stable(body), stable(plain));
        }
    }
}

/// It serves at the sockets that systemd has opened, and opens none of its own.
#[test]
fn socket_activation() {
    if !has("systemd-socket-activate") {
        return;
    }
    let (folder, _) = module("socket", 1, 10);
    let ports = [free_port(), free_port()];
    let mut command = Command::new("systemd-socket-activate");
    for port in ports {
        command.arg(format!("--listen=127.0.0.1:{port}"));
    }
    // Of this address, there is none on this machine.
    let words = ["--dir", "m", "export", "--listen", "192.0.2.1:9"];
    let command = command.arg(PROGRAM).args(words).current_dir(&*folder);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let _process = Process(child);
    for port in ports {
        until("systemd listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let (head, _) = get(port, "/metrics", "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let refused = ask(port, "GET /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n").0;
        assert!(refused.starts_with("HTTP/1.1 421"), "{refused}");
    }
    let said = lines
        .find(|line| line.as_ref().unwrap().contains("http://"))
        .unwrap();
    assert_eq!(
        said.unwrap(),
        format!("schedhist: http://127.0.0.1:{}/metrics", ports[0])
    );
    // A socket that is none of TCP's.
    let unix = folder.join("socket").display().to_string();
    let mut command = Command::new("systemd-socket-activate");
    let words = [&format!("--listen={unix}"), PROGRAM, "--dir", "m", "export"];
    let child = command
        .args(words)
        .current_dir(&*folder)
        .stderr(Stdio::piped())
        .spawn();
    let mut process = Process(child.unwrap());
    until("systemd listens", || UnixStream::connect(&unix).is_ok());
    assert_eq!(process.0.wait().unwrap().code(), Some(1));
}

/// Clients that say nothing, or a byte at times, or take nothing, are gone after ten seconds.
#[test]
fn patience() {
    let (folder, machine) = module("patience", 64, 20);
    put_groups(&folder, machine, &many_groups(4_000));
    let (_process, port) = serve(&folder, "--series 10000000");
    let start = Instant::now();
    let connect = |said: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(said).unwrap();
        stream
    };
    let (mute, mut slow) = (connect(b""), connect(b"GET /met"));
    let deaf = connect(b"GET /metrics HTTP/1.1\r\n\r\n");
    let is_gone = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut [0]);
        !read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    until("the clients are gone", || {
        let _ = slow.write_all(b"x");
        is_gone(&mute) && is_gone(&slow)
    });
    let took = start.elapsed();
    assert!(took > Duration::from_secs(9), "{took:?}");
    // The kernel has taken a part of the answer, and no more than that.
    thread::sleep(Duration::from_secs(1));
    let mut taken = Vec::new();
    let timeout = Some(Duration::from_secs(20));
    deaf.set_read_timeout(timeout).unwrap();
    let read = (&deaf).read_to_end(&mut taken);
    let whole = get(port, "/metrics", "").1.len();
    let taken = taken.len();
    assert!(taken < whole, "{taken} of {whole} bytes: {read:?}");
}

/// A page that binds its own name to the loopback address gets nothing.
#[test]
fn hosts() {
    let (folder, _) = module("hosts", 1, 10);
    let (process, port) = serve(&folder, "");
    let status = |hosts: &[&str]| {
        let hosts = hosts
            .iter()
            .fold(String::new(), |all, host| all + "Host: " + host + "\r\n");
        let (head, body) = ask(port, &format!("GET /metrics HTTP/1.1\r\n{hosts}\r\n"));
        let status = head.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(status == "200", body.starts_with(b"# HELP"), "{head}");
        status
    };
    for host in "127.0.0.1 LOCALHOST:9763 [::1] [::1]:80 192.0.2.1:1".split(' ') {
        assert_eq!(status(&[host]), "200", "{host}");
    }
    for host in "example.org example.org:9763  127.0.0.1.example.org localhost:x".split(' ') {
        assert_eq!(status(&[host]), "421", "{host}");
    }
    assert_eq!(status(&[]), "200");
    assert_eq!(status(&["localhost", "example.org"]), "421");
    drop(process);
}

/// Names other than `localhost` are refused, as are addresses without a port.
#[test]
fn listen() {
    let (folder, _) = module("listen", 1, 10);
    for wrong in "localhost example.org:9763 127.0.0.1 ::1:9763 :65536 ::".split(' ') {
        let mut command = folder.command(&format!("--dir m export --listen {wrong}"));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {said}");
        assert!(said.contains("localhost:PORT"), "{wrong}: {said}");
    }
    let (_process, mut lines) = start(&folder, "localhost:0");
    let line = lines.next().unwrap().unwrap();
    let url = line.strip_prefix("schedhist: http://").unwrap();
    let address: SocketAddr = url.strip_suffix("/metrics").unwrap().parse().unwrap();
    assert!(address.ip().is_loopback(), "{address}");
}

/// `--listen :PORT` is that port of all addresses.
#[test]
fn all_addresses() {
    let (folder, _) = module("addresses", 1, 10);
    let (_process, mut lines) = start(&folder, ":0");
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("from other machines"), "{line}");
    let mut rest = lines.map(|line| line.unwrap());
    let line = rest.find(|line| line.contains("http://")).unwrap();
    let (_, port) = line.trim_end_matches("/metrics").rsplit_once(':').unwrap();
    let (head, _) = get(port.parse().unwrap(), "/metrics", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

/// Returns the highest resident size of a process so far, in KiB.
fn peak(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Clients that take nothing of a large answer keep nobody waiting, take no memory each, and do
/// not delay the end.
#[test]
fn slow_clients() {
    let (folder, machine) = module("slow", 64, 20);
    put_groups(&folder, machine, &many_groups(4_000));
    let more = "--series 10000000 --per-cpu runq,oncpu,offcpu,idle";
    let (mut process, port) = serve(&folder, more);
    let start = Instant::now();
    let size = get(port, "/metrics", "").1.len();
    let usual = start.elapsed();
    let alone = peak(&process);
    let slow: Vec<_> = (0..500)
        .map(|number: usize| {
            let address = ([127, 0, 0, 1], port).into();
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(20));
            let mut stream = stream.expect("the server accepts");
            let request = match number % 3 {
                0 => "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
                1 => "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n",
                _ => "GET /met",
            };
            // Those that came first are gone.
            let _ = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    // Slow clients are waited for ten seconds, but not by others.
    let most = usual + Duration::from_secs(9);
    let times = [(); 3].map(|()| {
        let start = Instant::now();
        let (head, body) = get(port, "/metrics", "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(body.len() * 10 > size * 9, "{} of {size} bytes", body.len());
        start.elapsed()
    });
    assert!(times.iter().any(|took| *took < most), "{times:?}");
    let all = peak(&process);
    assert!(
        all < alone + (160 << 10),
        "{all} KiB, {alone} KiB before, {size} bytes each"
    );
    signal::kill(Pid::from_raw(process.0.id() as i32), Signal::SIGTERM).unwrap();
    let start = Instant::now();
    assert!(process.0.wait().unwrap().success());
    let took = start.elapsed();
    assert!(took < most, "{took:?}");
    drop(slow);
}

/// Clients that ask for all forms in turn do not make it read all the time.
#[test]
fn forms_in_turn() {
    let (folder, machine) = module("turns", 64, 20);
    put_groups(&folder, machine, &many_groups(2_000));
    let (process, port) = serve(&folder, "");
    let size = fs::metadata(folder.join("m/raw")).unwrap().len();
    // How often it has read the module's file.
    let reads = || -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", process.0.id())).unwrap();
        let bytes = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        bytes.unwrap().parse::<u64>().unwrap() / size
    };
    let before = reads();
    // 1200 answers.
    for _ in 0..200 {
        for accept in [
            "text/plain",
            "application/openmetrics-text",
            "application/vnd.google.protobuf",
        ] {
            for gzip in ["", "\r\nAccept-Encoding: gzip"] {
                get(port, "/metrics", &format!("{accept}{gzip}"));
            }
        }
    }
    let reads = reads() - before;
    println!("{reads} reads");
    // About ten, and forty if a scrape was shared only as long as if all asked for one form.
    assert!(reads < 28, "{reads}");
}

/// Where there is no room for all groups, those that waited most are sent, and what no group takes.
#[test]
fn important_groups() {
    let (folder, machine) = module("important", 1, 20);
    let mut groups = many_groups(1_000);
    for (id, waited) in [(700, "701000009"), (900, "701000008")] {
        let at = groups.find(&format!("group id {id} ")).unwrap();
        let waits = groups[at..].replacen("701000000", waited, 1);
        groups.replace_range(at.., &waits);
    }
    let machine = put_groups(&folder, machine, &groups);
    let text = folder.text("--dir m export --once --series 2000");
    let has = |group: &str| {
        text.contains(&format!(
            "schedhist_group_voluntary_total{{group=\"{group}\""
        ))
    };
    assert!(
        has("other") && has("/700\\\"b\\\\x0a.service") && has("/900\\\"b\\\\x0a.service"),
        "{text}"
    );
    assert!(has("/1\\\"b\\\\x0a.service") && !has("/800\\\"b\\\\x0a.service"));
    // Long names take room, too: the number of bytes is bounded.
    let long = many_groups(4_000).replace("/a", &format!("/{}", "long".repeat(900)));
    put_groups(&folder, machine, &long.replace("\\x0a", &"/".repeat(900)));
    let text = folder.text("--dir m export --once --series 10000000");
    assert!(
        text.len() < 17 << 20 && text.len() > 1 << 19,
        "{}",
        text.len()
    );
    assert!(value(&text, "schedhist_left_out{scope=\"group\"}") > 3_000.0);
}

/// A reader of the text file never sees a part of it.
#[test]
fn textfile() {
    let (folder, _) = module("textfile", 2, 100);
    let mut command = folder.command("--dir m export --textfile x.prom --interval 0.001");
    let process = Process(command.spawn().unwrap());
    let path = folder.join("x.prom");
    until("it is there", || path.exists());
    for _ in 0..200 {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.ends_with('\n') && text.contains("schedhist_left_out"),
            "{} bytes",
            text.len()
        );
        thread::sleep(Duration::from_millis(1));
    }
    drop(process);
    // The collector runs as another user, whatever the umask.
    let script = "umask 077; exec \"$0\" --dir m export --once --textfile x.prom";
    assert!(folder.shell(script).status().unwrap().success());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    // A device, for one, stays what it is.
    symlink("/dev/null", folder.join("null")).unwrap();
    let output = folder.run("--dir m export --once --textfile null");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(folder.join("null").is_symlink());
    let output = folder.run("--dir m export --textfile none/x.prom");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// It says why it fails once for each reason.
#[test]
fn failures() {
    let (folder, machine) = module("failures", 2, 100);
    let mut command = folder.command("--dir m export --textfile x.prom --interval 0.01");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let _process = Process(child);
    until("a file", || folder.join("x.prom").exists());
    let mut next = || {
        let mut text = String::new();
        while !text.ends_with("; waiting") {
            text += &lines.next().unwrap().unwrap();
        }
        text
    };
    fs::remove_file(folder.join("m/raw")).unwrap();
    let first = next();
    assert!(first.contains("m/raw: No such file"), "{first}");
    folder.put("m/raw", "damaged");
    let second = next();
    assert!(second.contains("m/raw: "), "{second}");
    // What was there before would pass for new.
    let says = |text: &str| {
        fs::read_to_string(folder.join("x.prom"))
            .unwrap()
            .contains(text)
    };
    until("its end", || says("\nschedhist_up 0\n"));
    assert!(!says("schedhist_switches_total"));
    put(&folder, &machine);
    until("a file", || says("\nschedhist_up 1\n"));
    fs::remove_file(folder.join("m/raw")).unwrap();
    assert_eq!(next(), first);
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../prometheus")
}

/// promtool accepts the text and the rules, and the rules do what they say.
#[test]
fn promtool() {
    if !has("promtool") {
        return;
    }
    let (folder, _) = module("promtool", 4, 2_000);
    let body = folder.text("--dir m export --once");
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(body.as_bytes())
        .unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stderr, b"", "{output:?}");
    for words in [
        &["check", "rules", "recording.rules.yml", "alerts.rules.yml"][..],
        &["test", "rules", "rules.test.yml"],
    ] {
        let output = Command::new("promtool")
            .args(words)
            .current_dir(sources())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
}

/// Asks Prometheus. Returns the values of the result, or what it said instead.
fn query(port: u16, query: &str) -> Result<Vec<f64>, String> {
    let encoded: Vec<_> = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let encoded = encoded.concat();
    let (_, body) = get(port, &format!("/api/v1/query?query={encoded}"), "");
    let body = String::from_utf8(body).unwrap();
    if !body.contains("\"status\":\"success\"") {
        return Err(body);
    }
    let values = body.split("\"value\":[").skip(1);
    let values = values.map(|rest| rest.split('"').nth(1).unwrap().parse().unwrap());
    Ok(values.collect())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Starts Prometheus, which scrapes a port. Returns it and its own port.
fn prometheus_of(folder: &Folder, exported: u16) -> (Process, u16) {
    let port = free_port();
    let config = format!(
        "global:\n  scrape_interval: 2s\nrule_files: [{0}/recording.rules.yml, {0}/alerts.rules.yml]\n\
         scrape_configs:\n  - job_name: x\n    scrape_classic_histograms: true\n    \
         static_configs:\n      - targets: ['127.0.0.1:{exported}']\n",
        fs::canonicalize(sources()).unwrap().display()
    );
    fs::write(folder.join("prometheus.yml"), config).unwrap();
    let log = fs::File::create(folder.join("log")).unwrap();
    let server = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg("--enable-feature=native-histograms")
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .current_dir(&**folder)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    until("it starts", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    (Process(server), port)
}

/// Compares what Prometheus computes of each histogram with what the command does.
fn compare(port: u16, window: &Window) {
    for metric in &window.names.metrics {
        let all = window.distribution(metric, &|_| true);
        let name = format!("schedhist_{}_seconds", metric.name);
        let counts = query(port, &format!("histogram_count({name})")).unwrap();
        assert_eq!(counts, [all.count() as f64], "{name}");
        let sums = query(port, &format!("histogram_sum({name})")).unwrap();
        assert!(
            (sums[0] - all.sum as f64 / 1e9).abs() < 1e-9 * sums[0].max(1.0),
            "{name}"
        );
        for (share, text) in [
            ("0.5", "50"),
            ("0.9", "90"),
            ("0.99", "99"),
            ("0.999", "99.9"),
        ] {
            let Some(bounds) = all.quantile(Quantile::parse(text).unwrap()) else {
                continue;
            };
            let ours = (bounds.lower as f64 / 1e9, (bounds.upper as f64 + 1.0) / 1e9);
            let native = query(port, &format!("histogram_quantile({share}, {name})")).unwrap()[0];
            // One native bucket, and where the rank falls between two samples, the next one.
            let width = 2_f64.powf(1.0 / 8.0) * 1.02;
            assert!(
                native >= ours.0 / width && native <= ours.1 * width,
                "{name} {share}: {native} by the native histogram, ours {ours:?}"
            );
            let classic = format!("histogram_quantile({share}, {name}_bucket)");
            let classic = query(port, &classic).unwrap()[0];
            assert!(
                classic >= ours.0 / 2.0 && classic <= (ours.1 * 2.0).max(2.6e-7),
                "{name} {share}: {classic} by the classic histogram, ours {ours:?}"
            );
        }
    }
}

/// Prometheus scrapes native and classic histograms, and computes the quantiles that the command
/// does. A module that is loaded anew is a counter reset, and no spike. All queries of the
/// dashboard answer.
#[test]
fn prometheus() {
    if !has("prometheus") {
        return;
    }
    let (folder, mut machine) = module("prometheus", 4, 3_000);
    let window = Window::since_load(&raw::decode(&machine.raw()).unwrap());
    let (_exporter, exported) = serve(&folder, "");
    let (_server, port) = prometheus_of(&folder, exported);
    until("it scrapes", || {
        query(port, "up").is_ok_and(|up| up == [1.0])
    });
    until("it has the metrics", || {
        query(port, "schedhist_switches_total").is_ok_and(|v| v == [12_000.0])
    });
    compare(port, &window);
    let mut groups = query(port, "histogram_count(schedhist_group_runq_seconds)").unwrap();
    groups.sort_by(f64::total_cmp);
    assert_eq!(groups, [0.0, 0.0, 578.0]);
    // Some activity, and then a new load with other counts.
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(1_100));
        machine.run(50);
        put(&folder, &machine);
    }
    let scraped = "schedhist_switches_total == 12800";
    until("the activity", || {
        query(port, scraped).is_ok_and(|v| v.len() == 1)
    });
    let queries = Command::new(sources().join("dashboard"))
        .arg("--queries")
        .output()
        .unwrap();
    for line in String::from_utf8(queries.stdout).unwrap().lines() {
        let line = line.replace("[5s]", "[30s]");
        let answer = query(port, &line);
        assert!(
            answer.as_ref().is_ok_and(|v| !v.is_empty()),
            "{line}: {answer:?}"
        );
    }
    let mut anew = Machine::new(4, 5, 9);
    anew.groups = Some(Groups::new(GROUPS, GROUP_RUNQ));
    anew.run(100);
    put(&folder, &anew);
    until("the new load", || {
        query(port, "schedhist_switches_total == 400").is_ok_and(|v| v.len() == 1)
    });
    assert_eq!(
        query(port, "resets(schedhist_switches_total[10m])").unwrap(),
        [1.0]
    );
    assert_eq!(
        query(port, "resets(schedhist_runq_seconds[10m])").unwrap(),
        [1.0]
    );
    // At most what was counted before and after, with the extrapolation of both ends.
    let increase = query(port, "increase(schedhist_switches_total[10m])").unwrap()[0];
    assert!((800.0..2_400.0).contains(&increase), "{increase}");
    let samples = query(
        port,
        "histogram_count(increase(schedhist_runq_seconds[10m]))",
    )
    .unwrap()[0];
    assert!(samples > 0.0 && samples < 2_400.0, "{samples}");
    assert_eq!(query(port, "min_over_time(up[10m])").unwrap(), [1.0]);
    let errors = fs::read_to_string(folder.join("log")).unwrap();
    assert!(
        !errors.contains("level=error") && !errors.contains("level=warn"),
        "{errors}"
    );
}

/// The load of a copy is told by its switches, wherever that counter is.
#[test]
fn loads_of_a_copy() {
    let (folder, machine) = module("loads", 1, 100);
    let count = |machine: &Machine, place: usize| {
        raw::decode(&machine.raw()).unwrap().cpus[0].counters[place]
    };
    let swapped = |machine: &Machine| {
        let mut raw = machine.raw();
        let fields = ["switches", "voluntary"].map(|name| {
            let field = format!("{name:\0<32}").into_bytes();
            let place = raw.windows(32).position(|bytes| bytes == field);
            (place.unwrap(), field)
        });
        let [(first, a), (second, b)] = fields;
        raw[first..first + 32].copy_from_slice(&b);
        raw[second..second + 32].copy_from_slice(&a);
        raw
    };
    folder.put("m/raw", swapped(&machine));
    let (process, port) = serve(&folder, "");
    let is_created = || {
        let (_, body) = get(port, "/metrics", "application/openmetrics-text");
        String::from_utf8(body).unwrap().contains("_created")
    };
    assert!(!is_created());
    let is_reloaded = |other: &Machine| {
        let more = |place| count(other, place) > count(&machine, place);
        more(0) && count(other, 1) < count(&machine, 1)
    };
    let mut others = (2..).map(|seed| {
        let mut other = Machine::new(1, 5, seed);
        other.run(110);
        other
    });
    let mut other = others.find(is_reloaded).unwrap();
    other.now += machine.now;
    folder.put("m/raw", swapped(&other));
    until("a new load is told", is_created);
    drop(process);
}
