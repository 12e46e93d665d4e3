// SPDX-License-Identifier: GPL-2.0

//! The command line. Each verb has a struct with its arguments as values; what they are parsed by
//! is in [`crate::options`].

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    builder::NonEmptyStringValueParser, value_parser, ArgGroup, Args, Parser, Subcommand, ValueHint,
};
use schedhist_core::{
    distribution::Quantile,
    exposition::{negotiate::Form, protobuf},
};

use crate::{
    options::{
        between_snapshots, form, known, least_wait, listen, metric, milliseconds, number, parsed,
        pid_or_name, quantile, seconds, separator, sub_buckets, threshold, CpuList, Listen,
    },
    recordings::part::{times, Times},
    verbs::{completions::Shell, ctl, diff::Rule, watch::Action},
};

/// Latency histograms of the Linux scheduler
#[derive(Parser)]
#[command(
    name = "schedhist",
    version,
    hide_possible_values = true,
    after_help = "Without a verb, shows a live view on a terminal, or else prints a summary since\n\
             the module was loaded.\n\
             Verbs other than ctl restore the settings that they change.\n\
             Times may have a unit: 100us, 10ms, 0.5s, 5m, 2h, 1d.\n\
             See schedhist help metrics, help causes, help chain, and docs/tool.md."
)]
pub struct Cli {
    /// Read a copy of the module's files
    #[arg(long, value_name = "FOLDER", global = true, help_heading = "Source", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub style: StyleArgs,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// The verbs, in the order of the help.
#[derive(Subcommand)]
pub enum Verb {
    Hist(Hist),
    Runqlat(Runqlat),
    Cpudist(Cpudist),
    Runqslower(Runqslower),
    Groups(Groups),
    Run(Run),
    Record(Record),
    Report(Report),
    Diff(Diff),
    Ab(Ab),
    Check(Check),
    Flamegraph(Flamegraph),
    Watch(Watch),
    Ctl(Ctl),
    /// Check what schedhist needs, and print remedies
    Doctor,
    Completions(Completions),
    Export(Export),
    Top(Top),
    #[command(hide = true)]
    Man(Man),
}

/// The options that choose units, quantiles and the form.
#[derive(Args, Debug, Default, PartialEq)]
pub struct StyleArgs {
    /// Show durations in nanoseconds
    #[arg(short, long, group = "time_unit")]
    pub nanoseconds: bool,
    // For programs, they are in nanoseconds.
    /// Show durations in microseconds
    #[arg(short = 'u', long, group = "time_unit", conflicts_with_all = ["json", "separator"])]
    pub microseconds: bool,
    /// Show durations in milliseconds
    #[arg(short, long, group = "time_unit", conflicts_with_all = ["json", "separator"])]
    pub milliseconds: bool,
    /// Percentiles [default: 50,90,99,99.9,99.99]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = parsed(quantile))]
    pub quantiles: Vec<Quantile>,
    /// Print JSON Lines
    #[arg(short, long)]
    pub json: bool,
    /// Print values with this separator, such as ,
    #[arg(short = 'x', long, value_name = "SEP", conflicts_with = "json", value_parser = parsed(separator))]
    pub separator: Option<String>,
}

/// The part of a recording that is looked at.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct When {
    /// Only from A to B in the recording: 90, 2m or 14:00
    #[arg(long, value_name = "A,B", value_parser = parsed(times))]
    pub time: Option<Times>,
    /// Only the last 30s, 10m or 2h of the recording
    #[arg(long, value_name = "TIME", conflicts_with = "time", value_parser = parsed(seconds))]
    pub last: Option<Duration>,
}

/// The options of the tools of BCC.
#[derive(Args)]
pub struct Bcc {
    /// Seconds from one table to the next [default: until ^C]
    #[arg(value_parser = parsed(seconds))]
    pub interval: Option<Duration>,
    /// Number of tables [default: until ^C]
    #[arg(value_parser = number(1_u64))]
    pub count: Option<u64>,
    /// Print the time of day with each table
    #[arg(short = 'T', long)]
    pub timestamp: bool,
    /// Milliseconds instead of microseconds
    #[arg(short, long)]
    pub milliseconds: bool,
    /// A table for each process
    #[arg(short = 'P', long, group = "split")]
    pub pids: bool,
    /// A table for each thread
    #[arg(short = 'L', long, group = "split")]
    pub tids: bool,
    /// Only this process, a PID or a name
    #[arg(short, long, value_parser = parsed(pid_or_name))]
    pub pid: Option<String>,
    /// Only this cgroup, with those below it
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::DirPath, conflicts_with_all = ["pid", "pids", "tids"])]
    pub cgroup: Option<PathBuf>,
}

/// Print histograms, since the load or of intervals
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist hist                    # waits for a CPU since the load\n\
             \x20 schedhist hist runq oncpu 1 5     # two metrics, each second, five times\n\
             \x20 schedhist hist -C --cpu 0-3 10 1  # each of four CPUs, for ten seconds")]
pub struct Hist {
    #[command(flatten)]
    pub style: StyleArgs,
    /// Metrics (default: runq), seconds, intervals
    #[arg(value_name = "METRIC... INTERVAL COUNT", value_parser = metric())]
    pub words: Vec<String>,
    /// One histogram for each CPU
    #[arg(short = 'C', long)]
    pub each_cpu: bool,
    /// Only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = parsed(CpuList::parse))]
    pub cpu: Option<CpuList>,
    /// Rows to a power of two: 1, 2, 4 and so on
    #[arg(short = 'b', long, value_name = "N", default_value = "1", value_parser = parsed(sub_buckets),
        conflicts_with_all = ["json", "separator"])]
    pub sub_buckets: u64,
}

/// Print run-queue latency in the table of BCC's runqlat
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist runqlat -m 1 10      # each second, in milliseconds\n\
             \x20 schedhist runqlat -p nginx 10 1  # of one process, for ten seconds")]
pub struct Runqlat {
    #[command(flatten)]
    pub bcc: Bcc,
    /// A table for each PID namespace
    #[arg(long, conflicts_with_all = ["pids", "tids", "cgroup"])]
    pub pidnss: bool,
}

/// Print on-CPU time in the table of BCC's cpudist
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist cpudist -O 10 1  # off-CPU time, for ten seconds\n\
             \x20 schedhist cpudist -P 10 1  # a table for each process")]
pub struct Cpudist {
    #[command(flatten)]
    pub bcc: Bcc,
    /// Off-CPU time instead
    #[arg(short = 'O', long)]
    pub offcpu: bool,
    /// Add the time in the idle task
    #[arg(short = 'I', long)]
    pub include_idle: bool,
    /// Print average, total and count, too
    #[arg(short, long)]
    pub extension: bool,
}

/// Print waits for a CPU above a limit, and who had it
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist runqslower           # waits above 10 ms\n\
             \x20 schedhist runqslower 500us -P  # with all tasks that ran meanwhile")]
pub struct Runqslower {
    /// Microseconds
    #[arg(value_name = "MIN_US", default_value = "10000", value_parser = parsed(least_wait))]
    pub min: Duration,
    /// Only this thread
    #[arg(short, long, value_parser = number(1_u32))]
    pub tid: Option<u32>,
    /// Only the threads of this process, a PID or a name
    #[arg(short, long, value_parser = parsed(pid_or_name))]
    pub pid: Option<String>,
    /// Also print all tasks that ran meanwhile, longest first
    #[arg(short = 'P', long)]
    pub previous: bool,
}

/// Print how long each group of tasks waits, and for whom
#[derive(Args)]
#[command(mut_arg("nanoseconds", |arg| arg.short(None)))]
#[command(after_help = "Examples:\n\
             \x20 schedhist ctl group_by cgroup      # group tasks by cgroup\n\
             \x20 schedhist groups 10 1              # the next ten seconds\n\
             \x20 schedhist groups 10 1 --offenders  # who kept others waiting")]
pub struct Groups {
    #[command(flatten)]
    pub style: StyleArgs,
    /// Seconds [default: since the groups began]
    #[arg(value_parser = parsed(seconds))]
    pub interval: Option<Duration>,
    /// Number of intervals [default: until ^C]
    #[arg(value_parser = number(1_u64))]
    pub count: Option<u64>,
    /// Show who kept others waiting, and how long at least
    #[arg(long, conflicts_with = "quantiles")]
    pub offenders: bool,
    /// At most N groups [default: 20]
    #[arg(short = 'n', long, value_name = "N", value_parser = number(1_u64))]
    pub rows: Option<u64>,
    /// Do not cut names
    #[arg(short, long, conflicts_with_all = ["json", "separator"])]
    pub wide: bool,
}

/// Measure a command, or what runs already, and the machine
#[derive(Args)]
#[command(
    after_help = "Examples:\n\
                  \x20 schedhist run -- make -j8                 # a command and its children\n\
                  \x20 schedhist run -r 6 -o a.data -- ./before  # six runs, for schedhist diff\n\
                  \x20 schedhist run -p worker -d 30s            # processes that run already\n\
                  \x20 schedhist run --unit nginx -I 1000        # a service, each second",
    override_usage = "schedhist run [OPTIONS] -- COMMAND...\n       \
                      schedhist run [OPTIONS] -p LIST | --cgroup PATH | --unit NAME",
    group(ArgGroup::new("outputs").args(["output", "log_fd"]).multiple(true)),
    group(ArgGroup::new("attached").args(["pid", "cgroup", "unit"])
        .conflicts_with_all(["command", "repeat", "table", "timeout"])),
)]
pub struct Run {
    #[command(flatten)]
    pub style: StyleArgs,
    /// Run it N times
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = number(1_u64))]
    pub repeat: u64,
    /// Record the runs in FILE; with -j or -x, print there
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print to this file descriptor, not to standard error
    #[arg(long, value_name = "FD", value_parser = number(1_i32))]
    pub log_fd: Option<i32>,
    /// Append to FILE, or FD
    #[arg(long, requires = "outputs")]
    pub append: bool,
    /// Also print each interval, in milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = parsed(milliseconds))]
    pub interval: Option<Duration>,
    /// Begin to measure after MS milliseconds
    #[arg(short = 'D', long, value_name = "MS", value_parser = parsed(milliseconds))]
    pub delay: Option<Duration>,
    /// Only these CPUs of the machine, such as 0-3,8
    #[arg(short = 'C', long, value_name = "LIST", value_parser = parsed(CpuList::parse))]
    pub cpu: Option<CpuList>,
    /// Also print each CPU of the machine
    #[arg(short = 'A', long)]
    pub no_aggr: bool,
    /// Print a table of all runs at the end
    #[arg(long, conflicts_with_all = ["json", "separator"])]
    pub table: bool,
    /// Also print the critical path of the command
    #[arg(long, conflicts_with_all = ["separator", "attached"])]
    pub chain: bool,
    /// End the command with SIGTERM after MS milliseconds
    #[arg(long, value_name = "MS", value_parser = parsed(milliseconds))]
    pub timeout: Option<Duration>,
    /// Attach to processes, PIDs or names, until they end
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = parsed(pid_or_name))]
    pub pid: Vec<String>,
    /// Attach to this cgroup, with those below it, until ^C
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub cgroup: Option<PathBuf>,
    /// Attach to the cgroup of a unit of systemd, until ^C
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub unit: Option<String>,
    /// Attached: measure for 30s, 10m or 2h
    #[arg(short, long, value_name = "TIME", requires = "attached", value_parser = parsed(seconds))]
    pub duration: Option<Duration>,
    /// The command and its arguments, after --
    #[arg(required_unless_present = "attached", trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl Run {
    /// Returns when what is attached to has been measured for as long as `-d` says: as with
    /// `perf stat`, that counts from the end of `-D` on.
    pub fn measured_until(&self) -> Option<Duration> {
        let delay = self.delay.unwrap_or_default();
        self.duration.map(|duration| duration.saturating_add(delay))
    }
}

/// Record snapshots in a file
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist record -d 10m     # ten minutes, in schedhist.data\n\
             \x20 schedhist record --ring 1h  # the last hour, until ^C")]
pub struct Record {
    /// File; an old one: FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "schedhist.data")]
    pub output: PathBuf,
    /// Milliseconds between snapshots
    #[arg(short = 'I', long, value_name = "MS", default_value = "1000", value_parser = parsed(between_snapshots))]
    pub interval: Duration,
    /// End the recording after 30s, 10m or 2h
    #[arg(short, long, value_name = "TIME", value_parser = parsed(seconds))]
    pub duration: Option<Duration>,
    /// Keep at least the last 10m, in FILE and FILE.1
    #[arg(long, value_name = "TIME", value_parser = parsed(seconds))]
    pub ring: Option<Duration>,
    /// End when this command does; after --
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// The arguments of `report` that choose what is in its tables, and how.
const OF_TABLES: [&str; 6] = [
    "metrics",
    "each",
    "json",
    "separator",
    "quantiles",
    "time_unit",
];

/// Print a recording, or make a page of it
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist report                                      # all of schedhist.data\n\
             \x20 schedhist report --last 5m runq                       # its last five minutes\n\
             \x20 schedhist report --time 14:00,14:05 --html page.html  # as a page")]
pub struct Report {
    #[command(flatten)]
    pub style: StyleArgs,
    /// One recording, or several
    #[arg(short, long, value_name = "FILE", default_value = "schedhist.data")]
    pub input: Vec<PathBuf>,
    /// Only these metrics, with their histograms
    #[arg(value_name = "METRIC", value_parser = metric())]
    pub metrics: Vec<String>,
    #[command(flatten)]
    pub when: When,
    /// Each interval instead of all of them together
    #[arg(short, long)]
    pub each: bool,
    /// Write a page that any browser shows
    #[arg(long, value_name = "OUT", conflicts_with_all = OF_TABLES, conflicts_with_all = ["hgrm", "hlog"])]
    pub html: Option<PathBuf>,
    /// With --html: another recording beside it
    #[arg(long, value_name = "FILE", requires = "html")]
    pub against: Option<PathBuf>,
    /// With --html: stacks from perf script, or folded
    #[arg(long, value_name = "FILE", requires = "html")]
    pub stacks: Vec<PathBuf>,
    /// With --html: whether these limits were kept, see check
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "html")]
    pub limits: Option<PathBuf>,
    /// Print HdrHistogram's percentiles of a metric, in us
    #[arg(long, value_name = "METRIC", value_parser = metric(), conflicts_with_all = OF_TABLES)]
    pub hgrm: Option<String>,
    /// Print HdrHistogram's log of a metric, in ns
    #[arg(long, value_name = "METRIC", value_parser = metric(), conflicts_with_all = OF_TABLES, conflicts_with = "hgrm")]
    pub hlog: Option<String>,
}

/// Compare repeated runs, or recordings
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist diff a.data b.data                             # repeated runs\n\
             \x20 schedhist diff a.data b.data --fail-above runq:p99:+20%  # with a limit")]
pub struct Diff {
    #[command(flatten)]
    pub style: StyleArgs,
    #[command(flatten)]
    pub when: When,
    /// Runs or a recording
    pub a: PathBuf,
    /// The runs or recording to compare with
    pub b: PathBuf,
    /// Metrics [default: runq]
    #[arg(value_name = "METRIC", value_parser = metric())]
    pub metrics: Vec<String>,
    /// End with status 1 above this, as runq:p99:+20%
    #[arg(long, value_name = "RULE", value_parser = parsed(Rule::parse))]
    pub fail_above: Vec<Rule>,
}

/// Alternate two commands, and compare them
#[derive(Args)]
#[command(
    override_usage = "schedhist ab [OPTIONS] [METRIC]... -- A... -- B...",
    after_help = "Both run once to warm up, and then alternate. They must succeed. Their standard\n\
                  output is dropped.\n\n\
                  Examples:\n\
                  \x20 schedhist ab -- ./before -- ./after               # compare two builds\n\
                  \x20 schedhist ab --prepare sync -- make -j4 -- make -j8  # sync before each\n\
                  \x20 schedhist ab --fail-above runq:p99:+20% -- ./before -- ./after  # for CI"
)]
pub struct Ab {
    #[command(flatten)]
    pub style: StyleArgs,
    /// Run each N times
    #[arg(short, long, value_name = "N", default_value = "6", value_parser = number(1_u64))]
    pub repeat: u64,
    /// Unmeasured rounds before
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = number(0_u64))]
    pub warmup: u64,
    /// A shell command to run before each run
    #[arg(short, long, value_name = "CMD", value_hint = ValueHint::CommandString,
        value_parser = NonEmptyStringValueParser::new())]
    pub prepare: Option<String>,
    /// End with status 1 above this, as runq:p99:+20%
    #[arg(long, value_name = "RULE", value_parser = parsed(Rule::parse))]
    pub fail_above: Vec<Rule>,
    /// Metrics [default: runq]
    #[arg(value_name = "METRIC", value_parser = metric())]
    pub metrics: Vec<String>,
    /// The two commands, each after --
    #[arg(last = true, required = true, value_name = "WORDS")]
    pub words: Vec<OsString>,
}

/// Check whether the limits in a file are kept
#[derive(Args)]
#[command(
    group(ArgGroup::new("part").args(["time", "last"]).requires("input")),
    after_help = "A line of FILE is METRIC.pQUANTILE or METRIC.max, of GROUP if you like, < TIME:\n\
                 \x20 runq.p99 of web.service < 5ms\n\
                 \x20 offcpu.max < 10s  # of the whole machine\n\n\
                 Examples:\n\
                 \x20 schedhist check limits.txt 60           # in the next minute\n\
                 \x20 schedhist check limits.txt -i schedhist.data --last 5m  # recorded\n\
                 \x20 schedhist check limits.txt --prometheus  # the limits as alerts"
)]
pub struct Check {
    /// The limits, one to a line
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Seconds to look [default: since the load, or group_by]
    #[arg(value_parser = parsed(seconds))]
    pub interval: Option<Duration>,
    /// In a recording instead
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "interval")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub when: When,
    /// Print rules for Prometheus instead
    #[arg(long, conflicts_with_all = ["interval", "input"])]
    pub prometheus: bool,
}

/// Wait for a sample above a threshold, and print its culprits
#[derive(Args)]
#[command(
    after_help = "Actions: trace and snapshot stop or copy the trace, at the very moment;\n\
                 shell,command=COMMAND; signal,num=N,pid=PID (or pid=parent); continue.\n\
                 COMMAND has SCHEDHIST_PID, SCHEDHIST_CPU and SCHEDHIST_DURATION_NS.\n\
                 Ends at the first outlier, with status 3. With continue, it goes on, and ends\n\
                 with status 3 if there was one.\n\n\
                 Examples:\n\
                 \x20 schedhist watch -T 10ms --stacks  # the next wait above 10 ms\n\
                 \x20 schedhist watch -T 10ms -d 1h -q  # whether there is one in an hour\n\
                 \x20 schedhist watch -T 5ms -d 1m --summary  # who causes waits, in total"
)]
pub struct Watch {
    /// The metric
    #[arg(default_value = "runq", value_parser = metric())]
    pub metric: String,
    /// The threshold in microseconds
    #[arg(short = 'T', long, value_name = "US", value_parser = parsed(threshold))]
    pub threshold: Duration,
    /// End after 30s, 10m or 2h
    #[arg(short, long, value_name = "TIME", value_parser = parsed(seconds))]
    pub duration: Option<Duration>,
    /// Print only the number of outliers, at the end
    #[arg(short, long, conflicts_with_all = ["json", "stacks", "chain"])]
    pub quiet: bool,
    /// Go on, and print a summary at the end
    #[arg(long, conflicts_with = "quiet")]
    pub summary: bool,
    /// The action, see below; repeatable
    #[arg(long, value_name = "ACTION", value_parser = Action::parser())]
    pub on_threshold: Vec<Action>,
    /// Also print the kernel stack of the task
    #[arg(long)]
    pub stacks: bool,
    /// Also print who woke whom before that
    #[arg(long)]
    pub chain: bool,
    /// Print JSON Lines
    #[arg(short, long)]
    pub json: bool,
}

/// Print or write the settings of the module
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist ctl                             # all settings\n\
             \x20 schedhist ctl threshold_ns/runq 10000000  # report waits above 10 ms\n\
             \x20 schedhist ctl enable 0                    # stop measuring")]
pub struct Ctl {
    /// A setting, such as enable
    #[arg(value_parser = known(ctl::settings))]
    pub name: Option<String>,
    /// Its new value
    pub value: Vec<OsString>,
}

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist completions bash  # to be sourced by bash")]
pub struct Completions {
    /// bash, zsh or fish
    pub shell: Shell,
}

/// Write the manual pages into a folder
#[derive(Args)]
pub struct Man {
    /// Where to
    #[arg(value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
}

/// Draw the stacks that perf script prints
#[derive(Args)]
#[command(after_help = "Examples:\n\
             \x20 schedhist flamegraph offcpu.txt  # the output of perf script")]
pub struct Flamegraph {
    /// Print folded stacks instead of a picture
    #[arg(long, conflicts_with = "title")]
    pub folded: bool,
    /// The heading of the picture
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub title: Option<String>,
    /// The output of perf script [default: standard input]
    pub file: Option<PathBuf>,
}

/// Serve the figures to Prometheus, by HTTP or in a file
#[derive(Args)]
#[command(group(ArgGroup::new("part").args(["time", "last"]).requires("perfetto")))]
#[command(after_help = "Examples:\n\
             \x20 schedhist export                              # serve them to Prometheus\n\
             \x20 schedhist export --once --format openmetrics  # print them once\n\
             \x20 schedhist export --perfetto out.pftrace       # convert a recording")]
pub struct Export {
    /// Write a trace for Perfetto instead
    #[arg(long, value_name = "OUT",
        conflicts_with_all = ["listen", "textfile", "interval", "once", "format", "per_cpu", "series", "schema"])]
    pub perfetto: Option<PathBuf>,
    /// With --perfetto: its source
    #[arg(short, long, value_name = "FILE", default_value = "schedhist.data", requires = "perfetto",
        conflicts_with_all = ["listen", "textfile", "once"])]
    pub input: PathBuf,
    #[command(flatten)]
    pub when: When,
    /// Address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9763", conflicts_with_all = ["textfile", "once"],
        value_parser = parsed(listen))]
    pub listen: Listen,
    /// Write a file for node_exporter instead
    #[arg(long, value_name = "PATH")]
    pub textfile: Option<PathBuf>,
    /// Seconds between writes of the file
    #[arg(long, value_name = "SEC", default_value = "15", requires = "textfile", conflicts_with = "once",
        value_parser = parsed(seconds))]
    pub interval: Duration,
    /// Only once: the file, or to standard output
    #[arg(long)]
    pub once: bool,
    /// With --once: prometheus, openmetrics or protobuf
    #[arg(long, value_name = "FORM", default_value = "prometheus", hide_default_value = true,
        requires = "once", conflicts_with = "textfile", value_parser = form())]
    pub format: Form,
    /// Metrics shown for each CPU, or none
    #[arg(long, value_name = "LIST", default_value = "runq", value_delimiter = ',', value_parser = metric())]
    pub per_cpu: Vec<String>,
    /// At most N time series
    #[arg(long, value_name = "N", default_value = "20000", value_parser = number(1_u64))]
    pub series: u64,
    /// Native: 2^N buckets to a power of two [default: 3]
    #[arg(long, value_name = "N", allow_hyphen_values = true, conflicts_with = "textfile",
        value_parser = value_parser!(i32).range(i64::from(protobuf::COARSEST)..=i64::from(protobuf::FINEST)))]
    pub schema: Option<i32>,
}

/// Show a live view: metrics, a heat map, CPUs, groups, outliers
#[derive(Args)]
#[command(group(ArgGroup::new("part").args(["time", "last"]).requires("input")))]
#[command(after_help = "Examples:\n\
             \x20 schedhist top -d 0.5 --metric offcpu  # off-CPU time, twice a second\n\
             \x20 schedhist top -i schedhist.data --last 5m  # play a recording's end\n\
             \x20 schedhist top --once                  # print one interval")]
pub struct Top {
    /// Play a recording, one interval each SEC
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub when: When,
    /// Seconds between updates
    #[arg(short = 'd', long, value_name = "SEC", default_value = "1", value_parser = parsed(seconds))]
    pub interval: Duration,
    /// The metric of the heat map
    #[arg(long, value_name = "METRIC", default_value = "runq", value_parser = metric())]
    pub metric: String,
    /// Print one interval, and end
    #[arg(long)]
    pub once: bool,
    /// Use no characters beyond ASCII
    #[arg(long)]
    pub ascii: bool,
    /// Show whether these limits are kept: see check
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub limits: Option<PathBuf>,
}
