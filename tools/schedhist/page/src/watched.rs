// SPDX-License-Identifier: GPL-2.0

//! The stacks of outliers, as `watch -j --stacks` prints them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Stacks, innermost frame first, by number and duration of the outlier: numbers begin anew with
/// each load of the module.
pub type Watched = BTreeMap<(u64, u64), Vec<String>>;

#[derive(Deserialize)]
struct Outlier {
    id: u64,
    duration_ns: u64,
    stack: Vec<String>,
}

/// Parses JSON Lines. Ignores what has no stack.
pub fn parse(text: &str) -> Watched {
    let outliers = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    outliers
        .map(
            |Outlier {
                 id,
                 duration_ns,
                 stack,
             }| ((id, duration_ns), stack),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;
    use serde_json::json;

    #[test]
    fn stacks_of_outliers() {
        let frames = ["__schedule+0x1", "a \"b\\\u{1}", "c"];
        let line = |id: u64, stack: serde_json::Value| {
            let comm = "\"stack\":[\"x\"]";
            json!({"schema": "x", "id": id, "duration_ns": id * 10, "comm": comm, "stack": stack})
        };
        let text = [
            line(1, json!(frames)).to_string(),
            line(2, json!(null)).to_string(),
            line(3, json!([])).to_string(),
            json!({"id": 4, "duration_ns": 40}).to_string(),
            "{\"stack\":[\"cut off".to_owned(),
        ]
        .join("\n");
        let stacks = parse(&text);
        assert_eq!(stacks[&(1, 10)], frames);
        assert_eq!(stacks.len(), 2, "{stacks:?}");
        assert!(stacks[&(3, 30)].is_empty());
    }
}
