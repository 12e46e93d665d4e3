// SPDX-License-Identifier: GPL-2.0

//! The part of a recording that the user chose.

use std::{path::Path, time::Duration};

use chrono::{Days, Local, NaiveDate, NaiveTime};

use schedhist_core::units::nanoseconds;

use crate::{
    cli::When,
    error::{Error, Result},
    options::Parsed,
    recordings::reader::{self, Event, Losses},
    sys::local,
};

/// A part of a recording, in nanoseconds since its first snapshot.
pub type Range = (u64, u64);

pub const WHOLE: Range = (0, u64::MAX);

impl When {
    /// Returns the option that the user gave.
    pub fn option(&self) -> Option<&'static str> {
        let last = self.last.map(|_| "last");
        last.or(self.time.map(|_| "time"))
    }
}

const SECOND: u64 = 1_000_000_000;

/// A moment as people say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// In nanoseconds since the first snapshot.
    Since(u64),
    /// By the local clock; without a date, of the last day.
    Clock(Option<NaiveDate>, NaiveTime),
}

/// From when to when: `None` is the beginning, or the end.
pub type Times = (Option<Moment>, Option<Moment>);

/// Parses `A,B`, either of which may be empty.
pub fn times(text: &str) -> Parsed<Times> {
    let parse = |text: &str| match text {
        "" => Some(None),
        text => moment(text).map(Some),
    };
    let parsed = text
        .split_once(',')
        .and_then(|(a, b)| Some((parse(a)?, parse(b)?)));
    parsed
        .filter(|times| match times {
            (Some(Moment::Since(a)), Some(Moment::Since(b))) => a <= b,
            (None, None) => false,
            _ => true,
        })
        .ok_or_else(|| {
            "two times A,B, in seconds, with a unit, or as 14:00 or 2026-01-31T14:00:30".to_owned()
        })
}

fn moment(text: &str) -> Option<Moment> {
    let numbers = |text: &str, separator| -> Option<Vec<u32>> {
        let words = text.split(separator);
        words.map(|word| word.parse().ok()).collect()
    };
    if !text.contains(':') {
        return Some(Moment::Since(nanoseconds(text, "s")?.round() as u64));
    }
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (Some(numbers(date, '-')?), time),
        None => (None, text),
    };
    let date = match date.as_deref() {
        None => None,
        Some([year, month, day]) => {
            let year = i32::try_from(*year).ok()?;
            Some(NaiveDate::from_ymd_opt(year, *month, *day)?)
        }
        Some(_) => return None,
    };
    let time = match numbers(time, ':')?[..] {
        [hour, minute] => NaiveTime::from_hms_opt(hour, minute, 0),
        [hour, minute, second] => NaiveTime::from_hms_opt(hour, minute, second),
        _ => None,
    };
    Some(Moment::Clock(date, time?))
}

/// When a snapshot was taken, in nanoseconds since 1970, and since the first one of the recording.
type SnapshotTime = (u64, u64);

/// Returns an error if an option needs a recording to be read twice, and it is no file.
pub fn check_file(option: &str, path: &Path) -> Result {
    if path.exists() && !path.is_file() {
        let path = path.display();
        let why = format!("--{option}: the recording is read twice, and {path} is no file");
        return Err(Error::usage(why));
    }
    Ok(())
}

/// Returns the part of `path` that the user chose. Reads the recording to its end if only that
/// tells.
pub fn chosen(when: &When, path: &Path) -> Result<Range> {
    let Some(option) = when.option() else {
        return Ok(WHOLE);
    };
    let since = |moment: Option<Moment>, none| match moment {
        None => Some(none),
        Some(Moment::Since(ns)) => Some(ns),
        Some(Moment::Clock(..)) => None,
    };
    let (from, to) = when.time.unwrap_or_default();
    let range = since(from, WHOLE.0).zip(since(to, WHOLE.1));
    if let Some(range) = range.filter(|_| when.last.is_none()) {
        return Ok(range);
    }
    check_file(option, path)?;
    let (taken, lost) = snapshots(path)?;
    match range_of(when, path, &taken) {
        Err(why) => {
            // Otherwise the second reading does.
            lost.note();
            Err(why)
        }
        range => range,
    }
}

/// Returns the part that the user chose among the snapshots of a recording.
fn range_of(when: &When, path: &Path, taken: &[SnapshotTime]) -> Result<Range> {
    let (from, to) = when.time.unwrap_or_default();
    // Without intervals, whoever reads them says so.
    let (Some(first), Some(end)) = (taken.first(), taken.last()) else {
        return Ok(WHOLE);
    };
    if let Some(last) = when.last {
        return Ok((begin_of_last(taken, last), WHOLE.1));
    }
    let begin = match from {
        None => Some(first.0),
        Some(Moment::Since(ns)) => taken
            .iter()
            .find(|(_, at)| *at >= ns)
            .map(|(unix, _)| *unix),
        Some(Moment::Clock(date, time)) => last_until(date, time, first.0, end.0)?,
    };
    let first_within = taken
        .iter()
        .find(|(unix, _)| begin.is_some_and(|begin| *unix >= begin));
    let (to, until) = match to {
        None => (Some(WHOLE.1), Some(end.0)),
        Some(Moment::Since(ns)) => (Some(ns), Some(end.0)),
        Some(Moment::Clock(date, time)) => {
            let until = first_after(date, time, begin.unwrap_or(end.0))?;
            let last = taken.iter().rfind(|(unix, _)| *unix <= until);
            (last.map(|(_, at)| *at), Some(until))
        }
    };
    let range = first_within.map(|(_, at)| *at).zip(to);
    match range.filter(|(from, to)| from < to) {
        Some(range) => Ok(range),
        None => {
            let is_inside = begin.is_some_and(|begin| begin <= end.0) && until >= Some(first.0);
            let what = match is_inside && begin <= until {
                true => "no interval is within these times: ",
                false => "",
            };
            let (first, last) = (shown(first.0), shown(end.0));
            let why = format!(
                "{what}the snapshots of {} are from {first} to {last}",
                path.display()
            );
            Err(Error::at("--time", why))
        }
    }
}

fn snapshots(path: &Path) -> Result<(Vec<SnapshotTime>, Losses)> {
    let mut taken = Vec::new();
    let lost = reader::walk_quietly(path, |event| {
        if let Event::Pair(pair) = event {
            let (begin, end) = pair.at;
            if taken.last().is_none_or(|(_, at)| *at != begin) {
                taken.push((pair.before.unix_ns, begin));
            }
            taken.push((pair.after.unix_ns, end));
        }
        Ok(())
    })?;
    Ok((taken, lost))
}

/// Returns where the last part begins that has at least this length.
fn begin_of_last(taken: &[SnapshotTime], length: Duration) -> u64 {
    let end = taken.last().map_or(0, |(_, at)| *at);
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let begin = end.saturating_sub(length);
    taken
        .iter()
        .rfind(|(_, at)| *at <= begin)
        .map_or(0, |(_, at)| *at)
}

/// Returns when it was this time on a day, in nanoseconds since 1970: twice if the clock was put
/// back.
fn on(date: NaiveDate, time: NaiveTime) -> Vec<u64> {
    let local = date.and_time(time).and_local_timezone(Local);
    let both = [local.earliest(), local.latest()].into_iter().flatten();
    let mut all: Vec<_> = both
        .filter_map(|local| u64::try_from(local.timestamp()).ok()?.checked_mul(SECOND))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn no_such_time(date: NaiveDate, time: NaiveTime) -> Error {
    let why = format!("there is no such time as {}", date.and_time(time));
    Error::at("--time", why)
}

/// Returns the last such time up to `end`. Without a date, it is of a day of the recording.
fn last_until(
    date: Option<NaiveDate>,
    time: NaiveTime,
    first: u64,
    end: u64,
) -> Result<Option<u64>> {
    let last = |date| on(date, time).into_iter().rfind(|ns| *ns <= end);
    if let Some(date) = date {
        let all = on(date, time);
        let is_none = all.is_empty();
        let found = last(date).or(all.first().copied());
        return if is_none {
            Err(no_such_time(date, time))
        } else {
            Ok(found)
        };
    }
    let day = local(end).date_naive();
    let is_past = day.and_time(time) <= local(end).naive_local();
    if is_past && on(day, time).is_empty() {
        return Err(no_such_time(day, time));
    }
    let before = day - Days::new(1);
    let before = Some(before).filter(|day| *day >= local(first).date_naive());
    let before = || before.and_then(last).filter(|ns| *ns >= first);
    Ok(last(day).or_else(before))
}

/// Returns the first such time from `begin` on.
fn first_after(date: Option<NaiveDate>, time: NaiveTime, begin: u64) -> Result<u64> {
    let day = date.unwrap_or_else(|| local(begin).date_naive());
    let all = on(day, time);
    let is_ahead = date.is_some() || day.and_time(time) >= local(begin).naive_local();
    let next = || on(day + Days::new(1), time).first().copied();
    let found = match all.iter().find(|ns| **ns >= begin).or(all.last()) {
        None if is_ahead => None,
        Some(ns) if date.is_some() || *ns >= begin => Some(*ns),
        _ => next(),
    };
    found.ok_or_else(|| no_such_time(day, time))
}

/// Returns a time of the local clock as if there were no time zones, in nanoseconds since 1970.
pub fn local_ns(unix_ns: u64) -> u64 {
    let local = local(unix_ns).naive_local().and_utc();
    local.timestamp_nanos_opt().map_or(0, |ns| ns.max(0) as u64)
}

/// Returns the offset of the local clock from UTC at a time.
pub fn zone(unix_ns: u64) -> String {
    local(unix_ns).format("UTC%:z").to_string()
}

/// Returns a time as the user may give it.
pub fn shown(unix_ns: u64) -> String {
    local(unix_ns).format("%Y-%m-%dT%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let since = |ns| Some(Moment::Since(ns));
        assert_eq!(times("1,2m"), Ok((since(SECOND), since(120 * SECOND))));
        assert_eq!(times(",500ms"), Ok((None, since(SECOND / 2))));
        assert_eq!(times("2,"), Ok((since(2 * SECOND), None)));
        let clock = |date, hour, minute, second| {
            let time = NaiveTime::from_hms_opt(hour, minute, second).unwrap();
            Some(Moment::Clock(date, time))
        };
        let day = NaiveDate::from_ymd_opt(2026, 11, 27);
        let both = (clock(None, 14, 0, 0), clock(day, 9, 5, 59));
        assert_eq!(times("14:00,2026-11-27 09:05:59"), Ok(both));
        assert_eq!(times("14:00,2026-11-27T9:5:59"), Ok(both));
        let wrong =
            "|1|2,1|1,2,3|14:,|24:00,|14:60,|14:00:61,|14:00:00:00,|:,|26-11,|2026-11T14:00,|\
            2026-02-30T14:00,|yesterday 14:00,|-1:00,";
        for text in wrong.split('|') {
            assert!(times(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_part() {
        let taken = [(0, 0), (0, 10), (0, 20), (0, 35)];
        let begin = |ns| begin_of_last(&taken, Duration::from_nanos(ns));
        assert_eq!(
            (begin(1), begin(15), begin(16), begin(25)),
            (20, 20, 10, 10)
        );
        assert_eq!((begin(26), begin(35), begin(1_000)), (0, 0, 0));
        assert_eq!(begin_of_last(&[], Duration::ZERO), 0);
    }

    #[test]
    fn times_of_day() {
        let noon = NaiveDate::from_ymd_opt(2026, 11, 27)
            .unwrap()
            .and_hms_opt(12, 0, 0);
        let noon = noon.unwrap().and_local_timezone(Local).earliest().unwrap();
        let end = noon.timestamp() as u64 * SECOND;
        let hour = 3_600 * SECOND;
        let clock = |text: &str| match moment(text) {
            Some(Moment::Clock(date, time)) => (date, time),
            _ => panic!("{text}"),
        };
        let of = |text: &str, from: Option<u64>| {
            let (date, time) = clock(text);
            match from {
                None => last_until(date, time, end - 24 * hour, end).unwrap(),
                Some(from) => Some(first_after(date, time, from).unwrap()),
            }
        };
        assert_eq!(of("11:00", None), Some(end - hour));
        assert_eq!(of("12:00", None), Some(end));
        // Not before the end today, so yesterday; after a beginning, the next one.
        assert_eq!(of("13:00", None), Some(end - 23 * hour));
        assert_eq!(of("13:00", Some(end - hour)), Some(end + hour));
        assert_eq!(of("10:00", Some(end - hour)), Some(end + 22 * hour));
        assert_eq!(of("2026-11-26T12:00", Some(end)), Some(end - 24 * hour));
        // The recording has no yesterday, or begins later on that day.
        let (_, time) = clock("13:00");
        assert_eq!(last_until(None, time, end - hour, end).unwrap(), None);
        assert_eq!(last_until(None, time, end - 22 * hour, end).unwrap(), None);
    }
}
