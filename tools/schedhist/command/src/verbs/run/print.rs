// SPDX-License-Identifier: GPL-2.0

//! What `run` prints: tables, JSON Lines, CSV.

use std::{collections::BTreeSet, fmt::Write};

use schedhist_core::{
    distribution::{Distribution, Quantile},
    json::{quoted, Object},
    units::{self, Unit},
};

use super::job::COUNTS;
use crate::{
    failure::{Failure, Result, WIDTH},
    options::{Form, Style},
    recordings::runs::{Run, COMMAND, MACHINE},
    render,
    source::Frame,
};

/// Returns the lines of a run for programs; `None` if the user chose text. Lines without a place
/// for notes have them on standard error.
fn records(run: &Run, notes: &[String], style: &Style) -> Option<String> {
    let histograms = run.histograms.iter();
    render::tell_beside(notes, style);
    match &style.form {
        Form::Json => Some(histograms.map(|h| json(run, notes, h, style)).collect()),
        Form::Csv(separator) => Some(histograms.map(|h| csv(run, h, style, separator)).collect()),
        Form::Text => None,
    }
}

/// Returns what happened during a run that readers of the figures should know.
pub fn happened(run: &Run) -> Vec<String> {
    let notes = run.pairs.get("notes").into_iter();
    notes
        .flat_map(|notes| notes.split('\t'))
        .map(str::to_owned)
        .collect()
}

/// Returns that, and what the figures are of.
fn notes(run: &Run) -> Vec<String> {
    let mut notes = happened(run);
    let number = |key| run.pairs.number::<u64>(key);
    if number("voluntary").is_none() && !run.histograms.iter().any(|(scope, ..)| scope == COMMAND) {
        notes.push(format!("all figures are of the whole {MACHINE}"));
    }
    if let Some(list) = run.pairs.get("cpu_list").filter(|list| *list != "all") {
        notes.push(format!("of the {MACHINE}, only CPU {list}"));
    }
    if let Some(late) = number("not_in_histogram").filter(|late| *late != 0) {
        notes.push(format!(
            "{late} samples of the {COMMAND} are in no histogram: a group gets these a moment \
             after its first task has run, unless their memory is used up, as schedhist doctor \
             tells"
        ));
    }
    notes
}

/// Returns recorded runs in the form that the user chose. If some metrics are wanted, only these,
/// with their histograms.
pub fn recorded(runs: &[Run], metrics: &[String], style: &Style) -> Result<String> {
    let mut out = String::new();
    for run in runs {
        let mut run = run.clone();
        if out.is_empty() {
            out += &head(style);
        }
        let all: BTreeSet<_> = run.histograms.iter().map(|(_, metric, _)| metric).collect();
        if let Some(wrong) = metrics.iter().find(|metric| !all.contains(metric)) {
            let all: Vec<_> = all.into_iter().map(String::as_str).collect();
            return Err(Failure::Usage(format!(
                "the runs have no metric '{wrong}': they have {}",
                all.join(", ")
            )));
        }
        let notes = notes(&run);
        if !metrics.is_empty() {
            run.histograms
                .retain(|(_, metric, _)| metrics.contains(metric));
        }
        if let Some(records) = records(&run, &notes, style) {
            out += &records;
            continue;
        }
        let words = render::printable(run.pairs.get("words").unwrap_or("-"));
        out += &format!("{words}{}\n", render::in_unit(style.unit));
        out += &table(&run, !metrics.is_empty(), style);
        render::tell(&mut out, &notes, style);
        for (scope, metric, distribution) in &run.histograms {
            if !metrics.is_empty() && distribution.count() != 0 {
                out += &format!("{scope}, {metric}:\n");
                render::bars(&mut out, distribution, 1, style.unit);
            }
        }
        out.push('\n');
    }
    Ok(out)
}

/// Returns a run in the form that the user chose.
pub fn text_of(run: &Run, frame: &Frame, title: &str, style: &Style) -> String {
    let (state, violations) = render::laws(frame);
    let mut notes = notes(run);
    notes.extend(
        render::all_notes(frame, &violations)
            .into_iter()
            .skip(frame.notes.len()),
    );
    match records(run, &notes, style) {
        Some(records) => records,
        None => {
            let time = |key| Unit::Fitting.text(run.pairs.number(key));
            let span = match run.pairs.get("status") {
                Some(_) => time("wall_ns"),
                None => format!("from {} to {}", time("from_ns"), time("to_ns")),
            };
            let unit = render::in_unit(style.unit);
            let mut out = "\n".to_owned();
            render::wrap(&mut out, &format!("{title}: {span}{unit}, {state}"));
            out += &table(run, false, style);
            render::tell(&mut out, &notes, style);
            out
        }
    }
}

/// Returns the table of a run. Parts of metrics are in it, and metrics without samples, if they
/// were asked for.
fn table(run: &Run, is_asked_for: bool, style: &Style) -> String {
    let mut out = String::new();
    let number = |key| run.pairs.number::<u64>(key);
    let time = |key| style.unit.text(number(key));
    if let (Some(voluntary), Some(involuntary)) = (number("voluntary"), number("involuntary")) {
        let line = format!(
            "{COMMAND}: {} switches ({involuntary} involuntary), {} on CPU, {} waiting",
            voluntary.saturating_add(involuntary),
            time("oncpu_ns"),
            time("waited_ns")
        );
        render::wrap(&mut out, &line);
    }
    // Three significant digits are short; all digits of a second in microseconds are not.
    let width = if style.unit == Unit::Fitting { 8 } else { 14 };
    let names = run.histograms.iter().map(|(_, metric, _)| metric.len() + 1);
    let name = names.filter(|_| is_asked_for).fold(10, usize::max);
    let most = (WIDTH - 9 - name - 9 - width) / width;
    let shown = style.quantiles.len().min(most);
    let _ = write!(out, "{:<8} {:<name$}{:>9}", "whose", "metric", "count");
    for quantile in &style.quantiles[..shown] {
        let _ = write!(out, "{:>width$}", quantile.to_string());
    }
    let _ = writeln!(out, "{:>width$}", "max");
    for (scope, metric, distribution) in &run.histograms {
        let is_part = metric.starts_with("runq_") || metric.starts_with("blocked_");
        if !is_asked_for && (is_part || distribution.count() == 0) {
            continue;
        }
        let count = units::count(distribution.count());
        let _ = write!(out, "{scope:<8} {metric:<name$}{count:>9}");
        for quantile in &style.quantiles[..shown] {
            let upper = distribution.quantile_upper(*quantile);
            let _ = write!(out, "{:>width$}", style.unit.quantile(upper));
        }
        let _ = writeln!(out, "{:>width$}", style.unit.max(distribution.max));
    }
    out + &render::cut_note(shown, style)
}

/// Returns whether the table of runs needs this histogram. All of many runs on many CPUs take a lot
/// of memory.
pub fn is_in_table_of_runs((scope, metric, _): &(String, String, Distribution)) -> bool {
    metric == "runq" && (scope == COMMAND || scope == MACHINE)
}

/// Returns a table with a row for each run.
pub fn table_of_runs(runs: &[Run], unit: Unit) -> String {
    let is_grouped = runs
        .iter()
        .all(|run| run.histogram(COMMAND, "runq").is_some());
    let scope = if is_grouped { COMMAND } else { MACHINE };
    let width = if unit == Unit::Fitting { 9 } else { 13 };
    let mut out = format!(
        "\nwaits for a CPU (runq) of the {scope}\n{:>4}{:>9}{:>9}{:>9}",
        "run", "wall", "on CPU", "waits"
    );
    for name in ["p50", "p99", "max"] {
        let _ = write!(out, "{name:>width$}");
    }
    out.push('\n');
    for (number, run) in runs.iter().enumerate() {
        let time = |key| Unit::Fitting.text(run.pairs.number(key));
        let runq = run.histogram(scope, "runq");
        let quantile = |text| {
            let upper = Quantile::parse(text).and_then(|q| runq?.quantile_upper(q));
            unit.quantile(upper)
        };
        let _ = writeln!(
            out,
            "{:>4}{:>9}{:>9}{:>9}{:>width$}{:>width$}{:>width$}",
            number + 1,
            time("wall_ns"),
            time("oncpu_ns"),
            units::count(runq.map_or(0, Distribution::count)),
            quantile("50"),
            quantile("99"),
            runq.map_or_else(|| "-".to_owned(), |runq| unit.max(runq.max)),
        );
    }
    out
}

fn json(
    run: &Run,
    notes: &[String],
    (scope, metric, d): &(String, String, Distribution),
    style: &Style,
) -> String {
    let number = |key| run.pairs.number::<u64>(key);
    let mut object = Object::new("schedhist.run.v1")
        .string("scope", scope)
        .string("metric", metric)
        .optional("wall_ns", number("wall_ns"))
        .optional("from_ns", number("from_ns"))
        .optional("to_ns", number("to_ns"))
        .optional("status", number("status"));
    if !notes.is_empty() {
        object = object.array("notes", notes.iter().map(|note| quoted(note)));
    }
    if scope == COMMAND {
        for (key, _) in COUNTS {
            object = object.optional(key, number(key));
        }
    }
    render::distribution_json(object, d, style).end() + "\n"
}

/// Returns what stands above all runs.
pub fn head(style: &Style) -> String {
    match &style.form {
        Form::Text | Form::Json => String::new(),
        Form::Csv(separator) => csv_head(style, separator),
    }
}

/// Returns the names of the columns of [`csv`].
fn csv_head(style: &Style, separator: &str) -> String {
    let columns = ["from_ns", "to_ns", "scope", "metric"];
    let mut columns = columns.map(str::to_owned).to_vec();
    columns.extend(render::csv_columns(style));
    render::csv_row(&columns, separator)
}

fn csv(
    run: &Run,
    (scope, metric, d): &(String, String, Distribution),
    style: &Style,
    separator: &str,
) -> String {
    let mut values = vec![
        render::csv_number(run.pairs.number("from_ns")),
        render::csv_number(run.pairs.number("to_ns")),
        scope.clone(),
        metric.clone(),
    ];
    values.extend(render::csv_values(d, style));
    render::csv_row(&values, separator)
}

#[cfg(test)]
mod tests {
    use schedhist_core::{
        distribution::Max,
        engine::histogram::bucket::{Precision, Scheme},
        text::Pairs,
    };

    use super::*;

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
        let matches = crate::cli::command().get_matches_from(words);
        Style::new(matches.subcommand().unwrap().1).unwrap()
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
            let mut text = table(&run, false, &style);
            render::tell(&mut text, &notes(&run), &style);
            text
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

    #[test]
    fn table_of_several_runs() {
        let runs = [example(12), example(4)];
        let text = table_of_runs(&runs, Unit::Fitting);
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
        narrow(&table_of_runs(&runs, Unit::Nanoseconds));
    }

    #[test]
    fn csv_of_a_run() {
        let style = style(&["-x", ";", "-q", "50,99"]);
        let run = example(4);
        let rows = run.histograms.iter().map(|h| csv(&run, h, &style, ";"));
        assert_eq!(
            csv_head(&style, ";") + &rows.collect::<String>(),
            "\
from_ns;to_ns;scope;metric;count;sum_ns;p50_ns;p99_ns;max_ns;max_is_exact
0;8070000000;command;runq;12;45000;2015;8000;8000;1
0;8070000000;machine;runq;12;45000;2015;8063;32000;0
0;8070000000;machine;runq_wakeup;12;45000;2015;8000;8000;1
0;8070000000;cpu12;idle;0;0;;;;0
"
        );
    }

    #[test]
    fn json_of_a_run() {
        let run = example(2);
        let style = style(&["-j", "-q", "50"]);
        assert_eq!(
            json(&run, &[], &run.histograms[0], &style),
            concat!(
                r#"{"schema":"schedhist.run.v1","scope":"command","metric":"runq","wall_ns":8070000"#,
                r#"000,"from_ns":0,"to_ns":8070000000,"status":3,"voluntary":3880,"involuntary":156"#,
                r#"9,"migrations":7,"oncpu_ns":19900000000,"waited_ns":99900000000,"not_in_histogra"#,
                r#"m":9,"count":6,"sum_ns":9000,"min_ns":null,"max_ns":2000,"max_is_exact":true,"qu"#,
                r#"antiles":[{"name":"p50","lower":992,"upper":1007}],"buckets":[[992,1007,3],[1984"#,
                r#",2015,3]]}"#,
                "\n"
            )
        );
        let machine = json(&run, &[], &run.histograms[1], &style);
        // Counts of the command are not repeated.
        assert!(
            machine.contains("\"status\":3,\"count\":6,")
                && machine.contains("\"max_is_exact\":false")
        );
    }
}
