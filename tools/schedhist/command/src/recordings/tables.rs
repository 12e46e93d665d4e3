// SPDX-License-Identifier: GPL-2.0

//! The tables of runs, as `run` and `report` print them.

use std::{collections::BTreeSet, path::Path};

use schedhist_core::{
    distribution::{Distribution, Quantile},
    gather::Gather,
    units::Unit,
};

use crate::{
    error::{At, Error, Result},
    options::{Form, Style},
    recordings::runs::{Histogram, Run, COMMAND, COUNTS, MACHINE},
    render,
    setting::grouping::NO_HISTOGRAM,
    source::Interval,
    table::{self, Cell, Column, Table},
};

/// Returns what readers of the figures should know, with what they are of.
fn notes(run: &Run) -> Vec<String> {
    let mut notes = run.notes();
    let number = |key| run.pairs.number::<u64>(key);
    if number("voluntary").is_none() && !run.histograms.iter().any(|(scope, ..)| scope == COMMAND) {
        notes.push(format!("all figures are of the whole {MACHINE}"));
    }
    if let Some(list) = run.pairs.get("cpu_list").filter(|list| *list != "all") {
        notes.push(format!("of the {MACHINE}, only CPU {list}"));
    }
    if let Some(late) = number("not_in_histogram").filter(|late| *late != 0) {
        notes.push(format!(
            "{late} samples of the {} {NO_HISTOGRAM}",
            run.whose()
        ));
    }
    notes
}

/// Returns the encoded runs of a recording in the form that the user chose. If some metrics are
/// wanted, only these, with their histograms.
pub fn recorded(path: &Path, runs: &[String], metrics: &[String], style: &Style) -> Result<String> {
    let (mut out, mut is_headed) = (String::new(), false);
    for run in runs {
        let mut run = Run::decode(run, &|_, _| true).at(path)?;
        let all: BTreeSet<_> = run.histograms.iter().map(|(_, metric, _)| metric).gather();
        if let Some(wrong) = metrics.iter().find(|metric| !all.contains(metric)) {
            let all: Vec<_> = all.into_iter().map(String::as_str).collect();
            return Err(Error::usage(format!(
                "the runs have no metric '{wrong}': they have {}",
                all.join(", ")
            )));
        }
        let notes = notes(&run);
        if !metrics.is_empty() {
            run.keep(metrics);
        }
        let mut table = table(&run, !metrics.is_empty(), notes, style);
        let words = run.pairs.get("words").unwrap_or("-");
        let title = format!("{words}{}", render::in_unit(style.unit));
        table.title.insert(0, title);
        out += &table.render(style, &mut is_headed);
        if style.form != Form::Text {
            continue;
        }
        let whose = run.whose();
        for (scope, metric, distribution) in &run.histograms {
            if !metrics.is_empty() && distribution.count() != 0 {
                let scope = if scope == COMMAND { whose } else { scope };
                out += &format!("{scope}, {metric}:\n");
                render::bars(&mut out, distribution, 1, style.unit);
            }
        }
        out.push('\n');
    }
    Ok(out)
}

/// Returns a run in the form that the user chose.
pub fn text_of(run: &Run, interval: &Interval, title: &str, style: &Style) -> String {
    let mut notes = notes(run);
    notes.extend(
        render::notes(interval)
            .into_iter()
            .skip(interval.notes.len()),
    );
    let time = |key| Unit::Fitting.text(run.pairs.number(key));
    let span = match run.pairs.get("status") {
        Some(_) => time("wall_ns"),
        None => format!("from {} to {}", time("from_ns"), time("to_ns")),
    };
    let (unit, laws) = (render::in_unit(style.unit), render::laws(interval).0);
    let mut table = table(run, false, notes, style);
    let title = format!("{title}: {span}{unit}, {laws}");
    table.title.splice(..0, [String::new(), title]);
    // The names of the columns stand above all runs: see `head`.
    table.render(style, &mut true)
}

type Row<'a> = &'a Histogram;

/// Returns the table of a run. Parts of metrics are in it, and metrics without samples, if they
/// were asked for.
fn table<'a>(
    run: &'a Run,
    is_asked_for: bool,
    notes: Vec<String>,
    style: &Style,
) -> Table<'a, Row<'a>> {
    let number = |key| run.pairs.number::<u64>(key);
    let names = run.histograms.iter().map(|(_, metric, _)| metric.len());
    let name = names.filter(|_| is_asked_for).fold(10, usize::max);
    let whose = run.whose();
    let mut columns = vec![
        Column::new("from_ns", move |_: &Row<'_>| Cell::time(number("from_ns"))),
        Column::new("to_ns", move |_| Cell::time(number("to_ns"))),
        Column::new("scope", move |(scope, ..): &Row<'_>| {
            match scope == COMMAND {
                true => Cell::from(whose),
                false => Cell::from(scope),
            }
        })
        .left("whose", 8),
        Column::new("metric", |(_, metric, _): &Row<'_>| Cell::from(metric)).left("metric", name),
        Column::json("wall_ns", move |_| Cell::time(number("wall_ns"))),
        Column::json("status", move |_| Cell::number(number("status"))),
    ];
    // Counts of the command are not repeated.
    columns.extend(COUNTS.map(|key| {
        Column::json(key, move |(scope, ..): &Row<'_>| match scope == COMMAND {
            true => Cell::number(number(key)),
            false => Cell::Absent,
        })
    }));
    columns.extend(table::distribution(
        style,
        table::width(style.unit),
        &style.quantiles,
        |(.., d): &Row<'a>| Some(d),
    ));
    // Which of several runs it is.
    columns.push(Column::new("begun_unix_ns", move |_| {
        Cell::time(number("begun_unix_ns"))
    }));
    columns.push(Column::json("command", |_| {
        run.pairs.get("words").map_or(Cell::Absent, Cell::from)
    }));
    let rows = run.histograms.iter().collect();
    let mut table = Table::new("schedhist.run.v1", columns, rows);
    table.is_minor = Box::new(move |(_, metric, samples)| {
        let is_part = metric.starts_with("runq_") || metric.starts_with("blocked_");
        !is_asked_for && (is_part || samples.count() == 0)
    });
    if let (Some(voluntary), Some(involuntary)) = (number("voluntary"), number("involuntary")) {
        let time = |key| style.unit.text(number(key));
        table.title.push(format!(
            "{whose}: {} switches ({involuntary} involuntary), {} on CPU, {} waiting",
            voluntary.saturating_add(involuntary),
            time("oncpu_ns"),
            time("waited_ns")
        ));
    }
    table.notes = notes;
    table
}

/// Returns whether the table of runs needs this histogram. All of many runs on many CPUs take a lot
/// of memory.
pub fn is_in_table_of_runs((scope, metric, _): &Histogram) -> bool {
    metric == "runq" && (scope == COMMAND || scope == MACHINE)
}

/// Returns a table with a row for each run, for people.
pub fn table_of_runs(runs: &[Run], style: &Style) -> String {
    let is_grouped = runs
        .iter()
        .all(|run| run.histogram(COMMAND, "runq").is_some());
    let scope = if is_grouped { COMMAND } else { MACHINE };
    let width = if style.unit == Unit::Fitting { 8 } else { 12 };
    let time =
        |key| move |(_, run): &(usize, &Run)| Cell::Text(Unit::Fitting.text(run.pairs.number(key)));
    let runq = move |run: &Run, cell: &dyn Fn(&Distribution) -> Cell| {
        run.histogram(scope, "runq").map_or(Cell::Unknown, cell)
    };
    let mut columns = vec![
        Column::text(|(number, _): &(usize, &Run)| Cell::Number(*number as i128)).right("run", 4),
        Column::text(time("wall_ns")).right("wall", 8),
        Column::text(time("oncpu_ns")).right("on CPU", 8),
        Column::text(move |(_, run): &(usize, &Run)| runq(run, &|d| Cell::Count(d.count())))
            .right("waits", 8),
    ];
    columns.extend(
        ["50", "99"]
            .into_iter()
            .filter_map(Quantile::parse)
            .map(|quantile| {
                let upper = move |d: &Distribution| Cell::time(d.quantile_upper(quantile));
                let column = Column::text(move |(_, run): &(usize, &Run)| runq(run, &upper));
                column.right(quantile.to_string(), width)
            }),
    );
    let max = Column::text(move |(_, run): &(usize, &Run)| runq(run, &|d| Cell::Max(d.max)));
    columns.push(max.right("max", width));
    let mut table = Table::new("", columns, (1..).zip(runs).collect());
    let title = format!("waits for a CPU (runq) of the {scope}");
    table.title = vec![String::new(), title];
    table.text(style)
}

/// Returns what stands above all runs.
pub fn head(style: &Style) -> String {
    match style.form {
        Form::Csv(_) => table(&Run::default(), false, Vec::new(), style).render(style, &mut false),
        Form::Text | Form::Json => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use schedhist_core::{
        distribution::Max,
        engine::histogram::bucket::{Precision, Scheme},
        text::Pairs,
    };

    use super::*;
    use crate::recordings::runs::MOST_BUCKETS;

    /// A run with a sample of each power of two of microseconds up to `2^most`.
    fn example(most: u32) -> Run {
        let scheme = Scheme::new(Precision::new(5).unwrap());
        let mut runq = Distribution::new(scheme);
        for power in 0..most {
            let index = scheme.index(1_000 << power);
            runq.add(u32::try_from(index).unwrap(), 3).unwrap();
            runq.sum += 3 * (1_000 << power);
        }
        runq.max = Max::Exact(1_000 << (most - 1));
        let mut machine = runq.clone();
        machine.max = Max::AtMost(2_000 << most);
        let pairs = "wall_ns 8070000000\nfrom_ns 0\nto_ns 8070000000\nstatus 3\nvoluntary 3880\n\
            involuntary 1569\nmigrations 7\noncpu_ns 19900000000\nwaited_ns 99900000000\n\
            not_in_histogram 9\ncpu_list 0-3\nwords true\n";
        Run {
            pairs: Pairs::of_lines(pairs),
            histograms: vec![
                (COMMAND.to_owned(), "runq".to_owned(), runq.clone()),
                (MACHINE.to_owned(), "runq".to_owned(), machine),
                (MACHINE.to_owned(), "runq_wakeup".to_owned(), runq),
                (
                    "cpu12".to_owned(),
                    "idle".to_owned(),
                    Distribution::new(scheme),
                ),
            ],
        }
    }

    fn style(words: &[&str]) -> Style {
        let words = ["schedhist", "run"]
            .iter()
            .chain(words)
            .chain(&["--", "true"]);
        match <crate::cli::Cli as clap::Parser>::parse_from(words).verb {
            Some(crate::cli::Verb::Run(args)) => Style::new(&args.style),
            _ => panic!("not run"),
        }
    }

    /// However often a run claims to have the same histogram, it takes no more memory.
    #[test]
    fn blocks_of_a_run() {
        let text = example(3).encode();
        let blocks = &text[text.find("\n#").unwrap()..];
        let decode = |text: &str| Run::decode(text, &|_, _| true);
        assert_eq!(decode(&text).unwrap().histograms.len(), 4);
        let why = decode(&(text.trim_end().to_owned() + blocks)).unwrap_err();
        assert!(why.to_string().ends_with("runq of command twice"), "{why}");
        let cpu = |i| format!("\n#\nscope cpu{i}\nmetric runq\nprecision 7");
        let many = (0..MOST_BUCKETS / 4_096).map(cpu).collect::<String>();
        assert!(decode(&many).is_err());
    }

    fn narrow(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "too wide: {line}");
        }
    }

    #[test]
    fn table_of_a_run() {
        let text = |words: &[&str]| {
            let (run, style) = (example(12), style(words));
            let table = table(&run, false, notes(&run), &style);
            table.render(&style, &mut false)
        };
        let (text, long) = (text(&[]), text(&["-n"]));
        narrow(&text);
        assert_eq!(
            text,
            "\
command: 5449 switches (1569 involuntary), 19.9s on CPU, 99.9s waiting
whose    metric        count     p50     p90     p99   p99.9  p99.99     max
command  runq             36  32.3us  1.03ms  2.05ms  2.05ms  2.05ms  2.05ms
machine  runq             36  32.3us  1.03ms  2.06ms  2.06ms  2.06ms <8.19ms
note: of the machine, only CPU 0-3
note: 9 samples of the command are in no histogram: a group gets these a moment
  after its first task has run, unless their memory is used up, as schedhist
  doctor tells
"
        );
        narrow(&long);
        assert_eq!(
            long,
            "\
command: 5449 switches (1569 involuntary), 19900000000 on CPU, 99900000000
  waiting
whose    metric        count           p50           p90           max
command  runq             36         32255       1032191       2048000
machine  runq             36         32255       1032191      <8192000
note: 2 percentiles fit into 80 columns; -j and -x print all
note: of the machine, only CPU 0-3
note: 9 samples of the command are in no histogram: a group gets these a moment
  after its first task has run, unless their memory is used up, as schedhist
  doctor tells
"
        );
    }

    /// Runs of what `run` was attached to are not called a command.
    #[test]
    fn attached_runs() {
        let mut run = example(4);
        run.pairs = Pairs::of_lines("whose cgroup\nwords cgroup /a\nvoluntary 1\ninvoluntary 0\n");
        let text = recorded(
            Path::new("a"),
            &[run.encode()],
            &["runq".to_owned()],
            &style(&[]),
        )
        .unwrap();
        assert!(text.contains("\ncgroup, runq:\n"), "{text}");
        assert!(!text.contains("command"), "{text}");
    }

    #[test]
    fn table_of_several_runs() {
        let runs = [example(12), example(4)];
        let text = table_of_runs(&runs, &style(&[]));
        narrow(&text);
        assert_eq!(
            text,
            "\n\
waits for a CPU (runq) of the command
 run     wall   on CPU    waits      p50      p99      max
   1    8.07s    19.9s       36   32.3us   2.05ms   2.05ms
   2    8.07s    19.9s       12   2.02us   8.00us   8.00us
"
        );
        narrow(&table_of_runs(&runs, &style(&["-n"])));
    }

    #[test]
    fn csv_of_a_run() {
        let style = style(&["-x", ";", "-q", "50,99"]);
        let run = example(4);
        assert_eq!(
            table(&run, true, Vec::new(), &style).render(&style, &mut false),
            "\
from_ns;to_ns;scope;metric;count;sum_ns;p50_ns;p99_ns;max_ns;max_is_exact;begun_unix_ns
0;8070000000;command;runq;12;45000;2015;8000;8000;1;
0;8070000000;machine;runq;12;45000;2015;8063;32000;0;
0;8070000000;machine;runq_wakeup;12;45000;2015;8000;8000;1;
0;8070000000;cpu12;idle;0;0;;;;0;
"
        );
    }

    #[test]
    fn json_of_a_run() {
        let run = example(2);
        let style = style(&["-j", "-q", "50"]);
        let lines = table(&run, true, Vec::new(), &style).render(&style, &mut false);
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(
            lines[0],
            concat!(
                r#"{"schema":"schedhist.run.v1","from_ns":0,"to_ns":8070000000,"scope":"command","m"#,
                r#"etric":"runq","wall_ns":8070000000,"status":3,"voluntary":3880,"involuntary":156"#,
                r#"9,"migrations":7,"oncpu_ns":19900000000,"waited_ns":99900000000,"not_in_histogra"#,
                r#"m":9,"count":6,"sum_ns":9000,"min_ns":null,"max_ns":2000,"max_is_exact":true,"qu"#,
                r#"antiles":[{"name":"p50","lower":992,"upper":1007}],"buckets":[[992,1007,3],[1984"#,
                r#",2015,3]],"begun_unix_ns":null,"command":"true","notes":[]}"#,
            )
        );
        // Counts of the command are not repeated.
        assert!(
            lines[1].contains("\"status\":3,\"count\":6,")
                && lines[1].contains("\"max_is_exact\":false")
        );
    }
}
