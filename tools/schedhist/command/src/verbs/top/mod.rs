// SPDX-License-Identifier: GPL-2.0

//! `top`: a live view.

mod history;
mod screen;
mod view;

use std::{
    collections::BTreeMap,
    env, fs,
    time::{Duration, Instant},
};

use schedhist_core::{
    groups::{Between, GroupRow},
    raw::Groups,
    text::{Outlier, OutlierParser},
};

use crate::{
    cli::Top,
    error::{At, Result},
    options,
    output::print,
    render,
    source::{Reading, Source},
    sys,
    tty::{self, Event, Tty},
};
use history::{History, Moment, KEPT};
use screen::Look;
use view::{Choice, Status, View};

/// Reads the module again and again.
struct Feed<'a> {
    source: &'a Source,
    /// The metric that was chosen at the start.
    metric: String,
    last: Option<Reading>,
    groups: Option<Groups>,
    outlier: Option<u64>,
    history: History,
    status: Status,
    sets: Vec<(String, Vec<u32>)>,
}

impl Feed<'_> {
    /// Takes the next interval. After an error, the next one begins where this one would have.
    fn next(&mut self) -> Result {
        let reading = self.source.read()?;
        let groups = reading.groups()?;
        let mut interval = match &self.last {
            Some(last) if last.timed.snapshot.time == reading.timed.snapshot.time => return Ok(()),
            Some(last) => reading.since(last),
            None => reading.since_load(),
        };
        let metric = self.metric.clone();
        let is_wanted = |name: &str| name == metric || render::is_default(name);
        interval
            .notes
            .extend(render::off(&interval.window, is_wanted));
        let groups = self.groups(groups);
        let outliers = self.outliers();
        let moment = Moment::new(&interval, groups, outliers);
        self.history.push(&interval, moment);
        self.status.folds = view::folds(&self.history.cpus, &self.sets);
        self.last = Some(reading);
        Ok(())
    }

    /// Returns what the groups did since the reading before, and how long ago that was.
    fn groups(&mut self, groups: Option<Groups>) -> (Vec<GroupRow>, Option<u64>) {
        let last = std::mem::replace(&mut self.groups, groups);
        let Some(groups) = &self.groups else {
            self.status.rule.clear();
            return (Vec::new(), None);
        };
        self.status.rule.clone_from(&groups.rule);
        let between = Between::new(last.as_ref(), groups);
        (between.rows(), between.span)
    }

    fn view<'a>(&'a self, choice: &'a Choice, look: Look) -> View<'a> {
        View {
            history: &self.history,
            choice,
            status: &self.status,
            look,
        }
    }

    fn outliers(&mut self) -> Vec<Outlier> {
        let threshold = self.source.text("threshold_ns/runq").unwrap_or_default();
        threshold.trim().clone_into(&mut self.status.threshold);
        let text = self.source.text("outliers").unwrap_or_default();
        let mut all = OutlierParser::default().feed(&text);
        all.sort_by_key(|outlier| outlier.id);
        let newest = all.last().map_or(0, |outlier| outlier.id);
        // Numbers that are all lower belong to another load of the module.
        let last = self.outlier.filter(|last| *last <= newest);
        self.outlier = Some(newest);
        all.retain(|outlier| last.is_none_or(|last| outlier.id > last));
        all
    }
}

/// Shows the live view until `q` or a signal; prints one interval if there is no terminal.
pub fn top(args: &Top, source: &Source) -> Result {
    show(source, args.interval, &args.metric, args.ascii, args.once)
}

/// Shows the live view as it is without options.
pub fn live(source: &Source) -> Result {
    show(source, Duration::from_secs(1), "runq", false, false)
}

/// Returns what the terminal can show, by the environment.
fn look(ascii: bool) -> Look {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    let term = set("TERM").unwrap_or_default();
    let mut many = "256color xterm tmux screen kitty alacritty foot".split(' ');
    let colours = set("COLORTERM").is_some() || many.any(|name| term.contains(name));
    Look {
        colours: colours && set("NO_COLOR").is_none(),
        unicode: !ascii && (locale.contains("utf-8") || locale.contains("utf8")),
    }
}

fn show(source: &Source, interval: Duration, metric: &str, ascii: bool, once: bool) -> Result {
    let first = source.read()?;
    options::check_metrics(&first.timed.snapshot.names, &[metric.to_owned()])?;
    let names = &first.timed.snapshot.names.metrics;
    let mut feed = Feed {
        source,
        metric: metric.to_owned(),
        last: None,
        groups: None,
        outlier: None,
        history: History::default(),
        status: Status::default(),
        sets: if source.is_live() {
            caches()
        } else {
            Vec::new()
        },
    };
    let mut choice = Choice {
        metric: names.iter().position(|it| it.name == metric).unwrap_or(0),
        back: 0,
        paused: false,
        help: false,
    };
    feed.next()?;
    let mut look = look(ascii);
    if once || !tty::is_there() {
        std::thread::sleep(interval);
        feed.next()?;
        look.colours = false;
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
        let size = (
            number("COLUMNS").unwrap_or(80_u16).clamp(20, 1000),
            number("LINES").unwrap_or(24).clamp(8, 1000),
        );
        return print(&screen::plain(&feed.view(&choice, look).draw(size)));
    }
    let mut tty = Tty::new().at("the terminal")?;
    let mut next = Instant::now() + interval;
    let (mut clock, mut cpu) = (Instant::now(), sys::cpu_time());
    loop {
        let screen = feed.view(&choice, look).draw(tty::size());
        print(&tty.update(screen).at("the terminal")?)?;
        match tty.wait(next) {
            Event::End | Event::Key('q') => return Ok(()),
            Event::Resized => {}
            Event::Key(key) => press(key, &mut choice, &feed.history),
            Event::Timeout => {
                next = (next + interval).max(Instant::now());
                let before = feed.history.moments.len();
                let at = feed.history.moments.back().map(|moment| moment.unix_ns);
                // A module that is not there is waited for.
                let trouble = feed.next().err();
                feed.status.trouble = trouble.map(|error| match error.remedy {
                    Some(remedy) => remedy.to_owned(),
                    None => error.to_string(),
                });
                let is_new = at != feed.history.moments.back().map(|moment| moment.unix_ns);
                // What is looked at stays where it is while newer intervals come.
                if is_new && (choice.paused || choice.back > 0) && before != 0 {
                    choice.back = (choice.back + 1).min(feed.history.moments.len() - 1);
                }
                let (now, used) = (Instant::now(), sys::cpu_time());
                let wall = now.duration_since(clock).as_micros().max(1);
                let share = (used.saturating_sub(cpu)).as_micros() * 10_000 / wall;
                feed.status.own = u64::try_from(share).ok();
                (clock, cpu) = (now, used);
            }
        }
    }
}

fn press(key: char, choice: &mut Choice, history: &History) {
    let most = history.moments.len().saturating_sub(1);
    let metrics = history.names.len();
    match key {
        'j' => choice.metric = (choice.metric + 1).min(metrics.saturating_sub(1)),
        'k' => choice.metric = choice.metric.saturating_sub(1),
        'h' => choice.back = (choice.back + 1).min(most),
        'l' => choice.back = choice.back.saturating_sub(1),
        'H' => choice.back = (choice.back + 10).min(most),
        'L' => choice.back = choice.back.saturating_sub(10),
        '^' => choice.back = most.min(KEPT),
        '$' => choice.back = 0,
        ' ' => {
            choice.paused = !choice.paused;
            if !choice.paused {
                choice.back = 0;
            }
        }
        '?' => choice.help = !choice.help,
        '\x1b' => choice.help = false,
        // For the test that a panic leaves the terminal as it was.
        #[cfg(debug_assertions)]
        '!' => panic!("as asked"),
        _ => {}
    }
}

/// Returns the CPUs that share a last-level cache, as the kernel lists them.
fn caches() -> Vec<(String, Vec<u32>)> {
    let mut sets: BTreeMap<u32, (String, Vec<u32>)> = BTreeMap::new();
    let folder = fs::read_dir("/sys/devices/system/cpu");
    for entry in folder.into_iter().flatten().flatten() {
        let list = (0..=4).rev().find_map(|level| {
            let file = entry
                .path()
                .join(format!("cache/index{level}/shared_cpu_list"));
            fs::read_to_string(file).ok()
        });
        let list = list.unwrap_or_default().trim().to_owned();
        if let Ok(cpus) = options::CpuList::parse(&list) {
            if let Some(first) = cpus.numbers.first() {
                sets.insert(*first, (format!("LLC {list}"), cpus.numbers));
            }
        }
    }
    sets.into_values().collect()
}
