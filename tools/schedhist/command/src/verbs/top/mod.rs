// SPDX-License-Identifier: GPL-2.0

//! `top`: a live view.

mod heat;
mod history;
mod lists;
mod play;
mod screen;
mod view;

use std::{
    collections::{BTreeMap, VecDeque},
    env, fs,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use schedhist_core::{
    chains,
    groups::{group_metric, GroupWindow},
    limits::{Judged, Limit, Samples},
    raw::Groups,
    recording::file::TimedSnapshot,
    text::{self, Outlier},
    window::Window,
};

use crate::{
    cli::Top,
    error::{At, Error, Result},
    options,
    output::print,
    render,
    source::{Reading, Source},
    sys::{self, Waiter},
    tty::{self, Event, Mouse, Tty},
    verbs::check,
};
use history::{GroupsOfInterval, History, Moment, Part, Row, KEPT};
use lists::Focus;
use screen::{Colours, Look};
use view::{Choice, Shown, Status, View};

/// Limits, judged over the last one to two minutes: an interval has too few samples.
#[derive(Default)]
struct Limits {
    all: Vec<Limit>,
    /// The snapshots of a minute ago, and of up to two, with their groups.
    before: VecDeque<(TimedSnapshot, Option<Groups>)>,
    are_recorded: bool,
}

impl Limits {
    fn new(args: &Top) -> Result<Self> {
        Ok(Self {
            all: check::some_limits(args.limits.as_deref())?,
            are_recorded: args.input.is_some(),
            ..Self::default()
        })
    }

    const MINUTE: u64 = 60_000_000_000;

    fn judge(&mut self, now: &TimedSnapshot, groups: Option<&Groups>) -> Vec<Judged> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let window =
            |(old, _): &(TimedSnapshot, _)| Window::between(&old.snapshot, &now.snapshot).ok();
        let first = self.before.front();
        let first = first.filter(|(_, known)| known.is_some() == groups.is_some());
        let mut all = first.and_then(window);
        // The module was loaded anew; or groups were not known then, and would be judged since they
        // began. That is so of all of them, or of none.
        if all.is_none() {
            self.before.clear();
        }
        let is_due =
            |(last, _): &(TimedSnapshot, _)| now.snapshot.time - last.snapshot.time >= Self::MINUTE;
        if self.before.back().is_none_or(is_due) {
            self.before.push_back((now.clone(), groups.cloned()));
            if self.before.len() > 2 {
                self.before.pop_front();
                all = None;
            }
        }
        let Some(first) = self.before.front() else {
            return Vec::new();
        };
        let all = all.or_else(|| window(first));
        let samples = Samples {
            windows: all.as_slice(),
            groups: groups
                .map(|new| (first.1.as_ref(), new))
                .into_iter()
                .collect(),
            are_recorded: self.are_recorded,
        };
        self.all.iter().map(|limit| limit.judge(&samples)).collect()
    }
}

/// Reads the module again and again.
struct Feed<'a> {
    source: &'a Source,
    last: Option<Reading>,
    groups: Option<Groups>,
    outlier: Option<u64>,
    history: History,
    status: Status,
    limits: Limits,
    sets: Vec<(String, Vec<u32>)>,
}

impl Feed<'_> {
    /// Takes the next interval, with what is looked at alone. After an error, the next one begins
    /// where this one would have.
    fn next(&mut self, part: Option<&Part>) -> Result {
        let reading = self.source.read()?;
        let groups = reading.groups()?;
        let mut interval = match &self.last {
            Some(last) if last.timed.snapshot.time == reading.timed.snapshot.time => return Ok(()),
            Some(last) => reading.since(last),
            None => reading.since_load(),
        };
        let is_wanted = |name: &str| name == self.history.wanted || render::is_default(name);
        interval
            .notes
            .extend(render::off(&interval.window, &is_wanted));
        let limits = self.limits.judge(&reading.timed, groups.as_ref());
        let thresholds = interval.window.names.metrics.iter().filter_map(|it| {
            let text = self.source.text(&format!("threshold_ns/{}", it.name));
            Some((it.name.clone(), text.ok()?.trim().parse().ok()))
        });
        let thresholds: Vec<_> = thresholds.collect();
        let are_set = |(name, ns): (_, Option<u64>)| Some((name, ns?));
        // A copy may lack them.
        let are_known = !thresholds.is_empty() || !self.source.is_live();
        self.status.thresholds =
            are_known.then(|| thresholds.into_iter().filter_map(are_set).collect());
        let rows = self.groups(groups, part);
        let outliers = self.outliers();
        let mut moment = Moment::new(&interval, Rc::new(rows.0), outliers);
        moment.limits = limits;
        let rows = match part {
            Some(Part::Cpus(_, cpus)) => {
                let is_of = |cpu: u32| cpus.contains(&cpu);
                Some(history::rows_of(&interval.window, is_of))
            }
            _ => rows.1,
        };
        moment.part = part.cloned().zip(rows);
        self.history.push(&interval, moment);
        self.status.folds = view::folds(&self.history.cpus, &self.sets);
        self.last = Some(reading);
        Ok(())
    }

    /// Returns what the groups did since the reading before, and how long ago that was; and the
    /// metrics of the group that is looked at alone.
    fn groups(
        &mut self,
        groups: Option<Groups>,
        part: Option<&Part>,
    ) -> (GroupsOfInterval, Option<Vec<Row>>) {
        let last = std::mem::replace(&mut self.groups, groups);
        let Some(groups) = &self.groups else {
            self.status.rule.clear();
            return Default::default();
        };
        self.status.rule.clone_from(&groups.rule);
        let between = GroupWindow::new(last.as_ref(), groups);
        let group = part.and_then(|part| match part {
            Part::Group(name) => groups.groups.iter().find(|group| *group.name == **name),
            Part::Cpus(..) => None,
        });
        let names = self.last.as_ref().map(|last| &last.timed.snapshot.names);
        let rows = group.zip(names).map(|(group, names)| {
            let row = |metric: &schedhist_core::raw::Metric| {
                // Of a metric that groups do not have, there are none.
                let of = group_metric(&metric.name);
                history::row_of(&between.samples(group, of.as_slice()))
            };
            names.metrics.iter().map(row).collect()
        });
        (GroupsOfInterval::new(&between), rows)
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
        let text = self.source.text("outliers").unwrap_or_default();
        let mut all = text::outliers(&text);
        all.sort_by_cached_key(|outlier| outlier.id);
        let newest = all.last().map_or(0, |outlier| outlier.id);
        // Numbers that are all lower belong to another load of the module.
        let last = self.outlier.filter(|last| *last <= newest);
        self.outlier = Some(newest);
        all.retain(|outlier| last.is_none_or(|last| outlier.id > last));
        if !all.is_empty() {
            let text = self.source.text("chains").unwrap_or_default();
            chains::attach(&mut all, &text);
        }
        all
    }
}

/// Shows the live view until `q` or a signal; prints one interval if there is no terminal.
pub fn top(args: &Top, source: &Source) -> Result {
    if let Some(path) = &args.input {
        return replay(path, source, args);
    }
    let limits = Limits::new(args)?;
    let (interval, metric) = (args.interval, &*args.metric);
    show(source, interval, metric, args.ascii, args.once, limits)
}

/// Shows the live view as it is without options.
pub fn live(source: &Source) -> Result {
    let second = Duration::from_secs(1);
    show(source, second, "runq", false, false, Limits::default())
}

/// Returns what the terminal can show, by the environment.
fn look(ascii: bool) -> Look {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    let term = set("TERM").unwrap_or_default();
    let has = |names: &str| names.split(' ').any(|name| term.contains(name));
    let colours = match set("NO_COLOR") {
        Some(_) => Colours::None,
        None if term.contains("-16color") || term.contains("-8color") => Colours::Eight,
        None if set("COLORTERM").is_some() => Colours::Many,
        None if has("256color xterm tmux screen kitty alacritty foot") => Colours::Many,
        None if has("linux color ansi rxvt cygwin putty") => Colours::Eight,
        None => Colours::None,
    };
    Look {
        colours,
        unicode: !ascii && (locale.contains("utf-8") || locale.contains("utf8")),
    }
}

impl<'a> Feed<'a> {
    fn new(source: &'a Source, history: History) -> Self {
        Self {
            source,
            last: None,
            groups: None,
            outlier: None,
            history,
            status: Status::default(),
            limits: Limits::default(),
            sets: Vec::new(),
        }
    }
}

/// Shows a recording.
fn replay(path: &Path, source: &Source, args: &Top) -> Result {
    let (history, rule) = play::history(path, args, Limits::new(args)?)?;
    if !history.names.contains(&args.metric) {
        let why = format!("{} has no metric {}", path.display(), args.metric);
        return Err(Error::usage(why));
    }
    let mut feed = Feed::new(source, history);
    feed.status.folds = view::folds(&feed.history.cpus, &[]);
    feed.status.rule = rule;
    feed.status.is_recording = true;
    let mut choice = Choice::new(&feed.history, &args.metric);
    if args.once || !tty::is_there() {
        return print_once(&feed, &choice, args.ascii);
    }
    choice.back = feed.history.moments.len() - 1;
    watch(&mut feed, choice, args.interval, look(args.ascii))
}

/// Prints the last interval, for a screen of the size that the environment has.
fn print_once(feed: &Feed<'_>, choice: &Choice, ascii: bool) -> Result {
    let mut look = look(ascii);
    look.colours = Colours::None;
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let size = (
        number("COLUMNS").unwrap_or(80_u16).clamp(20, 1000),
        number("LINES").unwrap_or(24).clamp(8, 1000),
    );
    print(&screen::plain(&feed.view(choice, look).draw(size)))
}

fn show(
    source: &Source,
    interval: Duration,
    metric: &str,
    ascii: bool,
    once: bool,
    limits: Limits,
) -> Result {
    let first = source.read()?;
    options::check_metrics(&first.timed.snapshot.names, &[metric.to_owned()])?;
    let history = History {
        kept: KEPT,
        wanted: metric.to_owned(),
        ..History::default()
    };
    let mut feed = Feed::new(source, history);
    feed.limits = limits;
    if source.is_live() {
        feed.sets = caches();
    }
    feed.next(None)?;
    let choice = Choice::new(&feed.history, metric);
    if once || !tty::is_there() {
        Waiter::new()?.is_over_before(Some(Instant::now() + interval));
        feed.next(None)?;
        return print_once(&feed, &choice, ascii);
    }
    watch(&mut feed, choice, interval, look(ascii))
}

/// For how long keys are waited for at least.
const LEAST_WAIT: Duration = Duration::from_millis(5);

/// Shows interval after interval, until the user or a signal ends it.
fn watch(feed: &mut Feed<'_>, mut choice: Choice, mut interval: Duration, look: Look) -> Result {
    let mut tty = Tty::new().at("the terminal")?;
    let mut next = Instant::now() + interval;
    let (mut clock, mut cpu) = (Instant::now(), sys::cpu_time());
    loop {
        feed.status.interval = interval;
        let screen = feed.view(&choice, look).draw(tty::size());
        print(&tty.update(screen).at("the terminal")?)?;
        // Also where an interval is shorter than it takes to show it.
        match tty.wait(next.max(Instant::now() + LEAST_WAIT)) {
            Event::End | Event::Key('\x03') => return Ok(()),
            Event::Key('q') if !choice.is_typing => return Ok(()),
            Event::Resized => {}
            Event::Key(key @ ('+' | '-')) if !choice.is_typing => {
                interval = stepped(interval, key == '+');
                next = Instant::now() + interval;
            }
            Event::Key(key) => choice.press(key, &feed.view(&choice.clone(), look)),
            Event::Mouse(mouse, at) => {
                choice.point(mouse, at, &feed.view(&choice.clone(), look));
            }
            Event::Timeout => {
                next = (next + interval).max(Instant::now());
                match feed.status.is_recording {
                    true if choice.paused => {}
                    true => choice.back = choice.back.saturating_sub(1),
                    false => feed.follow(&mut choice),
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

/// Returns the next longer interval, or the next shorter one.
fn stepped(interval: Duration, longer: bool) -> Duration {
    let all = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
    let mut all = all.map(Duration::from_millis).into_iter();
    let found = match longer {
        true => all.find(|other| *other > interval),
        false => all.rfind(|other| *other < interval),
    };
    found.unwrap_or(interval)
}

impl Feed<'_> {
    /// Takes the next interval. What is looked at stays where it is.
    fn follow(&mut self, choice: &mut Choice) {
        let before = self.history.moments.len();
        let metric = self.history.names.get(choice.metric).cloned();
        let at = self.history.moments.back().map(|moment| moment.unix_ns);
        // A module that is not there is waited for.
        let trouble = self.next(choice.part.as_ref()).err();
        self.status.trouble = trouble.map(|error| match error.remedy {
            Some(remedy) => remedy.to_owned(),
            None => error.to_string(),
        });
        // Others may be on now.
        let mut names = self.history.names.iter();
        let place = names.position(|name| Some(name) == metric.as_ref());
        choice.metric = place.unwrap_or(0);
        let is_new = at != self.history.moments.back().map(|moment| moment.unix_ns);
        if is_new && (choice.paused || choice.back > 0) && before != 0 {
            choice.back = (choice.back + 1).min(self.history.moments.len() - 1);
        }
    }
}

impl Choice {
    fn new(history: &History, metric: &str) -> Self {
        Self {
            metric: history
                .names
                .iter()
                .position(|name| name == metric)
                .unwrap_or(0),
            ..Self::default()
        }
    }

    /// Takes a letter of the filter.
    fn edit(&mut self, key: char) {
        match key {
            '\r' | '\n' => self.is_typing = false,
            '\x1b' => (self.is_typing, self.filter) = (false, String::new()),
            '\x7f' | '\x08' => {
                self.filter.pop();
            }
            key if key.is_ascii_graphic() || key == ' ' => self.filter.push(key),
            _ => {}
        }
        self.places = [0; 3];
    }

    fn press(&mut self, key: char, view: &View<'_>) {
        if self.is_typing {
            return self.edit(key);
        }
        let most = view.history.moments.len().saturating_sub(1);
        match key {
            'j' | tty::DOWN => self.go(1, view),
            'k' | tty::UP => self.go(-1, view),
            'h' | tty::LEFT => self.back = (self.back + 1).min(most),
            'l' | tty::RIGHT => self.back = self.back.saturating_sub(1),
            tty::PAGE_UP => self.back = (self.back + 10).min(most),
            tty::PAGE_DOWN => self.back = self.back.saturating_sub(10),
            tty::HOME => self.back = most,
            tty::END => self.back = 0,
            ' ' => {
                self.paused = !self.paused;
                if !self.paused && !view.status.is_recording {
                    self.back = 0;
                }
            }
            '\t' => self.focus = self.focus.next(),
            's' => self.order = self.order.next(),
            'o' => self.outliers = self.outliers.next(),
            '/' => self.is_typing = true,
            '\r' | '\n' => {
                if let Some(part) = view.selected().filter(|_| !view.status.is_recording) {
                    self.part = Some(part);
                }
            }
            '?' => self.help = !self.help,
            // Out of what one is in, from the innermost on.
            '\x1b' if self.help => self.help = false,
            '\x1b' if self.part.is_some() => self.part = None,
            '\x1b' => self.filter.clear(),
            // For the test that a panic leaves the terminal as it was.
            #[cfg(debug_assertions)]
            '!' => panic!("as asked"),
            _ => {}
        }
    }

    /// Chooses what the mouse points at; with a second click, looks at it alone. The wheel goes
    /// through a list, and on the heat map through the time.
    fn point(&mut self, mouse: Mouse, at: (u16, u16), view: &View<'_>) {
        // What was typed stays.
        self.is_typing = false;
        let shown = view.at(tty::size(), at);
        match (mouse, shown) {
            (Mouse::Right, _) => self.press('\x1b', view),
            (_, None) => {}
            (Mouse::Up, Some(Shown::Heat)) => self.press(tty::LEFT, view),
            (Mouse::Down, Some(Shown::Heat)) => self.press(tty::RIGHT, view),
            (Mouse::Left, Some(Shown::Heat)) => {}
            (_, Some(Shown::Entry(list, place))) => {
                let had_it = std::mem::replace(&mut self.focus, list) == list;
                let step = match mouse {
                    Mouse::Up => -1,
                    Mouse::Down => 1,
                    _ => 0,
                };
                if step != 0 {
                    return self.go(step, view);
                }
                let Some(place) = place else { return };
                if self.choose(place, view) && had_it {
                    self.press('\r', view);
                }
            }
        }
    }

    /// Goes on in the list that has the focus.
    fn go(&mut self, step: isize, view: &View<'_>) {
        let place = match self.focus {
            Focus::Metrics => {
                let all = view.metrics_in_order();
                let Some(place) = all.iter().position(|place| *place == self.metric) else {
                    // It does not pass the filter: begin at the first one that does.
                    self.choose(0, view);
                    return;
                };
                place
            }
            Focus::Cpus => self.places[0],
            Focus::Groups => self.places[1],
            Focus::Outliers => self.places[2],
        };
        self.choose(place.saturating_add_signed(step), view);
    }

    /// Chooses a place of the list that has the focus. Returns whether it was chosen before.
    fn choose(&mut self, place: usize, view: &View<'_>) -> bool {
        let metrics = view.metrics_in_order();
        let (chosen, count) = match self.focus {
            Focus::Metrics => {
                let metric = metrics.get(place).or(metrics.last()).copied();
                return metric.is_some_and(|it| std::mem::replace(&mut self.metric, it) == it);
            }
            Focus::Cpus => (&mut self.places[0], view.cpus_in_order().len()),
            Focus::Groups => (&mut self.places[1], view.groups_in_order().len()),
            Focus::Outliers => (&mut self.places[2], view.outlier_count()),
        };
        let place = place.min(count.saturating_sub(1));
        std::mem::replace(chosen, place) == place
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
