// SPDX-License-Identifier: GPL-2.0

//! The command line.

use std::ffi::OsString;

use clap::{builder::NonEmptyStringValueParser, value_parser, Arg, ArgAction, ArgGroup, Command};

/// An option without a value.
fn flag(name: &'static str, short: char, help: &'static str) -> Arg {
    Arg::new(name)
        .short(short)
        .long(name)
        .help(help)
        .action(ArgAction::SetTrue)
}

/// An option without a value and without a short form.
fn long(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .action(ArgAction::SetTrue)
}

/// An option with a value and no short form.
fn value(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    operand(name, value, help).long(name)
}

/// An argument with one value. An empty one is most likely that of a shell variable that is not
/// set.
fn operand(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .value_name(value)
        .help(help)
        .value_parser(NonEmptyStringValueParser::new())
}

/// The positional arguments of a verb.
fn words(names: &'static str, help: &'static str) -> Arg {
    Arg::new("words").value_name(names).help(help).num_args(0..)
}

/// Adds the options that choose units, quantiles and the form.
fn with_style(command: Command) -> Command {
    command
        .arg(flag("nanoseconds", 'n', "Show durations in nanoseconds"))
        // For programs, they are in nanoseconds.
        .arg(
            flag("microseconds", 'u', "Show durations in microseconds")
                .conflicts_with_all(["json", "separator"]),
        )
        .arg(
            flag("milliseconds", 'm', "Show durations in milliseconds")
                .conflicts_with_all(["json", "separator"]),
        )
        .group(ArgGroup::new("unit").args(["nanoseconds", "microseconds", "milliseconds"]))
        .arg(
            value(
                "quantiles",
                "LIST",
                "Percentiles [default: 50,90,99,99.9,99.99]",
            )
            .short('q'),
        )
        .arg(flag("json", 'j', "Print JSON Lines"))
        .arg(
            value(
                "separator",
                "SEP",
                "Print values with this separator, such as ,",
            )
            .short('x')
            .conflicts_with("json"),
        )
}

/// Adds the options of the tools of BCC.
fn with_bcc(command: Command) -> Command {
    command
        .arg(words(
            "INTERVAL COUNT",
            "Seconds, and number of tables [default: until ^C]",
        ))
        .arg(flag(
            "timestamp",
            'T',
            "Print the time of day with each table",
        ))
        .arg(flag(
            "milliseconds",
            'm',
            "Milliseconds instead of microseconds",
        ))
        .arg(flag("pids", 'P', "A table for each process"))
        .arg(flag("tids", 'L', "A table for each thread"))
        .arg(value("pid", "PID", "Only this process").short('p'))
        .arg(
            value("cgroup", "PATH", "Only this cgroup, with those below it")
                .short('c')
                .conflicts_with_all(["pid", "pids", "tids"]),
        )
        .group(ArgGroup::new("split").args(["pids", "tids"]))
}

/// The order of the verbs in the help; others follow.
const ORDER: [&str; 12] = [
    "hist",
    "runqlat",
    "cpudist",
    "runqslower",
    "groups",
    "run",
    "record",
    "report",
    "diff",
    "watch",
    "ctl",
    "doctor",
];

/// Returns the command line.
pub fn command() -> Command {
    let program = Command::new("schedhist")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Latency histograms of the Linux scheduler")
        .after_help(
            "Without a verb, shows a live view on a terminal, and else prints a summary since\n\
             the module was loaded.\n\
             Verbs that read change no setting, but that some group tasks meanwhile.\n\
             See schedhist(1), and docs/tool.md.",
        )
        .subcommand_negates_reqs(true)
        .arg(
            value("dir", "FOLDER", "Read a copy of the module's files")
                .global(true)
                .help_heading("Source"),
        );
    let mut program = with_style(program);
    for verb in reading_verbs().into_iter().chain(other_verbs()) {
        let place = ORDER.iter().position(|name| *name == verb.get_name());
        program = program.subcommand(verb.display_order(place.unwrap_or(ORDER.len())));
    }
    program
}

/// The arguments of `report` that choose what is in its tables, and how.
const OF_TABLES: [&str; 6] = ["words", "each", "json", "separator", "quantiles", "unit"];

/// The verbs that only read.
fn reading_verbs() -> Vec<Command> {
    vec![
        Command::new("top")
            .about("Show a live view: metrics, a heat map, CPUs, groups, outliers")
            .arg(
                value("interval", "SEC", "Seconds between two updates")
                    .short('d')
                    .default_value("1"),
            )
            .arg(value("metric", "METRIC", "The metric of the heat map").default_value("runq"))
            .arg(long("once", "Print one interval, and end"))
            .arg(long("ascii", "Use no characters beyond ASCII")),
        with_style(Command::new("hist"))
            .about("Print histograms, since the load or of intervals")
            .arg(words(
                "METRIC... INTERVAL COUNT",
                "Default: runq; seconds, number of intervals",
            ))
            .arg(flag("each-cpu", 'C', "One histogram for each CPU"))
            .arg(value("cpu", "LIST", "Only these CPUs, such as 0-3,8"))
            .arg(
                value(
                    "sub-buckets",
                    "N",
                    "Rows to a power of two: 1, 2, 4 and so on",
                )
                .short('b')
                .default_value("1")
                .conflicts_with_all(["json", "separator"]),
            ),
        with_bcc(Command::new("runqlat"))
            .about("Print run-queue latency in the table of BCC's runqlat")
            .arg(
                long("pidnss", "A table for each PID namespace")
                    .conflicts_with_all(["pids", "tids", "cgroup"]),
            ),
        with_bcc(Command::new("cpudist"))
            .about("Print on-CPU time in the table of BCC's cpudist")
            .arg(flag("offcpu", 'O', "Off-CPU time instead"))
            .arg(flag("include-idle", 'I', "Add the time in the idle task"))
            .arg(flag(
                "extension",
                'e',
                "Print average, total and count, too",
            )),
        with_style(Command::new("groups"))
            .about("Print which group of tasks waits, and because of whom")
            .mut_arg("nanoseconds", |arg| arg.short(None))
            .arg(words("INTERVAL COUNT", "Seconds, and number of intervals"))
            .arg(value("rows", "N", "At most N groups [default: 20]").short('n'))
            .arg(flag("wide", 'w', "Do not cut names")),
        with_style(Command::new("report"))
            .about("Print what a recording holds")
            .arg(
                value("input", "FILE", "One recording, or several")
                    .short('i')
                    .action(ArgAction::Append)
                    .default_value("schedhist.data"),
            )
            .arg(words(
                "METRIC...",
                "Only these metrics, with their histograms",
            ))
            .arg(value(
                "time",
                "A,B",
                "Only from A to B seconds after the beginning",
            ))
            .arg(flag(
                "each",
                'e',
                "Each interval instead of all of them together",
            ))
            .arg(
                value("html", "OUT", "Write a page that any browser shows")
                    .conflicts_with_all(OF_TABLES)
                    .conflicts_with_all(["hgrm", "hlog"]),
            )
            .arg(
                value(
                    "against",
                    "FILE",
                    "With --html: another recording beside it",
                )
                .requires("html"),
            )
            .arg(
                value(
                    "stacks",
                    "FILE",
                    "With --html: stacks, by perf script or folded",
                )
                .action(ArgAction::Append)
                .requires("html"),
            )
            .arg(
                value(
                    "hgrm",
                    "METRIC",
                    "Print HdrHistogram's percentiles of a metric",
                )
                .conflicts_with_all(OF_TABLES),
            )
            .arg(
                value(
                    "hlog",
                    "METRIC",
                    "Print HdrHistogram's log of the intervals of a metric",
                )
                .conflicts_with_all(OF_TABLES)
                .conflicts_with("hgrm"),
            ),
        with_style(Command::new("diff"))
            .about("Compare repeated runs, or recordings")
            .arg(operand("a", "A", "Runs or a recording").required(true))
            .arg(operand("b", "B", "Others").required(true))
            .arg(words("METRIC...", "Metrics [default: runq]"))
            .arg(
                value(
                    "fail-above",
                    "RULE",
                    "Status 1 if so: such as runq:p99:+20%",
                )
                .action(ArgAction::Append),
            ),
        export(),
        Command::new("doctor").about("Look for what keeps schedhist from working"),
        Command::new("completions")
            .about("Print completions for a shell")
            .arg(operand("shell", "SHELL", "bash, zsh, fish or elvish").required(true)),
        Command::new("man")
            .about("Write the manual pages into a folder")
            .hide(true)
            .arg(operand("folder", "FOLDER", "Where to").required(true)),
    ]
}

/// The verb that serves other programs.
fn export() -> Command {
    Command::new("export")
        .about("Serve the figures to Prometheus, by HTTP or in a file")
        .arg(
            value("perfetto", "OUT", "Write a trace for Perfetto instead").conflicts_with_all([
                "listen", "textfile", "interval", "once", "format", "per-cpu", "series", "schema",
            ]),
        )
        .arg(
            value("input", "FILE", "For --perfetto: its source")
                .short('i')
                .default_value("schedhist.data")
                .requires("perfetto")
                .conflicts_with_all(["listen", "textfile", "once"]),
        )
        .arg(
            value("listen", "ADDRESS", "Address and port")
                .default_value("127.0.0.1:9763")
                .conflicts_with_all(["textfile", "once"]),
        )
        .arg(value(
            "textfile",
            "PATH",
            "Write a file for node_exporter instead",
        ))
        .arg(
            value("interval", "SEC", "Seconds between two writes of the file")
                .default_value("15")
                .requires("textfile")
                .conflicts_with("once"),
        )
        .arg(long("once", "Only once: the file, or to standard output"))
        .arg(
            value(
                "format",
                "FORM",
                "With --once: prometheus, openmetrics or protobuf",
            )
            .hide_possible_values(true)
            .hide_default_value(true)
            .value_parser(["prometheus", "openmetrics", "protobuf"])
            .default_value("prometheus")
            .requires("once")
            .conflicts_with("textfile"),
        )
        .arg(value("per-cpu", "LIST", "Metrics shown for each CPU, or none").default_value("runq"))
        .arg(value("series", "N", "At most N time series").default_value("20000"))
        .arg(
            value("schema", "N", "Native: 2^N buckets to a power of two")
                .default_value("3")
                .allow_hyphen_values(true)
                .conflicts_with("textfile"),
        )
}

/// The verbs that write: a file, or a setting of the module.
fn other_verbs() -> Vec<Command> {
    vec![
        Command::new("runqslower")
            .about("Print waits for a CPU above a limit, and who ran")
            .arg(operand("min_us", "MIN_US", "Microseconds [default: 10000]"))
            .arg(value("tid", "TID", "Only this thread").short('t'))
            .arg(value("pid", "PID", "Only the threads of this process").short('p'))
            .arg(flag(
                "previous",
                'P',
                "Also print who ran meanwhile, longest first",
            )),
        with_style(Command::new("run"))
            .about("Run a command, and measure it and the machine meanwhile")
            .arg(
                value("repeat", "N", "Run it N times")
                    .short('r')
                    .default_value("1"),
            )
            .arg(
                value(
                    "output",
                    "FILE",
                    "Record the runs in FILE; with -j or -x, print there",
                )
                .short('o'),
            )
            .arg(value(
                "log-fd",
                "FD",
                "Print to this file descriptor, not to standard error",
            ))
            .arg(long("append", "Append to FILE, or FD").requires("outputs"))
            .group(
                ArgGroup::new("outputs")
                    .args(["output", "log-fd"])
                    .multiple(true),
            )
            .arg(
                value(
                    "interval",
                    "MS",
                    "Also print each interval, in milliseconds",
                )
                .short('I'),
            )
            .arg(value("delay", "MS", "Begin to measure after MS milliseconds").short('D'))
            .arg(
                value(
                    "cpu",
                    "LIST",
                    "Of the machine, only these CPUs, such as 0-3,8",
                )
                .short('C'),
            )
            .arg(flag("no-aggr", 'A', "Also print each CPU of the machine"))
            .arg(
                long("table", "Print a table of all runs at the end")
                    .conflicts_with_all(["json", "separator"]),
            )
            .arg(value(
                "timeout",
                "MS",
                "End the command with SIGTERM after MS milliseconds",
            ))
            .arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .help("The command and its arguments, after --")
                    .value_parser(value_parser!(OsString))
                    .required(true)
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true),
            ),
        Command::new("record")
            .about("Record snapshots in a file")
            .arg(
                value("output", "FILE", "File; an old one: FILE.old")
                    .short('o')
                    .default_value("schedhist.data"),
            )
            .arg(
                value("interval", "MS", "Milliseconds between snapshots")
                    .short('I')
                    .default_value("1000"),
            )
            .arg(value("duration", "TIME", "End the recording after 30s, 10m or 2h").short('d'))
            .arg(value(
                "ring",
                "TIME",
                "Keep at least the last 10m, in FILE and FILE.1",
            ))
            .arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .help("End when this command does; after --")
                    .value_parser(value_parser!(OsString))
                    .num_args(0..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true),
            ),
        Command::new("watch")
            .about("Wait for a sample above a threshold, and say who caused it")
            .after_help(
                "Actions: trace and snapshot stop or copy the trace, at the very moment;\n\
                 shell,command=COMMAND; signal,num=N,pid=PID (or pid=parent); continue.\n\
                 Ends after the first one above, unless continue is given; with status 3 if\n\
                 there was one.",
            )
            .arg(operand("metric", "METRIC", "The metric").default_value("runq"))
            .arg(
                value("threshold", "US", "The threshold in microseconds")
                    .short('T')
                    .required(true),
            )
            .arg(value("duration", "TIME", "End after 30s, 10m or 2h").short('d'))
            .arg(
                flag("quiet", 'q', "Only print how many there were, at the end")
                    .conflicts_with_all(["json", "stacks"]),
            )
            .arg(
                value(
                    "on-threshold",
                    "ACTION",
                    "What to do, see below; repeatable",
                )
                .action(ArgAction::Append),
            )
            .arg(long("stacks", "Also print the kernel stack of the task"))
            .arg(flag("json", 'j', "Print JSON Lines")),
        Command::new("ctl")
            .about("Print or write the settings of the module")
            .arg(operand("name", "NAME", "A setting, such as enable"))
            .arg(
                Arg::new("value")
                    .value_name("VALUE")
                    .help("Its new value")
                    .num_args(0..),
            ),
    ]
}
