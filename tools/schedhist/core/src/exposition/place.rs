// SPDX-License-Identifier: GPL-2.0

//! What the path of a cgroup tells of the service, the pod and the container of its tasks.

use super::families::Labels;

/// Returns labels for what the name of a group tells, if that is a path; of several of a kind, for
/// the innermost.
pub fn labels(name: &str) -> Labels {
    let (mut service, mut pod, mut container) = (None, None, None);
    let parts = name.strip_prefix('/').map(|path| path.split('/'));
    for part in parts.into_iter().flatten() {
        let (stem, kind) = part.rsplit_once('.').unwrap_or((part, ""));
        match kind {
            "service" => service = Some(stem.to_owned()),
            // By the kubelet's driver for systemd, which has no `-` for the name.
            "slice" if stem.starts_with("kubepods") => {
                pod = stem
                    .rsplit_once("-pod")
                    .map(|(_, uid)| uid.replace('_', "-"))
                    .or(pod);
            }
            "" => {
                pod = part
                    .strip_prefix("pod")
                    .filter(|uid| is_uid(uid))
                    .map(str::to_owned)
                    .or(pod)
            }
            _ => {}
        }
        // Of `cri-containerd-ID.scope` and the like, but not of its monitor or a folder of its own.
        let id = match kind {
            "scope" => stem
                .rsplit_once('-')
                .filter(|(of, _)| !of.ends_with("conmon"))
                .map(|(_, id)| id),
            "" => Some(part),
            _ => None,
        };
        container = id
            .filter(|id| is_container(id))
            .map(str::to_owned)
            .or(container);
    }
    let all = [
        ("service", service),
        ("pod_uid", pod),
        ("container_id", container),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_uid(text: &str) -> bool {
    (32..=36).contains(&text.len()) && text.bytes().all(|byte| byte == b'-' || is_hex(byte))
}

fn is_container(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let (id, uid) = (
            "0123456789abcdef".repeat(4),
            "8c1d1b5e-0000-4000-8000-0123456789ab",
        );
        let below = uid.replace('-', "_");
        for (name, wanted) in [
            ("/system.slice/nginx.service".to_owned(), [Some("nginx"), None, None]),
            ("/user.slice/user-1.slice/user@1.service/app.slice/a.service/b".to_owned(), [Some("a"), None, None]),
            (
                format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{below}.slice/cri-containerd-{id}.scope"),
                [None, Some(uid), Some(&id)],
            ),
            (format!("/kubepods/besteffort/pod{uid}/{id}"), [None, Some(uid), Some(&id)]),
            (format!("/kubepods/pod{uid}"), [None, Some(uid), None]),
            (format!("/system.slice/docker-{id}.scope/init"), [None, None, Some(&id)]),
            (format!("/machine.slice/libpod-conmon-{id}.scope"), [None; 3]),
            (format!("/docker/{id}"), [None, None, Some(&id)]),
            ("/kubepods.slice/kubepods-burstable.slice".to_owned(), [None; 3]),
            (format!("/user.slice/session-2.scope/{}/podcast", &id[1..]), [None; 3]),
            // By other rules than `cgroup`.
            ("a.service".to_owned(), [None; 3]),
        ] {
            let names = ["service", "pod_uid", "container_id"].into_iter().zip(wanted);
            let wanted = names.filter_map(|(name, value)| Some((name, value?.to_owned())));
            assert_eq!(labels(&name), wanted.collect::<Vec<_>>(), "{name}");
        }
    }
}
