// SPDX-License-Identifier: GPL-2.0

//! Limits with names, such as `runq.p99 of web.service < 5ms`: whether samples keep them.

use crate::{
    distribution::{Distribution, Max, Quantile},
    engine::{format::Escaped, group::records::GroupMetric, metric::ShownMetric},
    groups::{group_metric, GroupWindow},
    raw::Groups,
    units::{nanoseconds, Unit},
    window::Window,
};

/// A limit, such as `runq.p99 of web.service < 5ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub text: String,
    pub metric: String,
    /// `None` is the maximum.
    quantile: Option<Quantile>,
    pub group: Option<String>,
    /// In nanoseconds.
    below: u64,
}

/// What a limit looks like.
pub const FORM: &str = "METRIC.pQUANTILE or METRIC.max, of GROUP if you like, < TIME, \
     as in 'runq.p99 of web.service < 5ms'";

impl Limit {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (what, below) = text.rsplit_once('<')?;
        let (what, group) = match what.trim().split_once(" of ") {
            Some((what, group)) => (what, Some(group.trim().to_owned())),
            None => (what.trim(), None),
        };
        let (metric, figure) = what.trim().split_once('.')?;
        let quantile = match figure {
            "max" => None,
            quantile => Some(Quantile::parse(quantile.strip_prefix('p')?)?),
        };
        Some(Self {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            metric: Some(metric).filter(|it| !it.is_empty())?.to_owned(),
            quantile,
            group: group.filter(|it| !it.is_empty()),
            // A bare number could be any unit.
            below: nanoseconds(below.trim(), "")?.round() as u64,
        })
    }

    /// Returns whether the limit is kept.
    pub fn judge(&self, of: &Samples<'_>) -> Judged {
        let found = of.get(self).and_then(|(samples, lost)| match lost {
            // An exact maximum is that of all samples.
            Some((count, max)) if self.quantile.is_some() || !samples.max.is_exact() => {
                self.figure_without(&samples, count, max)
            }
            _ => {
                let (figure, _, is_kept) = self.figure(&samples)?;
                Ok((Unit::Fitting.max(figure), is_kept))
            }
        });
        let (is_kept, about) = match found {
            Ok((about, is_kept)) => (Some(is_kept), about),
            Err(why) => (None, why),
        };
        Judged {
            text: self.text.clone(),
            is_kept,
            about,
        }
    }

    /// Returns the same where `lost` samples more are in no histogram, none of which is longer than
    /// `max`: if it is the same whether all of them are that long, or as short as can be.
    fn figure_without(
        &self,
        samples: &Distribution,
        lost: u64,
        max: u64,
    ) -> Result<(String, bool), String> {
        let with = |index: usize, max: Max| {
            let mut all = samples.clone();
            // The bucket is one of the scheme.
            let _ = all.add(index as u32, lost);
            all.max = max;
            self.figure(&all)
        };
        let longest = with(samples.scheme.index(max), Max::AtMost(max));
        // A bound of the maximum may be that of a sample that is lost.
        let highest = samples.buckets().last();
        let shortest = with(
            0,
            match highest {
                Some((bounds, _)) if !samples.max.is_exact() => Max::AtMost(bounds.upper),
                _ => samples.max,
            },
        );
        match (longest, shortest) {
            (Ok((figure, _, true)), _) => {
                let most = Unit::Fitting.text(figure.value());
                Ok((format!("at most {most}"), true))
            }
            (_, Ok((_, least, false))) => {
                let least = Unit::Fitting.text(Some(least));
                Ok((format!("at least {least}"), false))
            }
            _ => Err(format!("{lost} samples are in no histogram")),
        }
    }

    /// Returns the figure that is limited, the least that it can be, and whether the limit is kept;
    /// why not, if that cannot be told. A figure is an upper bound: it is above the limit only if
    /// its bucket is.
    fn figure(&self, samples: &Distribution) -> Result<(Max, u64, bool), String> {
        let figure = match self.quantile {
            None => samples.max,
            Some(share) if !samples.supports(share) => {
                return Err(format!("too few samples: {}", samples.count()));
            }
            Some(share) => samples.quantile_upper(share).map_or(Max::None, Max::Exact),
        };
        let Some(value) = figure.value() else {
            return Err("no samples".to_owned());
        };
        let is_exact = self.quantile.is_none() && samples.max.is_exact();
        let scheme = samples.scheme;
        let least = match is_exact {
            true => value,
            false => scheme.bounds(scheme.index(value)).lower,
        };
        match (value < self.below, least >= self.below) {
            (true, _) => Ok((figure, least, true)),
            (_, true) => Ok((figure, least, false)),
            _ => Err(format!(
                "it is from {} to {}",
                Unit::Fitting.text(Some(least)),
                Unit::Fitting.text(Some(value))
            )),
        }
    }

    /// Returns whether a module like this command has the metric.
    pub fn is_known(&self) -> bool {
        match self.group {
            None => ShownMetric::ALL.iter().any(|it| it.name == self.metric),
            Some(_) => group_metric(&self.metric).is_some(),
        }
    }

    /// Returns an expression of Prometheus that is true while the limit is broken: by native
    /// histograms or, where there are none, classic ones. Of a maximum they have the upper bound of
    /// its bucket, all of which is beyond the limit if that bound is a bucket's width above it.
    /// Native buckets divide a power of two by eight unless told otherwise; classic ones end at
    /// powers of two.
    pub fn expression(&self) -> String {
        let (metric, share) = (&self.metric, self.quantile);
        let below = self.below as f64 / 1e9;
        let (share, native_below, classic_below) = match share {
            Some(it) => {
                // Divided by 100, p99.9 would be 0.9990000000000001.
                let share = format!("{}e-2", &it.to_string()[1..]);
                (share.parse().unwrap_or(1.0), below, below)
            }
            None => {
                let next = self.below.checked_next_power_of_two().unwrap_or(u64::MAX);
                (1.0, below * 2_f64.powf(0.125), next as f64 / 1e9)
            }
        };
        let (name, labels) = match &self.group {
            None => (format!("schedhist_{metric}_seconds"), String::new()),
            Some(group) => {
                let pattern = match forms(group) {
                    [given, escaped] if given == escaped => pattern(&given),
                    all => format!("({})", all.map(|name| pattern(&name)).join("|")),
                };
                let labels = format!("{{group=~\"(.*/)?{pattern}\"}}");
                (format!("schedhist_group_{metric}_seconds"), labels)
            }
        };
        // The instance is what tells machines apart.
        let quantile = |by: &str, suffix: &str| {
            let rate = format!("rate({name}{suffix}{labels}[5m])");
            format!("histogram_quantile({share}, sum by (instance{by}) ({rate}))")
        };
        let (native, classic) = (quantile("", ""), quantile(", le", "_bucket"));
        format!("{native} >= {native_below} or ({classic} >= {classic_below} unless {native})")
    }
}

/// Returns the name of a group as it is given, and as the module writes it if what is given is not
/// escaped: as systemd's `\x2d`.
fn forms(name: &str) -> [String; 2] {
    [name.to_owned(), Escaped(name.as_bytes()).to_string()]
}

/// Returns a regular expression of Prometheus for a name, to be put in quotation marks.
fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    for c in name.chars() {
        match c {
            '\\' => pattern += "\\\\\\\\",
            '"' => pattern += "\\\"",
            c if ".+*?()|[]{}^$".contains(c) => pattern += &format!("\\\\{c}"),
            c => pattern.push(c),
        }
    }
    pattern
}

/// What became of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub text: String,
    /// `None` if that cannot be told.
    pub is_kept: Option<bool>,
    /// The figure, or why it cannot be told.
    pub about: String,
}

impl Judged {
    /// Returns the verdict in a word.
    pub fn word(&self) -> &'static str {
        match self.is_kept {
            Some(true) => "kept",
            Some(false) => "BROKEN",
            None => "unknown",
        }
    }
}

/// The samples of a part of the time.
pub struct Samples<'a> {
    /// What the CPUs did, part by part.
    pub windows: &'a [Window],
    /// The groups at both ends, part by part; without those of the beginning, since they began.
    pub groups: Vec<(Option<&'a Groups>, &'a Groups)>,
    /// Whether they were recorded: groups then have histograms of `runq` alone.
    pub are_recorded: bool,
}

impl Samples<'_> {
    /// Returns the samples that a limit is of; and how many more are in no histogram, if any, with
    /// the longest that one of them can be.
    fn get(&self, limit: &Limit) -> Result<(Distribution, Option<(u64, u64)>), String> {
        let Some(name) = &limit.group else {
            let all = self.windows.iter().map(|window| {
                let metric = window.names.metric(&limit.metric);
                metric.map(|metric| window.distribution(metric, &|_| true))
            });
            let all = all.collect::<Option<Vec<_>>>();
            let sum = Distribution::sum(all.into_iter().flatten())?;
            let sum = sum.ok_or_else(|| format!("there is no metric {}", limit.metric));
            return Ok((sum?, None));
        };
        let metric = group_metric(&limit.metric);
        let metric = metric.ok_or_else(|| format!("groups have no {}", limit.metric))?;
        if self.are_recorded && metric != GroupMetric::Runq {
            return Err("of groups, recordings have only histograms of runq".to_owned());
        }
        if self.groups.is_empty() {
            return Err("tasks are not grouped: schedhist ctl group_by cgroup".to_owned());
        }
        // As systemctl does, by the last part of the path.
        let names = forms(name);
        let is_it = |whole: &str| {
            let last = whole.rsplit('/').next().unwrap_or(whole);
            names.iter().any(|it| it == whole || it == last)
        };
        let (mut all, mut lost, mut max) = (Vec::new(), 0_u64, 0);
        for (old, new) in &self.groups {
            let between = GroupWindow::new(*old, new);
            for group in new.groups.iter().filter(|group| is_it(&group.name)) {
                let mut samples = between.samples(group, &[metric]);
                let more = between.not_in_histogram(group, &[metric]);
                let most = group.samples[metric as usize].max;
                // All of them may be lost.
                if more != 0 && samples.max == Max::None {
                    samples.extend_max(Max::AtMost(most), None);
                }
                all.push(samples);
                lost = lost.saturating_add(more);
                max = max.max(most);
            }
        }
        let sum = Distribution::sum(all.into_iter())?;
        let lost = (lost != 0).then_some((lost, max));
        Ok((sum.ok_or("there is no such group")?, lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_people_write_them() {
        let limit = Limit::parse("runq.p99  of web.service < 5ms").unwrap();
        assert_eq!(limit.text, "runq.p99 of web.service < 5ms");
        assert_eq!(
            (limit.below, limit.group.as_deref()),
            (5_000_000, Some("web.service"))
        );
        assert_eq!(
            limit.expression(),
            "histogram_quantile(0.99, sum by (instance) (rate(schedhist_group_runq_seconds\
             {group=~\"(.*/)?web\\\\.service\"}[5m]))) >= 0.005 or \
             (histogram_quantile(0.99, sum by (instance, le) (rate(schedhist_group_runq_seconds_bucket\
             {group=~\"(.*/)?web\\\\.service\"}[5m]))) >= 0.005 \
             unless histogram_quantile(0.99, sum by (instance) (rate(schedhist_group_runq_seconds\
             {group=~\"(.*/)?web\\\\.service\"}[5m]))))"
        );
        for (text, share) in [
            ("runq.p99.9 < 1s", "(0.999,"),
            ("runq.p99.99 < 1s", "(0.9999,"),
            ("runq.p100 < 1s", "(1,"),
        ] {
            let expression = Limit::parse(text).unwrap().expression();
            assert!(expression.contains(share), "{expression}");
        }
        let limit = Limit::parse("runq.p99 of a<b < 5ms").unwrap();
        assert_eq!(limit.group.as_deref(), Some("a<b"));
        let limit = Limit::parse(r"runq.p9 of a\x2db < 1s").unwrap();
        let pattern = r#"{group=~"(.*/)?(a\\\\x2db|a\\\\x5cx2db)"}"#;
        assert!(limit.expression().contains(pattern), "{limit:?}");
        let known = [
            "runk.p9 < 1s",
            "runq_wakeup.max < 1s",
            "runq.p9 of a < 1s",
            "idle.p9 of a < 1s",
        ];
        let known = known.map(|text| Limit::parse(text).unwrap().is_known());
        assert_eq!(known, [false, true, true, false]);
        let limit = Limit::parse("offcpu.max<1s").unwrap();
        assert_eq!((limit.quantile, limit.below), (None, 1_000_000_000));
        let wrong = "runq|runq.p99|runq.p99 < 5|runq.p0 < 5ms|runq.99 < 5ms|.p9 < 5ms|\
            runq.p99 > 5ms|runq.p99 < 5ms of web|runq.mean < 5ms";
        for wrong in wrong.split('|') {
            assert_eq!(Limit::parse(wrong), None, "{wrong}");
        }
    }
}
