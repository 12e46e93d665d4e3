// SPDX-License-Identifier: GPL-2.0

//! `top`, in terminals that tmux makes. Without tmux, the tests say so and pass, unless
//! SCHEDHIST_PEERS is set. SCHEDHIST_CAPTURES is a folder for what the terminals showed.

use std::{
    env, fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use schedhist_core::{engine, raw};

mod support;

use support::{
    has, said,
    sim::{Groups, Machine},
    until, Folder, PROGRAM,
};

/// Returns the text of `count` groups at the time `tick`.
fn groups(count: u64, tick: u64) -> String {
    let mut text = "# schedhist groups version 1\ngroup_by cgroup\nrefused 0\n".to_owned();
    for id in 0..count {
        let name = match id {
            0 => "other".to_owned(),
            1 => "/system.slice/web.service".to_owned(),
            _ => format!("/system.slice/a-rather-long-name-{id}.service"),
        };
        text += &format!(
            "group id {id} oncpu_sum_ns {} runq_count {} runq_sum_ns {} ended_by_own_ns {} \
             ended_by_other_ns {} ended_by_kernel_ns 0 ended_by_idle_ns 0 name {name}\n",
            tick * 1_000_000 * (count - id),
            tick * 10,
            tick * 500_000 * (count - id),
            tick * 100_000 * (count - id),
            tick * 400_000 * (count - id),
        );
        if id == 1 {
            text += &format!(
                "  neighbour id 2 of 1 ended 3 ended_ns {} name /batch\n",
                tick * 9_000
            );
        }
    }
    text
}

/// A folder as the module has it, which changes.
struct Module {
    folder: Folder,
    machine: Machine,
    groups: u64,
    tick: u64,
}

impl Module {
    fn new(name: &str, cpus: usize, groups: u64) -> Self {
        let folder = Folder::new(&format!("top-{name}"));
        fs::create_dir_all(folder.join("m/threshold_ns")).unwrap();
        for (metric, ns) in [("runq", 10_000_000), ("offcpu", 3_000_000)] {
            folder.put(&format!("m/threshold_ns/{metric}"), format!("{ns}\n"));
        }
        let mut module = Self {
            folder,
            machine: Machine::new(cpus, 5, 1),
            groups,
            tick: 0,
        };
        module.tick();
        module
    }

    /// Lets some intervals of `top` go by.
    fn ticks(&mut self, count: u32) {
        for _ in 0..count {
            self.tick();
            thread::sleep(Duration::from_millis(110));
        }
    }

    /// Lets some time go by.
    fn tick(&mut self) {
        self.tick += 1;
        self.machine.run(40);
        self.machine.groups = Some(Groups::new(&groups(self.groups, self.tick), ""));
        let bytes = self.machine.raw();
        let outlier = format!(
            "# schedhist outliers version 1\noutlier id {0} metric runq_wakeup cause wakeup cpu 1 \
             duration_ns 50000000 start_ns 1 end_ns {1} missing_ns 0 culprits 1 pid 7 prio 120 \
             comm worker\n  culprit id {0} ran_ns 49000000 slices 1 pid 99 prio 49 comm hog\n",
            self.tick,
            raw::decode(&bytes).unwrap().time
        );
        self.folder.put("m/outliers", outlier);
        self.folder.put("m/raw", bytes);
    }
}

/// A terminal with a shell that runs `top`.
struct Terminal {
    socket: String,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

impl Terminal {
    /// Starts `top` with an interval of 100 ms, and an environment.
    fn new(module: &Module, name: &str, size: (u32, u32), environment: &str) -> Self {
        Self::start(module, name, size, environment, "0.1")
    }

    fn start(
        module: &Module,
        name: &str,
        (width, height): (u32, u32),
        environment: &str,
        seconds: &str,
    ) -> Self {
        let terminal = Self {
            socket: format!("schedhist-{name}-{}", std::process::id()),
        };
        let (width, height) = (width.to_string(), height.to_string());
        // A recording is no module.
        let dir = if seconds.contains("-i") {
            ""
        } else {
            "--dir m"
        };
        let size = ["-x", &width, "-y", &height];
        let shell = ["new-session", "-d", "-c", module.folder.to_str().unwrap()];
        let program = ["env", "PS1=$ ", "sh"];
        let words: Vec<_> = shell.into_iter().chain(size).chain(program).collect();
        terminal.tmux(&words);
        terminal.tmux(&["set", "-g", "status", "off"]);
        terminal.tmux(&["resize-window", "-x", &width, "-y", &height]);
        terminal.keys(&[&format!(
            "stty -a > before; clear; \
             RUST_BACKTRACE=0 {environment} {} {dir} top -d {seconds}; echo ended $?; stty -a > after",
            PROGRAM
        )]);
        terminal.keys(&["Enter"]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-L", &self.socket])
            .args(words)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        let words: Vec<_> = ["send-keys"]
            .into_iter()
            .chain(keys.iter().copied())
            .collect();
        self.tmux(&words);
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as wanted. The module goes on meanwhile.
    fn until(&self, module: &mut Module, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            assert!(Instant::now() < end, "not seen: {what}, but\n{text}");
            module.ticks(1);
        }
    }

    /// The shell is there again, and the terminal as it was.
    fn has_ended(&self, module: &mut Module, status: &str) {
        let ended = format!("ended {status}");
        self.until(module, &ended, |text| text.contains(&ended));
        let read = |name: &str| {
            let text = fs::read_to_string(module.folder.join(name)).unwrap_or_default();
            // The first line has the size.
            text.split_once('\n')
                .map_or_else(String::new, |(_, rest)| rest.to_owned())
        };
        until("its settings", || !read("after").is_empty());
        assert_eq!(read("before"), read("after"));
        let flags = self.tmux(&["display", "-p", "#{alternate_on}#{cursor_flag}#{wrap_flag}"]);
        assert_eq!(flags.trim(), "011");
        fs::remove_file(module.folder.join("after")).unwrap();
    }

    /// Sends a signal to `top`.
    fn signal(&self, signal: &str) {
        let pane = self.tmux(&["display", "-p", "#{pane_pid}"]);
        let pane = pane.trim();
        let children = fs::read_to_string(format!("/proc/{pane}/task/{pane}/children")).unwrap();
        let words = [format!("-{signal}"), children.trim().to_owned()];
        assert!(Command::new("kill").args(words).status().unwrap().success());
    }
}

fn keep(name: &str, text: &str) {
    if let Some(folder) = env::var_os("SCHEDHIST_CAPTURES") {
        fs::write(Path::new(&folder).join(name), text).unwrap();
    }
}

/// All parts are on screens of all sizes, and no line is wider than the screen.
#[test]
fn sizes() {
    if !has("tmux") {
        return;
    }
    for (width, height) in [(80, 24), (100, 30), (200, 60), (30, 8)] {
        let mut module = Module::new(&format!("size{width}"), 4, 5);
        let terminal = Terminal::new(&module, &format!("size{width}"), (width, height), "");
        let is_drawn =
            |text: &str| text.contains("p50") && text.matches(['░', '▒', '▓', '█']).count() > 30;
        module.ticks(15);
        let parts = match height {
            24.. => "runq,CPUs,CPU 0,Groups,web.service,Outliers,hog:99",
            _ => "runq",
        };
        let text = terminal.until(&mut module, "all parts", |text| {
            is_drawn(text) && parts.split(',').all(|part| text.contains(part))
        });
        keep(&format!("top-{width}x{height}"), &text);
        keep(
            &format!("top-{width}x{height}.ansi"),
            &terminal.tmux(&["capture-pane", "-pe"]),
        );
        assert!(text.starts_with("schedhist"), "{text}");
        assert!(text.contains("q quit"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= width as usize, "{line}");
        }
        // Another size, and back.
        terminal.tmux(&["resize-window", "-x", "90", "-y", "20"]);
        let bar = |text: &str| {
            text.lines()
                .nth(19)
                .is_some_and(|l| l.starts_with("q quit"))
        };
        terminal.until(&mut module, "20 lines", bar);
        terminal.keys(&["q"]);
        terminal.has_ended(&mut module, "0");
    }
}

/// Lists are filtered, sorted and scrolled, and what is selected is shown alone.
#[test]
fn lists() {
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("lists", 4, 30);
    let terminal = Terminal::new(&module, "lists", (160, 40), "");
    let mut until = |what: &str, wanted: &dyn Fn(&str) -> bool| {
        terminal.until(&mut module, what, |text| wanted(text))
    };
    let seen = |text: &str, part: &str| text.contains(part);
    until("groups and the threshold", &|text| {
        seen(text, " more) by cgroup") && seen(text, "10.0ms") && seen(text, "┄")
    });
    // A time axis of round times.
    until("the time", &|text| {
        let mut lines = text.lines().filter(|line| line.starts_with("        "));
        lines.any(|line| line.trim().split(':').count() >= 3)
    });
    terminal.keys(&["/", "name-7x", "BSpace", "Enter"]);
    until("one group", &|text| {
        seen(text, "[filter name-7]") && seen(text, "name-7.") && !seen(text, "name-8.")
    });
    terminal.keys(&["Tab", "Tab", "Enter"]);
    until("it alone", &|text| seen(text, "name-7.service alone]"));
    terminal.keys(&["Escape"]);
    until("all", &|text| !seen(text, " alone]"));
    terminal.keys(&["Escape"]);
    until("no filter", &|text| {
        seen(text, "name-8.") && !seen(text, "[filter")
    });
    terminal.keys(&["s", "s", "s"]);
    until("by name", &|text| {
        let at = |part: &str| text.find(part);
        seen(text, "[by name]") && at("name-10.") < at("name-2.")
    });
    terminal.keys(&["j", "j"]);
    until("the third one", &|text| seen(text, ">..er-long-name-12."));
    terminal.keys(&["s", "Tab", "Tab", "Tab", "j", "Enter"]);
    until("CPU 1 alone", &|text| {
        seen(text, "[CPU 1 alone]") && seen(text, ">CPU 1")
    });
    until("its samples", &|text| {
        seen(text, "*runq ") && !seen(text, "no samples")
    });
    // Metrics are filtered, too, and the threshold is that of the one that is shown.
    terminal.keys(&["Escape", "Tab", "Tab", "Tab", "/", "offc", "Enter", "j"]);
    until("off-CPU time", &|text| {
        let mut lines = text.lines().filter(|line| line.contains('┄'));
        seen(text, ">offcpu ") && !seen(text, " oncpu ") && lines.any(|line| line.contains("3.0"))
    });
    terminal.keys(&["/", "BSpace", "BSpace", "BSpace", "BSpace", "hog", "Enter"]);
    until("outliers by who ran", &|text| seen(text, "hog:99"));
    terminal.keys(&["/", "s", "Enter"]);
    until("no outlier of hogs", &|text| {
        seen(text, "no outlier passes")
    });
    terminal.keys(&["Escape", "s", "k"]);
    until("metrics by their p99", &|text| seen(text, "[by waits]"));
    terminal.keys(&["s", "s", "s", "o"]);
    until("the worst", &|text| seen(text, "the worst ones"));
    terminal.keys(&["o"]);
    let text = until("by culprit", &|text| seen(text, "waits by culprit"));
    let line = text.lines().find(|line| line.trim_end().ends_with("  hog"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains("%") && line.contains("outliers, the worst of 50.0ms"),
        "{line}"
    );
    terminal.keys(&["+"]);
    until("twice as long", &|text| seen(text, "every 200ms"));
    terminal.keys(&["-", "-"]);
    until("as short as it gets", &|text| seen(text, "every 100ms"));
    terminal.keys(&["C-c"]);
    terminal.has_ended(&mut module, "0");
}

/// A recording is played from its beginning, and printed as it ends where there is no terminal.
#[test]
fn a_recording() {
    let folder = Folder::new("top-recording");
    let mut machine = Machine::new(4, 5, 3);
    let mut recorder = support::recorder(&folder.join("data"), "");
    let mut times = Vec::new();
    for i in 0..40 {
        machine.run(20);
        times.push(machine.now);
        // The clock is put back by an hour, and outliers before that stay before it.
        let back = if i > 20 { 3_600 } else { 0 };
        let unix = (1_800_000_000 + i - back) * 1_000_000_000;
        // They always run, and are recorded only now and then.
        let groups = format!(
            "# schedhist groups version 1\ngroup_by cgroup\nrefused 0\ngroup id 1 oncpu_sum_ns {} \
             runq_count 5 runq_sum_ns 4000 ended_by_own_ns 4000 name /always\n",
            machine.now
        );
        machine.groups = Some(Groups::new(&groups, ""));
        let bytes = machine.raw();
        support::record(&mut recorder, &bytes, unix);
        if [0, 39].contains(&i) {
            recorder.groups(&bytes).unwrap();
        }
        if i == 20 {
            let outlier = format!(
                "outlier id 1 metric runq_wakeup cause wakeup cpu 1 duration_ns 50000000 start_ns 1 \
                 end_ns {} missing_ns 0 culprits 0 pid 7 prio 120 comm worker\n",
                machine.now
            );
            recorder.outliers(&outlier).unwrap();
        }
    }
    folder.put("limits", "oncpu.max < 1ns\nrunq.p50 < 1d\n");
    let text = folder.text("top -i data --limits limits");
    assert!(text.contains("  07:00:39  last "), "{text}");
    assert!(text.contains("08:00:20  50.0ms worker:7 on 1"), "{text}");
    assert!(
        text.contains("08:00:14    07:00:26"),
        "the time axis: {text}"
    );
    let runs = |text: &str| {
        let ran = text.lines().find(|line| line.contains("/always"));
        ran.is_some_and(|line| line.contains(" 100%"))
    };
    assert!(
        runs(&text) && text.contains("BROKEN oncpu.max < 1ns: "),
        "{text}"
    );
    // Groups are recorded less often: those around the part that is chosen are its own.
    let [from, to] = [5, 9].map(|i| times[i] - times[0]);
    let text = folder.text(&format!("top -i data --time {from}ns,{to}ns"));
    assert!(text.contains("  08:00:09  last ") && runs(&text), "{text}");
    assert!(!text.contains("worker:7"), "{text}");
    for (words, status) in [
        ("top -i none", 1),
        ("top -i data --metric none", 2),
        ("top -i data --once", 0),
    ] {
        let output = folder.run(words);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("play", 2, 2);
    fs::rename(folder.join("data"), module.folder.join("data")).unwrap();
    let terminal = Terminal::start(&module, "play", (100, 30), "TZ=UTC", "0.2 -i data");
    terminal.until(&mut module, "its beginning", |text| {
        text.contains("[3") && text.contains(" back]")
    });
    terminal.until(&mut module, "its end", |text| {
        text.contains("07:00:39  every 200ms ")
    });
    terminal.keys(&["Home", "Space"]);
    terminal.until(&mut module, "the first one", |text| {
        text.contains("[paused]") && text.contains("[38 back]") && text.contains("08:00:01")
            // What groups had done before the recording is of no interval.
            && !text.contains("/always")
    });
    terminal.keys(&["q"]);
    terminal.has_ended(&mut module, "0");
}

#[test]
fn keys() {
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("keys", 4, 5);
    let terminal = Terminal::new(&module, "keys", (80, 24), "");
    terminal.until(&mut module, "an interval", |text| text.contains("last "));
    module.ticks(5);
    terminal.keys(&["?"]);
    terminal.until(&mut module, "the help", |text| {
        text.contains("choose the metric")
    });
    terminal.keys(&["?"]);
    terminal.until(&mut module, "no help", |text| {
        !text.contains("choose the metric")
    });
    terminal.until(&mut module, "runq", |text| text.contains(">runq "));
    terminal.keys(&["j"]);
    terminal.until(&mut module, "the next metric", |text| {
        text.contains(">runq_wakeup")
    });
    terminal.keys(&["Up"]);
    terminal.until(&mut module, "the metric before", |text| {
        text.contains(">runq ")
    });
    // Back in time: it stays at that interval while others come.
    terminal.keys(&["Left"]);
    let text = terminal.until(&mut module, "back", |text| text.contains(" back]"));
    let clock = |text: &str| {
        let (_, after) = text.split_once("last ").unwrap();
        after.lines().nth(2).map(str::to_owned)
    };
    let then = clock(&text);
    module.tick();
    thread::sleep(Duration::from_millis(400));
    assert_eq!(clock(&terminal.text()), then);
    terminal.keys(&["End"]);
    terminal.until(&mut module, "now", |text| !text.contains(" back]"));
    terminal.keys(&["Space"]);
    terminal.until(&mut module, "a pause", |text| text.contains("[paused]"));
    terminal.keys(&["Space"]);
    terminal.until(&mut module, "no pause", |text| !text.contains("[paused]"));
    // The module goes away, and comes back with other counts.
    let raw = module.folder.join("m/raw");
    fs::remove_file(&raw).unwrap();
    until("the remedy", || terminal.text().contains("[is this a copy"));
    module.machine = Machine::new(4, 5, 7);
    module.tick = 0;
    module.tick();
    terminal.until(&mut module, "the new load", |text| text.contains("last "));
    terminal.keys(&["C-c"]);
    terminal.has_ended(&mut module, "0");
}

/// A click chooses, a second one looks closer, and the right button goes back.
#[test]
fn mouse() {
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("mouse", 4, 5);
    let terminal = Terminal::new(&module, "mouse", (100, 30), "");
    terminal.until(&mut module, "an interval", |text| text.contains("last "));
    module.ticks(5);
    let act = |button: u32, what: &str| {
        let text = terminal.text();
        let found = text.lines().zip(1..).find(|(line, _)| line.contains(what));
        let (line, y) = found.unwrap_or_else(|| panic!("no {what} in {text}"));
        let x = line[..line.find(what).unwrap()].chars().count() + 2;
        terminal.keys(&[
            "-l",
            &format!("\x1b[<{button};{x};{y}M\x1b[<{button};{x};{y}m"),
        ]);
    };
    act(0, " runq_preempt");
    terminal.until(&mut module, "a metric", |text| {
        text.contains(">runq_preempt")
    });
    act(0, " CPU 1 ");
    terminal.until(&mut module, "a CPU", |text| text.contains(">CPU 1 "));
    act(65, "CPU 2 ");
    terminal.until(&mut module, "the next CPU", |text| text.contains(">CPU 2 "));
    act(0, " CPU 3 ");
    terminal.until(&mut module, "another CPU", |text| text.contains(">CPU 3 "));
    act(0, ">CPU 3 ");
    terminal.until(&mut module, "it alone", |text| {
        text.contains("[CPU 3 alone]")
    });
    act(2, ">CPU 3 ");
    terminal.until(&mut module, "all", |text| !text.contains("alone]"));
    act(0, ".slice/web.service ");
    let is_chosen = |line: &str| line.starts_with('>') && line.contains(".slice/web.service ");
    terminal.until(&mut module, "a group", |text| text.lines().any(is_chosen));
    act(64, " over time, samples");
    terminal.until(&mut module, "back", |text| text.contains(" back]"));
    let is_on = || terminal.tmux(&["display", "-p", "#{mouse_standard_flag}"]);
    assert_eq!(is_on(), "1\n");
    terminal.keys(&["q"]);
    terminal.has_ended(&mut module, "0");
    assert_eq!(is_on(), "0\n");
}

/// The limits are judged over more than one interval.
#[test]
fn limits() {
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("limits", 4, 5);
    let of_group = "offcpu.max of web.service < 1ms";
    let text = format!("runq.p50 < 1d\noncpu.max < 1ns\n{of_group}\n");
    fs::write(module.folder.join("limits"), text).unwrap();
    let terminal = Terminal::start(&module, "limits", (100, 30), "", "0.1 --limits limits");
    let wanted = "Limits  BROKEN oncpu.max < 1ns: ";
    let text = terminal.until(&mut module, "the limits", |text| {
        text.contains(wanted) && text.contains("  1 kept  1 unknown")
    });
    assert!(text.contains(">runq "), "{text}");
    terminal.keys(&["q"]);
    terminal.has_ended(&mut module, "0");
}

/// Whatever ends it, the terminal is as it was.
#[test]
fn restored() {
    if !has("tmux") {
        return;
    }
    for (name, how) in [
        ("term", "TERM"),
        ("hup", "HUP"),
        ("int", "INT"),
        ("panic", ""),
        // ^Z stops the job, and not only one process of it.
        ("job", "q"),
    ] {
        let mut module = Module::new(name, 2, 2);
        let within = if how == "q" {
            "sh -c '\"$@\"; exit $?' sh"
        } else {
            ""
        };
        let terminal = Terminal::new(&module, name, (80, 24), within);
        terminal.until(&mut module, "an interval", |text| text.contains("last "));
        if how.is_empty() {
            terminal.keys(&["!"]);
            let text = terminal.until(&mut module, "a panic", |text| text.contains("ended"));
            assert!(text.contains("as asked"), "{text}");
            terminal.has_ended(&mut module, "101");
            continue;
        }
        // Stopped and continued, it goes on.
        terminal.keys(&["C-z"]);
        terminal.until(&mut module, "the shell", |text| text.contains("topped"));
        let after = module.folder.join("after");
        until("its settings", || fs::remove_file(&after).is_ok());
        terminal.keys(&["clear; fg; echo ended $?; stty -a > after", "Enter"]);
        terminal.until(&mut module, "it again", |text| {
            text.contains("last ") && text.contains("q quit")
        });
        match how {
            "q" => terminal.keys(&["q"]),
            signal => terminal.signal(signal),
        }
        terminal.has_ended(&mut module, "0");
    }
}

/// No shell can go on with a process of an orphaned group, so ^Z leaves it running.
#[test]
fn orphaned() {
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("orphaned", 2, 2);
    let terminal = Terminal::new(&module, "orphaned", (80, 24), "exec");
    let shows = |text: &str| text.contains("last ") && text.contains("q quit");
    terminal.until(&mut module, "an interval", shows);
    terminal.keys(&["C-z"]);
    thread::sleep(Duration::from_millis(300));
    terminal.keys(&["?"]);
    terminal.until(&mut module, "help", |text| {
        text.contains("one interval back")
    });
}

/// A terminal that knows no escape sequences gets none.
#[test]
fn dumb() {
    if !has("tmux") {
        return;
    }
    for (name, environment) in [("dumb", "TERM=dumb"), ("unset", "env -u TERM")] {
        let mut module = Module::new(name, 2, 2);
        let terminal = Terminal::new(&module, name, (80, 24), environment);
        let text = terminal.until(&mut module, "its end", |text| text.contains("ended 0"));
        assert!(text.contains("CPU 0"), "{text}");
    }
}

/// Without UTF-8 or with --ascii, all is ASCII; with NO_COLOR, there are no colours, and shades
/// tell the levels apart.
#[test]
fn plain() {
    if !has("tmux") {
        return;
    }
    for (name, environment) in [("c", "LC_ALL=C"), ("none", "env -u LC_ALL LANG=de_DE")] {
        let mut module = Module::new(name, 4, 5);
        let terminal = Terminal::new(&module, name, (80, 24), environment);
        let text = terminal.until(&mut module, "a heat map", |text| text.contains("::"));
        assert!(text.is_ascii(), "{text}");
        keep(&format!("top-{name}"), &text);
    }
    let mut module = Module::new("nocolor", 4, 5);
    let terminal = Terminal::new(&module, "nocolor", (80, 24), "NO_COLOR=1");
    terminal.until(&mut module, "shades", |text| text.contains('▒'));
    let text = terminal.tmux(&["capture-pane", "-pe"]);
    let colours = (30..38).any(|colour| text.contains(&format!("[{colour}m")));
    assert!(!text.contains("[38;") && !colours, "{text}");
    keep("top-nocolor", &terminal.text());
}

/// 256 CPUs are folded, and of 1000 groups those that wait longest are shown.
#[test]
fn large() {
    if !has("tmux") {
        return;
    }
    let mut module = Module::new("large", 256, 1_000);
    let terminal = Terminal::new(&module, "large", (200, 60), "");
    let text = terminal.until(&mut module, "an interval", |text| {
        text.contains("last ") && text.contains("top itself") && text.contains("web.service")
    });
    keep("top-large", &text);
    for part in [
        "256 CPUs",
        "CPU 0-15",
        "CPU 240-255",
        "other",
        ".slice/web.service",
    ] {
        assert!(text.contains(part), "no {part}:\n{text}");
    }
    terminal.keys(&["q"]);
    terminal.has_ended(&mut module, "0");
}

/// What `tests/tools/captures` draws.
#[test]
fn captures() {
    if env::var_os("SCHEDHIST_CAPTURES").is_none() || !has("tmux") {
        return;
    }
    for (cpus, (width, height), colours) in [64, 256].into_iter().flat_map(|cpus| {
        let sizes = [(80, 24), (100, 30), (200, 60)].into_iter();
        sizes.flat_map(move |size| [16, 256].map(|colours| (cpus, size, colours)))
    }) {
        let name = format!("{cpus}-{width}x{height}-{colours}");
        let mut module = Module::new(&name, cpus, 12);
        module.machine.enabled = true;
        let term = format!("LC_ALL=C.UTF-8 TERM=xterm-{colours}color");
        let terminal = Terminal::new(&module, &name, (width, height), &term);
        module.ticks(60);
        keep(
            &format!("{name}.ansi"),
            &terminal.tmux(&["capture-pane", "-peN"]),
        );
        terminal.keys(&["q"]);
        terminal.has_ended(&mut module, "0");
    }
}

/// At one refresh a second, a machine of 64 CPUs takes it 1 % of one CPU at most, as it shows
/// itself. This build is not that of a release, and the machine may be busy or slow: only what
/// grows with the square of something, or reads all twice, is to fail here.
#[test]
fn cost() {
    if !has("tmux") {
        return;
    }
    for (cpus, groups, most) in [(64, 1_000, 10.0), (256, 1_000, 25.0)] {
        let mut module = Module::new(&format!("cost{cpus}"), cpus, groups);
        let name = format!("cost{cpus}");
        let terminal = Terminal::start(&module, &name, (200, 60), "", "1");
        let shown = |text: &str| -> Option<f64> {
            let (_, rest) = text.lines().next()?.split_once("top itself ")?;
            rest.split_once('%')?.0.parse().ok()
        };
        // The least of several intervals, each with other figures.
        let (mut all, mut last) = (Vec::new(), None);
        while all.len() < 4 {
            let text = terminal.until(&mut module, "another interval", |text| {
                shown(text).is_some() && Some(text) != last.as_deref()
            });
            all.extend(shown(&text));
            last = Some(text);
        }
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{cpus} CPUs, {groups} groups: {all:?} % of one CPU");
        assert!(least <= most, "{cpus} CPUs: {all:?} %");
        keep(&format!("top-cost-{cpus}"), &last.unwrap());
        terminal.keys(&["q"]);
        terminal.has_ended(&mut module, "0");
    }
}

/// Without a terminal, one interval is printed.
#[test]
fn once() {
    let module = Module::new("once", 4, 5);
    let mut command = module.folder.command("--dir m top -d 0.01");
    let output = command.env_clear().output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
    assert!(
        text.contains("since the load") && text.contains("web.service"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 24);
}

/// Without a terminal, groups that cannot be read are an error.
#[test]
fn groups_of_another_version() {
    let module = Module::new("groups", 2, 2);
    let mut bytes = fs::read(module.folder.join("m/raw")).unwrap();
    // The last such number before the name of a group is its length.
    let name = b"/system.slice/web.service";
    let at = bytes.windows(name.len()).position(|it| it == name).unwrap();
    let length = (name.len() as u32).to_le_bytes();
    let at = bytes[..at].windows(4).rposition(|it| it == length).unwrap();
    bytes[at..at + 4].fill(0xff);
    module.folder.put("m/raw", bytes);
    for words in ["--dir m top --once -d 0.01", "--dir m top -d 0.01"] {
        let output = module.folder.run(words);
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        let said = said(&output);
        assert!(
            output.stdout.is_empty() && said.contains("m/raw: "),
            "{said}"
        );
    }
}

/// A screen has an upper limit; a terminal does not.
#[test]
fn huge() {
    let module = Module::new("huge", 2, 2);
    for (columns, lines) in [("1000", "1000"), ("640", "166"), ("1000", "66")] {
        let mut command = module.folder.command("--dir m top --once -d 0.1");
        command.envs([("COLUMNS", columns), ("LINES", lines)]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{columns}x{lines}: {output:?}");
        assert!(!output.stdout.is_empty());
    }
}
